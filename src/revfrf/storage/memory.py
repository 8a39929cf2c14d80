"""What the parties remember. A store answers from memory, and writes every change to its `Tables` first.

With a `storage.sqlite.Database` as tables, what a store remembers outlives the process. A store's methods are
steps that happen wholly or not at all; several are one step in a `transaction`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from revfrf.crypto.batch import SignedBatch
from revfrf.crypto.secret import hides_locals
from revfrf.errors import FormatError, StorageError
from revfrf.forest.kernel import Bytes, Ints, Paths
from revfrf.forest.nodes import Directions, Leaf, Node
from revfrf.forest.tree import Forest, Tree
from revfrf.messages.bins import FeatureLine, SaltedLine
from revfrf.messages.events import Report, UsedCuts
from revfrf.record import Record

Fact = TypeVar("Fact")
AnyStore = TypeVar("AnyStore", bound="Store")

_HASH_BYTES = 32
_CHUNK = 2**20  # rows of a feature whose bins are kept together
_ANSWERED = 2**32
"""Deeper than any tree: a request from before the process began is not answered again."""

Row = Sequence[Any]


class Tables:
    """Tables that keep nothing: their store has everything in memory anyway.

    Rows are given as iterators, which nobody runs here.
    """

    def __str__(self) -> str:
        return "memory"

    def transaction(self) -> AbstractContextManager[None]:
        """Make one step of everything inside; within another transaction, a part of it."""
        return nullcontext()

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows, in place of those with the same keys."""

    def delete(self, table: str, keys: Iterable[Row] | None = None) -> None:
        """Delete the rows with these keys, or with keys that begin like these, or all of them."""

    def rows(self, table: str) -> list[tuple[Any, ...]]:  # noqa: ARG002
        """Return all rows of a table. Raises StorageError for a row that is not as it was written."""
        return []

    def fact(self, name: str) -> bytes | None:
        """Return the value of the newest row of this name in the table "facts"."""
        found: bytes | None = dict(self.rows("facts")).get(name)
        return found

    def scrub(self) -> None:
        """Leave no trace of what was deleted."""

    def check(self) -> None:
        """Raise StorageError if the tables were closed, or a step has failed."""

    def close(self) -> None:
        """Refuse all reads and writes from now on."""


class StoredSplit(NamedTuple):
    """A split as CS knows it.

    Its feature, the number of its cut, its owner, and which way its training rows go. Then what its owner
    sent: the encrypted threshold, the epoch, and the place in a signed batch.
    """

    feature: str
    cut: int
    owner: str
    directions: Directions
    ciphertext: bytes
    epoch: int
    batch: SignedBatch
    position: int


OwnSplit = tuple[int, int]
"""What an owner keeps of a split: the number of its column, and the threshold ŝ in the clear."""


class Book(Record, frozen=True):
    """A column's book of cuts, as its owner keeps it, and what it has signed of the training rows' bins."""

    thresholds: bytes
    salt: bytes
    line: FeatureLine

    @property
    def cuts(self) -> Ints:
        """The thresholds."""
        return np.frombuffer(self.thresholds, "<i8").astype(np.int64)


class StoredBins(NamedTuple):
    """The bins of a feature as CS has them, with what their owner has signed of them, and the salt in it.

    Salt and bins are empty once CS has forgotten them. The line stays.
    """

    line: FeatureLine
    salt: bytes
    bins: Bytes

    def forgotten(self) -> "StoredBins":
        """Return what stays when the bins are forgotten."""
        return self._replace(salt=b"", bins=self.bins[:0])


@dataclass
class Arriving:
    """What an owner has sent so far of its bins."""

    lines: tuple[SaltedLine, ...] = ()
    data: bytearray = field(default_factory=bytearray)


class Spending(Record, frozen=True):
    """What an owner keeps of its books and their noise for good, also after it has left.

    `secret` keys the noise. By name of a column, `drawn` counts the books so far, which is the generation of
    the next one, and `spent` is the epsilon that they have cost, in millionths.
    """

    secret: bytes
    drawn: dict[str, int] = msgspec.field(default_factory=dict)
    spent: dict[str, int] = msgspec.field(default_factory=dict)


class UsedColumns(Record, frozen=True):
    """Which of an owner's cuts a forest uses after an event, as CS has told it, and its receipt's salt."""

    event: bytes
    epoch: int
    columns: tuple[UsedCuts, ...]
    salt: bytes


