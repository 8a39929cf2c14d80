"""Growth from bins: CS grows each tree on its own, by one compiled loop. docs/forest.md has the rules.

What makes it fast: the number of rows and their weight are one 64-bit word of a histogram; class and weight
of a row are moved along with the row, so that only its bin is a random access; rows are divided without
branches; few rows are sorted instead of counted. All sums are exact integers, so nothing depends on an order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revfrf.forest.kernel import Bools, Bytes, Ints, Numbers, Paths, kernel
from revfrf.forest.randomness import bootstrap_stream, key, nth, poisson, siphash
from revfrf.forest.targets import Targets
from revfrf.forest.tree import BARE, LEAF, OPEN, Rules, Tree
from revfrf.parallel import as_done, elsewhere, parts_elsewhere

_SECONDS_A_ROW = 1e-7  # to grow one tree, at the least
_FEW = 32  # rows; sorting so few beats counting them in up to 256 bins
_CLASS = np.uint64(48)  # a row's class is above its weight, which has at most 40 bits
_WEIGHT = np.uint64((1 << 48) - 1)


class Rows(NamedTuple):
    """The rows to grow from: the bins of each feature, shape (n_features, n_rows), and what CS knows."""

    bins: Bytes
    n_cuts: Ints
    numbers: Ints
    values: Ints
    weights: Ints


class _Limits(NamedTuple):
    n_classes: int
    bootstrap: bool
    candidate_limit: np.uint64
    max_depth: int
    min_samples_split: int
    min_samples_leaf: int


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """Everything that a forest is grown from, with features in ascending order of their ids."""

    rules: Rules
    seed: bytes
    features: Sequence[str]
    rows: Rows
    n_classes: int

    @classmethod
    def of(
        cls, rules: Rules, seed: bytes, targets: Targets, features: Sequence[str], n_cuts: Ints, bins: Bytes
    ) -> "Growth":
        """Return what grows these rows; the features are in ascending order of their ids."""
        rows = Rows(bins, n_cuts, targets.numbers, targets.values, targets.weights)
        return cls(rules, seed, features, rows, targets.scale.n_classes)

    def tree(self, number: int, old: Tree = BARE) -> Tree:
        """Grow what is open in a tree, with features numbered as here. All else stays as it is."""
        rules = self.rules
        limits = _Limits(
            self.n_classes,
            rules.bootstrap,
            np.uint64(rules.candidate_limit),
            rules.max_depth,
            rules.min_samples_split,
            rules.min_samples_leaf,
        )
        words = [np.frombuffer(key("candidate", self.seed, f), dtype="<u8") for f in self.features]
        keys = np.array(words, dtype=np.uint64).reshape(-1, 2)
        stream, sums = bootstrap_stream(self.seed, number), old.sums.reshape(-1, self.n_classes or 2)
        kept = (old.features, old.cuts, sums)
        return Tree(*_grow(self.rows, limits, keys, np.uint64(number), stream, *kept))

    def trees(self, unfinished: Sequence[tuple[int, Tree]], n_jobs: int) -> Iterator[tuple[int, Tree]]:
        """Grow what is open in these trees, by number, with `n_jobs` threads; yield each when it is done.

        If the user has chosen a backend of joblib with other processes, these do it.
        """
        parts = parts_elsewhere(len(self.rows.values) * len(unfinished) * _SECONDS_A_ROW, n_jobs)
        if parts:
            some = [unfinished[i::parts] for i in range(parts) if unfinished[i::parts]]
            for grown in elsewhere(self._all, some):
                yield from grown
            return
        yield from as_done(lambda asked: (asked[0], self.tree(*asked)), unfinished, n_jobs)

    def _all(self, unfinished: Sequence[tuple[int, Tree]]) -> list[tuple[int, Tree]]:
        return [(number, self.tree(number, old)) for number, old in unfinished]


@kernel
def _unfinished(features: Ints) -> Bools:
    """Return whether a node of a tree is open, or one below it is."""
    found: Bools = features == OPEN
    child = 2 * (features >= 0).sum()  # the right child of the last split
    for i in range(len(features) - 1, -1, -1):
        if features[i] >= 0:
            found[i] |= found[child] | found[child - 1]
            child -= 2
    return found


@kernel
def _grow(
    rows: Rows,
    limits: _Limits,
    keys: Paths,
    tree: np.uint64,
    stream: np.uint64,
    old_features: Ints,
    old_cuts: Bytes,
    old_sums: Ints,
) -> tuple[Ints, Bytes, Ints]:
    bins, n_cuts, numbers, values, weights = rows
    n_classes, bootstrap, candidate_limit, max_depth, min_split, min_leaf = limits
    n_features = bins.shape[0]
    row = np.empty(len(numbers), np.int32)
    tag = np.empty(len(numbers), np.uint64)  # class and weight, or weight
    part = np.empty(0 if n_classes else len(numbers), np.int64)  # weight times target
    size, mass = 0, np.int64(0)
    for i in range(len(numbers)):
        count = poisson(nth(stream, numbers[i])) if bootstrap else 1
        if count and weights[i]:
            row[size] = i
            weight = count * weights[i]
            mass += weight
            if n_classes:
                tag[size] = (np.uint64(values[i]) << _CLASS) | np.uint64(weight)
            else:
                tag[size] = np.uint64(weight)
                part[size] = weight * values[i]
            size += 1
    shift = np.uint64(0)
    while mass >> np.int64(shift):
        shift += np.uint64(1)
    moved_row, moved_tag, moved_part = np.empty(size, np.int32), np.empty(size, np.uint64), part[:0].copy()
    if not n_classes:
        moved_part = np.empty(size, np.int64)
    room = 2 * (size // min_leaf) + 3
    if max_depth < 40:
        room = min(room, 2 ** (max_depth + 1) + 1)
    room = max(room, len(old_features))
    feature, cut = np.empty(room, np.int64), np.zeros(room, np.uint8)
    begin, end = np.zeros(room, np.int64), np.zeros(room, np.int64)
    path, old = np.zeros(room, np.uint64), np.zeros(room, np.int64)
    n_sums = n_classes if n_classes else 2
    sums = np.zeros((room // 2 + 2, n_sums), np.int64)
    total, left = np.zeros(n_sums, np.int64), np.zeros(n_sums, np.int64)
    cells = np.zeros(256 * (n_classes if n_classes else 1), np.uint64)
    parts = np.zeros(256, np.int64)
    order = np.zeros(_FEW, np.int64)
    draws = np.zeros(n_features, np.uint64)
    unfinished = _unfinished(old_features)
    old_child, old_leaf = _places(old_features)
    end[0], path[0] = size, 1
    n_nodes, n_leaves, i = 1, 0, 0
    while i < n_nodes:
        b, e, before = begin[i], end[i], old[i]
        best_feature, best_cut = np.int64(LEAF), np.int64(0)
        if before >= 0 and old_features[before] != OPEN:
            best_feature, best_cut = old_features[before], np.int64(old_cuts[before])
            if best_feature == LEAF:
                sums[n_leaves] = old_sums[old_leaf[before]]
        else:
            pure = _total(tag[b:e], part[b:e] if not n_classes else part, row[b:e], values, n_classes, total)
            deep = (path[i] >> np.uint64(max_depth)) != 0
            if not deep and e - b >= min_split and e - b >= 2 * min_leaf and not pure:
                for f in range(n_features):
                    draws[f] = siphash(keys[f, 0], keys[f, 1], tree, path[i])
                best_score, best_draw = -np.inf, np.uint64(0)
                for others in (False, True):  # what no candidate can split, the others may
                    for f in range(n_features):
                        if (draws[f] > candidate_limit) != others or not n_cuts[f]:
                            continue
                        if n_classes:
                            score, c = _best_of_classes(
                                bins[f], n_cuts[f], row, tag, b, e, shift, min_leaf, total, left, cells, order
                            )
                        else:
                            score, c = _best_of_numbers(
                                bins[f],
                                n_cuts[f],
                                row,
                                tag,
                                part,
                                b,
                                e,
                                shift,
                                min_leaf,
                                total,
                                cells,
                                parts,
                                order,
                            )
                        if c >= 0 and (score > best_score or (score == best_score and draws[f] < best_draw)):
                            best_score, best_draw = score, draws[f]
                            best_feature, best_cut = np.int64(f), c
                    if best_feature != LEAF:
                        break
            if best_feature == LEAF:
                sums[n_leaves] = total
        feature[i], cut[i] = best_feature, best_cut
        if best_feature == LEAF:
            n_leaves += 1
        else:
            middle = b
            if before < 0 or unfinished[before]:  # else nobody asks for rows below
                column, q = bins[best_feature], 0
                for j in range(b, e):
                    r, t = row[j], tag[j]
                    right = column[r] > best_cut
                    row[middle], tag[middle] = r, t
                    moved_row[q], moved_tag[q] = r, t
                    if not n_classes:
                        p = part[j]
                        part[middle], moved_part[q] = p, p
                    middle += 1 - right
                    q += right
                row[middle:e] = moved_row[:q]
                tag[middle:e] = moved_tag[:q]
                if not n_classes:
                    part[middle:e] = moved_part[:q]
            for side in range(2):
                child = n_nodes + side
                begin[child], end[child] = (b, middle) if side == 0 else (middle, e)
                path[child] = path[i] * np.uint64(2) + np.uint64(side)
                old[child] = -1
                if before >= 0 and old_features[before] != OPEN:
                    old[child] = old_child[before] + side
            n_nodes += 2
        i += 1
    return feature[:n_nodes].copy(), cut[:n_nodes].copy(), sums[:n_leaves].copy()


@kernel
def _places(features: Ints) -> tuple[Ints, Ints]:
    """Return for each split the position of its left child, and for each leaf that of its sums."""
    child, leaf = np.zeros(len(features), np.int64), np.zeros(len(features), np.int64)
    splits = leaves = 0
    for i in range(len(features)):
        child[i], leaf[i] = 2 * splits + 1, leaves
        splits += features[i] >= 0
        leaves += features[i] == LEAF
    return child, leaf


@kernel
def _total(tag: Paths, part: Ints, row: Numbers, values: Ints, n_classes: int, total: Ints) -> bool:
    """Add up the rows of a node, and return whether all have the same target."""
    total[:] = 0
    if n_classes:
        for t in tag:
            total[np.int64(t >> _CLASS)] += np.int64(t & _WEIGHT)
        return bool((total > 0).sum() <= 1)
    pure = True
    for j in range(len(tag)):
        total[0] += np.int64(tag[j])
        total[1] += part[j]
        pure &= values[row[j]] == values[row[0]]
    return pure


@kernel
def _best_of_classes(
    column: Bytes,
    n_cuts: int,
    row: Numbers,
    tag: Paths,
    b: int,
    e: int,
    shift: np.uint64,
    min_leaf: int,
    total: Ints,
    left: Ints,
    cells: Paths,
    order: Ints,
) -> tuple[float, np.int64]:
    """Return the best score of a feature's cuts, higher is better, and the cut; -1 if none is valid."""
    n_classes, size = len(total), e - b
    best, best_cut = -np.inf, np.int64(-1)
    mass = total.sum()
    left[:] = 0
    mass_left = rows_left = np.int64(0)
    if size <= _FEW:
        _sort(column, row, b, size, order)
        for j in range(size - 1):
            t = tag[b + (order[j] & 255)]
            weight = np.int64(t & _WEIGHT)
            left[np.int64(t >> _CLASS)] += weight
            mass_left += weight
            here = order[j] >> 8
            if here != order[j + 1] >> 8 and j + 1 >= min_leaf and size - j - 1 >= min_leaf:
                score = _gini(left, total, mass_left, mass)
                if score > best:
                    best, best_cut = score, here
        return best, best_cut
    cells[: (n_cuts + 1) * n_classes] = 0
    one = np.uint64(1) << shift
    for j in range(b, e):
        t = tag[j]
        cells[np.int64(column[row[j]]) * n_classes + np.int64(t >> _CLASS)] += one + (t & _WEIGHT)
    low = one - np.uint64(1)
    for c in range(n_cuts):
        some = np.uint64(0)
        for k in range(n_classes):
            cell = cells[c * n_classes + k]
            some |= cell
            weight = np.int64(cell & low)
            left[k] += weight
            mass_left += weight
            rows_left += np.int64(cell >> shift)
        if some and rows_left >= min_leaf and size - rows_left >= min_leaf:
            score = _gini(left, total, mass_left, mass)
            if score > best:
                best, best_cut = score, np.int64(c)
    return best, best_cut


