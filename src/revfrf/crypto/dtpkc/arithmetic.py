"""Modular arithmetic on big integers. The only module that knows gmpy2.

Plain Python ints go in and come out, so that no other module depends on a number type; the conversions
cost a microsecond against the milliseconds of a power. Single powers release the GIL, so threads scale;
table look-ups do not.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpz

from revfrf.crypto.secret import SecretInt
from revfrf.metering import count_power


def multiply(modulus: int, *factors: int) -> int:
    """The product of the factors mod `modulus`."""
    product, modulus = mpz(1), mpz(modulus)
    for factor in factors:
        product = product * factor % modulus
    return int(product)


def inverse(x: int, modulus: int) -> int:
    """x⁻¹ mod `modulus`; ZeroDivisionError if there is none (received elements are checked before)."""
    return int(gmpy2.invert(x, modulus))


def power(base: int, exponent: int, modulus: int) -> int:
    """base^exponent mod `modulus` for a public exponent."""
    count_power("public", modulus.bit_length())
    gmpy2.get_context().allow_release_gil = True
    return int(gmpy2.powmod(base, exponent, modulus))


def secret_power(base: int, exponent: SecretInt, modulus: int) -> int:
    """base^exponent mod `modulus` (odd) in time that does not depend on a positive exponent's bits."""
    count_power("secret", modulus.bit_length())
    gmpy2.get_context().allow_release_gil = True
    return int(gmpy2.powmod_sec(base, exponent.reveal(), modulus))


def jacobi(x: int, n: int) -> int:
    """The Jacobi symbol (x|n): 0 iff x and n share a factor."""
    return int(gmpy2.jacobi(x, n))


def is_prime(n: int) -> bool:
    """Baillie-PSW and further rounds of Miller-Rabin to random bases (GMP's test with 40 repetitions)."""
    return bool(gmpy2.is_prime(n, 40))


def may_be_prime(n: int) -> bool:
    """One Fermat test to base 2. Unlike gmpy2's own primality tests it releases the GIL."""
    return power(2, n - 1, n) == 1


