"""Books of cuts: once per column, its owner draws the thresholds by which rows are put into bins.

CS grows a forest from the bins alone. Thresholds never leave their owner. docs/forest.md has the rules.
"""

import numpy as np

from revfrf.forest.kernel import Bytes, Ints, kernel

MAX_CUTS = 255
"""So that a bin is a byte."""


def draw_book(codes: Ints, missing: int, n_cuts: int = MAX_CUTS) -> Ints:
    """Return the thresholds of a column with these x̂, ascending, at most `n_cuts` of them.

    Every boundary between values is a cut if there are few; else bins have about equal mass, and heavy
    values have bins of their own. Missing values have a bin of their own if there are others.
    """
    ordered = np.sort(codes)
    first = int(np.searchsorted(ordered, missing, side="right"))
    present = ordered[first:]
    if not len(present):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], present[1:] != present[:-1]]))
    values, counts = present[starts], np.diff(starts, append=len(present))
    n_bins = n_cuts + 1 - (first > 0)
    ends = np.arange(len(values) - 1) if len(values) <= n_bins else _ends(counts, n_bins)
    below, above = values[ends], values[ends + 1]
    cuts = below + (above - below) // 2
    return np.concatenate([np.full(int(first > 0), missing), cuts])


@kernel
def _ends(counts: Ints, n_bins: int) -> Ints:
    """Return the last value of each bin but the last, for the smallest mass that needs at most `n_bins`."""
    low, high = 1, int(counts.sum())
    while low < high:
        middle = (low + high) // 2
        if _pack(counts, middle, counts[:0], 0) <= n_bins:
            high = middle
        else:
            low = middle + 1
    ends = np.empty(len(counts), dtype=np.int64)
    return ends[: _pack(counts, low, ends, n_bins) - 1]


@kernel
def _pack(counts: Ints, mass: int, ends: Ints, n_bins: int) -> int:
    """Fill bins from the left, each with at most this mass or a single value, and return their number.

    As soon as `n_bins` are enough for the values that are left, each of these gets its own. `ends` gets the
    last value of each bin but the last, if there is room.
    """
    bins, held = 1, 0
    for i in range(len(counts)):
        if held and (held + counts[i] > mass or len(counts) - i <= n_bins - bins):
            if len(ends):
                ends[bins - 1] = i - 1
            bins += 1
            held = 0
        held += int(counts[i])
    return bins


@kernel
def bins_of(codes: Ints, thresholds: Ints) -> Bytes:
    """Return the bin of each x̂: #{j: x̂ > threshold j}, by a binary search without branches."""
    size = 1
    while size <= len(thresholds):
        size *= 2
    ladder = np.full(size, np.iinfo(np.int64).max)  # what no x̂ exceeds
    ladder[: len(thresholds)] = thresholds
    bins = np.empty(len(codes), dtype=np.uint8)
    for i in range(len(codes)):
        low, half = 0, size >> 1
        while half:
            low += half * (ladder[low + half - 1] < codes[i])
            half >>= 1
        bins[i] = low
    return bins
