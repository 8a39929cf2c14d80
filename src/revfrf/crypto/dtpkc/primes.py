"""Safe primes: p = 2p'+1 with p' prime too."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, islice
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.dtpkc.arithmetic import is_prime, may_be_prime
from revfrf.crypto.secret import Secret
from revfrf.parallel import workers

_LONGEST_SIEVE = 20
_AT_ONCE = 128
"""Candidates that wait for a thread: enough that none idles, and few that are left when one is a prime."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SafePrimes(Secret):
    """Two distinct safe primes. They are as good as the strong key."""

    p: int
    q: int


def safe_primes(bits: int, *, n_jobs: int = -1) -> SafePrimes:
    """Two distinct random safe primes of `bits` bits with their two top bits set. All cores search."""
    primes: list[int] = []
    window: Iterator[int] = iter(())
    with ThreadPoolExecutor(workers(n_jobs)) as pool:
        while len(primes) < 2:
            candidates = list(islice(window, _AT_ONCE))
            found = next(compress(candidates, pool.map(_is_safe, candidates)), None)
            if found and all(_far_apart(2 * found + 1, other, bits) for other in primes):
                primes.append(2 * found + 1)
            if found or not candidates:
                # One prime per window: two neighbours make a modulus that Fermat's method factors.
                window = _window(bits)
    return SafePrimes(*primes)


def _is_safe(candidate: int) -> bool:
    """Return whether p' = candidate and 2p'+1 are both prime. The cheap tests come first."""
    prime = 2 * candidate + 1
    return may_be_prime(candidate) and may_be_prime(prime) and is_prime(candidate) and is_prime(prime)


def _far_apart(p: int, q: int, bits: int) -> bool:
    """|p - q| ≥ 2^(bits - 100), as FIPS 186-5 asks (A.1.3): else N is nearly a square, and easy to factor."""
    return abs(p - q) >= 1 << max(0, bits - 100)


def _window(bits: int) -> Iterator[int]:
    """The odd p' of bits-1 bits in a random stretch such that neither p' nor 2p'+1 has a small factor.

    They come in random order, so that a prime is not favoured for following a long gap, as it would be if the
    search always walked upwards.
    """
    low, high = 3 << (bits - 3), 1 << (bits - 1)
    span = min(_sieve_limit(bits), (high - low) // 4)
    start = low + 2 * secrets.randbelow((high - low) // 2 - span) + 1
    survivors: list[int] = np.flatnonzero(_sieve(start, span)).tolist()
    while survivors:
        pick = secrets.randbelow(len(survivors))
        survivors[pick], survivors[-1] = survivors[-1], survivors[pick]
        yield start + 2 * survivors.pop()


def _sieve(start: int, span: int) -> NDArray[np.bool_]:
    """For k < span: whether start + 2k and 2(start + 2k) + 1 are both free of small factors."""
    primes, limit = _small_primes(), _sieve_limit(start.bit_length() + 1)
    primes = primes[: np.searchsorted(primes, min(limit, isqrt(start)))]
    residues = np.array([start % prime for prime in primes.tolist()], dtype=np.int64)
    half = (primes + 1) // 2  # 1/2 mod prime
    zero_of_candidate = -residues % primes * half % primes
    zero_of_safe = (primes - half - residues) % primes * half % primes  # 2p'+1 ≡ 0  ⇔  p' ≡ -1/2
    alive = np.ones(span, dtype=np.bool_)
    for prime, first, second in zip(
        primes.tolist(), zero_of_candidate.tolist(), zero_of_safe.tolist(), strict=True
    ):
        alive[first::prime] = False
        alive[second::prime] = False
    return alive


def _sieve_limit(bits: int) -> int:
    """Return the size of a sieve and its largest factor: both grow with the time of a primality test."""
    return 1 << min(12 + bits // 128, _LONGEST_SIEVE)


@lru_cache(maxsize=1)
def _small_primes() -> NDArray[np.int64]:
    """The odd primes below any sieve's limit, by Eratosthenes."""
    odd: NDArray[Any] = np.ones(1 << (_LONGEST_SIEVE - 1), dtype=np.bool_)
    odd[0] = False
    for i in range(3, (1 << _LONGEST_SIEVE // 2) + 1, 2):
        if odd[i // 2]:
            odd[i * i // 2 :: i] = False
    return 2 * np.flatnonzero(odd).astype(np.int64) + 1
