"""Fixed point: one exact rule for every type, checked against fractions."""

import doctest
import math
import warnings
from array import array
from collections import deque
from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from revfrf.crypto import encoding
from revfrf.crypto.encoding import FixedPoint, Ring, bound, missing
from revfrf.errors import RangeError, UsageError

INCOME = "party 'bank', column 'income'"

BOUND, MISSING = bound(64), missing(64)

decimals = st.integers(0, 18)
rings: st.SearchStrategy[Ring] = st.sampled_from((32, 64))
finite = st.floats(allow_nan=False, allow_infinity=False)


def column(c: int = 0, ring: Ring = 64) -> FixedPoint:
    return FixedPoint(c, ring, INCOME)


def fraction(x: Any) -> Fraction:
    return Fraction(float(x) if isinstance(x, np.floating) else x)


def rule(x: float | Fraction | Decimal, c: int) -> int:
    """The rule itself: `round` of a Fraction is exact, and takes ties to even."""
    scale: int = 10**c
    return round(fraction(x) * scale)


def encoded(fixed: FixedPoint, values: Any) -> list[int] | None:
    try:
        return list(map(int, fixed.encode(values)))
    except RangeError:
        return None


def expected(fixed: FixedPoint, x: Any) -> list[int] | None:
    code = rule(x, fixed.decimals)
    return [code] if abs(code) < bound(fixed.ring) else None


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


@given(finite, decimals, rings)
@example(2.675, 2, 32)
@example(0.5, 0, 32)
@example(1.5, 0, 32)
@example(-2.5, 0, 32)
@example(0.49999999999999994, 0, 32)
@example(5e-324, 18, 64)
@example(2.0**52 + 0.5, 0, 64)
@example(1234567890123.4567, 6, 64)
def test_float_is_rounded_as_the_exact_fraction_is(x: float, c: int, ring: Ring) -> None:
    fixed = column(c, ring)
    assert encoded(fixed, np.array([x])) == encoded(fixed, [Fraction(x)]) == expected(fixed, x)


@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.parametrize("c", range(19))
def test_every_float_around_the_bound_is_taken_or_not_as_the_rule_says(c: int, ring: Ring) -> None:
    fixed, largest = column(c, ring), bound(ring) - 1
    outcomes = set()
    for sign in (1, -1):
        x = sign * (largest + 0.5) / 10**c
        for _ in range(40):
            x = math.nextafter(x, 0)
        for _ in range(80):
            assert encoded(fixed, np.array([x])) == expected(fixed, x)
            clamped = fixed.encode(np.array([x]), clamp=True).tolist()
            assert clamped == (expected(fixed, x) or [sign * largest])
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


# --- clamping -----------------------------------------------------------------------------------------


@given(
    finite | st.integers() | st.fractions() | st.decimals(allow_nan=False, allow_infinity=False),
    decimals,
    rings,
)
@example(Decimal("-1e999999999"), 0, 64)
@example(2**63, 18, 32)
@example(2**64 - 1, 0, 64)
def test_clamped_number_is_the_nearest_that_fits_whatever_its_type(x: Any, c: int, ring: Ring) -> None:
    fixed, largest = column(c, ring), bound(ring) - 1
    far = isinstance(x, Decimal) and abs(x.adjusted()) > 400
    wanted = (largest if x > 0 else -largest) if far else max(-largest, min(rule(x, c), largest))
    columns: list[Any] = [[x], np.array([x], dtype=object)]
    if isinstance(x, float):
        columns.append(np.array([x]))
    if isinstance(x, int):
        fitting = (d for d in (np.int64, np.uint64) if np.iinfo(d).min <= x <= np.iinfo(d).max)
        columns += [np.array([x], dtype=dtype) for dtype in fitting]
    for values in columns:
        assert fixed.encode(values, clamp=True).tolist() == [wanted]


def test_clamping_keeps_missing_values_and_the_input() -> None:
    values = np.array([np.nan, 1e300, -1e300, 2.0])
    assert column(1, 32).encode(values, clamp=True).tolist() == [missing(32), 2**30 - 1, 1 - 2**30, 20]
    assert values[1] == 1e300


@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.parametrize("x", [math.inf, -math.inf, np.float32("inf"), Decimal("-Infinity")])
def test_infinite_number_is_refused_even_when_others_are_clamped(x: Any, ring: Ring) -> None:
    with pytest.raises(RangeError, match=r"row 1: -?[Ii]nf.* is not finite"):
        column(3, ring).encode([1e300, x], clamp=True)
    with pytest.raises(RangeError, match=r"row 1: -?inf is not finite"):
        column(3, ring).encode(np.array([1e300, float(x)]), clamp=True)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [list, np.array, lambda x: np.array(x, dtype=object)])
