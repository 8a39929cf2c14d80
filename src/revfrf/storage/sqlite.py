"""What the parties remember, on disk: the same stores as in memory, written down step by step.

A store reads its database when it is opened, and from then on answers from memory; every change is committed
before it counts.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import numpy as np

from revfrf.crypto.batch import SignedBatch
from revfrf.errors import StorageError
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Leaf
from revfrf.storage.database import Database
from revfrf.storage.memory import (
    CoordinatorStore,
    KnownRequest,
    OwnCut,
    ParticipantStore,
    Rebuilding,
    RequestBook,
    Store,
    StoredSplit,
)

Fact = TypeVar("Fact")

_HASH_BYTES = 32
_ANSWERED = 2**32
"""Above all levels: a request from before the process began is not answered again."""


class SqliteBook(RequestBook):
    """A book of which every request and every quota is on disk; of how far a request has come, nothing."""

    def __init__(self, database: Database) -> None:
        known = {name: KnownRequest(d, _ANSWERED) for name, d in database.rows("SELECT * FROM requests")}
        super().__init__(known, Counter(dict(database.rows("SELECT * FROM quotas"))))
        self._database = database

    def enter(self, request: bytes, known: KnownRequest, requester: str, rows: int) -> None:
        """See `RequestBook.enter`."""
        if request not in self.known:
            with self._database.transaction():
                self._database.change("INSERT INTO requests VALUES (?, ?)", [(request, known.digest)])
                self._database.change("REPLACE INTO quotas VALUES (?, ?)", [(requester, rows)])
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

    def write(self, **facts: Any) -> None:
        """Write facts down: whatever MessagePack can, or what has a `record` that it can."""
        rows = [(name, _encoded(value)) for name, value in facts.items()]
        self.database.change("REPLACE INTO facts VALUES (?, ?)", rows)

    def read(self, name: str, kind: type[Fact]) -> Fact | None:
        """A fact of this type, None if it was never written. Raises StorageError if it is another."""
        found = self.database.rows("SELECT value FROM facts WHERE name = ?", (name,))
        try:
            return msgspec.msgpack.decode(found[0][0], type=kind) if found else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            path = self.database.path
            raise StorageError(f"{path}: damaged: its {name!r} cannot be read", kind="malformed") from None

    def expect(self, name: str, kind: type[Fact]) -> Fact:
        """A fact that must be there."""
        found = self.read(name, kind)
        if found is None:
            raise StorageError(f"{self.database.path}: damaged: it has no {name!r}", kind="malformed")
        return found

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
        self.splits, self.leaves = _read_splits(database), _read_leaves(database)

    def commit(self, splits: Mapping[Node, StoredSplit], leaves: Mapping[Node, Leaf]) -> None:
        """See `CoordinatorStore.commit`."""
        batches = {id(split.batch): split.batch for split in splits.values()}
        sums = ((*node, np.array(leaf, dtype="<i8").tobytes()) for node, leaf in leaves.items())
        with self.transaction():
            number = {key: self._insert(batch) for key, batch in batches.items()}
            rows = ((*node, *s[:6], number[id(s.batch)], s.position) for node, s in splits.items())
            self.database.change("REPLACE INTO splits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self.database.change("REPLACE INTO leaves VALUES (?, ?, ?)", sums)
            self.write(level=self.level + 1)
        super().commit(splits, leaves)

    def _insert(self, batch: SignedBatch) -> int:
        row = (batch.root, b"".join(batch.levels[0]))
        return self.database.insert("INSERT INTO batches (root, leaves) VALUES (?, ?)", row)

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


def _read_splits(database: Database) -> dict[Node, StoredSplit]:
    batches = {number: _batch(*row) for number, *row in database.rows("SELECT * FROM batches")}
    splits = {}
    for tree, path, *fields, number, position in database.rows("SELECT * FROM splits"):
        if number not in batches:
            raise StorageError(f"{database.path}: damaged: a split without its signature", kind="malformed")
        splits[tree, path] = StoredSplit._make((*fields, batches[number], position))
    return splits


def _batch(root: bytes, leaves: bytes) -> SignedBatch:
    return SignedBatch.of(root, [leaves[i : i + _HASH_BYTES] for i in range(0, len(leaves), _HASH_BYTES)])


def _read_leaves(database: Database) -> dict[Node, Leaf]:
    rows = database.rows("SELECT * FROM leaves")
    return {(tree, path): tuple(np.frombuffer(sums, dtype="<i8").tolist()) for tree, path, sums in rows}


class SqliteParticipantStore(SqliteStore, ParticipantStore):
    """A participant's store in a database: a row a cut."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        level = self.read("level", int)
        self.level = -1 if level is None else level
        rows = database.rows("SELECT * FROM cuts")
        self.cuts = {(tree, path): (feature, cut) for tree, path, feature, cut in rows}

    def commit(self, cuts: Mapping[Node, OwnCut], level: int) -> None:
        """See `ParticipantStore.commit`."""
        with self.transaction():
            rows = ((*node, *cut) for node, cut in cuts.items())
            self.database.change("REPLACE INTO cuts VALUES (?, ?, ?, ?)", rows)
            self.write(level=level)
        super().commit(cuts, level)

    def forget(self, nodes: Collection[Node]) -> None:
        """See `ParticipantStore.forget`; without a trace."""
        self.database.change("DELETE FROM cuts WHERE tree = ? AND path = ?", nodes)
        self.scrub()
        super().forget(nodes)
