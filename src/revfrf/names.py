"""Roles by their names, names of participants and requesters as users give them, and addresses."""

import re
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

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


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


def check_address(address: str, least: int = 1) -> None:
    """Raise UsageError for what is no host and port, from `least` on: where 0 may stand, any is taken."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or not least <= int(parts[2]) < 2**16:
        raise UsageError(f"address {address!r}: give host and port, like cs.example.org:8470 or [::1]:8470")
