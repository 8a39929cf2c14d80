"""Messages by which CS and the participants agree on rows."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from revfrf.errors import FormatError
from revfrf.forest.kernel import Ints
from revfrf.messages.base import MIB, Count, Message, array, once
from revfrf.record import Record

TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]

NUMBERS = "<i8"  # the type of numbers of rows


class NumberedRows(Record, frozen=True):
    """The rows of a table as a party knows them: their numbers, ascending, and its own ids of them.

    A row keeps its number for the table's life, and no number is used twice. `ids` has a line for each row,
    which is empty if the party lacks the row.
    """

    numbers: bytes
    ids: str

    @classmethod
    def of(cls, numbers: Ints, ids: Sequence[str]) -> "NumberedRows":
        """Return the rows with these numbers and ids; an id is "" for a row that the party lacks."""
        return cls(numbers.astype(NUMBERS).tobytes(), "\n".join(ids))

    def __len__(self) -> int:
        return len(self.numbers) // 8

    def read(self, most: int) -> tuple[Ints, list[str]]:
        """Return the numbers and the ids. Raises FormatError for what no table has.

        More than `most` rows are refused before they take memory.
        """
        if len(self) > most:
            raise FormatError(f"{len(self):,} rows; there can be {most:,}", kind="too-large")
        numbers = array(self.numbers, NUMBERS, self.ids.count("\n") + 1).astype(np.int64)
        if (numbers < 0).any() or (np.diff(numbers) <= 0).any():
            raise FormatError("numbers of rows below zero, or out of order", kind="out-of-range")
        return numbers, self.ids.split("\n")


class SchemaRequest(Message, frozen=True):
    """CS to a participant: which columns do you have, and how many rows?"""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count


class MatchRequest(Message, frozen=True):
    """CS to a participant: blinded ids. Which of them do you have, too?"""

    protocol = "matching"
    max_bytes = 512 * MIB
    discloses = once("numbers of ids asked about")
    epoch: Count
    table: TableName
    blinded: bytes


class MatchReply(Message, frozen=True):
    """A participant to CS: its own ids blinded, and CS's blinded once more."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    discloses = once("answers to which ids are common")  # and how many others there are
    own: bytes
    twice: bytes


class Align(Message, frozen=True):
    """CS to a participant: the rows of a table, by number, with the ids of those that you have."""

    protocol = "matching"
    max_bytes = 1024 * MIB
    epoch: Count
    table: TableName
    rows: NumberedRows

    def discloses(self) -> dict[str, int]:
        """Which of its ids CS has; of other rows, that they exist."""
        shared = sum(map(bool, self.rows.ids.split("\n")))
        return {"ids that all have": shared, "numbers of rows": len(self.rows)}


class Drop(Message, frozen=True):
    """CS to a participant: forget a table that is no longer asked about."""

    protocol = "matching"
    max_bytes = 1024
    epoch: Count
    table: TableName
