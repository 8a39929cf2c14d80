"""Ed25519 signatures over canonical bytes.

What is signed is always a domain and fields, never loose bytes: a signature given for one purpose cannot be
shown for another.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from revfrf.crypto.canonical import Field, canonical, fingerprint
from revfrf.crypto.secret import Secret
from revfrf.errors import FormatError, SignatureError, UsageError

KEY_BYTES = 32
SIGNATURE_BYTES = 64

# The curve -x² + y² = 1 + d·x²·y² mod p (RFC 8032).
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


@dataclass(frozen=True, repr=False)
class VerifyKey:
    """The public half: 32 bytes that are a point of the curve, of large order.

    Raises FormatError for any other bytes. A point of small order is refused because everybody can sign
    for it, so its owner could deny whatever it signed.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if type(self.raw) is not bytes or len(self.raw) != KEY_BYTES:
            raise FormatError(f"a verify key is {KEY_BYTES} bytes", kind="length")
        if not _is_sound_point(self.raw):
            raise FormatError("a verify key must be a point of large order on the curve", kind="malformed")

    @property
    def fingerprint(self) -> str:
        """A name that people can compare."""
        return fingerprint("revfrf verify key v1", self.raw)

    def __str__(self) -> str:
        return self.fingerprint

    def __repr__(self) -> str:
        return f"VerifyKey({self.fingerprint})"

    def verify(self, signature: bytes | None, domain: str, *fields: Field) -> None:
        """Return only if `signature` is this key's, over exactly this domain and these fields.

        Raises SignatureError for everything else, an absent signature included.
        """
        if type(signature) is not bytes:
            raise SignatureError("the signature is absent, or not bytes")
        if len(signature) != SIGNATURE_BYTES:
            raise SignatureError(f"a signature is {SIGNATURE_BYTES} bytes, not {len(signature)}")
        try:
            message = canonical(domain, *fields)
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, UsageError):  # nobody can have signed what has no canonical bytes
            raise SignatureError(f"not a signature of key {self} for {domain!r}") from None


class SigningKey(Secret):
    """The secret half. Made by `generate`, or by `from_bytes` from what `export` gave."""

    __slots__ = ("_key", "verify_key")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.verify_key = VerifyKey(key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> Self:
        """A fresh key from the system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, seed: bytes) -> Self:
        """The key that `export` gave these 32 bytes for."""
        if type(seed) is not bytes or len(seed) != KEY_BYTES:
            del seed  # a traceback that prints locals must not print most of a key
            raise UsageError(f"a signing key is {KEY_BYTES} bytes")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def export(self) -> bytes:
        """Return the 32 secret bytes themselves, for a party's own store and nothing else."""
        return self._key.private_bytes_raw()

    def sign(self, domain: str, *fields: Field) -> bytes:
        """The 64 bytes that `verify_key.verify` accepts for exactly this domain and these fields."""
        return self._key.sign(canonical(domain, *fields))


@lru_cache(maxsize=1024)  # a party meets the same keys in every message
def _is_sound_point(raw: bytes) -> bool:
    """Return whether these bytes encode a point canonically, and not one of small order.

    The library below accepts any 32 bytes as a public key.
    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    square = y * y % _P
    # Orders 1 and 2 have y² = 1, order 4 has y = 0, and order 8 doubles to y = 0: there d·y⁴ + 2y² = 1.
    if y >= _P or square * (square - 1) * (_D * square * square + 2 * square - 1) % _P == 0:
        return False
    numerator, denominator = square - 1, _D * square + 1
    return pow(numerator * denominator, (_P - 1) // 2, _P) == 1  # x² = numerator / denominator is a square
