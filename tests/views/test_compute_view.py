"""What CC sees of comparisons: statistics of the numbers that it opens, whatever the truth behind them.

Sample sizes are fixed. A law is taken for broken when what was seen has a probability below ALARM; the file
looks at fewer than 200 of them, so that a sound program fails once in five million runs. The last tests
break the masks, and show that the others notice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import combinations, pairwise
from math import gcd, pi

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from revfrf.crypto.dtpkc import packing
from revfrf.crypto.dtpkc.dtpkc import ho_enc
from revfrf.crypto.dtpkc.packing import (
    MASK_BITS,
    OFFSET,
    SLOT_BITS,
    Comparison,
    Mask,
    mask_comparisons,
    read_packs,
)
from revfrf.crypto.dtpkc.strong import StrongShare, root_open
from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.messages.frf_predict import Request
from revfrf.protocols.paper import frf_predict, ho_lt
from revfrf.protocols.paper.ho_lt import ComparingServer
from revfrf.testing.federations import Codes, random_case, train, with_rules
from tests.conftest import world_of

MISSING = missing(64)
ALARM = 1e-9
SAMPLE, SLOTTED = 800, 300
ONE_SLOT, THREE_SLOTS = 160, 400
LARGEST = 2**62 - 1
DISTANCES = [0, 1, 5, 10**6, 2**61]
"""d: x = s - d goes left, x = s + d + 1 goes right, and β is -(2d + 1) or 2d + 1."""

View = list[int]
"""What CC finds in the slots, as distances from the offset."""

# -- CC's own eyes ----------------------------------------------------------------------------------


@contextmanager
def through_the_eyes_of_cc() -> Iterator[list[list[int]]]:
    """The plaintexts that CC opens, a list a message."""
    opened: list[list[int]] = []

    def watched(
        share: StrongShare, c_parts: Sequence[int], halves: Sequence[int], *, n_jobs: int
    ) -> list[int]:
        opened.append(root_open(share, c_parts, halves, n_jobs=n_jobs))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "root_open", watched)
        yield opened


def in_slots(plaintexts: Sequence[int], slots: int) -> View:
    return [(m >> i * SLOT_BITS) % 2**SLOT_BITS - OFFSET for m in plaintexts for i in range(slots)]


def seen(x: int, s: int, count: int, key_bits: int = ONE_SLOT) -> View:
    """CC's view of the same comparison, made many times."""
    world = world_of(key_bits)
    slots = packing.slots(world.parameters)
    assert count % slots == 0
    [cx], [cs] = ho_enc(world.alice.public, [x], n_jobs=1), ho_enc(world.bob.public, [s], n_jobs=1)
    with through_the_eyes_of_cc() as opened:
        packs, coins = mask_comparisons(
            world.cs_share, world.cs.public, [Comparison(cx, cs)] * count, n_jobs=1
        )
        bits = read_packs(world.cc_share, packs, n_jobs=1)
    [plaintexts] = opened
    view = in_slots(plaintexts, slots)
    assert below(view) == bits
    assert {bit != coin for bit, coin in zip(bits, coins, strict=True)} == {x <= s}
    return view


@lru_cache
def seen_once(x: int, s: int, count: int) -> View:
    """The same sample for all tests that look at it."""
    return seen(x, s, count)


def below(view: Sequence[int]) -> list[bool]:
    """The bits that CC reads."""
    return [distance < 0 for distance in view]


def magnitudes(view: Sequence[int]) -> NDArray[np.float64]:
    return np.array([abs(distance) for distance in view], dtype=np.float64)


# -- how likely what was seen is, if the law holds --------------------------------------------------


def fair(bits: Sequence[bool], share: float = 0.5) -> float:
    """Coins that are set with this probability."""
    return float(stats.binomtest(sum(bits), len(bits), share).pvalue)


def equally(left: Sequence[bool], right: Sequence[bool]) -> float:
    """Fair coins thrown apart: they agree half of the time."""
    return fair([a == b for a, b in zip(left, right, strict=True)])


