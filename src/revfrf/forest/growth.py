"""Growth from bins: CS grows each tree on its own, by one compiled loop. docs/forest.md has the rules.

What makes it fast: the number of rows and their weight are one 64-bit word of a histogram; class and weight
of a row are moved along with the row, so that only its bin is a random access; rows are divided without
branches; few rows are sorted instead of counted. All sums are exact integers, so nothing depends on an order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from revfrf.errors import UsageError
from revfrf.forest.kernel import Bools, Bytes, Ints, Numbers, Paths, kernel
from revfrf.forest.randomness import POISSON, bootstrap_stream, candidate_draws, key, nth, poisson
from revfrf.forest.targets import Targets
from revfrf.forest.tree import BARE, LEAF, OPEN, Rules, Tree
from revfrf.parallel import as_done, elsewhere, is_compiled, parts_elsewhere

_SECONDS_A_ROW = 1e-7  # to grow one tree, at the least
_FEW = 32  # rows; sorting so few beats counting them in up to 256 bins
_CLASS = np.uint64(48)  # a row's class is above its weight, which has at most 40 bits
_WEIGHT = np.uint64((1 << 48) - 1)
_MAX_ROWS = 2**31  # their positions are `Numbers`
_WORD_BITS = 64


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
    """Everything that a forest is grown from, with features in ascending order of their ids.

    `here`: it is grown in this process alone, whatever backend of joblib the user has chosen.
    """

    rules: Rules
    seed: bytes
    features: Sequence[str]
    rows: Rows
    n_classes: int
    keys: Paths
    here: bool = False

    @classmethod
    def of(
        cls,
        rules: Rules,
        seed: bytes,
        targets: Targets,
        features: Sequence[str],
        n_cuts: Ints,
        bins: Bytes,
        here: bool = False,
    ) -> "Growth":
        """Return what grows these rows; the features are in ascending order of their ids.

        Raises UsageError for more rows than it can hold.
        """
        check_room(rules, targets)
        rows = Rows(bins, n_cuts, targets.numbers, targets.values, targets.weights)
        words = b"".join(key("candidate", seed, feature) for feature in features)
        keys = np.frombuffer(words, "<u8").astype(np.uint64).reshape(-1, 2).T.copy()
        return cls(rules, seed, features, rows, targets.scale.n_classes, keys, here)

    @staticmethod
    def compiles() -> bool:
        """Return whether the first tree has to wait for the compiler, as the very first ever does."""
        return not is_compiled(_grow)

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
        stream, sums = bootstrap_stream(self.seed, number), old.sums.reshape(-1, self.n_classes or 2)
        kept = (old.features, old.cuts, sums)
        return Tree(*_grow(self.rows, limits, self.keys, np.uint64(number), stream, *kept))

    def trees(self, unfinished: Sequence[tuple[int, Tree]], n_jobs: int) -> Iterator[tuple[int, Tree]]:
        """Grow what is open in these trees, by number, with `n_jobs` threads; yield each when it is done.

        If the user has chosen a backend of joblib with other processes, these do it.
        """
        seconds = len(self.rows.values) * len(unfinished) * _SECONDS_A_ROW
        parts = 0 if self.here else parts_elsewhere(seconds, n_jobs)
        if parts:
            some = [unfinished[i::parts] for i in range(parts) if unfinished[i::parts]]
            for grown in elsewhere(self._all, some):
                yield from grown
            return
        yield from as_done(lambda asked: (asked[0], self.tree(*asked)), unfinished, n_jobs)

    def _all(self, unfinished: Sequence[tuple[int, Tree]]) -> list[tuple[int, Tree]]:
        return [(number, self.tree(number, old)) for number, old in unfinished]


def check_room(rules: Rules, targets: Targets) -> None:
    """Raise UsageError for more rows than a tree can hold.

    A word of a histogram has room for the number of the rows and, below it, for their weight.
    """
    if len(targets) > _MAX_ROWS:
        raise UsageError(f"{len(targets):,} rows; a forest has at most {_MAX_ROWS:,}")
    times = len(POISSON) if rules.bootstrap else 1
    counted, weight = int(np.count_nonzero(targets.weights)), times * int(targets.weights.sum())
    if counted.bit_length() + weight.bit_length() > _WORD_BITS:
        raise UsageError(
            f"{counted:,} rows with these weights are more than a tree can add up; use fewer rows, or "
            "smaller whole numbers as weights"
        )


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
    """Go through a tree level by level: take what is kept of it, and find a split where it is open."""
    bins, n_cuts, numbers, values, weights = rows
    n_classes, bootstrap, candidate_limit, max_depth, min_split, min_leaf = limits
    row, tag, part, shift = _draw_rows(numbers, values, weights, n_classes, bootstrap, stream)
    moved = np.empty_like(row), np.empty_like(tag), np.empty_like(part)
    room = 2 * (len(row) // min_leaf) + 3 + len(old_features)
    if max_depth < 40:
        room = min(room, 2 ** (max_depth + 1) + 1)
    n_sums = n_classes if n_classes else 2
    # Not zeros: there is room for far more nodes than are made, and memory that is not written to is free.
    feature, cut, sums = (
        np.empty(room, np.int64),
        np.empty(room, np.uint8),
        np.empty((room, n_sums), np.int64),
    )
    begin, end = np.empty(room, np.int64), np.empty(room, np.int64)
    path, old, leaves = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    left, best_left = np.zeros(n_sums, np.int64), np.zeros(n_sums, np.int64)
    cells, summed = np.zeros(256 * n_sums, np.uint64), np.zeros(256, np.int64)
    order = np.zeros(_FEW, np.int64)
    draws = np.zeros(len(bins), np.uint64)
    unfinished, (old_child, old_leaf) = _unfinished(old_features), _places(old_features)
    begin[0], end[0], path[0], old[0] = 0, len(row), 1, 0
    _add_up(tag, part, n_classes, sums[0])
    n_nodes, n_leaves, i = 1, 0, 0
    while i < n_nodes:
        b, e, before, total = begin[i], end[i], old[i], sums[i]
        own, tags, parts = row[b:e], tag[b:e], part[b:e]
        kept = before >= 0 and old_features[before] != OPEN
        best_feature, best_cut = np.int64(LEAF), np.int64(0)
        if kept:
            best_feature, best_cut = old_features[before], np.int64(old_cuts[before])
            if best_feature == LEAF:
                total[:] = old_sums[old_leaf[before]]
        elif not (path[i] >> np.uint64(max_depth)) and e - b >= max(min_split, 2 * min_leaf):
            best_score, best_draw = -np.inf, np.uint64(0)
            pure = _pure(own, values, n_classes, total)
            mass = total.sum()  # of classes
            if not pure:
                candidate_draws(keys[0], keys[1], tree, path[i], draws)
            for others in (False, True):  # what no candidate can split, the others may
                for f in range(0 if pure else len(bins)):
                    if (draws[f] > candidate_limit) != others or not n_cuts[f]:
                        continue
                    if n_classes:
                        score, c = _best_of_classes(
                            bins[f],
                            n_cuts[f],
                            own,
                            tags,
                            shift,
                            min_leaf,
                            total,
                            mass,
                            left,
                            best_left,
                            cells,
                            order,
                        )
                    else:
                        score, c = _best_of_numbers(
                            bins[f],
                            n_cuts[f],
                            own,
                            tags,
                            parts,
                            shift,
                            min_leaf,
                            total,
                            best_left,
                            cells,
                            summed,
                            order,
                        )
                    if c >= 0 and (score > best_score or (score == best_score and draws[f] < best_draw)):
                        best_score, best_draw, best_feature, best_cut = score, draws[f], np.int64(f), c
                        for k in range(n_sums):
                            sums[n_nodes, k] = best_left[k]
                if best_feature != LEAF:
                    break
        feature[i], cut[i] = best_feature, best_cut
        if best_feature == LEAF:
            leaves[n_leaves] = i
            n_leaves += 1
        else:
            middle = b
            if before < 0 or unfinished[before]:  # else nobody asks for rows below
                middle += _divide(bins[best_feature], best_cut, own, tags, parts, moved)
                if kept:
                    _add_up(tag[b:middle], part[b:middle], n_classes, sums[n_nodes])
                for k in range(n_sums):
                    sums[n_nodes + 1, k] = total[k] - sums[n_nodes, k]
            begin[n_nodes], end[n_nodes], begin[n_nodes + 1], end[n_nodes + 1] = b, middle, middle, e
            for side in range(2):
                path[n_nodes + side] = path[i] * np.uint64(2) + np.uint64(side)
                old[n_nodes + side] = old_child[before] + side if kept else -1
            n_nodes += 2
        i += 1
    return feature[:n_nodes].copy(), cut[:n_nodes].copy(), sums[leaves[:n_leaves]]


@kernel
def _draw_rows(
    numbers: Ints, values: Ints, weights: Ints, n_classes: int, bootstrap: bool, stream: np.uint64
) -> tuple[Numbers, Paths, Ints, np.uint64]:
    """Return the rows that count in a tree, and what each adds up to.

    That is its class and weight, and in a regression weight times target. Last, where the number of rows
    begins in a cell of a histogram: above the weight of all.
    """
    row, tag = np.empty(len(numbers), np.uint32), np.empty(len(numbers), np.uint64)
    part = np.empty(0 if n_classes else len(numbers), np.int64)
    size, mass = 0, np.int64(0)
    for i in range(len(numbers)):
        weight = weights[i] * (poisson(nth(stream, numbers[i])) if bootstrap else 1)
        row[size], tag[size] = i, np.uint64(weight)
        if n_classes:
            tag[size] |= np.uint64(values[i]) << _CLASS
        else:
            part[size] = weight * values[i]
        mass += weight
        size += weight > 0
    shift = np.uint64(0)
    while mass >> np.int64(shift):
        shift += np.uint64(1)
    return row[:size], tag[:size], part[:size], shift


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
def _add_up(tag: Paths, part: Ints, n_classes: int, sums: Ints) -> None:
    """Add up the rows of a node."""
    sums[:] = 0
    for j in range(len(tag)):
        if n_classes:
            sums[np.int64(tag[j] >> _CLASS)] += np.int64(tag[j] & _WEIGHT)
        else:
            sums[0] += np.int64(tag[j])
            sums[1] += part[j]


@kernel
def _pure(row: Numbers, values: Ints, n_classes: int, total: Ints) -> bool:
    """Return whether all rows of a node have the same target."""
    if n_classes:
        found = 0
        for weight in total:
            found += weight > 0
        return found <= 1
    for r in row:  # noqa: SIM110 (kernels have no generators)
        if values[r] != values[row[0]]:
            return False
    return True


@kernel
def _divide(
    column: Bytes,
    cut: np.int64,
    row: Numbers,
    tag: Paths,
    part: Ints,
    space: tuple[Numbers, Paths, Ints],
) -> int:
    """Put the rows of a node that go left before those that go right, and return how many go left."""
    moved_row, moved_tag, moved_part = space
    left = moved = 0
    for j in range(len(row)):
        r, t = row[j], tag[j]
        right = column[r] > cut
        row[left], tag[left], moved_row[moved], moved_tag[moved] = r, t, r, t
        if len(part):
            p = part[j]
            part[left], moved_part[moved] = p, p
        left += 1 - right
        moved += right
    row[left:] = moved_row[:moved]
    tag[left:] = moved_tag[:moved]
    if len(part):
        part[left:] = moved_part[:moved]
    return left


@kernel
def _best_of_classes(
    column: Bytes,
    n_cuts: int,
    row: Numbers,
    tag: Paths,
    shift: np.uint64,
    min_leaf: int,
    total: Ints,
    mass: np.int64,
    left: Ints,
    best_left: Ints,
    cells: Paths,
    order: Ints,
) -> tuple[float, np.int64]:
    """Return the best score of a feature's cuts, higher is better, and the cut; -1 if none is valid."""
    n_classes, size = len(total), len(row)
    best, best_cut = -np.inf, np.int64(-1)
    for k in range(n_classes):
        left[k] = 0
    mass_left = rows_left = np.int64(0)
    if size <= _FEW:
        _sort(column, row, order)
        for j in range(size - 1):
            t = tag[order[j] & 255]
            weight = np.int64(t & _WEIGHT)
            left[np.int64(t >> _CLASS)] += weight
            mass_left += weight
            here = order[j] >> 8
            if here != order[j + 1] >> 8 and j + 1 >= min_leaf and size - j - 1 >= min_leaf:
                score = _gini(left, total, mass_left, mass)
                if score > best:
                    best, best_cut = score, here
                    for k in range(n_classes):
                        best_left[k] = left[k]
        return best, best_cut
    cells[: (n_cuts + 1) * n_classes] = 0
    one, classes = np.uint64(1) << shift, np.uint64(n_classes)
    for j in range(size):
        t = tag[j]
        cells[np.uint64(column[row[j]]) * classes + (t >> _CLASS)] += one + (t & _WEIGHT)
    low = one - np.uint64(1)
    for c in range(n_cuts):
        some = np.uint64(0)
        for k in range(n_classes):
            some += cells[c * n_classes + k]
        if not some:
            continue
        for k in range(n_classes):
            left[k] += np.int64(cells[c * n_classes + k] & low)
        mass_left += np.int64(some & low)
        rows_left += np.int64(some >> shift)
        if rows_left >= min_leaf and size - rows_left >= min_leaf:
            score = _gini(left, total, mass_left, mass)
            if score > best:
                best, best_cut = score, np.int64(c)
                for k in range(n_classes):
                    best_left[k] = left[k]
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
    shift: np.uint64,
    min_leaf: int,
    total: Ints,
    best_left: Ints,
    cells: Paths,
    summed: Ints,
    order: Ints,
) -> tuple[float, np.int64]:
    """Return what `_best_of_classes` returns, for a regression."""
    size = len(row)
    best, best_cut = -np.inf, np.int64(-1)
    mass_left = part_left = rows_left = np.int64(0)
    if size <= _FEW:
        _sort(column, row, order)
        for j in range(size - 1):
            at = order[j] & 255
            mass_left += np.int64(tag[at])
            part_left += part[at]
            here = order[j] >> 8
            if here != order[j + 1] >> 8 and j + 1 >= min_leaf and size - j - 1 >= min_leaf:
                score = _variance(mass_left, part_left, total)
                if score > best:
                    best, best_cut = score, here
                    best_left[0], best_left[1] = mass_left, part_left
        return best, best_cut
    cells[: n_cuts + 1] = 0
    summed[: n_cuts + 1] = 0
    one = np.uint64(1) << shift
    for j in range(size):
        at = column[row[j]]
        cells[at] += one + tag[j]
        summed[at] += part[j]
    low = one - np.uint64(1)
    for c in range(n_cuts):
        cell = cells[c]
        mass_left += np.int64(cell & low)
        rows_left += np.int64(cell >> shift)
        part_left += summed[c]
        if cell and rows_left >= min_leaf and size - rows_left >= min_leaf:
            score = _variance(mass_left, part_left, total)
            if score > best:
                best, best_cut = score, np.int64(c)
                best_left[0], best_left[1] = mass_left, part_left
    return best, best_cut


@kernel
def _variance(mass_left: np.int64, part_left: np.int64, total: Ints) -> float:
    mean = total[1] // total[0]  # far from zero, squares would have no digits left for what differs
    mass_right = total[0] - mass_left
    a = float(part_left - mean * mass_left)
    b = float(total[1] - part_left - mean * mass_right)
    return a * a / float(mass_left) + b * b / float(mass_right)


@kernel
def _sort(column: Bytes, row: Numbers, order: Ints) -> None:
    """Order a few rows by their bins: each entry is a bin, and below it a byte with the row's place."""
    for j in range(len(row)):
        entry, at = (np.int64(column[row[j]]) << 8) | j, j
        while at > 0 and order[at - 1] > entry:
            order[at] = order[at - 1]
            at -= 1
        order[at] = entry
