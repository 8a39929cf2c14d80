"""A forest grown from bins is the reference's, also after some have left, in any order."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from revfrf.crypto.encoding import missing
from revfrf.forest import growth as growth_module
from revfrf.forest.books import bins_of, draw_book
from revfrf.forest.growth import Growth
from revfrf.forest.kernel import Bytes
from revfrf.forest.randomness import candidate_limit
from revfrf.forest.targets import Targets, class_targets, number_targets
from revfrf.forest.tree import LEAF, OPEN, Books, Forest, Rules, Tree
from revfrf.forest.voting import Voting, Walker
from tests.federations import in_numbers, reference_rules
from tests.reference import forest as reference

MISSING = missing(64)

SEED = b"seed"
RULES = Rules(
    n_trees=3,
    max_depth=6,
    candidate_limit=candidate_limit(0.5),
    min_samples_split=2,
    min_samples_leaf=1,
    bootstrap=True,
    cuts=Books(),
)


@dataclass(frozen=True)
class World:
    """Rows in ascending order of their numbers; `n_classes` is 0 for a regression."""

    rules: Rules
    columns: dict[str, list[int]]  # by the feature's id
    numbers: list[int]
    y: list[float]
    weights: list[float]
    n_classes: int
    n_cuts: int = 255

    def without(self, party: str) -> "World":
        kept = {name: own for name, own in self.columns.items() if name.split("/")[0] != party}
        return replace(self, columns=kept)

    @property
    def parties(self) -> list[str]:
        return sorted({name.split("/")[0] for name in self.columns})

    # -- by the product ------------------------------------------------------------------------------

    @property
    def targets(self) -> Targets:
        numbers, weights = np.array(self.numbers, np.int64), np.array(self.weights)
        if not self.n_classes:
            return number_targets(numbers, np.array(self.y), weights)
        return class_targets(numbers, np.array(self.y, np.int64), tuple(range(self.n_classes)), weights)

    def bins(self) -> tuple[list[str], list[int], Bytes]:
        """The features in ascending order, how many cuts each has, and the bins of all rows."""
        features = sorted(self.columns)
        codes = [np.array(self.columns[name], np.int64) for name in features]
        books = [draw_book(own, MISSING, self.n_cuts) for own in codes]
        bins = np.array([bins_of(own, book) for own, book in zip(codes, books, strict=True)], np.uint8)
        return features, [len(book) for book in books], bins.reshape(len(features), len(self.numbers))

    def growth(self) -> Growth:
        features, n_cuts, bins = self.bins()
        return Growth.of(self.rules, SEED, self.targets, features, np.array(n_cuts, np.int64), bins)

    def grown(self, before: Forest | None = None) -> Forest:
        """The forest, grown from nothing or from what is left of another."""
        growth, trees = self.growth(), range(self.rules.n_trees)
        if before is None:
            return Forest(growth.features, [growth.tree(number) for number in trees])
        left = before.renumbered(growth.features)
        return Forest(growth.features, [growth.tree(number, left.trees[number]) for number in trees])

    # -- by the reference ----------------------------------------------------------------------------

    @property
    def scale(self) -> reference.Scale:
        if self.n_classes:
            return reference.class_scale(self.y, self.weights, classes=range(self.n_classes))
        return reference.number_scale(self.y, self.weights)

    def plain(self) -> reference.Forest:
        features = [reference.Feature(name, own, n_cuts=self.n_cuts) for name, own in self.columns.items()]
        targets = reference.fixed_targets(self.scale, self.y, self.weights)
        weights = reference.fixed_weights(self.scale, self.weights)
        rows = (self.numbers, targets, weights)
        return reference.grow(reference_rules(self.rules), SEED, features, *rows, self.n_classes)


def assert_same(world: World, forest: Forest, plain: reference.Forest) -> None:
    """Node for node, sum for sum, and so the digest."""
    for number, tree in enumerate(forest.trees):
        paths = tree.paths.tolist()
        assert paths == sorted(paths)
        splits = {
            (number, path): (forest.features[feature], cut)
            for path, feature, cut in zip(paths, tree.features.tolist(), tree.cuts.tolist(), strict=True)
            if feature >= 0
        }
        leaves = [(number, path) for path, f in zip(paths, tree.features.tolist(), strict=True) if f == LEAF]
        assert splits == {
            node: (split.feature, split.cut) for node, split in plain.splits.items() if node[0] == number
        }
        assert dict(zip(leaves, map(tuple, tree.sums.tolist()), strict=True)) == {
            node: sums for node, sums in plain.leaves.items() if node[0] == number
        }
    digest = reference.forest_digest(reference_rules(world.rules), world.scale, plain)
    assert forest.digest(world.rules, world.targets.scale) == digest


def same_trees(one: Forest, other: Forest) -> bool:
    return [tree.to_bytes() for tree in one.trees] == [tree.to_bytes() for tree in other.trees]


# -- any rows ----------------------------------------------------------------------------------------

KINDS = ("plain", "plain", "ties", "ties", "holes", "extreme", "constant", "missing")


def column_of(rng: random.Random, kind: str, n: int) -> list[int]:
    most = 2**62 - 1
    match kind:
        case "constant":
            return [rng.randrange(-3, 3)] * n
        case "missing":
            return [MISSING] * n
        case "ties":
            return [rng.randrange(3) for _ in range(n)]
        case "holes":
            return [rng.choice([MISSING, rng.randrange(-9, 9)]) for _ in range(n)]
        case "extreme":
            return [rng.choice([-most, most, 0, rng.randrange(-most, most)]) for _ in range(n)]
    return [rng.randrange(-1000, 1000) for _ in range(n)]


def weights_of(rng: random.Random, kind: str, n: int) -> list[float]:
    match kind:
        case "zeros":
            return [1.0, *rng.choices([0.0, 1.0], k=n - 1)]
        case "fractional":
            return [0.25, *(rng.choice([0.0, 1e-9, rng.random(), 3.7]) for _ in range(n - 1))]
        case "whole":
            return [float(rng.randrange(50)) for _ in range(n - 1)] + [1.0]
        case "heavy":
            return [float(rng.randrange(1, 2**34 // (4 * n))) for _ in range(n)]
    return [1.0] * n


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any small world: what varies is drawn, what fills its tables comes from one number."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    n = draw(st.one_of(st.integers(1, 40), st.integers(30, 150)))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    parties = zip("cabäd", sizes, strict=False)
    names = [f"{party}/{column}" for party, size in parties for column in "yxz"[:size]]
    n_classes = draw(st.sampled_from([0, 0, 1, 2, 3, 7]))
    columns = {name: column_of(rng, rng.choice(KINDS), n) for name in names}
    scale, noise = draw(st.sampled_from([1.0, 1e-6, 1e12])), draw(st.sampled_from([0.1, 1.0]))

    def target(value: int) -> float:
        noisy = rng.random() < noise
        return float((value + noisy) % n_classes) if n_classes else noisy * rng.gauss(0, scale)

    step = draw(st.sampled_from([1, 2, 10, 2**55]))
    rules = Rules(
        n_trees=draw(st.integers(1, 3)),
        max_depth=draw(st.sampled_from([1, 2, 5, 62])),
        candidate_limit=candidate_limit(draw(st.sampled_from([1e-9, 0.1, 0.5, 1.0]))),
        min_samples_split=draw(st.sampled_from([2, 2, 7, 40])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 5, 20])),
        bootstrap=draw(st.booleans()),
        cuts=Books(),
    )
    return World(
        rules,
        columns,
        numbers=sorted({rng.randrange(k * step, (k + 1) * step) for k in range(n)}),
        y=[target(value) for value in columns[names[0]]],
        weights=weights_of(rng, draw(st.sampled_from(["one", "zeros", "fractional", "whole", "heavy"])), n),
        n_classes=n_classes,
        n_cuts=draw(st.one_of(st.integers(1, 255), st.sampled_from([1, 2, 3, 255]))),
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_any_forest_is_the_reference_s(world: World) -> None:
    assert_same(world, world.grown(), world.plain())


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.randoms(use_true_random=False))
def test_forest_that_parties_have_left_is_the_one_without_them(world: World, rng: random.Random) -> None:
    assume(len(world.parties) > 1)
    leavers = rng.sample(world.parties, rng.randrange(1, len(world.parties)))
    forest = world.grown()
    for leaver in leavers:
        world = world.without(leaver)
        forest = world.grown(forest)
        assert same_trees(forest, world.grown())
    assert_same(world, forest, world.plain())


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_forest_does_not_change_with_the_order_of_columns_or_with_features_without_cuts(world: World) -> None:
    forest = world.grown()
    shuffled = replace(world, columns=dict(reversed(world.columns.items())))
    assert same_trees(forest, shuffled.grown())
    wider = replace(world, columns=world.columns | {"~/constant": [7] * len(world.y)})
    assert wider.grown().digest(world.rules, world.targets.scale) == forest.digest(
        world.rules, world.targets.scale
    )


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_votes_of_any_forest_are_the_reference_s(world: World) -> None:
    plain, (features, _, bins) = world.plain(), world.bins()
    rows = [{name: world.columns[name][row] for name in features} for row in range(len(world.y))]
    leaves = [reference.predict(plain, row) for row in rows]
    n_voted = [reference.n_voted(of_row) for of_row in leaves]
    votings: dict[Voting, Any] = {"soft": lambda of_row: [reference.number_votes(of_row, world.scale)]}
    if world.n_classes:
        votings = {"soft": reference.soft_votes, "hard": reference.hard_votes}
    for voting, votes in votings.items():
        walked = Walker(world.grown(), world.targets.scale, voting).walk(bins)
        assert in_numbers(walked) == ([votes(of_row) for of_row in leaves], n_voted)


# -- chosen rows -------------------------------------------------------------------------------------


def many(n: int, n_classes: int, seed: int = 0, **rules: Any) -> World:
    """Five columns of noise and ties of three parties, the first of which tell something of the target."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(-(10**6), 10**6, n), rng.integers(0, 9, n), rng.integers(0, 300, n)]
    codes += [rng.integers(0, 2, n), np.where(rng.random(n) < 0.2, MISSING, rng.integers(-50, 50, n))]
    signal = codes[0] / 10**6 + codes[1] / 9 + rng.normal(0, 0.3, n)
    y = np.floor(signal * 2) % n_classes if n_classes else signal * 1000
    names = ("bank/x", "telco/x", "telco/y", "shop/x", "shop/y")
    columns = {name: own.tolist() for name, own in zip(names, codes, strict=True)}
    fields: dict[str, Any] = {field: getattr(RULES, field) for field in RULES.__struct_fields__}
    return World(
        Rules(**fields | rules), columns, (3 * np.arange(n)).tolist(), y.tolist(), [1.0] * n, n_classes
    )


