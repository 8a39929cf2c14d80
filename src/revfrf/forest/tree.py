"""A forest: its rules, and its trees as arrays.

The nodes of a tree are in ascending order of their paths (root 1, children 2i and 2i + 1), level by level, so
the children of split j are the nodes 2j + 1 and 2j + 2. A split says whose feature decides and by which of
the owner's cuts; the threshold of a cut is the owner's secret. A row goes left iff its bin is ≤ the cut.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from revfrf.crypto.canonical import Field, canonical
from revfrf.errors import FormatError
from revfrf.forest.kernel import Bools, Bytes, Ints, Paths, kernel
from revfrf.forest.nodes import MAX_DEPTH, Node, unfinished
from revfrf.forest.randomness import candidate_limit, feature_probability
from revfrf.forest.targets import Scale

MAX_TREES = 2**22
"""So that the sum of all votes fits 64 bits."""

LEAF, OPEN = -1, -2
"""In place of a split's feature. An open node has not grown yet, or was destroyed."""

Method = Literal["quantile", "uniform"]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class Books(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="books"):
    """Cuts come from books that the owners draw, one per column. Their sizes are the owners' choice."""

    def fields(self) -> tuple[Field, ...]:
        return ("books",)


class PerNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="per node"):
    """The owners propose cuts at every node, as in the paper: from a sample of the node's rows."""

    method: Method
    n_candidates: Annotated[int, msgspec.Meta(ge=1, le=255)]
    n_sampled: Annotated[int, msgspec.Meta(ge=2, le=2**20)]

    def fields(self) -> tuple[Field, ...]:
        return ("per node", self.method, self.n_candidates, self.n_sampled)


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a forest, fixed for its whole life."""

    n_trees: Annotated[int, msgspec.Meta(ge=1, le=MAX_TREES)]
    max_depth: Annotated[int, msgspec.Meta(ge=1, le=MAX_DEPTH)]
    candidate_limit: Annotated[int, msgspec.Meta(ge=0)]  # 64 bits; msgspec takes no higher bound
    min_samples_split: Annotated[int, msgspec.Meta(ge=2, le=2**31 - 1)]
    min_samples_leaf: Positive
    bootstrap: bool
    cuts: Books | PerNode

    @classmethod
    def of(cls, given: Any, n_features: int, cuts: Books | PerNode) -> "Rules":
        """Return the rules that an estimator's or a configuration's parameters ask for."""
        return cls(
            n_trees=int(given.n_estimators),
            max_depth=MAX_DEPTH if given.max_depth is None else int(given.max_depth),
            candidate_limit=candidate_limit(feature_probability(given.max_features, n_features)),
            min_samples_split=int(given.min_samples_split),
            min_samples_leaf=int(given.min_samples_leaf),
            bootstrap=bool(given.bootstrap),
            cuts=cuts,
        )

    def fields(self) -> tuple[Field, ...]:
        """For signing and hashing."""
        *plain, cuts = msgspec.structs.astuple(self)
        return (*plain, cuts.fields())


def feature_id(party: str, column: str) -> str:
    """The stable name of a feature: always both, so that it never depends on who else is there."""
    return f"{party}/{column}"


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree. `features` are numbers in the forest's list, LEAF or OPEN; `sums` has a row for each leaf."""

    features: Ints
    cuts: Bytes
    sums: Ints

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_nodes(self) -> int:
        """The number of splits and leaves."""
        return int((self.features != OPEN).sum())

    @property
    def whole(self) -> bool:
        """Whether no node is open."""
        return not (self.features == OPEN).any()

    @property
    def children(self) -> Ints:
        """The position of the left child of each split, which the right one follows; of no use for others."""
        return 2 * np.cumsum(self.features >= 0) - 1

    @property
    def leaves(self) -> Ints:
        """For each leaf the row of its sums; of no use for others."""
        return np.cumsum(self.features == LEAF) - 1

    @property
    def paths(self) -> Paths:
        """The path of each node."""
        return _paths(self.features)

    def renumbered(self, numbers: Ints) -> "Tree":
        """Return the tree with other numbers of its features; below a split that becomes OPEN all is gone."""
        inner = self.features >= 0
        features = self.features.copy()
        features[inner] = numbers[features[inner]]
        kept = _kept(self.features, features)
        cuts = np.where(features >= 0, self.cuts, np.uint8(0))
        return Tree(features[kept], cuts[kept], self.sums[kept[self.features == LEAF]])

    def to_bytes(self) -> bytes:
        """Return the tree as it is stored: numbers of nodes and leaves, features, cuts, sums."""
        head = np.array([len(self), *self.sums.shape], dtype="<u4")
        parts = (head, self.features.astype("<i4"), self.cuts, self.sums.astype("<i8"))
        return b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Tree":
        """The inverse of `to_bytes`. Raises FormatError for what is no tree."""
        n_nodes, n_leaves, width = np.frombuffer(data[:12].ljust(12, b"\0"), "<u4").tolist()
        if len(data) != 12 + 5 * n_nodes + 8 * n_leaves * width:
            raise FormatError("a tree that is cut off", kind="length")
        features = np.frombuffer(data, "<i4", n_nodes, 12).astype(np.int64)
        cuts = np.frombuffer(data, np.uint8, n_nodes, 12 + 4 * n_nodes).copy()
        sums = np.frombuffer(data, "<i8", n_leaves * width, 12 + 5 * n_nodes).astype(np.int64)
        made = 1 + 2 * np.cumsum(features >= 0)  # how many nodes there are at the least
        if not n_nodes or made[-1] != n_nodes or (made[:-1] <= np.arange(1, n_nodes)).any():
            raise FormatError("nodes that are no tree", kind="malformed")
        if (features < OPEN).any() or (features == LEAF).sum() != n_leaves:
            raise FormatError("nodes that are neither splits nor leaves", kind="malformed")
        tree = cls(features, cuts, sums.reshape(n_leaves, width))
        if (tree.paths >> np.uint64(MAX_DEPTH + 1)).any():
            raise FormatError("a tree that is too deep", kind="malformed")
        return tree


