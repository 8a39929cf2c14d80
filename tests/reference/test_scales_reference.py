"""The reference's integers of weights, classes and targets."""

import pytest

from tests.reference import forest


@pytest.mark.parametrize(
    ("weights", "max_total_weight", "places", "fixed"),
    [
        ([0, 1, 7.0], None, 0, [0, 1, 7]),
        ([1, 2**34 - 1], 2**34, 0, [1, 2**34 - 1]),
        ([1, 3], 2**34 + 2, -1, [1, 2]),  # f·2^35; ½ rounds to 0, which becomes 1
        ([2**32, 5], None, -1, [2**31, 2]),  # 5/2 is a tie
        ([0.5, 0, 0.25, 0.25], 1, 33, [2**32, 0, 2**31, 2**31]),  # 1 = ½·2^1
        ([0.5, 0.5], None, 31, [2**30, 2**30]),  # 4 = ½·2^3
        ([1, 1e-30], 1.5, 33, [2**33, 1]),
        ([2.0**-1074], None, 1105, [2**31]),  # 2^-1072 = ½·2^-1071
    ],
)
def test_weights_are_whole_or_scaled_to_34_bits(
    weights: list[float], max_total_weight: float | None, places: int, fixed: list[int]
) -> None:
    scale = forest.class_scale([0] * len(weights), weights, max_total_weight)
    assert scale.weight_places == places
    assert forest.fixed_weights(scale, weights) == fixed


def test_sum_of_weights_above_the_largest_is_refused() -> None:
    scale = forest.class_scale("ab", [1, 1])
    assert scale.max_total_weight == 8
    assert forest.fixed_weights(scale, [4, 4]) == [4, 4]
    with pytest.raises(ValueError, match="max_total_weight"):
        forest.fixed_weights(scale, [4, 5])


def test_order_of_the_rows_plays_no_part_in_the_sum_of_weights() -> None:
    for weights in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):  # the first is above 0.6 if added one by one
        assert forest.class_scale("abc", weights).max_total_weight == 2.4
        assert len(forest.fixed_weights(forest.class_scale("abc", weights, 0.6), weights)) == 3


def test_classes_are_all_labels_in_ascending_order_or_the_given_list() -> None:
    scale = forest.class_scale(["no", "yes", "maybe"], [1, 1, 0])
    assert scale.labels == ("maybe", "no", "yes")
    assert forest.fixed_targets(scale, ["yes", "no"]) == [2, 1]
    given = forest.class_scale([3, 1], [1, 1], classes=[3, 2, 1])
    assert forest.fixed_targets(given, [1, 2, 3]) == [2, 1, 0]
    with pytest.raises(ValueError, match="not in"):
        forest.fixed_targets(given, [4])


def test_targets_are_scaled_by_their_spread_and_the_largest_weight() -> None:
    scale = forest.number_scale([1.0, 2.0, 5.0, 99.0], [1, 1, 2, 0])
    assert (scale.low, scale.high, scale.centre, scale.spread) == (1.0, 5.0, 3.0, 2.0)  # 2 = ½·2²
    assert (scale.places, scale.vote_places) == (38, 38)  # 16 has 5 bits: min(40, 52)
    assert forest.fixed_targets(scale, [1.0, 2.0, 5.0]) == [-(2**39), -(2**38), 2**39]
    heavy = forest.number_scale([1.0, 5.0], [1, 1], max_total_weight=2**34)  # 35 bits
    assert (heavy.places, heavy.vote_places) == (20, 38)


@pytest.mark.parametrize(("most", "b"), [(2**20 - 1, 20), (2**20 - 0.5, 21), (2**20, 21)])
def test_weight_that_is_not_whole_is_rounded_up_to_its_bits(most: float, b: int) -> None:
    scale = forest.number_scale([-1.0, 1.0], [1, 1], max_total_weight=most)
    assert scale.places == 57 - b - 1


def test_targets_round_ties_to_even() -> None:
    scale = forest.number_scale([], [], (-(2.0**40), 2.0**40), 8)  # 2^40 = ½·2^41
    assert scale.places == -1
    assert forest.fixed_targets(scale, [1.0, 3.0, 5.0, -1.0, -3.0, -5.0]) == [0, 2, 2, 0, -2, -2]


def test_constant_target_has_no_places() -> None:
    scale = forest.number_scale([7.5, 7.5], [1, 1])
    assert (scale.centre, scale.spread, scale.places, scale.vote_places) == (7.5, 0.0, 0, 0)
    assert forest.fixed_targets(scale, [7.5]) == [0]


@pytest.mark.parametrize("extreme", [2.0**-1074, 2.0**1023])
def test_targets_at_the_ends_of_float64_come_back(extreme: float) -> None:
    scale = forest.number_scale([-extreme, extreme], [1, 1])
    (fixed,) = forest.fixed_targets(scale, [extreme])
    assert fixed == 2**39
    votes = forest.number_votes([(1, -fixed)], scale)
    assert forest.answer_number(votes, 1, scale) == -extreme


def test_targets_outside_the_range_are_refused_unless_the_row_has_no_weight() -> None:
    scale = forest.number_scale([1.0, 2.0], [1, 1], (0.0, 4.0))
    assert forest.fixed_targets(scale, [0.0, 4.0, 9.0], [1, 1, 0])[2] == 0
    for target in (-0.001, 4.001, float("nan")):
        with pytest.raises(ValueError, match="outside"):
            forest.fixed_targets(scale, [target])


@pytest.mark.parametrize("weights", [[1.0] * 5, [0.3, 2.7, 1e-9, 5.0, 0.1], [2.0**31] * 5, [2.0**40] * 5])
def test_no_sum_of_a_tree_reaches_2_to_the_62(weights: list[float]) -> None:
    y = [-3.0, 7.0, 7.0, 6.9, 7.0]
    scale = forest.number_scale(y, weights, max_total_weight=sum(weights))
    integers = forest.fixed_weights(scale, weights)
    targets = forest.fixed_targets(scale, y)
    assert sum(20 * w for w in integers) < 2**40
    assert sum(20 * w * abs(t) for w, t in zip(integers, targets, strict=True)) < 2**62
