"""The forest of the shares protocol is the one that docs/forest.md describes, however it is grown."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from joblib import parallel_config

from revfrf import RevocableForestClassifier, parallel
from revfrf.crypto.encoding import bound, missing
from revfrf.embedded.federation import Federation
from revfrf.errors import NoForestError, ProtocolError
from revfrf.forest.randomness import candidate_limit
from revfrf.forest.tree import OPEN
from revfrf.messages.bins import BinsReply
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols import shares
from revfrf.protocols.columns import ColumnSettings
from revfrf.protocols.events import salted_digest
from revfrf.testing.federations import (
    Case,
    Codes,
    ignore,
    random_case,
    set_up,
    targets_of,
    train,
    with_books,
)
from revfrf.testing.peers import FaultyPeer, failing, offline, replaced
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refused
from tests.federations import Plain, grow_plainly, in_numbers
from tests.reference import forest as reference

MISSING, BOUND = missing(64), bound(64)
PARTIES = ("bank", "telco", "shop", "ärzte")
CASE = random_case(3, rules=with_books(n_trees=6))
LEVELS: tuple[RevocationLevel, RevocationLevel] = (1, 2)


def digest(federation: Federation) -> str:
    return federation.coordinator.digest()


# -- against the reference --------------------------------------------------------------------------


def column_of(rng: random.Random, n: int) -> list[int]:
    """Of many or few values, with ties, holes and extremes, or without any value."""
    extremes = [1 - BOUND, BOUND - 1, 0, rng.randrange(1 - BOUND, BOUND)]
    kinds: Sequence[Sequence[int]] = [
        [rng.randrange(-1000, 1000) for _ in range(n)],
        [rng.randrange(3) for _ in range(n)],
        [rng.choice([MISSING, rng.randrange(-9, 9)]) for _ in range(n)],
        [rng.choice(extremes) for _ in range(n)],
        [rng.choice([MISSING, 7]) for _ in range(n)],
        [5] * n,
        [MISSING] * n,
    ]
    return list(rng.choice(kinds))


def tables(rng: random.Random, widths: Mapping[str, int], n: int) -> Codes:
    return {
        party: np.array([column_of(rng, n) for _ in range(width)], dtype=np.int64)
        for party, width in widths.items()
    }


@st.composite
def cases(draw: st.DrawFn, least: int = 1) -> Case:
    """Any small federation: what varies is drawn, what fills its tables comes from one number."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 60))
    widths = draw(st.lists(st.integers(1, 3), min_size=least, max_size=4))
    n_classes = draw(st.sampled_from([0, 2, 3]))
    y = [
        float(rng.randrange(n_classes)) if n_classes else rng.choice([rng.gauss(0, 9), 0.0]) for _ in range(n)
    ]
    rules = with_books(
        n_trees=draw(st.integers(1, 3)),
        max_depth=draw(st.sampled_from([1, 2, 5, 62])),
        candidate_limit=candidate_limit(draw(st.sampled_from([1e-9, 0.3, 0.7, 1.0]))),
        min_samples_split=draw(st.sampled_from([2, 2, 7])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 5])),
        bootstrap=draw(st.booleans()),
    )
    whole, parts = float(rng.randrange(1, 2**20)), [0.0, 1e-9, rng.random(), 3.7]
    weights = draw(
        st.sampled_from(
            [None, [1.0, *rng.choices([0.0, whole], k=n - 1)], [0.25, *rng.choices(parts, k=n - 1)]]
        )
    )
    codes = tables(rng, dict(zip(PARTIES, widths, strict=False)), n)
    return Case(codes, y, n_classes, rules, weights, draw(st.binary(max_size=4)))


def limited(plain: Plain, n_cuts: Mapping[str, int]) -> Plain:
    """The same forest with smaller books of some features."""
    return replace(plain, features=[replace(f, n_cuts=n_cuts.get(f.id, 255)) for f in plain.features])


def reference_votes(plain: Plain, codes: Codes, soft: bool) -> tuple[list[list[int]], list[int]]:
    """The votes for each row, and how many trees have voted."""
    totals, voted = [], []
    for row in range(len(next(iter(codes.values()))[0])):
        values = {
            f"{p}/x{i}": int(column[row]) for p, table in codes.items() for i, column in enumerate(table)
        }
        leaves = reference.predict(plain.forest, values)
        if not plain.scale.n_classes:
            totals.append([reference.number_votes(leaves, plain.scale)])
        else:
            totals.append(reference.soft_votes(leaves) if soft else reference.hard_votes(leaves))
        voted.append(reference.n_voted(leaves))
    return totals, voted


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.randoms(use_true_random=False), st.sampled_from([255, 255, 1, 3]))
def test_any_forest_is_the_reference_s_and_so_are_its_votes(
    case: Case, rng: random.Random, n_cuts: int
) -> None:
    federation = set_up(case)
    for participant in federation.participants.values():
        participant.set_columns({"x0": ColumnSettings(n_cuts)})
    plain = limited(grow_plainly(case), {f"{party}/x0": n_cuts for party in case.codes})
    assume(any(any(leaf) for leaf in plain.forest.leaves.values()))  # where no row counts, nothing is created
    assert digest(train(case, federation)) == plain.digest
    new = tables(rng, {party: len(table) for party, table in case.codes.items()}, 9)
    for codes, n_rows in ((case.codes, case.n_rows), (new, 9)):
        assert in_numbers(federation.votes(codes, n_rows, "soft")) == reference_votes(plain, codes, True)
        assert in_numbers(federation.votes(codes, n_rows, "hard")) == reference_votes(plain, codes, False)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(cases(least=2), st.data())
