"""Requests to leave and reports that somebody has left: each is its signer's own, of now, and taken once."""

from dataclasses import replace
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError, UsageError
from revfrf.messages.events import Certified, Event, EventReport, Report
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.names import CC, CS, KGC
from revfrf.protocols.certificate import sign_report, sign_revocation
from revfrf.protocols.common.epoch import certificate_digest
from revfrf.protocols.events import salted_digest
from revfrf.protocols.paper.sides import PaperCoordinator
from revfrf.roles.kgc import KeyCentre
from revfrf.testing.federations import later_keys, set_up, train
from revfrf.testing.refusals import refusal_kind
from tests.protocols.frf_revoc.leaving import (
    CASE,
    LEVELS,
    begin_epoch,
    changed,
    leave,
    refused,
    request_of,
    send,
)

# -- requests to leave ------------------------------------------------------------------------------


def resigned(members: Federation, signer: str, /, **changes: Any) -> RevocationRequest:
    """A request signed by this party, who pretends that some of its identity is otherwise."""
    identity = members.network.roles[signer].identity  # type: ignore[attr-defined]
    forest = changes.pop("forest", members.coordinator.plan.forest)
    pretended = replace(identity, **changes)
    return sign_revocation(pretended, forest, 1)


def test_request_is_taken_once(federation: Federation) -> None:
    request = request_of(federation)
    send(federation, KGC, request, "bank")
    assert refused(federation, KGC, request, "bank") == "replay"
    assert federation.kgc.state.leaving == {"bank": request}


def test_request_is_not_taken_again_after_the_leaver_has_left(federation: Federation) -> None:
    request, other = request_of(federation), request_of(federation)
    federation.network.roles["keeps"] = federation.participants["bank"]
    send(federation, KGC, request, "bank")
    leave(federation, ["bank"])
    assert refused(federation, KGC, request, "bank") == "replay"
    assert refused(federation, KGC, other, "bank") == "epoch"
    late = resigned(federation, "keeps", certificate=federation.kgc.current)
    assert refused(federation, KGC, late, "bank") == "member"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize(
    "fields",
    [{"signature": bytes(64)}, {"level": 2}, {"time": 0}, {"nonce": bytes(16)}, {"party": "telco"}],
    ids=lambda fields: next(iter(fields)),
)
def test_changed_request_is_refused(federation: Federation, fields: dict[str, Any]) -> None:
    request = changed(request_of(federation), **fields)
    assert refused(federation, KGC, request, request.party) == "signature"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("signer", ["telco", "shop", CS, CC])
def test_nobody_signs_for_another(federation: Federation, signer: str) -> None:
    """Not even if the message seems to come from the leaver."""
    request = resigned(federation, signer, name="bank")
    assert refused(federation, KGC, request, "bank") == "signature"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("sender", ["telco", CS])
def test_request_is_taken_from_the_leaver_alone(federation: Federation, sender: str) -> None:
    request = request_of(federation)
    assert refused(federation, KGC, request, sender) == "sender"
    assert not federation.kgc.state.leaving


def test_request_to_leave_another_forest_is_refused(federation: Federation) -> None:
    """KGC has certified one, and knows no other."""
    request = resigned(federation, "bank", forest=bytes(16))
    assert refused(federation, KGC, request, "bank") == "forest"
    assert federation.coordinator.ready


def test_request_of_another_epoch_or_federation_is_refused(federation: Federation) -> None:
    epochs = [changed(federation.kgc.current, epoch=epoch) for epoch in (0, 2, 2**32 - 1)]
    wrong: list[dict[str, Any]] = [{"federation": "another"}, *({"certificate": epoch} for epoch in epochs)]
    for changes in wrong:
        assert refused(federation, KGC, resigned(federation, "bank", **changes), "bank") == "epoch"


@pytest.mark.parametrize("party", [CS, CC, "clinic"])
def test_servers_and_requesters_cannot_leave(federation: Federation, party: str) -> None:
    federation.enrol_requester("clinic")
    request = resigned(federation, party, certificate=federation.kgc.current)
    assert refused(federation, KGC, request, party) == "sender"
    assert refusal_kind(lambda: federation.kgc.handle(party, request)) == "member"


def test_kgc_keeps_the_last_participant_whatever_the_others_ask(federation: Federation) -> None:
    for party in ("bank", "shop"):
        send(federation, KGC, request_of(federation, party), party)
    assert refused(federation, KGC, request_of(federation, "telco"), "telco") == "member"
    assert begin_epoch(federation).revoked == ("bank", "shop")


def test_nobody_leaves_before_there_is_a_federation(federation: Federation) -> None:
    kgc = KeyCentre(federation.kgc.channel, federation.kgc.keys)
    assert refusal_kind(lambda: kgc.handle("bank", request_of(federation))) == "epoch"


def test_nobody_leaves_before_there_is_a_forest() -> None:
    bank = set_up(CASE).participants["bank"]
    assert refusal_kind(lambda: bank.leave(1)) == "forest"


def test_epoch_begins_only_if_somebody_asks_and_with_keys_that_fit_the_level(federation: Federation) -> None:
    with pytest.raises(UsageError, match="nobody has asked"):
        begin_epoch(federation)
    send(federation, KGC, request_of(federation, level=2), "bank")
    with pytest.raises(UsageError, match="level 2 needs"):
        begin_epoch(federation)
    federation.kgc.cancel_revocations(["bank"])
    send(federation, KGC, request_of(federation, level=1), "bank")
    with pytest.raises(UsageError, match="level 1 none"):
        begin_epoch(federation, later_keys()[0])
    assert federation.kgc.current.epoch == 1


