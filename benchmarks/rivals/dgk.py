"""DGK: encryption of small numbers that is quick to add and to test for zero.

Ivan Damgård, Martin Geisler, Mikkel Krøigaard, "Homomorphic encryption and secure comparison", International
Journal of Applied Cryptography 1(1), 2008, with their correction of 2009: u divides p-1 and q-1.

n = pq, p = 2·u·v_p·r_p + 1 and q likewise, with u a small prime, v_p and v_q primes of t bits; g has order
u·v_p·v_q and h has order v_p·v_q. An encryption of m mod u is g^m·h^r mod n. It holds 0 iff its power v_p is
1 mod p. Nothing is decrypted but that: the comparisons ask for no more.

Simplified: no check of received elements. Powers of h come from our fixed-base tables, as ours do.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from revfrf.crypto.dtpkc.arithmetic import FixedBase
from revfrf.errors import UsageError

SUBGROUP_BITS = {1024: 160, 2048: 224, 3072: 256}
"""t, twice the bits of security of the modulus; the authors' 160 for 1024."""


@dataclass(frozen=True)
class DgkPublicKey:
    """Encrypts, adds and multiplies by known numbers. A ciphertext is an mpz below n."""

    n: mpz
    g: mpz
    h: mpz
    u: int
    randomness_bits: int

    @property
    def ciphertext_bytes(self) -> int:
        return int(-(-self.n.bit_length() // 8))

    @cached_property
    def _h(self) -> FixedBase:
        return FixedBase(int(self.h), int(self.n), self.randomness_bits)

    @cached_property
    def _g(self) -> list[mpz]:
        powers = [mpz(1)]
        for _ in range(self.u - 1):
            powers.append(powers[-1] * self.g % self.n)
        return powers

    def zeros(self, count: int) -> list[mpz]:
        """Fresh encryptions of 0: what makes a ciphertext look like any other of its number."""
        exponents = [1 + secrets.randbelow((1 << self.randomness_bits) - 1) for _ in range(count)]
        return [mpz(power) for power in self._h.powers(exponents)]

    def encrypt(self, numbers: Sequence[int]) -> list[mpz]:
        """Of each number mod u."""
        return [
            zero * self.constant(m) % self.n
            for zero, m in zip(self.zeros(len(numbers)), numbers, strict=True)
        ]

    def constant(self, m: int) -> mpz:
        """m without randomness: hides nothing, and can be added to what does."""
        return self._g[m % self.u]

    def add(self, *ciphertexts: mpz) -> mpz:
        total = mpz(1)
        for ciphertext in ciphertexts:
            total = total * ciphertext % self.n
        return total

    def multiply(self, ciphertext: mpz, factor: int) -> mpz:
        return gmpy2.powmod(ciphertext, factor, self.n)

    def negate(self, ciphertext: mpz) -> mpz:
        return gmpy2.invert(ciphertext, self.n)


@dataclass(frozen=True, repr=False)
class DgkKey:
    """The secret key, with its public one."""

    public: DgkPublicKey
    p: mpz
    v_p: mpz

    @classmethod
    def generate(cls, key_bits: int, largest: int) -> "DgkKey":
        """A key of this size for numbers from 0 to `largest`."""
        u = int(gmpy2.next_prime(largest))
        t = SUBGROUP_BITS.get(key_bits, key_bits // 8)
        if key_bits // 2 < u.bit_length() + t + 16:
            raise UsageError(f"key_bits={key_bits}: too few for numbers up to {largest}; give more")
        (p, v_p), (q, v_q) = _prime(key_bits // 2, u, t), _prime(key_bits // 2, u, t)
        while q == p or v_q == v_p:
            q, v_q = _prime(key_bits // 2, u, t)
        g = _join(_element(p, (u, v_p)), p, _element(q, (u, v_q)), q)
        h = _join(_element(p, (v_p,)), p, _element(q, (v_q,)), q)
        return cls(DgkPublicKey(p * q, g, h, u, 5 * t // 2), p, v_p)

    def is_zero(self, ciphertext: mpz) -> bool:
        return bool(gmpy2.powmod_sec(ciphertext % self.p, self.v_p, self.p) == 1)


def _prime(bits: int, u: int, t: int) -> tuple[mpz, mpz]:
    """p of so many bits with its two top bits set, and v_p."""
    v = gmpy2.next_prime((1 << (t - 1)) + secrets.randbits(t - 1))
    low, high = (mpz(3) << (bits - 2)) // (2 * u * v) + 1, (mpz(1) << bits) // (2 * u * v)
    while True:
        r = gmpy2.next_prime(low + secrets.randbelow(int(high - low)))
        p = 2 * u * v * r + 1
        if p.bit_length() == bits and gmpy2.is_prime(p, 40):
            return p, v


def _element(p: mpz, orders: tuple[mpz | int, ...]) -> mpz:
    """A random element mod p whose order is the product of these primes."""
    order = mpz(1)
    for prime in orders:
        order *= prime
    while True:
        x = gmpy2.powmod(2 + secrets.randbelow(int(p) - 3), (p - 1) // order, p)
        if all(gmpy2.powmod(x, order // prime, p) != 1 for prime in orders):
            return x


def _join(x: mpz, p: mpz, y: mpz, q: mpz) -> mpz:
    """The number mod pq that is x mod p and y mod q."""
    return (x + p * ((y - x) * gmpy2.invert(p, q) % q)) % (p * q)
