"""The score of a cut (FOS-Find): weighted Gini impurity or weighted variance, from exact integers.

CS sees one bin for each row. It adds up the rows' targets bin by bin, in integers, so that no sum depends on
an order; the score of a cut is a function of such sums. Lower is better::

    Gini      -(Σ_k L_k² / ΣL + Σ_k R_k² / ΣR)    L_k, R_k: weight of class k left and right
    variance  -(S_L² / W_L + S_R² / W_R)          S, W: Σ w·(y - ȳ) and Σ w, ȳ the node's mean, rounded down

Both are the children's weighted impurity, less what is the same for every cut of the node.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revfrf.errors import FormatError, UsageError
from revfrf.forest.growth import check_room
from revfrf.forest.kernel import Bools, Bytes, Floats, Ints, Positions, Rows, kernel
from revfrf.forest.nodes import Arrays, Nodes, starts_of
from revfrf.forest.randomness import row_counts, tree_counts
from revfrf.forest.targets import Targets
from revfrf.forest.tree import Rules

NO_CUT = -1
"""No cut of this feature leaves enough rows on both sides."""


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The targets of rows that count `counts[t, r]·weights[r]` times in tree t: all that CS adds up.

    With classes, sums are kept per class; for a regression (`n_classes` = 0) they are Σw and Σw·value.
    """

    values: Ints
    weights: Ints
    counts: Bytes
    n_classes: int

    @classmethod
    def of(cls, rules: Rules, seed: bytes, targets: Targets) -> "Counted":
        """Return the targets as the trees of a forest count them."""
        counts = row_counts(seed, rules.n_trees, rules.bootstrap, targets.numbers, targets.weights)
        return cls(targets.values, targets.weights, counts, targets.scale.n_classes)

    def used(self, tree: int) -> Rows:
        """The rows that count in a tree."""
        return np.flatnonzero(self.counts[tree]).astype(np.uint32)

    def sums(self, nodes: Nodes) -> Ints:
        """Return what leaves keep, shape (n_nodes, n_classes or 2): weight by class, or (Σw, Σw·value)."""
        return _sums(self._arrays, nodes.arrays)

    @property
    def _arrays(self) -> "_Arrays":
        return self.values, self.weights, self.counts, self.n_classes

    def pure(self, nodes: Nodes) -> Bools:
        """Return whether all rows of a node have the same target."""
        return _pure(self.values, nodes.starts, nodes.rows)


_Arrays = tuple[Ints, Ints, Bytes, int]
"""Values, weights and counts of the rows, and the number of classes: what kernels take."""


def check_rows_count(rules: Rules, seed: bytes, targets: Targets) -> None:
    """Raise UsageError for more rows than a tree can hold, or if no tree draws any: none could vote."""
    check_room(rules, targets)
    rows = (rules.bootstrap, targets.numbers, targets.weights)
    if not any(tree_counts(seed, tree, *rows).any() for tree in range(rules.n_trees)):
        raise UsageError("no row counts in any tree; use more trees or rows, or bootstrap=False")


class Best(NamedTuple):
    """The best cut of each asked feature, NO_CUT if none is valid; its score; and where its bins begin."""

    cuts: Ints
    scores: Floats
    starts: Ints


def best_cuts(
    targets: Counted, nodes: Nodes, asked: Positions, n_cuts: Bytes, bins: Bytes, min_samples_leaf: int
) -> Best:
    """For each question, a feature at the node at position `asked[i]`: the best of its `n_cuts[i]` cuts.

    `bins` holds the bins of every row of the node, for every question that has cuts, one after the other. The
    lowest of equally good cuts wins.
    """
    starts = starts_of(np.where(n_cuts > 0, nodes.sizes[asked], 0))
    if len(bins) != starts[-1]:
        raise FormatError(f"{len(bins)} bins for {starts[-1]} rows", kind="length")
    cuts, scores, in_range = _best_cuts(
        targets._arrays, nodes.arrays, asked, n_cuts, starts, bins, min_samples_leaf
    )
    if not in_range:
        raise FormatError("a bin above the number of cuts", kind="out-of-range")
    return Best(cuts, scores, starts)


