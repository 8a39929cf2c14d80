import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from revfrf.errors import FormatError
from revfrf.forest.criterion import NO_CUT, Best, Targets, TargetsRecord, best_cuts, fixed_weights
from revfrf.forest.nodes import Nodes
from tests.reference import forest as reference

finite = st.floats(allow_nan=False, allow_infinity=False)


def repeats_of(*trees: Sequence[int]) -> NDArray[np.uint8]:
    return np.array(trees, dtype=np.uint8)


def classes(
    numbers: Sequence[int], n: int, weights: Sequence[float] | None = None, times: int = 1
) -> Targets:
    rows = len(numbers)
    return Targets.classes(
        np.array(numbers, dtype=np.int64),
        n,
        np.array([1.0] * rows if weights is None else weights, dtype=np.float64),
        repeats_of([times] * rows),
    )


def regression(
    y: Sequence[float], weights: Sequence[float] | None = None, repeats: Sequence[int] | None = None
) -> Targets:
    rows = len(y)
    return Targets.regression(
        np.array(y, dtype=np.float64),
        np.array([1.0] * rows if weights is None else weights, dtype=np.float64),
        repeats_of([1] * rows if repeats is None else repeats),
    )


def root(n: int) -> Nodes:
    return Nodes.roots([np.arange(n, dtype=np.uint32)])


def best(targets: Targets, bins: Sequence[int], n_cuts: int, min_samples_leaf: int = 1) -> Best:
    """The best cut of one feature at the root."""
    nodes = root(len(targets.values))
    answer = np.array([n_cuts], np.uint8), np.array(bins, np.uint8)
    return best_cuts(targets, nodes, np.zeros(1, np.intp), *answer, min_samples_leaf)


# -- weights ----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(st.integers(0, 2**20).map(float), st.floats(0, 1e300)), min_size=1, max_size=30
    ).filter(any)
)
def test_weights_are_the_reference_s(weights: list[float]) -> None:
    assert fixed_weights(np.array(weights)).tolist() == reference.fixed_weights(weights)


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=30))
def test_weight_is_zero_exactly_where_it_was(weights: list[float]) -> None:
    fixed = fixed_weights(np.array(weights))
    assert (fixed > 0).tolist() == [w > 0 for w in weights]
    assert fixed.max() <= 2**20


# -- targets and sums -------------------------------------------------------------------------------


@given(st.lists(finite, min_size=1, max_size=20), st.data())
def test_regression_targets_are_the_reference_s(y: list[float], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 2**20), min_size=len(y), max_size=len(y)))
    repeats = data.draw(st.lists(st.integers(0, 255), min_size=len(y), max_size=len(y)).filter(any))
    values, centre, places = reference.fixed_targets(y, weights, [repeats])
    targets = regression(y, [float(w) for w in weights], repeats)
    assert (targets.values.tolist(), targets.centre, targets.places) == (values, centre, places)


@given(st.lists(finite, min_size=2, max_size=20))
def test_sums_of_the_largest_weights_stay_below_the_limit(y: list[float]) -> None:
    targets = regression(y, [2.0**20] * len(y), [255] * len(y))
    weight = 255 * 2**20
    ((total, weighted),) = targets.sums(root(len(y))).tolist()
    assert total == weight * len(y)
    assert weighted == sum(weight * value for value in targets.values.tolist())
    assert weight * sum(abs(value) for value in targets.values.tolist()) < 2**62


def test_sums_just_below_the_limit_are_exact() -> None:
    """Nearly all rows as far from the centre as can be, and as many as their bits allow."""
    n, away = 8191, 2.0 - 2.0**-40
    targets = regression([away] * (n - 1) + [-away])
    assert targets.places == 62 - 13 - 1
    ((total, weighted),) = targets.sums(root(n)).tolist()
    assert (total, weighted) == (n, (n - 2) * (2**49 - 2**8))
    assert 2**62 - 2**52 < weighted < 2**62


def test_class_sums_of_heavy_rows_are_exact() -> None:
    numbers = [0, 1] * 5000
    targets = classes(numbers, 2, [2.0**20, 2.0**20 - 1] * 5000, times=255)
    assert targets.sums(root(10_000)).tolist() == [[5000 * 255 * 2**20, 5000 * 255 * (2**20 - 1)]]


def test_sums_count_each_row_as_often_as_its_tree_draws_it() -> None:
    repeats = repeats_of([1, 2, 0, 255], [3, 0, 1, 1])
    targets = Targets.classes(np.array([0, 1, 1, 2]), 3, np.array([1.0, 2.0, 3.0, 4.0]), repeats)
    nodes = Nodes.of([0, 1, 1], [1, 2, 3], [np.array(r, np.uint32) for r in ([0, 1, 3], [0, 2], [3])])
    assert targets.sums(nodes).tolist() == [[1, 4, 1020], [3, 3, 0], [0, 0, 4]]


def test_targets_too_close_to_tell_apart_are_pure() -> None:
    nodes = Nodes.of([0, 0, 0], [2, 3, 4], [np.array(r, np.uint32) for r in ([0, 1], [0, 2], [1])])
    assert classes([0, 0, 1], 2).pure(nodes).tolist() == [True, False, True]
    assert regression([0.0, 1e-30, 1.0]).pure(nodes).tolist() == [True, False, True]


