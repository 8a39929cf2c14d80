"""What the parties remember, on disk: the same stores as in memory, written down step by step.

A store reads its database when it is opened, and from then on answers from memory; every change is committed
before it counts.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from revfrf.crypto.batch import SignedBatch
from revfrf.crypto.secret import hides_locals
from revfrf.errors import StorageError
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Leaf
from revfrf.storage.database import Database
from revfrf.storage.memory import (
    CoordinatorStore,
    Fact,
    KnownRequest,
    OwnSplit,
    ParticipantStore,
    Rebuilding,
    RequestBook,
    Store,
    StoredSplit,
)

_HASH_BYTES = 32
_ANSWERED = 2**32
"""Above all levels: a request from before the process began is not answered again."""


class SqliteBook(RequestBook):
    """A book of which every request and every quota is on disk; of how far a request has come, nothing."""

    def __init__(self, database: Database) -> None:
        known = {name: KnownRequest(digest, _ANSWERED) for name, digest in database.rows("requests")}
        super().__init__(known, Counter(dict(database.rows("quotas"))))
        self._database = database

    def enter(self, request: bytes, known: KnownRequest, requester: str, rows: int) -> None:
        """See `RequestBook.enter`."""
        if request not in self.known:
            with self._database.transaction():
                self._database.put("requests", [(request, known.digest)])
                self._database.put("quotas", [(requester, rows)])
        super().enter(request, known, requester, rows)

    def clear(self) -> None:
        """See `RequestBook.clear`."""
        with self._database.transaction():
            self._database.change("DELETE FROM requests")
            self._database.change("DELETE FROM quotas")
        super().clear()


class SqliteStore(Store):
    """What every party remembers, in a database."""

    def __init__(self, database: Database) -> None:
        super().__init__(SqliteBook(database))
        self.database = database

    @hides_locals
    def write(self, **facts: Any) -> None:
        """Write facts down: whatever MessagePack can, or what has a `record` that it can."""
        self.database.put("facts", [(name, _encoded(value)) for name, value in facts.items()])

    @hides_locals
    def read(self, name: str, kind: type[Fact]) -> Fact | None:
        """A fact of this type, None if it was never written. Raises StorageError if it is another."""
        found = self.database.rows("facts", "name = ?", (name,))
        try:
            return msgspec.msgpack.decode(found[0][1], type=kind) if found else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StorageError(f"{self}: damaged: its {name!r} cannot be read", kind="malformed") from None

    def __repr__(self) -> str:
        return str(self.database.path)

    def holds(self, name: str) -> bool:
        """Whether a fact was written. Nothing is known of a database that has ended."""
        try:
            return bool(self.database.rows("facts", "name = ?", (name,)))
        except StorageError:
            return True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Store.transaction`."""
        with self.database.transaction():
            yield

    def scrub(self) -> None:
        """See `Store.scrub`."""
        self.database.scrub()

    def close(self) -> None:
        """See `Store.close`."""
        self.database.close()


def _encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value.record() if hasattr(value, "record") else value)


class SqliteCoordinatorStore(SqliteStore, CoordinatorStore):
    """CS's store in a database: a row a split, a row a leaf, a row a signed batch."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.level = self.read("level", int) or 0
        self.rebuilding = self.read("rebuilding", Rebuilding)
        batches = {number: _batch(*row) for number, *row in database.rows("batches")}
        self.splits, self.leaves = _read_splits(database, batches), _read_leaves(database)
        self._next_batch = max(batches, default=0) + 1

    def commit(self, splits: Mapping[Node, StoredSplit], leaves: Mapping[Node, Leaf]) -> None:
        """See `CoordinatorStore.commit`."""
        batches = {id(split.batch): split.batch for split in splits.values()}
        number = {key: self._next_batch + i for i, key in enumerate(batches)}
        sums = ((*node, np.array(leaf, dtype="<i8").tobytes()) for node, leaf in leaves.items())
        with self.transaction():
            self.database.put(
                "batches", ((number[key], b.signature, b"".join(b.leaves)) for key, b in batches.items())
            )
            self.database.put(
                "splits", ((*node, *s[:6], number[id(s.batch)], s.position) for node, s in splits.items())
            )
            self.database.put("leaves", sums)
            self.write(level=self.level + 1)
        self._next_batch += len(batches)
        super().commit(splits, leaves)

    def destroy(self, nodes: Collection[Node], rebuilding: Rebuilding) -> None:
        """See `CoordinatorStore.destroy`."""
        with self.transaction():
            self.database.change("DELETE FROM splits WHERE tree = ? AND path = ?", nodes)
            self.database.change("DELETE FROM leaves WHERE tree = ? AND path = ?", nodes)
            self.write(rebuilding=rebuilding)
        super().destroy(nodes, rebuilding)

    def finish(self) -> None:
        """See `CoordinatorStore.finish`."""
        self.database.change("DELETE FROM facts WHERE name = 'rebuilding'")
        super().finish()

    def scrub(self) -> None:
        """Also of signatures of which no statement is left."""
        self.database.change("DELETE FROM batches WHERE number NOT IN (SELECT batch FROM splits)")
        super().scrub()


def _read_splits(database: Database, batches: Mapping[int, SignedBatch]) -> dict[Node, StoredSplit]:
    splits = {}
    for tree, path, *fields, number, position in database.rows("splits"):
        if number not in batches:
            raise StorageError(f"{database.path}: damaged: a split without its signature", kind="malformed")
        splits[tree, path] = StoredSplit._make((*fields, batches[number], position))
    return splits


def _batch(signature: bytes, leaves: bytes) -> SignedBatch:
    hashes = (leaves[i : i + _HASH_BYTES] for i in range(0, len(leaves), _HASH_BYTES))
    return SignedBatch(signature, tuple(hashes))


def _read_leaves(database: Database) -> dict[Node, Leaf]:
    rows = database.rows("leaves")
    if any(len(sums) % 8 for _, _, sums in rows):
        raise StorageError(f"{database.path}: damaged: a leaf of half a sum", kind="malformed")
    return {(tree, path): tuple(np.frombuffer(sums, dtype="<i8").tolist()) for tree, path, sums in rows}


class SqliteParticipantStore(SqliteStore, ParticipantStore):
    """A participant's store in a database: one row per split."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        level = self.read("level", int)
        self.level = -1 if level is None else level
        rows = database.rows("own_splits")
        self.own_splits = {(tree, path): (feature, threshold) for tree, path, feature, threshold in rows}

    def commit(self, splits: Mapping[Node, OwnSplit], level: int) -> None:
        """See `ParticipantStore.commit`."""
        with self.transaction():
            self.database.put("own_splits", ((*node, *split) for node, split in splits.items()))
            self.write(level=level)
        super().commit(splits, level)

    def forget(self, nodes: Collection[Node]) -> None:
        """See `ParticipantStore.forget`; without a trace."""
        self.database.change("DELETE FROM own_splits WHERE tree = ? AND path = ?", nodes)
        self.scrub()
        super().forget(nodes)