BARE = Tree(np.array([OPEN]), np.zeros(1, np.uint8), np.zeros((0, 0), np.int64))
"""The tree before it grows: its root is open."""


@kernel
def _paths(features: Ints) -> Paths:
    paths = np.zeros(len(features), dtype=np.uint64)
    paths[0] = 1
    child = 1
    for i in range(len(features)):
        if features[i] >= 0:
            paths[child] = paths[i] * np.uint64(2)
            paths[child + 1] = paths[child] + np.uint64(1)
            child += 2
    return paths


@kernel
def _kept(before: Ints, after: Ints) -> Bools:
    """Return which nodes stay when some splits become open: all but those below."""
    kept = np.ones(len(before), dtype=np.bool_)
    child = 1
    for i in range(len(before)):
        if before[i] >= 0:
            kept[child] = kept[child + 1] = kept[i] and after[i] >= 0
            child += 2
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """All trees, and the ids of the features that they number, in ascending order."""

    features: Sequence[str]
    trees: Sequence[Tree]

    @property
    def n_nodes(self) -> int:
        return sum(tree.n_nodes for tree in self.trees)

    def splits(self) -> Ints:
        """Return a table (tree, path, number of the feature, cut) of all splits, by tree and path."""
        found = []
        for number, tree in enumerate(self.trees):
            split = tree.features >= 0
            found.append(_rows(number, tree.paths[split], tree.features[split], tree.cuts[split]))
        return np.concatenate(found)

    def leaves(self, n_sums: int) -> Ints:
        """Return a table (tree, path, sums…) of all leaves, by tree and path; each has this many sums."""
        found = []
        for number, tree in enumerate(self.trees):
            sums = tree.sums.reshape(-1, n_sums)  # a bare tree has none
            found.append(_rows(number, tree.paths[tree.features == LEAF], *sums.T))
        return np.concatenate(found)

    def digest(self, rules: Rules, scale: Scale) -> str:
        """Equal exactly for equal rules, scales, splits and leaves; thresholds play no part."""
        splits = self.splits()
        used, splits[:, 2] = np.unique(splits[:, 2], return_inverse=True)
        names, tables = [self.features[i] for i in used], (splits, self.leaves(scale.n_sums))
        shapes = [table.shape if len(table) else (0, 0) for table in tables]
        h = hashlib.sha256(
            canonical("revfrf forest v2", rules.fields(), scale.fields(), tuple(names), *shapes)
        )
        for table in tables:
            h.update(table.tobytes())
        return h.hexdigest()

    def used_cuts(self) -> dict[str, list[int]]:
        """Return the cuts that the forest uses of each feature, in ascending order."""
        used: dict[str, list[int]] = {}
        for feature, cut in np.unique(self.splits()[:, 2:], axis=0).tolist():
            used.setdefault(self.features[feature], []).append(cut)
        return used

    def renumbered(self, features: Sequence[str]) -> "Forest":
        """Return the forest with other features; splits by those that are missing become open."""
        place = {feature: i for i, feature in enumerate(features)}
        numbers = np.array([place.get(feature, OPEN) for feature in self.features], dtype=np.int64)
        return Forest(features, [tree.renumbered(numbers) for tree in self.trees])

    @classmethod
    def of_nodes(
        cls, n_trees: int, splits: Mapping[Node, tuple[str, int]], leaves: Mapping[Node, Sequence[int]]
    ) -> "Forest":
        """Return the forest of these splits (feature, cut) and leaves, by tree and path; the rest is open."""
        features = sorted({feature for feature, _ in splits.values()})
        place, width = {f: i for i, f in enumerate(features)}, len(next(iter(leaves.values()), ()))
        nodes: list[list[tuple[int, int, int]]] = [[] for _ in range(n_trees)]
        for tree, path in unfinished(n_trees, splits, leaves):
            nodes[tree].append((path, OPEN, 0))
        for (tree, path), (feature, cut) in splits.items():
            nodes[tree].append((path, place[feature], cut))
        for tree, path in leaves:
            nodes[tree].append((path, LEAF, 0))
        trees = []
        for tree, found in enumerate(nodes):
            found.sort()
            sums = [leaves[tree, path] for path, feature, _ in found if feature == LEAF]
            columns = [np.array(column, dtype=np.int64) for column in zip(*found, strict=True)]
            table = np.array(sums, dtype=np.int64).reshape(len(sums), width)
            trees.append(Tree(columns[1], columns[2].astype(np.uint8), table))
        return cls(features, trees)


def _rows(tree: int, *columns: Ints | Bytes | Paths) -> Ints:
    """Return a table of 64-bit numbers with these columns, after the number of the tree."""
    return np.stack([np.full(len(columns[0]), tree), *columns], axis=1, dtype="<i8", casting="unsafe")
