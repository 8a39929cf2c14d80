"""What a forest is: splits and leaves, named by tree and path (root 1, children 2i and 2i + 1).

A split says whose feature decides and by which of the owner's candidate cuts; where that cut lies is the
owner's secret, stored encrypted elsewhere. **Left iff x̂ ≤ ŝ.**
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.canonical import Field, canonical
from revfrf.forest.candidates import Method
from revfrf.forest.nodes import Node

Split = tuple[str, int]
"""A feature, "party/column", and the number of its candidate cut that was chosen."""


def feature_id(party: str, column: str) -> str:
    """The stable name of a feature: always both, so that it never depends on who else is there."""
    return f"{party}/{column}"


Leaf = tuple[int, ...]
"""Weight by class, or (Σw, Σw·value)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is fixed when a forest is created, and holds for its life, whoever leaves."""

    n_trees: int
    max_depth: int
    candidate_limit: int
    min_samples_split: int
    min_samples_leaf: int
    bootstrap: bool
    method: Method
    n_candidates: int
    n_sampled: int

    def fields(self) -> tuple[Field, ...]:
        """For signing and hashing."""
        return tuple(getattr(self, name) for name in self.__slots__)


def forest_digest(
    rules: Rules, targets: tuple[Field, ...], splits: Mapping[Node, Split], leaves: Mapping[Node, Leaf]
) -> str:
    """Equal exactly for equal rules, targets, splits and leaves; the cuts' values play no part.

    SHA-256 of the canonical bytes of what is common to all nodes, then of two tables of 64-bit numbers,
    little-endian, in the order of trees and paths: (tree, path, number of the feature among those in use,
    cut) of every split, and (tree, path, sums…) of every leaf.
    """
    names = sorted({feature for feature, _ in splits.values()})
    number = {feature: i for i, feature in enumerate(names)}
    inner = _table([(*node, number[feature], cut) for node, (feature, cut) in splits.items()])
    outer = _table([(*node, *leaf) for node, leaf in leaves.items()])
    common = (rules.fields(), targets, tuple(names), inner.shape, outer.shape)
    h = hashlib.sha256(canonical("revfrf forest v1", *common))
    h.update(inner.tobytes())
    h.update(outer.tobytes())
    return h.hexdigest()


def _table(rows: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    table = np.array(rows, dtype="<i8").reshape(len(rows), -1 if rows else 0)
    return table[np.lexsort((table[:, 1], table[:, 0]))] if rows else table
