"""Owners who want their bins forgotten: CS erases them, asks again, and waits for who is away."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError
from revfrf.forest.tree import OPEN
from revfrf.messages.bins import BinsReply, SaltedLine
from revfrf.messages.events import CompletionReceipt, UsedCutsReceipt
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS
from revfrf.protocols.audit import Audit, audit
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.columns import ColumnSettings
from revfrf.storage.directory import Directory
from revfrf.testing.federations import Case, ignore, random_case, set_up, train, with_books
from revfrf.testing.peers import FaultyPeer, changing, offline, replaced
from revfrf.testing.recorders import recording
from tests.storage.traces import raw, where

CASE = random_case(5, rules=with_books(n_trees=8, max_depth=5))
FORGET = ColumnSettings(forget_bins=True)
LEVELS = pytest.mark.parametrize("level", [1, 2])


def forgetting(*owners: str, case: Case = CASE, **given: Any) -> Federation:
    """A trained federation in which these owners want their bins forgotten."""
    found = set_up(case, **given)
    for owner in owners:
        role = found.participants[owner]
        role.set_columns({column.name: FORGET for column in role.columns})
    return train(case, found)


def kept(found: Federation) -> set[str]:
    """The owners of whom CS has bins or salts, or bins on their way."""
    store = found.coordinator.store
    held = {name.split("/")[0] for name, held in store.bins.items() if len(held.bins) or held.salt}
    return held | {owner for owner, arrived in store.arriving.items() if arrived.data}


def audited(found: Federation) -> Audit:
    return audit(found.coordinator, None, ignore)


def last(found: Federation) -> EventCertificate:
    """The last event certificate, which holds."""
    certificate = found.coordinator.certificates[-1]
    certificate.verify(found.coordinator.identity.kgc)
    return certificate


def without(*leavers: str) -> str:
    """The digest of the forest that has never had these."""
    return train(CASE.without(*leavers)).coordinator.digest()


# -- forgetting -------------------------------------------------------------------------------------


def test_cs_forgets_the_bins_that_it_should_and_has_the_same_forest() -> None:
    found = forgetting("bank")
    assert kept(found) == {"telco", "shop"}
    assert found.coordinator.digest() == train(CASE).coordinator.digest()
    assert {line.feature for line in found.coordinator.side.lines if line.forget} == {"bank/x0", "bank/x1"}
    certified = last(found).core.report.inputs_after.features
    assert [line.forget for line in certified] == [True, True, False, False, False, False]


def test_a_column_may_be_forgotten_alone() -> None:
    found = set_up(CASE)
    found.participants["telco"].set_columns({"x1": FORGET})
    train(CASE, found)
    bins = found.coordinator.store.bins
    assert [name for name, held in bins.items() if not len(held.bins)] == ["telco/x1"]


def test_forgotten_bins_and_salts_leave_no_trace_on_disk(tmp_path: Path) -> None:
    found = forgetting("bank", "shop", stores=Directory(tmp_path / "forest", new=True))
    files = {name: data for name, data in raw(tmp_path / "forest").items() if name.startswith("cs")}
    plain = train(CASE).coordinator.store.bins
    salts = {book.salt for name in ("bank", "shop") for book in found.participants[name].store.books}
    bins = {plain[name].bins.tobytes() for name in ("bank/x0", "bank/x1", "shop/x0")}
    assert where(files, salts | bins) == {}
    assert where(files, {plain["telco/x0"].bins.tobytes()})


def test_bins_to_be_forgotten_never_leave_cs_s_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process or cluster would keep copies that CS cannot erase."""
    asked: list[float] = []

    def parts_elsewhere(seconds: float, _n_jobs: int) -> int:
        asked.append(seconds)
        return 0

    monkeypatch.setattr("revfrf.forest.growth.parts_elsewhere", parts_elsewhere)
    train(CASE)
    assert asked
    asked.clear()
    forgetting("shop")
    assert not asked


def test_audit_asks_for_forgotten_bins_again_and_forgets_them_again() -> None:
    found = forgetting("bank")
    with recording(found.network) as messages:
        assert audited(found).problems == {}
    assert {each.recipient for each in messages if each.type == "BinsRequest"} == {"bank"}
    assert kept(found) == {"telco", "shop"}


def test_audit_that_needs_an_owner_who_is_away_says_so() -> None:
    found = forgetting("bank")
    with offline(found.network, "bank"), pytest.raises(AbsentError, match="'bank'"):
        audited(found)


def other_salts(reply: BinsReply) -> tuple[SaltedLine, ...]:
    return tuple(msgspec.structs.replace(signed, salt=bytes(32)) for signed in reply.lines)


def other_bins(reply: BinsReply) -> bytes:
    data = bytearray(reply.data)
    data[0] ^= 1
    return bytes(data)


@pytest.mark.parametrize("change", [{"lines": other_salts}, {"data": other_bins}], ids=["salt", "bins"])
def test_other_bins_or_salts_than_are_certified_are_refused_when_they_are_sent_again(change: Any) -> None:
    found = forgetting("bank")
    before = found.coordinator.digest()
    liar = FaultyPeer(found.participants["bank"], on_reply=changing(BinsReply, **change))
    with replaced(found.network, "bank", liar):
        assert "forest" in audited(found).problems
        assert found.revoke(["telco"], 1, ignore).waits_for == ("bank",)
    assert kept(found) <= {"shop"}
    assert found.coordinator.digest() != before
    found.resume(ignore)
    assert found.coordinator.digest() == without("telco")


