"""The reference forest against published vectors, hand-computed nodes and the laws of docs/forest.md."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from random import Random

import pytest

from tests.reference import forest
from tests.reference.forest import MISSING, Feature, Forest, Rules, Split, Sums, Tree

EVERY_FEATURE = 2**64 - 1
RULES = Rules(
    n_trees=1,
    max_depth=4,
    candidate_limit=EVERY_FEATURE,
    min_samples_split=2,
    min_samples_leaf=1,
    bootstrap=False,
    method="quantile",
    n_candidates=7,
    n_sampled=1000,
)


def feature(values: list[int], name: str = "a/x") -> Feature:
    return Feature(name, b"secret", values)


def tree(rules: Rules, targets: list[int], counts: list[int] | None = None, n_classes: int = 2) -> Tree:
    return Tree(rules, b"seed", 0, [], targets, counts or [1] * len(targets), n_classes)


def grown(rules: Rules, values: list[int], targets: list[int], weights: list[int] | None = None) -> Forest:
    return forest.grow(rules, b"seed", [feature(values)], targets, weights or [1] * len(targets), 2)


# -- Randomness -------------------------------------------------------------------------------------

VECTORS_SIP64 = (
    "310e0edd47db6f72fd67dc93c539f8745a4fa9d909806c0d2d7efbd796666785b7877127e09427cf8da699cd64557618"
    "cee3fe586e46c9cb37d1018bf50002ab6224939a79f5f593b0e4a90bdf82009ef3b9dd94c5bb5d7aa7ad6b22462fb3f4"
    "fbe50e86bc8f1e75903d84c02756ea14eef27a8e90ca23f7e545be4961ca29a1db9bc2577fcc2a3f"
)
"""Of the reference C code: the key is 00 01 … 0f, the n-th message 00 01 … (n bytes)."""


@pytest.mark.parametrize("length", range(17))
def test_siphash_gives_the_published_outputs(length: int) -> None:
    expected = int.from_bytes(bytes.fromhex(VECTORS_SIP64[16 * length :][:16]), "little")
    assert forest.siphash24(bytes(range(16)), bytes(range(length))) == expected


def test_split_mix_gives_the_published_stream() -> None:
    assert [forest.split_mix(1234567, n) for n in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_key_is_the_start_of_the_hash_of_the_canonical_names() -> None:
    fields = b"".join(
        tag + len(payload).to_bytes(8, "big") + payload
        for tag, payload in [(b"s", b"revfrf randomness v1"), (b"s", b"bootstrap"), (b"b", b"\x07")]
    )
    framed = b"t" + len(fields).to_bytes(8, "big") + fields
    assert forest.key("bootstrap", b"\x07") == sha256(framed).digest()[:16]


def test_draw_is_siphash_of_the_tree_and_then_the_path() -> None:
    message = bytes([3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0])
    assert forest.draw(bytes(16), 3, 512) == forest.siphash24(bytes(16), message)
    assert forest.draw(bytes(16), 512, 3) != forest.draw(bytes(16), 3, 512)


@pytest.mark.parametrize(
    ("pi", "limit"),
    [
        (0, -1),
        (1, 2**64 - 1),
        (0.5, 2**63 - 1),
        (Fraction(1, 3), 6148914691236517205),
        (Fraction(1, 10), 0x1999999999999999),
        (0.1, 0x19999999999999FF),  # the double nearest to a tenth lies above it
    ],
)
def test_candidate_limit_takes_pi_exactly(pi: float | Fraction, limit: int) -> None:
    assert forest.candidate_limit(pi) == limit


# -- Rows, weights and targets ----------------------------------------------------------------------


def test_bootstrap_draws_among_the_rows_with_weight_as_if_there_were_no_others() -> None:
    weights = [0, 2.5, 0, 0, 1, 1e-9, 0, 7, 0]
    dense = forest.bootstrap(b"seed", 3, [1] * 4)
    drawn = forest.bootstrap(b"seed", 3, weights)
    assert [drawn[row] for row in (1, 4, 5, 7)] == dense
    assert sum(drawn) == 4


def test_rows_of_weight_zero_change_nothing_in_a_forest() -> None:
    rules = replace(RULES, bootstrap=True, n_trees=3)
    there = forest.grow(rules, b"seed", [feature([1, 2, 3, 4])], [0, 1, 0, 1], [1, 2, 1, 1], 2)
    diluted = [feature([9, 1, 2, 9, 3, 9, 9, 4])]
    absent = forest.grow(rules, b"seed", diluted, [1, 0, 1, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 0, 0, 1], 2)
    assert (absent.splits, absent.leaves) == (there.splits, there.leaves)


def test_bootstrap_counts_a_row_at_most_255_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "split_mix", lambda _seed, n: 1 if n < 290 else 2)
    assert forest.bootstrap(b"seed", 0, [1] * 300)[:4] == [0, 255, 10, 0]


@pytest.mark.parametrize(
    ("weights", "fixed"),
    [
        ([0, 1, 2**20], [0, 1, 2**20]),
        ([3.0, 2.0], [3, 2]),
        ([0.5, 0, 1, 2], [2**18, 0, 2**19, 2**20]),
        ([2**20 + 1, 1], [2**20, 1]),
        ([1, 1e-30, 0.0], [2**20, 1, 0]),
        ([1, 2.5 / 2**20, 3.5 / 2**20], [2**20, 2, 4]),
    ],
)
def test_weights_are_small_whole_numbers_or_scaled_to_them(weights: list[float], fixed: list[int]) -> None:
    assert forest.fixed_weights(weights) == fixed


def test_targets_are_scaled_by_the_heaviest_tree() -> None:
    repeats = [[1, 1, 1], [0, 1, 2]]  # in total 4 and 5, so 3 bits; the spread 2 = ½·2²
    fixed = forest.fixed_targets([1.0, 2.0, 5.0], [1, 1, 2], repeats)
    assert fixed == ([-(2**58), -(2**57), 2**58], 3.0, 57)


def test_targets_round_ties_to_even() -> None:
    y = [-(2.0**61), 2.0**61, 4.0, 12.0, 20.0]
    fixed = forest.fixed_targets(y, [1] * 5, [[1] * 5])
    assert fixed == ([-(2**58), 2**58, 0, 2, 2], 0.0, -3)


# -- Cuts -------------------------------------------------------------------------------------------


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
    samples = [forest.sample(feature([]), (0, path), rows, 3) for path in range(1, 60)]
    assert {first for first, _, _ in samples} == {100, 101, 102}
    assert {second for _, second, _ in samples} == {103, 104, 105}
    assert {third for _, _, third in samples} == {106, 107, 108, 109}


# -- Scores and winners -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "n_classes", "score"),
    [
        ((3, 1), (0, 4), 2, -6.5),  # 10/4 + 16/4
        ((1, 0, 1), (2, 2, 0), 3, -3.0),  # 2/2 + 8/4
        ((2, 6), (3, -3), 0, -21.0),  # 36/2 + 9/3
        ((2, 106), (3, 147), 0, -21.0),  # 50 more each: the same
        ((1, 2**53 + 1), (1, 0), 0, -(2.0**105 + 2.0**53)),
    ],
)
def test_score_is_minus_the_purity_of_both_sides(
    left: Sums, right: Sums, n_classes: int, score: float
) -> None:
    assert forest.score(left, right, n_classes) == score


def test_sums_count_repeats_and_weights() -> None:
    counts = [1, 2, 3, 5]
    assert forest.sums(tree(RULES, [0, 1, 0, 2], counts, 3), [0, 1, 2]) == (4, 2, 0)
    assert forest.sums(tree(RULES, [10, -1, 7, 0], counts, 0), [0, 1, 3]) == (8, 8)


def test_best_cut_of_a_regression_has_the_lowest_score() -> None:
    column = feature([1, 2, 3])
    best = forest.best_cut(tree(RULES, [0, 0, 9], [1, 1, 2], 0), column, 1, [0, 1, 2])
    assert best == (-82.0, Split("a/x", 1, 2))  # around 4: 8²/2 + 10²/2


def test_lowest_of_equally_good_cuts_wins() -> None:
    column = feature([1, 2, 3, 4])  # cuts 1 and 3 mirror each other
    best = forest.best_cut(tree(RULES, [0, 1, 1, 0]), column, 1, [0, 1, 2, 3])
    assert best == (-(1 + 5 / 3), Split("a/x", 0, 1))


def test_min_samples_leaf_counts_rows_and_not_weights() -> None:
    rules = replace(RULES, min_samples_leaf=2)
    best = forest.best_cut(tree(rules, [0, 1, 1, 0], [9, 1, 1, 9]), feature([1, 2, 3, 4]), 1, [0, 1, 2, 3])
    assert best == (-16.4, Split("a/x", 1, 2))  # cut 2 keeps its number; twice 82/10
    assert forest.best_cut(tree(rules, [0, 1, 1]), feature([1, 2, 3]), 1, [0, 1, 2]) is None


def candidate_draws(seed: bytes, *features: Feature) -> list[int]:
    return [forest.draw(forest.key("candidate", seed, f.id), 0, 1) for f in features]


def root_split(rules: Rules, seed: bytes, *features: Feature) -> Split | None:
    return forest.grow(rules, seed, list(features), [0, 0, 1, 1], [1] * 4, 2).splits.get((0, 1))


SEEDS = [bytes([number]) for number in range(20)]
GOOD, SAME = feature([1, 2, 3, 4], "a/good"), feature([10, 20, 30, 40], "b/same")
POOR, CONSTANT = feature([1, 3, 2, 4], "c/poor"), feature([5, 5, 5, 5], "d/constant")


def test_lowest_draw_wins_between_equally_good_features() -> None:
    winners = []
    for seed in SEEDS:
        good, same = candidate_draws(seed, GOOD, SAME)
        winner = Split("a/good", 1, 2) if good < same else Split("b/same", 1, 20)
        assert root_split(RULES, seed, GOOD, SAME) == winner == root_split(RULES, seed, SAME, GOOD)
        winners.append(winner)
    assert len(set(winners)) == 2


def test_only_candidates_compete_and_the_limit_is_one() -> None:
    for seed in SEEDS:
        good, poor = candidate_draws(seed, GOOD, POOR)
        rules = replace(RULES, candidate_limit=poor)
        split = root_split(rules, seed, GOOD, POOR)
        assert split is not None
        assert split.feature == ("a/good" if good <= poor else "c/poor")
        stricter = replace(RULES, candidate_limit=poor - 1)
        assert root_split(stricter, seed, GOOD, POOR) == Split("a/good", 1, 2)


def test_all_features_compete_if_no_candidate_can_split() -> None:
    for seed in SEEDS:
        (constant,) = candidate_draws(seed, CONSTANT)
        rules = replace(RULES, candidate_limit=constant)
        assert root_split(rules, seed, CONSTANT, GOOD) == Split("a/good", 1, 2)


# -- Growing ----------------------------------------------------------------------------------------


def test_rows_up_to_the_threshold_go_to_the_even_child() -> None:
    of_four = grown(RULES, [4, 3, 2, 1], [1, 1, 0, 0])
    assert of_four.splits == {(0, 1): Split("a/x", 1, 2)}
    assert of_four.leaves == {(0, 2): (2, 0), (0, 3): (0, 2)}
    assert of_four.rows == {(0, 2): [2, 3], (0, 3): [0, 1]}


@pytest.mark.parametrize(
    ("rules", "values", "targets"),
    [
        (replace(RULES, max_depth=0), [1, 2, 3, 4], [0, 0, 1, 1]),
        (replace(RULES, min_samples_split=5), [1, 2, 3, 4], [0, 0, 1, 1]),
        (replace(RULES, min_samples_leaf=3), [1, 2, 3, 4], [0, 0, 1, 1]),
        (replace(RULES, min_samples_leaf=2), [1, 2, 2, 2], [0, 0, 1, 1]),
        (RULES, [1, 2, 3, 4], [1, 1, 1, 1]),
        (RULES, [7, 7, 7, 7], [0, 0, 1, 1]),
    ],
    ids=["depth", "too few to split", "too few for two leaves", "no valid cut", "one target", "one value"],
)
def test_node_is_a_leaf_if_it_must_be(rules: Rules, values: list[int], targets: list[int]) -> None:
    leaf = grown(rules, values, targets)
    assert leaf.splits == {}
    assert leaf.leaves == {(0, 1): (targets.count(0), targets.count(1))}


@pytest.mark.parametrize(
    "rules",
    [replace(RULES, max_depth=1), replace(RULES, min_samples_split=4), replace(RULES, min_samples_leaf=2)],
    ids=["depth", "enough to split", "enough for two leaves"],
)
def test_node_at_the_bound_of_a_leaf_rule_still_splits(rules: Rules) -> None:
    assert grown(rules, [1, 2, 3, 4], [0, 0, 1, 1]).splits == {(0, 1): Split("a/x", 1, 2)}


def random_columns(random: Random, n: int) -> list[Feature]:
    names = ["a/x", "a/y", "b/x", "b/y", "c/x", "c/y"]
    return [
        Feature(name, name[:1].encode(), [random.choice([MISSING, *range(-20, 20)]) for _ in range(n)])
        for name in names
    ]


@pytest.mark.parametrize("method", ["quantile", "uniform"])
@pytest.mark.parametrize("n_classes", [0, 3])
def test_every_row_of_a_tree_falls_into_the_leaf_that_counts_it(method: str, n_classes: int) -> None:
    random = Random(f"{method} {n_classes}")
    n = 200
    features = random_columns(random, n)
    targets = [random.randrange(3) for _ in range(n)]
    weights = [random.randrange(4) for _ in range(n)]
    rules = Rules(10, 5, forest.candidate_limit(0.4), 4, 2, True, "quantile", 7, 50)
    rules = rules if method == "quantile" else replace(rules, method="uniform")
    whole = forest.grow(rules, b"seed", features, targets, weights, n_classes)
    for number in range(rules.n_trees):
        repeats = forest.bootstrap(b"seed", number, weights)
        counts = [r * w for r, w in zip(repeats, weights, strict=True)]
        leaves = {node: rows for node, rows in whole.rows.items() if node[0] == number}
        assert sorted(row for rows in leaves.values() for row in rows) == [
            row for row in range(n) if counts[row]
        ]
        for (_, path), rows in leaves.items():
            assert rows == sorted(rows)
            assert len(rows) >= rules.min_samples_leaf
            assert path.bit_length() <= rules.max_depth + 1
            assert whole.leaves[number, path] == forest.sums(
                Tree(rules, b"seed", number, features, targets, counts, n_classes), rows
            )
            for row in rows:
                assert forest.leaf_of(whole, number, {f.id: f.values[row] for f in features}) == (
                    number,
                    path,
                )
    assert len({whole.splits[number, 1].feature for number in range(rules.n_trees)}) > 1


# -- Answers ----------------------------------------------------------------------------------------


def test_row_takes_the_left_branch_up_to_the_threshold_and_if_missing() -> None:
    two = Forest(2, {(0, 1): Split("a/x", 0, 5)}, {(0, 2): (1, 0), (0, 3): (0, 1), (1, 1): (4, 4)}, {})
    assert forest.predict(two, {"a/x": 5}) == [(1, 0), (4, 4)]
    assert forest.predict(two, {"a/x": 6}) == [(0, 1), (4, 4)]
    assert forest.predict(two, {"a/x": MISSING}) == [(1, 0), (4, 4)]


def test_hard_votes_go_to_the_lowest_of_equally_heavy_classes() -> None:
    votes = forest.hard_votes([(0, 2, 2), (5, 1, 0), (0, 3, 1), (4, 1, 4)])
    assert votes == [2, 2, 0]
    assert forest.heaviest(votes) == 0


def test_soft_votes_are_mean_shares() -> None:
    assert forest.soft_votes([(1, 3), (20, 20)]) == [0.375, 0.625]


def test_mean_value_undoes_the_fixed_point() -> None:
    assert forest.mean_value([(2, 6 * 2**10), (4, -4 * 2**10)], 10.0, 10) == 11.0  # of 13 and 9
    assert forest.mean_value([(1, 3)], 0.0, -2) == 12.0
