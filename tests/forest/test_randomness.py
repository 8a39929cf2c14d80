import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from revfrf.forest.randomness import (
    bootstrap,
    candidate_limit,
    feature_draws,
    key,
    node_draws,
    nth,
    private_seeds,
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


@given(words, st.integers(0, 2**31))
def test_stream_is_split_mix(seed: int, n: int) -> None:
    assert int(nth(np.uint64(seed), n)) == reference.split_mix(seed, n)


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


@given(st.binary(max_size=8), st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_bootstrap_is_the_reference_s(seed: bytes, tree: int, n: int) -> None:
    drawn = bootstrap(seed, tree, n)
    assert drawn.dtype == np.uint8
    assert drawn.tolist() == reference.bootstrap(seed, tree, [1] * n)
