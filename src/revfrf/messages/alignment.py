"""Messages by which CS and the participants agree on rows."""

from typing import Annotated

import msgspec

from revfrf.messages.base import MIB, Count, Message

TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class SchemaRequest(Message, frozen=True):
    """CS to a participant: which columns do you have, and how many rows?"""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count


class MatchRequest(Message, frozen=True):
    """CS to a participant: blinded ids. Which of them do you have, too?"""

    protocol = "matching"
    max_bytes = 512 * MIB
    epoch: Count
    table: TableName
    blinded: bytes

    def discloses(self) -> dict[str, int]:
        """How many ids CS asks about."""
        return {"numbers of ids asked about": 1}


class MatchReply(Message, frozen=True):
    """A participant to CS: its own ids blinded, and CS's blinded once more."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    own: bytes
    twice: bytes

    def discloses(self) -> dict[str, int]:
        """Which of the ids that CS asked about it has, and how many others."""
        return {"answers to which ids are common": 1}


class Align(Message, frozen=True):
    """CS to a participant: the rows of a table, by the ids that everybody has."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    epoch: Count
    table: TableName
    ids: tuple[str, ...]

    def discloses(self) -> dict[str, int]:
        """Which of its rows all others have, too."""
        return {"ids that all have": len(self.ids)}


class Drop(Message, frozen=True):
    """CS to a participant: forget a table that is no longer asked about."""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count
    table: TableName
