"""Labels and weights as integers, as docs/forest.md says, and what does not fit."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from revfrf.errors import FormatError, UsageError
from revfrf.forest.targets import (
    Scale,
    Targets,
    TargetsRecord,
    class_targets,
    number_targets,
    unknown_targets,
)
from tests.reference import forest as reference

LARGEST = 2.0**1000

weights_of_rows = st.lists(
    st.one_of(st.integers(0, 2**20).map(float), st.floats(0, 1e300)), min_size=1, max_size=30
).filter(any)
numbers = st.one_of(st.floats(-LARGEST, LARGEST), st.floats(-10, 10), st.integers(-9, 9).map(float))


def regression(
    y: Sequence[float],
    weights: Sequence[float] | None = None,
    target_range: tuple[float, float] | None = None,
    max_total_weight: float | None = None,
) -> Targets:
    of_rows = np.ones(len(y)) if weights is None else np.array(weights, dtype=np.float64)
    rows = np.arange(len(y)), np.array(y, dtype=np.float64), of_rows
    return number_targets(*rows, target_range, max_total_weight)


def weighted(weights: Sequence[float], max_total_weight: float | None = None) -> Targets:
    rows = np.arange(len(weights)), np.zeros(len(weights), np.int64)
    return class_targets(*rows, ("a",), np.array(weights, dtype=np.float64), None, max_total_weight)


# -- weights ----------------------------------------------------------------------------------------


@given(weights_of_rows)
@example([2.0**32])
@example([2.0**32 + 1])
@example([2.0**53, 1.0, 1.0])
@example([0.1] * 10)
@example([5e-324])
def test_weights_are_the_reference_s(weights: list[float]) -> None:
    targets, scale = weighted(weights), reference.class_scale("a" * len(weights), weights)
    assert targets.scale.max_total_weight == scale.max_total_weight
    assert targets.scale.weight_places == scale.weight_places
    assert targets.weights.tolist() == reference.fixed_weights(scale, weights)


@given(weights_of_rows, st.floats(1, 1e6))
def test_weights_of_a_given_largest_sum_are_the_reference_s(weights: list[float], room: float) -> None:
    most = room * math.fsum(weights)
    scale = reference.class_scale("a" * len(weights), weights, most)
    targets = weighted(weights, most)
    assert (targets.scale.max_total_weight, targets.scale.weight_places) == (most, scale.weight_places)
    assert targets.weights.tolist() == reference.fixed_weights(scale, weights)


@given(weights_of_rows)
def test_weight_is_zero_exactly_where_it_was(weights: list[float]) -> None:
    fixed = weighted(weights).weights
    assert (fixed > 0).tolist() == [weight > 0 for weight in weights]
    assert fixed.sum() <= 2**34 + len(weights)


@given(weights_of_rows)
def test_scale_does_not_depend_on_the_order_of_rows(weights: list[float]) -> None:
    assert weighted(weights).scale == weighted(sorted(weights)).scale == weighted(weights[::-1]).scale


def test_weight_of_a_row_is_its_own_times_that_of_its_class() -> None:
    classes, factors = np.array([0, 1, 1, 2]), np.array([2.0, 0.0, 5.0])
    targets = class_targets(np.arange(4), classes, ("a", "b", "c"), np.array([1.0, 2.0, 3.0, 4.0]), factors)
    assert targets.weights.tolist() == [2, 0, 0, 20]
    assert targets.scale == Scale(88.0, 0, ("a", "b", "c"), (2.0, 0.0, 5.0))


@pytest.mark.parametrize("weights", [[0.0], [0.0, 0.0], []])
def test_rows_without_any_weight_are_refused(weights: list[float]) -> None:
    with pytest.raises(UsageError, match="all weights are zero"):
        weighted(weights)


@pytest.mark.parametrize("weights", [[1e308], [math.inf], [math.nan], [1e308, 1e308]])
def test_weights_without_a_finite_sum_are_refused(weights: list[float]) -> None:
    with pytest.raises(UsageError, match="must be finite"):
        weighted(weights)


@pytest.mark.parametrize("most", [2.9, 0.0, -1.0, math.inf, math.nan])
def test_weights_beyond_their_largest_sum_are_refused(most: float) -> None:
    with pytest.raises(UsageError, match="max_total_weight"):
        weighted([1.0, 2.0], most)
    assert weighted([1.0, 2.0], 3.0).weights.tolist() == [1, 2]


# -- targets ----------------------------------------------------------------------------------------


def assert_same_targets(targets: Targets, scale: reference.Scale, values: list[int]) -> None:
    assert targets.values.tolist() == values
    for name in ("weight_places", "centre", "spread", "places", "vote_places"):
        assert getattr(targets.scale, name) == getattr(scale, name), name
    assert targets.scale.fields() == reference.fields_of_scale(scale)  # zeros have no sign


@given(st.lists(numbers, min_size=1, max_size=20), st.data())
@example([5e-324], None)
@example([-0.0, -0.0], None)
@example([0.0, -0.0], None)
@example([-0.0, 0.0], None)
@example([5e-324, -5e-324], None)
@example([LARGEST, -LARGEST], None)
def test_regression_targets_are_the_reference_s(y: list[float], data: st.DataObject | None) -> None:
    weights = [1.0] * len(y)
    if data is not None:
        weight = st.sampled_from([0.0, 1.0, 0.3, 2.0**20, 1e9 + 0.5])
        weights = data.draw(st.lists(weight, min_size=len(y), max_size=len(y)).filter(any))
    scale = reference.number_scale(y, weights)
    expected = reference.fixed_targets(scale, y, weights)
    targets = regression(y, weights)
    there = [value if weight else 0 for value, weight in zip(targets.values.tolist(), weights, strict=True)]
    assert there == expected
    assert_same_targets(targets, scale, targets.values.tolist())


@given(st.tuples(numbers, numbers).map(sorted), st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_targets_of_a_given_range_are_the_reference_s(ends: list[float], parts: list[float]) -> None:
    low, high = ends
    y = [min(max(low + part * (high / 2 - low / 2) * 2, low), high) for part in parts]
    weights = [1.0] * len(y)
    scale = reference.number_scale(y, weights, (low, high), 1e6)
    assert_same_targets(
        regression(y, weights, (low, high), 1e6), scale, reference.fixed_targets(scale, y, weights)
    )


@given(st.lists(numbers, min_size=2, max_size=20))
def test_sums_of_the_largest_weights_stay_below_the_limit(y: list[float]) -> None:
    """Even if every row counts as often as rows can."""
    targets = regression(y, [2.0**34 / len(y)] * len(y), None, 2.0**34)
    pairs = zip(targets.weights.tolist(), targets.values.tolist(), strict=True)
    assert 20 * sum(abs(weight * value) for weight, value in pairs) < 2**62


def test_rows_without_weight_have_no_say_in_the_range_of_targets() -> None:
    there = regression([1.0, 2.0, 5.0], [1, 1, 2])
    diluted = regression([1.0, 1e300, 2.0, 5.0], [1, 0, 1, 2])
    assert diluted.scale == there.scale
    assert diluted.values[[0, 2, 3]].tolist() == there.values.tolist()


@pytest.mark.parametrize("y", [[LARGEST, -LARGEST], [5e-324, 0.0], [LARGEST, LARGEST / 2], [-1.0, 1e-300]])
def test_targets_of_any_scale_come_back_from_their_fixed_point(y: list[float]) -> None:
    targets = regression(y)
    scale = targets.scale
    back = np.ldexp(targets.values.astype(np.float64), -scale.places) + scale.centre
    assert np.abs(back - y).max() <= scale.spread * 2.0**-39


@pytest.mark.parametrize(
    "target_range", [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, 2 * LARGEST)]
)
def test_range_that_is_none_is_refused(target_range: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="the range must ascend"):
        regression([0.0], None, target_range)


@pytest.mark.parametrize("y", [-0.1, 1.1, 1e300])
def test_target_outside_its_range_is_refused_unless_its_row_has_no_weight(y: float) -> None:
    with pytest.raises(UsageError, match=r"row number 1: .* is outside target_range"):
        regression([0.5, y], None, (0.0, 1.0))
    assert regression([0.5, y], [1, 0], (0.0, 1.0)).values[0] == 0


def test_targets_too_large_are_refused() -> None:
    with pytest.raises(UsageError, match="stay within"):
        regression([0.0, math.nextafter(LARGEST, math.inf)])


# -- what a leaf keeps, and the digest ---------------------------------------------------------------


def test_leaf_keeps_a_weight_for_each_class_or_a_weight_and_a_sum() -> None:
    classes, numbers = weighted([1.0]).scale, regression([1.0]).scale
    assert (classes.n_classes, classes.n_sums, classes.n_votes) == (1, 1, 1)
    assert (numbers.n_classes, numbers.n_sums, numbers.n_votes) == (0, 2, 1)


def test_fields_of_a_scale_are_the_reference_s() -> None:
    y, weights = [0.3, -7.5, 1e9], [0.25, 1.0, 2.0]
    scale = reference.number_scale(y, weights)
    assert regression(y, weights).scale.fields() == reference.fields_of_scale(scale)
    for labels in ((False, True), (3, 1, 2), ("a", "ß\n"), (0.5, 1.0)):
        rows = np.arange(len(labels)), np.arange(len(labels))
        targets = class_targets(*rows, labels, np.full(len(labels), 0.3))
        plain = reference.class_scale(labels, [0.3] * len(labels), classes=labels)
        assert targets.scale.fields() == reference.fields_of_scale(plain)


# -- records -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [regression([1.5, 2.0, -4.0], [1.0, 0.5, 2.0]), weighted([0.3, 7.0])])
def test_targets_come_back_from_their_record(targets: Targets) -> None:
    same = targets.record().targets()
    assert same.scale == targets.scale
    for name in ("numbers", "values", "weights"):
        assert getattr(same, name).tolist() == getattr(targets, name).tolist(), name
    nothing = unknown_targets(targets.scale)
    assert len(nothing) == 0
    assert nothing.record().targets().scale == targets.scale


@pytest.mark.parametrize(
    ("numbers", "values", "weights"),
    [
        pytest.param([0, 1], [0, 1], [1], id="too few weights"),
        pytest.param([0], [0, 1], [1, 1], id="too few numbers"),
        pytest.param([0, 1], [0, 1], [1, -1], id="negative weight"),
        pytest.param([0, 1], [0, 2], [1, 1], id="class above all"),
        pytest.param([0, 1], [0, -1], [1, 1], id="class below all"),
        pytest.param([1, 0], [0, 1], [1, 1], id="numbers that descend"),
        pytest.param([1, 1], [0, 1], [1, 1], id="a number twice"),
        pytest.param([-1, 1], [0, 1], [1, 1], id="negative number"),
    ],
)
def test_record_of_targets_that_no_rows_have_is_refused(
    numbers: list[int], values: list[int], weights: list[int]
) -> None:
    arrays = (np.array(array, "<i8").tobytes() for array in (numbers, values, weights))
    with pytest.raises(FormatError, match="no rows"):
        TargetsRecord(Scale(8.0, 0, ("a", "b"), (1.0, 1.0)), *arrays).targets()


@pytest.mark.parametrize("name", ["numbers", "values", "weights"])
def test_record_with_a_number_cut_off_is_refused(name: str) -> None:
    record = weighted([1.0, 2.0]).record()
    with pytest.raises(FormatError, match="no rows"):
        msgspec.structs.replace(record, **{name: getattr(record, name)[:-1]}).targets()


@pytest.mark.parametrize(
    "wrong", [{"weights": 2**60}, {"weights": 2**48}, {"values": 2**45}, {"values": -(2**45)}]
)
def test_stored_targets_that_would_overflow_a_sum_are_refused(wrong: dict[str, int]) -> None:
    """Compiled loops add them up without looking."""
    record = number_targets(np.arange(3), np.array([0.0, 0.5, 1.0]), np.ones(3)).record()
    ((field, value),) = wrong.items()
    forged = msgspec.structs.replace(record, **{field: np.array([1, value, 0], "<i8").tobytes()})
    with pytest.raises(FormatError, match="no rows have"):
        forged.targets()
