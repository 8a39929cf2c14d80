"""A differentially private forest: noise hides every single row.

Santu Rana, Sunil Kumar Gupta, Svetha Venkatesh, "Differentially private random forest with high utility",
IEEE International Conference on Data Mining (ICDM) 2015. They put noise on a tree's statistics, and keep it
low by a privacy notion weaker than the usual one. Here it is the usual one, in its simplest form: whether a
row was there or not changes the probability of any forest by a factor of at most e^ε.

Why that holds, with targets as vectors v of shares that sum to 1: a class is a unit vector, a number y in
[low, high] is (1-z, z) with z = (y-low)/(high-low).

- What is public is the `Domain`: the ranges of columns and targets, and the classes. Candidate cuts are the
  inner edges of bins of equal width. Shape, features and cuts on offer do not depend on the rows.
- Each row goes to one tree, drawn without looking at it. So a row changes one tree, which has all of ε.
- A tree spends ε/2 on its splits, ε/(2·depth) a level, as each row is in one node of a level; and ε/2 on its
  leaves, as each row is in one leaf.
- A cut's score is |S_L|²/n_L + |S_R|²/n_R, S the sum of the vectors: Gini, and for numbers the variance. A
  row that joins n rows of mean m adds |v|² - |v-m|²·n/(n+1), which is at most |v|² ≤ 1 and at least
  2v·m - |m|² ≥ -1. So each score gets Laplace noise of scale 2/(ε of the level), and only the best cut is
  published ("report noisy max").
- A row changes S of its leaf by 1 in all: Laplace noise of scale 2/ε on each of its numbers.
- All else is made of these noisy numbers: negative ones become 0, and each leaf is pulled towards its tree's
  mean as by so many rows as its noise is large.

Simplified: noise is in floating point and from a seeded generator, good for measuring and not for hiding
(Ilya Mironov, "On significance of the least significant bits for differential privacy", CCS 2012).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.datasets import Task
from revfrf.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LITTLE = 1e-9
"""Rows that pull a leaf without noise, so that an empty one has its tree's mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What everybody knows: the ranges of the columns, and the classes or the range of the target."""

    low: Floats
    high: Floats
    targets: NDArray[Any]

    @classmethod
    def of(cls, task: Task, X: Any, y: Any) -> "Domain":
        """The ranges of these rows, taken as public. Give all rows of a set, not those of one training."""
        values, targets = np.asarray(X, dtype=np.float64), np.unique(np.asarray(y))
        ends = targets if task == "classes" else targets[[0, -1]].astype(np.float64)
        return cls(np.nanmin(values, axis=0), np.nanmax(values, axis=0), ends)

    def bins(self, X: Any, count: int) -> Ints:
        """The bin of every value, 0 to count-1; what is outside is in the outermost, what is missing in 0."""
        span = np.maximum(self.high - self.low, np.finfo(np.float64).tiny)
        share = (np.clip(np.asarray(X, dtype=np.float64), self.low, self.high) - self.low) / span
        return np.minimum(np.nan_to_num(share) * count, count - 1).astype(np.int64)

    def shares(self, task: Task, y: Any) -> Floats:
        """Targets as vectors that sum to 1. A number outside the range is at its end."""
        labels = np.asarray(y)
        if task == "numbers":
            low, high = self.targets
            z = (np.clip(labels.astype(np.float64), low, high) - low) / max(high - low, _LITTLE)
            return np.column_stack([1 - z, z])
        if not np.isin(labels, self.targets).all():
            raise UsageError("y holds a class that the domain does not have; add it to the domain")
        return np.eye(len(self.targets))[np.searchsorted(self.targets, labels)]

    def answers(self, task: Task, shares: Floats) -> NDArray[Any]:
        if task == "numbers":
            low, high = self.targets
            return np.asarray(low + (high - low) * shares[:, 1])
        chosen: NDArray[Any] = self.targets[shares.argmax(axis=1)]
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTree:
    """A complete tree: by level the feature and the cut of each node, left iff bin ≤ cut; and its leaves."""

    features: list[Ints]
    cuts: list[Ints]
    leaves: Floats

    def shares(self, bins: Ints) -> Floats:
        rows, node = np.arange(len(bins)), np.zeros(len(bins), dtype=np.int64)
        for features, cuts in zip(self.features, self.cuts, strict=True):
            node = 2 * node + (bins[rows, features[node]] > cuts[node])
        found: Floats = self.leaves[node]
        return found


