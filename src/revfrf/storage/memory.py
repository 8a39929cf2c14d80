"""What the parties remember, in memory. `storage.sqlite` keeps the same on disk.

A store's methods are steps that happen wholly or not at all; several are one step in a `transaction`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from revfrf.crypto.batch import SignedBatch
from revfrf.errors import StorageError
from revfrf.forest.nodes import Node, Turns
from revfrf.forest.tree import Leaf
from revfrf.record import Record

Fact = TypeVar("Fact")


class StoredSplit(NamedTuple):
    """A split: who decides, by which cut, and how its training rows turn; and what its owner sent, the
    encrypted cut, and in which epoch and where in a signed batch.
    """

    feature: str
    cut: int
    owner: str
    turns: Turns
    ciphertext: bytes
    epoch: int
    batch: SignedBatch
    position: int


OwnSplit = tuple[int, int]
"""What an owner keeps of a split: the number of its column, and the threshold ŝ in the clear."""


class Rebuilding(Record, frozen=True):
    """A revocation under way: the forest's digest before, how many nodes are destroyed, how many kept."""

    digest_before: str
    destroyed: int
    kept: int


class KnownRequest(NamedTuple):
    """A request that a party has answered: the digest of what was signed, and the last level answered."""

    digest: bytes
    level: int


@dataclass
class RequestBook:
    """What a party remembers of requests in an epoch: each one it has seen, and every requester's rows.

    Whoever reads and writes it holds the lock.
    """

    known: dict[bytes, KnownRequest] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock, repr=False)

    def enter(self, request: bytes, known: KnownRequest, requester: str, rows: int) -> None:
        """A request has come to a level; its requester has asked about this many rows in all."""
        self.known[request], self.rows[requester] = known, rows

    def clear(self) -> None:
        """Another epoch has begun."""
        self.known, self.rows = {}, Counter()


@dataclass
class Store:
    """What every party remembers: facts by name, and a book of requests.

    In memory facts need not be written: the role has them, for as long as there is one.
    """

    book: RequestBook = field(default_factory=RequestBook, repr=False)

    def write(self, **facts: Any) -> None:
        """Write facts down, in place of older ones of the same names."""

    def read(self, name: str, kind: type[Fact]) -> Fact | None:  # noqa: ARG002
        """A fact of this type, None if it was never written. Raises StorageError if it is another."""
        return None

    def expect(self, name: str, kind: type[Fact]) -> Fact:
        """A fact that must be there. Raises StorageError."""
        found = self.read(name, kind)
        if found is None:
            raise StorageError(f"{self}: damaged: it has no {name!r}", kind="malformed")
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is one step."""
        yield

    def scrub(self) -> None:
        """Leave no trace of what was erased."""

    def close(self) -> None:
        """Nothing is written or read any more."""


@dataclass
class CoordinatorStore(Store):
    """CS: the structure of a forest.

    The rows of any node follow from the turns of the splits above it. `level` counts the commits, so that
    what participants are asked has ever higher numbers.
    """

    level: int = 0
    splits: dict[Node, StoredSplit] = field(default_factory=dict)
    leaves: dict[Node, Leaf] = field(default_factory=dict)
    rebuilding: Rebuilding | None = None

    @property
    def n_nodes(self) -> int:
        """Splits and leaves."""
        return len(self.splits) + len(self.leaves)

    def whole(self, n_trees: int) -> bool:
        """Whether nothing is missing: a tree with n splits has n + 1 leaves."""
        return len(self.leaves) == len(self.splits) + n_trees

    def commit(self, splits: Mapping[Node, StoredSplit], leaves: Mapping[Node, Leaf]) -> None:
        """Keep what a level has brought."""
        self.splits.update(splits)
        self.leaves.update(leaves)
        self.level += 1

    def destroy(self, nodes: Collection[Node], rebuilding: Rebuilding) -> None:
        """Begin a revocation: forget these splits and leaves.

        In this order, so that whoever is interrupted half-way can do it again.
        """
        self.rebuilding = rebuilding
        self.leaves = {node: leaf for node, leaf in self.leaves.items() if node not in nodes}
        self.splits = {node: split for node, split in self.splits.items() if node not in nodes}

    def finish(self) -> None:
        """The revocation is over."""
        self.rebuilding = None


@dataclass
class ParticipantStore(Store):
    """A participant: its own splits, by node, and the last level it has answered."""

    level: int = -1
    own_splits: dict[Node, OwnSplit] = field(default_factory=dict, repr=False)
    _counted: tuple[int, Counter[int]] = field(default_factory=lambda: (0, Counter()), repr=False)

    def commit(self, splits: Mapping[Node, OwnSplit], level: int) -> None:
        """Keep the splits that have won, and that this level is answered."""
        self.own_splits.update(splits)
        self.level = level

    def forget(self, nodes: Collection[Node]) -> None:
        """Erase its splits at these nodes. Nodes without one are skipped."""
        for node in nodes:
            self.own_splits.pop(node, None)
        self._counted = (0, Counter())

    def trees_at(self, depth: int) -> int:
        """Return in how many trees it owns a split at this depth."""
        if self._counted[0] != len(self.own_splits):
            places = {(tree, path.bit_length() - 1) for tree, path in self.own_splits}
            self._counted = len(self.own_splits), Counter(at for _, at in places)
        return self._counted[1][depth]


Kept = TypeVar("Kept", bound=Store)


class StoreFactory:
    """Where the parties of one process keep their stores: in memory, each for itself."""

    def store(self, kind: type[Kept], role: str, name: str, *, create: bool = True) -> Kept:  # noqa: ARG002
        """The store of a party: a new one, or the one that it had."""
        return kind()

    def discard(self, role: str, name: str) -> None:
        """The store of somebody who has left is gone."""

    def check(self) -> None:
        """Raise StorageError if stores have been closed, or a step has failed."""

    def close(self) -> None:
        """No store is written or read any more."""