@kernel
def _gini(left: Ints, total: Ints, mass_left: np.int64, mass: np.int64) -> float:
    squares_left = squares_right = 0.0
    for k in range(len(total)):
        a, b = float(left[k]), float(total[k] - left[k])
        squares_left += a * a
        squares_right += b * b
    return squares_left / float(mass_left) + squares_right / float(mass - mass_left)


@kernel
def _best_of_numbers(
    column: Bytes,
    n_cuts: int,
    row: Numbers,
    tag: Paths,
    part: Ints,
    b: int,
    e: int,
    shift: np.uint64,
    min_leaf: int,
    total: Ints,
    cells: Paths,
    parts: Ints,
    order: Ints,
) -> tuple[float, np.int64]:
    """Return what `_best_of_classes` returns, for a regression."""
    size = e - b
    best, best_cut = -np.inf, np.int64(-1)
    mass_left = part_left = rows_left = np.int64(0)
    if size <= _FEW:
        _sort(column, row, b, size, order)
        for j in range(size - 1):
            at = b + (order[j] & 255)
            mass_left += np.int64(tag[at])
            part_left += part[at]
            here = order[j] >> 8
            if here != order[j + 1] >> 8 and j + 1 >= min_leaf and size - j - 1 >= min_leaf:
                score = _variance(mass_left, part_left, total)
                if score > best:
                    best, best_cut = score, here
        return best, best_cut
    cells[: n_cuts + 1] = 0
    parts[: n_cuts + 1] = 0
    one = np.uint64(1) << shift
    for j in range(b, e):
        at = column[row[j]]
        cells[at] += one + tag[j]
        parts[at] += part[j]
    low = one - np.uint64(1)
    for c in range(n_cuts):
        cell = cells[c]
        mass_left += np.int64(cell & low)
        rows_left += np.int64(cell >> shift)
        part_left += parts[c]
        if cell and rows_left >= min_leaf and size - rows_left >= min_leaf:
            score = _variance(mass_left, part_left, total)
            if score > best:
                best, best_cut = score, np.int64(c)
    return best, best_cut


@kernel
def _variance(mass_left: np.int64, part_left: np.int64, total: Ints) -> float:
    mean = total[1] // total[0]  # far from zero, squares would have no digits left for what differs
    mass_right = total[0] - mass_left
    a = float(part_left - mean * mass_left)
    b = float(total[1] - part_left - mean * mass_right)
    return a * a / float(mass_left) + b * b / float(mass_right)


@kernel
def _sort(column: Bytes, row: Numbers, b: int, size: int, order: Ints) -> None:
    """Order a few rows by their bins: each entry is a bin, and below it a byte with the row's place."""
    for j in range(size):
        entry, at = (np.int64(column[row[b + j]]) << 8) | j, j
        while at > 0 and order[at - 1] > entry:
            order[at] = order[at - 1]
            at -= 1
        order[at] = entry
