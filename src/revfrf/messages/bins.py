"""Messages of training from books of cuts."""

from typing import Annotated

import msgspec
import numpy as np

from revfrf.crypto.encoding import Ring
from revfrf.errors import FormatError
from revfrf.forest.kernel import Positions
from revfrf.messages.base import MIB, Count, Digest, Id, Message, Name, Signature, array

PIECE = 8 * MIB
"""Bytes of bins in one reply; more follow in the next ones."""

COLUMNS = "<u2"  # the type of numbers of columns

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FeatureId = Annotated[str, msgspec.Meta(min_length=3, max_length=400)]


class FeatureLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an owner signs of a column that it brings to a forest: everything that its bins mean.

    `published` is the digest of what it publishes of the column, `rows` that of the rows' numbers, `bins`
    that of a salt and the bins. `epoch` is the one in which the bins were sent. `epsilon` is that of the
    bins' noise, in millionths; None is no noise. With `forget`, CS has to erase salt and bins as soon as the
    forest is grown.
    """

    feature: FeatureId
    epoch: Count
    generation: Count
    ring: Ring
    decimals: Annotated[int, msgspec.Meta(ge=0, le=18)]
    published: Digest
    rows: Digest
    n_cuts: Annotated[int, msgspec.Meta(ge=0, le=255)]
    epsilon: Annotated[int, msgspec.Meta(ge=1, le=32_000_000)] | None
    forget: bool
    bins: Digest
    signature: Signature


class BinsRequest(Message, frozen=True):
    """CS to an owner: the bins of a table's rows in these of your columns, from this byte on.

    The bytes are those of one column after the other. `rows` is the digest of the rows' numbers, which the
    owner knows.
    """

    protocol = "FLE-Expan"
    epoch: Count
    forest: Id
    table: Name
    rows: Digest
    columns: bytes
    offset: Offset


class SaltedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line with the salt of its digest of the bins, for CS alone."""

    line: FeatureLine
    salt: Digest


class BinsReply(Message, frozen=True):
    """An owner to CS: bins, and with the first of the training rows what it signs of each column."""

    protocol = "FLE-Expan"
    max_bytes = PIECE + 64 * MIB
    lines: tuple[SaltedLine, ...]
    data: bytes

    def discloses(self) -> dict[str, int]:
        """One bin per row and column."""
        return {"bins of rows": len(self.data)}


def column_numbers(data: bytes, n_columns: int) -> Positions:
    """Return the numbers of columns in a message. Raises FormatError for what is none, and for one twice."""
    numbers = array(data, COLUMNS).astype(np.intp)
    if (numbers >= n_columns).any() or (np.diff(numbers) <= 0).any():
        raise FormatError("columns that do not exist, or out of order")
    return numbers
