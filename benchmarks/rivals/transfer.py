"""1-of-n oblivious transfer: the receiver gets one message, and the sender does not learn which.

Tung Chou, Claudio Orlandi, "The simplest protocol for oblivious transfer", LATINCRYPT 2015, for curious but
honest parties, in the squares of the 2048-bit group of RFC 3526.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import gmpy2
from gmpy2 import mpz

MESSAGE_BYTES = 8
ELEMENT_BYTES = 256
_BASE = mpz(4)
_EXPONENT_BITS = 256


def _rfc3526() -> mpz:
    """2^2048 - 2^1984 - 1 + 2^64·(⌊2^1918·π⌋ + 124476)."""
    with gmpy2.context(precision=2200):
        digits = mpz(gmpy2.floor(gmpy2.mul_2exp(gmpy2.const_pi(), 1918)))
    return (mpz(1) << 2048) - (mpz(1) << 1984) - 1 + ((digits + 124476) << 64)


MODULUS = _rfc3526()


@dataclass(frozen=True, repr=False)
class Sender:
    """Holds the messages, each below 2^64."""

    secret: int
    offer: mpz

    @classmethod
    def start(cls) -> "Sender":
        secret = 1 + secrets.randbits(_EXPONENT_BITS)
        return cls(secret, gmpy2.powmod(_BASE, secret, MODULUS))

    def seal(self, choice: mpz, messages: Sequence[int]) -> list[int]:
        """Every message under its own pad, of which the receiver can make one."""
        shared = gmpy2.powmod(choice, self.secret, MODULUS)
        step = gmpy2.invert(gmpy2.powmod(self.offer, self.secret, MODULUS), MODULUS)
        sealed = []
        for number, message in enumerate(messages):
            sealed.append(message ^ _pad(shared, number))
            shared = shared * step % MODULUS
        return sealed


@dataclass(frozen=True, repr=False)
class Receiver:
    """Wants message `number`."""

    number: int
    secret: int
    offer: mpz

    @classmethod
    def start(cls, number: int, offer: mpz) -> "Receiver":
        return cls(number, 1 + secrets.randbits(_EXPONENT_BITS), offer)

    def choice(self) -> mpz:
        chosen = gmpy2.powmod(self.offer, self.number, MODULUS)
        return chosen * gmpy2.powmod(_BASE, self.secret, MODULUS) % MODULUS

    def open(self, sealed: Sequence[int]) -> int:
        return sealed[self.number] ^ _pad(gmpy2.powmod(self.offer, self.secret, MODULUS), self.number)


def _pad(shared: mpz, number: int) -> int:
    digest = sha256(int(shared).to_bytes(ELEMENT_BYTES) + number.to_bytes(8)).digest()
    return int.from_bytes(digest[:MESSAGE_BYTES])
