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
Protocol = Literal["shares", "paper"]
"""How the forests of a federation are trained and asked, for all of its life."""

SERVERS: Final = (KGC, CS, CC)
"""Roles with exactly one party, which is named after its role."""

DEFAULT_REQUESTER = "requester"
RESERVED = (*SERVERS, DEFAULT_REQUESTER)
"""Names that no participant may have."""

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def check_name(what: str, name: object) -> None:
    """Raise UsageError unless this can name a participant, a requester or a federation."""
    printable = isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()
    if not printable or "/" in str(name) or "->" in str(name):
        raise UsageError(
            f"{what} {name!r}: a name is a string of 1 to 100 characters without '/', '->' and line breaks"
        )
    text = str(name)
    if text != unicodedata.normalize("NFKC", text).strip() or not text.strip("."):
        raise UsageError(
            f"{what} {name!r}: invalid name: no leading or trailing spaces, not only dots, Unicode in NFKC "
            "form"
        )
    if text.casefold() in {reserved.casefold() for reserved in RESERVED}:
        raise UsageError(f"{what} {name!r}: {', '.join(RESERVED)} are reserved names")


def check_address(address: str, least: int = 1) -> None:
    """Raise UsageError unless this is a host and a port of at least `least`; port 0 takes any."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or not least <= int(parts[2]) < 2**16:
        raise UsageError(f"address {address!r}: give host and port, like cs.example.org:8470 or [::1]:8470")
