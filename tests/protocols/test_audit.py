"""Attacks of CS by which a certificate holds that says what is not so: the audit finds each, by its check.

`estimators.test_audit` changes what CS has stored. Here CS itself lies while it has everything certified.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, UsageError
from revfrf.forest.tree import Tree
from revfrf.messages.events import Report, UsedCutsReceipt
from revfrf.names import CS
from revfrf.protocols import events
from revfrf.protocols.audit import Audit, audit
from revfrf.protocols.certificate import sign_receipt, sign_report
from revfrf.protocols.events import inputs_of, salted_digest
from revfrf.protocols.shares import SharesCoordinator
from revfrf.testing.federations import ignore, set_up, train
from revfrf.testing.peers import offline
from revfrf.testing.recorders import recording
from tests.protocols.happened import CASE, changed, forgetting, happened, kgc_key, leave, of_four

CHECKS = ("event certificates", "inputs", "bins", "used cuts", "forest")


def audited(federation: Federation) -> Audit:
    return audit(federation.coordinator, kgc_key(federation).verify_key, ignore)


def problems(federation: Federation) -> set[str]:
    """The checks that do not hold, although all certificates do, and all members have signed."""
    found = audited(federation)
    for certificate in federation.coordinator.certificates:
        certificate.verify(kgc_key(federation).verify_key)
    assert found.checks == CHECKS
    assert found.missing_receipts == ()
    return set(found.problems)


@pytest.fixture
def federation() -> Federation:
    return train(of_four(CASE))


# -- stale nodes ------------------------------------------------------------------------------------


def stale(tree: Tree, gone: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> Tree:
    """The tree with other owners' cuts in place of the leavers', and all that was grown below them."""
    features = np.where(tree.features >= 0, numbers[tree.features], tree.features)
    taken = (tree.features >= 0) & gone[tree.features]
    return Tree(np.where(taken, 0, features), np.where(taken, np.uint8(0), tree.cuts), tree.sums)


def keep_stale_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """CS fills a leaver's nodes with cuts of others, and keeps what was grown on the leaver's partition."""
    destroy = SharesCoordinator.destroy

    def pretend(side: SharesCoordinator, leavers: Any) -> None:
        before = side.forest
        destroy(side, leavers)
        staying = [name for name in before.features if name.partition("/")[0] not in leavers]
        place = {name: number for number, name in enumerate(staying)}
        numbers = np.array([place.get(name, 0) for name in before.features])
        gone = np.array([name not in place for name in before.features])
        trees = {number: stale(tree, gone, numbers) for number, tree in enumerate(before.trees)}
        side.seat.store.put_trees(trees)

    monkeypatch.setattr(SharesCoordinator, "destroy", pretend)


def test_audit_finds_nodes_that_were_grown_below_a_leavers_split(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners sign for the cuts in them: they do not know what stood above."""
    with monkeypatch.context() as patched:
        keep_stale_nodes(patched)
        certificate = leave(federation, {"bank": 2})
    assert certificate.core.report.destroyed > 0
    assert federation.coordinator.side.whole
    assert problems(federation) == {"forest"}
    assert "its inputs define the forest" in audited(federation).problems["forest"]


