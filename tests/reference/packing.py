"""The packed HoLT as plain integers, straight from its definition.

Slot i of the packed plaintext, at 2^(iB), holds off + a·(r·β + r') for β = 2x - 2s - 1, the coin a = ±1 and
the masks 2^63 ≤ r < 2^64, |r'| < r. β is negative iff x ≤ s and never 0, and so is r·β + r'.
"""

from collections.abc import Sequence

from tests.reference.dtpkc import Parameters, RefusedError

SIGMA = 64
SLOT_BITS = 67 + SIGMA
OFFSET = 1 << (66 + SIGMA)
LARGEST = 1 << (64 + SIGMA)
"""|r·β + r'| stays below: |β| < 2^64 for numbers in [-2^62, 2^62), r·(|β| + 1) < 2^128, and |r'| < r."""


def capacity(params: Parameters) -> int:
    """Slots of one plaintext, which is positive and below N/2."""
    return (params.n.bit_length() - 2) // SLOT_BITS


def slot(x: int, s: int, coin: int, r: int, r_prime: int) -> int:
    beta = 2 * x - 2 * s - 1
    return OFFSET + coin * (r * beta + r_prime)


def pack(
    xs: Sequence[int], ss: Sequence[int], coins: Sequence[int], r: Sequence[int], rp: Sequence[int]
) -> int:
    """Σ slot_i·2^(iB)."""
    columns = zip(xs, ss, coins, r, rp, strict=True)
    return sum(slot(*column) << (i * SLOT_BITS) for i, column in enumerate(columns))


def read_slots(packed: int, count: int) -> list[int]:
    """What CC sees: 1 for a slot below off. A slot no honest CS can have made is refused."""
    if not 0 <= packed < 2 ** (count * SLOT_BITS):
        raise RefusedError("slot")
    bits = []
    for i in range(count):
        value = packed // 2 ** (i * SLOT_BITS) % 2**SLOT_BITS
        if value == OFFSET or abs(value - OFFSET) >= LARGEST:
            raise RefusedError("slot")
        bits.append(int(value < OFFSET))
    return bits


def undo_coins(bits: Sequence[int], coins: Sequence[int]) -> list[int]:
    """1 iff x ≤ s."""
    return [bit if coin == 1 else 1 - bit for bit, coin in zip(bits, coins, strict=True)]
