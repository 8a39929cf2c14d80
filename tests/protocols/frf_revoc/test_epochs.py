"""The old epoch is over for everybody: its messages, its admissions, and whoever has left with it."""

from dataclasses import replace
from typing import Any

import pytest

from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, ProtocolError, RevFRFError, UsageError
from revfrf.messages import frf_test
from revfrf.messages.base import Message
from revfrf.messages.events import EventReport
from revfrf.messages.fle_expan import LevelRequest, OpenForest
from revfrf.messages.frf_predict import MaskedComparisons, PredictReply, PredictRequest, ShareRequest
from revfrf.messages.frf_revoc import Destroy, Rekey, RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import Admission, EpochCertificate, KeyDeal
from revfrf.names import CC, CS, KGC, REQUESTER
from revfrf.protocols.common.epoch import certificate_digest, public_half
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import sign_request
from revfrf.roles import compute
from revfrf.roles.compute import ComputePartner
from revfrf.roles.kgc import KeyCentreKeys
from revfrf.roles.requester import Requester
from revfrf.testing.federations import train
from revfrf.testing.peers import offline
from revfrf.testing.refusals import refusal_kind
from revfrf.transport.memory import MemoryChannel
from tests.federations import in_numbers, modulus
from tests.protocols.frf_revoc.leaving import (
    CASE,
    LEVELS,
    answers,
    begin_epoch,
    changed,
    check_same,
    leave,
    refused,
    request_of,
    send,
    state,
    without,
)

# -- the old epoch ----------------------------------------------------------------------------------


Sent = tuple[str, str, Message]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """Every message that anybody sends: sender, recipient, message."""
    sent: list[Sent] = []
    call = MemoryChannel.call

    def record(self: MemoryChannel, recipient: str, request: Message, reply_type: Any) -> Any:
        sent.append((self.sender, recipient, request))
        return call(self, recipient, request, reply_type)

    monkeypatch.setattr(MemoryChannel, "call", record)
    return sent


OLD = {
    KeyDeal,
    EpochCertificate,
    Admission,
    OpenForest,
    LevelRequest,
    frf_test.TestRequest,
    PredictRequest,
    MaskedComparisons,
    ShareRequest,
    RevocationRequest,
    Destroy,
    EventReport,
}


@pytest.mark.parametrize("level", LEVELS)
def test_every_message_of_an_old_epoch_is_refused_by_every_role(
    recorded: list[Sent], level: RevocationLevel
) -> None:
    """Of the first epoch, and of the revocation that began the second, after a third has begun."""
    wide = replace(CASE, codes=CASE.codes | {"casino": -CASE.codes["bank"]})
    federation = train(wide)
    for left, leaver in ((wide, "casino"), (wide.without("casino"), "bank")):
        some = {party: table[:, :3] for party, table in left.codes.items()}
        federation.votes(left.codes, left.n_rows, "hard")
        for requester in (None, "telco"):
            federation.ask(some, requester, "hard", False, lambda _: None)
        leave(federation, [leaver], level)
    current, here = federation.kgc.current, federation.network.roles
    now = (current.epoch, certificate_digest(current))
    old = [(s, r, m) for s, r, m in recorded if r in here and not _is_of(*now, m)]
    assert {type(m) for _, _, m in old} >= OLD | ({Rekey} if level == 2 else set())
    before = state(federation)
    for sender, recipient, message in old:
        if recipient == "requester" or isinstance(message, PredictReply):
            continue
        refused(federation, recipient, message, sender)
    assert state(federation) == before
    check_same(federation, without(wide, ["casino", "bank"]), ask=True)