def alike(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Two samples of one distribution (Kolmogorov and Smirnov)."""
    return float(stats.ks_2samp(left, right, method="asymp").pvalue)


def unrelated(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Pairs whose ranks have nothing to do with each other (Spearman)."""
    return float(stats.spearmanr(left, right).pvalue)


def uniform(residues: Sequence[int], modulus: int) -> float:
    """Residues that are all equally frequent."""
    return float(stats.chisquare(np.bincount(residues, minlength=modulus)).pvalue)


# -- one comparison ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "s"),
    [
        (-5, 4),
        (MISSING, LARGEST),
        (LARGEST, LARGEST),
        (4, 4),
        (5, 4),
        (MISSING + 1, MISSING),
        (LARGEST, MISSING),
        (9, 4),
    ],
)
def test_bits_are_fair_coins_whatever_the_truth(x: int, s: int) -> None:
    assert fair(below(seen(x, s, SAMPLE))) > ALARM


@pytest.mark.parametrize("distance", DISTANCES)
def test_magnitudes_do_not_tell_on_which_side_of_the_split_a_value_is(distance: int) -> None:
    left, right = seen_once(-distance, 0, SAMPLE), seen_once(distance + 1, 0, SAMPLE)
    assert alike(magnitudes(left), magnitudes(right)) > ALARM


@pytest.mark.parametrize("distance", DISTANCES)
def test_magnitude_and_bit_together_do_not_tell_on_which_side_a_value_is(distance: int) -> None:
    left, right = seen_once(-distance, 0, SAMPLE), seen_once(distance + 1, 0, SAMPLE)
    assert alike(np.array(left, dtype=np.float64), np.array(right, dtype=np.float64)) > ALARM
    for view in (left, right):
        lower = magnitudes([d for d in view if d < 0])
        upper = magnitudes([d for d in view if d > 0])
        assert alike(lower, upper) > ALARM


@pytest.mark.parametrize("distance", DISTANCES)
def test_magnitude_tells_the_length_of_the_difference_and_hardly_more(distance: int) -> None:
    """This much CC does learn: every number that it sees is r·|β| or so, for a random 64-bit r."""
    beta = 2 * distance + 1
    for view in (seen_once(-distance, 0, SAMPLE), seen_once(distance + 1, 0, SAMPLE)):
        for seen_distance in view:
            assert 2 ** (MASK_BITS - 1) * (beta - 1) < abs(seen_distance) < 2**MASK_BITS * (beta + 1)


# -- many comparisons -------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "s"), [(4, 4), (5, 4), (10**9, 4)])
def test_slots_of_a_ciphertext_have_nothing_to_do_with_each_other(x: int, s: int) -> None:
    view = seen(x, s, 3 * SLOTTED, key_bits=THREE_SLOTS)
    for i, j in combinations(range(3), 2):
        assert equally(below(view[i::3]), below(view[j::3])) > ALARM
        assert unrelated(magnitudes(view[i::3]), magnitudes(view[j::3])) > ALARM
    for i in range(3):
        assert fair(below(view[i::3])) > ALARM
    assert len({abs(distance) for distance in view}) == len(view)


def test_slots_of_different_truths_look_alike() -> None:
    """x = s in the first slot, x = s + 1 in the second, and both have β = ±1."""
    world = world_of(THREE_SLOTS)
    xs, [s] = ho_enc(world.alice.public, [7, 8], n_jobs=1), ho_enc(world.bob.public, [7], n_jobs=1)
    with through_the_eyes_of_cc() as opened:
        comparisons = [Comparison(x, s) for x in (*xs, xs[0])] * SLOTTED
        packs, _ = mask_comparisons(world.cs_share, world.cs.public, comparisons, n_jobs=1)
        read_packs(world.cc_share, packs, n_jobs=1)
    view = in_slots(opened[0], 3)
    equal, above = view[0::3], view[1::3]
    assert alike(magnitudes(equal), magnitudes(above)) > ALARM
    assert equally(below(equal), below(above)) > ALARM


@pytest.mark.parametrize("distance", DISTANCES)
def test_comparisons_one_after_another_have_nothing_to_do_with_each_other(distance: int) -> None:
    view = seen_once(-distance, 0, SAMPLE)
    assert equally(below(view[:-1]), below(view[1:])) > ALARM
    assert unrelated(magnitudes(view[:-1]), magnitudes(view[1:])) > ALARM
    assert len({abs(d) for d in view}) == len(view)


# -- divisors ---------------------------------------------------------------------------------------

BETA = 2 * 500_009 - 1  # a difference that CC would like to know
SMOOTH = 3 * 5 * 7 * 11 * 13


def shared(view: Sequence[int]) -> list[int]:
    """The gcd of each two runs in a row, and of their differences."""
    steps = [b - a for a, b in pairwise(view)]
    return [
        gcd(a, b) for numbers in (view, steps) for a, b in zip(numbers[0::2], numbers[1::2], strict=False)
    ]


