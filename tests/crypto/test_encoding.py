"""Fixed point: one exact rule for every type, checked against fractions."""

import doctest
import math
from array import array
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from revfrf.crypto import encoding
from revfrf.crypto.encoding import BOUND, MISSING, FixedPoint
from revfrf.errors import RangeError, UsageError

INCOME = "party 'bank', column 'income'"

decimals = st.integers(0, 18)
finite = st.floats(allow_nan=False, allow_infinity=False)


def column(c: int = 0) -> FixedPoint:
    return FixedPoint(c, INCOME)


def rule(x: float | Fraction | Decimal, c: int) -> int:
    """The rule itself: `round` of a Fraction is exact, and takes ties to even."""
    scale: int = 10**c
    return round(Fraction(x) * scale)


def encoded(fixed: FixedPoint, values: Any) -> list[int] | None:
    try:
        return list(map(int, fixed.encode(values)))
    except RangeError:
        return None


def expected(fixed: FixedPoint, x: Any) -> list[int] | None:
    code = rule(x, fixed.decimals)
    return [code] if abs(code) < BOUND else None


class FakeNA:
    """pandas.NA: every comparison answers NA, and NA has no truth value."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


class FakeNaT:
    """pandas.NaT: different from everything, itself included."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


# --- the rule -----------------------------------------------------------------------------------------


@given(finite, decimals)
@example(2.675, 2)
@example(0.5, 0)
@example(1.5, 0)
@example(-2.5, 0)
@example(0.49999999999999994, 0)
@example(5e-324, 18)
@example(2.0**52 + 0.5, 0)
@example(1234567890123.4567, 6)
def test_float_is_rounded_as_the_exact_fraction_is(x: float, c: int) -> None:
    fixed = column(c)
    assert encoded(fixed, np.array([x])) == encoded(fixed, [Fraction(x)]) == expected(fixed, x)


@pytest.mark.parametrize("c", range(19))
def test_every_float_around_the_bound_is_taken_or_refused_as_the_rule_says(c: int) -> None:
    fixed = column(c)
    outcomes = set()
    for sign in (1, -1):
        x = sign * BOUND / 10**c
        for _ in range(40):
            x = math.nextafter(x, 0)
        for _ in range(80):
            assert encoded(fixed, np.array([x])) == expected(fixed, x)
            outcomes.add(expected(fixed, x) is None)
            x = math.nextafter(x, sign * math.inf)
    assert outcomes == {True, False}


@pytest.mark.parametrize("c", range(19))
def test_random_columns_follow_the_rule_at_every_magnitude(c: int) -> None:
    random = np.random.default_rng(c)
    size = 400
    values = np.concatenate(
        [
            random.uniform(-1, 1, size) * (BOUND / 10**c) * 0.999,
            random.normal(size=size) * 10.0 ** random.integers(-25, 1, size),
            (random.integers(-(10**6), 10**6, size) + 0.5) / 10.0**c,
            random.integers(-(2**53), 2**53, size) / 2.0 ** random.integers(c * 4, 80, size),
        ]
    )
    values = values[np.abs(values) < BOUND / 10**c * 0.999]
    assert column(c).encode(values).tolist() == [rule(x, c) for x in values.tolist()]


# --- the type does not matter -------------------------------------------------------------------------


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), decimals)
def test_float32_and_all_exact_types_agree_with_float64(x: float, c: int) -> None:
    fixed = column(c)
    want = expected(fixed, x)
    for values in (
        np.array([x], dtype=np.float64),
        np.array([x], dtype=np.float32),
        np.array([x], dtype=">f8"),
        np.array([x], dtype=np.longdouble),
        np.array([x], dtype=object),
        np.ma.masked_array([x], mask=[False]),
        [x],
        (x,),
        [np.float32(x)],
        [np.float64(x)],
        [Fraction(x)],
        [Decimal(x)],
    ):
        assert encoded(fixed, values) == want


@given(st.integers(-(2**70), 2**70), decimals)
@example(2**53 + 1, 0)
@example(BOUND - 1, 0)
@example(BOUND, 0)
@example(-BOUND, 0)
@example(2**63, 0)
@example(2**64 - 1, 0)
@example(2**64 - 1, 18)
@example(-(2**63), 18)
def test_integers_of_every_type_are_exact_and_never_wrap(x: int, c: int) -> None:
    fixed = column(c)
    columns: list[Any] = [[x], np.array([x], dtype=object), [Fraction(x)], [Decimal(x)], deque([x])]
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i8"):
        if np.iinfo(dtype).min <= x <= np.iinfo(dtype).max:
            columns += [np.array([x], dtype=dtype), [np.array([x], dtype=dtype)[0]]]
    if float(x) == x:
        columns.append(np.array([float(x)]))
    for values in columns:
        assert encoded(fixed, values) == expected(fixed, x), values


