"""DT-PKC in compressed form: the cryptosystem under everything else (the paper's section 4 and appendix A).

A ciphertext of m under h = g0^sk is (C, G) with G = g0^r mod N and C = H^r·(1 + mN) mod N², H = h^N mod N².
The paper's C2 is G^N mod N²: the same scheme, a quarter smaller, and nobody can choose a C2 that reads a
key out of a decrypter, because the only thing ever raised to a weak key is a number mod N.

Everything rests on one map, x ↦ x^N mod N² (`Parameters.lift`), which depends on x mod N only: a ciphertext
is the lift of h^r times 1 + mN, and to open it is to find that root h^r and divide its lift out.

Functions keep the paper's names, take lists, and use all cores (`n_jobs` as in joblib). Those that apply a
secret to a received element check it first.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from revfrf.crypto.arithmetic import fixed_base, inverse, jacobi, multiply, power, secret_power
from revfrf.crypto.canonical import digest
from revfrf.crypto.parallel import in_processes, in_threads
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.errors import (
    DecryptionError,
    ElementError,
    FormatError,
    InsecureKeyError,
    RangeError,
    UsageError,
)

SECURE_KEY_BITS = 2048
SECURE_EXPONENT_BITS = 256
SMALLEST_KEY_BITS = 64


@dataclass(frozen=True, slots=True, repr=False)
class Parameters:
    """What everybody knows: the modulus N, the generator g0 of its squares, and the exponents' length E."""

    n: int
    g0: int
    exponent_bits: int
    allow_insecure: bool = field(default=False, compare=False)
    n_squared: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_sizes(self.key_bits, self.exponent_bits, self.allow_insecure)
        if self.n < 0 or self.n % 2 == 0:
            raise ElementError("out-of-range", "the modulus is not a positive odd number")
        object.__setattr__(self, "n_squared", self.n * self.n)
        self.check_base("generator", self.g0)

    @property
    def key_bits(self) -> int:
        return self.n.bit_length()

    @property
    def insecure(self) -> bool:
        """Whether these keys protect nothing: toys for tests, simulations, and the paper's 1024 bits."""
        return self.key_bits < SECURE_KEY_BITS or self.exponent_bits < SECURE_EXPONENT_BITS

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that name these parameters."""
        return digest("revfrf parameters v1", self.n, self.g0, self.exponent_bits).hex()[:16]

    def __repr__(self) -> str:
        label = " INSECURE" if self.insecure else ""
        return f"<Parameters {self.fingerprint}: {self.key_bits} bits, E={self.exponent_bits}{label}>"

    def to_fields(self) -> dict[str, str]:
        """As named strings, for key files."""
        return {"n": f"{self.n:x}", "g0": f"{self.g0:x}", "exponent_bits": f"{self.exponent_bits:x}"}

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], allow_insecure: bool) -> "Parameters":
        n, g0, exponent_bits = (int(fields[name], 16) for name in ("n", "g0", "exponent_bits"))
        return cls(n, g0, exponent_bits, allow_insecure)

    def random_exponent(self) -> int:
        """A secret for a key or an encryption: an even number in [2, 2^E).

        Even, because ±1 cannot be told apart in the group: a key published as -h, or an element sent as -x,
        has the same even powers, so that its sign shows nobody's parity and spoils nobody's ciphertext.
        """
        return 2 * (1 + secrets.randbelow((1 << (self.exponent_bits - 1)) - 1))

    def lift(self, x: int) -> int:
        """x^N mod N²."""
        return power(x, self.n, self.n_squared)

    def check_unit(self, name: str, x: int, modulus: int) -> None:
        """Refuse a number that is not in (0, modulus) or not prime to N, or whose Jacobi symbol is not +1.

        Every honest element is a square, whose symbol is +1; a symbol of -1 would let a decrypter's answer
        tell one bit of its exponent.
        """
        if not 0 < x < modulus:
            raise ElementError("out-of-range", f"{name} is outside its group's range")
        symbol = jacobi(x, self.n)
        if symbol == 0:
            raise ElementError("not-a-unit", f"{name} shares a factor with N")
        if symbol != 1:
            raise ElementError("jacobi", f"{name} has Jacobi symbol -1")

    def check_base(self, name: str, x: int) -> None:
        """`check_unit` mod N, and not ±1, whose powers hide nothing."""
        self.check_unit(name, x, self.n)
        if x in (1, self.n - 1):
            raise ElementError("trivial", f"{name} is 1 or -1")

    def check(self, ciphertext: "Ciphertext") -> None:
        """Refuse a received ciphertext that no honest party can have made."""
        self.check_unit("C", ciphertext.c, self.n_squared)
        self.check_base("G", ciphertext.g)

    def signed(self, residue: int) -> int:
        """The integer in (-N/2, N/2) that this residue mod N stands for."""
        return residue if residue <= self.n // 2 else residue - self.n

    def message(self, w: int) -> int:
        """m of w = 1 + mN mod N², signed; a w of another form was not opened by the right key."""
        if w % self.n != 1:
            raise DecryptionError("decryption", "the key, a share or the ciphertext is not the right one")
        return self.signed((w - 1) // self.n)


def check_sizes(key_bits: int, exponent_bits: int, allow_insecure: bool) -> None:
    """Refuse sizes that cannot work, and, without the switch, sizes that protect nothing."""
    if key_bits < SMALLEST_KEY_BITS or key_bits % 16:
        raise UsageError(f"key_bits={key_bits}: give a multiple of 16, at least {SMALLEST_KEY_BITS}")
    if not 16 <= exponent_bits <= key_bits:
        raise UsageError(
            f"exponent_bits={exponent_bits}: give 16 to key_bits={key_bits}; the default is half"
        )
    if allow_insecure:
        return
    if key_bits < SECURE_KEY_BITS:
        raise InsecureKeyError(
            f"{key_bits}-bit keys protect nothing; use {SECURE_KEY_BITS} or more (3072 is the default), "
            "or say allow_insecure=True in tests and simulations"
        )
    if exponent_bits < SECURE_EXPONENT_BITS:
        raise InsecureKeyError(
            f"{exponent_bits}-bit exponents protect nothing; use {SECURE_EXPONENT_BITS} or more (half the "
            "key is the default), or say allow_insecure=True in tests and simulations"
        )


@dataclass(frozen=True, slots=True)
class Ciphertext:
    """[m] = (C, G). It does not say under which key: that is the business of whoever stores it."""

    c: int
    g: int

    def to_bytes(self, parameters: Parameters) -> bytes:
        """C in 2|N| bits, then G in |N| bits, big-endian."""
        width = parameters.key_bits // 8
        return self.c.to_bytes(2 * width, "big") + self.g.to_bytes(width, "big")

    @classmethod
    def from_bytes(cls, parameters: Parameters, data: bytes) -> "Ciphertext":
        """The ciphertext in these bytes, checked."""
        width = parameters.key_bits // 8
        if len(data) != 3 * width:
            raise FormatError("length", f"a ciphertext takes {3 * width} bytes, not {len(data)}")
        ciphertext = cls(int.from_bytes(data[: 2 * width], "big"), int.from_bytes(data[2 * width :], "big"))
        parameters.check(ciphertext)
        return ciphertext


@dataclass(frozen=True, slots=True, repr=False)
class PublicKey:
    """h = g0^sk mod N, and its encryptions' base H = h^N mod N². `a + b` is the paper's joint key pk_Σ."""

    parameters: Parameters
    h: int
    lifted: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.parameters.check_base("public key", self.h)
        object.__setattr__(self, "lifted", self.parameters.lift(self.h))

    def __add__(self, other: "PublicKey") -> "PublicKey":
        """Whoever opens a ciphertext under this key needs both owners."""
        if other.parameters != self.parameters:
            raise UsageError("keys of different parameters cannot be joined; both must be of one epoch")
        return PublicKey(self.parameters, multiply(self.parameters.n, self.h, other.h))

    def __repr__(self) -> str:
        label = " INSECURE" if self.parameters.insecure else ""
        return f"<PublicKey {digest('revfrf public key v1', self.h).hex()[:16]}{label}>"


@dataclass(frozen=True, slots=True, repr=False)
class WeakKey(Secret):
    """A party's own key sk: an even number of E bits, see `Parameters.random_exponent`."""

    kind: ClassVar[str] = "weak-key"
    parameters: Parameters
    sk: SecretInt

    def __post_init__(self) -> None:
        if not 2 <= self.sk.reveal() < 1 << self.parameters.exponent_bits or self.sk.reveal() % 2:
            raise UsageError("a weak key is an even number of at most exponent_bits bits")

    @classmethod
    def generate(cls, parameters: Parameters) -> "WeakKey":
        return cls(parameters, SecretInt(parameters.random_exponent()))

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.parameters, secret_power(self.parameters.g0, self.sk, self.parameters.n))

    def to_fields(self) -> dict[str, str]:
        """The key itself, for key files."""
        return {**self.parameters.to_fields(), "sk": f"{self.sk.reveal():x}"}

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], allow_insecure: bool) -> "WeakKey":
        return cls(Parameters.from_fields(fields, allow_insecure), SecretInt(int(fields["sk"], 16)))

    def __repr__(self) -> str:
        return f"<WeakKey: secret{', INSECURE' if self.parameters.insecure else ''}>"


