"""Noise on bins: two-sided, geometric, drawn once for each value of a record. docs/forest.md has the rules.

A draw is a pure function of the owner's noise secret, the feature, the generation of its book, the record and
the record's true bin. So asking for a value again gives the same noisy bin, and nothing averages out; any
other value has an independent draw. Thresholds are integers: all machines draw the same.
"""

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from revfrf.forest.kernel import Bytes, Ints, Paths, kernel
from revfrf.forest.randomness import key, siphash

UNIT = 10**6
"""An epsilon is a whole number of millionths."""

_DIGITS = Context(prec=60)


@lru_cache(maxsize=256)
def tails(millionths: int, n_cuts: int) -> Paths:
    """Return P(noise ≥ j) for j = 1 … n_cuts, times 2^64 and rounded down: e^(-εj) / (1 + e^-ε)."""
    epsilon = _DIGITS.divide(Decimal(millionths), Decimal(UNIT))
    whole = _DIGITS.add(1, _DIGITS.exp(-epsilon))
    shares = (_DIGITS.divide(_DIGITS.exp(-epsilon * j), whole) for j in range(1, n_cuts + 1))
    return np.array([int(_DIGITS.multiply(share, Decimal(2**64))) for share in shares], dtype=np.uint64)


def id_records(secret: bytes, ids: Sequence[str]) -> Paths:
    """Return the numbers of records with these ids: only the secret tells which is whose."""
    own = key("noise record", secret)
    hashed = b"".join(blake2b(name.encode(), digest_size=8, key=own).digest() for name in ids)
    return np.frombuffer(hashed, "<u8").astype(np.uint64)


def row_records(secret: bytes, codes: Ints) -> Paths:
    """Return the numbers of records without ids, shape (n_columns, n_rows).

    A record is known by the values of all its columns, and by how many equal rows come before it.
    """
    low, high = _words(key("noise row", secret))
    values = _chained(low, high, np.ascontiguousarray(codes))
    order = np.argsort(values, kind="stable")
    first = np.concatenate([[True], np.diff(values[order]) != 0]) if len(order) else np.empty(0, np.bool_)
    places = np.arange(len(order))
    equal_before = np.empty_like(places)
    equal_before[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return _hashed(low, high, values, equal_before)


def noisy_bins(
    secret: bytes, feature: str, generation: int, millionths: int, n_cuts: int, records: Paths, bins: Bytes
) -> Bytes:
    """Return these records' bins of a feature with noise, from 0 to n_cuts."""
    low, high = _words(key("noise", secret, feature, generation))
    return _noisy(low, high, tails(millionths, n_cuts), records, bins)


def _words(sip_key: bytes) -> tuple[np.uint64, np.uint64]:
    low, high = np.frombuffer(sip_key, dtype="<u8")
    return low, high


@kernel
def _chained(low: np.uint64, high: np.uint64, codes: Ints) -> Paths:
    n_columns, n_rows = codes.shape
    found = np.zeros(n_rows, dtype=np.uint64)
    for column in range(n_columns):
        for i in range(n_rows):
            found[i] = siphash(low, high, found[i], np.uint64(codes[column, i]))
    return found


@kernel
def _hashed(low: np.uint64, high: np.uint64, values: Paths, equal_before: Ints) -> Paths:
    found = np.empty(len(values), dtype=np.uint64)
    for i in range(len(values)):
        found[i] = siphash(low, high, values[i], np.uint64(equal_before[i]))
    return found


@kernel
def _noisy(low: np.uint64, high: np.uint64, tails: Paths, records: Paths, bins: Bytes) -> Bytes:
    most = len(tails)
    noisy = np.empty(len(bins), dtype=np.uint8)
    for i in range(len(bins)):
        draw = siphash(low, high, records[i], np.uint64(bins[i]))
        up = draw >> np.uint64(63) == np.uint64(0)
        size, own = _below(tails, draw if up else ~draw), int(bins[i])
        noisy[i] = min(own + size, most) if up else max(own - size, 0)
    return noisy


@kernel
def _below(tails: Paths, draw: np.uint64) -> int:
    """Return how many of the tails, which descend, are above a draw."""
    low, high = 0, len(tails)
    while low < high:
        middle = (low + high) // 2
        if draw < tails[middle]:
            low = middle + 1
        else:
            high = middle
    return low
