"""Fixed point: the integers x̂ that represent a column's numbers in the protocol.

The rule, for every number of every type: **x̂ is the exact value of x times 10^decimals, rounded to the
nearest integer, ties to the even one**, and |x̂| < 2^62. The exact value of a float is what its bits say, so
float32, float64, integers, Decimal and Fraction agree whenever they hold the same number, and training and
prediction agree on every row. The float 2.675 is a little less than Decimal("2.675"), and may round
differently at decimals=2: they are two numbers.

Missing is -2^62, which no number reaches and which is below every number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from revfrf.errors import RangeError, UsageError

BOUND = 2**62
MISSING = -BOUND
MAX_DECIMALS = 18

_SPLITTER = 2.0**27 + 1  # cuts a float64 into two halves of at most 26 bits (Veltkamp)
_ALL_INTEGERS = 2.0**53  # from here on every float64 is an even integer, and its product may have lost bits


@dataclass(frozen=True)
class FixedPoint:
    """The fixed point of one column.

    `name` is what errors call it, for example "party 'bank', column 'income'".

    >>> income = FixedPoint(decimals=2, name="party 'bank', column 'income'")
    >>> income.encode([1.25, None, -3]).tolist()
    [125, -4611686018427387904, -300]
    """

    decimals: int
    name: str = "column"

    def __post_init__(self) -> None:
        if type(self.decimals) is not int or not 0 <= self.decimals <= MAX_DECIMALS:
            raise UsageError(
                f"{self.name}: `decimals` must be an int from 0 to {MAX_DECIMALS}, not {self.decimals!r}"
            )

    @property
    def scale(self) -> int:
        """10^decimals."""
        return int(10**self.decimals)

    def encode(self, values: ArrayLike | Sequence[object]) -> NDArray[np.int64]:
        """The x̂ of one column of numbers; MISSING for None, NaN, NaT, NA and masked values.

        Raises RangeError for an infinite number or |x̂| ≥ 2^62, and UsageError for what is not a number; both
        name the column, the row (counted from 0), the value, and what to do.
        """
        if isinstance(values, Sequence) and not isinstance(values, str | bytes):
            # Value by value: the common type that numpy would choose rounds large integers to floats.
            return self._encode_objects(list(values))
        array = np.asanyarray(values)
        if array.ndim != 1:
            raise UsageError(f"{self.name}: expected one column of values, got {array.ndim} dimensions")
        kind = "O" if isinstance(array, np.ma.MaskedArray) else array.dtype.kind
        if kind in "biu":
            return self._encode_integers(array)
        if kind == "f" and array.dtype.itemsize <= 8:
            return self._encode_floats(array.astype(np.float64))
        # Iterated, not converted: numpy turns dates of some units into integers.
        return self._encode_objects(list(array))

    def _encode_integers(self, array: NDArray[Any]) -> NDArray[np.int64]:
        limit = (BOUND - 1) // self.scale
        outside = (array > limit) | (array < -limit)  # before the product, which would wrap
        if outside.any():
            row = int(outside.argmax())
            raise self._range_error(row, int(array[row]))
        return array.astype(np.int64) * self.scale

    def _encode_floats(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """The rule, vectorised. 10^decimals is exact in float64, so `product` is wrong by one rounding only.

        That rounding cannot move a value across a half-integer, which is a float64 itself; it can move it
        *onto* one. So `rint(product)` is right except at products that are half-integers, and at those too
        large for a fraction. There the rounding error, computed exactly, decides.
        """
        scale = float(self.scale)
        missing = np.isnan(x)
        with np.errstate(all="ignore"):
            product = np.where(missing, 0.0, x) * scale
            outside = ~(np.abs(product) <= BOUND)
            product[outside] = 0.0
            nearest = np.rint(product)
            codes = nearest.astype(np.int64)
            rest = product - nearest
            doubtful = np.flatnonzero((np.abs(rest) == 0.5) | (np.abs(product) >= _ALL_INTEGERS))
            if doubtful.size:
                codes[doubtful] += _correction(x[doubtful], scale, product[doubtful], rest[doubtful])
                outside |= np.abs(codes) >= BOUND
        if outside.any():
            row = int(outside.argmax())
            raise self._range_error(row, float(x[row]))
        codes[missing] = MISSING
        return codes

    def _encode_objects(self, values: list[Any]) -> NDArray[np.int64]:
        if set(map(type, values)) <= {float, np.float64, type(None)}:
            return self._encode_floats(np.array(values, dtype=np.float64))
        return np.array([self._encode_one(row, x) for row, x in enumerate(values)], dtype=np.int64)

    def _encode_one(self, row: int, x: Any) -> int:
        """The rule, as it is written at the top of this module."""
        if _is_missing(x):
            return MISSING
        try:
            numerator, denominator = _exact_ratio(x)
        except OverflowError:
            raise self._range_error(row, x) from None
        except TypeError:
            raise UsageError(
                f"{self.name}, row {row}: {_shown(x)} is not a number; use None or NaN if it is missing"
            ) from None
        code, rest = divmod(numerator * self.scale, denominator)
        if 2 * rest > denominator or (2 * rest == denominator and code % 2):
            code += 1
        if abs(code) >= BOUND:
            raise self._range_error(row, x)
        return code

    def _range_error(self, row: int, x: Any) -> RangeError:
        where = f"{self.name}, row {row}: {_shown(x)}"
        if x in (np.inf, -np.inf):
            return RangeError(f"{where} is not finite; replace it by a number, or by NaN if it is missing")
        advice = (
            "lower `decimals`" if -BOUND < x < BOUND else "rescale the column, no `decimals` is low enough"
        )
        return RangeError(
            f"{where} is outside the fixed-point range at decimals={self.decimals} "
            f"(|x| must be below {BOUND / self.scale:.3g}); {advice}"
        )


def _correction(
    x: NDArray[np.float64], scale: float, product: NDArray[np.float64], rest: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return round(exact x·scale) - rint(product), given rest = product - rint(product).

    Dekker's product: x·scale = product + error without any rounding, given that nothing over- or underflows,
    which holds for ½ ≤ |product| ≤ 2^62.
    """
    x_high, x_low = _halves(x)
    scale_high, scale_low = _halves(np.float64(scale))
    error = x_high * scale_high - product
    error += x_high * scale_low
    error += x_low * scale_high
    error += x_low * scale_low
    # A large product is even, so that rounding its error to even rounds the sum to even.
    steps = np.where(np.abs(product) >= _ALL_INTEGERS, np.rint(error), 0.0)
    steps += (rest == 0.5) & (error > 0)
    steps -= (rest == -0.5) & (error < 0)
    return steps.astype(np.int64)


