"""The reference forest against published vectors, hand-computed nodes and the laws of docs/forest.md."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import factorial, floor
from pathlib import Path
from random import Random

import pytest

from tests.reference import forest
from tests.reference.canonical import canonical
from tests.reference.forest import Books, Feature, Forest, Node, PerNode, Rules, Scale, Split, Sums, Tree

PAGE = (Path(__file__).parents[2] / "docs" / "forest.md").read_text()
MISSING = forest.missing(64)
EVERY_FEATURE = 2**64 - 1
RULES = Rules(
    n_trees=1,
    max_depth=4,
    candidate_limit=EVERY_FEATURE,
    min_samples_split=2,
    min_samples_leaf=1,
    bootstrap=False,
    cuts=Books(),
)
PER_NODE: list[Books | PerNode] = [PerNode("quantile", 7, 20), PerNode("uniform", 7, 20)]


def feature(values: Sequence[int], name: str = "a/x") -> Feature:
    """With a book in which every value is a cut."""
    return Feature(name, values, b"secret", thresholds=sorted(set(values)))


def tree(rules: Rules, targets: list[int], weights: list[int] | None = None, n_classes: int = 2) -> Tree:
    return Tree(rules, b"seed", 0, [], targets, weights or [1] * len(targets), n_classes)


def grown(rules: Rules, values: list[int], targets: list[int]) -> Forest:
    n = len(targets)
    return forest.grow(rules, b"seed", [feature(values)], range(n), targets, [1] * n, 2)


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
    assert [forest.nth(1234567, n) for n in range(5)] == [
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
        (1.0, 2**64 - 1),
        (0.5, 2**63 - 1),
        (2.0**-64, 0),
        (5e-324, 0),
        (0.1, 0x19999999999999FF),  # the double nearest to a tenth lies above it
    ],
)
def test_candidate_limit_takes_pi_exactly(pi: float, limit: int) -> None:
    assert forest.candidate_limit(pi) == limit


# -- Which rows a tree gets -------------------------------------------------------------------------


def table_of_the_page() -> dict[int, int]:
    cells = re.findall(r"\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", PAGE)
    return {int(row[i]): int(row[i + 1]) for row in cells for i in (0, 2)}


def test_poisson_thresholds_of_the_page_are_exact() -> None:
    below_e = sum(Fraction(1, factorial(j)) for j in range(80))
    above_e = below_e + Fraction(2, factorial(80))
    page = table_of_the_page()
    assert sorted(page) == list(range(20))
    for k, threshold in page.items():
        mass = 2**64 * sum(Fraction(1, factorial(j)) for j in range(k + 1))
        assert threshold == floor(mass / below_e) == floor(mass / above_e) == forest.POISSON[k]


@pytest.mark.parametrize(
    ("u", "count"),
    [
        (0, 0),
        (6786177901268885273, 0),
        (6786177901268885274, 1),
        (13572355802537770548, 1),
        (13572355802537770549, 2),
        (2**64 - 4, 19),
        (2**64 - 3, 20),
        (2**64 - 1, 20),
    ],
)
def test_row_counts_as_often_as_thresholds_are_at_most_its_draw(
    u: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest, "nth", lambda _seed, _n: u)
    assert forest.bootstrap_count(b"seed", 0, 5) == count


def test_bootstrap_draws_by_the_number_of_the_row_and_the_tree() -> None:
    stream = forest.draw(forest.key("bootstrap", b"seed"), 3, 0)
    for number in (0, 7, 2**63 - 1):
        expected = sum(threshold <= forest.nth(stream, number) for threshold in table_of_the_page().values())
        assert forest.bootstrap_count(b"seed", 3, number) == expected


def test_counts_have_the_mean_and_variance_of_poisson() -> None:
    counts = [forest.bootstrap_count(b"seed", 1, number) for number in range(4000)]
    assert sum(counts) / 4000 == pytest.approx(1, abs=0.06)
    assert sum((count - 1) ** 2 for count in counts) / 4000 == pytest.approx(1, abs=0.12)


def counts_in_trees(numbers: Sequence[int], weights: Sequence[int]) -> list[dict[int, int]]:
    rules = replace(RULES, bootstrap=True, n_trees=5)
    n = len(numbers)
    trees = forest.trees(rules, b"seed", [Feature("a/x", range(n))], numbers, [0] * n, weights, 2)
    return [dict(zip(numbers, t.weights, strict=True)) for t in trees]


def test_rows_that_come_and_go_do_not_change_the_counts_of_the_others() -> None:
    before = counts_in_trees([0, 3, 4, 9, 17, 50], [1] * 6)
    after = counts_in_trees([3, 9, 12, 50, 51], [1, 0, 1, 1, 1])
    assert any(count > 0 for of_tree in before for count in of_tree.values())
    for old, new in zip(before, after, strict=True):
        assert (new[3], new[50]) == (old[3], old[50])
        assert new[9] == 0


def test_rows_of_weight_zero_change_no_split_and_no_leaf() -> None:
    rules = replace(RULES, bootstrap=True, n_trees=6)
    book = [1, 2, 3]
    there = [Feature("a/x", [1, 2, 3, 4], thresholds=book)]
    diluted = [Feature("a/x", [9, 1, 2, 3, 9, 4], thresholds=book)]
    without = forest.grow(rules, b"seed", there, [1, 2, 5, 6], [0, 1, 0, 1], [1, 2, 1, 1], 2)
    absent = [0, 1, 2, 1, 0, 1]
    among = forest.grow(rules, b"seed", diluted, [0, 1, 2, 5, 9, 6], [1, 0, 1, 0, 1, 1], absent, 2)
    assert without.splits
    assert (among.splits, among.leaves) == (without.splits, without.leaves)


def test_order_in_which_rows_and_features_are_given_plays_no_part() -> None:
    random = Random("order")
    for cuts in (Books(), *PER_NODE):
        rules = replace(RULES, bootstrap=True, n_trees=3, cuts=cuts)
        case = random_case(random, 40, 2)
        order = random.sample(range(40), 40)
        shuffled = Case(
            [replace(f, values=[f.values[row] for row in order]) for f in reversed(case.features)],
            [case.numbers[row] for row in order],
            [case.targets[row] for row in order],
            [case.weights[row] for row in order],
            2,
        )
        one, other = case.grown(rules), shuffled.grown(rules)
        assert (one.splits, one.leaves) == (other.splits, other.leaves)
        assert one.rows == {node: [order[row] for row in rows] for node, rows in other.rows.items()}


def test_tree_without_rows_is_one_leaf_without_weight_and_casts_no_vote() -> None:
    rules = replace(RULES, bootstrap=True, n_trees=20)
    of_one = forest.grow(rules, b"seed", [feature([1])], [8], [1], [3], 2)
    counts = [forest.bootstrap_count(b"seed", t, 8) for t in range(20)]
    assert of_one.leaves == {(t, 1): (0, 3 * count) for t, count in enumerate(counts)}
    assert 0 < counts.count(0) < 20
    leaves = forest.predict(of_one, {})
    assert forest.n_voted(leaves) == 20 - counts.count(0)
    assert forest.hard_votes(leaves) == [0, 20 - counts.count(0)]


# -- Valid splits and scores ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "n_classes", "score"),
    [
        ((3, 1), (0, 4), 2, -6.5),  # 10/4 + 16/4
        ((1, 0, 1), (2, 2, 0), 3, -3.0),  # 2/2 + 8/4
        ((2, 6), (3, -3), 0, -21.0),  # 36/2 + 9/3
        ((2, 106), (3, 147), 0, -21.0),  # 50 more each: the same
        ((1, -1), (2, 0), 0, -2.0),  # the mean -1/3 is rounded down to -1: 0²/1 + 2²/2
        ((1, 2**53 + 1), (1, 0), 0, -(2.0**105 + 2.0**53)),
    ],
)
def test_score_is_minus_the_purity_of_both_sides(
    left: Sums, right: Sums, n_classes: int, score: float
) -> None:
    assert forest.score(left, right, n_classes) == score


def test_squares_are_added_one_by_one_in_the_order_of_the_classes() -> None:
    weights = (2**30, 8, 8, 8, 8)  # float64 loses 64 beside 2^60, but not 256
    assert forest.purity(weights, 5) == 2.0**60 / (2**30 + 32)
    assert forest.purity(weights[::-1], 5) == (2.0**60 + 256) / (2**30 + 32) != forest.purity(weights, 5)


def test_sums_contain_weights() -> None:
    weights = [1, 2, 3, 5]
    assert forest.sums(tree(RULES, [0, 1, 0, 2], weights, 3), [0, 1, 2]) == (4, 2, 0)
    assert forest.sums(tree(RULES, [10, -1, 7, 0], weights, 0), [0, 1, 3]) == (8, 8)


def test_best_cut_of_a_regression_has_the_lowest_score() -> None:
    column = feature([1, 2, 3])
    best = forest.best_cut(tree(RULES, [0, 0, 9], [1, 1, 2], 0), column, 1, [0, 1, 2])
    assert best == (-82.0, Split("a/x", 1, 2))  # around 4: 8²/2 + 10²/2


def test_lowest_of_equally_good_cuts_wins() -> None:
    column = feature([1, 2, 3, 4])  # cuts 1 and 3 mirror each other
    best = forest.best_cut(tree(RULES, [0, 1, 1, 0]), column, 1, [0, 1, 2, 3])
    assert best == (-(1 + 5 / 3), Split("a/x", 0, 1))


def test_cuts_that_divide_the_rows_alike_give_the_lowest() -> None:
    column = Feature("a/x", [1, 9], thresholds=[0, 3, 5, 7])
    assert forest.best_cut(tree(RULES, [0, 1]), column, 1, [0, 1]) == (-2.0, Split("a/x", 1, 3))


def test_min_samples_leaf_counts_rows_and_not_weights() -> None:
    rules = replace(RULES, min_samples_leaf=2)
    best = forest.best_cut(tree(rules, [0, 1, 1, 0], [9, 1, 1, 9]), feature([1, 2, 3, 4]), 1, [0, 1, 2, 3])
    assert best == (-16.4, Split("a/x", 1, 2))  # cut 2 keeps its number; twice 82/10
    assert forest.best_cut(tree(rules, [0, 1, 1]), feature([1, 2, 3]), 1, [0, 1, 2]) is None


# -- Growing a node ---------------------------------------------------------------------------------


def candidate_draws(seed: bytes, *features: Feature) -> list[int]:
    return [forest.draw(forest.key("candidate", seed, f.id), 0, 1) for f in features]


def root_split(rules: Rules, seed: bytes, *features: Feature) -> Split | None:
    return forest.grow(rules, seed, features, range(4), [0, 0, 1, 1], [1] * 4, 2).splits.get((0, 1))


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


def test_lowest_id_wins_between_equal_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "draw", lambda _key, _tree, _path: 5)
    names = ["a/Z", "a/é", "a/z", "a/\uffff", "a/\U0001f600"]  # the last two have another order in UTF-16
    in_order = sorted(names, key=str.encode)
    assert in_order == ["a/Z", "a/z", "a/é", "a/\uffff", "a/\U0001f600"]
    for first in range(5):
        features = [feature([1, 2, 3, 4], name) for name in reversed(in_order[first:])]
        assert root_split(RULES, b"seed", *features) == Split(in_order[first], 1, 2)


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


def test_rows_up_to_the_threshold_go_to_the_even_child() -> None:
    of_four = grown(RULES, [4, 3, 2, 1], [1, 1, 0, 0])
    assert of_four.splits == {(0, 1): Split("a/x", 1, 2)}
    assert of_four.leaves == {(0, 2): (2, 0), (0, 3): (0, 2)}
    assert of_four.rows == {(0, 2): [2, 3], (0, 3): [0, 1]}


@pytest.mark.parametrize(
    ("rules", "values", "targets"),
    [
        (replace(RULES, min_samples_split=5), [1, 2, 3, 4], [0, 0, 1, 1]),
        (replace(RULES, min_samples_leaf=3), [1, 2, 3, 4], [0, 0, 1, 1]),
        (replace(RULES, min_samples_leaf=2), [1, 2, 2, 2], [0, 0, 1, 1]),
        (RULES, [1, 2, 3, 4], [1, 1, 1, 1]),
        (RULES, [7, 7, 7, 7], [0, 0, 1, 1]),
    ],
    ids=["too few to split", "too few for two leaves", "no valid cut", "one target", "one value"],
)
def test_node_is_a_leaf_if_it_must_be(rules: Rules, values: list[int], targets: list[int]) -> None:
    leaf = grown(rules, values, targets)
    assert leaf.splits == {}
    assert leaf.leaves == {(0, 1): (targets.count(0), targets.count(1))}


def test_nodes_at_max_depth_are_leaves() -> None:
    values, targets = [1, 2, 3, 4], [0, 1, 0, 1]
    assert set(grown(replace(RULES, max_depth=1), values, targets).leaves) == {(0, 2), (0, 3)}
    assert set(grown(replace(RULES, max_depth=2), values, targets).leaves) == {(0, 2), (0, 6), (0, 7)}


@pytest.mark.parametrize(
    "rules",
    [replace(RULES, max_depth=1), replace(RULES, min_samples_split=4), replace(RULES, min_samples_leaf=2)],
    ids=["depth", "enough to split", "enough for two leaves"],
)
def test_node_at_the_bound_of_a_leaf_rule_still_splits(rules: Rules) -> None:
    assert grown(rules, [1, 2, 3, 4], [0, 0, 1, 1]).splits == {(0, 1): Split("a/x", 1, 2)}


# -- Whole forests ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    features: list[Feature]
    numbers: list[int]
    targets: list[int]
    weights: list[int]
    n_classes: int

    def grown(self, rules: Rules) -> Forest:
        return forest.grow(
            rules, b"seed", self.features, self.numbers, self.targets, self.weights, self.n_classes
        )

    def trees(self, rules: Rules) -> list[Tree]:
        return forest.trees(
            rules, b"seed", self.features, self.numbers, self.targets, self.weights, self.n_classes
        )


def random_case(random: Random, n: int, n_classes: int) -> Case:
    """With missing values, equal and constant columns, few values, and rows of weight 0."""
    shared = [random.choice([MISSING, *range(5)]) for _ in range(n)]
    columns = {
        "a/x": shared,
        "a/y": [random.randrange(-50, 50) for _ in range(n)],
        "b/x": shared,
        "b/y": [random.randrange(2) for _ in range(n)],
        "c/x": [7] * n,
        "c/y": [random.choice([MISSING, *range(-20, 20)]) for _ in range(n)],
    }
    features = [
        Feature(name, values, name[:1].encode(), n_cuts=random.choice([3, 255]))
        for name, values in columns.items()
    ]
    numbers = sorted(random.sample(range(10 * n), n))
    targets = [random.randrange(3 if n_classes == 0 else n_classes) for _ in range(n)]
    return Case(features, numbers, targets, [random.randrange(4) for _ in range(n)], n_classes)


@pytest.mark.parametrize("cuts", [Books(), *PER_NODE], ids=str)
@pytest.mark.parametrize("n_classes", [0, 3])
def test_every_row_of_a_tree_falls_into_the_leaf_that_counts_it(
    cuts: Books | PerNode, n_classes: int
) -> None:
    case = random_case(Random(f"{cuts} {n_classes}"), 100, n_classes)
    rules = Rules(10, 5, forest.candidate_limit(0.4), 4, 2, True, cuts)
    whole = case.grown(rules)
    for one in case.trees(rules):
        leaves = {path: rows for (number, path), rows in whole.rows.items() if number == one.number}
        there = [row for row in range(100) if one.weights[row]]
        assert sorted(row for rows in leaves.values() for row in rows) == there
        for path, rows in leaves.items():
            assert rows == sorted(rows)
            assert len(rows) >= rules.min_samples_leaf
            assert path.bit_length() <= rules.max_depth + 1
            assert whole.leaves[one.number, path] == forest.sums(one, rows)
            for row in rows:
                values = {f.id: f.values[row] for f in case.features}
                assert forest.leaf_of(whole, one.number, values) == (one.number, path)
    assert len({whole.splits[number, 1].feature for number in range(rules.n_trees)}) > 1


def is_below(path: int, ancestor: int) -> bool:
    """Whether a path passes through another, or is it."""
    return path >> max(path.bit_length() - ancestor.bit_length(), 0) == ancestor


def regrown(whole: Forest, rules: Rules, remaining: Case, leaver: str) -> Forest:
    """Destroys the nodes that the leaver won and those below them, and grows these again without it."""
    lost = {node for node, split in whole.splits.items() if split.feature.startswith(f"{leaver}/")}

    def top(tree: int, path: int) -> Node | None:
        """The highest lost node above this one, or this one itself."""
        return min((node for node in lost if node[0] == tree and is_below(path, node[1])), default=None)

    rest = Forest(
        whole.n_trees,
        {node: split for node, split in whole.splits.items() if not top(*node)},
        {node: leaf for node, leaf in whole.leaves.items() if not top(*node)},
        {node: rows for node, rows in whole.rows.items() if not top(*node)},
    )
    trees = remaining.trees(rules)
    for node in (node for node in lost if top(*node) == node):
        rows = sorted(row for leaf, rows in whole.rows.items() if top(*leaf) == node for row in rows)
        number, path = node
        forest.grow_node(trees[number], path, rows, rest)
    return rest


def fallback_nodes(whole: Forest, rules: Rules) -> int:
    """How many splits were won by a feature that was no candidate."""
    return sum(
        forest.draw(forest.key("candidate", b"seed", split.feature), *node) > rules.candidate_limit
        for node, split in whole.splits.items()
    )


@pytest.mark.parametrize("cuts", [Books(), *PER_NODE], ids=str)
@pytest.mark.parametrize("n_classes", [0, 2])
def test_regrowing_the_nodes_of_a_leaver_gives_the_forest_without_it(
    cuts: Books | PerNode, n_classes: int
) -> None:
    random = Random(f"leaving {cuts} {n_classes}")
    n_fallback = n_empty = n_kept = n_lost = 0
    for _ in range(25):
        case = random_case(random, random.choice([1, 2, 3, 10, 20, 30]), n_classes)
        pi = random.choice([2.0**-64, 0.2, 0.5, 1.0])
        min_samples_leaf = random.choice([1, 1, 2])
        rules = Rules(4, 4, forest.candidate_limit(pi), 2, min_samples_leaf, random.random() < 0.8, cuts)
        whole = case.grown(rules)
        n_fallback += fallback_nodes(whole, rules)
        n_empty += sum(not any(leaf) for leaf in whole.leaves.values())
        for leaver in "abc":
            remaining = replace(case, features=[f for f in case.features if f.id[0] != leaver])
            without = remaining.grown(rules)
            assert regrown(whole, rules, remaining, leaver) == without
            for node, split in whole.splits.items():
                n_kept += without.splits.get(node) == split
                n_lost += split.feature[0] == leaver
    assert min(n_fallback, n_empty, n_kept, n_lost) > 5


def test_growth_needs_bins_only() -> None:
    random = Random("bins")
    for n_classes in (0, 2):
        case = random_case(random, 60, n_classes)
        rules = replace(RULES, bootstrap=True, n_trees=4, candidate_limit=2**63)
        books = {f.id: forest.book(f.values, f.ring, f.n_cuts) for f in case.features}
        binned = [
            replace(
                f,
                values=[forest.bin_of(x, books[f.id]) for x in f.values],
                thresholds=range(len(books[f.id])),
            )
            for f in case.features
        ]
        of_values, of_bins = case.grown(rules), replace(case, features=binned).grown(rules)
        assert of_values.leaves == of_bins.leaves
        scale = Scale(0, (0, 1), 0, 0, 0)
        assert forest.forest_digest(rules, scale, of_values) == forest.forest_digest(rules, scale, of_bins)


def test_book_that_was_drawn_earlier_is_kept() -> None:
    column = Feature("a/x", [1, 2, 3, 4], thresholds=[-100, 2, 100])
    of_four = forest.grow(RULES, b"seed", [column], range(4), [0, 0, 1, 1], [1] * 4, 2)
    assert of_four.splits == {(0, 1): Split("a/x", 1, 2)}


# -- Leaves and votes -------------------------------------------------------------------------------


def test_row_takes_the_left_branch_up_to_the_threshold_and_if_missing() -> None:
    two = Forest(2, {(0, 1): Split("a/x", 0, 5)}, {(0, 2): (1, 0), (0, 3): (0, 1), (1, 1): (4, 4)}, {})
    assert forest.predict(two, {"a/x": 5}) == [(1, 0), (4, 4)]
    assert forest.predict(two, {"a/x": 6}) == [(0, 1), (4, 4)]
    assert forest.predict(two, {"a/x": MISSING}) == [(1, 0), (4, 4)]


def test_hard_votes_go_to_the_lowest_of_equally_heavy_classes() -> None:
    votes = forest.hard_votes([(0, 2, 2), (5, 1, 0), (0, 0, 0), (0, 3, 1), (4, 1, 4)])
    assert votes == [2, 2, 0]
    assert forest.answer_class(votes) == 0
    assert forest.probabilities(votes) == [0.5, 0.5, 0.0]


def test_soft_votes_are_shares_rounded_down() -> None:
    votes = forest.soft_votes([(1, 3), (0, 0), (20, 20), (1, 2)])
    assert votes == [2**20 + 2**21 + 1398101, 3 * 2**20 + 2**21 + 2796202]  # 2^22/3 = 1398101⅓
    assert forest.answer_class(votes) == 1
    assert forest.probabilities(votes) == [votes[0] / (3 * 2**22 - 1), votes[1] / (3 * 2**22 - 1)]


def test_number_is_the_mean_of_the_trees_that_vote() -> None:
    scale = Scale(0, (), 6.0, 14.0, 8)  # centre 10, spread 4 = ½·2³
    assert (scale.places, scale.vote_places) == (37, 37)
    leaves = [(2, 6 * 2**37), (0, 0), (4, -4 * 2**37)]
    assert forest.number_votes(leaves, scale) == 2 * 2**37
    assert forest.answer_number(2 * 2**37, forest.n_voted(leaves), scale) == 11.0  # of 13 and 9


def test_votes_for_numbers_are_rounded_down_at_their_own_places() -> None:
    scale = Scale(0, (), -0.75, 0.75, 2**34)  # b = 35, e = 0
    assert (scale.places, scale.vote_places) == (22, 40)
    assert forest.number_votes([(3, 1)], scale) == 2**18 // 3
    assert forest.number_votes([(3, -1)], scale) == -(2**18 // 3) - 1
    assert forest.number_votes([(3, 1), (3, -1)], scale) == -1


# -- Digest -----------------------------------------------------------------------------------------


def framed(tag: bytes, payload: bytes) -> bytes:
    return tag + len(payload).to_bytes(8, "big") + payload


def test_digest_hashes_rules_scale_names_shapes_and_tables() -> None:
    small = Forest(
        2,
        {(1, 1): Split("b/y", 2, 77), (0, 1): Split("a/x", 0, 5), (0, 3): Split("b/y", 1, 9)},
        {(1, 3): (1, -2), (1, 2): (1, 4), (0, 7): (2, 5), (0, 6): (1, 0), (0, 2): (3, 1)},
        {},
    )
    rules = framed(
        b"t",
        b"".join(framed(b"i", bytes([n])) for n in (1, 4))
        + framed(b"i", b"\x00" + b"\xff" * 8)
        + b"".join(framed(b"i", bytes([n])) for n in (2, 1))
        + framed(b"o", b"\x00")
        + framed(b"t", framed(b"s", b"books")),
    )
    scale = framed(
        b"t",
        framed(b"s", b"numbers")
        + framed(b"i", b"\x00")
        + framed(b"s", b"0x1.4000000000000p+3")
        + framed(b"s", b"0x1.0000000000000p+2")
        + framed(b"i", b"\x25"),
    )
    names = framed(b"t", framed(b"s", b"a/x") + framed(b"s", b"b/y"))
    shapes = [framed(b"t", framed(b"i", bytes([m])) + framed(b"i", b"\x04")) for m in (3, 5)]
    head = framed(b"t", framed(b"s", b"revfrf forest v2") + rules + scale + names + b"".join(shapes))
    splits = [0, 1, 0, 0, 0, 3, 1, 1, 1, 1, 1, 2]
    leaves = [0, 2, 3, 1, 0, 6, 1, 0, 0, 7, 2, 5, 1, 2, 1, 4, 1, 3, 1, -2]
    tables = b"".join((n % 2**64).to_bytes(8, "little") for n in splits + leaves)
    expected = sha256(head + tables).hexdigest()
    assert forest.forest_digest(RULES, Scale(0, (), 6.0, 14.0, 8), small) == expected


def test_digest_changes_with_everything_but_thresholds() -> None:
    classes = forest.class_scale(["no", "yes"], [1, 1])
    of_four = grown(RULES, [1, 2, 3, 4], [0, 0, 1, 1])
    digest = forest.forest_digest(RULES, classes, of_four)
    assert digest == forest.forest_digest(RULES, classes, grown(RULES, [1, 3, 5, 7], [0, 0, 1, 1]))
    others = [
        (replace(RULES, n_trees=2), classes, of_four),
        (replace(RULES, bootstrap=True), classes, of_four),
        (replace(RULES, cuts=PerNode("uniform", 1, 2)), classes, of_four),
        (RULES, replace(classes, labels=("no", "yes!")), of_four),
        (RULES, replace(classes, weight_places=1), of_four),
        (RULES, classes, replace(of_four, splits={(0, 1): Split("a/x", 2, 2)})),
        (RULES, classes, replace(of_four, splits={(0, 1): Split("a/y", 1, 2)})),
        (RULES, classes, replace(of_four, splits={})),
        (RULES, classes, replace(of_four, leaves={**of_four.leaves, (0, 2): (2, 1)})),
    ]
    assert digest not in {forest.forest_digest(*other) for other in others}


def test_digest_of_a_forest_without_splits_has_an_empty_first_table() -> None:
    assert forest.shape([]) == (0, 0)
    leaf = grown(RULES, [1, 1], [0, 1])
    assert leaf.leaves == {(0, 1): (1, 1)}
    fields = (*(1, 4, EVERY_FEATURE, 2, 1), False, ("books",))
    head = canonical("revfrf forest v2", fields, ("classes", 0, "0", "1"), (), (0, 0), (1, 4))
    expected = sha256(head + b"".join(n.to_bytes(8, "little") for n in (0, 1, 1, 1))).hexdigest()
    assert forest.forest_digest(RULES, forest.class_scale([0, 1], [1, 1]), leaf) == expected
