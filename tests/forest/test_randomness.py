import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from revfrf.forest.randomness import (
    POISSON,
    candidate_limit,
    feature_draws,
    key,
    node_draws,
    nth,
    poisson,
    private_seeds,
    row_counts,
)
from tests.reference import forest as reference

words = st.integers(0, 2**64 - 1)
trees = st.integers(0, 2**32 - 1)


def draw(key: bytes, tree: int, path: int) -> int:
    (drawn,) = node_draws(key, np.array([tree], np.uint32), np.array([path], np.uint64))
    return int(drawn)


@given(st.binary(min_size=16, max_size=16), trees, words)
def test_draw_is_siphash_of_tree_and_path(key: bytes, tree: int, path: int) -> None:
    assert draw(key, tree, path) == reference.draw(key, tree, path)


@given(words, st.integers(0, 2**63 - 1))
@example(0, 2**63 - 1)
def test_stream_is_split_mix(seed: int, n: int) -> None:
    assert int(nth(np.uint64(seed), n)) == reference.nth(seed, n)


@given(st.binary(max_size=40), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_key_belongs_to_its_names(secret: bytes, feature: str) -> None:
    assert key("sample", secret, feature) == reference.key("sample", secret, feature)
    assert len({key("sample", secret), key("candidate", secret), key("sample", secret, feature)}) == 3


def test_feature_draws_have_a_row_a_node_and_a_column_a_feature() -> None:
    numbers, paths = np.array([0, 7], np.uint32), np.array([1, 2**63 - 1], np.uint64)
    draws = feature_draws(b"seed", ["a/x", "a/y", "b/x"], numbers, paths)
    assert draws.tolist() == [
        [reference.draw(reference.key("candidate", b"seed", f), t, p) for f in ("a/x", "a/y", "b/x")]
        for t, p in ((0, 1), (7, 2**63 - 1))
    ]


def test_private_seeds_need_the_secret() -> None:
    numbers, paths = np.zeros(30, np.uint32), np.arange(1, 31, dtype=np.uint64)
    seeds = [private_seeds(secret, "a/x", numbers, paths).tolist() for secret in (b"one", b"two")]
    assert set(seeds[0]).isdisjoint(seeds[1])
    assert seeds[0] == [reference.draw(reference.key("sample", b"one", "a/x"), 0, p) for p in range(1, 31)]


@given(st.floats(0, 1, exclude_min=True))
def test_limit_is_the_largest_draw_below_the_probability(pi: float) -> None:
    limit = candidate_limit(pi)
    assert 0 <= limit < 2**64
    assert limit == reference.candidate_limit(pi)


# -- how often rows count ----------------------------------------------------------------------------

numbered = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=50).map(sorted)


def counts_of(seed: bytes, numbers: list[int], n_trees: int, drawn: bool = True) -> NDArray[np.uint8]:
    rows = np.array(numbers, np.int64)
    return row_counts(seed, n_trees, drawn, rows, np.ones(len(rows), np.int64))


def test_thresholds_are_those_of_the_poisson_distribution() -> None:
    assert POISSON.tolist() == reference.POISSON


@pytest.mark.parametrize("k", range(20))
def test_draw_counts_once_more_from_each_threshold_on(k: int) -> None:
    threshold = reference.POISSON[k]
    assert (poisson(np.uint64(threshold - 1)), poisson(np.uint64(threshold))) == (k, k + 1)


def test_no_draw_counts_more_than_twenty_times() -> None:
    assert (poisson(np.uint64(0)), poisson(np.uint64(2**64 - 1))) == (0, 20)


@given(st.binary(max_size=8), numbered)
def test_rows_count_as_often_as_the_reference_says(seed: bytes, numbers: list[int]) -> None:
    counts = counts_of(seed, numbers, 3)
    assert counts.dtype == np.uint8
    assert counts.tolist() == [[reference.bootstrap_count(seed, t, i) for i in numbers] for t in range(3)]


@given(st.binary(max_size=8), numbered, st.data())
def test_count_of_a_row_does_not_depend_on_other_rows(
    seed: bytes, numbers: list[int], data: st.DataObject
) -> None:
    kept = [data.draw(st.booleans()) for _ in numbers]
    fewer = [number for number, stays in zip(numbers, kept, strict=True) if stays]
    assert counts_of(seed, fewer, 2).tolist() == counts_of(seed, numbers, 2)[:, kept].tolist()


@pytest.mark.parametrize("drawn", [True, False])
def test_rows_without_weight_count_in_no_tree(drawn: bool) -> None:
    numbers, weights = np.arange(100), np.arange(100) % 3
    counts = row_counts(b"seed", 5, drawn, numbers, weights)
    assert not counts[:, weights == 0].any()
    assert (counts[:, weights > 0] == counts_of(b"seed", list(range(100)), 5, drawn)[:, weights > 0]).all()
    assert drawn or set(counts[:, weights > 0].ravel().tolist()) == {1}


def test_rows_count_once_on_average_with_a_variance_of_one() -> None:
    counts = counts_of(b"seed", list(range(20_000)), 5)
    assert abs(counts.mean() - 1) < 0.02
    assert abs(counts.var() - 1) < 0.03
