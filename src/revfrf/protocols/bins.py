"""Bins: once per column, its owner draws a book of cuts and sends CS one bin for each row::

    CS     which columns of which rows, from which byte on    ->  τ   draws a book for each column, once
    τ      what the bins mean, signed; salts and bins         ->  CS  checks, and keeps them

A book never leaves its owner. CS sees one bin per row and column, at a resolution that the owner chooses. A
transfer that is cut off goes on at the byte where it was.
"""

import hashlib
import secrets
from collections.abc import Sequence

import numpy as np

from revfrf.crypto.canonical import digest
from revfrf.crypto.encoding import missing
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import FormatError, ProtocolError
from revfrf.forest.books import bins_of, draw_book
from revfrf.forest.kernel import Bytes, Ints
from revfrf.forest.tree import feature_id
from revfrf.messages.bins import COLUMNS, PIECE, BinsReply, BinsRequest, FeatureLine, column_numbers, runs_of
from revfrf.messages.fle_expan import Column, OpenForest
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.signed import sign, verify
from revfrf.protocols.sides import TRAINING, Plan
from revfrf.storage.memory import Arriving, Book, CoordinatorStore, StoredBins
from revfrf.transport.base import Channel

SALT_BYTES = 32

_LINE = "revfrf feature v1"


def rows_digest(numbers: Ints) -> bytes:
    """Return the digest of the numbers of a forest's rows."""
    return digest("revfrf rows v1", numbers.astype("<i8").tobytes())


def bins_digest(salt: bytes, bins: bytes) -> bytes:
    """Return the digest of a column's bins; nobody can guess them from it without the salt."""
    return digest("revfrf bins v1", salt, hashlib.sha256(bins).digest())


def published_digest(column: Column) -> bytes:
    """Return the digest of what an owner publishes of a column."""
    return digest("revfrf column v1", column.name, column.categories)


# -- an owner ---------------------------------------------------------------------------------------


def draw_books(
    identity: Identity,
    opening: OpenForest,
    columns: Sequence[Column],
    numbers: Ints,
    codes: Ints,
    n_cuts: Sequence[int],
) -> list[Book]:
    """Draw a book for each column from the training rows with these numbers, and sign what its bins mean."""
    books, rows = [], rows_digest(numbers)
    for column, values, most in zip(columns, codes, n_cuts, strict=True):
        cuts, salt = draw_book(values, missing(column.ring), most), secrets.token_bytes(SALT_BYTES)
        unsigned = FeatureLine(
            feature=feature_id(identity.name, column.name),
            epoch=identity.epoch,
            generation=0,
            ring=column.ring,
            decimals=column.decimals,
            published=published_digest(column),
            rows=rows,
            n_cuts=len(cuts),
            bins=bins_digest(salt, bins_of(values, cuts).tobytes()),
            signature=bytes(64),
        )
        line = sign(identity.signing_key, _LINE, unsigned, identity.federation, opening.forest)
        books.append(Book(cuts.astype("<i8").tobytes(), salt, line))
    return books


def answer_bins(books: Sequence[Book], codes: Ints, message: BinsRequest) -> BinsReply:
    """Send the bins of these rows that CS asks for, as many as fit into a message."""
    numbers, training = column_numbers(message.columns, len(books)), message.table == TRAINING
    salt_bytes = SALT_BYTES if training else 0
    width = salt_bytes + codes.shape[1]
    begin, end = message.offset, min(message.offset + PIECE, width * len(numbers))
    if not begin < end:
        raise ProtocolError("bins that do not exist", kind="request")
    first, last = begin // width, -(-end // width)
    parts = []
    for number in numbers[first:last]:
        book = books[number]
        parts.append((book.salt if training else b"") + bins_of(codes[number], book.cuts).tobytes())
    data = b"".join(parts)[begin - first * width : end - first * width]
    lines = tuple(books[number].line for number in numbers) if training and not begin else ()
    return BinsReply(lines=lines, data=data)


# -- CS ---------------------------------------------------------------------------------------------


def collect_bins(channel: Channel, plan: Plan, store: CoordinatorStore, owner: str, numbers: Ints) -> None:
    """Have an owner send the bins of all its columns, and store them once all of them have been checked.

    What has arrived before an interruption is not sent again.
    """
    features, width = plan.owners[owner], SALT_BYTES + len(numbers)
    columns = np.arange(len(features)).astype(COLUMNS).tobytes()
    arrived = store.arriving.setdefault(owner, Arriving())
    while len(arrived.data) < width * len(features):
        request = BinsRequest(
            epoch=plan.epoch,
            forest=plan.forest,
            table=TRAINING,
            rows=runs_of(numbers),
            columns=columns,
            offset=len(arrived.data),
        )
        reply = channel.call(owner, request, BinsReply)
        if not arrived.data:
            _check_lines(plan, owner, numbers, reply.lines)
            arrived.lines = reply.lines
        elif reply.lines:
            raise ProtocolError(f"{owner!r} signs its columns twice", kind="order")
        if not 0 < len(reply.data) <= width * len(features) - len(arrived.data):
            raise FormatError(f"{len(reply.data)} bytes of bins", kind="length")
        arrived.data += reply.data
    del store.arriving[owner]
    found = {}
    for i, line in enumerate(arrived.lines):
        part = bytes(arrived.data[i * width : (i + 1) * width])
        salt, bins = part[:SALT_BYTES], part[SALT_BYTES:]
        held = np.frombuffer(bins, np.uint8)
        if held.max(initial=0) > line.n_cuts:
            raise FormatError("a bin above the number of cuts", kind="out-of-range")
        if bins_digest(salt, bins) != line.bins:
            raise ProtocolError(f"{owner!r} has signed other bins of {line.feature!r}", kind="forest")
        found[line.feature] = StoredBins(line, salt, held)
    store.add_bins(found)


def _check_lines(plan: Plan, owner: str, numbers: Ints, lines: Sequence[FeatureLine]) -> None:
    """Raise RejectedError unless the owner has signed these lines for this forest, epoch, and these rows."""
    if [line.feature for line in lines] != list(plan.owners[owner]):
        raise ProtocolError(f"{owner!r} signs other columns than it has published", kind="schema")
    rows = rows_digest(numbers)
    for line in lines:
        verify_line(plan.verify_keys[owner], plan.federation, plan.forest, line)
        if (line.epoch, line.rows) != (plan.epoch, rows):
            raise ProtocolError(f"{line.feature!r}: bins of another epoch, or of other rows", kind="epoch")


def verify_line(owner: VerifyKey, federation: str, forest: bytes, line: FeatureLine) -> None:
    """Return only if the owner has signed what its bins mean; else raise SignatureError."""
    verify(owner, _LINE, line, federation, forest)


def test_bins(
    channel: Channel, plan: Plan, owner: str, columns: Sequence[int], table: str, n_rows: int
) -> Bytes:
    """Have an owner send the bins of rows to test on, in these of its columns: shape (n_columns, n_rows)."""
    numbers, data = np.array(columns).astype(COLUMNS).tobytes(), bytearray()
    while len(data) < len(columns) * n_rows:
        request = BinsRequest(
            epoch=plan.epoch, forest=plan.forest, table=table, rows=(), columns=numbers, offset=len(data)
        )
        reply = channel.call(owner, request, BinsReply)
        if not 0 < len(reply.data) <= len(columns) * n_rows - len(data) or reply.lines:
            raise FormatError(f"{len(reply.data)} bytes of bins", kind="length")
        data += reply.data
    return np.frombuffer(data, np.uint8).reshape(len(columns), n_rows)
