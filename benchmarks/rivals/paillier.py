"""Paillier's encryption by python-paillier, on whole numbers: what the rivals add and open.

Pascal Paillier, "Public-key cryptosystems based on composite degree residuosity classes", EUROCRYPT 1999.
Its number encoding is left out, so that nothing is timed but the scheme.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import phe
from gmpy2 import mpz


@dataclass(frozen=True, repr=False)
class Paillier:
    """A key pair. A ciphertext is an mpz below n²; numbers are mod n."""

    public: Any
    private: Any

    @classmethod
    def generate(cls, key_bits: int) -> "Paillier":
        return cls(*phe.generate_paillier_keypair(n_length=key_bits))

    @cached_property
    def _square(self) -> mpz:
        return mpz(self.public.nsquare)

    @property
    def n(self) -> int:
        return int(self.public.n)

    @property
    def ciphertext_bytes(self) -> int:
        return int(-(-self.public.nsquare.bit_length() // 8))

    def encrypt(self, number: int) -> mpz:
        return mpz(self.public.raw_encrypt(number % self.n))

    def decrypt(self, ciphertext: mpz) -> int:
        return int(self.private.raw_decrypt(int(ciphertext)))

    def constant(self, number: int) -> mpz:
        """A number without randomness: hides nothing, and can be added to what does."""
        return mpz(1 + number % self.n * self.n)

    def add(self, x: mpz, y: mpz) -> mpz:
        return x * y % self._square

    def multiply(self, x: mpz, factor: int) -> mpz:
        return gmpy2.powmod(x, factor, self._square)

    def negate(self, x: mpz) -> mpz:
        return gmpy2.invert(x, self._square)

    def random_factor(self) -> int:
        return 1 + secrets.randbelow(self.n - 1)
