"""The packed HoLT: right everywhere, fair to CC, and deaf to what no honest server sends."""

import secrets
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters
from revfrf.crypto.dtpkc.packing import (
    LARGEST,
    MASK_BITS,
    OFFSET,
    SLOT_BITS,
    Comparison,
    Mask,
    Pack,
    _horner,
    _slots,
    mask_comparisons,
    read_packs,
    slots,
    undo_coins,
)
from revfrf.crypto.dtpkc.sealed_bits import open_bits, seal_bits
from revfrf.crypto.dtpkc.strong import root_half, root_open
from revfrf.crypto.encoding import missing
from revfrf.errors import DecryptionError, ElementError, SlotError, UsageError
from tests.conftest import World, world_of
from tests.crypto.product import masked
from tests.quick import quick
from tests.reference.dtpkc import jacobi

MISSING = missing(64)

numbers = st.integers(min_value=MISSING, max_value=2**62 - 1)
BOUNDS = [MISSING, MISSING + 1, MISSING + 2, -1, 0, 1, 2**62 - 2, 2**62 - 1]


def fixed_coin(coin: bool) -> Mask:
    mask = Mask.generate()
    return Mask(coin, mask.r, mask.r_prime)


def compare(world: World, comparisons: list[Comparison], masks: list[Mask]) -> list[bool]:
    """All roles, one core; bob owns every s."""
    packs = masked(masks, world.cs_share, world.cs.public, comparisons)
    sealed = seal_bits(world.cs.public + world.bob.public, read_packs(world.cc_share, packs, n_jobs=1))
    shares = par_h_dec1(world.bob, [sealed.ciphertext], n_jobs=1)
    [bits] = open_bits(world.cs, [sealed], shares, n_jobs=1)
    return undo_coins(bits, [mask.coin for mask in masks])


def test_room_for_comparisons_is_as_specified() -> None:
    assert [slots(world_of(bits).parameters) for bits in (256, 1024, 2048, 3072)] == [1, 7, 15, 23]


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("most", quick([16, 64], [16]))
def test_every_pair_of_small_numbers_compares_right_in_every_slot(most: int, shift: int, coin: bool) -> None:
    world = world_of(400)
    assert slots(world.parameters) == 3
    values = range(-most, most + 1)
    xs = dict(zip(values, ho_enc(world.alice.public, values), strict=True))
    ss = dict(zip(values, ho_enc(world.bob.public, values), strict=True))
    pairs = list(product(values, values))
    assert len(pairs) % 3 == 0  # so a rotation moves every pair to another slot
    pairs = pairs[shift:] + pairs[:shift]
    answers: list[bool] = []
    for start in range(0, len(pairs), 300):
        chunk = pairs[start : start + 300]
        comparisons = [Comparison(xs[a], ss[b]) for a, b in chunk]
        answers += compare(world, comparisons, [fixed_coin(coin) for _ in chunk])
    assert answers == [a <= b for a, b in pairs]


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("bits", quick([1024, 2048, 3072], [1024]))
def test_pairs_around_every_bound_compare_right_in_every_slot(bits: int, coin: bool) -> None:
    world = world_of(bits)
    size = slots(world.parameters)
    xs, ss = ho_enc(world.alice.public, BOUNDS), ho_enc(world.bob.public, BOUNDS)
    pairs = list(product(range(len(BOUNDS)), repeat=2))
    pairs = [pair for pair in pairs for _ in range(size + len(pairs) % 2)]  # each pair in a row of slots
    covered = {(pair, position % size) for position, pair in enumerate(pairs)}
    assert len(covered) == len(BOUNDS) ** 2 * size
    answers = compare(world, [Comparison(xs[i], ss[j]) for i, j in pairs], [fixed_coin(coin) for _ in pairs])
    assert answers == [BOUNDS[i] <= BOUNDS[j] for i, j in pairs]


@settings(max_examples=20)
@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_any_numbers_compare_right_with_random_coins(pairs: list[tuple[int, int]]) -> None:
    world = world_of(1024)
    xs = ho_enc(world.alice.public, [x for x, _ in pairs])
    ss = ho_enc(world.bob.public, [s for _, s in pairs])
    comparisons = [Comparison(x, s) for x, s in zip(xs, ss, strict=True)]
    assert compare(world, comparisons, [Mask.generate() for _ in pairs]) == [x <= s for x, s in pairs]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_many_packs_keep_their_order_on_any_number_of_cores(n_jobs: int) -> None:
    world = world_of(1024)
    values = [secrets.randbelow(100) for _ in range(100)]
    xs, ss = ho_enc(world.alice.public, values), ho_enc(world.bob.public, [50] * 100)
    comparisons = [Comparison(x, s) for x, s in zip(xs, ss, strict=True)]
    packs, coins = mask_comparisons(world.cs_share, world.cs.public, comparisons, n_jobs=n_jobs)
    assert len(packs) == 15  # ⌈100 / 7⌉
    bits = read_packs(world.cc_share, packs, n_jobs=n_jobs)
    assert [bit != coin for bit, coin in zip(bits, coins, strict=True)] == [x <= 50 for x in values]


