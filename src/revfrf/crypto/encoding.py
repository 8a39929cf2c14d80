"""Fixed point: the integers x̂ that represent a column's numbers in the protocol.

The rule, for every number of every type: **x̂ is the exact value of x times 10^decimals, rounded to the
nearest integer, ties to the even one**. The exact value of a float is what its bits say, so float32, float64,
integers, Decimal and Fraction agree whenever they hold the same number, and training and prediction agree on
every row. The float 2.675 is a little less than Decimal("2.675"), and may round differently at decimals=2:
they are two numbers.

A column has a ring of k = 32 or 64 bits: |x̂| < 2^(k-2), and missing is -2^(k-2), below every number.
`FixedPoint.derive` finds decimals and ring for the values of a training column.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from revfrf.errors import RangeError, UsageError

Ring = Literal[32, 64]
"""The bits of a column's integers."""

MAX_DECIMALS = 18

_SPLITTER = 2.0**27 + 1  # cuts a float64 into two halves of at most 26 bits (Veltkamp)
_ALL_INTEGERS = 2.0**53  # from here on every float64 is an even integer, and its product may have lost bits
_FAR = 400  # a Decimal beyond 10^±400 is out of range or below the last decimal, however far
_SAMPLE = 1000
_AT_ONCE = 2**13  # floats; what lies between the steps stays in the processor's cache


def bound(ring: Ring) -> int:
    """What every |x̂| of a column is below."""
    return 1 << (ring - 2)


def missing(ring: Ring) -> int:
    """The x̂ of a missing value."""
    return -bound(ring)