def _halves(x: Any) -> tuple[Any, Any]:
    shifted = x * _SPLITTER
    high = shifted - (shifted - x)
    return high, x - high


def _is_missing(x: Any) -> bool:
    if x is None:
        return True
    if isinstance(x, Decimal):
        return x.is_nan()  # a signalling NaN does not even compare
    if _is_integer(x):
        return False
    same = x == x
    # NaN and NaT differ from themselves; pandas.NA and numpy.ma.masked answer with themselves.
    return same is x or (isinstance(same, bool | np.bool_) and not same)


def _is_integer(x: Any) -> bool:
    # numpy counts durations among the integers, and booleans not
    return isinstance(x, Integral | np.bool_) and not isinstance(x, np.timedelta64)


def _exact_ratio(x: Any) -> tuple[int, int]:
    """Numerator and denominator; OverflowError for the infinite, TypeError for anything but a real number."""
    if _is_integer(x):
        return int(x), 1
    if isinstance(x, Decimal) and x.is_finite() and abs(x.adjusted()) > 40:
        # Far out of range or far below the last decimal: do not spell out a million zeros.
        if x and x.adjusted() > 0:
            raise OverflowError
        return 0, 1
    if isinstance(x, float | np.floating | Decimal | Fraction):
        numerator, denominator = x.as_integer_ratio()
        return int(numerator), int(denominator)
    raise TypeError


def _shown(x: Any) -> str:
    """A value as an error shows it: short, whatever it is."""
    try:
        text = str(x) if isinstance(x, Integral | Fraction | Decimal | float | np.number) else repr(x)
    except ValueError:  # Python refuses to print integers of thousands of digits
        return f"{type(x).__name__} of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
