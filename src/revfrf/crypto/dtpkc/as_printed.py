"""HoAdd and HoLT, step by step as in the appendix A.2: the baseline, and the oracle for the packed HoLT.

They compute 2m + 1 and 2m, where the paper's [m]²·[m] gives 3m, and test β' > N/2 for its ‖β'‖ > ‖N‖/2. CS
drives. It asks CC through two callables, so that a test can call the other side directly, and a benchmark can
put bytes in between. Not for production: CC, who encrypted the sum, can test guesses of |β| against r·β.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from revfrf.crypto.dtpkc.dtpkc import add, add_constant, ho_enc, negate, scale
from revfrf.crypto.dtpkc.keys import Ciphertext, PublicKey
from revfrf.crypto.dtpkc.strong import StrongShare, strong_half, strong_open
from revfrf.errors import UsageError


@dataclass(frozen=True, slots=True)
class Term:
    """A ciphertext and the key that it is under."""

    key: PublicKey
    value: Ciphertext


COMPARABLE_KEY_BITS = 96
"""So that r·β, of |N|/4 + 65 bits, stays below N/2 for numbers in [-2^62, 2^62)."""

AskSum = Callable[[Sequence[int], Sequence[int], PublicKey], Ciphertext]
"""CS → CC: two masked C parts, their strong halves, and the key for the sum."""

AskSign = Callable[[int, int, PublicKey], Ciphertext]
"""CS → CC: the masked difference's C part, its strong half, and the key for the answer."""


def ho_add(share: StrongShare, term_1: Term, term_2: Term, ask_sum: AskSum) -> Ciphertext:
    """HoAdd, the side of CS: [m1]_{u1} and [m2]_{u2} become [m1 + m2] under the joint key."""
    p = share.parameters
    c_parts, alphas = [], []
    for term in (term_1, term_2):
        p.check(term.value)
        alphas.append(p.signed(secrets.randbelow(p.n)))
        masked = add(p, term.value, *ho_enc(term.key, alphas[-1:], n_jobs=1))  # [m + α] = [m]·[α]
        c_parts.append(masked.c)
    halves = strong_half(share, c_parts, n_jobs=1)  # P1' and P1''
    total = ask_sum(c_parts, halves, term_1.key + term_2.key)
    p.check(total)  # [M] = [m1 + m2 + α1 + α2]
    return add_constant(p, total, -sum(alphas))


def cc_ho_add(
    share: StrongShare, c_parts: Sequence[int], halves: Sequence[int], joint_key: PublicKey
) -> Ciphertext:
    """HoAdd, the side of CC: it sees the sum of two masked messages."""
    p = share.parameters
    masked_sum = sum(strong_open(share, c_parts, halves, n_jobs=1))
    return ho_enc(joint_key, [p.signed(masked_sum % p.n)], n_jobs=1)[0]


def ho_lt(
    share: StrongShare, cs_key: PublicKey, term_1: Term, term_2: Term, ask_sum: AskSum, ask_sign: AskSign
) -> Ciphertext:
    """HoLT, the side of CS: [1] under h_CS·h_{u2} if m1 < m2, else [0]."""
    p = share.parameters
    if p.key_bits < COMPARABLE_KEY_BITS:
        raise UsageError(f"{p.key_bits}-bit keys are too short to compare; use {COMPARABLE_KEY_BITS} or more")
    for term in (term_1, term_2):
        p.check(term.value)
    left = add(p, term_1.value, term_1.value, *ho_enc(term_1.key, [1], n_jobs=1))  # [2·m1 + 1]
    right = add(p, term_2.value, term_2.value)  # [2·m2]
    coin = secrets.randbits(1)  # α
    if coin:
        right = negate(p, right)
    else:
        left = negate(p, left)
    difference = ho_add(share, Term(term_1.key, left), Term(term_2.key, right), ask_sum)  # [β]
    r = 1 + secrets.randbelow((1 << (p.key_bits // 4 - 1)) - 1)  # ‖r‖ < ‖N‖/4
    masked = scale(p, difference, r)  # [β'] = [β]^r
    [half] = strong_half(share, [masked.c], n_jobs=1)
    answer_key = cs_key + term_2.key
    answer = ask_sign(masked.c, half, answer_key)  # [l]
    p.check(answer)
    if coin:
        return answer
    return add(p, negate(p, answer), *ho_enc(answer_key, [1], n_jobs=1))  # [1 - l]


def cc_ho_lt(share: StrongShare, c: int, half: int, answer_key: PublicKey) -> Ciphertext:
    """HoLT, the side of CC: it sees r·β with a coin's sign, and answers whether it is negative."""
    [masked] = strong_open(share, [c], [half], n_jobs=1)
    return ho_enc(answer_key, [int(masked < 0)], n_jobs=1)[0]
