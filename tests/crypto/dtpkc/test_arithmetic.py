import sys
import threading
from collections.abc import Callable

import gmpy2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from revfrf.crypto.dtpkc.arithmetic import (
    FixedBase,
    fixed_base,
    inverse,
    is_prime,
    jacobi,
    may_be_prime,
    multiply,
    power,
    secret_power,
)
from revfrf.crypto.secret import SecretInt

MODULUS = (1 << 521) - 1  # prime
PRIME = (1 << 1024) + 643
odd = st.integers(min_value=3, max_value=1 << 600).map(lambda n: n | 1)
number = st.integers(min_value=1, max_value=1 << 600)


@given(odd, number, number)
def test_powers_agree_with_python(modulus: int, base: int, exponent: int) -> None:
    assert power(base, exponent, modulus) == pow(base, exponent, modulus)
    assert secret_power(base, SecretInt(exponent), modulus) == pow(base, exponent, modulus)


@given(odd, st.lists(number, max_size=5))
def test_multiply_is_the_product_of_all_factors(modulus: int, factors: list[int]) -> None:
    product = 1
    for factor in factors:
        product = product * factor % modulus
    assert multiply(modulus, *factors) == product


@given(number)
def test_inverse_undoes(x: int) -> None:
    assert x * inverse(x, MODULUS) % MODULUS == 1


def test_no_inverse_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        inverse(15, 35)


@pytest.mark.parametrize("bits", [1, 16, 79, 80, 81, 128, 500])
@given(data=st.data())
def test_comb_agrees_with_plain_powers_at_every_length(bits: int, data: st.DataObject) -> None:
    exponent = data.draw(st.integers(min_value=0, max_value=(1 << bits) - 1))
    comb = FixedBase(7, MODULUS, bits)
    many = [exponent, 0, 1, (1 << bits) - 1] * FixedBase.BREAK_EVEN
    assert comb.powers(many) == [pow(7, e, MODULUS) for e in many]


@example(exponent=1)
@given(exponent=st.integers(min_value=1, max_value=(1 << 64) - 1))
def test_comb_answers_the_same_before_and_after_its_table_is_built(exponent: int) -> None:
    comb = FixedBase(11, MODULUS, 64)
    answers = {comb.powers([exponent])[0] for _ in range(FixedBase.BREAK_EVEN + 2)}
    assert answers == {pow(11, exponent, MODULUS)}


def test_comb_pays_for_its_table_only_when_it_is_used_often() -> None:
    comb = FixedBase(11, MODULUS, 64)
    comb.powers([5] * (FixedBase.BREAK_EVEN - 1))
    assert not comb._tables[0]
    comb.powers([5])
    assert comb._tables[0]


def test_comb_refuses_an_exponent_longer_than_it_was_made_for() -> None:
    with pytest.raises(OverflowError):
        FixedBase(11, MODULUS, 80).powers([1 << 80] * FixedBase.BREAK_EVEN)


@pytest.mark.parametrize("exponent", [0, 1, 2, 1023, 2**80 - 1, (1 << 512) - 1, (1 << 512) // 3])
@pytest.mark.parametrize("base", [1, 2, 7**300, -1, PRIME + 1, PRIME - 1, -2])
def test_powers_mod_a_square_from_halves_are_powers(base: int, exponent: int) -> None:
    n = PRIME
    comb = FixedBase(base % (n * n), n * n, 512)
    answers = comb.powers([exponent] * FixedBase.BREAK_EVEN)
    assert comb._tables[1]
    assert set(answers) == {pow(base, exponent, n * n)}


def test_tables_of_one_key_at_3072_bits_take_less_than_32_megabytes() -> None:
    n = (1 << 3072) - 1
    total = 0
    for modulus in (n, n * n):
        comb = FixedBase(pow(2, 7919, modulus), modulus, 1536)
        comb.powers([1] * FixedBase.BREAK_EVEN)
        for block in comb._tables[0] + comb._tables[1]:
            total += sys.getsizeof(block) + sum(sys.getsizeof(entry) for entry in block)
    assert 1 << 20 < total < 32 << 20


def test_one_comb_per_base_in_a_process() -> None:
    assert fixed_base(5, MODULUS, 64) is fixed_base(5, MODULUS, 64)


@pytest.mark.parametrize(
    ("n", "prime"), [(2**127 - 1, True), (2**127 - 3, False), (561, False), (341, False), (97, True)]
)
def test_primality(n: int, prime: bool) -> None:
    assert is_prime(n) is prime
    if prime:
        assert may_be_prime(n)


@given(st.integers(min_value=0, max_value=10**6))
def test_jacobi_of_a_prime_modulus_is_eulers_criterion(x: int) -> None:
    p = 1_000_003
    assert jacobi(x, p) % p == pow(x, (p - 1) // 2, p)


def test_single_powers_release_the_gil_in_every_thread_and_look_ups_do_not() -> None:
    released: list[bool] = []

    def use(call: Callable[[], object]) -> None:
        call()
        released.append(gmpy2.get_context().allow_release_gil)

    comb = FixedBase(5, MODULUS, 64)
    calls: list[Callable[[], object]] = [
        lambda: power(3, 5, MODULUS),
        lambda: secret_power(3, SecretInt(5), MODULUS),
        lambda: comb.powers([5] * FixedBase.BREAK_EVEN),
    ]
    for call in calls:
        thread = threading.Thread(target=use, args=(call,))
        thread.start()
        thread.join()
    assert released == [True, True, False]
