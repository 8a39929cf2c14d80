"""The reference's books, and its cuts at a node, by hand and by brute force."""

from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest

from tests.reference import forest
from tests.reference.forest import Feature

MISSING = forest.missing(64)


# -- Books of cuts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "n_cuts", "thresholds"),
    [
        ([1, 2, 5, 5, 8], 255, [1, 3, 6]),
        ([-5, -2, 0], 255, [-4, -1]),  # halves are rounded down
        ([1, 2, 5, 8], 3, [1, 3, 6]),  # as many values as bins
        ([7, 7, 7], 255, []),
        ([MISSING, MISSING], 255, []),
        ([MISSING, 7, 7], 255, [MISSING]),
        ([MISSING, 7, 8], 1, [MISSING]),
        ([MISSING, 1, 5, 9], 2, [MISSING, 7]),  # two bins: M = 2, {1, 5} {9}
        ([MISSING, MISSING, 1, 5, 9], 3, [MISSING, 3, 7]),
        ([1 - 2**62, 2**62 - 1], 255, [0]),
        ([], 255, []),
        ([0, 10, 20, 30, 40, 50], 2, [15, 35]),  # three bins of two
        ([0, 10, 20, 30, 40], 2, [15, 35]),  # M = 2, and the last bin has one
        ([0, 10, 20, 30, 40], 1, [25]),  # M = 3
        ([0, 10, *[20] * 9, 30, 40, 50], 2, [15, 25]),  # M = 3: the heavy value alone
        ([*[0] * 9, 10, 20, *[30] * 9], 2, [5, 25]),  # M = 2
        ([0, 0, 10, 10, 20, 20, 30, 30], 2, [15, 25]),  # M = 4, and the third bin is not wasted
    ],
)
def test_books_by_hand(values: list[int], n_cuts: int, thresholds: list[int]) -> None:
    assert forest.book(values, 64, n_cuts) == thresholds


def test_missing_is_that_of_the_ring() -> None:
    assert forest.book([-(2**30), 1, 3], 32) == [-(2**30), 2]
    assert forest.book([-(2**30), 1, 3], 64) == [-(2**29), 2]


def test_few_values_have_every_boundary() -> None:
    values = list(range(0, 512, 2))
    assert forest.book(values) == list(range(1, 511, 2))
    assert len(forest.book([MISSING, *values[1:]])) == 255
    assert forest.book([MISSING, *values]) == [MISSING, *range(3, 511, 2)]  # 255 bins, the first of two


def least_mass(n_rows: dict[int, int], most_bins: int) -> int:
    """Of all divisions into runs: the smallest M that holds every run of more than one value."""
    values = sorted(n_rows)
    masses = []
    for n_bins in range(1, most_bins + 1):
        for ends in combinations(range(1, len(values)), n_bins - 1):
            runs = [values[a:b] for a, b in pairwise([0, *ends, len(values)])]
            masses.append(max(sum(n_rows[v] for v in run) for run in runs if len(run) > 1))
    return min(masses)


def test_m_is_the_smallest_of_all_divisions_into_runs() -> None:
    random = Random("mass")
    for _ in range(300):
        n_rows = {
            value: random.choice([1, 1, 2, 3, 12])
            for value in random.sample(range(30), random.randrange(3, 9))
        }
        most_bins = random.randrange(1, len(n_rows))
        least = least_mass(n_rows, most_bins)
        bins = forest.bins_of_values(n_rows, most_bins)
        assert bins == forest.packed(n_rows, least, most_bins)
        assert len(forest.packed(n_rows, least)) <= most_bins < len(forest.packed(n_rows, least - 1))
        assert len(bins) == most_bins


def test_every_book_divides_the_values_at_its_cuts_and_nowhere_else() -> None:
    random = Random("books")
    for _ in range(300):
        values = [random.choice([MISSING, *range(-9, 9), 0, 0, 0]) for _ in range(random.randrange(1, 40))]
        n_cuts = random.randrange(1, 12)
        thresholds = forest.book(values, 64, n_cuts)
        assert thresholds == sorted(set(thresholds))
        assert len(thresholds) <= n_cuts
        bins = Counter(forest.bin_of(x, thresholds) for x in values)
        assert sorted(bins) == list(range(len(thresholds) + 1))  # no bin is empty
        assert (MISSING in thresholds) == (0 < values.count(MISSING) < len(values))
        if len(set(values)) <= n_cuts + 1:
            assert len(bins) == len(set(values))