def test_number_out_of_range_is_refused_by_name_row_value_and_advice(container: Any) -> None:
    values: list[Any] = [1.0] * 17 + [3.2e17, 1e18]
    with pytest.raises(RangeError) as caught:
        FixedPoint(6, 64, INCOME).encode(container(values))
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
        FixedPoint(c, 64, INCOME)


@pytest.mark.parametrize("ring", [0, 33, 128, 64.5, None, "64"])
def test_ring_has_32_or_64_bits(ring: Any) -> None:
    with pytest.raises(UsageError, match="`ring` must be 32 or 64"):
        FixedPoint(0, ring, INCOME)


# --- deriving -----------------------------------------------------------------------------------------

short = st.builds(lambda n, c: n / 10**c, st.integers(-(10**9), 10**9), st.integers(0, 9))
exact_numbers = st.decimals(-1000, 1000, places=4) | st.fractions(-1000, 1000, max_denominator=40)
columns_of_floats = st.lists(short) | st.lists(st.floats(-1e18, 1e18)) | st.lists(st.floats(-1e-15, 1e-15))
columns_of_numbers = (
    columns_of_floats
    | st.lists(exact_numbers | short | st.integers(-(10**18), 10**18))
    | st.lists(st.integers(-9, 9))
)


def derived(values: Any, **options: Any) -> FixedPoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FixedPoint.derive(values, INCOME, **options)


def again(x: Any, c: int) -> bool:
    """Whether x̂/10^c, as a number of the type of x, is x."""
    quotient = Fraction(rule(x, c), 10**c)
    if isinstance(x, np.floating):
        return bool(x.dtype.type(float(quotient)) == x)
    return float(quotient) == x if isinstance(x, float) else quotient == fraction(x)


def plain_decimals(values: Collection[Any]) -> int:
    """The definition, value by value."""
    fitting = [c for c in range(19) if all(abs(rule(x, c)) < BOUND for x in values)]
    exact = [c for c in fitting if all(again(x, c) for x in values)]
    n_distinct = len({fraction(x) for x in values})
    distinct = [c for c in fitting if len({rule(x, c) for x in values}) == n_distinct]
    return [*exact[:1], *distinct[:1], fitting[-1]][0]


@given(columns_of_numbers)
@example([0.1, 0.2, 0.1 + 0.2])
@example([0.49, 0.51, 1e-30])
@example([1.5e-30, 2.5e-30, 1e17])
@example([5e-324, -5e-324])
@example([Decimal("1e-30"), Fraction(1, 3), 7])
@example([4503599627370497.5, 2.0**52 + 1, 0.1])
@example([True, 2**53 + 1, 0.5])
def test_decimals_are_the_fewest_that_the_definition_allows(values: list[Any]) -> None:
    fixed = derived(values)
    assert fixed.decimals == plain_decimals(values)
    largest = max((abs(rule(x, fixed.decimals)) for x in values), default=0)
    assert fixed.ring == (32 if largest < 2**30 else 64)
    assert fixed.encode(values).tolist() == [rule(x, fixed.decimals) for x in values]


@given(columns_of_floats, st.sampled_from([np.float16, np.float32, np.float64]))
def test_decimals_of_float_arrays_are_those_of_their_own_type(values: list[float], dtype: Any) -> None:
    with np.errstate(over="ignore"):
        array = np.array(values, dtype=dtype)
    array = array[np.isfinite(array)]
    assert derived(array).decimals == plain_decimals(list(array))


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.integers(0, 9))
def test_numbers_written_with_few_decimals_come_back(whole: list[int], c: int) -> None:
    values = np.array([float(Decimal(n).scaleb(-c)) for n in whole])
    fixed = derived(values)
    assert fixed.decimals <= c
    assert (fixed.encode(values) / fixed.scale == values).all()