@kernel
def _sums(targets: _Arrays, nodes: Arrays) -> Ints:
    values, weights, counts_of, n_classes = targets
    trees, starts, rows = nodes
    sums = np.zeros((len(trees), n_classes or 2), dtype=np.int64)
    for j in range(len(trees)):
        for row in rows[starts[j] : starts[j + 1]]:
            _add(sums[j], values[row], weights[row] * counts_of[trees[j], row], n_classes)
    return sums


@kernel
def _add(sums: Ints, value: np.int64, weight: np.int64, n_classes: int) -> None:
    if n_classes:
        sums[value] += weight
    else:
        sums[0] += weight
        sums[1] += weight * value


@kernel
def _pure(values: Ints, starts: Ints, rows: Rows) -> Bools:
    pure = np.ones(len(starts) - 1, dtype=np.bool_)
    for j in range(len(pure)):
        for row in rows[starts[j] : starts[j + 1]]:
            if values[row] != values[rows[starts[j]]]:
                pure[j] = False
                break
    return pure


@kernel
def _best_cuts(
    targets: _Arrays,
    nodes: Arrays,
    asked: Positions,
    n_cuts: Bytes,
    starts: Ints,
    bins: Bytes,
    min_samples_leaf: int,
) -> tuple[Ints, Floats, bool]:
    values, weights, counts_of, n_classes = targets
    trees, node_starts, rows = nodes
    cuts, scores = np.full(len(asked), NO_CUT), np.full(len(asked), np.inf)
    channels = n_classes or 2
    sums = np.empty((256, channels), dtype=np.int64)
    counts = np.empty(256, dtype=np.int64)
    left = np.empty(channels, dtype=np.int64)
    total = np.empty(channels, dtype=np.int64)
    for q in range(len(asked)):
        if n_cuts[q] == 0:
            continue
        used = np.int64(n_cuts[q]) + 1  # 256 does not fit into the type of n_cuts
        sums[:used] = 0
        counts[:used] = 0
        node = rows[node_starts[asked[q]] : node_starts[asked[q] + 1]]
        times = counts_of[trees[asked[q]]]
        node_bins = bins[starts[q] : starts[q + 1]]
        for i in range(len(node)):
            row, b = node[i], node_bins[i]
            if b >= used:
                return cuts, scores, False
            counts[b] += 1
            _add(sums[b], values[row], weights[row] * times[row], n_classes)
        total[:] = 0
        for b in range(used):
            total += sums[b]
        left[:] = 0
        rows_left = 0
        for cut in range(n_cuts[q]):
            rows_left += counts[cut]
            left += sums[cut]
            if rows_left >= min_samples_leaf and len(node) - rows_left >= min_samples_leaf:
                score = _score(left, total, n_classes)
                if score < scores[q]:
                    scores[q] = score
                    cuts[q] = cut
    return cuts, scores, True


@kernel
def _score(left: Ints, total: Ints, n_classes: int) -> float:
    if not n_classes:
        mean = total[1] // total[0]  # far from zero, squares would have no digits left for what differs
        weight_right = total[0] - left[0]
        sum_left = float(left[1] - mean * left[0])
        sum_right = float(total[1] - left[1] - mean * weight_right)
        return -(sum_left * sum_left / float(left[0]) + sum_right * sum_right / float(weight_right))
    squares_left = squares_right = 0.0
    weight_left = weight_right = 0
    for k in range(n_classes):
        rest = total[k] - left[k]
        squares_left += float(left[k]) * float(left[k])
        squares_right += float(rest) * float(rest)
        weight_left += left[k]
        weight_right += rest
    return -(squares_left / float(weight_left) + squares_right / float(weight_right))