def test_gcds_of_repeated_runs_do_not_reveal_the_difference() -> None:
    """Without r' each of them would be a multiple of β; so they are those of any two numbers."""
    view = seen_once((BETA + 1) // 2, 0, SAMPLE)
    assert not [divisor for divisor in shared(view) if divisor % BETA == 0]
    pairs = [gcd(a, b) == 1 for a, b in zip(view[0::2], view[1::2], strict=True)]
    assert fair(pairs, 6 / pi**2) > ALARM


def test_gcds_are_the_same_for_other_differences() -> None:
    table = []
    for beta in (BETA, BETA + 2, SMOOTH):
        view = seen_once((beta + 1) // 2, 0, SAMPLE)
        divisors = [gcd(a, b) for a, b in zip(view[0::2], view[1::2], strict=True)]
        table.append([sum(d == k for d in divisors) for k in (1, 2, 3)] + [sum(d > 3 for d in divisors)])
    assert float(stats.chi2_contingency(table).pvalue) > ALARM


@pytest.mark.parametrize("divisor", [3, 5, 7, 11, 13])
def test_divisors_of_the_difference_do_not_show_in_what_cc_sees(divisor: int) -> None:
    view = seen_once((SMOOTH + 1) // 2, 0, SAMPLE)
    assert uniform([distance % divisor for distance in view], divisor) > ALARM


def test_what_cc_sees_is_spread_evenly_modulo_the_difference() -> None:
    view = seen_once((BETA + 1) // 2, 0, SAMPLE)
    rest = np.array([distance % BETA / BETA for distance in view])
    assert float(stats.kstest(rest, "uniform", method="asymp").pvalue) > ALARM


# -- whole requests ---------------------------------------------------------------------------------

N_ROWS, N_REQUESTS = 150, 3


NOISE = random_case(
    81,
    y=[float(row * row % 7 % 3) for row in range(60)],
    rules=with_rules(n_trees=1, max_depth=4, candidate_limit=2**64 - 1),
)
"""Labels that nothing explains, for a tree that goes deep on both sides."""


@lru_cache
def one_tree() -> Federation:
    """One tree, so that position i of every level is row i, if all rows go the same way."""
    return train(NOISE)


Compared = list[bool]


def ask(federation: Federation, codes: Codes) -> tuple[list[View], list[Compared]]:
    """CC's view of each level of a request, and what CS learns of it in the end: whether x ≤ s."""
    told: list[Compared] = []
    compare = ho_lt.ho_lt

    def watched(
        cs: ComparingServer, request: Request, level: int, asked: Mapping[str, Sequence[Comparison]]
    ) -> dict[str, list[bool]]:
        answer = compare(cs, request, level, asked)
        told.append([bit for bits in answer.values() for bit in bits])
        return answer

    with through_the_eyes_of_cc() as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr(frf_predict, "ho_lt", watched)
        federation.ask(codes, None, "soft", False, lambda _: None)
    return [in_slots(plaintexts, 1) for plaintexts in opened], told


def at_the_root(federation: Federation, offset: int, n_rows: int) -> Codes:
    """Rows that are this far above the root's cut, and 0 in every other column."""
    split = federation.coordinator.store.splits[0, 1]
    owner = federation.participants[split.owner]
    column, cut = owner.store.own_splits[0, 1]
    codes = {
        party: np.zeros((len(its.columns), n_rows), dtype=np.int64)
        for party, its in federation.participants.items()
    }
    codes[split.owner][column] = cut + offset
    return codes


@lru_cache
def same_row_again() -> list[list[View]]:
    """CC's view of a row that is asked about N_ROWS times in each of N_REQUESTS, by request and level."""
    federation = one_tree()
    views = []
    for _ in range(N_REQUESTS):
        levels, told = ask(federation, at_the_root(federation, 0, N_ROWS))
        assert set(told[0]) == {True}
        assert len(levels) > 1
        assert {len(level) for level in levels} == {N_ROWS}
        views.append(levels)
    return views


def test_repeated_requests_of_a_row_have_nothing_in_common() -> None:
    requests = same_row_again()
    for first, second in combinations(requests, 2):
        a, b = ([distance for level in levels for distance in level] for levels in (first, second))
        assert equally(below(a), below(b)) > ALARM
        for upper, lower in zip(first, second, strict=True):
            assert unrelated(magnitudes(upper), magnitudes(lower)) > ALARM
    numbers = [abs(distance) for levels in requests for level in levels for distance in level]
    assert len(set(numbers)) == len(numbers)


def test_bits_that_cc_reads_have_nothing_to_do_with_the_answer() -> None:
    rows = {party: np.tile(table, (1, 4)) for party, table in NOISE.codes.items()}
    levels, told = ask(one_tree(), rows)
    read = [bit for level in levels for bit in below(level)]
    truth = [bit for bits in told for bit in bits]
    assert len(set(truth)) == 2
    assert len(read) >= 480
    assert equally(read, truth) > ALARM


def test_slot_does_not_tell_which_row_of_the_request_it_is() -> None:
    """Row 7 is far from the root's cut, all others are near: CC sees that there is one, not which."""
    federation, where = one_tree(), set()
    for _ in range(20):
        codes = at_the_root(federation, 1, 40)
        for table in codes.values():
            table[:, 7] = 2**61
        levels, _ = ask(federation, codes)
        where.add(int(magnitudes(levels[0]).argmax()))
    assert where != {7}


# -- that these tests would notice ------------------------------------------------------------------

Broken = Callable[[Mask], Mask]


@contextmanager
def broken_masks(change: Broken) -> Iterator[None]:
    generate = Mask.generate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mask, "generate", classmethod(lambda _: change(generate())))
        yield


def test_unfair_coin_is_noticed() -> None:
    """Set in three of four cases."""

    def change(mask: Mask) -> Mask:
        return Mask(mask.coin or mask.r % 2 == 0, mask.r, mask.r_prime)

    with broken_masks(change):
        assert fair(below(seen(4, 4, SAMPLE))) < ALARM


def test_mask_that_only_ever_adds_is_noticed() -> None:
    """The printed r' in [0, r): |β|·r and more for x > s, |β|·r and less for x ≤ s."""

    def change(mask: Mask) -> Mask:
        return Mask(mask.coin, mask.r, abs(mask.r_prime))

    with broken_masks(change):
        left, right = seen(4, 4, SAMPLE), seen(5, 4, SAMPLE)
    assert fair(below(left)) > ALARM
    assert alike(magnitudes(left), magnitudes(right)) < ALARM


def test_coin_that_depends_on_the_mask_is_noticed() -> None:
    def change(mask: Mask) -> Mask:
        return Mask(mask.r % 2**63 > 2**62, mask.r, mask.r_prime)

    with broken_masks(change):
        left, right = seen(-9, 0, SAMPLE), seen(10, 0, SAMPLE)
    assert alike(magnitudes(left), magnitudes(right)) > ALARM
    assert alike(np.array(left, dtype=np.float64), np.array(right, dtype=np.float64)) < ALARM


def test_mask_without_r_prime_is_noticed() -> None:
    with broken_masks(lambda mask: Mask(mask.coin, mask.r, 0)):
        view = seen((SMOOTH + 1) // 2, 0, SAMPLE)
    assert all(divisor % SMOOTH == 0 for divisor in shared(view))
    assert uniform([distance % 7 for distance in view], 7) < ALARM


def test_mask_that_slots_share_is_noticed() -> None:
    masks: list[Mask] = []

    def change(mask: Mask) -> Mask:
        masks.append(mask if len(masks) % 3 == 0 else masks[-1])
        return masks[-1]

    with broken_masks(change):
        view = seen(4, 4, 3 * SLOTTED, key_bits=THREE_SLOTS)
    assert equally(below(view[0::3]), below(view[1::3])) < ALARM
    assert unrelated(magnitudes(view[0::3]), magnitudes(view[2::3])) < ALARM
    assert len({abs(distance) for distance in view}) < len(view)


def test_mask_that_requests_share_is_noticed() -> None:
    masks: list[Mask] = []

    def change(mask: Mask) -> Mask:
        masks.append(mask if len(masks) < N_ROWS else masks[len(masks) % N_ROWS])
        return masks[-1]

    federation = one_tree()
    with broken_masks(change):
        (first, *_), _ = ask(federation, at_the_root(federation, 0, N_ROWS))
        (second, *_), _ = ask(federation, at_the_root(federation, 0, N_ROWS))
    assert equally(below(first), below(second)) < ALARM
    assert unrelated(magnitudes(first), magnitudes(second)) < ALARM
