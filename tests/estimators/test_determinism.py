"""One seed, one forest: whatever the cores, the order of answers, the keys, and who else is there."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revfrf.embedded.federation import Federation
from revfrf.forest.randomness import candidate_limit
from revfrf.messages.base import Message
from revfrf.messages.fle_expan import LevelRequest
from revfrf.protocols.paper import fle_expan
from revfrf.testing.federations import (
    Case,
    columns_of,
    ignore,
    random_case,
    set_up,
    targets_of,
    toy_keys,
    train,
    with_rules,
)
from revfrf.transport.base import Answering
from tests.federations import grown_splits, leaf_paths

CASE = random_case(31, rules=with_rules(n_trees=6))


@pytest.fixture(scope="module")
def digest() -> str:
    return train(CASE).coordinator.digest()


class Delayed:
    """A participant that takes its time, a different one for every message."""

    def __init__(self, party: Answering, rng: random.Random) -> None:
        self.party, self.rng = party, rng

    def handle(self, sender: str, message: Message) -> Message:
        reply = self.party.handle(sender, message)
        if isinstance(message, LevelRequest):
            sleep(self.rng.choice([0, 0.002, 0.01]))
        return reply


@pytest.mark.parametrize("attempt", range(3))
def test_forest_does_not_depend_on_who_answers_first(digest: str, attempt: int) -> None:
    federation = set_up(CASE, n_jobs=4)
    for number, (name, party) in enumerate(federation.participants.items()):
        federation.network.roles[name] = Delayed(party, random.Random(10 * attempt + number))
    assert train(CASE, federation).coordinator.digest() == digest


@pytest.mark.parametrize("attempt", range(3))
def test_forest_does_not_depend_on_who_is_asked_first(
    digest: str, attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, orders = random.Random(attempt), set()

    def in_any_order(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        order = list(range(len(items)))
        rng.shuffle(order)
        orders.add(tuple(order))
        results = {position: function(items[position]) for position in order}
        return [results[position] for position in range(len(items))]

    monkeypatch.setattr(fle_expan, "side_by_side", in_any_order)
    assert train(CASE).coordinator.digest() == digest
    assert len(orders) > 1


def test_forest_does_not_depend_on_the_keys(digest: str) -> None:
    one, two = train(CASE), train(CASE)
    assert one.coordinator.digest() == two.coordinator.digest() == digest
    assert grown_splits(one) == grown_splits(two)
    first, second = one.coordinator.store.splits, two.coordinator.store.splits
    assert all(first[node].ciphertext != second[node].ciphertext for node in first)
    assert {m.h for m in one.kgc.state.certificates[0].members}.isdisjoint(
        m.h for m in two.kgc.state.certificates[0].members
    )


@pytest.mark.parametrize(
    "change",
    [
        {"n_trees": 7},
        {"max_depth": 5},
        {"candidate_limit": CASE.rules.candidate_limit - 1},
        {"min_samples_split": 3},
        {"min_samples_leaf": 2},
        {"bootstrap": False},
        {"method": "uniform"},
        {"n_candidates": 8},
        {"n_sampled": 17},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_names_every_rule(digest: str, change: dict[str, object]) -> None:
    other = train(replace(CASE, rules=with_rules(**{"n_trees": 6} | change)))
    assert other.coordinator.digest() != digest


@pytest.mark.parametrize("attempt", range(4))
def test_forest_does_not_depend_on_the_order_of_the_parties(digest: str, attempt: int) -> None:
    names = list(CASE.codes)
    random.Random(attempt).shuffle(names)
    assert (
        train(replace(CASE, codes={name: CASE.codes[name] for name in names})).coordinator.digest() == digest
    )


def test_forest_does_not_depend_on_the_order_of_columns_within_a_party(digest: str) -> None:
    """A feature is called by its name, not by its number."""
    columns = {party: list(reversed(owned)) for party, owned in columns_of(CASE.codes).items()}
    federation = Federation(columns, setup=toy_keys(), seed=CASE.seed)
    reversed_codes = {party: table[::-1].copy() for party, table in CASE.codes.items()}
    federation.train(reversed_codes, CASE.rules, targets_of(CASE), ignore)
    assert federation.coordinator.digest() == digest


# -- who else is there ------------------------------------------------------------------------------


def winners(federation: Federation) -> dict[int, set[str]]:
    """For each tree, the parties that won a node of it."""
    by_tree: dict[int, set[str]] = {}
    for (tree, _), split in federation.coordinator.store.splits.items():
        by_tree.setdefault(tree, set()).add(split.owner)
    return by_tree


def tree_of(federation: Federation, tree: int) -> tuple[object, ...]:
    """All there is of one tree."""
    store = federation.coordinator.store
    return (
        {node: split for node, split in grown_splits(federation).items() if node[0] == tree},
        {node: leaf for node, leaf in store.leaves.items() if node[0] == tree},
        leaf_paths(federation)[tree].tolist(),
    )


@st.composite
def crowded_cases(draw: st.DrawFn) -> Case:
    """Many parties and small trees, so that some party wins nothing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, n_parties = draw(st.integers(10, 40)), draw(st.integers(2, 7))
    codes = {f"party {i}": rng.integers(-5, 20, (draw(st.integers(1, 3)), n)) for i in range(n_parties)}
    n_classes = draw(st.sampled_from([0, 2, 3]))
    y = rng.integers(0, n_classes, n).astype(float) if n_classes else rng.normal(0, 1, n)
    rules = with_rules(
        n_trees=draw(st.integers(1, 4)),
        max_depth=draw(st.integers(1, 3)),
        candidate_limit=candidate_limit(draw(st.sampled_from([0.05, 0.3, 1.0]))),
        method=draw(st.sampled_from(["quantile", "uniform"])),
        n_sampled=draw(st.sampled_from([4, 64])),
    )
    return Case(codes, y.tolist(), n_classes, rules, seed=draw(st.binary(max_size=3)))


@settings(max_examples=6)
@given(crowded_cases())
def test_tree_in_which_a_party_won_nothing_is_the_same_without_it(case: Case) -> None:
    whole = train(case)
    won = winners(whole)
    for party in case.codes:
        rest = train(case.without(party))
        for tree in range(case.rules.n_trees):
            if party not in won.get(tree, set()):
                assert tree_of(rest, tree) == tree_of(whole, tree)
        if not any(party in parties for parties in won.values()):
            assert rest.coordinator.digest() == whole.coordinator.digest()


def test_some_party_wins_nothing_and_some_tree_changes() -> None:
    """So that the law above is not an empty one."""
    useless = np.zeros((2, 60), np.int64)
    case = replace(CASE, codes=CASE.codes | {"useless": useless})
    whole = train(case)
    assert all("useless" not in parties for parties in winners(whole).values())
    assert train(case.without("useless")).coordinator.digest() == whole.coordinator.digest()
    assert train(case.without("bank")).coordinator.digest() != whole.coordinator.digest()


def test_node_changes_only_below_a_node_that_the_leaver_won() -> None:
    """The first node on a way down that is not the same without a party is one that the party won."""
    whole = train(CASE)
    splits = grown_splits(whole)
    for party in CASE.codes:
        rest = grown_splits(train(CASE.without(party)))
        for node, split in splits.items():
            tree, path = node
            above = [(tree, path >> up) for up in range(path.bit_length())]
            if not any(splits[n].feature.startswith(f"{party}/") for n in above):
                assert rest[node] == split