def test_nothing_to_compare_is_nothing_to_send(toy: World) -> None:
    assert mask_comparisons(toy.cs_share, toy.cs.public, []) == ([], [])
    assert read_packs(toy.cc_share, []) == []


def test_a_key_of_another_epoch_is_refused(toy: World) -> None:
    with pytest.raises(UsageError, match="one epoch"):
        mask_comparisons(toy.cs_share, world_of(512).cs.public, [])


def test_keys_too_short_for_one_slot_are_refused() -> None:
    world = world_of(128)
    with pytest.raises(UsageError, match="too short to compare encrypted numbers; use 144"):
        slots(world.parameters)


def test_a_new_epochs_shares_do_not_open_an_old_split() -> None:
    """What level 2 relies on: other modulus, other shares, and the old ciphertext is only a number."""
    old, new = world_of(1024), world_of(2048)
    [x], [s] = ho_enc(old.alice.public, [10]), ho_enc(old.bob.public, [11])
    packs, _ = mask_comparisons(old.cs_share, old.cs.public, [Comparison(x, s)])
    with pytest.raises((DecryptionError, ElementError)):
        read_packs(new.cc_share, packs)


# -- what CC sees -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "s"), [(3, 4), (4, 4), (5, 4), (MISSING, 2**62 - 1)])
def test_ccs_bit_is_a_fair_coin_whatever_the_truth(toy: World, x: int, s: int) -> None:
    [cx], [cs] = ho_enc(toy.alice.public, [x]), ho_enc(toy.bob.public, [s])
    packs, coins = mask_comparisons(toy.cs_share, toy.cs.public, [Comparison(cx, cs)] * 400)
    bits = read_packs(toy.cc_share, packs)
    assert 140 < sum(bits) < 260  # 200 ± 6 standard deviations
    assert {bit != coin for bit, coin in zip(bits, coins, strict=True)} == {x <= s}


@pytest.mark.parametrize("distance", [0, 1, 2, 5, 100])
def test_ccs_view_does_not_depend_on_the_sign(toy: World, distance: int) -> None:
    """x - s = d + 1 and x - s = -d have β = ±(2d + 1): CC must see the same magnitudes for both."""
    [s] = ho_enc(toy.bob.public, [0])
    shares_below = []
    for x in (distance + 1, -distance):
        [cx] = ho_enc(toy.alice.public, [x])
        packs, _ = mask_comparisons(toy.cs_share, toy.cs.public, [Comparison(cx, s)] * 600)
        opened = root_open(toy.cc_share, [pack.c for pack in packs], [pack.half for pack in packs])
        middle = (2 * distance + 1) * 3 * 2 ** (MASK_BITS - 2)  # the mean of r·|β|
        shares_below.append(sum(abs(value - OFFSET) < middle for value in opened) / 600)
    assert abs(shares_below[0] - shares_below[1]) < 0.18  # 6 standard deviations


def test_masks_use_all_their_bits_and_are_never_shared() -> None:
    masks = [Mask.generate() for _ in range(2000)]
    for bit in range(MASK_BITS - 1):  # the top bit of r is set, all others are fair
        assert 850 < sum(mask.r >> bit & 1 for mask in masks) < 1150
    for bit in range(MASK_BITS - 8):  # those of |r'| < r are fair but for the highest
        assert 850 < sum(abs(mask.r_prime) >> bit & 1 for mask in masks) < 1150
    assert all(2 ** (MASK_BITS - 1) <= mask.r < 2**MASK_BITS and abs(mask.r_prime) < mask.r for mask in masks)
    assert 850 < sum(mask.coin for mask in masks) < 1150
    assert 850 < sum(mask.r_prime > 0 for mask in masks) < 1150


def test_every_pack_gets_a_zero_of_its_own(drawn_exponents: list[int]) -> None:
    """The compressed halves show CC the root of what it opens: fresh, full-length randomness must hide it."""
    world = world_of(400)
    xs, ss = ho_enc(world.alice.public, range(9)), ho_enc(world.bob.public, range(9))
    comparisons = [Comparison(x, s) for x, s in zip(xs, ss, strict=True)]
    drawn_exponents.clear()
    masks = [Mask.generate() for _ in comparisons]
    packs = masked(masks, world.cs_share, world.cs.public, comparisons)
    assert len(packs) == len(set(drawn_exponents)) == 3
    p, jobs = world.parameters, list(zip(comparisons, masks, strict=True))
    for i, (pack, exponent) in enumerate(zip(packs, drawn_exponents, strict=True)):
        zero = pow(world.cs.public.lifted, exponent, p.n_squared)
        assert pack.c == _horner(p, jobs[3 * i : 3 * i + 3]) * zero % p.n_squared


