import random
import secrets
from itertools import islice
from math import isqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.crypto.dtpkc import primes as primes_module
from revfrf.crypto.dtpkc.arithmetic import is_prime
from revfrf.crypto.dtpkc.primes import _far_apart, _sieve, _sieve_limit, _window, safe_primes
from tests.quick import quick


@pytest.mark.parametrize("bits", [32, 48, 80, 128, 256, 512])
def test_primes_are_safe_distinct_and_have_their_two_top_bits(bits: int) -> None:
    found = safe_primes(bits)
    for prime in (found.p, found.q):
        assert is_prime(prime)
        assert is_prime((prime - 1) // 2)
        assert prime >> (bits - 2) == 0b11
    assert found.p != found.q
    assert (found.p * found.q).bit_length() == 2 * bits


@pytest.mark.parametrize("n_jobs", [1, -1])
@pytest.mark.parametrize("bits", quick([128, 256, 512, 1024], [128, 256, 512]))
def test_the_product_does_not_factor_by_fermats_method(bits: int, n_jobs: int) -> None:
    """Two primes of one sieve window would be neighbours, and N = ((p+q)/2)² - ((p-q)/2)² nearly a square."""
    for _ in range(10 if bits < 512 else 1):
        found = safe_primes(bits, n_jobs=n_jobs)
        assert abs(found.p - found.q) >= 1 << (bits - 100)
        n = found.p * found.q
        middle = isqrt(n) + 1
        for a in range(middle, middle + 1000):
            assert isqrt(a * a - n) ** 2 != a * a - n


def test_neighbouring_primes_are_refused() -> None:
    p = 3 << 510
    assert not _far_apart(p, p + (1 << 411), 512)
    assert _far_apart(p, p + (1 << 412), 512)
    assert _far_apart(7, 11, 4)
    assert not _far_apart(7, 7, 4)


@pytest.mark.parametrize("bits", [64, 128, 512])
def test_windows_start_anywhere_in_the_range_with_every_bit_random(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start with few random bits would make primes that can be guessed; the primes' own bits hide it."""
    starts: list[int] = []

    def record(start: int, span: int) -> NDArray[np.bool_]:
        starts.append(start)
        alive = np.zeros(span, dtype=np.bool_)
        alive[0] = True
        return alive

    monkeypatch.setattr(primes_module, "_sieve", record)
    for _ in range(400):
        next(_window(bits))
    assert all(3 << (bits - 3) < start < 1 << (bits - 1) and start % 2 for start in starts)
    for bit in range(1, bits - 3):  # the two top bits are set, the lowest makes it odd
        assert 130 < sum(start >> bit & 1 for start in starts) < 270  # 200 ± 7 standard deviations
    sixteenths = {(start - (3 << (bits - 3))) * 16 >> (bits - 3) for start in starts}
    assert sixteenths == set(range(16))  # one is missing once in 10^10 runs


def test_candidates_come_in_random_order() -> None:
    for _ in range(3):
        window = list(islice(_window(256), 50))
        assert window not in (sorted(window), sorted(window, reverse=True))


def test_randomness_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError("asked for entropy")

    monkeypatch.setattr(secrets, "randbelow", refuse)
    with pytest.raises(OSError, match="asked for entropy"):
        safe_primes(128)


def test_seeded_search_repeats_itself_and_follows_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(seed: int, n_jobs: int) -> tuple[int, int]:
        monkeypatch.setattr(secrets, "randbelow", random.Random(seed).randrange)
        found = safe_primes(96, n_jobs=n_jobs)
        return found.p, found.q

    assert pair(1, 1) == pair(1, 2) != pair(2, 2)


@pytest.mark.parametrize("start", [2**29 + 1, 2**61 + 1, 2**200 + 1, 2**200 + 17])
def test_sieve_keeps_exactly_what_has_no_small_factor(start: int) -> None:
    small = primes_module._small_primes().tolist()
    limit = min(_sieve_limit(start.bit_length() + 1), int(start**0.5))
    alive = _sieve(start, 2000)
    assert alive.any()
    for k in range(2000):
        candidate = start + 2 * k
        hit = any(candidate % p == 0 or (2 * candidate + 1) % p == 0 for p in small[:2000] if p < limit)
        assert not (hit and alive[k])
        if is_prime(candidate) and is_prime(2 * candidate + 1):
            assert alive[k]