def test_one_fraction_in_a_list_does_not_make_its_large_integers_inexact() -> None:
    assert column().encode([2**53 + 1, 0.0, None]).tolist() == [2**53 + 1, 0, MISSING]
    assert column().encode((2**61 + 1, 0.25)).tolist() == [2**61 + 1, 0]


def test_booleans_are_zero_and_one_in_every_container() -> None:
    for values in ([True, False], np.array([True, False]), np.array([True, False], dtype=object)):
        assert column(3).encode(values).tolist() == [1000, 0]
    assert column(3).encode([np.True_, 0.5]).tolist() == [1000, 500]


def test_extended_precision_is_not_cut_to_float64() -> None:
    x = np.longdouble(2) ** 61 + 1  # equal to 2^61 where longdouble is float64
    assert column().encode(np.array([x])).tolist() == [int(x)]


def test_other_sequences_are_columns_too() -> None:
    assert column(1).encode(range(3)).tolist() == [0, 10, 20]
    assert column(1).encode(array("d", [0.25, 0.5])).tolist() == [2, 5]


@given(st.lists(finite | st.none()), decimals)
def test_a_row_does_not_depend_on_its_neighbours(values: list[float | None], c: int) -> None:
    fixed = column(c)
    codes = encoded(fixed, values)
    assume(codes is not None)
    assert codes == [code for x in values for code in fixed.encode([x]).tolist()]


# --- missing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        None,
        math.nan,
        np.nan,
        np.float32("nan"),
        np.longdouble("nan"),
        Decimal("nan"),
        Decimal("snan"),
        np.datetime64("NaT"),
        np.timedelta64("NaT"),
        np.ma.masked,
        FakeNA(),
        FakeNaT(),
    ],
    ids=lambda x: type(x).__name__,
)
def test_missing_in_any_guise_is_missing(missing: Any) -> None:
    values = np.empty(3, dtype=object)
    values[:] = [1, missing, 2.5]
    assert column(1).encode(values).tolist() == [10, MISSING, 25]
    assert column(1).encode([1, missing, 2.5]).tolist() == [10, MISSING, 25]
    assert column(1).encode([missing]).tolist() == [MISSING]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, object])
def test_nan_is_missing_in_float_arrays(dtype: Any) -> None:
    values = np.array([0.5, np.nan, -0.5], dtype=dtype)
    assert column(1).encode(values).tolist() == [5, MISSING, -5]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.longdouble, object])
def test_masked_values_are_missing_whatever_lies_below(dtype: Any) -> None:
    values = np.ma.masked_array(np.array([1, 2**63 - 1, 3], dtype=dtype), mask=[False, True, False])
    assert column(2).encode(values).tolist() == [100, MISSING, 300]
    assert values.data[1] == np.array([2**63 - 1], dtype=dtype)[0]


def test_masked_values_that_are_no_numbers_are_missing() -> None:
    values = np.ma.masked_array(np.array(["abc", "def"]), mask=[True, True])
    assert column().encode(values).tolist() == [MISSING, MISSING]


def test_array_of_dates_is_not_taken_for_numbers() -> None:
    for unit in ("D", "ms", "ns"):
        dates = np.array(["NaT", "2020-01-01"], dtype=f"datetime64[{unit}]")
        with pytest.raises(UsageError, match=r"row 1: .*2020-01-01.* is not a number"):
            column().encode(dates)
        assert column().encode(dates[:1]).tolist() == [MISSING]
        with pytest.raises(UsageError, match=r"row 1: .* is not a number"):
            column().encode(dates - np.datetime64("1999-01-01"))


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [list, np.array, lambda x: np.array(x, dtype=object)])
def test_number_out_of_range_is_refused_by_name_row_value_and_advice(container: Any) -> None:
    values: list[Any] = [1.0] * 17 + [3.2e17, 1e18]
    with pytest.raises(RangeError) as caught:
        FixedPoint(6, INCOME).encode(container(values))
    assert str(caught.value) == (
        "party 'bank', column 'income', row 17: 3.2e+17 is outside the fixed-point range at decimals=6 "
        "(|x| must be below 4.61e+12); lower `decimals`"
    )