# -- HoEnc ------------------------------------------------------------------------------------------


def ho_enc(
    key: PublicKey,
    messages: Sequence[int],
    *,
    zeros: Sequence[Ciphertext] | None = None,
    n_jobs: int = -1,
) -> list[Ciphertext]:
    """HoEnc: fresh encryptions of signed integers in (-N/2, N/2).

    An encryption of m is an encryption of zero plus m, and only the zeros cost time: they can come from a
    `ZeroPool`, and worker processes make them without seeing a message. Never use a zero twice.
    """
    limit = key.parameters.n // 2
    for position, m in enumerate(messages):
        if not -limit <= m <= limit:
            raise RangeError(
                f"message {position} is outside (-N/2, N/2): {m.bit_length()} bits; use a longer key"
            )
    if zeros is None:
        zeros = zero_encryptions(key, len(messages), n_jobs=n_jobs)
    return [add_constant(key.parameters, zero, m) for zero, m in zip(zeros, messages, strict=True)]


def zero_encryptions(key: PublicKey, count: int, *, n_jobs: int = -1) -> list[Ciphertext]:
    """Fresh encryptions of zero: pairs (H^r, g0^r) that nobody else may ever see."""
    return in_processes(partial(_fresh_zeros, key), count, n_jobs)


def _fresh_zeros(key: PublicKey, count: int) -> list[Ciphertext]:
    return _zeros_from(key, [key.parameters.random_exponent() for _ in range(count)])


