"""A forest: splits and leaves, named by tree and path (root 1, children 2i and 2i + 1).

A split says whose feature decides and by which of the owner's candidate cuts; the threshold of a cut is
the owner's secret, stored encrypted elsewhere. **Left iff x̂ ≤ ŝ.**
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from revfrf.crypto.canonical import Field, canonical
from revfrf.forest.candidates import Method
from revfrf.forest.kernel import Ints, Rows
from revfrf.forest.nodes import MAX_DEPTH, Directions, Node, Nodes
from revfrf.forest.randomness import candidate_limit, feature_probability


class Split(Protocol):
    """A feature, "party/column", the number of its cut that was chosen, and which of its rows go right."""

    @property
    def feature(self) -> str: ...

    @property
    def cut(self) -> int: ...

    @property
    def directions(self) -> Directions: ...


def feature_id(party: str, column: str) -> str:
    """The stable name of a feature: always both, so that it never depends on who else is there."""
    return f"{party}/{column}"


Leaf = tuple[int, ...]
"""Weight by class, or (Σw, Σw·value)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a forest, fixed for its whole life."""

    n_trees: int
    max_depth: int
    candidate_limit: int
    min_samples_split: int
    min_samples_leaf: int
    bootstrap: bool
    method: Method
    n_candidates: int
    n_sampled: int

    @classmethod
    def of(cls, given: Any, n_features: int) -> "Rules":
        """Return the rules that an estimator's or a configuration's parameters ask for."""
        return cls(
            n_trees=int(given.n_estimators),
            max_depth=MAX_DEPTH if given.max_depth is None else int(given.max_depth),
            candidate_limit=candidate_limit(feature_probability(given.max_features, n_features)),
            min_samples_split=int(given.min_samples_split),
            min_samples_leaf=int(given.min_samples_leaf),
            bootstrap=bool(given.bootstrap),
            method=given.candidates,
            n_candidates=int(given.n_candidates),
            n_sampled=int(given.n_sampled),
        )

    def fields(self) -> tuple[Field, ...]:
        """For signing and hashing."""
        return tuple(getattr(self, name) for name in self.__slots__)


def forest_digest(
    rules: Rules, targets: tuple[Field, ...], splits: Mapping[Node, Split], leaves: Mapping[Node, Leaf]
) -> str:
    """Equal exactly for equal rules, targets, splits and leaves; thresholds play no part.

    SHA-256 of the canonical bytes of what is common to all nodes, then of two tables of 64-bit numbers,
    little-endian, in the order of trees and paths: (tree, path, number of the feature among those in use,
    cut) of every split, and (tree, path, sums…) of every leaf.
    """
    names = sorted({split.feature for split in splits.values()})
    number = {feature: i for i, feature in enumerate(names)}
    features, cuts = [number[split.feature] for split in splits.values()], [s.cut for s in splits.values()]
    inner = _table(splits, features, cuts)
    outer = _table(leaves, *zip(*leaves.values(), strict=True))
    common = (rules.fields(), targets, tuple(names), inner.shape, outer.shape)
    h = hashlib.sha256(canonical("revfrf forest v1", *common))
    h.update(inner.tobytes())
    h.update(outer.tobytes())
    return h.hexdigest()


def _table(nodes: Collection[Node], *values: Sequence[int]) -> Ints:
    """Return one row for each node: tree, path, values."""
    if not nodes:
        return np.empty((0, 0), dtype="<i8")
    columns = [np.array(column, dtype="<i8") for column in (*zip(*nodes, strict=True), *values)]
    order = np.lexsort((columns[1], columns[0]))
    return np.column_stack([column[order] for column in columns])


# -- what is not grown yet: all of it, or what a crash or a revocation has left open -----------------


def unfinished(n_trees: int, splits: Collection[Node], leaves: Collection[Node]) -> set[Node]:
    """The nodes that are neither split nor leaf, though their parents are split."""
    missing = {(tree, 1) for tree in range(n_trees)}
    for side in (0, 1):
        missing.update([(tree, 2 * path + side) for tree, path in splits])
    missing.difference_update(splits, leaves)
    return missing


def with_rows(used: Callable[[int], Rows], splits: Mapping[Node, Split], wanted: Collection[Node]) -> Nodes:
    """These nodes, none of which is below another, with their rows.

    `used` gives the rows of a tree. They are walked down from the root, on the ways to these nodes alone.
    """
    wanted, above = set(wanted), set[Node]()
    for tree, path in wanted:
        path >>= 1
        while path and (tree, path) not in above:
            above.add((tree, path))
            path >>= 1
    trees = sorted({tree for tree, _ in wanted})
    here = Nodes.of(trees, [1] * len(trees), [used(tree) for tree in trees])
    found = Nodes.of([], [], [])
    while len(here):
        names = here.names()
        found += here.take(np.array([i for i, name in enumerate(names) if name in wanted], dtype=np.intp))
        on = np.array([i for i, name in enumerate(names) if name in above], dtype=np.intp)
        here = here.children(on, here.unpack_directions(on, [splits[names[i]].directions for i in on]))
    return found
