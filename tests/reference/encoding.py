"""Fixed point, and the bytes of a ciphertext."""

from tests.reference.dtpkc import Compressed, Parameters, RefusedError, check_ciphertext

BOUNDS = {32: 2**30, 64: 2**62}


def fixed_point(value: str, decimals: int, ring: int, clamp: bool) -> int:
    """The exact decimal number times 10^decimals, to the nearest integer, ties to the even one.

    It is below the ring's bound, or clamped. "nan" is missing.
    """
    bound = BOUNDS[ring]
    if value == "nan":
        return -bound
    if value in ("inf", "-inf"):
        raise RefusedError("range")
    digits, _, exponent = value.partition("e")
    whole, _, fraction = digits.lstrip("-").partition(".")
    power_of_ten = int(exponent or 0) - len(fraction) + decimals
    numerator: int = int(whole + fraction) * 10 ** max(power_of_ten, 0)
    denominator: int = 10 ** max(-power_of_ten, 0)
    magnitude, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and magnitude % 2 == 1):
        magnitude += 1
    if magnitude >= bound:
        if not clamp:
            raise RefusedError("range")
        magnitude = bound - 1
    return -magnitude if digits.startswith("-") else magnitude


def to_bytes(params: Parameters, ciphertext: Compressed) -> bytes:
    """C in 2|N| bits, then G in |N| bits, big-endian."""
    width = params.n.bit_length() // 8
    return ciphertext.c.to_bytes(2 * width, "big") + ciphertext.g.to_bytes(width, "big")


def from_bytes(params: Parameters, data: bytes) -> Compressed:
    width = params.n.bit_length() // 8
    if len(data) != 3 * width:
        raise RefusedError("length")
    ciphertext = Compressed(
        int.from_bytes(data[: 2 * width], "big"), int.from_bytes(data[2 * width :], "big")
    )
    check_ciphertext(params, ciphertext)
    return ciphertext
