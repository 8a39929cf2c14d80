"""Books of cuts, and the bins of rows, as docs/forest.md describes them."""

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from revfrf.crypto.encoding import bound, missing
from revfrf.forest.books import MAX_CUTS, bins_of, draw_book
from tests.reference import forest as reference

BOUND, MISSING = bound(64), missing(64)
RINGS = {64: BOUND, 32: 2**30}

sizes = st.one_of(st.integers(1, MAX_CUTS), st.sampled_from([1, 2, 3, 4, 254, 255]))


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[int], int]:
    """Values of a ring, with ties, gaps, extremes and missing ones."""
    ring = draw(st.sampled_from([32, 64]))
    most = RINGS[ring] - 1
    rng = random.Random(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 600))
    missing = draw(st.sampled_from([0.0, 0.1, 1.0]))
    spread = draw(st.sampled_from([0, 1, 2, 7, 200, 300, 1000, most]))
    heavy = [rng.randrange(-spread, spread + 1) for _ in range(3)] + [-most, most]
    alike = draw(st.sampled_from([0.0, 0.3, 0.9]))

    def value() -> int:
        if rng.random() < missing:
            return reference.missing(ring)
        return rng.choice(heavy) if rng.random() < alike else rng.randrange(-spread, spread + 1)

    return [value() for _ in range(n)], ring


def book(values: list[int], ring: int = 64, n_cuts: int = MAX_CUTS) -> list[int]:
    codes = np.array(values, dtype=np.int64)
    thresholds: list[int] = draw_book(codes, reference.missing(ring), n_cuts).tolist()
    return thresholds


@given(columns(), sizes)
@example(([MISSING] * 3, 64), 255)
@example(([MISSING, 1], 64), 1)
@example(([MISSING, 1, 2], 64), 1)
@example(([1 - BOUND, BOUND - 1], 64), 255)
@example(([5], 64), 1)
@example((list(range(256)), 64), 255)
@example((list(range(257)), 64), 255)
@example(([*range(255), MISSING], 64), 255)
@example(([*range(256), MISSING], 64), 255)
def test_book_is_the_reference_s_and_so_are_bins(column: tuple[list[int], int], n_cuts: int) -> None:
    values, ring = column
    thresholds = book(values, ring, n_cuts)
    assert thresholds == reference.book(values, ring, n_cuts)
    bins = bins_of(np.array(values, dtype=np.int64), np.array(thresholds, dtype=np.int64))
    assert bins.dtype == np.uint8
    assert bins.tolist() == [reference.bin_of(value, thresholds) for value in values]
    assert set(bins.tolist()) == set(range(len(thresholds) + 1))  # no bin is empty


@given(st.integers(1, 255), st.sampled_from([32, 64]), st.data())
def test_bin_of_any_value_is_the_number_of_cuts_below_it(n: int, ring: int, data: st.DataObject) -> None:
    most = RINGS[ring] - 1
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    thresholds = sorted({rng.randrange(-most, most + 1) for _ in range(n)})
    near = [cut + step for cut in thresholds for step in (-1, 0, 1)]
    values = [*near, -most, most, reference.missing(ring), 0]
    bins = bins_of(np.array(values, dtype=np.int64), np.array(thresholds, dtype=np.int64))
    assert bins.tolist() == [reference.bin_of(value, thresholds) for value in values]


@pytest.mark.parametrize("n_cuts", [1, 2, 16, 255])
@pytest.mark.parametrize("distinct", [1, 2, 3, 255, 256, 257, 1000])
def test_book_of_so_many_distinct_values_is_the_reference_s(distinct: int, n_cuts: int) -> None:
    rng = np.random.default_rng(distinct)
    values = np.cumsum(rng.integers(1, 1000, distinct)) - 10**5
    repeated = np.repeat(values, rng.geometric(0.5, distinct))
    rng.shuffle(repeated)
    thresholds = book(repeated.tolist(), 64, n_cuts)
    assert thresholds == reference.book(repeated.tolist(), 64, n_cuts)
    assert len(thresholds) == min(distinct - 1, n_cuts)  # no bin is wasted


def test_a_million_distinct_values_have_bins_of_equal_mass() -> None:
    """The reference would try each mass in turn; here the smallest one is known."""
    values = np.random.default_rng(0).permutation(2**20)
    thresholds = draw_book(values, MISSING)
    assert thresholds.tolist() == list(range(4095, 255 * 4096, 4096))
    assert np.bincount(bins_of(values, thresholds)).tolist() == [4096] * 256


def test_bins_of_heavy_values_are_their_own() -> None:
    values = [0] * 1000 + list(range(1, 100)) + [100] * 1000 + list(range(101, 200))
    thresholds = book(values, 64, 9)
    bins = [reference.bin_of(value, thresholds) for value in values]
    assert {bins.count(reference.bin_of(heavy, thresholds)) for heavy in (0, 100)} == {1000}


def test_book_does_not_depend_on_the_order_of_rows() -> None:
    rng = random.Random(1)
    values = [rng.randrange(500) for _ in range(3000)]
    assert book(values, 64, 40) == book(sorted(values), 64, 40) == book(values[::-1], 64, 40)


def test_cuts_between_the_extremes_of_the_ring_do_not_overflow() -> None:
    assert book([1 - BOUND, BOUND - 1]) == [0]
    assert book([MISSING, 1 - BOUND, BOUND - 1]) == [MISSING, 0]
    assert book([BOUND - 2, BOUND - 1]) == [BOUND - 2]
    assert book([1 - BOUND, 2 - BOUND]) == [1 - BOUND]
