"""The score of a cut (FOS-Find): weighted Gini impurity or weighted variance, from exact integers.

CS sees one bin for each row. It adds up the rows' targets bin by bin, in integers, so that no sum depends on
an order; the score of a cut is a function of such sums. Lower is better::

    Gini      -(Σ_k L_k² / ΣL + Σ_k R_k² / ΣR)    L_k, R_k: weight of class k left and right
    variance  -(S_L² / W_L + S_R² / W_R)          S, W: Σ w·(y - ȳ) and Σ w, ȳ the node's mean, rounded down

Both are the children's weighted impurity, less what is the same for every cut of the node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revfrf.errors import FormatError
from revfrf.forest.kernel import Bools, Bytes, Floats, Ints, Positions, Rows, kernel
from revfrf.forest.nodes import Arrays, Nodes, starts_of
from revfrf.record import Record

NO_CUT = -1
"""No cut of this feature leaves enough rows on both sides."""

_SUM_BITS = 62
_WEIGHT_STEPS = 2**20


class TargetsRecord(Record, frozen=True):
    """`Targets` without repeats, which are drawn by seed, as they are written down."""

    values: bytes
    weights: bytes
    n_classes: int
    centre: float
    places: int


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The labels and weights, which CS alone knows; row r counts `repeats[t, r]·weights[r]` times in tree t.

    With classes, `values` are class numbers, and sums are kept per class. For regression (`n_classes` = 0)
    the target of a row is centre + value·2^-places, and the sums are Σw and Σw·value.
    """

    values: Ints
    weights: Ints
    repeats: Bytes
    n_classes: int
    centre: float = 0.0
    places: int = 0

    @classmethod
    def classes(cls, numbers: Ints, n_classes: int, weights: Floats, repeats: Bytes) -> "Targets":
        """Targets that are classes 0, 1, …"""
        return cls(numbers, fixed_weights(weights), repeats, n_classes)

    @classmethod
    def regression(cls, y: Floats, weights: Floats, repeats: Bytes) -> "Targets":
        """Targets in fixed point, with as many places as keep every sum of a tree below 2^62."""
        fixed = fixed_weights(weights)
        total = max(int(fixed @ tree) for tree in repeats)
        y = np.where(fixed > 0, y, y[fixed.argmax()])  # rows without weight have no say in the range
        centre = float(y.min() / 2 + y.max() / 2)
        spread = float(np.abs(y - centre).max())
        places = _SUM_BITS - total.bit_length() - int(np.frexp(spread)[1]) if spread else 0
        values = np.rint(np.ldexp(y - centre, places)).astype(np.int64)
        return cls(values, fixed, repeats, 0, centre, places)

    @classmethod
    def unknown(cls, n_classes: int, centre: float, places: int) -> "Targets":
        """Return what remains of the targets when a forest is used without its training rows."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, np.empty((0, 0), np.uint8), n_classes, centre, places)

    def record(self) -> TargetsRecord:
        """All of it but the repeats, to be written down."""
        values, weights = (a.astype("<i8").tobytes() for a in (self.values, self.weights))
        return TargetsRecord(values, weights, self.n_classes, self.centre, self.places)

    @classmethod
    def of(cls, record: TargetsRecord, repeats: Callable[[Ints], Bytes]) -> "Targets":
        """Return the targets of a record, with the repeats for rows of these weights."""
        r = record
        values, weights = (np.frombuffer(b, "<i8").astype(np.int64) for b in (r.values, r.weights))
        known = not r.n_classes or ((values >= 0) & (values < r.n_classes)).all()
        if len(values) != len(weights) or (weights < 0).any() or not known:
            raise FormatError("targets that no rows have", kind="out-of-range")
        return cls(values, weights, repeats(weights), r.n_classes, r.centre, r.places)

    def used(self, tree: int) -> Rows:
        """The rows that count in a tree."""
        return np.flatnonzero(self.repeats[tree] * self.weights).astype(np.uint32)

    def sums(self, nodes: Nodes) -> Ints:
        """Return what leaves keep, shape (n_nodes, n_classes or 2): weight by class, or (Σw, Σw·value)."""
        return _sums(self._counted, nodes.arrays)

    @property
    def _counted(self) -> "_Counted":
        return self.values, self.weights, self.repeats, self.n_classes

    def pure(self, nodes: Nodes) -> Bools:
        """Return whether all rows of a node have the same target."""
        return _pure(self.values, nodes.starts, nodes.rows)


_Counted = tuple[Ints, Ints, Bytes, int]
"""Values, weights and repeats of the rows, and the number of classes: what kernels take."""


def fixed_weights(weights: Floats) -> Ints:
    """Weights as integers: small whole numbers as they are, others in 2^20 steps of the largest.

    A weight above zero stays above zero.
    """
    top = weights.max(initial=0.0)
    if top > _WEIGHT_STEPS or (weights != np.rint(weights)).any():
        weights = np.where(weights > 0, np.maximum(np.rint(weights / top * _WEIGHT_STEPS), 1), 0)
    return weights.astype(np.int64)


class Best(NamedTuple):
    """The best cut of each asked feature, NO_CUT if none is valid; its score; and where its bins begin."""

    cuts: Ints
    scores: Floats
    starts: Ints


def best_cuts(
    targets: Targets, nodes: Nodes, asked: Positions, n_cuts: Bytes, bins: Bytes, min_samples_leaf: int
) -> Best:
    """For each question, a feature at the node at position `asked[i]`: the best of its `n_cuts[i]` cuts.

    `bins` holds the bins of every row of the node, for every question that has cuts, one after the other. The
    lowest of equally good cuts wins.
    """
    starts = starts_of(np.where(n_cuts > 0, nodes.sizes[asked], 0))
    if len(bins) != starts[-1]:
        raise FormatError(f"{len(bins)} bins for {starts[-1]} rows", kind="length")
    cuts, scores, in_range = _best_cuts(
        targets._counted, nodes.arrays, asked, n_cuts, starts, bins, min_samples_leaf
    )
    if not in_range:
        raise FormatError("a bin above the number of cuts", kind="out-of-range")
    return Best(cuts, scores, starts)


@kernel
def _sums(targets: _Counted, nodes: Arrays) -> Ints:
    values, weights, repeats, n_classes = targets
    trees, starts, rows = nodes
    sums = np.zeros((len(trees), n_classes or 2), dtype=np.int64)
    for j in range(len(trees)):
        for row in rows[starts[j] : starts[j + 1]]:
            _add(sums[j], values[row], weights[row] * repeats[trees[j], row], n_classes)
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
    targets: _Counted,
    nodes: Arrays,
    asked: Positions,
    n_cuts: Bytes,
    starts: Ints,
    bins: Bytes,
    min_samples_leaf: int,
) -> tuple[Ints, Floats, bool]:
    values, weights, repeats, n_classes = targets
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
        repeat = repeats[trees[asked[q]]]
        node_bins = bins[starts[q] : starts[q + 1]]
        for i in range(len(node)):
            row, b = node[i], node_bins[i]
            if b >= used:
                return cuts, scores, False
            counts[b] += 1
            _add(sums[b], values[row], weights[row] * repeat[row], n_classes)
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