def _zeros_from(key: PublicKey, exponents: Sequence[int]) -> list[Ciphertext]:
    """The encryptions of zero with these r: where randomness enters, so that test vectors are possible."""
    p = key.parameters
    lifts = fixed_base(key.lifted, p.n_squared, p.exponent_bits).powers(exponents)
    bases = fixed_base(p.g0, p.n, p.exponent_bits).powers(exponents)
    return [Ciphertext(c, g) for c, g in zip(lifts, bases, strict=True)]


# -- arithmetic on ciphertexts: needs no key --------------------------------------------------------


def add(parameters: Parameters, *terms: Ciphertext) -> Ciphertext:
    """[m1 + m2 + …] of ciphertexts under one key."""
    return Ciphertext(
        multiply(parameters.n_squared, *(term.c for term in terms)),
        multiply(parameters.n, *(term.g for term in terms)),
    )


def add_constant(parameters: Parameters, ciphertext: Ciphertext, constant: int) -> Ciphertext:
    """[m + constant]. The randomness stays the same."""
    shift = 1 + constant % parameters.n * parameters.n
    return Ciphertext(multiply(parameters.n_squared, ciphertext.c, shift), ciphertext.g)


def negate(parameters: Parameters, ciphertext: Ciphertext) -> Ciphertext:
    """[-m]: two inverses (the paper's power N-1 costs hundreds of times as much)."""
    return Ciphertext(inverse(ciphertext.c, parameters.n_squared), inverse(ciphertext.g, parameters.n))


