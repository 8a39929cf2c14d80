"""The forest without the leaver is the one that never knew it, bit for bit; and what is gone."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.errors import UsageError
from revfrf.estimators._restore import check_federation
from revfrf.forest.randomness import candidate_limit
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols.events import salted_digest
from revfrf.protocols.paper.frf_revoc import doomed
from revfrf.testing.federations import Case, train, with_rules
from tests.federations import in_numbers
from tests.protocols.frf_revoc.leaving import CASE, LEVELS, answers, check_same, leave, without
from tests.quick import quick

MISSING = missing(64)

# -- the forest without the leaver ------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Forests of all kinds, with ties, missing values, rows without weight, and columns of one value."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    n_rows, spread = draw(st.integers(4, 40)), draw(st.sampled_from([1, 2, 5, 10**6]))
    missing = draw(st.sampled_from([0.0, 0.3]))
    names = rng.sample(["bank", "telco", "shop", "Ämter", "a b"], draw(st.integers(2, 5)))
    codes = {}
    for name in names:
        columns = []
        for _ in range(rng.randint(1, 3)):
            width = rng.choice([0, spread])
            column = [rng.randint(-width, width) for _ in range(n_rows)]
            columns.append([MISSING if rng.random() < missing else x for x in column])
        codes[name] = np.array(columns, dtype=np.int64)
    n_classes = draw(st.sampled_from([0, 2, 3]))
    y = [rng.gauss(0, 9) if not n_classes else float(rng.randrange(n_classes)) for _ in range(n_rows)]
    weights: list[float] | None = None
    if draw(st.booleans()):
        weights = [rng.choice([0.0, 1.0, 2.0, 0.37]) for _ in range(n_rows - 1)] + [1.0]
    rules = with_rules(
        n_trees=draw(st.integers(1, 4)),
        max_depth=draw(st.integers(1, 6)),
        candidate_limit=candidate_limit(draw(st.sampled_from([1e-9, 0.2, 0.6, 1.0]))),
        min_samples_split=draw(st.sampled_from([2, 7])),
        min_samples_leaf=draw(st.sampled_from([1, 2, max(1, n_rows // 3), n_rows])),
        bootstrap=draw(st.booleans()),
        method=draw(st.sampled_from(["quantile", "uniform"])),
        n_candidates=draw(st.sampled_from([1, 3, 9])),
        n_sampled=draw(st.sampled_from([2, 8, 64])),
    )
    return Case(codes, y, n_classes, rules, weights, seed=rng.randbytes(8))


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.data())
def test_whoever_leaves_in_whatever_order_the_forest_is_the_one_without_them(
    case: Case, data: st.DataObject
) -> None:
    """Groups of leavers, one after the other, at any level, until one participant is left."""
    federation, order = train(case), data.draw(st.permutations(sorted(case.codes)))
    while len(order) > 1:
        group = order[: data.draw(st.integers(1, len(order) - 1))]
        before = federation.coordinator.certificates[-1].digest_after
        level = data.draw(st.sampled_from(LEVELS))
        certificate = leave(federation, group, level)
        case, order = without(case, group), order[len(group) :]
        check_same(federation, case)
        certificate.verify(federation.coordinator.identity.kgc)
        report, cs = certificate.core.report, federation.coordinator
        assert report.digest_before == before
        assert report.digest_after == salted_digest(cs.record.salt, cs.digest())
        store = federation.coordinator.store
        assert report.kept + report.rebuilt == len(store.splits) + len(store.leaves)


@pytest.mark.parametrize(
    ("leaver", "level", "n_classes"),
    quick(product(CASE.codes, LEVELS, [0, 3]), [("bank", 1, 0), ("telco", 2, 3), ("shop", 2, 0)]),
)
def test_encrypted_answers_are_those_of_the_forest_without_the_leaver(
    leaver: str, level: RevocationLevel, n_classes: int
) -> None:
    case = replace(CASE, n_classes=n_classes)
    federation, left = train(case), case.without(leaver)
    leave(federation, [leaver], level)
    check_same(federation, left, ask=True)
    some = {party: table[:, :6] for party, table in left.codes.items()}
    assert in_numbers(answers(federation, some)) == in_numbers(answers(train(left), some))


@pytest.mark.parametrize("level", LEVELS)
def test_owner_consents_although_its_nodes_have_moved_to_other_levels(level: RevocationLevel) -> None:
    """It was asked before, and has as many nodes as then."""
    case = replace(CASE, n_classes=0)
    federation, left = train(case), case.without("bank")
    answers(federation, {party: table[:, :2] for party, table in case.codes.items()})
    store = federation.participants["shop"].store
    before = len(store.own_splits)
    leave(federation, ["bank"], level)
    assert len(store.own_splits) == before
    check_same(federation, left, ask=True)


@pytest.mark.parametrize("gone", [[], ["bank", "shop"]], ids=["all of them", "last one"])
def test_last_participant_cannot_leave_and_the_forest_stays(federation: Federation, gone: list[str]) -> None:
    for party in gone:
        leave(federation, [party])
    staying = without(CASE, gone)
    with pytest.raises(UsageError, match="the last participant cannot leave"):
        leave(federation, list(staying.codes))
    assert not federation.leaving
    assert federation.participants.keys() == staying.codes.keys()
    check_same(federation, staying, ask=True)
    if not gone:
        leave(federation, ["bank"])
        check_same(federation, CASE.without("bank"))


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_that_alone_could_split_leaves_leaves_behind(level: RevocationLevel) -> None:
    """Columns of one value cannot take its place: every tree becomes its root."""
    codes = {name: np.zeros_like(table) for name, table in CASE.codes.items()} | {"bank": CASE.codes["bank"]}
    case = replace(CASE, codes=codes, rules=with_rules(candidate_limit=candidate_limit(1.0)))
    federation = train(case)
    assert len(federation.coordinator.store.splits) > 4
    leave(federation, ["bank"], level)
    store = federation.coordinator.store
    assert not store.splits
    assert sorted(store.leaves) == [(tree, 1) for tree in range(4)]
    check_same(federation, case.without("bank"), ask=True)


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_without_a_split_takes_nothing_along(level: RevocationLevel) -> None:
    case = replace(CASE, codes=CASE.codes | {"shop": np.full((1, 60), 7)})
    federation = train(case)
    before = federation.coordinator.digest()
    report = leave(federation, ["shop"], level).core.report
    assert (report.destroyed, report.rebuilt, federation.coordinator.digest()) == (0, 0, before)
    check_same(federation, case.without("shop"), ask=True)


@pytest.mark.parametrize(("n_classes", "level"), quick(product([0, 2], LEVELS), [(0, 2)]))
def test_chain_to_the_deepest_level_is_cut_where_the_leaver_stands(
    n_classes: int, level: RevocationLevel
) -> None:
    """Paths of more than 53 bits: every cut takes the lowest row off, and the rest goes right."""
    n_rows = 60
    chain = -(2 ** np.arange(n_rows + 1)[:0:-1])
    upper, lower = chain.copy(), chain.copy()
    upper[56:], lower[:56] = chain[56], chain[56]
    codes = {"bank": np.array([upper]), "telco": np.array([lower]), "shop": np.array([np.minimum(lower, -9)])}
    y = [float(i % 2) for i in range(n_rows)]
    rules = with_rules(
        n_trees=2,
        max_depth=62,
        bootstrap=False,
        method="uniform",
        n_candidates=1,
        n_sampled=64,
        candidate_limit=candidate_limit(1.0),
    )
    case = Case(codes, y, n_classes, rules)
    federation = train(case)
    owned = [node for node, split in federation.coordinator.store.splits.items() if split.owner != "bank"]
    assert max(path for _, path in owned) > 2**56
    for number_of_leavers, party in enumerate(["telco", "shop"], 1):
        leave(federation, [party], level)
        check_same(federation, without(case, ["telco", "shop"][:number_of_leavers]))


# -- what is gone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("leavers", [["bank"], ["telco"], ["bank", "shop"]], ids=" and ".join)
def test_coordinator_keeps_nothing_of_the_leaver_and_of_destroyed_nodes(
    leavers: list[str], level: RevocationLevel
) -> None:
    federation = train(CASE)
    store = federation.coordinator.store
    old, going = dict(store.splits), doomed(store, leavers)
    certificate = leave(federation, leavers, level)
    assert certificate.core.report.destroyed == len(going)
    assert not [split for split in store.splits.values() if split.owner in leavers]
    dead = {old[node].ciphertext for node in going & old.keys()}
    kept_batches = {split.batch.signature for split in store.splits.values()}
    assert not dead & {split.ciphertext for split in store.splits.values()}
    of_leavers = {split.batch.signature for split in old.values() if split.owner in leavers}
    assert not of_leavers & kept_batches
    owned = {name: set(owner.store.own_splits) for name, owner in federation.participants.items()}
    assert set().union(*owned.values()) == set(store.splits)
    assert sum(map(len, owned.values())) == len(store.splits)
    assert all(store.splits[node].owner == name for name, nodes in owned.items() for node in nodes)
    for node in old.keys() - going:
        same = store.splits[node].ciphertext == old[node].ciphertext
        assert same == (level == 1)


@pytest.mark.parametrize("level", LEVELS)
def test_every_split_is_signed_for_the_epoch_in_which_it_was_encrypted(level: RevocationLevel) -> None:
    federation = train(CASE)
    kept = set(federation.coordinator.store.splits)
    kept -= doomed(federation.coordinator.store, ["bank"])
    leave(federation, ["bank"], level)
    epochs = {node: split.epoch for node, split in federation.coordinator.store.splits.items()}
    assert {epochs[node] for node in kept} <= {level}
    assert {epoch for node, epoch in epochs.items() if node not in kept} == {2}
    check_federation(federation, training_rows=True)


def test_destroyed_are_exactly_the_nodes_at_and_below_the_leavers_splits() -> None:
    store = train(CASE).coordinator.store
    for leavers in (["bank"], ["telco", "shop"], []):
        roots = {node for node, split in store.splits.items() if split.owner in leavers}
        below = {
            (tree, path)
            for tree, path in [*store.splits, *store.leaves]
            if roots & {(tree, path >> shift) for shift in range(path.bit_length())}
        }
        assert doomed(store, leavers) == below
