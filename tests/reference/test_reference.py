"""The reference's numbers, and the paper's claims and faults, which it shows.

That its two forms of the scheme agree, `tests.reference.operations` asserts for every vector. Its HoAdd and
HoLT are compared with the product's in `tests.crypto.dtpkc.test_against_reference`.
"""

import json
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.reference import dtpkc
from tests.reference.dtpkc import Compressed, Parameters, RefusedError, Shares

Primes = tuple[int, int]


def small_primes_of(bits: int) -> Primes:
    random = Random(f"reference {bits}")
    p, q = (dtpkc.next_safe_prime(3 << (bits // 2 - 2) | random.getrandbits(bits // 2 - 3)) for _ in range(2))
    return p, q


PRIMES = {bits: small_primes_of(bits) for bits in (64, 96, 160)}


@pytest.fixture(params=PRIMES, ids=lambda bits: f"{bits} bits")
def primes(request: pytest.FixtureRequest) -> Primes:
    return PRIMES[int(request.param)]


@pytest.fixture
def params(primes: Primes, random: Random) -> Parameters:
    n = primes[0] * primes[1]
    return dtpkc.make_parameters(*primes, random.randrange(2, n), n.bit_length() // 2)


@pytest.fixture
def random() -> Random:
    return Random("the reference's own tests")


@pytest.fixture
def shares(primes: Primes, params: Parameters, random: Random) -> Shares:
    return dtpkc.strong_shares(*primes, random.randrange(params.n))


def weak_key(params: Parameters, random: Random) -> int:
    return 2 * random.randrange(1, 2 ** (params.exponent_bits - 1))


def encryption(params: Parameters, sk: int, m: int, random: Random) -> Compressed:
    r = random.getrandbits(params.exponent_bits)
    return dtpkc.compressed_ho_enc(params, dtpkc.public_key(params, sk), m, r)


# -- Numbers ----------------------------------------------------------------------------------------


def test_primality_agrees_with_trial_division() -> None:
    by_division = [n for n in range(2, 5000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(-3, 5000) if dtpkc.is_prime(n)] == by_division
    assert not any(map(dtpkc.is_prime, (3215031751, 1009 * 1013, 2**67 - 1)))
    assert dtpkc.is_prime(2**89 - 1)


def test_first_safe_primes_are_the_known_ones() -> None:
    known = [5, 7, 11, 23, 47, 59, 83, 107, 167, 179, 227, 263, 347, 359, 383, 467, 479, 503]
    assert [p for p in range(504) if dtpkc.is_safe_prime(p)] == known


def test_jacobi_symbol_is_the_product_of_legendre_symbols() -> None:
    for x, (p, q) in product(range(1, 60), [(7, 11), (23, 47), (11, 11)]):
        legendre = [0 if x % f == 0 else 1 if pow(x, f // 2, f) == 1 else -1 for f in (p, q)]
        assert dtpkc.jacobi(x, p * q) == legendre[0] * legendre[1]


def test_stored_primes_are_safe_and_have_their_two_top_bits_set() -> None:
    path = Path(__file__).parents[1] / "vectors" / "primes.json"
    for bits, pair in json.loads(path.read_text())["pairs"].items():
        p, q = int(pair["p"], 16), int(pair["q"], 16)
        assert p != q
        for prime in (p, q):
            assert prime.bit_length() == int(bits) // 2
            assert prime >> (int(bits) // 2 - 2) == 3
            assert dtpkc.is_safe_prime(prime, rounds=5)


# -- The group --------------------------------------------------------------------------------------


def test_generator_has_order_p_prime_q_prime(primes: Primes, params: Parameters) -> None:
    half_p, half_q = primes[0] // 2, primes[1] // 2
    assert pow(params.g, half_p * half_q, params.n2) == 1
    assert 1 not in (pow(params.g, half_p, params.n2), pow(params.g, half_q, params.n2))


def test_papers_minus_sign_shows_the_parity_of_r_and_nothing_else(params: Parameters, random: Random) -> None:
    papers_g = params.n2 - params.g
    sk, r = weak_key(params, random), 2 * random.randrange(params.n // 8) + 1
    assert pow(papers_g, sk, params.n2) == dtpkc.paper_public_key(params, sk)
    assert pow(papers_g, r, params.n2) == params.n2 - pow(params.g, r, params.n2)
    assert pow(papers_g, r + 1, params.n2) == pow(params.g, r + 1, params.n2)


# -- The strong shares ------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [0, 1])
def test_compressed_halves_need_a_share_that_is_not_0_or_1_mod_n(
    primes: Primes, params: Parameters, random: Random, rest: int
) -> None:
    shares = dtpkc.strong_shares(*primes, params.n * random.randrange(1, params.n // 4) + rest)
    c = encryption(params, weak_key(params, random), 5, random).c
    assert dtpkc.strong_decrypt(params, c, shares) == 5
    with pytest.raises(RefusedError):
        dtpkc.root_open(params, c, dtpkc.root_half(params, c, shares.lambda1), shares.lambda2)


def test_papers_split_returns_m_times_lambda(primes: Primes, params: Parameters, random: Random) -> None:
    p, q = primes
    split = dtpkc.paper_split(p, q, random.randrange(params.n // 4))
    c = encryption(params, weak_key(params, random), 5, random).c
    lam = (p - 1) * (q - 1) // 2
    assert dtpkc.strong_decrypt(params, c, split) == dtpkc.signed(params.n, 5 * lam % params.n)
    assert dtpkc.strong_decrypt(params, c, split) != 5


def test_only_the_compressed_half_cannot_be_shifted(
    params: Parameters, shares: Shares, random: Random
) -> None:
    c = encryption(params, weak_key(params, random), 5, random).c
    p1 = dtpkc.strong_half(params, c, shares.lambda1)
    assert dtpkc.strong_open(params, c, p1 * (1 + params.n) % params.n2, shares.lambda2) == 6
    root1 = dtpkc.root_half(params, c, shares.lambda1)
    for factor in (4, params.n - 1, pow(params.g0, 5, params.n)):
        with pytest.raises(RefusedError) as error:
            dtpkc.root_open(params, c, root1 * factor % params.n, shares.lambda2)
        assert error.value.kind == "decryption"
