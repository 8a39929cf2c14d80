"""The Schnorr proof of possession."""

import hashlib
from typing import NamedTuple

from tests.reference.canonical import canonical
from tests.reference.dtpkc import Parameters, RefusedError, check_base

CHALLENGE_BITS = 256
MARGIN_BITS = 128


class Proof(NamedTuple):
    c: int
    s: int


def challenge(params: Parameters, owner: str, h: int, t: int) -> int:
    message = canonical("revfrf possession v1", params.n, params.g0, params.exponent_bits, h, owner, t)
    return int.from_bytes(hashlib.sha256(message).digest(), "big")


def prove(params: Parameters, owner: str, h: int, sk: int, k: int) -> Proof:
    """t = g0^k, c = hash(t), s = k + c·sk over the integers. An honest h is g0^sk, and k < 2^(E+256+128)."""
    c = challenge(params, owner, h, pow(params.g0, k, params.n))
    return Proof(c, k + c * sk)


def verify(params: Parameters, owner: str, h: int, proof: Proof) -> None:
    """t = g0^s·h^-c must hash to c again."""
    check_base(params, h)
    if not 0 <= proof.c < 2**CHALLENGE_BITS:
        raise RefusedError("proof")
    if not 0 <= proof.s < 2 ** (params.exponent_bits + CHALLENGE_BITS + MARGIN_BITS + 1):
        raise RefusedError("proof")
    t = pow(params.g0, proof.s, params.n) * pow(h, -proof.c, params.n) % params.n
    if challenge(params, owner, h, t) != proof.c:
        raise RefusedError("proof")