def test_rows_without_weight_have_no_say_in_the_range_of_targets() -> None:
    there = regression([1.0, 2.0, 5.0], [1, 1, 2])
    diluted = regression([1.0, 1e300, 2.0, 5.0], [1, 0, 1, 2], [1, 0, 1, 1])
    assert (diluted.centre, diluted.places) == (there.centre, there.places)
    assert diluted.values[[0, 2, 3]].tolist() == there.values.tolist()


@pytest.mark.parametrize("y", [[1e308, -1e308], [5e-324, 0.0], [1e308, 9e307], [-1.0, 1e-300]])
def test_targets_of_any_scale_come_back_from_their_fixed_point(y: list[float]) -> None:
    targets = regression(y)
    back = np.ldexp(targets.values.astype(np.float64), -targets.places) + targets.centre
    spread = max(abs(value / 2 - targets.centre / 2) for value in y)
    assert all(
        math.isclose(a, b, rel_tol=1e-15, abs_tol=spread * 1e-15) for a, b in zip(back, y, strict=True)
    )


def test_targets_come_back_from_their_record() -> None:
    targets = regression([1.5, 2.0, -4.0], [1.0, 0.5, 2.0])
    same = Targets.of(targets.record(), lambda weights: repeats_of([1] * len(weights)))
    for name in Targets.__slots__:
        assert np.array_equal(getattr(same, name), getattr(targets, name)), name
    left = Targets.unknown(0, targets.centre, targets.places).record()
    assert left == msgspec.structs.replace(targets.record(), values=b"", weights=b"")


@pytest.mark.parametrize(
    ("values", "weights"), [([0, 1], [1]), ([0, 1], [1, -1]), ([0, 2], [1, 1]), ([0, -1], [1, 1])]
)
def test_record_of_targets_that_no_rows_have_is_refused(values: list[int], weights: list[int]) -> None:
    record = TargetsRecord(np.array(values, "<i8").tobytes(), np.array(weights, "<i8").tobytes(), 2, 0.0, 0)
    with pytest.raises(FormatError, match="no rows"):
        Targets.of(record, lambda weights: repeats_of([1] * len(weights)))


# -- the best cut -----------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn) -> tuple[Targets, list[int], int, int, int]:
    n, n_cuts = draw(st.integers(1, 30)), draw(st.integers(1, 255))
    bins = draw(st.lists(st.integers(0, n_cuts), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 2**20).map(float), min_size=n, max_size=n))
    n_classes = draw(st.sampled_from([0, 2, 3]))
    if n_classes:
        numbers = draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
        targets = classes(numbers, n_classes, weights, draw(st.integers(1, 255)))
    else:
        targets = regression(draw(st.lists(st.floats(-1e9, 1e9), min_size=n, max_size=n)), weights)
    return targets, bins, n_cuts, draw(st.integers(1, 4)), n_classes


@given(questions())
def test_best_cut_and_its_score_are_the_reference_s(
    question: tuple[Targets, list[int], int, int, int],
) -> None:
    targets, bins, n_cuts, min_samples_leaf, n_classes = question
    counts = (targets.weights * targets.repeats[0]).tolist()
    rules = reference.Rules(1, 1, 0, 2, min_samples_leaf, False, "quantile", 1, 2)
    tree = reference.Tree(rules, b"", 0, [], targets.values.tolist(), counts, n_classes)
    chosen, lowest = NO_CUT, math.inf
    for cut in range(n_cuts):
        left = [row for row, b in enumerate(bins) if b <= cut]
        right = [row for row, b in enumerate(bins) if b > cut]
        if min(len(left), len(right)) >= min_samples_leaf:
            score = reference.score(reference.sums(tree, left), reference.sums(tree, right), n_classes)
            if score < lowest:
                chosen, lowest = cut, score
    answer = best(targets, bins, n_cuts, min_samples_leaf)
    assert (answer.cuts.tolist(), answer.scores.tolist()) == ([chosen], [lowest])


def test_feature_without_cuts_has_no_bins_and_no_cut() -> None:
    targets, nodes = classes([0, 1, 0, 1], 2), root(4)
    asked = np.zeros(3, np.intp)
    bins = np.array([0, 1, 0, 1, 1, 1, 0, 0], np.uint8)
    answer = best_cuts(targets, nodes, asked, np.array([1, 0, 1], np.uint8), bins, 1)
    assert answer.cuts.tolist() == [0, NO_CUT, 0]
    assert answer.starts.tolist() == [0, 4, 4, 8]
    assert answer.scores.tolist() == [-4.0, math.inf, -2.0]


@pytest.mark.parametrize("bins", [[], [0, 1, 0], [0, 1, 0, 1, 0]], ids=["none", "too few", "too many"])
def test_wrong_number_of_bins_is_refused(bins: list[int]) -> None:
    with pytest.raises(FormatError, match="bins"):
        best(classes([0, 1, 0, 1], 2), bins, 1)


@pytest.mark.parametrize("n_cuts", [1, 2, 254])
def test_bin_above_the_number_of_cuts_is_refused(n_cuts: int) -> None:
    targets = classes([0, 1, 0, 1], 2)
    with pytest.raises(FormatError, match="above"):
        best(targets, [0, 1, 0, n_cuts + 1], n_cuts)
    assert best(targets, [0, 1, 0, n_cuts], n_cuts).cuts.tolist() == [0]
