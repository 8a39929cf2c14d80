import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from revfrf.forest.nodes import Nodes
from revfrf.forest.voting import add_votes, leaf_votes, numbers
from tests.reference import forest as reference

leaves = st.lists(
    st.lists(st.integers(0, 2**60), min_size=3, max_size=3).filter(any), min_size=1, max_size=20
)


def test_tied_hard_vote_goes_to_the_lowest_of_the_heaviest_classes() -> None:
    sums = np.array([[0, 5, 5], [5, 5, 5], [4, 0, 4], [0, 0, 1]], dtype=np.int64)
    assert leaf_votes(sums, 3, "hard").tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_classes_one_apart_are_no_tie_however_heavy() -> None:
    """The two weights are equal as float64."""
    sums = np.array([[2**61, 2**61 + 1]], dtype=np.int64)
    assert leaf_votes(sums, 2, "hard").tolist() == [[0, 1]]


@given(leaves)
def test_hard_votes_are_the_reference_s(sums: list[list[int]]) -> None:
    votes = leaf_votes(np.array(sums, dtype=np.int64), 3, "hard")
    assert votes.sum(axis=0).tolist() == reference.hard_votes([tuple(leaf) for leaf in sums])


@given(leaves)
def test_soft_votes_are_shares_of_one_vote(sums: list[list[int]]) -> None:
    votes = leaf_votes(np.array(sums, dtype=np.int64), 3, "soft")
    assert votes.tolist() == [[float(k) / float(sum(leaf)) for k in leaf] for leaf in sums]


def test_value_of_a_leaf_is_its_weighted_mean() -> None:
    sums = np.array([[2, 6], [4, -4], [1, 2**61]], dtype=np.int64)
    votes = leaf_votes(sums, 0, "soft")
    assert votes.tolist() == [[3.0], [-1.0], [2.0**61]]
    assert numbers(votes, 0.5, 1).tolist() == [2.0, 0.0, 2.0**60 + 0.5]


def test_votes_are_added_to_the_rows_of_their_leaf() -> None:
    nodes = Nodes.of([0, 0, 1], [2, 3, 1], [np.array(r, np.uint32) for r in ([0, 2], [1], [0, 1, 2])])
    totals = np.zeros((4, 2))
    add_votes(totals, nodes.arrays, np.array([[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]]))
    assert totals.tolist() == [[1.25, 0.75], [0.25, 1.75], [1.25, 0.75], [0.0, 0.0]]


def test_no_leaves_add_nothing() -> None:
    totals = np.ones((2, 2))
    add_votes(totals, Nodes.of([], [], []).arrays, np.empty((0, 2)))
    assert totals.tolist() == [[1.0, 1.0], [1.0, 1.0]]
