import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError, UsageError
from revfrf.forest.criterion import NO_CUT, Best, Counted, best_cuts, check_rows_count
from revfrf.forest.growth import Growth, check_room
from revfrf.forest.nodes import Nodes
from revfrf.forest.targets import Targets, class_targets, number_targets
from revfrf.testing.federations import with_rules
from tests.reference import forest as reference


def counted(
    values: Sequence[int], n_classes: int, weights: Sequence[int] | None = None, times: int = 1
) -> Counted:
    """Rows that count so many times in the only tree."""
    rows, ones = len(values), np.ones(len(values), np.int64)
    own = ones if weights is None else np.array(weights, dtype=np.int64)
    return Counted(np.array(values, dtype=np.int64), own, np.full((1, rows), times, np.uint8), n_classes)


def root(n: int) -> Nodes:
    return Nodes.roots([np.arange(n, dtype=np.uint32)])


def best(targets: Counted, bins: Sequence[int], n_cuts: int, min_samples_leaf: int = 1) -> Best:
    """The best cut of one feature at the root."""
    nodes = root(len(targets.values))
    answer = np.array([n_cuts], np.uint8), np.array(bins, np.uint8)
    return best_cuts(targets, nodes, np.zeros(1, np.intp), *answer, min_samples_leaf)


# -- sums -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bootstrap", [True, False])
def test_rows_count_as_the_rules_say(bootstrap: bool) -> None:
    numbers, weights = np.arange(0, 300, 3), np.arange(100) % 4 / 2
    targets = class_targets(numbers, np.arange(100) % 2, ("a", "b"), weights)
    rules = with_rules(n_trees=3, bootstrap=bootstrap)
    found = Counted.of(rules, b"seed", targets)
    for tree in range(3):
        expected = [
            (reference.bootstrap_count(b"seed", tree, number) if bootstrap else 1) * (weight > 0)
            for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True)
        ]
        assert found.counts[tree].tolist() == expected
        assert found.used(tree).tolist() == [row for row, count in enumerate(expected) if count]


def test_sums_just_below_the_limit_are_exact() -> None:
    """Nearly all rows as far from the centre as can be, as heavy as can be, and each as often as can be."""
    n, away = 8191, 2.0 - 2.0**-40
    targets = number_targets(
        np.arange(n), np.array([away] * (n - 1) + [-away]), np.full(n, 2.0**21), None, n * 2.0**21
    )
    weight, value = 20 * 2**21, int(targets.values[0])
    found = Counted(targets.values, targets.weights, np.full((1, n), 20, np.uint8), 0)
    ((total, weighted),) = found.sums(root(n)).tolist()
    assert (total, weighted) == (n * weight, (n - 2) * weight * value)
    assert 2**61 < weighted < 2**62


def test_class_sums_of_heavy_rows_are_exact() -> None:
    targets = counted([0, 1] * 5000, 2, [2**21, 2**21 - 1] * 5000, times=20)
    assert targets.sums(root(10_000)).tolist() == [[5000 * 20 * 2**21, 5000 * 20 * (2**21 - 1)]]


def test_sums_count_each_row_as_often_as_its_tree_draws_it() -> None:
    counts = np.array([[1, 2, 0, 20], [3, 0, 1, 1]], np.uint8)
    targets = Counted(np.array([0, 1, 1, 2]), np.array([1, 2, 3, 4]), counts, 3)
    nodes = Nodes.of([0, 1, 1], [1, 2, 3], [np.array(r, np.uint32) for r in ([0, 1, 3], [0, 2], [3])])
    assert targets.sums(nodes).tolist() == [[1, 4, 80], [3, 3, 0], [0, 0, 4]]


def test_targets_too_close_to_tell_apart_are_pure() -> None:
    nodes = Nodes.of([0, 0, 0], [2, 3, 4], [np.array(r, np.uint32) for r in ([0, 1], [0, 2], [1])])
    assert counted([0, 0, 1], 2).pure(nodes).tolist() == [True, False, True]
    close = number_targets(np.arange(3), np.array([0.0, 1e-30, 1.0]), np.ones(3)).values
    assert counted(close.tolist(), 0).pure(nodes).tolist() == [True, False, True]


