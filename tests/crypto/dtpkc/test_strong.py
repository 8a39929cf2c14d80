"""The strong shares: both halves open any ciphertext, one half alone opens nothing."""

import secrets
from math import gcd
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.dtpkc import ho_enc
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.crypto.dtpkc.primes import SafePrimes
from revfrf.crypto.dtpkc.strong import SetUp, _deal, root_half, root_open, set_up, strong_half, strong_open
from revfrf.errors import DecryptionError, InsecureKeyError, UsageError
from tests.conftest import World, world_of

messages = st.lists(st.integers(min_value=-(2**62), max_value=2**62), min_size=1, max_size=5)
laws = settings(max_examples=25)
PRIMES = SafePrimes(4294967087, 4294965887)
FORMS = [(strong_half, strong_open), (root_half, root_open)]
"""The paper's halves, and the compressed ones."""


def c_parts(ciphertexts: list[Ciphertext]) -> list[int]:
    return [ciphertext.c for ciphertext in ciphertexts]


@laws
@given(values=messages)
def test_both_halves_in_either_form_open_a_ciphertext_under_any_key(world: World, values: list[int]) -> None:
    """It does not matter which server is the first."""
    for key in (world.alice.public, world.bob.public + world.cs.public):
        cs = c_parts(ho_enc(key, values))
        for half, finish in FORMS:
            assert finish(world.cc_share, cs, half(world.cs_share, cs)) == values
            assert finish(world.cs_share, cs, half(world.cc_share, cs)) == values


def test_shares_are_zero_mod_lambda_and_one_mod_n(world: World) -> None:
    p = world.parameters
    total = world.cs_share.value.reveal() + world.cc_share.value.reveal()
    assert total % p.n == 1
    for base in (2, 3, p.g0):
        assert pow(base, total, p.n) == 1  # λ divides the sum


@pytest.mark.parametrize("server", ["CS", "CC"])
def test_one_share_alone_is_spread_over_its_whole_range(server: str) -> None:
    most, tops = (PRIMES.p - 1) * (PRIMES.q - 1) // 2 * PRIMES.p * PRIMES.q, []
    for _ in range(400):
        dealt = _deal(PRIMES, 16, allow_insecure=True)
        share = dealt.cs_share if server == "CS" else dealt.cc_share
        tops.append(share.value.reveal() * 4 // most)
    counts = [tops.count(quarter) for quarter in range(4)]
    assert all(48 < count < 152 for count in counts)  # 100 ± 6 standard deviations


def test_one_half_alone_opens_nothing(toy: World) -> None:
    cs = c_parts(ho_enc(toy.alice.public, [5]))
    for share in (toy.cs_share, toy.cc_share):
        for half, finish in FORMS:
            for wrong in ([1], half(share, cs)):
                with pytest.raises(DecryptionError):
                    finish(share, cs, wrong)


def test_set_up_makes_what_was_asked_for() -> None:
    dealt = set_up(512, exponent_bits=200, allow_insecure=True)
    assert (dealt.parameters.key_bits, dealt.parameters.exponent_bits) == (512, 200)
    assert dealt.cs_share.server == "CS"
    assert dealt.cc_share.server == "CC"


def test_the_generator_has_full_order() -> None:
    half_p, half_q, n = (PRIMES.p - 1) // 2, (PRIMES.q - 1) // 2, PRIMES.p * PRIMES.q
    for _ in range(50):
        g0 = _deal(PRIMES, 16, allow_insecure=True).parameters.g0
        assert pow(g0, half_p * half_q, n) == 1
        assert pow(g0, half_p, n) != 1 != pow(g0, half_q, n)


def dealt_with(values: list[int]) -> SetUp:
    """What is dealt if these numbers are drawn first, and then random ones."""
    draw = secrets.randbelow
    with patch.object(secrets, "randbelow", lambda bound: values.pop(0) if values else draw(bound)):
        return _deal(PRIMES, 16, allow_insecure=True)


def test_a_generator_of_small_order_is_drawn_again() -> None:
    """g0 ≡ 1 mod p would give p away as gcd(g0 - 1, N)."""
    p, q = PRIMES.p, PRIMES.q
    draws = [a - 2 for a in (crt(p, q, 1, 5), crt(p, q, 5, 1), crt(p, q, p - 1, 7))]
    g0 = dealt_with(draws).parameters.g0
    assert not draws
    assert gcd(g0 - 1, p * q) == 1


def crt(p: int, q: int, mod_p: int, mod_q: int) -> int:
    """The number below pq with these residues."""
    return (mod_p * q * pow(q, -1, p) + mod_q * p * pow(p, -1, q)) % (p * q)


@pytest.mark.parametrize("bad", ["0 mod N", "1 mod N", "below N", "leaves the other below N"])
def test_shares_that_the_compressed_halves_cannot_use_are_drawn_again(bad: str) -> None:
    p, q = PRIMES.p, PRIMES.q
    n, lambda_ = p * q, (p - 1) * (q - 1) // 2
    total = lambda_ * pow(lambda_, -1, n)
    first = {
        "0 mod N": 5 * n,
        "1 mod N": 5 * n + 1,
        "below N": n - 5,
        "leaves the other below N": (total - 77) % (lambda_ * n),
    }[bad]
    draws = [12345, first]  # the generator's a, then λ1
    dealt = dealt_with(draws)
    assert not draws
    assert dealt.cs_share.value.reveal() != first
    c_parts = [dealt.parameters.lift(dealt.parameters.g0)]
    assert root_open(dealt.cc_share, c_parts, root_half(dealt.cs_share, c_parts)) == [0]


@pytest.mark.parametrize("bits", [64, 1024, 2032])
def test_set_up_of_a_short_key_is_refused_before_any_work(bits: int) -> None:
    with pytest.raises(InsecureKeyError, match=f"{bits}-bit keys protect nothing"):
        set_up(bits)


@pytest.mark.parametrize("bits", [-16, 0, 32, 100, 2050])
def test_set_up_of_an_impossible_size_is_refused(bits: int) -> None:
    with pytest.raises(UsageError, match="multiple of 16"):
        set_up(bits, allow_insecure=True)


@pytest.mark.parametrize("bits", [2048, 3072])
def test_compressed_halves_agree_with_the_papers_at_real_sizes(bits: int) -> None:
    world = world_of(bits)
    cs = c_parts(ho_enc(world.alice.public, [-(2**62), 77]))
    for half, finish in FORMS:
        assert finish(world.cc_share, cs, half(world.cs_share, cs)) == [-(2**62), 77]
