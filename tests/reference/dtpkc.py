"""DT-PKC from the paper's own formulas: slow, plain, and independent of the product.

No line here comes from `revfrf` or gmpy2, so that a test which compares the two compares two readings of
the paper. Every formula exists in the paper's form, `Paper(c1, c2)` with both parts mod N², and in the
compressed form of the project, `Compressed(c, g)` with g mod N. One relation ties them: x^N mod N² depends
on x mod N only, so with g = g0^N mod N² the paper's C2 = g^r is G^N mod N² for G = g0^r mod N (`expand`).

Nothing draws a random number: r, alpha, coins and nonces are arguments. What must be refused raises
`RefusedError` with the kind that the product must report.
"""

from math import gcd, lcm
from typing import NamedTuple, TypeVar


class RefusedError(Exception):
    """The input must be refused, with this kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Parameters(NamedTuple):
    """N, the generator g0 of the squares mod N, and the length E of exponents."""

    n: int
    g0: int
    exponent_bits: int

    @property
    def n2(self) -> int:
        return self.n * self.n

    @property
    def g(self) -> int:
        """The paper's generator: a^(2N) mod N² for g0 = a² mod N. (The paper's minus sign is left out.)"""
        return pow(self.g0, self.n, self.n2)


class Paper(NamedTuple):
    """The paper's [m]: C1 = pk^r·(1 + mN), C2 = g^r, both mod N²."""

    c1: int
    c2: int


class Compressed(NamedTuple):
    """The project's [m]: C is the paper's C1, and G = g0^r mod N."""

    c: int
    g: int


class Shares(NamedTuple):
    lambda1: int
    lambda2: int


Form = TypeVar("Form", Paper, Compressed)

# -- Numbers ----------------------------------------------------------------------------------------

SMALL_PRIMES = [n for n in range(2, 1000) if all(n % d for d in range(2, n))]


def is_prime(n: int, rounds: int = 8) -> bool:
    """Miller-Rabin to the first `rounds` primes as bases."""
    for prime in SMALL_PRIMES:
        if n % prime == 0:
            return n == prime
    if n < 2:
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in SMALL_PRIMES[:rounds]:
        x = pow(base, odd, n)
        if x != 1 and all(pow(x, 2**i, n) != n - 1 for i in range(twos)):
            return False
    return True


def is_safe_prime(p: int, rounds: int = 8) -> bool:
    """p and p' = (p-1)/2 are prime: cheap tests of both before the dear ones."""
    half = p // 2
    return p % 2 == 1 and all(is_prime(n, few) for few in (1, rounds) for n in (half, p))


def next_safe_prime(start: int) -> int:
    """The first safe prime from `start` on."""
    return next(p for p in range(start, 4 * start) if is_safe_prime(p))


def jacobi(x: int, n: int) -> int:
    """The Jacobi symbol (x|n) for odd n, by quadratic reciprocity."""
    x, sign = x % n, 1
    while x:
        while x % 2 == 0:
            x //= 2
            if n % 8 in (3, 5):
                sign = -sign
        if x % 4 == 3 and n % 4 == 3:
            sign = -sign
        x, n = n % x, x
    return sign if n == 1 else 0


def signed(n: int, residue: int) -> int:
    """v < 0 is written N - |v|."""
    return residue - n if residue > n // 2 else residue