def sizes_of_splits(plain: reference.Forest) -> list[int]:
    """How many rows the nodes that are split have."""
    sizes = []
    for tree, path in plain.splits:
        below = [rows for (t, p), rows in plain.rows.items() if t == tree and below_or_at(p, path)]
        sizes.append(sum(map(len, below)))
    return sizes


def below_or_at(path: int, ancestor: int) -> bool:
    return path >> max(path.bit_length() - ancestor.bit_length(), 0) == ancestor


@pytest.mark.parametrize("bootstrap", [True, False], ids=["bootstrap", "all rows"])
@pytest.mark.parametrize("n_classes", [0, 2, 5])
def test_nodes_of_few_rows_and_of_many_are_the_reference_s(n_classes: int, bootstrap: bool) -> None:
    world = many(400, n_classes, bootstrap=bootstrap)
    plain = world.plain()
    sizes = sizes_of_splits(plain)
    few = growth_module._FEW
    assert min(sizes) < few < max(sizes)
    assert_same(world, world.grown(), plain)


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("n", [31, 32, 33, 34])
def test_nodes_around_the_limit_are_the_reference_s(n: int, n_classes: int) -> None:
    """Few rows are sorted, many are counted."""
    assert growth_module._FEW == 32
    world = many(n, n_classes, bootstrap=False)
    assert_same(world, world.grown(), world.plain())


