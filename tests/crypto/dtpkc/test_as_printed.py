"""HoAdd and HoLT as in the appendix."""

import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc import as_printed
from revfrf.crypto.dtpkc.as_printed import (
    AddRequest,
    AskSign,
    SignRequest,
    Term,
    cc_ho_add,
    cc_ho_lt,
    ho_add,
    ho_lt,
)
from revfrf.crypto.dtpkc.dtpkc import h_enc_ref, ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.crypto.dtpkc.strong import strong_open
from revfrf.crypto.secret import SecretInt
from revfrf.errors import DecryptionError, ElementError, UsageError
from tests.conftest import World, world_of

messages = st.integers(min_value=-(2**62), max_value=2**62)
BOUNDS = [-(2**62), 1 - 2**62, 2 - 2**62, -1, 0, 1, 2**62 - 2, 2**62 - 1]


def less(world: World, x: Ciphertext, s: Ciphertext, coin: bool) -> bool:
    """m1 < m2 with all roles in this process: x is alice's, s is bob's."""
    answer = as_printed._ho_lt_from(
        coin,
        world.cs_share,
        world.cs.public,
        Term(world.alice.public, x),
        Term(world.bob.public, s),
        lambda request: cc_ho_add(world.cc_share, request),
        lambda request: cc_ho_lt(world.cc_share, request),
    )
    [bit] = par_h_dec2(world.cs, [answer], par_h_dec1(world.bob, [answer], n_jobs=1), n_jobs=1)
    assert bit in (0, 1)
    return bool(bit)


def ask(world: World, x: Ciphertext, s: Ciphertext, ask_sign: AskSign) -> Ciphertext:
    """HoLT by CS, with an honest CC for the sum and this one for the sign."""
    return ho_lt(
        world.cs_share,
        world.cs.public,
        Term(world.alice.public, x),
        Term(world.bob.public, s),
        lambda request: cc_ho_add(world.cc_share, request),
        ask_sign,
    )


@settings(max_examples=25)
@given(a=messages, b=messages)
def test_addition_across_two_keys(world: World, a: int, b: int) -> None:
    [x], [y] = ho_enc(world.alice.public, [a]), ho_enc(world.bob.public, [b])
    total = ho_add(
        world.cs_share,
        Term(world.alice.public, x),
        Term(world.bob.public, y),
        lambda request: cc_ho_add(world.cc_share, request),
    )
    assert par_h_dec2(world.bob, [total], par_h_dec1(world.alice, [total])) == [a + b]


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("quarter", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2, 3))])
def test_every_pair_of_small_numbers_compares_right(coin: bool, quarter: int) -> None:
    world = world_of(160)
    numbers = range(-64, 65)
    xs, ss = ho_enc(world.alice.public, numbers), ho_enc(world.bob.public, numbers)
    wrong = [
        (a, b)
        for a, x in zip(numbers, xs, strict=True)
        if a % 4 == quarter
        for b, s in zip(numbers, ss, strict=True)
        if less(world, x, s, coin) != (a < b)
    ]
    assert wrong == []


@pytest.mark.parametrize("coin", [False, True])
def test_pairs_around_every_bound_compare_right(coin: bool) -> None:
    world = world_of(512)
    xs, ss = ho_enc(world.alice.public, BOUNDS), ho_enc(world.bob.public, BOUNDS)
    for a, x in zip(BOUNDS, xs, strict=True):
        for b, s in zip(BOUNDS, ss, strict=True):
            assert less(world, x, s, coin) == (a < b), (a, b)


