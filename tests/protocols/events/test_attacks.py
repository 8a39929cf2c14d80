"""Nobody keeps others from leaving, and nobody passes something else off as a leaving."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.messages.base import Done, Message
from revfrf.messages.bins import BinsRequest
from revfrf.messages.events import Countersigned, EventNotice, EventReport, UsedCuts
from revfrf.names import CS, KGC
from revfrf.protocols.audit import audit
from revfrf.protocols.certificate import sign_report, sign_revocation
from revfrf.protocols.columns import ColumnSettings
from revfrf.storage.directory import Directory
from revfrf.testing.federations import ignore, random_case, set_up, train, with_books
from revfrf.testing.peers import FaultyPeer, offline
from tests.protocols.happened import forgetting
from tests.storage.traces import raw, where

CASE = random_case(11, rules=with_books())


def test_request_to_leave_another_forest_stops_nobody() -> None:
    federation = train(CASE)
    request = sign_revocation(federation.participants["shop"].identity, bytes(16), 1)
    with pytest.raises(RefusedError):
        federation.network.channel("shop").call(KGC, request, Done)
    assert federation.revoke(["telco"], 1, ignore).leavers == ("telco",)


def test_request_before_the_forest_is_certified_may_name_any_forest() -> None:
    """KGC cannot know it yet. The leaver is out, and the others go on."""
    federation = set_up(CASE)
    request = sign_revocation(federation.participants["shop"].identity, bytes(16), 1)
    federation.network.channel("shop").call(KGC, request, Done)
    train(CASE.without("shop"), federation)
    assert federation.coordinator.ready
    assert federation.kgc.current.participants == ["bank", "telco"]
    federation.coordinator.certificates[-1].verify(federation.coordinator.identity.kgc)


def test_leaver_without_a_node_waits_for_no_owner_of_forgotten_bins() -> None:
    case = replace(CASE, codes=CASE.codes | {"telco": np.zeros_like(CASE.codes["telco"])})
    federation = set_up(case)
    settings = dict.fromkeys(("x0", "x1"), ColumnSettings(forget_bins=True))
    federation.participants["bank"].set_columns(settings)
    train(case, federation)
    with offline(federation.network, "bank"):
        certificate = federation.revoke(["telco"], 1, ignore)
        assert certificate.waits_for == ()
        assert federation.coordinator.ready


def test_owner_that_refuses_its_forgotten_bins_is_treated_as_one_that_is_away() -> None:
    federation = forgetting("bank")

    def refuse(_: str, message: Message) -> Message:
        if isinstance(message, BinsRequest):
            raise ProtocolError("no", kind="order")
        return message

    honest = federation.network.roles["bank"]
    federation.network.roles["bank"] = FaultyPeer(federation.participants["bank"], on_request=refuse)
    assert federation.revoke(["telco"], 2, ignore).waits_for == ("bank",)
    assert federation.coordinator.ready
    federation.resume(ignore)  # it is asked again, refuses again, and holds nobody up
    assert federation.revoke(["shop"], 1, ignore).waits_for == ("bank",)
    federation.network.roles["bank"] = honest
    federation.resume(ignore)
    assert federation.coordinator.certificates[-1].waits_for == ()


def test_creation_whose_certificate_was_lost_is_asked_for_again_after_somebody_has_left() -> None:
    federation = set_up(CASE)
    cs, lost = federation.coordinator, list[Message]()

    class Losing:
        """A channel that breaks after KGC has certified the first event."""

        def call(self, to: str, message: Message, reply: type[Any]) -> Any:
            answer = channel.call(to, message, reply)
            if isinstance(message, EventReport) and not lost:
                lost.append(message)
                raise AbsentError(KGC, "the connection broke")
            return answer

    channel, cs.channel = cs.channel, Losing()
    with pytest.raises(AbsentError):
        train(CASE, federation)
    assert federation.kgc.state.certified is not None
    federation.kgc.handle("telco", federation.participants["telco"].leave(2))
    federation.resume(ignore)
    assert [certificate.leavers for certificate in cs.certificates] == [(), ("telco",)]
    assert cs.ready
    assert cs.digest() == train(CASE.without("telco")).coordinator.digest()


def test_report_that_kgc_has_never_seen_is_dropped() -> None:
    federation = train(CASE)
    cs = federation.coordinator
    cs.store.put_reported(msgspec.structs.replace(cs.certificates[0].core.report, rebuilt=1))
    assert federation.revoke(["telco"], 1, ignore).leavers == ("telco",)
    assert cs.store.reported is None


def test_owner_signs_one_list_of_used_cuts_for_an_event() -> None:
    """Not another one either, after a notice of an older event."""
    federation = train(CASE)
    federation.revoke(["telco"], 2, ignore)
    first, second = federation.coordinator.certificates
    lines = second.core.report.inputs_after.features
    other = (UsedCuts(next(line.feature for line in lines if line.feature.startswith("bank/")), b"\0"),)
    for certificate in (second, first, second):
        notice = EventNotice(event=certificate.core, used=other)
        with pytest.raises(RefusedError):
            federation.network.channel(CS).call("bank", notice, Countersigned)


def test_leaving_cannot_change_labels_or_seed() -> None:
    federation = train(CASE)
    cs = federation.coordinator
    cs.targets = replace(cs.targets, values=cs.targets.values[::-1].copy())
    with pytest.raises(RefusedError):
        federation.revoke(["telco"], 2, ignore)
    cs.targets = replace(cs.targets, values=cs.targets.values[::-1].copy())
    cs.write(msgspec.structs.replace(cs.record, seed=bytes(len(cs.record.seed))))
    with pytest.raises(RefusedError):
        federation.resume(ignore)


def test_report_cannot_wait_for_owners_whose_bins_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = train(CASE)
    monkeypatch.setattr(
        "revfrf.protocols.events.sign_report",
        lambda own, report: sign_report(own, msgspec.structs.replace(report, waits_for=("bank",))),
    )
    with pytest.raises(RefusedError):
        federation.revoke(["telco"], 1, ignore)


def test_time_of_a_request_is_that_of_its_own_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = train(CASE)
    kgc = federation.kgc
    for now, party in ((1000, "telco"), (999_999, "shop")):
        monkeypatch.setattr("revfrf.roles.kgc.time.time", lambda now=now: now)
        kgc.handle(party, federation.participants[party].leave(1))
        if party == "telco":
            kgc.begin_epoch(None)
            kgc.announce()
    federation.coordinator.revoke(ignore)
    assert federation.coordinator.certificates[-1].core.asked_at == 1000


def test_salts_of_receipts_leave_no_trace_after_the_next_event(tmp_path: Path) -> None:
    federation = train(CASE, set_up(CASE, stores=Directory(tmp_path / "forest", new=True)))
    store = federation.coordinator.store
    before = {store.used_salts[party] for party in ("bank", "shop")} | {federation.coordinator.record.salt}
    assert where(raw(tmp_path / "forest"), before)
    federation.revoke(["telco"], 2, ignore)
    assert where(raw(tmp_path / "forest"), before) == {}
    federation.stores.close()


def test_interrupted_audit_keeps_no_forgotten_bins() -> None:
    federation = forgetting("bank")
    with offline(federation.network, "bank"), pytest.raises(AbsentError):
        audit(federation.coordinator, None, ignore)
    assert federation.coordinator.store.arriving == {}