def log_l(params: Parameters, w: int) -> int:
    """The paper's L(w) = (w - 1)/N, as a signed number; w must be 1 mod N."""
    if w % params.n != 1:
        raise RefusedError("decryption")
    return signed(params.n, (w % params.n2 - 1) // params.n)


def check_unit(params: Parameters, x: int, modulus: int) -> None:
    """0 < x < modulus, prime to N, Jacobi symbol +1."""
    if not 0 < x < modulus:
        raise RefusedError("out-of-range")
    if gcd(x, params.n) != 1:
        raise RefusedError("not-a-unit")
    if jacobi(x, params.n) != 1:
        raise RefusedError("jacobi")


def check_base(params: Parameters, x: int) -> None:
    """A unit mod N that is neither 1 nor -1."""
    check_unit(params, x, params.n)
    if x in (1, params.n - 1):
        raise RefusedError("trivial")


def check_ciphertext(params: Parameters, ciphertext: Compressed) -> None:
    check_unit(params, ciphertext.c, params.n2)
    check_base(params, ciphertext.g)


# -- Keys -------------------------------------------------------------------------------------------


def make_parameters(p: int, q: int, a: int, exponent_bits: int) -> Parameters:
    """N = pq and g0 = a² mod N, of order p'q': neither power p' nor q' of it is 1."""
    n = p * q
    g0 = a * a % n
    if p == q or gcd(a, n) != 1 or 1 in (pow(g0, p // 2, n), pow(g0, q // 2, n)):
        raise ValueError("p = q, or this a does not give a generator")
    return Parameters(n, g0, exponent_bits)


def paper_public_key(params: Parameters, sk: int) -> int:
    """The paper's h = g^sk mod N²."""
    return pow(params.g, sk, params.n2)


def public_key(params: Parameters, sk: int) -> int:
    """h = g0^sk mod N; the paper's is its N-th power mod N²."""
    return pow(params.g0, sk, params.n)


def paper_split(p: int, q: int, lambda1: int) -> Shares:
    """The paper's λ = λ1 + λ2. Wrong: see `strong_decrypt`."""
    return Shares(lambda1, lcm(p - 1, q - 1) - lambda1)


def strong_shares(p: int, q: int, lambda1: int) -> Shares:
    """λ1 + λ2 = S mod λN with S = 0 mod λ and S = 1 mod N."""
    n, lam = p * q, lcm(p - 1, q - 1)
    return Shares(lambda1, (lam * pow(lam, -1, n) - lambda1) % (lam * n))


# -- HoEnc, HReEnc, HEncRef -------------------------------------------------------------------------


def check_message(params: Parameters, m: int) -> None:
    """m in (-N/2, N/2)."""
    if not -params.n < 2 * m < params.n:
        raise RefusedError("range")


def ho_enc(params: Parameters, pk: int, m: int, r: int) -> Paper:
    """HoEnc: C1 = pk^r·(1 + mN), C2 = g^r mod N²; pk mod N², a joint key is the product of two."""
    check_message(params, m)
    return Paper(pow(pk, r, params.n2) * (1 + m * params.n) % params.n2, pow(params.g, r, params.n2))


def compressed_ho_enc(params: Parameters, h: int, m: int, r: int) -> Compressed:
    """HoEnc, compressed: C = (h^N)^r·(1 + mN) mod N², G = g0^r mod N."""
    check_message(params, m)
    h_lifted = pow(h, params.n, params.n2)
    return Compressed(
        pow(h_lifted, r, params.n2) * (1 + m % params.n * params.n) % params.n2, pow(params.g0, r, params.n)
    )


def expand(params: Parameters, ciphertext: Compressed) -> Paper:
    """The paper's form of a compressed ciphertext: C2 = G^N mod N²."""
    return Paper(ciphertext.c, pow(ciphertext.g, params.n, params.n2))


def h_re_enc(params: Parameters, sk_cs: int, ciphertext: Paper) -> Paper:
    """HReEnc: C1·C2^sk_CS, under pk_u + pk_CS."""
    return Paper(ciphertext.c1 * pow(ciphertext.c2, sk_cs, params.n2) % params.n2, ciphertext.c2)


def compressed_h_re_enc(params: Parameters, sk_cs: int, ciphertext: Compressed) -> Compressed:
    """HReEnc, compressed: C·(G^sk_CS mod N)^N. HEncRef is the same with r_p for sk_CS."""
    check_ciphertext(params, ciphertext)
    mask = pow(pow(ciphertext.g, sk_cs, params.n), params.n, params.n2)
    return Compressed(ciphertext.c * mask % params.n2, ciphertext.g)


def h_enc_ref(params: Parameters, r_p: int, ciphertext: Paper) -> Paper:
    """HEncRef: C1·C2^r_p; what opens it is sk + r_p."""
    return h_re_enc(params, r_p, ciphertext)


# -- ParHDec1, ParHDec2 -----------------------------------------------------------------------------


def par_h_dec1(params: Parameters, sk_u: int, ciphertext: Paper) -> Paper:
    """ParHDec1: {C1/C2^sk_u, C2}."""
    return Paper(ciphertext.c1 * pow(ciphertext.c2, -sk_u, params.n2) % params.n2, ciphertext.c2)


def par_h_dec2(params: Parameters, sk_cs: int, ciphertext: Paper) -> int:
    """ParHDec2: L(C1/C2^sk_CS). With the only key, or the sum of all keys, it is the whole decryption."""
    return log_l(params, par_h_dec1(params, sk_cs, ciphertext).c1)


def compressed_share(params: Parameters, sk_u: int, ciphertext: Compressed) -> int:
    """ParHDec1, compressed: z = G^sk_u mod N. The paper's answer is C1/z^N."""
    check_ciphertext(params, ciphertext)
    return pow(ciphertext.g, sk_u, params.n)


def compressed_par_h_dec2(params: Parameters, sk_cs: int, ciphertext: Compressed, *shares: int) -> int:
    """ParHDec2, compressed: L(C/(z·G^sk_CS)^N)."""
    root = compressed_share(params, sk_cs, ciphertext)
    for z in shares:
        check_unit(params, z, params.n)
        root = root * z % params.n
    return log_l(params, ciphertext.c * pow(root, -params.n, params.n2))


# -- The strong halves ------------------------------------------------------------------------------


def strong_half(params: Parameters, c: int, share: int) -> int:
    """P = C^λi mod N²."""
    check_unit(params, c, params.n2)
    return pow(c, share, params.n2)


def strong_open(params: Parameters, c: int, p1: int, lambda2: int) -> int:
    """m = L(P1·C^λ2)."""
    check_unit(params, p1, params.n2)
    return log_l(params, p1 * strong_half(params, c, lambda2))


def strong_decrypt(params: Parameters, c: int, shares: Shares) -> int:
    """L(C^λ1·C^λ2). If λ1 + λ2 = λ it is not m but m·λ mod N, because C^λ = (1 + mN)^λ = 1 + mλN."""
    return strong_open(params, c, strong_half(params, c, shares.lambda1), shares.lambda2)


def root_half(params: Parameters, c: int, lambda1: int) -> int:
    """The compressed first half: C^⌊λ1/N⌋ mod N, for a λ1 that is neither 0 nor 1 mod N."""
    check_unit(params, c, params.n2)
    return pow(c, lambda1 // params.n, params.n)


def root_open(params: Parameters, c: int, root1: int, lambda2: int) -> int:
    """m = L(C·(root1·C^(⌊λ2/N⌋+1))^N): the compressed second half.

    λi = N·ei + bi with b1 + b2 = 1 mod N and b1 not 0 or 1: b1 + b2 = N + 1, λ1 + λ2 = N(e1 + e2 + 1) + 1.
    So C^(λ1+λ2) = C·(C^e1·C^(e2+1))^N mod N², and an N-th power mod N² depends on its base mod N only. ∎
    """
    check_unit(params, root1, params.n)
    check_unit(params, c, params.n2)
    root = root1 * pow(c, lambda2 // params.n + 1, params.n) % params.n
    return log_l(params, c * pow(root, params.n, params.n2))


# -- Arithmetic under one key, in either form -------------------------------------------------------


def moduli(params: Parameters, ciphertext: Paper | Compressed) -> tuple[int, int]:
    return params.n2, params.n2 if isinstance(ciphertext, Paper) else params.n


def add(params: Parameters, x: Form, y: Form) -> Form:
    """[m1 + m2]: the componentwise product."""
    first, second = moduli(params, x)
    return type(x)(x[0] * y[0] % first, x[1] * y[1] % second)


def add_constant(params: Parameters, x: Form, constant: int) -> Form:
    """[m + constant]: C·(1 + constant·N)."""
    return type(x)(x[0] * (1 + constant * params.n) % params.n2, x[1])


def scale(params: Parameters, x: Form, k: int) -> Form:
    """[k·m]: both parts to the k; k = -1 takes the inverses."""
    first, second = moduli(params, x)
    return type(x)(pow(x[0], k, first), pow(x[1], k, second))


def paper_negate(params: Parameters, x: Form) -> Form:
    """The paper's [-m] = [m]^(N-1): another ciphertext of the same number as `scale(x, -1)`."""
    return scale(params, x, params.n - 1)


# -- HoAdd, HoLT ------------------------------------------------------------------------------------


class HoAddCoins(NamedTuple):
    """All that CS and CC draw in one HoAdd: two masks, and the r of four encryptions in the paper's order."""

    alpha1: int
    alpha2: int
    r: tuple[int, int, int, int]


def ho_add(
    params: Parameters, shares: Shares, pk: tuple[int, int], m: tuple[Paper, Paper], coins: HoAddCoins
) -> Paper:
    """HoAdd: [m1 + m2] under pk1 + pk2, through CC, which sees both numbers masked."""
    r1, r2, r3, r4 = coins.r
    alpha1, alpha2 = (signed(params.n, alpha) for alpha in (coins.alpha1, coins.alpha2))
    masked1 = add(params, m[0], ho_enc(params, pk[0], alpha1, r1))
    masked2 = add(params, m[1], ho_enc(params, pk[1], alpha2, r2))
    opened = strong_decrypt(params, masked1.c1, shares) + strong_decrypt(params, masked2.c1, shares)  # by CC
    joint = pk[0] * pk[1] % params.n2
    masked_sum = ho_enc(params, joint, signed(params.n, opened % params.n), r3)  # by CC
    alphas = ho_enc(params, joint, signed(params.n, (alpha1 + alpha2) % params.n), r4)
    return add(params, masked_sum, paper_negate(params, alphas))


def ho_lt(
    params: Parameters,
    shares: Shares,
    pk: tuple[int, int, int],
    m: tuple[Paper, Paper],
    *,
    alpha: int,
    mask: int,
    add_coins: HoAddCoins,
    r: tuple[int, int, int],
) -> Paper:
    """HoLT: [l] under pk_CS + pk_u2 with l = 1 iff m1 < m2, for pk = (pk_u1, pk_u2, pk_CS).

    The printed [m]²·[m], which is 3m, is corrected to [m]². `alpha` is CS's coin, `mask` its factor r; `r`
    are the exponents of the encryptions of 1, of l, and of the last 1.
    """
    pk1, pk2, pk_cs = pk
    odd = add(params, scale(params, m[0], 2), ho_enc(params, pk1, 1, r[0]))  # [2·m1 + 1]
    even = scale(params, m[1], 2)  # [2·m2]
    if alpha == 1:
        beta = ho_add(params, shares, (pk1, pk2), (odd, paper_negate(params, even)), add_coins)
    else:
        beta = ho_add(params, shares, (pk2, pk1), (even, paper_negate(params, odd)), add_coins)
    masked = scale(params, beta, mask)
    negative = strong_decrypt(params, masked.c1, shares) % params.n > params.n // 2  # by CC
    joint = pk_cs * pk2 % params.n2
    answer = ho_enc(params, joint, int(negative), r[1])  # by CC
    if alpha == 0:
        answer = add(params, ho_enc(params, joint, 1, r[2]), paper_negate(params, answer))
    return answer
