"""Ed25519 from RFC 8032, section 5.1, in affine coordinates.

Verification is the RFC's equation without the factor 8, [S]B = R + [k]A, which is the stricter of the two
that it allows. A key of small order is refused: for it, everybody can sign.
"""

import hashlib
from typing import TypeAlias

from tests.reference.dtpkc import RefusedError

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
L = 2**252 + 27742317777372353535851937790883648493
"""The order of B."""

Point: TypeAlias = tuple[int, int]
IDENTITY: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    """On -x² + y² = 1 + d·x²·y² mod p."""
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2
    x3 = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y3 = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x3, y3


def times(k: int, point: Point) -> Point:
    """[k]point, by doubling and adding."""
    total = IDENTITY
    while k:
        if k % 2:
            total = add(total, point)
        point, k = add(point, point), k // 2
    return total


def encode(point: Point) -> bytes:
    """y in 255 bits, then the lowest bit of x; little-endian."""
    x, y = point
    return (y + (x % 2 << 255)).to_bytes(32, "little")


def decode(data: bytes) -> Point | None:
    """The point with exactly this encoding, or None: x² = u/v, and its root by p = 5 mod 8."""
    sign, y = divmod(int.from_bytes(data, "little"), 2**255)
    u, v = y * y - 1, D * y * y + 1
    x = pow(u * pow(v, -1, P), (P + 3) // 8, P)
    if (v * x * x - u) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (v * x * x - u) % P or (x == 0 and sign):
        return None
    return x if x % 2 == sign else P - x, y


def _point(y: int) -> Point:
    point = decode(y.to_bytes(32, "little"))
    assert point is not None
    return point


B = _point(4 * pow(5, -1, P) % P)


def secret_scalar(seed: bytes) -> int:
    """The first half of the seed's hash: bits 0, 1, 2 and 255 cleared, bit 254 set."""
    a = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    return a % 2**254 // 8 * 8 + 2**254


def public_key(seed: bytes) -> bytes:
    return encode(times(secret_scalar(seed), B))


def challenge(r: bytes, public: bytes, message: bytes) -> int:
    """k: the hash of R, A and M."""
    return int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L


def sign(seed: bytes, message: bytes) -> bytes:
    prefix = hashlib.sha512(seed).digest()[32:]
    nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % L
    return answer(secret_scalar(seed), nonce, encode(times(nonce, B)), public_key(seed), message)


def answer(a: int, nonce: int, r: bytes, public: bytes, message: bytes) -> bytes:
    """R, and S = nonce + k·a mod L. Honest: R is [nonce]B."""
    return r + ((nonce + challenge(r, public, message) * a) % L).to_bytes(32, "little")


def verify(public: bytes, signature: bytes, message: bytes) -> None:
    key = check_key(public)
    if len(signature) != 64:
        raise RefusedError("signature")
    r, s = decode(signature[:32]), int.from_bytes(signature[32:], "little")
    if r is None or s >= L:
        raise RefusedError("signature")
    if times(s, B) != add(r, times(challenge(signature[:32], public, message), key)):
        raise RefusedError("signature")


def check_key(public: bytes) -> Point:
    """The point of a verify key, which 8 does not send to the identity."""
    if len(public) != 32:
        raise RefusedError("length")
    key = decode(public)
    if key is None or times(8, key) == IDENTITY:
        raise RefusedError("malformed")
    return key