@pytest.mark.parametrize("bits", [656, 2752])
def test_a_key_one_bit_longer_than_its_slots_has_no_slot_too_many(bits: int) -> None:
    """At |N| = 131k + 1 a k-th slot would reach beyond N/2, and turn the plaintext negative."""
    assert (bits - 1) % SLOT_BITS == 0
    n = (1 << (bits - 1)) + 1
    while n % 3 == 0 or jacobi(4, n) != 1:
        n += 2
    parameters = Parameters(n, 4, bits // 2, allow_insecure=True)
    most = sum((OFFSET + LARGEST) << (i * SLOT_BITS) for i in range(slots(parameters)))
    assert most < n // 2


def test_r_prime_hides_the_divisors_that_two_runs_would_share(toy: World) -> None:
    """Without r' two runs give r1·β and r2·β, and their gcd is a multiple of β, mostly β itself."""
    [x], [s] = ho_enc(toy.alice.public, [1_000_003]), ho_enc(toy.bob.public, [0])
    packs, _ = mask_comparisons(toy.cs_share, toy.cs.public, [Comparison(x, s)] * 40)
    opened = root_open(toy.cc_share, [pack.c for pack in packs], [pack.half for pack in packs])
    beta = 2 * 1_000_003 - 1
    assert sum((value - OFFSET) % beta == 0 for value in opened) < 3


def test_two_packs_of_one_question_have_nothing_in_common(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [1]), ho_enc(toy.bob.public, [2])
    mask = Mask.generate()
    packs = [masked([mask], toy.cs_share, toy.cs.public, [Comparison(x, s)])[0] for _ in range(20)]
    assert len({pack.c for pack in packs}) == len({pack.half for pack in packs}) == 20


# -- what CC and CS refuse --------------------------------------------------------------------------


def test_no_honest_slot_ever_reaches_the_bound_and_up_to_it_slots_are_read() -> None:
    for distance in (1, LARGEST - 1, -1, 1 - LARGEST):
        assert list(_slots(OFFSET + distance, 1)) == [distance < 0]
    r = 2**MASK_BITS - 1
    beta = 2 * MISSING - 2 * (2**62 - 1) - 1
    assert r * abs(beta) + r - 1 < LARGEST < OFFSET < 2**SLOT_BITS - LARGEST


@pytest.mark.parametrize("count", [-1, 0, 2, 10**9])
def test_a_pack_with_an_impossible_count_is_refused_before_any_work(toy: World, count: int) -> None:
    with pytest.raises(SlotError, match="claims"):
        read_packs(toy.cc_share, [Pack(4, 4, count)])


def test_a_tampered_pack_is_refused(toy: World) -> None:
    p = toy.parameters
    [x], [s] = ho_enc(toy.alice.public, [1]), ho_enc(toy.bob.public, [2])
    [pack], _ = mask_comparisons(toy.cs_share, toy.cs.public, [Comparison(x, s)])
    for bad in (
        Pack(pack.c * 4 % p.n_squared, pack.half, 1),
        Pack(pack.c, pack.half * 4 % p.n, 1),
        Pack(pack.c, 1, 1),
    ):
        with pytest.raises(DecryptionError):
            read_packs(toy.cc_share, [bad])
    for bad in (Pack(0, pack.half, 1), Pack(pack.c, 0, 1), Pack(p.n, pack.half, 1)):
        with pytest.raises(ElementError):
            read_packs(toy.cc_share, [bad])


def test_an_unmasked_split_sent_in_place_of_a_pack_is_refused(toy: World) -> None:
    """A curious CS that wants CC to open a split: the plaintext does not look like slots."""
    [s] = ho_enc(toy.bob.public, [12345])
    [half] = root_half(toy.cs_share, [s.c])
    with pytest.raises(SlotError):
        read_packs(toy.cc_share, [Pack(s.c, half, 1)])


def test_a_hostile_ciphertext_is_refused_before_cs_uses_its_share(toy: World) -> None:
    [x] = ho_enc(toy.alice.public, [1])
    for bad in (Ciphertext(0, x.g), Ciphertext(x.c, 1), Ciphertext(toy.parameters.n, x.g)):
        for comparison in (Comparison(bad, x), Comparison(x, bad)):
            with pytest.raises(ElementError):
                mask_comparisons(toy.cs_share, toy.cs.public, [comparison])