def test_who_asks_again_is_told_the_same_and_only_a_higher_level_counts(federation: Federation) -> None:
    first = request_of(federation, level=1)
    send(federation, KGC, first, "bank")
    send(federation, KGC, request_of(federation, level=1), "bank")
    assert federation.kgc.state.leaving == {"bank": first}
    higher = request_of(federation, level=2)
    send(federation, KGC, higher, "bank")
    send(federation, KGC, request_of(federation, level=1), "bank")
    assert federation.kgc.state.leaving == {"bank": higher}


def test_highest_level_that_anybody_asks_for_is_everybodys(federation: Federation) -> None:
    for party, level in zip(("bank", "shop"), LEVELS, strict=True):
        send(federation, KGC, request_of(federation, party, level), party)
    with pytest.raises(UsageError, match="level 2 needs"):
        begin_epoch(federation)


# -- reports ----------------------------------------------------------------------------------------


def signed_report(federation: Federation) -> Report:
    """A report of the current epoch as CS would sign it."""
    cs, last = federation.coordinator, federation.coordinator.certificates[-1]
    unsigned = changed(
        last.core.report,
        epoch=certificate_digest(federation.kgc.current),
        inputs_before=last.core.report.inputs_after,
        digest_before=last.digest_after,
        rebuilt=7,
    )
    return sign_report(cs.identity, unsigned)


def begun(federation: Federation) -> Report:
    """The report of a new epoch that has begun."""
    send(federation, KGC, request_of(federation), "bank")
    begin_epoch(federation)
    return signed_report(federation)


def reported(federation: Federation, report: Report, sender: str = CS) -> Event:
    reply: Certified = send(federation, KGC, EventReport(report=report), sender, Certified)
    return reply.event


def test_request_that_comes_while_another_leaves_is_kept_until_that_has_ended(federation: Federation) -> None:
    """A revocation that takes long, or that CS does not end, keeps nobody from asking."""
    report = begun(federation)
    send(federation, KGC, request_of(federation, "shop"), "shop")
    with pytest.raises(ProtocolError, match="a revocation is in progress"):
        begin_epoch(federation)
    assert set(federation.kgc.state.leaving) == {"shop"}
    reported(federation, report)
    assert set(federation.kgc.state.leaving) == {"shop"}
    assert begin_epoch(federation).revoked == ("bank", "shop")


def test_event_is_certified_once(federation: Federation) -> None:
    """CS that was killed before it got the answer asks again, and gets the same."""
    report = begun(federation)
    event = reported(federation, report)
    assert event.report == report
    assert reported(federation, report) == event
    other = sign_report(federation.coordinator.identity, changed(report, kept=report.kept + 1))
    assert refusal_kind(lambda: reported(federation, other)) == "order"
    assert federation.kgc.state.certified == event


def test_report_before_anything_has_happened_is_refused(federation: Federation) -> None:
    assert refusal_kind(lambda: reported(federation, signed_report(federation))) == "order"


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "another epoch": ("order", {"epoch": bytes(32)}),
    "another forest": ("forest", {"forest": bytes(16)}),
    "another digest before": ("forest", {"digest_before": bytes(32)}),
    "no digest before": ("forest", {"digest_before": None}),
    "no inputs before": ("forest", {"inputs_before": None, "digest_before": None}),
    "somebody to wait for who has left": ("order", {"waits_for": ("bank",)}),
}


@pytest.mark.parametrize("lie", WRONG)
def test_report_that_does_not_go_on_where_the_last_one_ended_is_refused(
    federation: Federation, lie: str
) -> None:
    honest, (kind, changes) = begun(federation), WRONG[lie]
    report = sign_report(federation.coordinator.identity, changed(honest, **changes))
    assert refusal_kind(lambda: reported(federation, report)) == kind
    assert reported(federation, honest).report == honest


@pytest.mark.parametrize("part", ["rules", "seed", "targets", "rows"])
def test_report_that_begins_with_other_inputs_than_were_certified_is_refused(
    federation: Federation, part: str
) -> None:
    honest = begun(federation)
    assert honest.inputs_before is not None
    before = changed(honest.inputs_before, **{part: bytes(32)})
    for also in ({}, {"inputs_after": before}):
        lie = sign_report(federation.coordinator.identity, changed(honest, inputs_before=before, **also))
        assert refusal_kind(lambda lie=lie: reported(federation, lie)) == "forest"  # type: ignore[misc]


def test_report_by_another_is_refused(federation: Federation) -> None:
    honest = begun(federation)
    for other in (federation.participants["telco"].identity, federation.compute.identity):
        lie = sign_report(other, honest)
        assert refusal_kind(lambda lie=lie: reported(federation, lie)) == "order"  # type: ignore[misc]


def keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CS destroy nothing."""
    for method in ("prepare_leaving", "destroy"):
        monkeypatch.setattr(PaperCoordinator, method, lambda *_: None)


def test_only_training_again_finds_a_coordinator_that_reports_without_rebuilding(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate holds, for it signs what it likes. A forest of the shares protocol can be audited."""
    keep_everything(monkeypatch)
    certificate = leave(federation, ["bank"])
    certificate.verify(federation.coordinator.identity.kgc)
    honest = train(CASE.without("bank")).coordinator.digest()
    assert certificate.digest_after != salted_digest(federation.coordinator.record.salt, honest)