class Rebuilding(Record, frozen=True):
    """A revocation in progress: how many nodes are destroyed and kept."""

    destroyed: int
    kept: int


class KnownRequest(NamedTuple):
    """A request that a party has answered: the hash of all of it, and the last depth answered."""

    digest: bytes
    depth: int


class RequestBook:
    """The requests that a party has seen in this epoch, and how many rows each requester has asked about.

    Hold the lock to read and write it. How far a request has come is kept in memory only.
    """

    def __init__(self, tables: Tables | None = None) -> None:
        self._tables = tables or Tables()
        known = self._tables.rows("requests")
        self.known = {request: KnownRequest(digest, _ANSWERED) for request, digest in known}
        self.rows: Counter[str] = Counter(dict(self._tables.rows("quotas")))
        self.lock = Lock()

    def enter(self, request: bytes, known: KnownRequest, requester: str, rows: int) -> None:
        """Note the depth of a request, and how many rows its requester has asked about in all."""
        if request not in self.known:
            with self._tables.transaction():
                self._tables.put("requests", [(request, known.digest)])
                self._tables.put("quotas", [(requester, rows)])
        self.known[request], self.rows[requester] = known, rows

    def clear(self) -> None:
        """Forget all requests: another epoch has begun."""
        with self._tables.transaction():
            self._tables.delete("requests")
            self._tables.delete("quotas")
        self.known, self.rows = {}, Counter()


class Store:
    """What every party remembers: facts by name, and a book of requests.

    In memory, facts are not kept: the role has them as long as the store exists.
    """

    def __init__(self, tables: Tables | None = None) -> None:
        self.tables = tables or Tables()
        self.book = RequestBook(self.tables)

    def __repr__(self) -> str:
        return str(self.tables)

    @hides_locals
    def write(self, **facts: Any) -> None:
        """Write facts, in place of older ones: values that MessagePack can hold, or whose `record` it can."""
        self.tables.put("facts", ((name, _encoded(value)) for name, value in facts.items()))

    @hides_locals
    def read(self, name: str, kind: type[Fact]) -> Fact | None:
        """Return a fact, or None if it was never written. Raises StorageError if it is of another type."""
        found = self.tables.fact(name)
        try:
            return None if found is None else msgspec.msgpack.decode(found, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StorageError(f"{self}: damaged: its {name!r} cannot be read", kind="malformed") from None

    def expect(self, name: str, kind: type[Fact]) -> Fact:
        """Return a fact that must be there. Raises StorageError."""
        found = self.read(name, kind)
        if found is None:
            raise StorageError(f"{self}: damaged: it has no {name!r}", kind="malformed")
        return found

    def transaction(self) -> AbstractContextManager[None]:
        return self.tables.transaction()

    def scrub(self) -> None:
        self.tables.scrub()

    def close(self) -> None:
        self.tables.close()


def _encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value.record() if hasattr(value, "record") else value)