def test_owner_with_a_new_book_is_refused_where_the_old_one_is_certified() -> None:
    found = forgetting("bank")
    found.participants["bank"].store.put_books([])
    assert "forest" in audited(found).problems


# -- leaving ----------------------------------------------------------------------------------------


@LEVELS
@pytest.mark.parametrize("owners", [("bank",), ("bank", "shop", "telco")])
def test_leaving_asks_for_forgotten_bins_and_forgets_them_again(
    owners: tuple[str, ...], level: RevocationLevel
) -> None:
    found = forgetting(*owners)
    found.revoke(["telco"], level, ignore)
    assert found.coordinator.digest() == without("telco")
    assert kept(found) == {"bank", "shop"} - {*owners}
    assert last(found).waits_for == ()
    assert audited(found).holds


@LEVELS
def test_leaving_does_not_wait_for_an_owner_of_forgotten_bins(level: RevocationLevel) -> None:
    found = forgetting("bank", "shop")
    cs = found.coordinator
    with offline(found.network, "bank"):
        certificate = found.revoke(["telco"], level, ignore)
        assert certificate.leavers == ("telco",)
        assert last(found).waits_for == ("bank",)
        assert cs.waits_for == ["bank"]
        assert found.kgc.current.participants == ["bank", "shop"]
        assert not any(feature.startswith("telco/") for feature in cs.store.bins)
        assert not cs.side.whole
        assert cs.ready
        assert kept(found) == set()  # nor does CS keep what others have sent again meanwhile
        used = {f for tree in cs.side.forest.trees for f in tree.features.tolist()}
        assert OPEN in used
    found.resume(ignore)
    assert cs.digest() == without("telco")
    assert cs.waits_for == []
    assert kept(found) == set()
    done = last(found)
    assert done.core == certificate.core
    assert done.waits_for == ()
    assert [receipt.party for receipt in done.receipts if isinstance(receipt, CompletionReceipt)] == [CS]
    assert {r.party for r in done.receipts if isinstance(r, UsedCutsReceipt)} == {"bank", "shop"}
    assert done.unsigned == {}
    assert audited(found).holds


def test_somebody_may_leave_while_the_forest_waits_for_another_owner() -> None:
    found = forgetting("bank")
    with offline(found.network, "bank"):
        found.revoke(["telco"], 1, ignore)
    with offline(found.network, "bank", CC):
        found.resume(ignore)
        assert last(found).waits_for == ("bank",)
    found.resume(ignore)
    assert found.coordinator.digest() == without("telco")
    assert audited(found).holds


def test_owner_that_the_forest_waits_for_may_leave_itself() -> None:
    found = forgetting("bank")
    with offline(found.network, "bank"):
        found.revoke(["telco"], 1, ignore)
    found.kgc.announce()
    request = found.participants["bank"].leave(1)
    with offline(found.network, "bank"):
        found.kgc.handle("bank", request)
        found.resume(ignore)
    assert last(found).waits_for == ()
    assert found.coordinator.digest() == without("bank", "telco")
    assert audited(found).holds


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_trees_abstain_where_they_wait_for_an_owner_and_the_others_vote_as_always(voting: Any) -> None:
    """The votes are those of the trees that need neither open nodes nor the owner that is away."""
    found = forgetting("shop", case=random_case(5, rules=with_books(n_trees=60, max_depth=2)))
    codes = {name: own for name, own in CASE.codes.items() if name != "telco"}
    with offline(found.network, "shop"):
        found.revoke(["telco"], 1, ignore)
        cs = found.coordinator
        with recording(found.network) as messages:
            votes = found.votes(codes, CASE.n_rows, voting)
        assert {each.recipient for each in messages if each.type == "BinsRequest"} == {"bank"}
        n_trees = cs.plan.rules.n_trees
        assert (votes.n_voted < n_trees).any()
        assert votes.n_voted.all()
        partial = cs.side.forest
        bins = {name: held.bins for name, held in cs.store.bins.items()}
    expected = [
        sum(reach(partial, tree, bins, row) is not None for tree in range(n_trees)) for row in range(60)
    ]
    assert votes.n_voted.tolist() == expected
    if voting == "hard":
        for row in range(60):
            leaves = [reach(partial, tree, bins, row) for tree in range(n_trees)]
            classes = [int(np.argmax(leaf)) for leaf in leaves if leaf is not None]
            assert votes.totals[row].tolist() == np.bincount(classes, minlength=3).tolist()
    found.resume(ignore)
    assert (found.votes(codes, CASE.n_rows, voting).n_voted == n_trees).all()


def reach(forest: Any, number: int, bins: Any, row: int) -> Any:
    """The sums of the leaf that a row reaches, or None if that takes an open node or a forgotten column."""
    tree, node = forest.trees[number], 0
    while tree.features[node] >= 0:
        own = bins[forest.features[tree.features[node]]]
        if not len(own):
            return None
        node = int(tree.children[node]) + int(own[row] > tree.cuts[node])
    return None if tree.features[node] == OPEN else tree.sums[tree.leaves[node]]


def test_rows_for_which_no_tree_votes_are_refused_and_not_guessed() -> None:
    found = forgetting("bank", "shop")
    codes = {name: own for name, own in CASE.codes.items() if name != "telco"}
    with offline(found.network, "bank", "shop"):
        found.revoke(["telco"], 1, ignore)
        assert last(found).waits_for == ("bank", "shop")
        with pytest.raises(
            AbsentError, match="no tree votes without it for 60 of 60 rows; retry when it is back"
        ):
            found.votes(codes, CASE.n_rows, "hard")
    found.resume(ignore)
    assert (found.votes(codes, CASE.n_rows, "hard").n_voted == 8).all()