@pytest.mark.parametrize("n_trees", [1, 3])
def test_forest_in_which_no_row_counts_is_refused(n_trees: int) -> None:
    """Else nothing could vote."""
    counts = [reference.bootstrap_count(b"seed", 0, number) for number in range(100)]
    never = [
        number
        for number in range(1000)
        if not any(reference.bootstrap_count(b"seed", tree, number) for tree in range(n_trees))
    ]
    rules, first = with_rules(n_trees=n_trees), next(number for number in range(100) if counts[number])
    unlucky = class_targets(np.array(never[:5]), np.zeros(5, np.int64), ("a",), np.ones(5))
    with pytest.raises(UsageError, match="no row counts in any tree; use more trees or rows"):
        check_rows_count(rules, b"seed", unlucky)
    check_rows_count(with_rules(n_trees=n_trees, bootstrap=False), b"seed", unlucky)
    check_rows_count(with_rules(n_trees=200), b"seed", unlucky)
    numbers = np.sort(np.array([first, *never[:5]]))
    luckier = class_targets(numbers, np.zeros(6, np.int64), ("a",), np.ones(6))
    check_rows_count(rules, b"seed", luckier)
    weightless = class_targets(numbers, np.zeros(6, np.int64), ("a",), (numbers != first).astype(float))
    with pytest.raises(UsageError, match="no row counts"):
        check_rows_count(rules, b"seed", weightless)


def rows_of_weight(n_rows: int, weight: int) -> Targets:
    """Rows that all have this integer weight, in no memory."""
    scale = class_targets(np.arange(1), np.zeros(1, np.int64), ("a",), np.ones(1)).scale
    numbers, values, weights = (np.broadcast_to(np.int64(v), n_rows) for v in (0, 0, weight))
    return Targets(scale, numbers, values, weights)


@pytest.mark.parametrize(
    ("n_rows", "weight", "bootstrap", "fits"),
    [
        (2**31 + 1, 0, True, False),  # positions of rows have 32 bits with a sign
        (2**31 + 1, 0, False, False),
        (2**20, 2**15, True, True),
        (2**24 - 1, 2**11, True, True),  # 24 bits, and 40 of 20·2^35
        (2**24, 2**11, True, False),
        (2**24, 2**11, False, True),
        (2**25, 2**12, False, True),  # 26 bits, and 38
        (2**25, 2**13, False, False),
    ],
)
def test_more_rows_than_a_tree_can_hold_are_refused(
    n_rows: int, weight: int, bootstrap: bool, fits: bool
) -> None:
    rules, targets = with_rules(bootstrap=bootstrap), rows_of_weight(n_rows, weight)
    if fits:
        check_room(rules, targets)
        return
    for check in (check_room, lambda rules, targets: check_rows_count(rules, b"seed", targets)):
        with pytest.raises(UsageError, match="rows"):
            check(rules, targets)
    with pytest.raises(UsageError, match="rows"):
        Growth.of(rules, b"seed", targets, [], np.empty(0, np.int64), np.empty((0, n_rows), np.uint8))


# -- the best cut -----------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn) -> tuple[Counted, list[int], int, int, int]:
    n, n_cuts = draw(st.integers(1, 30)), draw(st.integers(1, 255))
    bins = draw(st.lists(st.integers(0, n_cuts), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 2**20), min_size=n, max_size=n))
    n_classes = draw(st.sampled_from([0, 2, 3]))
    if n_classes:
        numbers = draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
        targets = counted(numbers, n_classes, weights, draw(st.integers(1, 20)))
    else:
        values = draw(st.lists(st.integers(-(2**30), 2**30), min_size=n, max_size=n))
        targets = counted(values, 0, weights, draw(st.integers(1, 20)))
    return targets, bins, n_cuts, draw(st.integers(1, 4)), n_classes


@given(questions())
def test_best_cut_and_its_score_are_the_reference_s(
    question: tuple[Counted, list[int], int, int, int],
) -> None:
    targets, bins, n_cuts, min_samples_leaf, n_classes = question
    counts = (targets.weights * targets.counts[0]).tolist()
    rules = reference.Rules(1, 1, 0, 2, min_samples_leaf, False, reference.Books())
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
    targets, nodes = counted([0, 1, 0, 1], 2), root(4)
    asked = np.zeros(3, np.intp)
    bins = np.array([0, 1, 0, 1, 1, 1, 0, 0], np.uint8)
    answer = best_cuts(targets, nodes, asked, np.array([1, 0, 1], np.uint8), bins, 1)
    assert answer.cuts.tolist() == [0, NO_CUT, 0]
    assert answer.starts.tolist() == [0, 4, 4, 8]
    assert answer.scores.tolist() == [-4.0, math.inf, -2.0]


@pytest.mark.parametrize("bins", [[], [0, 1, 0], [0, 1, 0, 1, 0]], ids=["none", "too few", "too many"])
def test_wrong_number_of_bins_is_refused(bins: list[int]) -> None:
    with pytest.raises(FormatError, match="bins"):
        best(counted([0, 1, 0, 1], 2), bins, 1)


@pytest.mark.parametrize("n_cuts", [1, 2, 254])
def test_bin_above_the_number_of_cuts_is_refused(n_cuts: int) -> None:
    targets = counted([0, 1, 0, 1], 2)
    with pytest.raises(FormatError, match="above"):
        best(targets, [0, 1, 0, n_cuts + 1], n_cuts)
    assert best(targets, [0, 1, 0, n_cuts], n_cuts).cuts.tolist() == [0]