def test_forest_that_participants_have_left_is_the_reference_s_without_them(
    case: Case, data: st.DataObject
) -> None:
    """In any order, one by one or together, at any level."""
    order = data.draw(st.permutations(sorted(case.codes)))[1:]
    federation, gone = train(case), list[str]()
    while order:
        together = data.draw(st.integers(1, len(order)))
        leavers, order = order[:together], order[together:]
        gone += leavers
        certificate = federation.revoke(leavers, data.draw(st.sampled_from(LEVELS)), ignore)
        plain = grow_plainly(case.without(*gone))
        assert digest(federation) == plain.digest
        assert certificate.digest_after == salted_digest(federation.coordinator.record.salt, plain.digest)
        staying = case.without(*gone).codes
        assert in_numbers(federation.votes(staying, case.n_rows, "soft")) == reference_votes(
            plain, staying, True
        )


# -- what must not matter ---------------------------------------------------------------------------


@pytest.fixture
def _far(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However little the work is, it goes to the workers."""
    monkeypatch.setattr(parallel, "_WORTH_A_JOURNEY", 1e-12)
    yield
    parallel._abroad.close()


@pytest.mark.usefixtures("_far")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing", "sequential"])
def test_workers_and_their_number_do_not_matter(backend: str, n_jobs: int) -> None:
    with parallel_config(backend, n_jobs=2):
        federation = train(CASE, set_up(CASE, n_jobs=n_jobs))
        assert digest(federation) == grow_plainly(CASE).digest
        federation.revoke(["telco"], 1, ignore)
        votes = federation.votes(CASE.without("telco").codes, CASE.n_rows, "soft")
    plain = grow_plainly(CASE.without("telco"))
    assert digest(federation) == plain.digest
    assert in_numbers(votes) == reference_votes(plain, CASE.without("telco").codes, True)


@pytest.mark.parametrize("order", [("shop", "bank", "telco"), ("telco", "shop", "bank")])
def test_order_of_parties_does_not_matter(order: tuple[str, ...]) -> None:
    shuffled = replace(CASE, codes={party: CASE.codes[party] for party in order})
    assert digest(train(shuffled)) == grow_plainly(CASE).digest


def test_values_matter_by_their_order_alone_if_there_are_few() -> None:
    """The digest has cuts by number: other values in the same order grow the same forest."""
    other = {party: table**3 * 1000 + 7 for party, table in CASE.codes.items()}
    assert digest(train(replace(CASE, codes=other))) == digest(train(CASE))


def frame() -> Any:
    """The rows of the case, by names that say whose they are."""
    columns = {
        f"{party} {i}": column for party, table in CASE.codes.items() for i, column in enumerate(table)
    }
    return pd.DataFrame(columns)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_library_grows_the_same_forest_with_and_without_a_directory(tmp_path: Path, n_jobs: int) -> None:
    def fitted(**parameters: Any) -> RevocableForestClassifier:
        parties = {party: [f"{party} {i}" for i in range(len(table))] for party, table in CASE.codes.items()}
        model = RevocableForestClassifier(
            6,
            max_depth=4,
            max_features=0.5,
            min_samples_leaf=1,
            parties=parties,
            random_state=5,
            **parameters,
        )
        return model.fit(frame(), CASE.y)

    plain, kept = fitted(), fitted(directory=tmp_path / "forest", n_jobs=n_jobs)
    assert plain.digest_ == kept.digest_
    kept.close()
    again = RevocableForestClassifier.open(tmp_path / "forest")
    assert again.digest_ == plain.digest_
    for model in (plain, again):
        model.revoke("shop", 2)
    assert again.digest_ == plain.digest_
    assert again.predict_proba(frame()).tobytes() == plain.predict_proba(frame()).tobytes()
    again.close()


# -- leaving, whatever has happened -----------------------------------------------------------------


def created() -> Federation:
    """A forest that CS has written down, and nobody else knows of."""
    federation = set_up(CASE)
    for name, table in CASE.codes.items():
        federation.participants[name].hold("training", table)
    federation.coordinator.create(CASE.rules, federation.seed, targets_of(CASE))
    return federation


def opened() -> Federation:
    """A forest that everybody knows of, and that has not begun to grow."""
    federation = created()
    federation.coordinator.open()
    return federation


def without_bins_of(party: str) -> Federation:
    """Some bins have arrived; this owner has drawn its books, and its reply was lost."""
    federation = opened()
    lost = failing(ProtocolError("lost", kind="order"), BinsReply)
    peer = FaultyPeer(federation.participants[party], on_reply=lost)
    with replaced(federation.network, party, peer), refused("order", by=party):
        federation.resume(ignore)
    assert federation.participants[party].store.books
    assert f"{party}/x0" not in federation.coordinator.store.bins
    return federation


def without_trees(*numbers: int) -> Federation:
    """As a crash between trees leaves it."""
    federation = train(CASE)
    for number in numbers:
        del federation.coordinator.store.trees[number]
    with pytest.raises(NoForestError, match="not ready"):
        federation.votes(CASE.codes, CASE.n_rows, "hard")
    return federation


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("begin", "n_trees"),
    [
        (opened, 0),
        (lambda: without_bins_of("bank"), 0),
        (lambda: without_bins_of("telco"), 0),
        (lambda: without_trees(*range(6)), 0),
        (lambda: without_trees(0), 5),
        (lambda: without_trees(1, 2, 5), 3),
    ],
    ids=["nothing", "no bins of one who stays", "no bins of who leaves", "no tree", "one tree", "some trees"],
)
def test_forest_that_somebody_leaves_while_it_grows_is_the_one_without_it(
    begin: Any, n_trees: int, level: RevocationLevel
) -> None:
    federation = begin()
    store = federation.coordinator.store
    assert len(store.trees) == n_trees
    report = federation.revoke(["telco"], level, ignore).core.report
    assert digest(federation) == grow_plainly(CASE.without("telco")).digest
    assert sorted(store.bins) == ["bank/x0", "bank/x1", "shop/x0"]
    assert report.kept + report.rebuilt == federation.coordinator.side.n_nodes
    assert (report.kept + report.destroyed > 0) == (n_trees > 0)
    federation.revoke(["shop"], level, ignore)
    assert digest(federation) == grow_plainly(CASE.without("telco", "shop")).digest


def test_who_leaves_before_all_others_know_of_the_forest_was_never_in_it() -> None:
    federation = created()
    federation.participants["telco"].resume(federation.coordinator.opening)  # CS has told it alone
    federation.revoke(["telco"], 1, ignore)
    assert digest(federation) == grow_plainly(CASE.without("telco")).digest


@pytest.mark.parametrize("missing_trees", [(), (0,), (1, 2, 5), tuple(range(6))], ids=str)
def test_growth_that_was_interrupted_grows_what_is_missing_and_nothing_else(
    missing_trees: tuple[int, ...],
) -> None:
    federation = train(CASE)
    store = federation.coordinator.store
    before = dict(store.trees)
    for number in missing_trees:
        del store.trees[number]
    with recording() as sent:
        federation.resume(ignore)
    assert sent == []
    assert digest(federation) == grow_plainly(CASE).digest
    assert {number for number, tree in before.items() if store.trees[number] is not tree} == {*missing_trees}


def test_revocation_that_is_cut_off_between_trees_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is answered in between, and the report counts what was destroyed at first."""
    federation, expected = train(CASE), train(CASE).revoke(["telco"], 1, ignore).core.report
    monkeypatch.setattr(shares, "_COMMIT_SECONDS", -1.0)

    def cut_off(report: Any) -> None:
        if report.detail.startswith("2 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federation.revoke(["telco"], 1, cut_off)
    trees = federation.coordinator.store.trees
    assert any((tree.features == OPEN).any() for tree in trees.values())
    with pytest.raises(NoForestError):
        federation.votes(CASE.without("telco").codes, CASE.n_rows, "hard")
    federation.resume(ignore)
    assert digest(federation) == grow_plainly(CASE.without("telco")).digest
    report = federation.coordinator.certificates[-1].core.report
    for name in ("destroyed", "rebuilt", "kept"):
        assert getattr(report, name) == getattr(expected, name)


def test_nobody_is_asked_for_anything_when_somebody_leaves() -> None:
    """But KGC, which announces the epoch: the others may be away while CS rebuilds the forest."""
    federation = train(CASE)
    with recording() as sent:
        federation.revoke(["telco"], 2, ignore)
    asked = {each.type for each in sent if each.sender == "CS"}
    assert not asked & {"BinsRequest", "OpenForest"}
    with offline(federation.network, "bank"), refused(by="bank"):
        federation.votes(CASE.without("telco").codes, CASE.n_rows, "hard")


def test_owner_whose_columns_the_forest_does_not_use_is_not_asked_about_rows() -> None:
    constant = {**CASE.codes, "shop": np.full_like(CASE.codes["shop"], 5)}
    federation = train(replace(CASE, codes=constant))
    with recording() as sent:
        federation.votes(constant, CASE.n_rows, "hard")
    assert {each.recipient for each in sent if each.type == "BinsRequest"} == {"bank", "telco"}