@dataclass(frozen=True)
class FixedPoint:
    """The fixed point of one column.

    `name` is what errors call it, for example "party 'bank', column 'income'".

    >>> income = FixedPoint(decimals=2, ring=32, name="party 'bank', column 'income'")
    >>> income.encode([1.25, None, -3]).tolist()
    [125, -1073741824, -300]
    """

    decimals: int
    ring: Ring
    name: str = "column"

    def __post_init__(self) -> None:
        if type(self.decimals) is not int or not 0 <= self.decimals <= MAX_DECIMALS:
            raise UsageError(
                f"{self.name}: `decimals` must be an int from 0 to {MAX_DECIMALS}, not {self.decimals!r}"
            )
        if self.ring not in get_args(Ring):
            raise UsageError(f"{self.name}: `ring` must be 32 or 64, not {self.ring!r}")

    @classmethod
    def derive(
        cls, values: ArrayLike | Sequence[object], name: str = "column", decimals: int | None = None
    ) -> "FixedPoint":
        """Return the fixed point of a training column, which depends on the set of its present values alone.

        Decimals, unless given, are the fewest with which every x is exact: x̂/10^decimals, as a number of the
        type of x, is x again. If none that fit 64 bits do, the fewest with which distinct values stay
        distinct; if none do either, as many as fit, with a UserWarning. The ring is the smallest that holds
        all.

        Raises RangeError and UsageError as `encode` does.

        >>> FixedPoint.derive([1.25, None, -3])
        FixedPoint(decimals=2, ring=32, name='column')
        """
        lowest = cls(0 if decimals is None else decimals, 64, name)
        column = lowest._column(values)
        lowest.encode(column)  # raises for a number that does not fit
        numbers = _present(column)
        if not numbers.size:
            return cls(lowest.decimals, 32, name)
        comparable = _comparable(numbers)
        largest = max(abs(Fraction(*_exact_ratio(x))) for x in (comparable.min(), comparable.max()))
        if decimals is None:
            most = max(c for c in range(MAX_DECIMALS + 1) if round(largest * 10**c) < bound(64))
            with np.errstate(all="ignore"):
                decimals = _derive_decimals(numbers, comparable, most, name)
        return cls(decimals, 32 if round(largest * 10**decimals) < bound(32) else 64, name)

    @property
    def scale(self) -> int:
        """10^decimals."""
        return int(10**self.decimals)

    def encode(self, values: ArrayLike | Sequence[object], *, clamp: bool = False) -> NDArray[np.int64]:
        """The x̂ of one column of numbers; `missing(ring)` for None, NaN, NaT, NA and masked values.

        Raises RangeError for an infinite number or an |x̂| that does not fit the ring, and UsageError for what
        is not a number; both name the column, the row (counted from 0), the value, and what to do. With
        `clamp`, for rows that come after training, finite numbers that do not fit become the nearest that do:
        all thresholds lie between, so comparisons stay right.
        """
        column = self._column(values)
        if column.dtype.kind == "O":
            codes = [self._encode_one(row, x, clamp) for row, x in enumerate(column)]
            return np.array(codes, dtype=np.int64)
        encode = self._encode_floats if column.dtype.kind == "f" else self._encode_integers
        return encode(column, clamp)

    def _column(self, values: ArrayLike | Sequence[object]) -> NDArray[Any]:
        """Return an array of integers, of floats, or of objects."""
        if isinstance(values, Sequence) and not isinstance(values, str | bytes):
            return _array(list(values))
        array = np.asanyarray(values)
        if array.ndim != 1:
            raise UsageError(f"{self.name}: expected one column of values, got {array.ndim} dimensions")
        plain = array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8)
        if plain and not isinstance(array, np.ma.MaskedArray):
            return array
        # Iterated, not converted: numpy turns dates of some units into integers.
        return _array(list(array))

    def _encode_integers(self, array: NDArray[Any], clamp: bool) -> NDArray[np.int64]:
        limit = (bound(self.ring) - 1) // self.scale
        outside = (array > limit) | (array < -limit)  # before the product, which would wrap
        codes = np.where(outside, 0, array).astype(np.int64) * self.scale
        self._settle(array, codes, outside, clamp, 0)
        return codes

    def _encode_floats(self, array: NDArray[Any], clamp: bool) -> NDArray[np.int64]:
        codes = np.empty(len(array), np.int64)
        for begin in range(0, len(array), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            codes[some] = self._encode_some_floats(array[some], clamp, begin)
        return codes

    def _encode_some_floats(self, array: NDArray[Any], clamp: bool, first_row: int) -> NDArray[np.int64]:
        """The rule, vectorised. 10^decimals is exact in float64, so `product` is wrong by one rounding only.

        That rounding cannot move a value across a half-integer, which is a float64 itself; it can move it
        *onto* one. So `rint(product)` is right except at products that are half-integers, and at those too
        large for a fraction. There the rounding error, computed exactly, decides.
        """
        x, scale, limit = array.astype(np.float64, copy=False), float(self.scale), bound(self.ring)
        absent = np.isnan(x)
        with np.errstate(all="ignore"):
            product = x * scale
            outside = ~(np.abs(product) <= limit)
            if outside.any():
                product[outside] = 0.0
                outside &= ~absent
            nearest = np.rint(product)
            codes = nearest.astype(np.int64)
            rest = product - nearest
            doubtful = np.flatnonzero((np.abs(rest) == 0.5) | (np.abs(product) >= _ALL_INTEGERS))
            if doubtful.size:
                codes[doubtful] += _correction(x[doubtful], scale, product[doubtful], rest[doubtful])
            outside |= np.abs(codes) >= limit
        if absent.any():
            codes[absent] = missing(self.ring)
        self._settle(x, codes, outside, clamp, first_row)
        return codes

    def _settle(
        self,
        x: NDArray[Any],
        codes: NDArray[np.int64],
        outside: NDArray[np.bool_],
        clamp: bool,
        first_row: int,
    ) -> None:
        """Clamp the codes of what is outside the range. Raises RangeError if it must not be."""
        if not outside.any():
            return
        refused = outside & np.isinf(x) if clamp else outside
        if refused.any():
            row = int(refused.argmax())
            raise self._range_error(first_row + row, x[row].item())
        codes[outside] = np.where(x[outside] > 0, bound(self.ring) - 1, 1 - bound(self.ring))

    def _encode_one(self, row: int, x: Any, clamp: bool) -> int:
        """The rule, as it is written at the top of this module."""
        if _is_missing(x):
            return missing(self.ring)
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
        largest = bound(self.ring) - 1
        if abs(code) > largest and not clamp:
            raise self._range_error(row, x)
        return max(-largest, min(code, largest))

    def _range_error(self, row: int, x: Any) -> RangeError:
        where, limit = f"{self.name}, row {row}: {_shown(x)}", bound(self.ring)
        if x in (np.inf, -np.inf):
            return RangeError(f"{where} is not finite; replace it by a number, or by NaN if it is missing")
        if -limit < x < limit:
            advice = "lower `decimals`"
        elif -bound(64) < x < bound(64):
            advice = "it needs a ring of 64 bits"
        else:
            advice = "rescale the column, no `decimals` is low enough"
        return RangeError(
            f"{where} is outside the fixed-point range at decimals={self.decimals} "
            f"(|x| must be below {limit / self.scale:.3g}); {advice}"
        )


def _array(values: list[Any]) -> NDArray[Any]:
    """Return numbers as an array of one type if that is exact, else of objects.

    The type that numpy would choose for a list rounds large integers to floats.
    """
    whole = [x for x in values if type(x) is int]
    kind, most = (np.int64, 2**63 - 1) if len(whole) == len(values) else (np.float64, 2**53)
    if {*map(type, values)} <= {int, float, np.float64, type(None)} and all(abs(x) <= most for x in whole):
        return np.array(values, dtype=kind)
    return np.fromiter(values, dtype=object, count=len(values))


# -- deriving decimals ------------------------------------------------------------------------------


def _derive_decimals(numbers: NDArray[Any], comparable: NDArray[Any], most: int, name: str) -> int:
    """Return the decimals of a column's present numbers, at most `most`."""
    if numbers.dtype.kind in "biu":
        return 0
    decimals = _first_exact(numbers, most)
    if decimals is not None:
        return decimals
    ordered = np.unique(comparable)
    decimals = _first_distinct(ordered, most) if len(ordered) > 1 else 0
    if decimals is not None:
        return decimals
    kept = 1 + np.count_nonzero(np.diff(FixedPoint(most, 64).encode(ordered)))
    warnings.warn(
        f"{name}: {len(ordered):,} distinct values become {kept:,} at decimals={most}, the most that fit; "
        "rescale the column (multiply it, or take its logarithm) to keep them apart",
        stacklevel=3,
    )
    return most


def _first_exact(numbers: NDArray[Any], most: int) -> int | None:
    """Return the fewest decimals with which every number is exact."""
    hard = numbers[:_SAMPLE]
    for decimals in range(most + 1):
        if not _inexact(hard, decimals).size:
            hard = _inexact(numbers, decimals)[:_SAMPLE]
            if not hard.size:
                return decimals
    return None


def _inexact(numbers: NDArray[Any], decimals: int) -> NDArray[Any]:
    """Return the numbers x for which x̂/10^decimals, as a number of their type, is not x."""
    point = FixedPoint(decimals, 64)
    if numbers.dtype.kind == "O":
        codes = point.encode(numbers).tolist()
        exact = [_is_exact(x, code, point.scale) for x, code in zip(numbers, codes, strict=True)]
        return numbers[~np.array(exact, dtype=np.bool_)]
    # In larger x̂ half a unit is less than half the last bit of x.
    numbers = numbers[np.abs(numbers.astype(np.float64)) * point.scale < _ALL_INTEGERS]
    again = (point.encode(numbers) / point.scale).astype(numbers.dtype)
    inexact: NDArray[Any] = numbers[again != numbers]
    return inexact


def _is_exact(x: Any, code: int, scale: int) -> bool:
    if isinstance(x, float | np.float32 | np.float16):
        return bool(type(x)(code / scale) == x)
    return Fraction(code, scale) == Fraction(*_exact_ratio(x))


def _first_distinct(ordered: NDArray[Any], most: int) -> int | None:
    """Return the fewest decimals with which these ascending numbers have distinct x̂."""
    gaps = np.diff(ordered)

    def keeps(decimals: int, lower: NDArray[np.intp]) -> bool:
        point = FixedPoint(decimals, 64)
        return bool((point.encode(ordered[lower]) < point.encode(ordered[lower + 1])).all())

    closest = np.array([gaps.argmin()])
    for decimals in range(most + 1):
        # Numbers that are more than one unit apart cannot become equal; a second unit is for rounded gaps.
        if keeps(decimals, closest) and keeps(decimals, np.flatnonzero(gaps * 10**decimals <= 2)):
            return decimals
    return None


def _present(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind == "O":
        return column[[not _is_missing(x) for x in column]]
    present = ~np.isnan(column) if column.dtype.kind == "f" else np.True_
    return column if present.all() else column[present]


def _comparable(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the same values as numbers that can be compared and subtracted: integers, float64, Fractions."""
    if numbers.dtype.kind == "O":
        return np.fromiter((Fraction(*_exact_ratio(x)) for x in numbers), dtype=object, count=len(numbers))
    return numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers


# -- exact arithmetic -------------------------------------------------------------------------------


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
    if isinstance(x, Decimal) and x.is_finite() and abs(x.adjusted()) > _FAR:
        # Another number as far out serves as well: do not spell out a million zeros.
        sign, far = (-1 if x < 0 else int(x > 0)), 10 ** (_FAR + 1)
        return (sign * far, 1) if x.adjusted() > 0 else (sign, far)
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
