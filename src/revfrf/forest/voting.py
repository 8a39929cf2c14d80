"""From leaves to answers. Votes are integers, so every way to add them up gives the same answer.

A tree votes by its heaviest class (the paper's), by the shares of all classes, or by its mean. A leaf without
weight, of a tree in which no row counts, casts no vote. docs/forest.md has the scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from revfrf.forest.kernel import Bytes, Floats, Ints, Paths, kernel
from revfrf.forest.nodes import Arrays
from revfrf.forest.targets import Scale
from revfrf.forest.tree import LEAF, Forest
from revfrf.parallel import in_threads

Voting = Literal["hard", "soft"]

_SHARE_BITS = 22
_AT_ONCE = 2**14
"""Rows that one thread walks at a time."""

_BLOCK = 512
"""Rows that walk together: their bins stay in the processor's first cache."""

_FEATURE, _CUT, _GOES = np.uint64(40), np.uint64(32), np.uint64(2**32 - 1)
"""A node is one word: from these bits on its feature, from 1, or 0 for a leaf, and its cut; below them the
position of its left child, or of a leaf's votes."""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The sums of the trees' votes for each row, shape (n_rows, n_votes), and how many trees have voted."""

    totals: Ints
    n_voted: Ints

    @classmethod
    def none(cls, n_rows: int, scale: Scale) -> "Votes":
        """Return the votes before any tree has voted, to be added to."""
        return cls(np.zeros((n_rows, scale.n_votes), np.int64), np.zeros(n_rows, np.int64))

    @classmethod
    def joined(cls, parts: Sequence["Votes"]) -> "Votes":
        """Return the votes for the rows of all parts, one after the other."""
        totals = np.concatenate([votes.totals for votes in parts])
        return cls(totals, np.concatenate([votes.n_voted for votes in parts]))

    def add(self, leaves: Arrays, sums: Ints, scale: Scale, voting: Voting) -> None:
        """Add the votes of these leaves, which have these sums, to those of the rows that ended there."""
        _add_votes(
            self.totals, self.n_voted, leaves, leaf_votes(sums, scale, voting), has_weight(sums, scale)
        )

    def classes(self) -> Ints:
        """Return the number of the class with the most votes, the lowest of equal ones."""
        best: Ints = self.totals.argmax(axis=1)
        return best

    def probabilities(self) -> Floats:
        """Return the part of all votes that each class has."""
        shares: Floats = self.totals / self.totals.sum(axis=1, keepdims=True)
        return shares

    def numbers(self, centre: float, vote_places: int) -> Floats:
        """Return the mean of the trees that have voted."""
        means: Floats = np.ldexp(self.totals[:, 0] / self.n_voted, -vote_places) + centre
        return means


def leaf_votes(sums: Ints, scale: Scale, voting: Voting) -> Ints:
    """Return the vote of each leaf, shape (n_leaves, n_votes); zeros if it has no weight."""
    if not scale.n_classes:
        weight, total = np.maximum(sums[:, 0], 1), sums[:, 1]
        guard = scale.vote_places - scale.places
        whole, rest = np.divmod(total, weight)
        return np.reshape((whole << guard) + (rest << guard) // weight, (-1, 1))
    if voting == "soft":
        weights = np.maximum(sums.sum(axis=1, keepdims=True), 1)
        return np.asarray((sums << _SHARE_BITS) // weights, np.int64)
    votes = np.zeros(sums.shape, np.int64)
    votes[np.arange(len(sums)), sums.argmax(axis=1)] = 1
    votes[~sums.any(axis=1)] = 0
    return votes


def has_weight(sums: Ints, scale: Scale) -> Ints:
    """Return 1 for each leaf that votes, else 0."""
    weights = sums if scale.n_classes else sums[:, :1]
    return np.asarray(np.any(weights > 0, axis=1), np.int64)


@kernel
def _add_votes(totals: Ints, n_voted: Ints, leaves: Arrays, votes: Ints, voted: Ints) -> None:
    trees, starts, rows = leaves
    for j in range(len(trees)):
        for row in rows[starts[j] : starts[j + 1]]:
            totals[row] += votes[j]
            n_voted[row] += voted[j]


class Walker:
    """A forest that is ready to be walked: one table of nodes, one of votes."""

    def __init__(self, forest: Forest, scale: Scale, voting: Voting) -> None:
        nodes, votes, roots, n_nodes, n_leaves = [], [], [], 0, 1  # leaf 0: of an open node, which abstains
        for tree in forest.trees:
            inner = tree.features >= 0
            leaf = np.where(tree.features == LEAF, tree.leaves + n_leaves, 0)
            goes = np.where(inner, tree.children + n_nodes, leaf)
            split = (np.where(inner, tree.features + 1, 0) << 40) | (tree.cuts.astype(np.int64) << 32)
            nodes.append((split | goes).astype(np.uint64))
            sums = tree.sums.reshape(-1, scale.n_sums)  # a bare tree has none
            votes.append(np.column_stack([leaf_votes(sums, scale, voting), has_weight(sums, scale)]))
            roots.append(n_nodes)
            n_nodes, n_leaves = n_nodes + len(tree), n_leaves + len(sums)
        self._nodes, self._roots = np.concatenate(nodes), np.array(roots)
        self._votes = np.concatenate([np.zeros((1, scale.n_votes + 1), np.int64), *votes])

    def walk(self, bins: Bytes, n_jobs: int = 1) -> Votes:
        """Return the votes for rows with these bins, shape (n_features, n_rows)."""
        n_rows = bins.shape[1]
        totals = np.zeros((n_rows, self._votes.shape[1]), np.int64)

        def part(begin: int) -> None:
            end = begin + _AT_ONCE
            _walk(bins[:, begin:end], self._nodes, self._roots, self._votes, totals[begin:end])

        in_threads(part, range(0, n_rows, _AT_ONCE), n_jobs)
        return Votes(totals[:, :-1], totals[:, -1])


@kernel
def _walk(bins: Bytes, nodes: Paths, roots: Ints, votes: Ints, totals: Ints) -> None:
    """Walk the rows of a block together, one level after the other: no row waits for another's memory."""
    n_features, n_rows = bins.shape
    block = np.empty((_BLOCK, n_features), np.uint8)
    at, walking = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint32)
    for begin in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - begin)
        for f in range(n_features):
            for r in range(size):
                block[r, f] = bins[f, begin + r]
        for root in roots:
            for r in range(size):
                at[r], walking[r] = nodes[root], r
            left = size if nodes[root] >> _FEATURE else 0
            while left:
                staying = 0
                for j in range(left):
                    r = walking[j]
                    node = at[r]
                    feature, cut = (node >> _FEATURE) - np.uint64(1), (node >> _CUT) & np.uint64(255)
                    node = nodes[(node & _GOES) + np.uint64(np.uint64(block[r, feature]) > cut)]
                    at[r], walking[staying] = node, r
                    staying += node >> _FEATURE != np.uint64(0)
                left = staying
            for r in range(size):
                vote = votes[at[r] & _GOES]
                for k in range(len(vote)):
                    totals[begin + r, k] += vote[k]
