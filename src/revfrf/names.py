"""Roles by their names, and names of participants and requesters, as users give them."""

import unicodedata
from typing import Final, Literal

from revfrf.errors import UsageError

KGC: Final = "KGC"
CS: Final = "CS"
CC: Final = "CC"
PARTICIPANT: Final = "participant"
REQUESTER: Final = "requester"
Role = Literal["KGC", "CS", "CC", "participant", "requester"]
SERVERS: Final = (KGC, CS, CC)
"""Roles that one party has, which is called as its role."""

DEFAULT_REQUESTER = "requester"
RESERVED = (*SERVERS, DEFAULT_REQUESTER)
"""Names that no participant may have."""


def check_name(what: str, name: object) -> None:
    """Raise UsageError for what is no name of a participant or requester, nor of a federation."""
    printable = isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()
    if not printable or "/" in str(name) or "->" in str(name):
        raise UsageError(
            f"{what} {name!r}: a name is a string of 1 to 100 characters without '/', '->' and line breaks"
        )
    text = str(name)
    if text != unicodedata.normalize("NFKC", text).strip() or not text.strip("."):
        raise UsageError(
            f"{what} {name!r}: a name looks like no other: no spaces around it, no dots alone, and its "
            "characters in their plain form (Unicode NFKC)"
        )
    if text.casefold() in {reserved.casefold() for reserved in RESERVED}:
        raise UsageError(f"{what} {name!r}: {', '.join(RESERVED)} are names that RevFRF itself uses")
