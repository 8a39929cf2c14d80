from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.encoding import Ring, bound, missing
from revfrf.forest.candidates import Proposal, Values, propose
from revfrf.forest.nodes import Nodes
from revfrf.forest.randomness import private_seeds
from revfrf.forest.tree import Method, PerNode
from revfrf.testing.federations import with_rules
from tests.federations import reference_rules
from tests.reference import forest as reference

BOUND = bound(64)
MISSING = missing(64)

METHODS: tuple[Method, ...] = ("quantile", "uniform")

codes = st.one_of(
    st.integers(1 - BOUND, BOUND - 1), st.integers(-3, 3), st.sampled_from([MISSING, 1 - BOUND, BOUND - 1])
)


def nodes_of(rows: Sequence[Sequence[int]]) -> Nodes:
    return Nodes.of(range(len(rows)), [1] * len(rows), [np.array(r, dtype=np.uint32) for r in rows])


def proposed(
    values: Sequence[int],
    rows: Sequence[Sequence[int]],
    method: Method,
    n_sampled: int,
    n_candidates: int,
    ring: Ring = 64,
) -> Proposal:
    """At every one of these nodes, with the seeds of a secret."""
    nodes = nodes_of(rows)
    seeds = private_seeds(b"secret", "a/x", nodes.trees, nodes.paths)
    column = Values.of(np.array(values, dtype=np.int64), missing(ring))
    return propose(column, nodes, np.arange(len(nodes)), seeds, PerNode(method, n_candidates, n_sampled))


def cuts_of(proposal: Proposal, node: int = 0) -> list[int]:
    cuts: list[int] = proposal.thresholds[node, : proposal.n_cuts[node]].tolist()
    return cuts


@given(
    st.lists(codes, min_size=1, max_size=60),
    st.sampled_from(METHODS),
    st.sampled_from([2, 3, 7, 64]),
    st.sampled_from([1, 2, 5, 32, 254, 255]),
)
def test_cuts_are_the_reference_s(values: list[int], method: Method, n_sampled: int, c: int) -> None:
    rules = reference_rules(with_rules(method=method, n_sampled=n_sampled, n_candidates=c))
    feature = reference.Feature("a/x", values, b"secret")
    rows = list(range(len(values)))
    expected = reference.cuts_at(rules, feature, (0, 1), rows)
    assert cuts_of(proposed(values, [rows], method, n_sampled, c)) == expected


@given(
    st.lists(codes, min_size=1, max_size=60), st.sampled_from(METHODS), st.sampled_from([1, 3, 4, 32, 255])
)
def test_bin_of_every_row_is_the_number_of_cuts_below_it(values: list[int], method: Method, c: int) -> None:
    proposal = proposed(values, [range(len(values))], method, 8, c)
    cuts = cuts_of(proposal)
    bins = [sum(x > cut for cut in cuts) for x in values]
    assert proposal.bins.tolist() == (bins if cuts else [])


@given(st.lists(st.none() | st.integers(-9, 9), min_size=1, max_size=60), st.sampled_from(METHODS))
def test_the_cut_of_missing_values_is_that_of_the_columns_ring(
    values: list[int | None], method: Method
) -> None:
    small, large = (
        proposed(
            [missing(ring) if x is None else x for x in values], [range(len(values))], method, 64, 5, ring
        )
        for ring in get_args(Ring)
    )
    moved = [missing(64) if cut == missing(32) else cut for cut in cuts_of(small)]
    assert moved == cuts_of(large)
    assert small.bins.tolist() == large.bins.tolist()


def test_bins_come_node_by_node_without_those_that_have_no_cut() -> None:
    values = [5, 5, 5, 1, 2, 9, 7, 8]
    proposal = proposed(values, [[0, 1, 2], [3, 4], [0, 2], [5, 6, 7]], "quantile", 16, 1)
    assert proposal.n_cuts.tolist() == [0, 1, 0, 1]
    assert [cuts_of(proposal, node) for node in range(4)] == [[], [1], [], [8]]
    assert proposal.bins.tolist() == [0, 1, 1, 0, 0]


def test_nodes_are_taken_at_the_positions_asked() -> None:
    nodes = nodes_of([[0, 1], [2, 3], [4, 5]])
    column = np.array([1, 2, 3, 3, 6, 5], dtype=np.int64)
    seeds = np.zeros(2, np.uint64)
    proposal = propose(Values.of(column, MISSING), nodes, np.array([2, 0]), seeds, PerNode("quantile", 3, 2))
    assert [cuts_of(proposal, 0), cuts_of(proposal, 1)] == [[5], [1]]
    assert proposal.bins.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("distinct", [1, 2, 3, 40, 255, 256, 257, 2000])
def test_looking_up_by_rank_finds_what_searching_finds(method: Method, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    values = np.sort(rng.integers(1 - BOUND, BOUND, distinct))
    values[0] = MISSING
    column = values[rng.integers(0, distinct, 3000)]
    nodes = nodes_of([sorted(rng.choice(3000, size, replace=False)) for size in (1, 5, 50, 129, 600, 3000)])
    seeds = private_seeds(b"secret", "a/x", nodes.trees, nodes.paths)
    known = Values.of(column, MISSING)
    assert (len(known.distinct) > 0) == (len(np.unique(column)) <= 256)
    unknown = Values(MISSING, column, np.empty(0, np.int64), np.empty(0, np.uint8))
    cuts = PerNode(method, 32, 128)
    one, two = (propose(v, nodes, np.arange(6), seeds, cuts) for v in (known, unknown))
    assert one.n_cuts.tolist() == two.n_cuts.tolist()
    assert one.bins.tolist() == two.bins.tolist()
    assert [cuts_of(one, i) for i in range(6)] == [cuts_of(two, i) for i in range(6)]