class FixedBase:
    """Many powers of one base: a Lim-Lee comb of `teeth` × BLOCKS.

    The exponent's bits are laid out as `teeth` rows of `width` bits; a column of these bits indexes a table
    of products of base^(2^…). Cutting the rows into BLOCKS shares the squarings between them. At 2048 bits
    a power mod N² takes 104 multiplications and 13 squarings instead of some 1200, from a table of 4 MB.

    Mod N² an entry x is kept as a < N and t with x = a·(1 + tN): a product of entries is the product of the
    a's, half as long as x, times 1 + N·Σt, and a sum costs nothing.

    The table costs about BREAK_EVEN plain powers, and every tooth above TEETH doubles that. It is built when
    that many powers have been asked for: one power never pays for a table, and the total is at most twice
    the best possible.
    """

    TEETH, BLOCKS, AT_ONCE, WORTH_HALVING = 10, 8, 256, 2048
    BREAK_EVEN = 1 << (TEETH - 7)

    def __init__(self, base: int, modulus: int, exponent_bits: int, teeth: int = TEETH) -> None:
        self._base, self._modulus, self._teeth = mpz(base), mpz(modulus), teeth
        halves = self._modulus.bit_length() >= self.WORTH_HALVING and gmpy2.is_square(self._modulus)
        self._root = gmpy2.isqrt(self._modulus) if halves else mpz(0)
        self._depth = -(-exponent_bits // (teeth * self.BLOCKS))
        self._width = self._depth * self.BLOCKS
        self._asked = 0
        self._tables: tuple[list[list[mpz]], list[list[mpz]]] = ([], [])

    def powers(self, exponents: Iterable[int]) -> list[int]:
        """base^e mod modulus for each 0 < e < 2^exponent_bits."""
        exponents = list(exponents)
        self._asked += len(exponents)
        if not self._tables[0]:
            if self._asked < self.BREAK_EVEN << (self._teeth - self.TEETH):
                return [secret_power(int(self._base), SecretInt(e), int(self._modulus)) for e in exponents]
            self._tables = self._build()
        count_power("fixed base", self._modulus.bit_length(), len(exponents))
        gmpy2.get_context().allow_release_gil = False  # handing it over at every product costs too much
        power = self._power_mod_square if self._root else self._power
        return [int(power(columns)) for columns in self._columns(exponents)]

    def _power(self, columns: list[int]) -> mpz:
        modulus, table, depth = self._modulus, self._tables[0], self._depth
        result = mpz(1)
        for k in reversed(range(depth)):
            result = result * result % modulus
            for block, column in zip(table, columns[k::depth], strict=True):
                result = result * block[column] % modulus
        return result

    def _power_mod_square(self, columns: list[int]) -> mpz:
        modulus, depth = self._modulus, self._depth
        table, logs = self._tables
        pairs = list(zip(table[::2], table[1::2], logs[::2], logs[1::2], strict=True))
        result, log = mpz(1), mpz(0)
        for k in reversed(range(depth)):
            result = result * result % modulus
            log += log
            at = columns[k::depth]
            for (a, b, log_a, log_b), i, j in zip(pairs, at[::2], at[1::2], strict=True):
                result = result * (a[i] * b[j]) % modulus  # two half-long entries are as long as the result
                log += log_a[i] + log_b[j]
        return result * (1 + log % self._root * self._root) % modulus

    def _columns(self, exponents: list[int]) -> Iterator[list[int]]:
        """For each exponent, column j: its bits j, j + width, j + 2·width, …, the lowest first."""
        size, places = self._teeth * self._width, 1 << np.arange(self._teeth)
        length = -(-size // 8)
        for start in range(0, len(exponents), self.AT_ONCE):
            some = exponents[start : start + self.AT_ONCE]
            data = np.frombuffer(b"".join(e.to_bytes(length, "little") for e in some), dtype=np.uint8)
            bits = np.unpackbits(data.reshape(-1, length), axis=1, count=size, bitorder="little")
            yield from (places @ bits.reshape(-1, self._teeth, self._width)).tolist()

    def _build(self) -> tuple[list[list[mpz]], list[list[mpz]]]:
        """table[j][i]: the product over the set bits t of i of base^(2^(t·width + j·depth)).

        Mod N² that is its a, and in the second table its t.
        """
        strides = [self._base]
        for _ in range(self._teeth * self.BLOCKS - 1):
            stride = strides[-1]
            for _ in range(self._depth):
                stride = stride * stride % self._modulus
            strides.append(stride)
        blocks = [strides[j :: self.BLOCKS] for j in range(self.BLOCKS)]
        if not self._root:
            return [self._products(teeth) for teeth in blocks], []
        table, logs = zip(*(self._products_mod_square(teeth) for teeth in blocks), strict=True)
        return list(table), list(logs)

    def _products(self, teeth: list[mpz]) -> list[mpz]:
        block = [mpz(1)]
        for tooth in teeth:
            block += [entry * tooth % self._modulus for entry in block]
        return block

    def _products_mod_square(self, teeth: list[mpz]) -> tuple[list[mpz], list[mpz]]:
        """a and t of every product. Where a·a' = qN + r, it is r·(1 + (t + t' + q/r)·N)."""
        n = self._root
        block, logs, inverses = [mpz(1)], [mpz(0)], [mpz(1)]
        for tooth in teeth:
            quotient, a = divmod(tooth, n)
            inverse_a = gmpy2.invert(a, n)
            log = quotient * inverse_a % n
            products = [divmod(entry * a, n) for entry in block]
            inverses += [x * inverse_a % n for x in inverses]
            half = len(block)
            logs += [
                (t + log + q * x) % n for t, (q, _), x in zip(logs, products, inverses[half:], strict=True)
            ]
            block += [r for _, r in products]
        return block, logs


@lru_cache(maxsize=128)  # a hundred parties: 0.5 GB of tables at 2048 bits, 0.8 at 3072, if all are in use
def fixed_base(base: int, modulus: int, exponent_bits: int, teeth: int = FixedBase.TEETH) -> FixedBase:
    """The comb of this base, made once per process (bases are public)."""
    return FixedBase(base, modulus, exponent_bits, teeth)