@pytest.mark.parametrize(
    "x", [2**62, -(2**62), 2.0**62, 1e308, -1e308, 2**999, Fraction(2**999, 3), Decimal("1e99")]
)
def test_advice_is_not_to_lower_decimals_where_that_cannot_help(x: Any) -> None:
    for c in (0, 18):
        with pytest.raises(RangeError, match=r"row 1: .* outside .* rescale the column"):
            column(c).encode([1, x])


@pytest.mark.parametrize(
    "x", [math.inf, -math.inf, np.float32("inf"), np.longdouble("-inf"), Decimal("-Infinity")]
)
def test_infinite_number_is_refused_in_every_type(x: Any) -> None:
    for values in ([None, x], np.array([None, x], dtype=object), [True, x]):
        with pytest.raises(RangeError, match=r"column 'income', row 1: -?[Ii]nf.* is not finite; replace"):
            column(3).encode(values)
    if isinstance(x, float | np.floating):
        with pytest.raises(RangeError, match=r"row 1: -?inf is not finite"):
            column(3).encode(np.array([0, x]))


@pytest.mark.parametrize(
    "x",
    [
        "abc",
        "1.5",
        "",
        b"1",
        1 + 0j,
        [1],
        {},
        object(),
        np.str_("1"),
        np.array([1, 2]),
        np.timedelta64(1, "s"),
        np.timedelta64(1, "ns"),
        np.datetime64(1, "ns"),
    ],
)
def test_value_that_is_no_number_is_refused_with_its_row(x: Any) -> None:
    with pytest.raises(UsageError, match=r"column 'income', row 1: .* is not a number; use None or NaN"):
        column().encode([1, x])


def test_array_of_strings_is_refused_with_its_first_row() -> None:
    arrays: list[Any] = [np.array(["1", "2"]), np.array([b"1"]), np.array([1j])]
    for values in arrays:
        with pytest.raises(UsageError, match=r"row 0: .* is not a number"):
            column().encode(values)


@pytest.mark.parametrize(
    "values", [1.0, "abc", b"abc", np.ones((2, 2)), np.float64(1), {1.0}, None, (x for x in [1])]
)
def test_what_is_no_column_is_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="column 'income': expected one column"):
        column().encode(values)


def test_errors_stay_short_for_huge_values() -> None:
    for x in (10**4000, 10**5000, Fraction(10**5000, 3), "a" * 10**6, Decimal(10**4000)):
        with pytest.raises(UsageError) as caught:
            column().encode([x])
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("x", ["1e999999999", "-1e999999999", "1e999999999999999999"])
def test_decimal_with_a_vast_exponent_costs_nothing(x: str) -> None:
    with pytest.raises(RangeError):
        column().encode([Decimal(x)])
    assert column(18).encode([Decimal("1e-999999999"), Decimal("0e999999999")]).tolist() == [0, 0]


@pytest.mark.parametrize("c", [-1, 19, 1.0, True, None, "2", np.int64(2)])
def test_decimals_must_be_a_plain_int_from_0_to_18(c: Any) -> None:
    with pytest.raises(UsageError, match="`decimals` must be an int from 0 to 18"):
        FixedPoint(c, INCOME)


# --- being a good citizen -----------------------------------------------------------------------------


def test_floating_point_settings_of_the_caller_do_not_matter() -> None:
    values = np.array([1e-320, np.nan, 2.675, 1e300])
    with np.errstate(all="raise"):
        assert column(2).encode(values[:3]).tolist() == [0, MISSING, 267]
        with pytest.raises(RangeError, match="row 3"):
            column(18).encode(values)


def test_input_is_not_changed() -> None:
    for values in (
        np.array([1.0, np.nan]),
        np.array([1, 2]),
        np.ma.masked_array([1.0, 2.0], mask=[False, True]),
    ):
        before = repr(values)
        values.flags.writeable = False
        column(1).encode(values)
        assert repr(values) == before


def test_result_is_a_fresh_int64_array_even_when_empty() -> None:
    columns: list[Any] = [[], (), np.array([]), np.array([], dtype=np.int8), np.array([], dtype=object)]
    for values in columns:
        codes = column().encode(values)
        assert codes.dtype == np.int64
        assert codes.shape == (0,)
    ones = np.array([1], dtype=np.int64)
    assert not np.shares_memory(ones, column().encode(ones))


def test_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(encoding)
    assert result.attempted > 0
    assert result.failed == 0
