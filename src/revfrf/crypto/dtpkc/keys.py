"""The values of DT-PKC: public parameters, weak keys, ciphertexts. All input is checked here.

Made by `revfrf.crypto.dtpkc.strong.set_up` and `WeakKey.generate`; used by `revfrf.crypto.dtpkc.dtpkc`.
"""

import secrets
from dataclasses import dataclass, field

from revfrf.crypto.canonical import fingerprint
from revfrf.crypto.dtpkc.arithmetic import jacobi, multiply, power, secret_power
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.errors import DecryptionError, ElementError, FormatError, InsecureKeyError, UsageError
from revfrf.parallel import workers

SECURE_KEY_BITS = 2048
SECURE_EXPONENT_BITS = 256
SMALLEST_KEY_BITS, LARGEST_KEY_BITS = 64, 16384


@dataclass(frozen=True, slots=True, repr=False)
class Ciphertext:
    """[m] = (C, G). It does not say under which key: its holder keeps track of that."""

    c: int
    g: int

    def __repr__(self) -> str:
        return f"<Ciphertext {fingerprint('revfrf ciphertext v1', self.c, self.g)}>"

    def __reduce__(self) -> tuple[type["Ciphertext"], tuple[int, int]]:
        """Worker processes send thousands of these; what a dataclass does by itself is slow."""
        return Ciphertext, (self.c, self.g)

    def to_bytes(self, parameters: "Parameters") -> bytes:
        """C in 2|N| bits, then G in |N| bits, big-endian."""
        width = parameters.key_bits // 8
        return self.c.to_bytes(2 * width, "big") + self.g.to_bytes(width, "big")

    @classmethod
    def from_bytes(cls, parameters: "Parameters", data: bytes) -> "Ciphertext":
        """The ciphertext in these bytes, checked."""
        ciphertext = cls.unchecked(parameters, data)
        parameters.check(ciphertext)
        return ciphertext

    @classmethod
    def unchecked(cls, parameters: "Parameters", data: bytes) -> "Ciphertext":
        """Return the ciphertext in these bytes, to be passed to a function that checks it."""
        width = parameters.key_bits // 8
        if len(data) != 3 * width:
            raise FormatError(f"a ciphertext takes {3 * width} bytes, not {len(data)}", kind="length")
        return cls(int.from_bytes(data[: 2 * width], "big"), int.from_bytes(data[2 * width :], "big"))


