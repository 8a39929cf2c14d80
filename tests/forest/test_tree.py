"""Rules, and forests as arrays, as bytes and as digests."""

import random
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError, UsageError
from revfrf.forest.randomness import feature_probability
from revfrf.forest.targets import Scale
from revfrf.forest.tree import BARE, LEAF, MAX_TREES, OPEN, Books, Forest, PerNode, Rules, Tree
from revfrf.testing.federations import RULES, with_rules
from tests.federations import reference_rules
from tests.reference import forest as reference

SCALE = Scale(16.0, 0, ("a", "b"), (1.0, 1.0))
SPLITS = {(0, 1): ("bank/x", 3), (0, 3): ("shop/y", 0), (2, 1): ("bank/x", 255)}
LEAVES = {(0, 2): (2, 0), (0, 6): (0, 1), (0, 7): (5, 2), (1, 1): (1, 1), (2, 2): (0, 3), (2, 3): (4, 0)}


def of_nodes(
    splits: dict[tuple[int, int], tuple[str, int]], leaves: dict[tuple[int, int], tuple[int, int]]
) -> Forest:
    return Forest.of_nodes(3, splits, leaves)


FOREST = of_nodes(SPLITS, LEAVES)


# -- nodes -------------------------------------------------------------------------------------------


def test_nodes_are_in_ascending_order_of_their_paths() -> None:
    first = FOREST.trees[0]
    assert FOREST.features == ["bank/x", "shop/y"]
    assert first.paths.tolist() == [1, 2, 3, 6, 7]
    assert first.features.tolist() == [0, LEAF, 1, LEAF, LEAF]
    assert first.cuts.tolist() == [3, 0, 0, 0, 0]
    assert first.sums.tolist() == [[2, 0], [0, 1], [5, 2]]
    assert FOREST.n_nodes == 9


def test_nodes_that_are_neither_split_nor_leaf_are_open() -> None:
    forest = of_nodes({(0, 1): ("bank/x", 3)}, {(0, 3): (1, 2)})
    assert [tree.features.tolist() for tree in forest.trees] == [[0, OPEN, LEAF], [OPEN], [OPEN]]


def test_forest_knows_the_cuts_that_it_uses() -> None:
    assert FOREST.used_cuts() == {"bank/x": [3, 255], "shop/y": [0]}
    assert Forest([], [BARE]).used_cuts() == {}


def test_splits_by_features_that_are_gone_become_open_and_take_along_what_is_below() -> None:
    left = FOREST.renumbered(["casino/z", "shop/y"])
    assert [tree.features.tolist() for tree in left.trees] == [[OPEN], [LEAF], [OPEN]]
    assert [tree.cuts.tolist() for tree in left.trees] == [[0], [0], [0]]  # nothing tells the leaver's cut
    other = FOREST.renumbered(["bank/x", "casino/z"])
    assert [tree.features.tolist() for tree in other.trees] == [[0, LEAF, OPEN], [LEAF], [0, LEAF, LEAF]]
    assert [tree.sums.tolist() for tree in other.trees] == [[[2, 0]], [[1, 1]], [[0, 3], [4, 0]]]
    assert FOREST.renumbered(["a/a", "bank/x", "shop/y"]).used_cuts() == FOREST.used_cuts()


# -- digests -----------------------------------------------------------------------------------------


def test_digest_is_the_reference_s() -> None:
    in_full = {node: reference.Split(feature, cut, 0) for node, (feature, cut) in SPLITS.items()}
    plain = reference.Forest(3, in_full, dict(LEAVES), {})
    scale = reference.Scale(0, ("a", "b"), 0.0, 0.0, 16.0)
    assert FOREST.digest(RULES, SCALE) == reference.forest_digest(reference_rules(RULES), scale, plain)


