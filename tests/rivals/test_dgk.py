"""DGK encryption."""

from functools import lru_cache

import gmpy2
import pytest

from benchmarks.rivals.dgk import SUBGROUP_BITS, DgkKey
from revfrf.errors import UsageError


@lru_cache
def key() -> DgkKey:
    return DgkKey.generate(256, 200)


def test_only_encryptions_of_zero_are_zero() -> None:
    u = key().public.u
    assert [key().is_zero(c) for c in key().public.encrypt(range(u + 1))] == [
        m % u == 0 for m in range(u + 1)
    ]


def test_sums_negatives_and_products_are_those_of_the_numbers() -> None:
    public = key().public
    three, five = public.encrypt([3, 5])
    assert key().is_zero(public.add(three, five, public.constant(-8)))
    assert key().is_zero(public.add(public.multiply(three, 5), public.negate(public.multiply(five, 3))))
    assert not key().is_zero(public.add(three, five, public.constant(-7)))


def test_two_encryptions_of_a_number_differ_and_have_no_fixed_order() -> None:
    public = key().public
    first, second = public.encrypt([1, 1])
    assert first != second
    assert key().is_zero(public.add(first, public.negate(second)))


@pytest.mark.parametrize("bits", [256, 1024])
def test_the_key_has_the_structure_that_the_authors_ask_for(bits: int) -> None:
    made = DgkKey.generate(bits, 200)
    public, q = made.public, made.public.n // made.p
    assert public.n.bit_length() == bits
    assert gmpy2.is_prime(made.p)
    assert gmpy2.is_prime(q)
    assert gmpy2.is_prime(public.u)
    assert public.u > 200
    assert (made.p - 1) % public.u == (q - 1) % public.u == (made.p - 1) % made.v_p == 0
    assert made.v_p.bit_length() == SUBGROUP_BITS.get(bits, bits // 8)
    assert gmpy2.powmod(public.h, made.v_p, made.p) == 1 != gmpy2.powmod(public.g, made.v_p, made.p)


def test_another_key_does_not_see_zeros() -> None:
    other = DgkKey.generate(256, 200)
    assert not any(other.is_zero(c) for c in key().public.encrypt([0] * 5))


def test_a_key_too_short_for_its_numbers_is_refused() -> None:
    with pytest.raises(UsageError, match="too few"):
        DgkKey.generate(48, 200)