@pytest.mark.parametrize("order", [("bank", "shop"), ("shop", "bank"), ("telco", "shop"), ("telco", "bank")])
@pytest.mark.parametrize("n_classes", [0, 2])
def test_leavers_may_come_in_any_order(n_classes: int, order: tuple[str, str]) -> None:
    world = many(300, n_classes)
    forest = world.grown()
    for leaver in order:
        world = world.without(leaver)
        forest = world.grown(forest)
    assert_same(world, forest, world.plain())


def test_leaver_takes_its_nodes_and_those_below_along_and_no_others() -> None:
    world = many(300, 2)
    before, left = world.grown(), world.without("telco")
    opened = before.renumbered(sorted(left.columns))
    for old, kept in zip(before.trees, opened.trees, strict=True):
        gone = {
            path
            for path, feature in zip(old.paths.tolist(), old.features.tolist(), strict=True)
            if feature >= 0 and before.features[feature].startswith("telco/")
        }
        below = [path for path in old.paths.tolist() if any(below_or_at(path, top) for top in gone)]
        tops = [path for path in gone if not any(below_or_at(path, top) for top in gone - {path})]
        stays = sorted({*old.paths.tolist()} - {*below} | {*tops})
        assert kept.paths.tolist() == stays
        assert kept.paths[kept.features == OPEN].tolist() == sorted(tops)
    assert same_trees(left.grown(before), left.grown())


