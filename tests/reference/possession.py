"""The Schnorr proof of possession, and the canonical bytes that its challenge hashes."""

import hashlib
from typing import NamedTuple

from tests.reference.dtpkc import Parameters, RefusedError, check_base

CHALLENGE_BITS = 256
MARGIN_BITS = 128


class Proof(NamedTuple):
    c: int
    s: int


def framed(tag: str, payload: bytes) -> bytes:
    """A tag byte, the payload's length in 8 bytes, big-endian, and the payload."""
    return tag.encode() + len(payload).to_bytes(8, "big") + payload


def canonical_field(field: int | str) -> bytes:
    """`i` and the two's complement with room for a sign bit, or `s` and UTF-8."""
    if isinstance(field, str):
        return framed("s", field.encode("utf-8"))
    size = 1
    while not -(2 ** (8 * size - 1)) < field < 2 ** (8 * size - 1):
        size += 1
    return framed("i", (field % 2 ** (8 * size)).to_bytes(size, "big"))


def canonical(domain: str, *fields: int | str) -> bytes:
    """The tuple `t` of the domain and its fields."""
    return framed("t", b"".join(map(canonical_field, (domain, *fields))))


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
