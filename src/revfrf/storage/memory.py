"""The state of CS, CC and participants, in memory."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.batch import SignedBatch
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Leaf


class StoredSplit(NamedTuple):
    """A split with what its owner sent: the encrypted cut, and in which epoch and where in a signed batch."""

    feature: str
    cut: int
    owner: str
    ciphertext: bytes
    epoch: int
    batch: SignedBatch
    position: int


OwnCut = tuple[int, int]
"""What an owner keeps of a split: the number of its column, and the cut ŝ in the clear."""


@dataclass(slots=True)
class CoordinatorStore:
    """CS: the structure of a forest, and where each training row ended.

    `leaf_paths[t, r]` is the path of row r's leaf in tree t, 0 for a row that the tree does not use. The
    rows of any node follow from it. `level` counts the levels that participants were asked about.
    """

    leaf_paths: NDArray[np.uint64]
    level: int = 0
    splits: dict[Node, StoredSplit] = field(default_factory=dict)
    leaves: dict[Node, Leaf] = field(default_factory=dict)

    def commit(self, splits: Mapping[Node, StoredSplit], leaves: Mapping[Node, Leaf]) -> None:
        """Keep what a level has brought."""
        self.splits.update(splits)
        self.leaves.update(leaves)

    def erase(self, nodes: Collection[Node]) -> None:
        """Forget these splits and leaves."""
        for node in nodes:
            self.splits.pop(node, None)
            self.leaves.pop(node, None)


@dataclass(slots=True)
class ParticipantStore:
    """A participant: its own cuts, by node."""

    cuts: dict[Node, OwnCut] = field(default_factory=dict, repr=False)
    _counted: tuple[int, Counter[int]] = field(default_factory=lambda: (0, Counter()), repr=False)

    def forget(self, nodes: Collection[Node]) -> None:
        """Erase the cuts of these nodes."""
        for node in nodes:
            del self.cuts[node]
        self._counted = (0, Counter())

    def trees_at(self, level: int) -> int:
        """In how many trees it has a node at this level. Counted anew when cuts have come or gone."""
        if self._counted[0] != len(self.cuts):
            places = {(tree, path.bit_length() - 1) for tree, path in self.cuts}
            self._counted = len(self.cuts), Counter(depth for _, depth in places)
        return self._counted[1][level]


class KnownRequest(NamedTuple):
    """A request that a party has answered: the digest of what was signed, and the last level answered."""

    digest: bytes
    level: int


@dataclass(slots=True)
class RequestBook:
    """What a party remembers of requests in an epoch: each one it has seen, and every requester's rows.

    Whoever reads and writes it holds the lock.
    """

    known: dict[bytes, KnownRequest] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock, repr=False)
