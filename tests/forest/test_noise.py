"""Noise on bins: its distribution, what it depends on, and the attacks that it has to stop."""

import itertools
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from revfrf.forest.kernel import Bytes, Ints, Paths
from revfrf.forest.noise import UNIT, id_records, noisy_bins, row_records, tails

PINNED = [98, 99, 103, 93, 106, 98]
SECRET, FEATURE = b"secret", "bank/age"
N = 200_000
RECORDS = np.random.default_rng(1).integers(0, 2**63, N).astype(np.uint64)


def noisy(bins: Bytes, epsilon: float = 0.5, n_cuts: int = 255, **changes: object) -> Bytes:
    """These bins of as many records with noise."""
    known = {"secret": SECRET, "feature": FEATURE, "generation": 0, "records": RECORDS[: len(bins)]} | changes
    return noisy_bins(**known, millionths=round(epsilon * UNIT), n_cuts=n_cuts, bins=bins)  # type: ignore[arg-type]


def bins_of(value: int, count: int = N) -> Bytes:
    return np.full(count, value, np.uint8)


def channel(epsilon: float, n_cuts: int) -> NDArray[np.float64]:
    """The probability of each noisy bin for each true bin, in floating point, from its definition."""
    places, far = np.arange(n_cuts + 1), np.arange(-20_000, 20_001)
    weights = np.exp(-epsilon * np.abs(far))
    weights /= weights.sum()
    return np.stack([np.bincount(np.clip(place + far, 0, n_cuts), weights, n_cuts + 1) for place in places])


# -- the distribution -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("n_cuts", [1, 7, 255])
def test_noise_is_two_sided_geometric_and_clamped(epsilon: float, n_cuts: int) -> None:
    expected = channel(epsilon, n_cuts)
    for true in {0, n_cuts // 2, n_cuts}:
        found = np.bincount(noisy(bins_of(true), epsilon, n_cuts), minlength=n_cuts + 1)
        deviation = np.sqrt(N * expected[true] * (1 - expected[true])) + 1e-9
        assert (np.abs(found - N * expected[true]) < 5 * deviation + 1).all()


def chances(millionths: int, n_cuts: int, true: int) -> list[int]:
    """The probability of each noisy bin, times 2^64, from the very integers that decide it."""
    beyond = [int(tail) for tail in tails(millionths, n_cuts)]
    inner = [beyond[j - true - 1] if j > true else 2**64 - beyond[true - j] for j in range(1, n_cuts + 1)]
    at_least = [2**64, *inner, 0]
    return [a - b for a, b in itertools.pairwise(at_least)]


@pytest.mark.parametrize("epsilon", [0.001, 0.05, 1.0, 32.0])
@pytest.mark.parametrize("n_cuts", [1, 31, 255])
def test_values_of_neighbouring_bins_look_alike_up_to_exp_epsilon(epsilon: float, n_cuts: int) -> None:
    """But for a probability of 2^-62 per noisy bin; bins that differ by s follow step by step."""
    factor = float(np.exp(epsilon)) * (1 + 1e-9)
    for true in {0, n_cuts // 2, n_cuts - 1}:
        one, other = (chances(round(epsilon * UNIT), n_cuts, place) for place in (true, true + 1))
        assert sum(one) == sum(other) == 2**64
        assert all(
            a <= factor * b + 4 * factor and b <= factor * a + 4 * factor
            for a, b in zip(one, other, strict=True)
        )


@given(st.integers(1000, 32 * UNIT), st.integers(1, 255))
def test_thresholds_are_the_defined_integers(millionths: int, n_cuts: int) -> None:
    digits = Context(prec=150)
    epsilon = digits.divide(Decimal(millionths), Decimal(UNIT))
    found = tails(millionths, n_cuts).tolist()
    for j in {1, n_cuts}:
        tail = digits.divide(digits.exp(-epsilon * j), digits.add(1, digits.exp(-epsilon)))
        assert found[j - 1] == int(digits.multiply(tail, Decimal(2**64)))
    assert found == sorted(found, reverse=True)
    assert found[0] <= 2**63


# -- what a draw depends on -------------------------------------------------------------------------


def test_draw_is_pinned() -> None:
    """Another machine, or a later version, draws the same."""
    records = np.arange(6, dtype=np.uint64)
    found = noisy_bins(b"secret", "bank/age", 3, 250_000, 200, records, np.full(6, 100, np.uint8))
    assert found.tolist() == PINNED


def test_same_value_of_the_same_record_always_gets_the_same_noise() -> None:
    """Whatever other rows there are, and in whatever order."""
    bins = np.arange(1000).astype(np.uint8)
    first, order = noisy(bins), np.random.default_rng(2).permutation(1000)[:300]
    again = noisy(bins[order], records=RECORDS[order])
    assert (again == first[order]).all()


@pytest.mark.parametrize(
    "changes",
    [{"secret": b"other"}, {"feature": "bank/hours"}, {"generation": 1}, {"records": RECORDS[::-1]}],
)
def test_draws_are_independent_across_secrets_columns_generations_and_records(
    changes: dict[str, object],
) -> None:
    """As many rows get the same noise by chance as independent draws would: s3's first attack ends here."""
    one, other = noisy(bins_of(128)).astype(np.int64), noisy(bins_of(128), **changes).astype(np.int64)  # type: ignore[arg-type]
    chance = float((channel(0.5, 255)[128] ** 2).sum())
    assert abs((one == other).mean() - chance) < 5 * np.sqrt(chance / N)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(N)


def test_changed_value_gets_another_draw_so_that_the_change_cannot_be_read() -> None:
    """With one draw per row, the difference of two noisy bins would be that of the true ones."""
    one, other = noisy(bins_of(100)).astype(np.int64), noisy(bins_of(103)).astype(np.int64)
    expected = channel(0.5, 255)
    chance = float((expected[100][:-3] * expected[103][3:]).sum())
    assert abs((other - one == 3).mean() - chance) < 5 * np.sqrt(chance / N)


# -- which record it is -----------------------------------------------------------------------------


def test_records_with_ids_are_told_apart_by_these_alone_and_only_by_the_owner() -> None:
    names = [f"customer {i}" for i in range(2000)]
    found = id_records(SECRET, names)
    assert len(np.unique(found)) == 2000
    assert (id_records(SECRET, names[::-1]) == found[::-1]).all()
    assert not np.isin(id_records(b"other", names), found).any()
    assert len(id_records(SECRET, [])) == 0


def reference_records(codes: Ints) -> list[tuple[object, ...]]:
    """What should tell rows apart: their values, and how many equal ones come before."""
    seen: dict[tuple[int, ...], int] = {}
    found: list[tuple[object, ...]] = []
    for row in map(tuple, codes.T.tolist()):
        found.append((row, seen.setdefault(row, 0)))
        seen[row] += 1
    return found


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1)), max_size=40))
def test_records_without_ids_are_told_apart_by_their_values_and_their_place_among_equals(
    rows: list[tuple[int, int]],
) -> None:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    found: Paths = row_records(SECRET, codes)
    known = dict(zip(reference_records(codes), found.tolist(), strict=True))
    assert len(set(known.values())) == len(known) == len(rows)
    again = row_records(SECRET, codes[:, ::-1])
    assert all(
        known[name] == n for name, n in zip(reference_records(codes[:, ::-1]), again.tolist(), strict=True)
    )