MOMENTS = ["certificate", "check_request", "read_counts", "PublicKey", "enter_request"]
"""What CC looks at, or does, to answer a comparison."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("after", MOMENTS)
def test_comparison_that_meets_a_new_epoch_is_answered_with_keys_of_its_own_or_refused(
    federation: Federation,
    recorded: list[Sent],
    monkeypatch: pytest.MonkeyPatch,
    level: RevocationLevel,
    after: str,
) -> None:
    """CC answers it beside whatever else it does: the epoch may begin after any of these."""
    before, message = federation.kgc.current, _comparisons(federation, recorded)
    begin = iter([lambda: leave(federation, ["bank"], level)])

    def then(result: Any) -> Any:
        next(begin, lambda: None)()
        return result

    with monkeypatch.context() as patch:
        if after == "certificate":
            reading = property(lambda self: then(self.identity.certificate))
            patch.setattr(ComputePartner, "certificate", reading)
        else:
            function = getattr(compute, after)
            patch.setattr(compute, after, lambda *given: then(function(*given)))
        used: list[Any] = []
        patch.setattr(compute, "answer_comparisons", lambda *given: used.append(given))
        if after == "certificate":
            with pytest.raises(ProtocolError) as caught:
                federation.compute.handle(CS, message)
            assert (caught.value.kind, used) == ("epoch", [])
        else:
            federation.compute.handle(CS, message)
            [(share, _, keys, *_)] = used
            h, n = {m.name: public_half(m) for m in before.members}, modulus(before)
            assert share.parameters.n == n
            assert {name: key.h for name, key in keys.items()} == {p: h[CS] * h[p] % n for p in CASE.codes}
    assert federation.compute.identity.epoch == 2
    check_same(federation, CASE.without("bank"), ask=True)


def _comparisons(federation: Federation, recorded: list[Sent]) -> Message:
    """What CC is asked first for a request, and has not got yet."""
    with offline(federation.network, CC), pytest.raises(AbsentError):
        answers(federation, {party: table[:, :2] for party, table in CASE.codes.items()})
    [message] = [message for _, recipient, message in recorded if recipient == CC][-1:]
    assert isinstance(message, MaskedComparisons)
    return message


def _is_of(epoch: int, epoch_digest: bytes, message: Message) -> bool:
    """Whether it belongs to the current epoch; its report, told again, has the same answer."""
    if isinstance(message, EventReport):
        return message.report.epoch == epoch_digest
    return getattr(message, "epoch", 0) == epoch and not isinstance(message, KeyDeal)


@pytest.mark.parametrize("level", LEVELS)
def test_old_admissions_are_worth_nothing(federation: Federation, level: RevocationLevel) -> None:
    """Of the leaver, of a participant who stays, and of a requester who belongs to nobody."""
    parties = ("bank", "telco", "clinic")
    for name in parties:
        federation.enrol_requester(name)
    old = {name: federation.requesters[name] for name in parties}
    admissions = {name: old[name].identity.admission for name in parties}
    leave(federation, ["bank"], level)
    rows = {party: table[:, :2] for party, table in CASE.without("bank").codes.items()}
    forest, current = federation.coordinator.plan.forest, federation.kgc.current
    for name in parties:
        with pytest.raises(RevFRFError):
            old[name].ask(rows, "hard")
        identity = replace(old[name].identity, admission=admissions[name])
        request = sign_request(identity, forest, 1, "hard", False, b"")
        assert refused(federation, CS, PredictRequest(request=request, rows=b""), name) == "epoch"
        moved = changed(request.admission, epoch=current.epoch)
        forged = sign_request(replace(identity, admission=moved), forest, 1, "hard", False, b"")
        kind = refused(federation, CS, PredictRequest(request=forged, rows=b""), name)
        assert kind == ("member" if name == "bank" else "signature")
    for name in ("telco", "clinic"):
        answer = federation.ask(rows, name, "hard", False, lambda _: None)
        assert in_numbers(answer.votes) == in_numbers(federation.votes(rows, 2, "hard"))


@pytest.mark.parametrize("level", LEVELS)
def test_whoever_has_left_is_admitted_no_more(federation: Federation, level: RevocationLevel) -> None:
    leaver = federation.participants["bank"]
    leave(federation, ["bank"], level)
    roles = set(federation.network.roles)
    for call in (federation.enrol_requester, federation.requester):
        with pytest.raises(UsageError, match="'bank'"):
            call("bank")
    assert set(federation.network.roles) == roles
    assert "bank" not in federation.kgc.state.admitted
    federation.network.roles["bank"] = leaver
    with pytest.raises(UsageError, match="revoked"):
        federation.kgc.admit("bank")


def test_impostor_gets_no_admission_in_a_later_epoch(federation: Federation) -> None:
    """A name stays with who had it first: another key under it is not signed, let alone sent."""
    federation.enrol_requester("clinic")
    leave(federation, ["bank"])
    kgc = federation.coordinator.identity.kgc
    impostor = Identity("clinic", REQUESTER, kgc, SigningKey.generate(), True)
    requester = Requester(impostor, federation.network.channel("clinic"))
    federation.network.connect("clinic", REQUESTER, requester)
    with pytest.raises(ProtocolError, match="the name of another"):
        federation.kgc.admit("clinic")
    assert impostor.admission is None


# -- the next epoch ---------------------------------------------------------------------------------


def test_coordinator_is_the_first_to_hear_of_an_epoch(federation: Federation) -> None:
    """Whoever is absent then: nothing is answered any more with what the leaver left behind."""
    del federation.network.roles[CC]
    with pytest.raises(AbsentError):
        leave(federation, ["bank"])
    assert federation.kgc.current.epoch == 2
    assert not federation.coordinator.ready
    with pytest.raises(RevFRFError):
        federation.votes(CASE.codes, CASE.n_rows, "hard")


def test_signing_key_of_another_key_centre_begins_no_epoch(federation: Federation) -> None:
    send(federation, KGC, request_of(federation), "bank")
    federation.kgc.keys = KeyCentreKeys.generate()
    assert refusal_kind(lambda: begin_epoch(federation)) == "signature"
    assert {owner.identity.epoch for owner in federation.participants.values()} == {1}