def test_tree_that_is_whole_stays_as_it_is() -> None:
    world = many(100, 2)
    forest = world.grown()
    assert same_trees(world.grown(forest), forest)


def test_party_that_comes_back_does_not_change_what_is_grown() -> None:
    """Only open nodes grow: the features of others decide nothing in a tree that is whole."""
    world = many(200, 2)
    without = world.without("bank")
    forest = without.grown()
    kept = world.grown(forest)
    assert kept.used_cuts() == forest.used_cuts()
    assert [tree.sums.tolist() for tree in kept.trees] == [tree.sums.tolist() for tree in forest.trees]


def test_forest_without_features_is_made_of_leaves() -> None:
    world = many(50, 2)
    for party in world.parties:
        world = world.without(party)
    forest = world.grown(many(50, 2).grown())
    assert [tree.features.tolist() for tree in forest.trees] == [[LEAF]] * 3
    assert_same(world, forest, world.plain())


def chain(n: int, **rules: Any) -> World:
    """Rows of a class each: all cuts have the same score, so that each split takes one row off."""
    world = many(n, n, n_trees=1, bootstrap=False, candidate_limit=2**64 - 1, **rules)
    return replace(world, columns={"a/x": list(range(n))}, y=[float(row) for row in range(n)])


@pytest.mark.parametrize("max_depth", [1, 3, 39, 40, 41, 61, 62])
def test_depth_is_limited_by_the_rules_alone(max_depth: int) -> None:
    world = chain(70, max_depth=max_depth)
    forest, plain = world.grown(), world.plain()
    assert max(path.bit_length() - 1 for _, path in plain.leaves) == max_depth
    assert len(forest.trees[0]) == 2 * max_depth + 1
    assert_same(world, forest, plain)


def test_sums_of_the_heaviest_rows_are_exact() -> None:
    """Counts and weights of a bin share a word."""
    for n_classes in (0, 3):
        world = replace(many(200, n_classes), weights=[2.0**24 + row for row in range(200)])
        assert (world.targets.scale.weight_places, world.targets.weights.sum() > 2**31) == (0, True)
        assert_same(world, world.grown(), world.plain())


def test_many_classes_are_the_reference_s() -> None:
    world = many(150, 150, n_trees=1)
    world = replace(world, y=[float(i) for i in range(150)])
    assert_same(world, world.grown(), world.plain())


def test_tree_in_which_no_row_counts_is_a_leaf_without_weight() -> None:
    world = many(2, 2, n_trees=30, min_samples_leaf=1)
    forest, plain = world.grown(), world.plain()
    empty = [tree for tree in forest.trees if not tree.sums.any()]
    assert 0 < len(empty) < 30
    assert_same(world, forest, plain)


def test_cut_of_a_noisy_bin_is_chosen_by_bins_alone() -> None:
    """An owner may add noise: rows go by their bins, whatever their values."""
    world = many(120, 2, bootstrap=False)
    growth = world.growth()
    rng = np.random.default_rng(3)
    noisy = growth.rows.bins.copy()
    for own, n_cuts in zip(noisy, growth.rows.n_cuts.tolist(), strict=True):
        own[rng.random(len(own)) < 0.2] = rng.integers(0, n_cuts + 1)
    from_noise = replace(growth, rows=growth.rows._replace(bins=noisy))
    ranks = {name: own.tolist() for name, own in zip(growth.features, noisy, strict=True)}
    features = [
        reference.Feature(name, ranks[name], thresholds=list(range(n_cuts)))
        for name, n_cuts in zip(growth.features, growth.rows.n_cuts.tolist(), strict=True)
    ]
    targets, weights = reference.fixed_targets(world.scale, world.y), [1] * len(world.y)
    rules = reference_rules(world.rules)
    plain = reference.grow(rules, SEED, features, world.numbers, targets, weights, 2)
    grown: Iterable[Tree] = (from_noise.tree(number) for number in range(3))
    assert_same(world, Forest(growth.features, list(grown)), plain)