class PrivateForest:
    """`fit` spends `epsilon`, once; `predict` spends nothing. X is an array, or a frame of numbers.

    √F of F features are on offer at a node. An `epsilon` of infinity makes the same forest without noise.
    """

    def __init__(
        self,
        task: Task,
        domain: Domain,
        *,
        epsilon: float,
        n_trees: int = 100,
        depth: int = 6,
        n_bins: int = 32,
        seed: int = 0,
    ) -> None:
        self.task, self.domain, self.epsilon = task, domain, epsilon
        self.n_trees, self.depth, self.n_bins, self.seed = n_trees, depth, n_bins, seed

    def fit(self, X: Any, y: Any) -> "PrivateForest":
        if not self.epsilon > 0:
            raise UsageError(f"epsilon={self.epsilon}: give a number above 0")
        if self.depth < 1 or self.n_bins < 2 or self.n_trees < 1:
            raise UsageError("give at least one tree, one level and two bins")
        rng = np.random.default_rng(self.seed)
        bins, shares = self.domain.bins(X, self.n_bins), self.domain.shares(self.task, y)
        tree_of_row = rng.integers(self.n_trees, size=len(bins))
        self.trees_ = [
            self._grow(bins[tree_of_row == tree], shares[tree_of_row == tree], rng)
            for tree in range(self.n_trees)
        ]
        return self

    def predict_shares(self, X: Any) -> Floats:
        """The trees' mean shares: of the classes, or of the low and the high end of the target's range."""
        bins = self.domain.bins(X, self.n_bins)
        total = np.zeros((len(bins), self.trees_[0].leaves.shape[1]))
        for tree in self.trees_:
            total += tree.shares(bins)
        return total / self.n_trees

    def predict(self, X: Any) -> NDArray[Any]:
        return self.domain.answers(self.task, self.predict_shares(X))

    def _grow(self, bins: Ints, shares: Floats, rng: np.random.Generator) -> NoisyTree:
        n_features = bins.shape[1]
        rows, node = np.arange(len(bins)), np.zeros(len(bins), dtype=np.int64)
        features, cuts = [], []
        for level in range(self.depth):
            order = rng.random((1 << level, n_features)).argsort(axis=1)
            offered = order[:, : max(1, round(n_features**0.5))]
            scores = self._scores(
                np.take_along_axis(bins, offered[node], axis=1), node, shares, offered.shape
            )
            scores += rng.laplace(scale=2 * (2 * self.depth) / self.epsilon, size=scores.shape)
            best, cut = np.divmod(scores.reshape(len(offered), -1).argmax(axis=1), self.n_bins - 1)
            feature = offered[np.arange(len(offered)), best]
            node = 2 * node + (bins[rows, feature[node]] > cut[node])
            features.append(feature)
            cuts.append(cut)
        return NoisyTree(features, cuts, self._leaves(node, shares, rng))

    def _scores(self, bins: Ints, node: Ints, shares: Floats, shape: tuple[int, ...]) -> Floats:
        """node × feature on offer × cut."""
        n_nodes, n_offered = shape
        cell = ((node[:, None] * n_offered + np.arange(n_offered)) * self.n_bins + bins).ravel()
        sums = _sums(cell, np.repeat(shares, n_offered, axis=0), n_nodes * n_offered * self.n_bins)
        left = sums.reshape(n_nodes, n_offered, self.n_bins, -1).cumsum(axis=2)
        both = left[:, :, -1:]
        return _score(left[:, :, :-1]) + _score(both - left[:, :, :-1])

    def _leaves(self, node: Ints, shares: Floats, rng: np.random.Generator) -> Floats:
        scale = 2 / self.epsilon
        sums = _sums(node, shares, 1 << self.depth)
        sums += rng.laplace(scale=scale, size=sums.shape)
        mean = np.maximum(sums.sum(axis=0), _LITTLE)
        pulled = np.maximum(sums, 0) + max(scale, _LITTLE) * mean / mean.sum()
        leaves: Floats = pulled / pulled.sum(axis=1, keepdims=True)
        return leaves


def _sums(places: Ints, shares: Floats, n_places: int) -> Floats:
    """The sum of the vectors at each place."""
    columns = [np.bincount(places, column, n_places) for column in shares.T]
    return np.column_stack(columns).astype(np.float64)  # of no rows, they are whole numbers


def _score(sums: Floats) -> Floats:
    """|S|²/n, of no rows 0."""
    rows = sums.sum(axis=-1)
    score: Floats = (sums**2).sum(axis=-1) / np.where(rows > _LITTLE, rows, 1)
    return score
