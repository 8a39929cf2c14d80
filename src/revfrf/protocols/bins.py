"""Bins: once per column, its owner draws a book of cuts and sends CS one bin for each row::

    CS     which columns of which rows, from which byte on    ->  τ   draws a book for each column, once
    τ      bins; what they mean, salted and signed            ->  CS  checks, and keeps them

Both know the numbers of the rows (`protocols.alignment`), and a question has only their digest.
A book never leaves its owner. CS sees one bin per row and column, at a resolution that the owner chooses. A
transfer that is cut off goes on at the byte where it was.
"""

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from revfrf.crypto.canonical import digest
from revfrf.crypto.encoding import missing
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import FormatError, ProtocolError, RejectedError
from revfrf.forest.books import bins_of, draw_book
from revfrf.forest.kernel import Bytes, Ints, Paths
from revfrf.forest.tree import feature_id
from revfrf.messages.bins import (
    COLUMNS,
    PIECE,
    BinsReply,
    BinsRequest,
    FeatureLine,
    SaltedLine,
    column_numbers,
)
from revfrf.messages.fle_expan import Column, OpenForest
from revfrf.protocols.columns import ColumnSettings, millionths
from revfrf.protocols.common.signed import sign, verify
from revfrf.protocols.noise import expect_spending, paid, pay_for, values_sent, with_noise
from revfrf.protocols.sides import TRAINING, OwnerSeat, Plan
from revfrf.storage.memory import Arriving, Book, CoordinatorStore, StoredBins
from revfrf.transport.base import Channel, blaming

_LINE = "revfrf feature v1"


def new_salt() -> bytes:
    """A fresh salt, for digests that must not confirm guesses."""
    return secrets.token_bytes(32)


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


def draw_books(seat: OwnerSeat, opening: OpenForest, numbers: Ints) -> None:
    """Draw a book for each column from the training rows, which have these numbers, and pay for its noise.

    Each is the next generation of its column. The owner signs what its bins mean. Raises ProtocolError if a
    column's budget does not allow its noise.
    """
    identity, store, rows = seat.identity, seat.store, rows_digest(numbers)
    books, sent, spending = [], dict[str, Paths](), expect_spending(store)
    for column, values in zip(seat.columns, seat.table(TRAINING), strict=True):
        name, settings = column.name, seat.settings.get(column.name, ColumnSettings())
        cuts, salt = draw_book(values, missing(column.ring), settings.n_cuts), new_salt()
        epsilon = None if settings.epsilon is None else millionths(settings.epsilon)
        bare = FeatureLine(
            feature=feature_id(identity.name, name),
            epoch=identity.epoch,
            generation=spending.drawn.get(name, 0),
            ring=column.ring,
            decimals=column.decimals,
            published=published_digest(column),
            rows=rows,
            n_cuts=len(cuts),
            epsilon=epsilon,
            forget=settings.forget_bins,
            bins=bytes(32),
            signature=bytes(64),
        )
        spending = replace(spending, drawn=spending.drawn | {name: bare.generation + 1})
        bins = bins_of(values, cuts)
        if epsilon is not None:
            records = seat.records(TRAINING)
            spending = paid(spending, name, epsilon, settings)
            sent[name] = values_sent(records, bins)
            bins = with_noise(spending, bare, records, bins)
        unsigned = replace(bare, bins=bins_digest(salt, bins.tobytes()))
        line = sign(identity.signing_key, _LINE, unsigned, identity.federation, opening.forest)
        books.append(Book(cuts.astype("<i8").tobytes(), salt, line))
    with store.transaction():
        store.put_books(books)
        store.put_spending(spending)
        for name, values_of_records in sent.items():
            store.put_sent(name, values_of_records)


def _own_bins(seat: OwnerSeat, number: int, table: str) -> Bytes:
    """Return the bins of a column of a table, with noise if it has any. Raises ProtocolError."""
    column, line = seat.columns[number], seat.store.books[number].line
    bins = bins_of(seat.table(table)[number], seat.store.books[number].cuts)
    if line.epsilon is None:
        return bins
    settings, records = seat.settings.get(column.name, ColumnSettings()), seat.records(table)
    pay_for(seat.store, column.name, line, settings, values_sent(records, bins))
    return with_noise(expect_spending(seat.store), line, records, bins)


def answer_bins(seat: OwnerSeat, message: BinsRequest) -> BinsReply:
    """Send the bins of rows that CS asks for, as many as fit into a message. Raises ProtocolError."""
    books, n_rows = seat.store.books, seat.table(message.table).shape[1]
    numbers = column_numbers(message.columns, len(books))
    begin, end = message.offset, min(message.offset + PIECE, n_rows * len(numbers))
    if not begin < end:
        raise ProtocolError("bins that do not exist", kind="request")
    first, last = begin // n_rows, -(-end // n_rows)
    data = b"".join(_own_bins(seat, i, message.table).tobytes() for i in numbers[first:last])
    signed = message.table == TRAINING and not begin
    return BinsReply(
        lines=tuple(SaltedLine(books[i].line, books[i].salt) for i in numbers if signed),
        data=data[begin - first * n_rows : end - first * n_rows],
    )


