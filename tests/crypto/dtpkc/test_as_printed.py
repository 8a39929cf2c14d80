"""HoAdd and HoLT as the paper's appendix has them."""

import secrets
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.as_printed import AskSign, AskSum, Term, cc_ho_add, cc_ho_lt
from revfrf.crypto.dtpkc.dtpkc import h_enc_ref, ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, PublicKey
from revfrf.crypto.dtpkc.strong import strong_open
from revfrf.crypto.secret import SecretInt
from revfrf.errors import DecryptionError, ElementError, UsageError
from tests.conftest import World, world_of
from tests.crypto.dtpkc.test_dtpkc import HOSTILE, hostile

messages = st.integers(min_value=-(2**62), max_value=2**62)
BOUNDS = [-(2**62), 1 - 2**62, 2 - 2**62, -1, 0, 1, 2**62 - 2, 2**62 - 1]


def add(world: World, x: Ciphertext, y: Ciphertext, ask_sum: AskSum | None = None) -> Ciphertext:
    """HoAdd by CS, with an honest CC or this one: x is alice's, y is bob's."""
    terms = Term(world.alice.public, x), Term(world.bob.public, y)
    return as_printed.ho_add(world.cs_share, *terms, ask_sum or partial(cc_ho_add, world.cc_share))


def ask(world: World, x: Ciphertext, s: Ciphertext, ask_sign: AskSign) -> Ciphertext:
    """HoLT by CS, with an honest CC for the sum and this one for the sign."""
    terms = Term(world.alice.public, x), Term(world.bob.public, s)
    ask_sum = partial(cc_ho_add, world.cc_share)
    return as_printed.ho_lt(world.cs_share, world.cs.public, *terms, ask_sum, ask_sign)


def opened(world: World, answer: Ciphertext) -> bool:
    [bit] = par_h_dec2(world.cs, [answer], par_h_dec1(world.bob, [answer], n_jobs=1), n_jobs=1)
    assert bit in (0, 1)
    return bool(bit)


def less(world: World, x: Ciphertext, s: Ciphertext, coin: bool) -> bool:
    """m1 < m2 with all roles in this process."""
    with patch.object(secrets, "randbits", return_value=coin):
        return opened(world, ask(world, x, s, partial(cc_ho_lt, world.cc_share)))


@settings(max_examples=25)
@given(a=messages, b=messages)
def test_sum_across_two_keys_opens_to_the_sum(world: World, a: int, b: int) -> None:
    [x], [y] = ho_enc(world.alice.public, [a]), ho_enc(world.bob.public, [b])
    total = add(world, x, y)
    assert par_h_dec2(world.bob, [total], par_h_dec1(world.alice, [total])) == [a + b]


@pytest.mark.slow
@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("quarter", range(4))
def test_every_pair_of_small_numbers_compares_right(coin: bool, quarter: int) -> None:
    world, numbers = world_of(160), range(-64, 65)
    xs, ss = ho_enc(world.alice.public, numbers), ho_enc(world.bob.public, numbers)
    for a, x in zip(numbers, xs, strict=True):
        if a % 4 == quarter:
            assert [less(world, x, s, coin) for s in ss] == [a < b for b in numbers]


@pytest.mark.parametrize("coin", [False, True])
def test_pairs_around_every_bound_compare_right(coin: bool) -> None:
    world = world_of(512)
    xs, ss = ho_enc(world.alice.public, BOUNDS), ho_enc(world.bob.public, BOUNDS)
    for a, x in zip(BOUNDS, xs, strict=True):
        assert [less(world, x, s, coin) for s in ss] == [a < b for b in BOUNDS]


def test_the_coin_is_tossed_and_never_changes_the_answer(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [3]), ho_enc(toy.bob.public, [4])
    seen: list[bool] = []

    def watch(c: int, half: int, key: PublicKey) -> Ciphertext:
        answer = cc_ho_lt(toy.cc_share, c, half, key)
        seen.append(opened(toy, answer))
        return answer

    assert all(opened(toy, ask(toy, x, s, watch)) for _ in range(60))
    assert 8 < sum(seen) < 52  # 30 ± 5.7 standard deviations


@pytest.mark.parametrize("coin", [False, True])
def test_the_papers_refresh_does_not_stop_holt(toy: World, coin: bool) -> None:
    """A split refreshed twice, as the paper revokes it, still compares: hence new keys at level 2."""
    [x], ss = ho_enc(toy.alice.public, [10]), ho_enc(toy.bob.public, [11, 9])
    for _ in range(2):
        ss = h_enc_ref(toy.parameters, SecretInt(1 + secrets.randbelow(2**120)), ss)
    with pytest.raises(DecryptionError):
        par_h_dec2(toy.bob, ss)
    assert [less(toy, x, s, coin) for s in ss] == [True, False]


def test_what_cc_opens_in_a_sum_is_spread_over_all_residues(toy: World) -> None:
    [x], [y] = ho_enc(toy.alice.public, [1]), ho_enc(toy.bob.public, [2])
    seen: list[int] = []

    def watch(c_parts: Sequence[int], halves: Sequence[int], key: PublicKey) -> Ciphertext:
        seen.extend(value % toy.parameters.n for value in strong_open(toy.cc_share, c_parts, halves))
        return cc_ho_add(toy.cc_share, c_parts, halves, key)

    for _ in range(100):
        add(toy, x, y, watch)
    assert len(set(seen)) == 200
    quarters = [4 * value // toy.parameters.n for value in seen]
    assert all(13 < quarters.count(quarter) < 90 for quarter in range(4))  # 50 ± 6 standard deviations


def test_what_cc_opens_in_a_comparison_is_masked_by_a_quarter_of_the_keys_length(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [3]), ho_enc(toy.bob.public, [4])  # β = ±1
    seen: list[int] = []

    def watch(c: int, half: int, key: PublicKey) -> Ciphertext:
        seen.extend(map(abs, strong_open(toy.cc_share, [c], [half])))
        return cc_ho_lt(toy.cc_share, c, half, key)

    for _ in range(60):
        ask(toy, x, s, watch)
    bits = toy.parameters.key_bits // 4 - 1
    assert len(set(seen)) == 60
    assert all(0 < value < 1 << bits for value in seen)
    assert 10 < sum(value >> (bits - 1) for value in seen) < 50


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_terms_are_refused_whatever_the_coin(toy: World, coin: bool, name: str) -> None:
    [good], bad = ho_enc(toy.alice.public, [3]), hostile(toy, name)
    for x, s in ((bad, good), (good, bad)):
        with pytest.raises(ElementError):
            less(toy, x, s, coin)
        with pytest.raises(ElementError):
            add(toy, x, s)


def test_hostile_answers_of_cc_are_refused(toy: World) -> None:
    [x], [y] = ho_enc(toy.alice.public, [1]), ho_enc(toy.bob.public, [2])
    with pytest.raises(ElementError):
        add(toy, x, y, lambda *_: Ciphertext(4, 1))
    with pytest.raises(ElementError):
        ask(toy, x, y, lambda *_: Ciphertext(4, 1))


def test_a_tampered_half_is_refused_by_cc(toy: World) -> None:
    [x] = ho_enc(toy.alice.public, [1])
    with pytest.raises(DecryptionError):
        cc_ho_lt(toy.cc_share, x.c, 4, toy.cs.public + toy.alice.public)


def test_keys_too_short_to_compare_are_refused() -> None:
    world = world_of(80)
    [x] = ho_enc(world.alice.public, [1])
    with pytest.raises(UsageError, match="80-bit keys are too short to compare"):
        less(world, x, x, True)
