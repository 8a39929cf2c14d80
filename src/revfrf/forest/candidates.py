"""Candidate thresholds: what an owner makes of a node's rows (FLE-Expan, lines 7 to 13).

From each node it draws a few rows, takes thresholds s_0 < s_1 < … from their values, and computes for every
row of the node the bin b = #{i: x̂ > s_i}. That is the paper's set of split vectors, w_i = [b > i], in a
quarter of the bits. docs/forest.md has the rules in full.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from revfrf.forest.kernel import Bytes, Ints, Paths, Positions, Rows, kernel
from revfrf.forest.nodes import Arrays, Nodes
from revfrf.forest.randomness import nth
from revfrf.forest.tree import PerNode

_NEVER = np.iinfo(np.int64).max
_FEW = 256  # distinct values of a column whose ranks fit a byte


@dataclass(frozen=True, slots=True)
class Proposal:
    """The candidate splits of one feature at several nodes.

    `thresholds[j, :n_cuts[j]]` are the owner's secret: cut i of node j is at `thresholds[j, i]`. CS gets
    `n_cuts`, and the `bins` of every row of every node that has a cut. A node whose sample has only one
    value has no cut.
    """

    thresholds: Ints = field(repr=False)
    n_cuts: Bytes
    bins: Bytes


class Values(NamedTuple):
    """A column's x̂, and the x̂ that is missing.

    If only a few are distinct: these in ascending order, and which of them each row has.
    """

    missing: int
    codes: Ints
    distinct: Ints
    ranks: Bytes

    @classmethod
    def of(cls, codes: Ints, missing: int) -> "Values":
        """Ready for `propose`: sorting and searching become counting and looking up."""
        few = len(np.unique(codes[: 4 * _FEW])) <= _FEW
        distinct = np.unique(codes) if few else codes
        if len(distinct) > _FEW:
            return cls(missing, codes, np.empty(0, np.int64), np.empty(0, np.uint8))
        return cls(missing, codes, distinct, np.searchsorted(distinct, codes).astype(np.uint8))


def propose(
    values: Values,
    nodes: Nodes,
    positions: Positions,
    seeds: Paths,
    cuts: PerNode,
) -> Proposal:
    """Return the thresholds and bins of one column at the nodes at these positions, each with its seed."""
    limits = (cuts.method == "uniform", cuts.n_sampled, cuts.n_candidates)
    return Proposal(*_propose(values, nodes.arrays, positions, seeds, *limits))


@kernel
def _propose(
    values: Values,
    nodes: Arrays,
    positions: Positions,
    seeds: Paths,
    uniform: bool,
    n_sampled: int,
    n_candidates: int,
) -> tuple[Ints, Bytes, Bytes]:
    missing, codes, distinct, ranks = values
    _, starts, rows = nodes
    thresholds = np.empty((len(positions), n_candidates), dtype=np.int64)
    n_cuts = np.zeros(len(positions), dtype=np.uint8)
    bins = np.empty((starts[positions + 1] - starts[positions]).sum(), dtype=np.uint8)
    picked = np.empty(n_sampled, dtype=np.uint32)
    sample = np.empty(n_sampled, dtype=np.int64)
    ladder = np.empty(2 * n_candidates + 2, dtype=np.int64)
    used = 0
    for j in range(len(positions)):
        node = rows[starts[positions[j]] : starts[positions[j] + 1]]
        size = _draw(node, seeds[j], picked)
        by_rank = 0 < len(distinct) <= 2 * len(node)
        if by_rank:
            _count_sort(distinct, ranks, picked[:size], sample)
        else:
            for i in range(size):
                sample[i] = codes[picked[i]]
            sample[:size].sort()
        ordered = sample[:size]
        own = thresholds[j]
        count = _even_thresholds(missing, ordered, own) if uniform else _quantile_thresholds(ordered, own)
        n_cuts[j] = count
        if count:
            out = bins[used : used + len(node)]
            if by_rank:
                _look_up_bins(distinct, ranks, node, own[:count], out)
            else:
                _search_bins(codes, node, own[:count], ladder, out)
            used += len(node)
    return thresholds, n_cuts, bins[:used]


@kernel
def _draw(node: Rows, seed: np.uint64, picked: Rows) -> int:
    """Pick the sample: all rows of a small node, else one from each of equally long stretches of its rows."""
    rows, wanted = len(node), len(picked)
    if rows <= wanted:
        picked[:rows] = node
        return rows
    for i in range(wanted):
        low, high = i * rows // wanted, (i + 1) * rows // wanted
        picked[i] = node[low + np.int64(nth(seed, i) % np.uint64(high - low))]
    return wanted


@kernel
def _count_sort(distinct: Ints, ranks: Bytes, picked: Rows, sample: Ints) -> None:
    counts = np.zeros(len(distinct), dtype=np.int64)
    for row in picked:
        counts[ranks[row]] += 1
    at = 0
    for rank in range(len(distinct)):
        for _ in range(counts[rank]):
            sample[at] = distinct[rank]
            at += 1


@kernel
def _quantile_thresholds(ordered: Ints, thresholds: Ints) -> int:
    """Values at even ranks of the sample, each once, and none that leaves nothing on its right."""
    size, wanted = len(ordered), len(thresholds)
    count = 0
    for i in range(wanted):
        value = ordered[(i + 1) * size // (wanted + 1)]
        if value < ordered[size - 1] and (count == 0 or value > thresholds[count - 1]):
            thresholds[count] = value
            count += 1
    if count == 0 and ordered[0] < ordered[size - 1]:  # nearly all of the sample is its largest value
        thresholds[0] = ordered[np.searchsorted(ordered, ordered[size - 1]) - 1]
        count = 1
    return count


@kernel
def _even_thresholds(missing: int, ordered: Ints, thresholds: Ints) -> int:
    """The paper's even spacing from the lowest to the highest value; missing ones get a cut of their own."""
    size, wanted = len(ordered), len(thresholds)
    first = np.searchsorted(ordered, missing + 1)
    count = 0
    if first == size or (first == 0 and ordered[0] == ordered[size - 1]):
        return 0
    if first > 0:
        thresholds[0] = missing
        count = 1
    low, width = ordered[first], ordered[size - 1] - ordered[first]
    step, rest = width // (wanted + 1), width % (wanted + 1)
    for i in range(count + 1, wanted + 1):
        value = low + step * i + rest * i // (wanted + 1)
        if value < ordered[size - 1] and (count == 0 or value > thresholds[count - 1]):
            thresholds[count] = value
            count += 1
    return count


@kernel
def _look_up_bins(distinct: Ints, ranks: Bytes, node: Rows, thresholds: Ints, bins: Bytes) -> None:
    """The bin of each row, #{i: x > s_i}, from a table by rank."""
    bin_of = np.empty(len(distinct), dtype=np.uint8)
    below = 0
    for rank in range(len(distinct)):
        while below < len(thresholds) and thresholds[below] < distinct[rank]:
            below += 1
        bin_of[rank] = below
    for i in range(len(node)):
        bins[i] = bin_of[ranks[node[i]]]


@kernel
def _search_bins(codes: Ints, node: Rows, thresholds: Ints, ladder: Ints, bins: Bytes) -> None:
    """The bin of each row, #{i: x > s_i}: a binary search without branches, for nobody can guess them.

    `ladder` has room for the cuts and one more, a power of two; what is above the cuts no x exceeds.
    """
    size = 1
    while size <= len(thresholds):
        size *= 2
    ladder[: len(thresholds)] = thresholds
    ladder[len(thresholds) : size] = _NEVER
    for i in range(len(node)):
        x = codes[node[i]]
        low, half = 0, size >> 1
        while half:
            low += half * (ladder[low + half - 1] < x)
            half >>= 1
        bins[i] = low