def test_the_coin_is_tossed_and_never_changes_the_answer(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [3]), ho_enc(toy.bob.public, [4])
    seen: list[bool] = []

    def watch(request: SignRequest) -> Ciphertext:
        answer = cc_ho_lt(toy.cc_share, request)
        [bit] = par_h_dec2(toy.cs, [answer], par_h_dec1(toy.bob, [answer]))
        seen.append(bool(bit))
        return answer

    for _ in range(60):
        answer = ask(toy, x, s, watch)
        assert par_h_dec2(toy.cs, [answer], par_h_dec1(toy.bob, [answer])) == [1]
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
    opened: list[int] = []

    def watch(request: AddRequest) -> Ciphertext:
        c_parts, halves = [request.c_1, request.c_2], [request.half_1, request.half_2]
        opened.extend(value % toy.parameters.n for value in strong_open(toy.cc_share, c_parts, halves))
        return cc_ho_add(toy.cc_share, request)

    for _ in range(100):
        ho_add(toy.cs_share, Term(toy.alice.public, x), Term(toy.bob.public, y), watch)
    assert len(set(opened)) == 200
    quarters = [4 * value // toy.parameters.n for value in opened]
    assert all(13 < quarters.count(quarter) < 90 for quarter in range(4))  # 50 ± 6 standard deviations


def test_what_cc_opens_in_a_comparison_is_masked_by_a_quarter_of_the_keys_length(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [3]), ho_enc(toy.bob.public, [4])  # β = ±1
    opened: list[int] = []

    def watch(request: SignRequest) -> Ciphertext:
        opened.extend(strong_open(toy.cc_share, [request.c], [request.half]))
        return cc_ho_lt(toy.cc_share, request)

    for _ in range(60):
        ask(toy, x, s, watch)
    bits = toy.parameters.key_bits // 4 - 1
    assert len({abs(value) for value in opened}) == 60
    assert all(0 < abs(value) < 1 << bits for value in opened)
    assert 10 < sum(abs(value) >> (bits - 1) for value in opened) < 50


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("bad", ["zero", "multiple of N", "trivial G", "G = -1", "unreduced"])
def test_hostile_terms_are_refused_whatever_the_coin(toy: World, coin: bool, bad: str) -> None:
    p = toy.parameters
    [good] = ho_enc(toy.alice.public, [3])
    hostile = {
        "zero": Ciphertext(0, good.g),
        "multiple of N": Ciphertext(p.n, good.g),
        "trivial G": Ciphertext(good.c, 1),
        "G = -1": Ciphertext(good.c, p.n - 1),
        "unreduced": Ciphertext(good.c + p.n_squared, good.g),
    }[bad]
    for x, s in ((hostile, good), (good, hostile)):
        with pytest.raises(ElementError):
            less(toy, x, s, coin)


def test_keys_too_short_to_compare_are_refused() -> None:
    world = world_of(80)
    [x] = ho_enc(world.alice.public, [1])
    with pytest.raises(UsageError, match="80-bit keys are too short to compare"):
        less(world, x, x, True)


def test_a_hostile_answer_to_a_comparison_is_rejected(toy: World) -> None:
    [x], [s] = ho_enc(toy.alice.public, [3]), ho_enc(toy.bob.public, [4])
    with pytest.raises(ElementError):
        ask(toy, x, s, lambda _: Ciphertext(4, 1))


def test_a_hostile_answer_of_cc_is_rejected(toy: World) -> None:
    [x], [y] = ho_enc(toy.alice.public, [1]), ho_enc(toy.bob.public, [2])
    with pytest.raises(ElementError):
        ho_add(toy.cs_share, Term(toy.alice.public, x), Term(toy.bob.public, y), lambda _: Ciphertext(4, 1))


def test_a_hostile_term_is_rejected_before_cs_uses_its_share(toy: World) -> None:
    [y] = ho_enc(toy.bob.public, [2])
    with pytest.raises(ElementError):
        ho_add(
            toy.cs_share,
            Term(toy.alice.public, Ciphertext(y.c, 1)),
            Term(toy.bob.public, y),
            lambda request: cc_ho_add(toy.cc_share, request),
        )


def test_a_tampered_half_is_rejected_by_cc(toy: World) -> None:
    [x] = ho_enc(toy.alice.public, [1])
    with pytest.raises(DecryptionError):
        cc_ho_lt(toy.cc_share, SignRequest(x.c, 4, toy.cs.public + toy.alice.public))
