"""What client and server see of a private evaluation: nothing but the answer and the size of the trees.

Samples have fixed sizes. A law is taken for broken when what was seen has a probability below ALARM; the file
looks at fewer than 100 of them, so that a sound program fails less than once in ten million runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.rivals import comparisons
from benchmarks.rivals.comparisons import (
    CLIENT,
    ClientKeys,
    EncryptedFeature,
    TreeProtocol,
    bost,
    encrypt_row,
    wu,
)
from benchmarks.rivals.dgk import DgkKey
from benchmarks.rivals.paillier import Paillier
from benchmarks.rivals.results import Meter
from benchmarks.rivals.trees import Split, Tree

ALARM = 1e-9
BITS = 8
TERMS = BITS + 1
LEVELS = 8
"""Of the large trees: 255 splits, all of them the same."""

both = pytest.mark.parametrize("protocol", [bost, wu])
far_and_near = pytest.mark.parametrize(("x", "cut"), [(-128, 127), (0, 0), (1, 0), (127, -128)])


def uniform(numbers: Sequence[int], kinds: int) -> float:
    """How likely the strangest count among these numbers is at most, if all are drawn evenly from 0 on."""
    counts = np.bincount(numbers, minlength=kinds).tolist()
    return kinds * min(float(stats.binomtest(count, len(numbers), 1 / kinds).pvalue) for count in counts)


# -- the client's eyes ------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class CuriousKey(DgkKey):
    """A client's key that keeps what it is asked about."""

    asked: list[mpz]

    def is_zero(self, ciphertext: mpz) -> bool:
        self.asked.append(ciphertext)
        return super().is_zero(ciphertext)


@dataclass(frozen=True)
class View:
    """What the client sent, the terms that it got for each comparison, and what it learned in the end."""

    sent: list[EncryptedFeature]
    received: list[list[mpz]]
    answer: int

    @property
    def terms(self) -> list[list[int]]:
        """What is in those terms, which the key can tell: numbers mod u."""
        dgk = keys().dgk
        holds = {_core(dgk, dgk.public.constant(m)): m for m in range(dgk.public.u)}
        return [[holds[_core(dgk, term)] for term in one] for one in self.received]

    @property
    def bits(self) -> list[bool]:
        return [0 in terms for terms in self.terms]


def _core(dgk: DgkKey, ciphertext: mpz) -> mpz:
    """What stays of a ciphertext without its randomness."""
    return gmpy2.powmod(ciphertext, dgk.v_p, dgk.p)


@lru_cache
def keys() -> ClientKeys:
    return ClientKeys.generate(256, BITS)


def view(protocol: TreeProtocol, tree: Tree, x: int) -> View:
    dgk = keys().dgk
    curious = CuriousKey(dgk.public, dgk.p, dgk.v_p, [])
    sent = encrypt_row(keys(), Meter(), [x])
    answer = protocol(replace(keys(), dgk=curious), Meter(), sent, tree, 0)
    asked = curious.asked
    return View(sent, [asked[i : i + TERMS] for i in range(0, len(asked), TERMS)], answer)


def repeated(cut: int, levels: int) -> Tree:
    """A complete tree of one split over and over."""
    return 7 if levels == 0 else Split(0, cut, repeated(cut, levels - 1), repeated(cut, levels - 1))


@lru_cache
def large(protocol: TreeProtocol, x: int, cut: int) -> View:
    """The same view for all tests that look at it."""
    return view(protocol, repeated(cut, LEVELS), x)


# -- comparisons ------------------------------------------------------------------------------------


@both
@far_and_near
def test_the_bits_that_the_client_learns_are_fair_coins_whatever_the_truth(
    protocol: TreeProtocol, x: int, cut: int
) -> None:
    assert uniform(large(protocol, x, cut).bits, 2) > ALARM


@both
@far_and_near
def test_where_a_zero_stands_does_not_tell_the_bit_that_decided(
    protocol: TreeProtocol, x: int, cut: int
) -> None:
    terms = large(protocol, x, cut).terms
    assert uniform([one.index(0) for one in terms if 0 in one], TERMS) > ALARM


