"""DT-PKC in compressed form: the functions of the paper's appendix A.

A ciphertext of m under h = g0^sk is (C, G) with G = g0^r mod N and C = H^r·(1 + mN) mod N², H = h^N mod N².
The paper's C2 is G^N mod N²: the same scheme, a quarter smaller, and nobody can choose a C2 that reads a
key out of a decrypter, because the only thing ever raised to a weak key is a number mod N.

Everything rests on one map, x ↦ x^N mod N² (`Parameters.lift`), which depends on x mod N only: a ciphertext
is the lift of h^r times 1 + mN, and to open it is to find that root h^r and divide its lift out.

The paper's functions keep its names, take lists and use all cores (`n_jobs` as in joblib). Those that apply a
secret to a received element check it first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import index

from revfrf.crypto.dtpkc.arithmetic import fixed_base, inverse, multiply, secret_power
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters, PublicKey, WeakKey
from revfrf.crypto.secret import SecretInt, hides_locals
from revfrf.errors import FormatError, RangeError, UsageError
from revfrf.parallel import in_processes, in_threads

_TEETH_OF_G0 = 12
"""All keys of an epoch share this base, so that its table may be larger than a key's own."""

# -- HoEnc ------------------------------------------------------------------------------------------


def ho_enc(key: PublicKey, messages: Sequence[int], *, n_jobs: int = -1) -> list[Ciphertext]:
    """HoEnc: fresh encryptions of signed integers in (-N/2, N/2).

    An encryption of m is an encryption of zero plus m, and only the zeros cost time: worker processes make
    them without seeing a message. A zero used for two messages would show their difference to everybody.
    """
    p = key.parameters
    plain = _integers(messages, p.n // 2)
    seconds = 0.8e-3 * (p.key_bits / 2048) ** 3
    zeros = in_processes(partial(_fresh_zeros, key), len(plain), p.jobs(n_jobs), seconds)
    return [add_constant(p, zero, m) for zero, m in zip(zeros, plain, strict=True)]


def _integers(messages: Sequence[int], limit: int) -> list[int]:
    """The messages as Python integers, which numpy's are not; a float would encrypt to garbage."""
    try:
        plain = [index(m) for m in messages]
    except TypeError:
        raise UsageError("messages are integers; encode other numbers with a FixedPoint first") from None
    for position, m in enumerate(plain):
        if not -limit <= m <= limit:
            raise RangeError(
                f"message {position} is outside (-N/2, N/2): it has {m.bit_length()} bits; use a longer key"
            )
    return plain


def _fresh_zeros(key: PublicKey, count: int) -> list[Ciphertext]:
    p = key.parameters
    exponents = [p.random_exponent() for _ in range(count)]
    lifts = fixed_base(key.lifted, p.n_squared, p.exponent_bits).powers(exponents)
    bases = fixed_base(p.g0, p.n, p.exponent_bits, _TEETH_OF_G0).powers(exponents)
    return [Ciphertext(c, g) for c, g in zip(lifts, bases, strict=True)]


# -- arithmetic on ciphertexts: needs no key, one at a time ------------------------------------------


def add(parameters: Parameters, first: Ciphertext, *more: Ciphertext) -> Ciphertext:
    """[m1 + m2 + …] of ciphertexts under one key."""
    return Ciphertext(
        multiply(parameters.n_squared, first.c, *(term.c for term in more)),
        multiply(parameters.n, first.g, *(term.g for term in more)),
    )


def add_constant(parameters: Parameters, ciphertext: Ciphertext, constant: int) -> Ciphertext:
    """[m + constant]. The randomness stays the same."""
    shift = 1 + index(constant) % parameters.n * parameters.n
    return Ciphertext(multiply(parameters.n_squared, ciphertext.c, shift), ciphertext.g)


def negate(parameters: Parameters, ciphertext: Ciphertext) -> Ciphertext:
    """[-m]: two inverses (the paper's power N-1 costs hundreds of times as much)."""
    return Ciphertext(inverse(ciphertext.c, parameters.n_squared), inverse(ciphertext.g, parameters.n))


def scale(parameters: Parameters, ciphertext: Ciphertext, factor: int) -> Ciphertext:
    """[m·factor] for a factor other than zero, in a time that depends on its sign and length only."""
    parameters.check(ciphertext)
    if factor == 0:
        raise UsageError("times zero would leave a ciphertext that hides nothing; encrypt 0 instead")
    base = negate(parameters, ciphertext) if factor < 0 else ciphertext
    exponent = SecretInt(abs(index(factor)))
    return Ciphertext(
        secret_power(base.c, exponent, parameters.n_squared), secret_power(base.g, exponent, parameters.n)
    )


# -- HReEnc, HEncRef --------------------------------------------------------------------------------


def h_re_enc(key: WeakKey, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1) -> list[Ciphertext]:
    """HReEnc: from [m] under h_u to [m] under h_u·h, with the second key's secret."""
    return h_enc_ref(key.parameters, key.sk, ciphertexts, n_jobs=n_jobs)


def h_enc_ref(
    parameters: Parameters, r: SecretInt, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1
) -> list[Ciphertext]:
    """HEncRef: from [m] under sk to [m] under sk + r. The strong shares open it all the same."""
    if not isinstance(r, SecretInt) or r.reveal() <= 0:
        raise UsageError("HEncRef needs a positive r, as a SecretInt")
    return in_threads(partial(_shift_key, parameters, r), ciphertexts, parameters.jobs(n_jobs))


def _shift_key(parameters: Parameters, secret: SecretInt, ciphertext: Ciphertext) -> Ciphertext:
    parameters.check(ciphertext)
    mask = parameters.lift(secret_power(ciphertext.g, secret, parameters.n))
    return Ciphertext(multiply(parameters.n_squared, ciphertext.c, mask), ciphertext.g)


# -- ParHDec1, ParHDec2 -----------------------------------------------------------------------------


def par_h_dec1(key: WeakKey, ciphertexts: Sequence[Ciphertext], *, n_jobs: int = -1) -> list[int]:
    """ParHDec1: this owner's shares z = G^sk mod N, which take its key off the ciphertexts."""
    return in_threads(partial(_share, key), ciphertexts, key.parameters.jobs(n_jobs))


def _share(key: WeakKey, ciphertext: Ciphertext) -> int:
    key.parameters.check(ciphertext)
    return secret_power(ciphertext.g, key.sk, key.parameters.n)


@hides_locals
def par_h_dec2(
    key: WeakKey, ciphertexts: Sequence[Ciphertext], *shares: Sequence[int], n_jobs: int = -1
) -> list[int]:
    """ParHDec2: the messages of ciphertexts under joint keys, decrypted by the last of their owners.

    `shares` are the other owners' `par_h_dec1`, one list per owner. Without any, this decrypts what is under
    `key` alone.
    """
    p = key.parameters

    def finish(ciphertext: Ciphertext, *others: int) -> int:
        for z in others:
            p.check_unit("share", z, p.n)
        root = multiply(p.n, _share(key, ciphertext), *others)
        return open_with_root(p, ciphertext.c, inverse(root, p.n))

    return with_answers(finish, p.jobs(n_jobs), ciphertexts, *shares)


def open_with_root(parameters: Parameters, c: int, inverse_root: int) -> int:
    """m of C = ρ^N·(1 + mN), given ρ⁻¹ mod N: how both the weak and the strong keys end a decryption."""
    return parameters.log_l(multiply(parameters.n_squared, c, parameters.lift(inverse_root)))


def with_answers(
    finish: Callable[..., int], n_jobs: int, ciphertexts: Sequence[object], *answers: Sequence[int]
) -> list[int]:
    """`finish` of each ciphertext with its answers. Refuses a peer's list that does not answer each once."""
    for answer in answers:
        if len(answer) != len(ciphertexts):
            raise FormatError(f"{len(answer)} answers for {len(ciphertexts)} ciphertexts", kind="length")
    return in_threads(lambda one: finish(*one), list(zip(ciphertexts, *answers, strict=True)), n_jobs)