# -- the attacks of the specification ---------------------------------------------------------------


def most_likely(observed: list[Bytes], epsilon: float, n_cuts: int) -> Ints:
    """The true bins, as an attacker guesses them who takes all observations for independent."""
    likely = np.log(channel(epsilon, n_cuts))
    return np.asarray(sum(likely[:, seen] for seen in observed).argmax(axis=0))  # type: ignore[union-attr]


@pytest.mark.parametrize("times", [1, 5, 60])
def test_rows_that_are_erased_and_added_again_do_not_average_out(times: int) -> None:
    """Fresh draws would show more than 90 % of the bins after 60 times; these show the same again."""
    true = (RECORDS[:4000] % np.uint64(64)).astype(np.uint8)
    observed = [noisy(true, 0.5, 63) for _ in range(times)]
    assert all((seen == observed[0]).all() for seen in observed)
    exact = (most_likely(observed, 0.5, 63) == true).mean()
    assert exact < 0.3
    fresh = [noisy(true, 0.5, 63, generation=i) for i in range(60)]
    assert (most_likely(fresh, 0.5, 63) == true).mean() > 0.9  # what a new generation costs


def test_another_column_of_the_same_rows_does_not_help_to_undo_the_noise() -> None:
    """Who knows one column's true bins, and so its noise, guesses another one no better than without."""
    true, public = (RECORDS[:20_000] % np.uint64(64)).astype(np.uint8), bins_of(30, 20_000)
    seen = noisy(true, 0.5, 63).astype(np.int64)
    noise = noisy(public, 0.5, 63, feature="bank/public").astype(np.int64) - 30
    plain, helped = (np.clip(guess, 0, 63) == true for guess in (seen, seen - noise))
    assert helped.mean() < plain.mean()