# -- CS ---------------------------------------------------------------------------------------------


def ask_bins(
    channel: Channel,
    plan: Plan,
    store: CoordinatorStore,
    owner: str,
    columns: Sequence[Column],
    numbers: Ints,
) -> dict[str, StoredBins]:
    """Have an owner send the bins of all its columns, and check them: those it has sent before, if it has.

    What has arrived before an interruption is not sent again. CS keeps nothing of it here.
    """
    features, arrived = plan.owners[owner], store.arriving.setdefault(owner, Arriving())
    asked = _Asked(plan, TRAINING, range(len(features)), numbers)
    with blaming(owner):
        try:
            _receive(channel, owner, asked, arrived)
            found = _checked(plan, owner, columns, numbers, arrived)
            if any(name in store.bins and store.bins[name].line != held.line for name, held in found.items()):
                raise ProtocolError(f"{owner!r} sends other bins than before", kind="forest")
        except RejectedError:
            del store.arriving[owner]  # what is wrong is asked for again, all of it
            raise
    del store.arriving[owner]
    return found


def fetch_bins(
    channel: Channel, plan: Plan, owner: str, columns: Sequence[int], table: str, n_rows: int
) -> Bytes:
    """Have an owner send the bins of rows to test on, in these of its columns: shape (n_columns, n_rows)."""
    arrived = Arriving()
    with blaming(owner):
        _receive(channel, owner, _Asked(plan, table, columns, np.arange(n_rows)), arrived)
    return np.frombuffer(arrived.data, np.uint8).reshape(len(columns), n_rows)


class _Asked(NamedTuple):
    """Which columns of which rows CS asks an owner for."""

    plan: Plan
    table: str
    columns: Sequence[int]
    rows: Ints


def _receive(channel: Channel, owner: str, asked: _Asked, arrived: Arriving) -> None:
    """Have an owner send what is missing of what was asked for. Raises FormatError for any other length."""
    plan, size, signed = asked.plan, len(asked.columns) * len(asked.rows), asked.table == TRAINING
    rows = rows_digest(asked.rows)
    columns = np.array(asked.columns).astype(COLUMNS).tobytes()
    while (done := len(arrived.data)) < size:
        request = BinsRequest(
            epoch=plan.epoch, forest=plan.forest, table=asked.table, rows=rows, columns=columns, offset=done
        )
        reply = channel.call(owner, request, BinsReply)
        if len(reply.lines) != (len(asked.columns) if signed and not done else 0):
            raise FormatError(f"{len(reply.lines)} signed columns", kind="length")
        if not 0 < len(reply.data) <= size - done:
            raise FormatError(f"{len(reply.data)} bytes of bins", kind="length")
        arrived.lines += reply.lines
        arrived.data += reply.data


def _checked(
    plan: Plan, owner: str, columns: Sequence[Column], numbers: Ints, arrived: Arriving
) -> dict[str, StoredBins]:
    """Return the bins of each feature, if the owner has signed them for this forest and these rows.

    Raises RejectedError for anything else.
    """
    lines = [signed.line for signed in arrived.lines]
    known = [(feature_id(owner, c.name), c.ring, c.decimals, published_digest(c)) for c in columns]
    if [(line.feature, line.ring, line.decimals, line.published) for line in lines] != known:
        raise ProtocolError(f"{owner!r} signs other columns than it has published", kind="schema")
    found, rows = {}, rows_digest(numbers)
    bins_of_columns = np.frombuffer(bytes(arrived.data), np.uint8).reshape(-1, len(numbers))
    for (line, salt), bins in zip(map(msgspec.structs.astuple, arrived.lines), bins_of_columns, strict=True):
        verify_line(plan.verify_keys[owner], plan.federation, plan.forest, line)
        if line.epoch > plan.epoch or line.rows != rows:  # what was signed before somebody left still counts
            raise ProtocolError(f"{line.feature!r}: bins of a later epoch, or of other rows", kind="epoch")
        if bins.max(initial=0) > line.n_cuts:
            raise FormatError("a bin above the number of cuts", kind="out-of-range")
        if bins_digest(salt, bins.tobytes()) != line.bins:
            raise ProtocolError(f"{owner!r} has signed other bins of {line.feature!r}", kind="forest")
        found[line.feature] = StoredBins(line, salt, bins)
    return found


def verify_line(owner: VerifyKey, federation: str, forest: bytes, line: FeatureLine) -> None:
    """Return only if the owner has signed what its bins mean; else raise SignatureError."""
    verify(owner, _LINE, line, federation, forest)