@dataclass(frozen=True, slots=True, repr=False)
class Parameters:
    """The public values: the modulus N, the generator g0 of its squares, and the exponents' length E."""

    n: int
    g0: int
    exponent_bits: int
    allow_insecure: bool = field(default=False, compare=False)
    n_squared: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_sizes(self.key_bits, self.exponent_bits, self.allow_insecure)
        if self.n < 0 or self.n % 2 == 0:
            raise ElementError("the modulus is not a positive odd number", kind="out-of-range")
        object.__setattr__(self, "n_squared", self.n * self.n)
        self.check_base("generator", self.g0)

    @property
    def key_bits(self) -> int:
        """|N|."""
        return self.n.bit_length()

    @property
    def ciphertext_bytes(self) -> int:
        """The size of a ciphertext in bytes."""
        return 3 * (self.key_bits // 8)

    @property
    def plaintext_bits(self) -> int:
        """The number of bits that a positive plaintext, one below N/2, can hold."""
        return self.key_bits - 2

    @property
    def insecure(self) -> bool:
        """Whether these keys protect nothing: toys for tests, simulations, and the paper's 1024 bits."""
        return self.key_bits < SECURE_KEY_BITS or self.exponent_bits < SECURE_EXPONENT_BITS

    @property
    def label(self) -> str:
        """The warning that is shown with these parameters."""
        return " INSECURE" if self.insecure else ""

    @property
    def fingerprint(self) -> str:
        """A name that people can compare."""
        return fingerprint("revfrf parameters v1", self.n, self.g0, self.exponent_bits)

    def __repr__(self) -> str:
        return f"<Parameters {self.fingerprint}: {self.key_bits} bits, E={self.exponent_bits}{self.label}>"

    def jobs(self, n_jobs: int) -> int:
        """Return the number of workers for powers of this size: below 1024 bits, one is enough."""
        jobs = workers(n_jobs)
        return jobs if self.key_bits >= 1024 else 1

    def random_exponent(self) -> int:
        """A secret for a key or an encryption: an even number in [2, 2^E).

        Even, because ±1 cannot be told apart in the group: a key published as -h, or an element sent as -x,
        has the same even powers, so that its sign shows nobody's parity and spoils nobody's ciphertext.
        """
        return 2 * (1 + secrets.randbelow((1 << (self.exponent_bits - 1)) - 1))

    def lift(self, x: int) -> int:
        """x^N mod N²."""
        return power(x, self.n, self.n_squared)

    def signed(self, residue: int) -> int:
        """The integer in (-N/2, N/2) that this residue mod N represents."""
        return residue if residue <= self.n // 2 else residue - self.n

    def log_l(self, w: int) -> int:
        """The paper's L: m of w = 1 + mN, signed. A w of another form was not opened by the right key."""
        if w % self.n != 1:
            raise DecryptionError("the key, a share or the ciphertext is not the right one")
        return self.signed((w - 1) // self.n)

    def check_unit(self, name: str, x: int, modulus: int) -> None:
        """Refuse a number that is not in (0, modulus) or not prime to N, or whose Jacobi symbol is not +1.

        Every honest element is a square, whose symbol is +1; a symbol of -1 would let a decrypter's answer
        tell one bit of its exponent.
        """
        if not 0 < x < modulus:
            raise ElementError(f"{name} is outside its group's range", kind="out-of-range")
        symbol = jacobi(x, self.n)
        if symbol == 0:
            raise ElementError(f"{name} shares a factor with N", kind="not-a-unit")
        if symbol != 1:
            raise ElementError(f"{name} has Jacobi symbol -1", kind="jacobi")

    def check_base(self, name: str, x: int) -> None:
        """`check_unit` mod N, and not ±1, whose powers hide nothing."""
        self.check_unit(name, x, self.n)
        if x in (1, self.n - 1):
            raise ElementError(f"{name} is 1 or -1", kind="trivial")

    def check(self, ciphertext: Ciphertext) -> None:
        """Refuse a received ciphertext that no honest party can have made."""
        self.check_unit("C", ciphertext.c, self.n_squared)
        self.check_base("G", ciphertext.g)


def check_sizes(key_bits: int, exponent_bits: int | None, allow_insecure: bool) -> int:
    """The exponents' length E, half the key unless given.

    Refuses sizes that cannot work, and, without the switch, sizes that protect nothing.
    """
    if type(key_bits) is not int or not SMALLEST_KEY_BITS <= key_bits <= LARGEST_KEY_BITS or key_bits % 16:
        limits = f"{SECURE_KEY_BITS} to {LARGEST_KEY_BITS} ({SMALLEST_KEY_BITS} or more in tests)"
        raise UsageError(f"key_bits={key_bits!r}: give a multiple of 16 from {limits}; 3072 is the default")
    if exponent_bits is None:
        exponent_bits = key_bits // 2
    if type(exponent_bits) is not int or not 16 <= exponent_bits <= key_bits:
        raise UsageError(
            f"exponent_bits={exponent_bits!r}: give 16 to key_bits={key_bits}; the default is half"
        )
    for what, bits, least, default in (
        ("keys", key_bits, SECURE_KEY_BITS, "3072"),
        ("exponents", exponent_bits, SECURE_EXPONENT_BITS, "half the key"),
    ):
        if bits < least and not allow_insecure:
            raise InsecureKeyError(
                f"{bits}-bit {what} protect nothing; use {least} or more ({default} is the default), or, in "
                "tests and simulations, allow_insecure=True (allow_insecure_keys=True for an estimator)"
            )
    return exponent_bits


@dataclass(frozen=True, slots=True, repr=False)
class PublicKey:
    """h = g0^sk mod N, and its encryptions' base H = h^N mod N². `a + b` is the paper's joint key pk_Σ."""

    parameters: Parameters
    h: int
    lifted: int = field(default=0, compare=False, kw_only=True)  # H, if it is known already

    def __post_init__(self) -> None:
        self.parameters.check_base("public key", self.h)
        if not self.lifted:
            object.__setattr__(self, "lifted", self.parameters.lift(self.h))

    def __add__(self, other: "PublicKey") -> "PublicKey":
        """Return the joint key; a ciphertext under it opens only with both owners."""
        if other.parameters != self.parameters:
            raise UsageError("keys of different parameters cannot be joined; both must be of one epoch")
        p = self.parameters
        lifted = multiply(p.n_squared, self.lifted, other.lifted)  # a lift of a product is the lifts' product
        return PublicKey(p, multiply(p.n, self.h, other.h), lifted=lifted)

    def __repr__(self) -> str:
        return f"<PublicKey {fingerprint('revfrf public key v1', self.h)}{self.parameters.label}>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class WeakKey(Secret):
    """A party's own key: sk, an even number (see `Parameters.random_exponent`), and its public half."""

    parameters: Parameters
    sk: SecretInt
    public: PublicKey = field(init=False)

    def __post_init__(self) -> None:
        p = self.parameters
        if not 2 <= self.sk.reveal() < 1 << p.exponent_bits or self.sk.reveal() % 2:
            raise UsageError("a weak key is an even number of at most exponent_bits bits")
        object.__setattr__(self, "public", PublicKey(p, secret_power(p.g0, self.sk, p.n)))

    @classmethod
    def generate(cls, parameters: Parameters) -> "WeakKey":
        """A new key; only its public half ever leaves its owner."""
        return cls(parameters, SecretInt(parameters.random_exponent()))

    def __repr__(self) -> str:
        return f"<WeakKey: secret{self.parameters.label}>"
