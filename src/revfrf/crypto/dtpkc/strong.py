"""The strong key: KGC splits it between CS and CC, who together open any ciphertext."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Literal

from revfrf.crypto.dtpkc.arithmetic import inverse, multiply, power, secret_power
from revfrf.crypto.dtpkc.dtpkc import open_with_root, with_answers
from revfrf.crypto.dtpkc.keys import Parameters, check_sizes
from revfrf.crypto.dtpkc.primes import SafePrimes, safe_primes
from revfrf.crypto.secret import Secret, SecretInt, hides_locals
from revfrf.errors import UsageError
from revfrf.parallel import in_threads

Server = Literal["CS", "CC"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class StrongShare(Secret):
    """λ1 (of CS) or λ2 (of CC): uniform alone; together ≡ 0 mod λ and ≡ 1 mod N."""

    parameters: Parameters
    server: Server
    value: SecretInt

    def __post_init__(self) -> None:
        if self.server not in ("CS", "CC"):
            raise UsageError("a strong share belongs to CS or CC")
        if not self.parameters.n <= self.value.reveal() < self.parameters.n_squared:
            raise UsageError("a strong share is a number in [N, N²)")

    @property
    def root_exponent(self) -> SecretInt:
        """This server's exponent in the compressed halves: ⌊λ1/N⌋, or ⌊λ2/N⌋ + 1.

        λ1 + λ2 ≡ 1 mod N, neither being 0 or 1 there: λ1 + λ2 = N·t + 1 with t = ⌊λ1/N⌋ + ⌊λ2/N⌋ + 1, and
        C^(λ1+λ2) = C·(C^t)^N. An N-th power mod N² depends on its base mod N only: C^t mod N is enough.
        """
        return SecretInt(self.value.reveal() // self.parameters.n + (self.server == "CC"))

    def __repr__(self) -> str:
        return f"<StrongShare of {self.server}: secret{self.parameters.label}>"


@dataclass(frozen=True, slots=True)
class SetUp:
    """A new modulus with its shares, as KGC hands them out. KGC itself keeps the parameters only."""

    parameters: Parameters
    cs_share: StrongShare
    cc_share: StrongShare


def set_up(
    key_bits: int = 3072, *, exponent_bits: int | None = None, allow_insecure: bool = False, n_jobs: int = -1
) -> SetUp:
    """A new modulus with its strong shares.

    `exponent_bits` (E) is half the key by default, which assumes nothing beyond DDH and factoring; 512 is
    the usual shorter choice. Less than 2048 bits, or E < 256, needs `allow_insecure=True` and is labelled
    INSECURE ever after.
    """
    exponent_bits = check_sizes(key_bits, exponent_bits, allow_insecure)
    return _deal(safe_primes(key_bits // 2, n_jobs=n_jobs), exponent_bits, allow_insecure)


def _deal(primes: SafePrimes, exponent_bits: int, allow_insecure: bool) -> SetUp:
    """`set_up` from given primes. λ lives in this frame only."""
    p, q = primes.p, primes.q
    n, lambda_ = p * q, (p - 1) * (q - 1) // 2  # λ = 2p'q'
    parameters = Parameters(n, _generator(primes), exponent_bits, allow_insecure)
    s = lambda_ * inverse(lambda_, n)
    lambda_1 = lambda_2 = 0
    while lambda_1 % n in (0, 1) or min(lambda_1, lambda_2) < n:  # never in practice; see root_exponent
        lambda_1 = secrets.randbelow(lambda_ * n)
        lambda_2 = (s - lambda_1) % (lambda_ * n)
    return SetUp(
        parameters,
        StrongShare(parameters, "CS", SecretInt(lambda_1)),
        StrongShare(parameters, "CC", SecretInt(lambda_2)),
    )


def _generator(primes: SafePrimes) -> int:
    """A random square mod N of full order p'q'."""
    n = primes.p * primes.q
    while True:
        a = 2 + secrets.randbelow(n - 3)
        g0 = a * a % n
        full = all(power(g0, (prime - 1) // 2, n) != 1 for prime in (primes.p, primes.q))
        if gcd(a, n) == 1 and full:
            return g0


# -- both halves as in the paper --------------------------------------------------------------------


def strong_half(share: StrongShare, c_parts: Sequence[int], *, n_jobs: int = -1) -> list[int]:
    """The first server's P1 = C^λ1 mod N² of each C."""
    return in_threads(partial(_half, share), c_parts, share.parameters.jobs(n_jobs))


@hides_locals
def strong_open(
    share: StrongShare, c_parts: Sequence[int], halves: Sequence[int], *, n_jobs: int = -1
) -> list[int]:
    """The second server's m = L(P1·C^λ2)."""
    p = share.parameters

    def finish(c: int, half: int) -> int:
        p.check_unit("half", half, p.n_squared)
        return p.log_l(multiply(p.n_squared, half, _half(share, c)))

    return with_answers(finish, p.jobs(n_jobs), c_parts, halves)


def _half(share: StrongShare, c: int) -> int:
    p = share.parameters
    p.check_unit("C", c, p.n_squared)
    return secret_power(c, share.value, p.n_squared)


# -- both halves in compressed form -----------------------------------------------------------------


def root_half(share: StrongShare, c_parts: Sequence[int], *, n_jobs: int = -1) -> list[int]:
    """Return this server's part of ρ⁻¹ mod N for each C = ρ^N·(1 + mN): a power mod N with half the exponent.

    With both parts the second server opens C by one public power: a third of the time of C^λ1·C^λ2, and a
    quarter fewer bytes. It then knows ρ besides m, so the sender must have put fresh randomness on C: its own
    encryption of zero. The packed HoLT always does.
    """
    return in_threads(partial(_root_half, share), c_parts, share.parameters.jobs(n_jobs))


@hides_locals
def root_open(
    share: StrongShare, c_parts: Sequence[int], halves: Sequence[int], *, n_jobs: int = -1
) -> list[int]:
    """The second server's m, from its own part and the first one's."""
    p = share.parameters

    def finish(c: int, half: int) -> int:
        p.check_unit("half", half, p.n)
        return open_with_root(p, c, multiply(p.n, half, _root_half(share, c)))

    return with_answers(finish, p.jobs(n_jobs), c_parts, halves)


def _root_half(share: StrongShare, c: int) -> int:
    p = share.parameters
    p.check_unit("C", c, p.n_squared)
    return secret_power(c % p.n, share.root_exponent, p.n)