def test_audit_finds_stale_nodes_also_after_a_later_event(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        keep_stale_nodes(patched)
        leave(federation, {"bank": 1})
    leave(federation, {"shop": 1})
    assert problems(federation) == {"forest"}


# -- lies in a report -------------------------------------------------------------------------------


def reporting(monkeypatch: pytest.MonkeyPatch, lie: Callable[[Report], dict[str, Any]]) -> None:
    """CS signs another report than it should."""
    monkeypatch.setattr(
        events, "sign_report", lambda identity, report: sign_report(identity, changed(report, **lie(report)))
    )


LIES: dict[str, tuple[Callable[[Report], dict[str, Any]], set[str]]] = {
    "an invented digest": (lambda _: {"digest_after": bytes(32)}, {"forest"}),
    "the digest of before": (lambda report: {"digest_after": report.digest_before}, {"forest"}),
    "more rebuilt nodes": (lambda report: {"rebuilt": report.rebuilt + 1}, {"forest"}),
    "more kept nodes": (lambda report: {"kept": report.kept + 1}, {"forest"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_audit_finds_a_report_with(federation: Federation, monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    changes, found = LIES[lie]
    with monkeypatch.context() as patched:
        reporting(patched, changes)
        leave(federation, {"bank": 2})
    assert problems(federation) == found


def test_how_many_nodes_were_destroyed_is_the_word_of_cs(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forest before the event is gone: there is nothing to compare with."""
    with monkeypatch.context() as patched:
        reporting(patched, lambda report: {"destroyed": report.destroyed + 1})
        leave(federation, {"bank": 2})
    assert problems(federation) == set()


# -- used cuts --------------------------------------------------------------------------------------

Named = dict[str, Any]


def fewer(used: Named) -> Named:
    return {name: columns for name, columns in used.items() if name != "telco"}


def unused(used: Named) -> Named:
    first, *others = used["telco"]
    return used | {"telco": (changed(first, cuts=bytes(range(max(first.cuts) + 1))), *others)}


@pytest.mark.parametrize("named", [fewer, unused])
def test_audit_finds_a_coordinator_that_names_other_cuts_than_the_forest_uses(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, named: Callable[[Named], Named]
) -> None:
    """Only cuts that an owner has signed for are compared with requests, and more of them tell CS more."""
    used_cuts = SharesCoordinator.used_cuts
    with monkeypatch.context() as patched:
        patched.setattr(SharesCoordinator, "used_cuts", lambda side: named(used_cuts(side)))
        leave(federation, {"bank": 2})
    assert used_cuts(federation.coordinator.side) != named(used_cuts(federation.coordinator.side))  # type: ignore[arg-type]
    assert problems(federation) == {"used cuts"}


def test_audit_finds_a_receipt_that_an_owner_and_cs_have_changed_together(federation: Federation) -> None:
    """The certificate holds: the owner has signed it. But it is not for what the forest uses."""
    cs, telco = federation.coordinator, federation.participants["telco"].identity
    last = cs.certificates[-1]
    receipts = list(last.receipts)
    [place] = [i for i, receipt in enumerate(receipts) if receipt.party == "telco"]
    right = receipts[place]
    assert isinstance(right, UsedCutsReceipt)
    receipts[place] = sign_receipt(telco, changed(right, columns=right.columns[:-1]))
    cs.certificates = (changed(last, receipts=tuple(receipts)),)
    assert problems(federation) == {"used cuts"}


# -- whose bins were forgotten ----------------------------------------------------------------------


def test_audit_asks_owners_for_bins_that_were_forgotten_and_forgets_them_again() -> None:
    federation = forgetting("telco")
    store = federation.coordinator.store
    before = dict(store.bins)
    with recording(federation.network) as sent:
        assert problems(federation) == set()
    assert {each.recipient for each in sent if each.type == "BinsRequest"} == {"telco"}
    assert all(store.bins[name] is held for name, held in before.items())


def test_owner_of_forgotten_bins_cannot_send_others_to_an_audit() -> None:
    """The audit does not hold then: either of them may be wrong."""
    federation = forgetting("telco")
    telco = federation.participants["telco"]
    telco.tables["training"] = telco.tables["training"][:, ::-1]
    found = audited(federation)
    assert not found.holds
    assert set(found.problems) == {"forest"}
    assert "'telco'" in found.problems["forest"]


def test_audit_needs_the_owner_of_forgotten_bins() -> None:
    federation = forgetting("telco")
    with offline(federation.network, "telco"), pytest.raises(AbsentError, match="'telco'"):
        audited(federation)


def test_completed_forest_is_audited_with_the_digest_of_its_completion() -> None:
    federation = forgetting("telco")
    with offline(federation.network, "telco"):
        leave(federation, {"bank": 2})
    federation.resume(ignore)
    assert problems(federation) == set()
    cs = federation.coordinator
    assert cs.certificates[-1].digest_after == salted_digest(cs.record.salt, cs.digest())
    assert inputs_of(cs) == cs.certificates[-1].core.report.inputs_after


# -- what cannot be audited -------------------------------------------------------------------------


def test_forest_that_is_not_certified_yet_is_not_audited() -> None:
    with pytest.raises(UsageError, match="not certified yet"):
        audited(set_up(of_four(CASE)))


def test_forest_of_the_paper_protocol_is_not_audited() -> None:
    with pytest.raises(UsageError, match="cannot be audited"):
        audited(happened("paper, creation").federation)


def test_audit_tells_nobody_anything_and_changes_nothing(federation: Federation) -> None:
    leave(federation, {"bank": 2})
    cs = federation.coordinator
    before = (cs.certificates, cs.digest(), dict(cs.store.bins), dict(cs.store.trees), cs.store.used_salts)
    with recording(federation.network) as sent:
        assert audited(federation).holds
    assert sent == []
    assert before == (
        cs.certificates,
        cs.digest(),
        dict(cs.store.bins),
        dict(cs.store.trees),
        cs.store.used_salts,
    )
    assert federation.network.roles[CS] is cs