class CoordinatorStore(Store):
    """CS: the structure of a forest.

    The rows of any node follow from the directions of the splits above it. `round` counts the commits: each
    request to the participants has a higher number than the one before. `used_salts` are those of the owners'
    receipts for used cuts. `reported` is what KGC was asked to certify, until its answer is here.
    """

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        self.round = self.read("round", int) or 0
        self.rebuilding = self.read("rebuilding", Rebuilding)
        self.used_salts = self.read("used_salts", dict[str, bytes]) or {}
        self.reported = self.read("reported", Report)
        batches = {number: _batch(*row) for number, *row in self.tables.rows("batches")}
        self._next_batch = max(batches, default=0) + 1
        self.splits: dict[Node, StoredSplit] = {}
        for tree, path, *fields, number, position in self.tables.rows("splits"):
            if number not in batches:
                raise StorageError(f"{self}: damaged: a split without its signature", kind="malformed")
            self.splits[tree, path] = StoredSplit._make((*fields, batches[number], position))
        self.leaves: dict[Node, Leaf] = {}
        for tree, path, sums in self.tables.rows("leaves"):
            if len(sums) % 8:
                raise StorageError(f"{self}: damaged: half a sum in a leaf", kind="malformed")
            self.leaves[tree, path] = tuple(np.frombuffer(sums, dtype="<i8").tolist())
        try:
            self.trees = {number: Tree.from_bytes(data) for number, data in self.tables.rows("trees")}
            self.bins = self._read_bins()
        except (FormatError, msgspec.DecodeError):
            raise StorageError(f"{self}: damaged: trees or bins that are none", kind="malformed") from None
        self.arriving: dict[str, Arriving] = {}

    def _read_bins(self) -> dict[str, "StoredBins"]:
        parts: dict[str, list[bytes]] = {}
        for feature, _, data in sorted(self.tables.rows("bins")):
            parts.setdefault(feature, []).append(data)
        return {
            feature: StoredBins(
                msgspec.msgpack.decode(line, type=FeatureLine),
                salt,
                np.frombuffer(b"".join(parts.get(feature, ())), np.uint8),
            )
            for feature, line, salt in self.tables.rows("columns")
        }

    def add_bins(self, found: Mapping[str, "StoredBins"]) -> None:
        """Keep the bins of these features."""
        with self.transaction():
            for feature, held in found.items():
                self.tables.delete("bins", [(feature,)])
                line = msgspec.msgpack.encode(held.line)
                self.tables.put("columns", [(feature, line, held.salt)])
                starts = range(0, len(held.bins), _CHUNK)
                data = ((feature, i // _CHUNK, held.bins[i : i + _CHUNK].tobytes()) for i in starts)
                self.tables.put("bins", data)
        self.bins |= found

    def forget_bins(self) -> None:
        """Erase the bins that CS should not keep, without a trace."""
        self.add_bins({name: held.forgotten() for name, held in self.bins.items() if held.line.forget})
        self.arriving = {}
        self.scrub()

    def replace_forest(self, forest: Forest) -> None:
        """Keep these trees in place of the others. The bins of features that it does not have are erased."""
        gone = self.bins.keys() - set(forest.features)
        with self.transaction():
            self.tables.delete("columns", [(feature,) for feature in gone])
            self.tables.delete("bins", [(feature,) for feature in gone])
            self.tables.delete("trees")
            self.tables.put("trees", ((i, tree.to_bytes()) for i, tree in enumerate(forest.trees)))
        self.trees = dict(enumerate(forest.trees))
        self.bins = {feature: held for feature, held in self.bins.items() if feature not in gone}

    def put_trees(self, trees: Mapping[int, Tree]) -> None:
        """Keep trees that have grown."""
        self.tables.put("trees", ((number, tree.to_bytes()) for number, tree in trees.items()))
        self.trees |= trees

    @property
    def n_nodes(self) -> int:
        return len(self.splits) + len(self.leaves)

    def whole(self, n_trees: int) -> bool:
        """Return whether nothing is missing: a tree with n splits has n + 1 leaves."""
        return len(self.leaves) == len(self.splits) + n_trees

    def commit(self, splits: Mapping[Node, StoredSplit], leaves: Mapping[Node, Leaf]) -> None:
        """Keep the results of a round."""
        batches = {id(split.batch): split.batch for split in splits.values()}
        number, put = {key: self._next_batch + i for i, key in enumerate(batches)}, self.tables.put
        with self.transaction():
            put("batches", ((number[key], b.signature, b"".join(b.leaves)) for key, b in batches.items()))
            put("splits", ((*node, *s[:6], number[id(s.batch)], s.position) for node, s in splits.items()))
            put("leaves", ((*node, np.array(leaf, dtype="<i8").tobytes()) for node, leaf in leaves.items()))
            self.write(round=self.round + 1)
        self._next_batch += len(batches)
        self.splits.update(splits)
        self.leaves.update(leaves)
        self.round += 1

    def put_used_salts(self, salts: dict[str, bytes]) -> None:
        """Keep the salts of the receipts for used cuts."""
        self.write(used_salts=salts)
        self.used_salts = salts

    def put_reported(self, report: Report | None) -> None:
        """Remember a report to KGC, or that its answer is here."""
        if report is None:
            self.tables.delete("facts", [("reported",)])
        else:
            self.write(reported=report)
        self.reported = report

    def begin_rebuilding(self, rebuilding: Rebuilding) -> None:
        """Record that a revocation is in progress."""
        self.write(rebuilding=rebuilding)
        self.rebuilding = rebuilding

    def destroy(self, nodes: Collection[Node]) -> None:
        """Forget these splits and leaves."""
        with self.transaction():
            self.tables.delete("splits", nodes)
            self.tables.delete("leaves", nodes)
        self.leaves = {node: leaf for node, leaf in self.leaves.items() if node not in nodes}
        self.splits = {node: split for node, split in self.splits.items() if node not in nodes}

    def finish(self) -> None:
        self.tables.delete("facts", [("rebuilding",)])
        self.rebuilding = None


def _batch(signature: bytes, leaves: bytes) -> SignedBatch:
    hashes = (leaves[i : i + _HASH_BYTES] for i in range(0, len(leaves), _HASH_BYTES))
    return SignedBatch(signature, tuple(hashes))


class ParticipantStore(Store):
    """A participant: its books of cuts, or its own splits, by node, and the last round it has answered."""

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        number = self.read("round", int)
        self.round = -1 if number is None else number
        self.own_splits: dict[Node, OwnSplit] = {row[:2]: row[2:] for row in self.tables.rows("own_splits")}
        self.books = self.read("books", list[Book]) or []
        self.used = self.read("used", UsedColumns)
        self.spending = self.read("spending", Spending)
        self._sent: dict[str, Paths] = {}

    def put_books(self, books: list[Book]) -> None:
        """Keep a book of cuts for each column."""
        self.write(books=books)
        self.books = books

    def put_spending(self, spending: Spending) -> None:
        """Keep what books have cost."""
        self.write(spending=spending)
        self.spending = spending

    def sent(self, column: str) -> Paths:
        """Return which values of which records had noise of this generation, as ascending numbers."""
        if column not in self._sent:
            found = self.read(f"sent {column}", bytes) or b""
            self._sent[column] = np.frombuffer(found, "<u8").astype(np.uint64)
        return self._sent[column]

    def put_sent(self, column: str, sent: Paths) -> None:
        """Keep which values of which records had noise."""
        self.write(**{f"sent {column}": sent.astype("<u8").tobytes()})
        self._sent[column] = sent

    def put_used(self, used: UsedColumns) -> None:
        """Keep which cuts a forest uses."""
        self.write(used=used)
        self.used = used

    def commit(self, splits: Mapping[Node, OwnSplit], number: int) -> None:
        """Keep the splits that have won, and that the round of this number is answered."""
        with self.transaction():
            self.tables.put("own_splits", ((*node, *split) for node, split in splits.items()))
            self.write(round=number)
        self.own_splits.update(splits)
        self.round = number

    def forget(self, nodes: Collection[Node]) -> None:
        """Erase its splits at these nodes, without a trace. Nodes without one are skipped."""
        self.tables.delete("own_splits", nodes)
        self.scrub()
        for node in nodes:
            self.own_splits.pop(node, None)

    def erase(self, columns: Collection[str]) -> None:
        """Delete all that it has of the forest, and the training rows of its columns. `scrub` comes next.

        What books have cost stays.
        """
        rows = (f"column {i}" for i in range(len(columns)))
        sent = (f"sent {column}" for column in columns)
        names = ("books", "used", "forest", "event", "ids", "numbers", "round", "records", *rows, *sent)
        self.tables.delete("facts", [(name,) for name in names])
        self.tables.delete("own_splits")
        self.own_splits, self.books, self.used, self.round = {}, [], None, -1
        self._sent = {}

    def trees_at(self, depth: int) -> int:
        """Return in how many trees it owns a split at this depth."""
        return len({tree for tree, path in tuple(self.own_splits) if path.bit_length() == depth + 1})


class StoreFactory:
    """The stores of the parties in one process, each made when it is first wanted; here, in memory."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Store] = {}

    def store(self, kind: type[AnyStore], role: str, name: str, *, create: bool = True) -> AnyStore:
        """Return the store of a party; `create` says whether a new one may be made."""
        store = self._open.get((role, name))
        if store is None:
            tables = self._tables(role, name, create)
            try:
                store = self._open[role, name] = kind(tables)
            except BaseException:
                tables.close()
                raise
        if not isinstance(store, kind):
            raise StorageError(f"{store}: open as another kind of store", kind="in-use")
        return store

    def _tables(self, role: str, name: str, create: bool) -> Tables:  # noqa: ARG002
        return Tables()

    def discard(self, role: str, name: str) -> None:
        """Remove the store of a party that has left."""
        if (role, name) in self._open:
            self._open.pop((role, name)).close()

    def check(self) -> None:
        """Raise StorageError if stores have been closed, or a step has failed."""
        for store in self._open.values():
            store.tables.check()

    def close(self) -> None:
        for store in self._open.values():
            store.close()

    def abandon(self) -> None:
        """Close all stores, and remove what was made for a training that had not begun."""
        self.close()