@given(columns_of_numbers, st.randoms(use_true_random=False), st.integers(0, 5))
def test_order_repetition_and_missing_values_have_no_say(
    values: list[Any], random: Any, n_missing: int
) -> None:
    more = [*values, *values[: len(values) // 2], *[None] * n_missing]
    random.shuffle(more)
    assert derived(more) == derived(values)


@given(columns_of_numbers, decimals)
def test_given_decimals_are_kept_and_only_the_ring_is_derived(values: list[Any], c: int) -> None:
    codes = [rule(x, c) for x in values]
    assume(all(abs(code) < BOUND for code in codes))
    wanted: Ring = 32 if all(abs(code) < 2**30 for code in codes) else 64
    assert derived(values, decimals=c) == column(c, wanted)


@pytest.mark.parametrize(
    ("values", "c", "ring"),
    [
        ([1.25, 3], 2, 32),
        (np.array([0.1], dtype=np.float32), 1, 32),
        (np.array([0.1], dtype=np.float32).astype(np.float64), 17, 64),
        ([0.1], 1, 32),
        ([2**30 - 1], 0, 32),
        ([-(2**30)], 0, 64),
        (np.array([2**62 - 1], dtype=np.uint64), 0, 64),
        ([Decimal("1.10")], 1, 32),
        ([Fraction(1, 8)], 3, 32),
        ([Fraction(1, 3), Fraction(2, 3)], 0, 32),
        ([4.1e-8, 3.9e-8], 9, 32),
        ([True, False], 0, 32),
        ([], 0, 32),
        ([None, math.nan], 0, 32),
        (np.array([np.nan]), 0, 32),
        (np.ma.masked_array([0.5, 9e99], mask=[False, True]), 1, 32),
    ],
)
def test_derived_by_hand(values: Any, c: int, ring: Ring) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FixedPoint.derive(values, INCOME) == column(c, ring)


def test_one_hard_value_among_many_is_not_overlooked() -> None:
    easy, sum_ = np.arange(4000) / 100, 0.1 + 0.2
    assert derived(np.append(easy, sum_)).decimals == plain_decimals([*easy[:200], sum_]) == 17
    close = np.append(np.arange(5000) / 7, [1e-9, 2e-9, 3e-9])
    assert len(np.unique(derived(close).encode(close))) == len(close)


def test_random_columns_keep_their_values_apart() -> None:
    for scale in (1e-8, 1.0, 1e6):
        values = np.random.default_rng(0).normal(size=20_000) * scale
        fixed = FixedPoint.derive(values, INCOME)
        assert len(np.unique(fixed.encode(values))) == len(values)
        assert len(np.unique(column(fixed.decimals - 1).encode(values))) < len(values)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([4e-25, 5e-25, 6e-25], "3 distinct values become 1 at decimals=18"),
        ([1e18, 1.0, 1.01, 1.02], "4 .* become 2 at decimals=0"),
    ],
)
def test_values_that_merge_are_counted_and_the_way_out_is_shown(values: list[float], counts: str) -> None:
    with pytest.warns(UserWarning, match=f"column 'income': {counts}.*rescale the column"):
        FixedPoint.derive(values, INCOME)


@pytest.mark.parametrize("x", [2**62, -(2.0**62), Decimal("1e30"), Fraction(10**30, 7)])
def test_column_that_no_decimals_fit_is_refused(x: Any) -> None:
    with pytest.raises(RangeError, match=r"column 'income', row 1: .* rescale the column"):
        FixedPoint.derive([0.5, x], INCOME)


def test_what_is_no_number_is_refused_before_anything_is_derived() -> None:
    with pytest.raises(RangeError, match="row 1: inf is not finite"):
        FixedPoint.derive(np.array([1, np.inf]), INCOME)
    with pytest.raises(UsageError, match="row 1: 'a' is not a number"):
        FixedPoint.derive([1, "a"], INCOME)
    with pytest.raises(UsageError, match="expected one column"):
        FixedPoint.derive(np.zeros((2, 2)), INCOME)
    with pytest.raises(RangeError, match=r"row 0: 5.0 is outside .*decimals=18.*; lower `decimals`"):
        FixedPoint.derive(np.array([5.0]), INCOME, decimals=18)


# --- being a good citizen -----------------------------------------------------------------------------


def test_floating_point_settings_of_the_caller_do_not_matter() -> None:
    values = np.array([1e-320, np.nan, 2.675, 1e300])
    with np.errstate(all="raise"):
        assert column(2).encode(values[:3]).tolist() == [0, MISSING, 267]
        with pytest.raises(RangeError, match="row 3"):
            column(18).encode(values)
        for dtype in (np.float16, np.float32, np.float64):
            with np.errstate(all="ignore"):
                small = np.array([1e-7, 2.5, 1 / 3, np.nan], dtype=dtype)
            assert derived(small).decimals == plain_decimals(list(small[:3]))


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