def scale(parameters: Parameters, ciphertext: Ciphertext, factor: SecretInt | int) -> Ciphertext:
    """[m·factor] for a factor other than zero; a SecretInt is applied in constant time."""
    k = factor.reveal() if isinstance(factor, SecretInt) else factor
    if k == 0:
        raise UsageError("times zero would leave a ciphertext that hides nothing; encrypt 0 instead")
    base = negate(parameters, ciphertext) if k < 0 else ciphertext
    exponent = SecretInt(abs(k))
    return Ciphertext(
        secret_power(base.c, exponent, parameters.n_squared), secret_power(base.g, exponent, parameters.n)
    )


# -- HReEnc, HEncRef --------------------------------------------------------------------------------


def h_re_enc(key: WeakKey, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1) -> list[Ciphertext]:
    """HReEnc: from [m] under h_u to [m] under h_u·h, with the second key's secret."""
    return in_threads(partial(_shift_key, key.parameters, key.sk), ciphertexts, n_jobs)


def h_enc_ref(
    parameters: Parameters, r: SecretInt, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1
) -> list[Ciphertext]:
    """HEncRef: from [m] under sk to [m] under sk + r. The strong shares open it all the same."""
    if r.reveal() <= 0:
        raise UsageError("HEncRef needs a positive r")
    return in_threads(partial(_shift_key, parameters, r), ciphertexts, n_jobs)


def _shift_key(parameters: Parameters, secret: SecretInt, ciphertext: Ciphertext) -> Ciphertext:
    parameters.check(ciphertext)
    mask = parameters.lift(secret_power(ciphertext.g, secret, parameters.n))
    return Ciphertext(multiply(parameters.n_squared, ciphertext.c, mask), ciphertext.g)


# -- ParHDec1, ParHDec2 -----------------------------------------------------------------------------


def par_h_dec1(key: WeakKey, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1) -> list[int]:
    """ParHDec1: this owner's shares z = G^sk mod N, which take its key off the ciphertexts."""
    p = key.parameters

    def share(ciphertext: Ciphertext) -> int:
        p.check(ciphertext)
        return secret_power(ciphertext.g, key.sk, p.n)

    return in_threads(share, ciphertexts, n_jobs)


def par_h_dec2(
    key: WeakKey, ciphertexts: Sequence[Ciphertext], *shares: Sequence[int], n_jobs: int = -1
) -> list[int]:
    """ParHDec2: the messages, from the last key and the other owners' `par_h_dec1` shares, a list each."""
    p = key.parameters
    if any(len(owner) != len(ciphertexts) for owner in shares):
        raise FormatError("length", "an owner's list of shares is not as long as the list of ciphertexts")

    def finish(job: tuple[Ciphertext, tuple[int, ...]]) -> int:
        ciphertext, others = job
        p.check(ciphertext)
        for z in others:
            p.check_unit("share", z, p.n)
        root = multiply(p.n, secret_power(ciphertext.g, key.sk, p.n), *others)
        return open_with_root(p, ciphertext.c, inverse(root, p.n))

    by_ciphertext = [tuple(owner[i] for owner in shares) for i in range(len(ciphertexts))]
    return in_threads(finish, list(zip(ciphertexts, by_ciphertext, strict=True)), n_jobs)


def open_with_root(parameters: Parameters, c: int, inverse_root: int) -> int:
    """m of C = ρ^N·(1 + mN), given ρ⁻¹ mod N: how both the weak and the strong keys end a decryption."""
    return parameters.message(multiply(parameters.n_squared, c, parameters.lift(inverse_root)))
