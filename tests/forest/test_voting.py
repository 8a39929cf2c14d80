import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.forest.nodes import Nodes
from revfrf.forest.targets import Scale
from revfrf.forest.tree import BARE, LEAF, OPEN, Forest, Tree
from revfrf.forest.voting import Votes, Voting, Walker, leaf_votes
from tests.federations import in_numbers
from tests.reference import forest as reference

CLASSES = Scale(2.0**34, 0, ("a", "b", "c"), (1.0, 1.0, 1.0))
NUMBERS = Scale(2.0**34, 0, low=-1000.0, high=1000.0)
PLAIN = reference.Scale(0, (), -1000.0, 1000.0, 2.0**34)
FAR = 1000 * 2**NUMBERS.places  # as integers

classes = st.lists(st.lists(st.integers(0, 2**38), min_size=3, max_size=3), min_size=1, max_size=20)
numbers = st.lists(
    st.integers(1, 2**39).flatmap(lambda w: st.tuples(st.just(w), st.integers(-w * FAR, w * FAR)))
    | st.just((0, 0)),
    min_size=1,
    max_size=20,
)


def sums_of(leaves: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(leaves, dtype=np.int64)


def test_tied_hard_vote_goes_to_the_lowest_of_the_heaviest_classes() -> None:
    sums = sums_of([[0, 5, 5], [5, 5, 5], [4, 0, 4], [0, 0, 1]])
    assert leaf_votes(sums, CLASSES, "hard").tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_classes_one_apart_are_no_tie_however_heavy() -> None:
    """The two weights are equal as float64."""
    assert leaf_votes(sums_of([[2**61, 2**61 + 1, 0]]), CLASSES, "hard").tolist() == [[0, 1, 0]]


@given(classes)
def test_votes_for_classes_are_the_reference_s(sums: list[list[int]]) -> None:
    leaves = [tuple(leaf) for leaf in sums]
    hard, soft = (leaf_votes(sums_of(sums), CLASSES, voting) for voting in ("hard", "soft"))
    assert hard.sum(axis=0).tolist() == reference.hard_votes(leaves)
    assert soft.sum(axis=0).tolist() == reference.soft_votes(leaves)


@given(numbers)
def test_votes_for_numbers_are_the_reference_s(sums: list[tuple[int, int]]) -> None:
    (total,) = leaf_votes(sums_of(sums), NUMBERS, "soft").sum(axis=0).tolist()
    assert total == reference.number_votes(sums, PLAIN)


def test_leaf_without_weight_casts_no_vote() -> None:
    nodes = Nodes.of([0, 1], [1, 1], [np.array([0, 1], np.uint32)] * 2)
    for scale, sums in ((CLASSES, [[0, 0, 0], [0, 3, 0]]), (NUMBERS, [[0, 0], [3, 6]])):
        for voting in ("hard", "soft"):
            votes = Votes.none(2, scale)
            votes.add(nodes.arrays, sums_of(sums), scale, voting)
            assert votes.n_voted.tolist() == [1, 1]
            assert votes.totals[0].tolist() == leaf_votes(sums_of(sums[1:]), scale, voting)[0].tolist()


def test_votes_are_added_to_the_rows_of_their_leaf() -> None:
    nodes = Nodes.of([0, 0, 1], [2, 3, 1], [np.array(r, np.uint32) for r in ([0, 2], [1], [0, 1, 2])])
    votes = Votes.none(4, CLASSES)
    votes.add(nodes.arrays, sums_of([[1, 0, 0], [0, 1, 0], [0, 1, 3]]), CLASSES, "hard")
    assert in_numbers(votes) == ([[1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 0]], [2, 2, 2, 0])
    votes.add(Nodes.of([], [], []).arrays, np.empty((0, 3), np.int64), CLASSES, "hard")
    assert votes.n_voted.tolist() == [2, 2, 2, 0]


def test_joined_votes_follow_each_other() -> None:
    one, two = (Votes(sums_of([[n, 0, 1]]), sums_of([n])) for n in (1, 2))
    assert in_numbers(Votes.joined([two, one])) == ([[2, 0, 1], [1, 0, 1]], [2, 1])


def test_class_of_most_votes_is_the_lowest_of_equal_ones() -> None:
    votes = Votes(sums_of([[1, 4, 4], [0, 0, 3]]), sums_of([9, 3]))
    assert votes.classes().tolist() == [1, 2]
    assert votes.probabilities().tolist() == [[1 / 9, 4 / 9, 4 / 9], [0.0, 0.0, 1.0]]


def test_number_is_the_mean_of_the_trees_that_have_voted() -> None:
    votes = Votes(sums_of([[6], [-4]]), sums_of([3, 4]))
    assert votes.numbers(0.5, 1).tolist() == [1.5, 0.0]


# -- walking -----------------------------------------------------------------------------------------


def some_tree(rng: random.Random, scale: Scale, n_features: int, n_splits: int, opened: float) -> Tree:
    """A tree of any shape, some nodes of which are open, and some leaves of which have no weight."""
    features, cuts = [], []
    to_come = 1
    while to_come:
        to_come -= 1
        splits = n_splits > 0 and (not to_come or rng.random() < 0.7)
        n_splits -= splits
        to_come += 2 * splits
        other = OPEN if rng.random() < opened else LEAF
        features.append(rng.randrange(n_features) if splits else other)
        cuts.append(rng.randrange(256) if splits else 0)
    leaves = []
    for _ in range(features.count(LEAF)):
        weight = rng.choice([0, 1, 7, 2**30])
        sums = [weight, weight * rng.randrange(-999, 999)]
        leaves.append([rng.randrange(weight + 1) for _ in scale.labels] if scale.labels else sums)
    table = sums_of(leaves).reshape(len(leaves), scale.n_sums)
    return Tree(np.array(features, dtype=np.int64), np.array(cuts, dtype=np.uint8), table)


def plain_leaves(forest: Forest, bins: list[int]) -> list[tuple[int, ...]]:
    """The leaf of each tree that a row reaches; that of an open node has no weight."""
    found = []
    for tree in forest.trees:
        nodes = dict(zip(tree.paths.tolist(), range(len(tree)), strict=True))
        path = 1
        while (feature := int(tree.features[nodes[path]])) >= 0:
            path = 2 * path + int(bins[feature] > tree.cuts[nodes[path]])
        leaf = int((tree.features[: nodes[path]] == LEAF).sum())
        found.append(tuple(tree.sums[leaf].tolist()) if feature == LEAF else (0,) * tree.sums.shape[1])
    return found


@pytest.mark.parametrize("n_rows", [0, 1, 511, 512, 513, 1030])
@pytest.mark.parametrize("voting", ["hard", "soft", "numbers"])
def test_walking_gives_the_reference_s_votes(voting: str, n_rows: int) -> None:
    rng = random.Random(f"{voting} {n_rows}")
    scale = NUMBERS if voting == "numbers" else CLASSES
    how: Voting = "hard" if voting == "hard" else "soft"
    trees = [some_tree(rng, scale, 5, n_splits, opened) for n_splits in (0, 1, 40) for opened in (0, 0.5, 1)]
    forest = Forest([f"a/x{i}" for i in range(5)], trees)
    bins = np.array([[rng.randrange(256) for _ in range(n_rows)] for _ in range(5)], dtype=np.uint8)
    votes = Walker(forest, scale, how).walk(bins)
    of_rows = [plain_leaves(forest, row) for row in bins.T.tolist()]
    count: dict[str, Callable[[list[reference.Sums]], list[int]]] = {
        "hard": reference.hard_votes,
        "soft": reference.soft_votes,
        "numbers": lambda leaves: [reference.number_votes(leaves, PLAIN)],
    }
    expected = (
        [count[voting](leaves) for leaves in of_rows],
        [reference.n_voted(leaves) for leaves in of_rows],
    )
    assert in_numbers(votes) == expected
    if n_rows > 500:
        assert votes.n_voted.min() < votes.n_voted.max() < len(trees)


@pytest.mark.parametrize("scale", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_trees_that_are_open_or_have_no_rows_abstain(scale: Scale) -> None:
    empty = Tree(np.array([LEAF]), np.zeros(1, np.uint8), np.zeros((1, scale.n_sums), np.int64))
    votes = Walker(Forest(["a/x"], [BARE, empty, BARE]), scale, "soft").walk(np.zeros((1, 3), np.uint8))
    assert in_numbers(votes) == ([[0] * scale.n_votes] * 3, [0, 0, 0])