def test_digest_is_that_of_rules_scale_splits_and_leaves() -> None:
    digest = FOREST.digest(RULES, SCALE)
    backwards = of_nodes(dict(reversed(SPLITS.items())), dict(reversed(LEAVES.items())))
    more_names = FOREST.renumbered(["a/a", "bank/x", "shop/x", "shop/y"])
    assert digest == backwards.digest(RULES, SCALE) == more_names.digest(RULES, SCALE)
    others = {
        FOREST.digest(with_rules(n_trees=9), SCALE),
        FOREST.digest(msgspec.structs.replace(RULES, cuts=Books()), SCALE),
        FOREST.digest(with_rules(n_sampled=3), SCALE),
        FOREST.digest(RULES, msgspec.structs.replace(SCALE, labels=("a", "c"))),
        FOREST.digest(RULES, msgspec.structs.replace(SCALE, weight_places=29)),
        of_nodes({}, {(0, 1): (1, 1)}).digest(RULES, SCALE),
        of_nodes(SPLITS | {(0, 3): ("shop/y", 1)}, LEAVES).digest(RULES, SCALE),
        of_nodes(SPLITS | {(0, 3): ("shop/z", 0)}, LEAVES).digest(RULES, SCALE),
        of_nodes(SPLITS, LEAVES | {(0, 2): (3, 0)}).digest(RULES, SCALE),
        of_nodes(SPLITS, {node: sums for node, sums in LEAVES.items() if node[0]}).digest(RULES, SCALE),
    }
    assert len(others - {digest}) == 10


def test_forest_that_is_not_grown_has_a_digest_too() -> None:
    bare, grown = Forest([], [BARE] * 3), Forest(FOREST.features, [BARE, *FOREST.trees[1:]])
    assert len({bare.digest(RULES, SCALE), grown.digest(RULES, SCALE), FOREST.digest(RULES, SCALE)}) == 3


# -- bytes -------------------------------------------------------------------------------------------


def some_tree(rng: random.Random, n_splits: int, width: int, n_features: int = 9) -> Tree:
    features, to_come = [], 1
    while to_come:
        to_come -= 1
        splits = n_splits > 0 and (not to_come or rng.random() < 0.7)
        n_splits, to_come = n_splits - splits, to_come + 2 * splits
        features.append(rng.randrange(n_features) if splits else rng.choice([LEAF, LEAF, OPEN]))
    sums = [[rng.randrange(-(2**62), 2**62) for _ in range(width)] for _ in range(features.count(LEAF))]
    cuts = [rng.randrange(256) if feature >= 0 else 0 for feature in features]
    table = np.array(sums, np.int64).reshape(len(sums), width)
    return Tree(np.array(features, np.int64), np.array(cuts, np.uint8), table)


def same(one: Tree, other: Tree) -> bool:
    return all(
        getattr(one, name).dtype == getattr(other, name).dtype
        and getattr(one, name).tolist() == getattr(other, name).tolist()
        for name in ("features", "cuts", "sums")
    )


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 5), st.sampled_from([1, 9, 2**17]))
def test_tree_comes_back_from_its_bytes(seed: int, n_splits: int, width: int, n_features: int) -> None:
    tree = some_tree(random.Random(seed), n_splits, width, n_features)
    assert same(Tree.from_bytes(tree.to_bytes()), tree)


def test_bare_tree_comes_back_from_its_bytes() -> None:
    assert same(Tree.from_bytes(BARE.to_bytes()), BARE)