def test_bin_counts_the_thresholds_below_and_left_means_up_to_the_cut() -> None:
    thresholds = forest.book([MISSING, -7, -2, 3, 4])
    assert thresholds == [MISSING, -5, 0, 3]
    for x in (MISSING, *range(-9, 9)):
        assert forest.bin_of(x, thresholds) == sum(x > threshold for threshold in thresholds)
        for cut, threshold in enumerate(thresholds):
            assert (x <= threshold) == (forest.bin_of(x, thresholds) <= cut)


# -- Cuts at a node ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "c", "cuts"),
    [
        ([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 3, [3, 6, 8]),  # positions 2, 5, 7
        ([5, 7, 5, 5], 3, [5]),  # positions 1, 2, 3, the last the largest value
        ([1, 2, 2, 2], 1, [1]),  # position 2 is the largest value
        ([9, 9, 9, 9, 9, 9, 3, 1], 1, [3]),
        ([MISSING, 1, 2, 3], 3, [1, 2]),
        ([MISSING, MISSING, 4, 4], 1, [MISSING]),
        ([MISSING, MISSING, 4, 5, 6, 7], 2, [4, 6]),
        ([7, 7, 7], 2, []),
        ([MISSING, MISSING], 2, []),
        ([7], 5, []),
    ],
)
def test_quantile_cuts_are_values_below_the_largest(values: list[int], c: int, cuts: list[int]) -> None:
    assert forest.quantile_cuts(values, c) == cuts


@pytest.mark.parametrize(
    ("values", "c", "cuts"),
    [
        ([10, 0], 3, [2, 5, 7]),
        ([-3, 4, 4], 1, [0]),
        ([0, 1], 3, [0]),
        ([0, 2], 3, [0, 1]),
        ([-1, 0, 10, MISSING], 1, [MISSING]),
        ([0, 10, MISSING], 3, [MISSING, 5, 7]),
        ([6, 6, MISSING], 3, [MISSING]),
        ([6, 6], 3, []),
        ([MISSING, MISSING], 3, []),
        ([1 - 2**62, 2**62 - 1], 1, [0]),
    ],
)
def test_uniform_cuts_divide_the_range_of_what_is_there(values: list[int], c: int, cuts: list[int]) -> None:
    assert forest.uniform_cuts(values, c) == cuts


def test_uniform_cuts_know_the_missing_value_of_the_ring() -> None:
    assert forest.uniform_cuts([0, 10, -(2**30)], 3, 32) == [-(2**30), 5, 7]


def test_every_cut_leaves_values_on_both_sides() -> None:
    random = Random("cuts")
    for _ in range(300):
        values = [random.choice([MISSING, *range(8)]) for _ in range(random.randrange(1, 12))]
        for cuts in (forest.quantile_cuts(values, 3), forest.uniform_cuts(values, 3)):
            assert len(cuts) <= 3
            assert bool(cuts) == (len(set(values)) > 1)
            assert all(min(values) <= cut < max(values) for cut in cuts)


def test_large_nodes_give_one_row_of_each_stretch() -> None:
    rows = list(range(100, 110))
    column = Feature("a/x", [], b"secret")
    samples = [forest.sample(column, (0, path), rows, 3) for path in range(1, 60)]
    assert {first for first, _, _ in samples} == {100, 101, 102}
    assert {second for _, second, _ in samples} == {103, 104, 105}
    assert {third for _, _, third in samples} == {106, 107, 108, 109}
    s = forest.draw(forest.key("sample", b"secret", "a/x"), 0, 1)
    assert samples[0] == [100 + forest.nth(s, 0) % 3, 103 + forest.nth(s, 1) % 3, 106 + forest.nth(s, 2) % 4]


def test_small_nodes_give_all_their_rows() -> None:
    assert forest.sample(Feature("a/x", []), (0, 1), [4, 7, 9], 3) == [4, 7, 9]