@both
@far_and_near
@pytest.mark.parametrize("bit", [False, True])
def test_terms_that_are_not_zero_are_drawn_evenly_and_apart_from_each_other(
    protocol: TreeProtocol, x: int, cut: int, bit: bool
) -> None:
    u = keys().dgk.public.u
    others = [[m for m in one if m != 0] for one in large(protocol, x, cut).terms if (0 in one) == bit]
    assert uniform([m - 1 for one in others for m in one], u - 1) > ALARM
    assert uniform([one[0] * pow(one[1], -1, u) % u - 1 for one in others], u - 1) > ALARM


@both
def test_a_client_that_tries_all_cuts_and_factors_on_what_it_sent_finds_no_term(
    protocol: TreeProtocol,
) -> None:
    seen, public = large(protocol, 1, 0), keys().dgk.public
    received = [term for one in seen.received for term in one]
    assert len(set(received)) == len(received) == TERMS * (2**LEVELS - 1)
    first = seen.sent[0].bits[0]
    tried = [public.add(first, public.constant(a - cut_bit)) for a in (1, -1) for cut_bit in (0, 1)]
    assert {public.multiply(term, r) for term in tried for r in range(1, public.u)}.isdisjoint(received)


# -- trees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "leaf"), [(-9, 1), (-5, 2), (5, 3), (9, 4)])
def test_what_the_client_of_wu_sees_of_one_tree_does_not_tell_where_it_went(x: int, leaf: int) -> None:
    tree = Split(0, 0, Split(0, -7, 1, 2), Split(0, 7, 3, 4))
    views = [view(wu, tree, x) for _ in range(60)]
    assert {seen.answer for seen in views} == {leaf}
    assert uniform([sum(bit << i for i, bit in enumerate(seen.bits)) for seen in views], 2**3) > ALARM


@pytest.mark.parametrize("x", [-5, 5])
def test_where_the_client_of_bost_finds_its_leaf_does_not_tell_where_it_went(x: int) -> None:
    meters = [Meter() for _ in range(100)]
    features = encrypt_row(keys(), Meter(), [x])
    found = {bost(keys(), meter, features, Split(0, 0, 1, 2), 0) for meter in meters}
    assert found == {1 if x <= 0 else 2}
    tried_before = [meter.cost().counts[CLIENT]["Paillier decryptions"] - 2 for meter in meters]
    assert uniform(tried_before, 2) > ALARM


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> list[tuple[mpz, mpz]]:
    """The pairs that the client of `bost` gets."""
    pairs: list[tuple[mpz, mpz]] = []
    blinded_leaf = comparisons._blinded_leaf

    def watched(paillier: Paillier, cost: mpz, value: int) -> tuple[mpz, mpz]:
        pairs.append(blinded_leaf(paillier, cost, value))
        return pairs[-1]

    monkeypatch.setattr(comparisons, "_blinded_leaf", watched)
    return pairs


def test_of_all_leaves_but_its_own_the_client_of_bost_gets_random_numbers(
    leaves: list[tuple[mpz, mpz]],
) -> None:
    paillier = keys().paillier
    view(bost, repeated(0, LEVELS), 1)
    opened = [(paillier.decrypt(cost), paillier.decrypt(value)) for cost, value in leaves]
    others = [pair for pair in opened if pair[0] != 0]
    assert len(others) == len(opened) - 1 == 2**LEVELS - 1
    assert (0, 7) in opened
    for numbers in (
        [cost for cost, _ in others],
        [value for _, value in others],
        [(value - cost) % paillier.n for cost, value in others],
    ):
        assert uniform([number * 8 // paillier.n for number in numbers], 8) > ALARM


def test_a_lone_leaf_of_bost_is_encrypted_anew_each_time(leaves: list[tuple[mpz, mpz]]) -> None:
    paillier = keys().paillier
    assert [view(bost, 7, 0).answer for _ in range(2)] == [7, 7]
    received = {number for pair in leaves for number in pair}
    assert len(received) == 4
    assert received.isdisjoint({paillier.constant(0), paillier.constant(7)})


def test_the_server_of_bost_gets_every_bit_in_an_encryption_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received: list[mpz] = []
    path_costs = comparisons.path_costs

    def watched(
        paillier: Paillier, tree: Tree, returned: Sequence[mpz], coins: Sequence[bool]
    ) -> list[tuple[mpz, int]]:
        received.extend(returned)
        return path_costs(paillier, tree, returned, coins)

    monkeypatch.setattr(comparisons, "path_costs", watched)
    view(bost, repeated(0, LEVELS), 1)
    assert len(set(received)) == len(received) == 2**LEVELS - 1