@given(st.integers(0, 2**32), st.integers(0, 9))
def test_tree_that_is_cut_off_or_too_long_is_refused(seed: int, n_splits: int) -> None:
    data = some_tree(random.Random(seed), n_splits, 2).to_bytes()
    for damaged in (*(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(FormatError) as caught:
            Tree.from_bytes(damaged)
        assert caught.value.kind == "length"


@pytest.mark.parametrize(
    ("features", "n_leaves"),
    [
        pytest.param([], 0, id="no nodes"),
        pytest.param([0], 0, id="split without children"),
        pytest.param([0, LEAF], 1, id="split with one child"),
        pytest.param([LEAF, LEAF], 2, id="two roots"),
        pytest.param([LEAF, 0, LEAF], 2, id="leaf with children"),
        pytest.param([OPEN, 0, LEAF], 1, id="open node with children"),
        pytest.param([0, LEAF, LEAF, LEAF], 3, id="a node too many"),
        pytest.param([0, LEAF, LEAF, 0, LEAF], 3, id="a split that is nobody's child"),
        pytest.param([-3], 0, id="a node of no kind"),
        pytest.param([0, LEAF, -3], 1, id="a child of no kind"),
        pytest.param([LEAF], 0, id="leaf without sums"),
        pytest.param([OPEN], 1, id="sums without a leaf"),
        pytest.param([0, LEAF, OPEN], 2, id="sums of an open node"),
    ],
)
def test_nodes_that_are_no_tree_are_refused(features: list[int], n_leaves: int) -> None:
    """Arrays are taken as they are; bytes are checked."""
    nodes = np.array(features, np.int64), np.zeros(len(features), np.uint8)
    data = Tree(*nodes, np.ones((n_leaves, 2), np.int64)).to_bytes()
    with pytest.raises(FormatError) as caught:
        Tree.from_bytes(data)
    assert caught.value.kind == "malformed"


def test_tree_too_deep_for_its_paths_is_refused() -> None:
    """Depth 62 is the deepest."""

    def chain(depth: int) -> bytes:
        features = [0, *[LEAF, 0] * (depth - 1), LEAF, LEAF]
        leaves = np.ones((depth + 1, 1), np.int64)
        return Tree(np.array(features), np.zeros(len(features), np.uint8), leaves).to_bytes()

    assert Tree.from_bytes(chain(62)).paths[-1] == 2**63 - 1
    with pytest.raises(FormatError) as caught:
        Tree.from_bytes(chain(63))
    assert caught.value.kind == "malformed"


@given(st.binary(max_size=80), st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_any_bytes_are_refused_or_are_a_tree(data: bytes, n_nodes: int, n_leaves: int, width: int) -> None:
    head = np.array([n_nodes, n_leaves, width], "<u4").tobytes()
    size = 12 + 5 * n_nodes + 8 * n_leaves * width
    for any_bytes in (data, (head + data.ljust(200, b"\xff"))[:size]):
        try:
            tree = Tree.from_bytes(any_bytes)
        except FormatError:
            continue
        assert tree.to_bytes() == any_bytes
        assert len(set(tree.paths.tolist())) == len(tree)


# -- rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_features", "pi"), [(None, 1.0), (0.3, 0.3), (2, 2 / 9), ("sqrt", 3 / 9), ("log2", np.log2(9) / 9)]
)
def test_probability_of_a_feature_is_what_max_features_asks_for(
    max_features: str | float | None, pi: float
) -> None:
    assert feature_probability(max_features, 9) == pytest.approx(pi, rel=1e-15)
    with pytest.raises(UsageError, match="there are 9 features"):
        feature_probability(10, 9)


def test_rules_are_those_of_an_estimator() -> None:
    given = SimpleNamespace(n_estimators=4, max_depth=None, max_features=0.5)
    for name in ("min_samples_split", "min_samples_leaf", "bootstrap"):
        setattr(given, name, getattr(RULES, name))
    assert Rules.of(given, 9, RULES.cuts) == with_rules(max_depth=62)
    assert Rules.of(given, 9, Books()).cuts == Books()


@pytest.mark.parametrize("cuts", [RULES.cuts, Books()], ids=["per node", "books"])
def test_rules_come_back_from_a_message_and_have_the_reference_s_fields(cuts: Books | PerNode) -> None:
    rules = msgspec.structs.replace(RULES, cuts=cuts)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(rules), type=Rules) == rules
    assert rules.fields() == reference.fields_of_rules(reference_rules(rules))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_trees": 0},
        {"n_trees": MAX_TREES + 1},
        {"max_depth": 0},
        {"max_depth": 63},
        {"candidate_limit": -1},
        {"min_samples_split": 1},
        {"min_samples_leaf": 0},
        {"cuts": PerNode("quantile", 0, 2)},
        {"cuts": PerNode("quantile", 256, 2)},
        {"cuts": PerNode("quantile", 1, 1)},
        {"cuts": {"type": "other"}},
    ],
    ids=str,
)
def test_rules_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    plain = msgspec.to_builtins(RULES) | msgspec.to_builtins(wrong)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain, Rules)
