"""Requests: who may ask, what a requester signs, and what CS, CC and owners enter into their books."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import PolicyError, ProtocolError, RefusedError, RejectedError, UsageError
from revfrf.messages.base import Done, Message, number
from revfrf.messages.frf_predict import MaskedComparisons, PredictReply, PredictRequest, Request, ShareRequest
from revfrf.messages.key_setup import Admission, Enrolment, EpochCertificate, Member, ProvenKey
from revfrf.names import CC, CS, KGC, REQUESTER
from revfrf.protocols.common.epoch import sign_certificate
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import RequestPolicy, enter_request, sign_request
from revfrf.protocols.common.signed import sign
from revfrf.protocols.key_setup import _ADMISSION
from revfrf.roles.requester import Requester
from revfrf.storage.memory import RequestBook
from revfrf.testing.federations import random_case, train
from revfrf.testing.peers import FaultyPeer, changing
from revfrf.testing.refusals import refusal_kind, refused

CASE = random_case(31)
OWNER = "bank"
ANYBODY = [CS, CC, OWNER]
ROWS = 18 * ((4).to_bytes(64, "big") + (4).to_bytes(32, "big"))
"""Three rows of six columns: valid elements, whatever they encrypt."""
EVERYBODY = RequestPolicy()

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def federation() -> Federation:
    """A forest, and two requesters who are no participants."""
    federation = train(CASE)
    for name in ("clinic", "doctor"):
        federation.enrol_requester(name)
    return federation


def signed(
    federation: Federation, name: str = "clinic", n_rows: int = 3, identity: Identity | None = None
) -> Request:
    """A new request, signed by this requester."""
    identity = identity or federation.requesters[name].identity
    return sign_request(identity, federation.coordinator.plan.forest, n_rows, "hard", False, ROWS)


def asking(party: str, request: Request) -> Message:
    """The message in which a party first sees a request. What else is in it is looked at later."""
    if party == CS:
        return PredictRequest(request=request, rows=ROWS)
    if party == CC:
        one = np.array([1], "<u4").tobytes()
        return MaskedComparisons(request=request, depth=0, owners=(OWNER,), counts=one, packs=bytes(96))
    return ShareRequest(request=request, depth=0, count=1, ciphertext=bytes(96), signature=bytes(64))


def begun(federation: Federation, party: str) -> Request:
    """A request of which a party has answered the first depth."""
    request, book = signed(federation), federation.with_policies[party].book
    enter_request(book, EVERYBODY, federation.coordinator.opening, request, 0, 1)
    return request


def content(book: RequestBook) -> tuple[Any, ...]:
    return dict(book.known), dict(book.rows)


def books(federation: Federation) -> list[tuple[Any, ...]]:
    """What everybody remembers of requests."""
    return [content(role.book) for role in federation.with_policies.values()]


def refusal(federation: Federation, party: str, request: Request, told: str = "rejected") -> RejectedError:
    """Why a party refuses a request; whoever asks is told no more, and nobody has written anything down."""
    before = books(federation)
    sender = request.admission.member.name if party == CS else CS
    if sender not in federation.network.roles:
        federation.network.connect(sender, REQUESTER, federation.requesters["clinic"])
    with pytest.raises(RefusedError) as caught:
        federation.network.channel(sender).call(party, asking(party, request), PredictReply)
    assert str(caught.value) == f"{party!r} has refused: {told}"
    assert books(federation) == before
    cause = caught.value.__cause__
    assert isinstance(cause, RejectedError)
    return cause


def forged(federation: Federation, kgc: SigningKey | None = None, /, **changes: Any) -> Admission:
    """The clinic's admission, changed, and signed again by this KGC, if one is given."""
    admission = federation.requesters["clinic"].identity.admission
    assert admission is not None
    new = replace(admission, **changes)
    return new if kgc is None else sign(kgc, _ADMISSION, new)


def showing(federation: Federation, admission: Admission, signing: SigningKey | None = None) -> Request:
    """A request of somebody who shows this admission, signed by the clinic unless another key is given."""
    own = federation.requesters["clinic"].identity
    name, key = admission.member.name, signing or own.signing_key
    return signed(federation, identity=Identity(name, REQUESTER, own.kgc, key, True, admission=admission))


def kgc_of(federation: Federation) -> SigningKey:
    assert federation.kgc.keys is not None
    return federation.kgc.keys.signing


def certificate(federation: Federation, **changes: Any) -> EpochCertificate:
    """An epoch certificate of KGC with changes."""
    return sign_certificate(kgc_of(federation), replace(federation.coordinator.certificate, **changes))


# -- what is signed ---------------------------------------------------------------------------------


def test_everybody_answers_an_honest_request(federation: Federation) -> None:
    before = books(federation)
    rows = {party: table[:, :2] for party, table in CASE.codes.items()}
    federation.ask(rows, "clinic", "hard", False, lambda _: None)
    for (known, counted), (known_before, counted_before) in zip(books(federation), before, strict=True):
        assert len(known) == len(known_before) + 1
        assert counted["clinic"] == counted_before.get("clinic", 0) + 2


def test_requests_have_names_of_their_own_and_do_not_hold_the_rows(federation: Federation) -> None:
    first, second = signed(federation), signed(federation)
    assert first.id != second.id
    assert first.digest == second.digest
    assert ROWS not in msgspec.msgpack.encode(first)


CHANGES: dict[str, Any] = {
    "admission": lambda federation: signed(federation, "doctor").admission,
    "forest": lambda _: bytes(16),
    "id": lambda _: bytes(16),
    "n_rows": lambda _: 4,
    "voting": lambda _: "soft",
    "partial": lambda _: True,
    "digest": lambda _: bytes(32),
    "signature": lambda federation: signed(federation).signature,
}


def test_every_field_of_a_request_is_tried_below() -> None:
    assert set(CHANGES) == set(Request.__struct_fields__)


@pytest.mark.parametrize("party", ANYBODY)
@pytest.mark.parametrize("changed", CHANGES)
def test_request_of_which_anything_was_changed_is_refused(
    federation: Federation, party: str, changed: str
) -> None:
    request = replace(signed(federation), **{changed: CHANGES[changed](federation)})
    cause = refusal(federation, party, request)
    assert cause.kind == ("forest" if changed == "forest" else "signature")
    assert changed == "forest" or "revfrf request v1" in str(cause)


@pytest.mark.parametrize("party", [CC, OWNER])
def test_known_request_is_refused_if_it_was_changed_since(federation: Federation, party: str) -> None:
    """What was checked once is not what comes with the same id."""
    request = begun(federation, party)
    for changed in ("n_rows", "partial", "signature"):
        other = replace(request, **{changed: CHANGES[changed](federation)})
        assert refusal(federation, party, other).kind == "signature"


# -- who may ask ------------------------------------------------------------------------------------


def member(federation: Federation, **changes: Any) -> Member:
    return replace(forged(federation).member, **changes)


ADMISSION_CHANGES: dict[str, Callable[[Federation], dict[str, Any]]] = {
    "federation": lambda _: {"federation": "another"},
    "epoch": lambda _: {"epoch": 2},
    "member": lambda f: {"member": signed(f, "doctor").admission.member},
    "signature": lambda f: {"signature": signed(f, "doctor").admission.signature},
    "name": lambda f: {"member": member(f, name="klinik")},
    "role": lambda f: {"member": member(f, role="participant")},
    "h": lambda f: {"member": member(f, h=number(WeakKey.generate(f.parameters).public.h))},
    "verify_key": lambda f: {"member": member(f, verify_key=SigningKey.generate().verify_key.raw)},
}


def test_every_field_of_an_admission_is_tried_below() -> None:
    assert {*Admission.__struct_fields__, *Member.__struct_fields__} == set(ADMISSION_CHANGES)


@pytest.mark.parametrize("party", ANYBODY)
@pytest.mark.parametrize("changed", ADMISSION_CHANGES)
def test_requester_who_changes_its_own_admission_is_refused(
    federation: Federation, party: str, changed: str
) -> None:
    """It signs the request again, with the very key that KGC has admitted. In another federation or epoch,
    not even a true admission helps.
    """
    expected = {"federation": "forest", "epoch": "epoch"}.get(changed, "signature")
    kgc = None if expected == "signature" else kgc_of(federation)
    request = showing(federation, forged(federation, kgc, **ADMISSION_CHANGES[changed](federation)))
    cause = refusal(federation, party, request)
    assert cause.kind == expected
    assert expected != "signature" or "revfrf admission v1" in str(cause)


@pytest.mark.parametrize("party", ANYBODY)
def test_admission_that_the_key_centre_has_not_signed_is_refused(federation: Federation, party: str) -> None:
    own = SigningKey.generate()
    claimed = member(federation, name="mallory", verify_key=own.verify_key.raw)
    for signer in (own, SigningKey.generate(), federation.coordinator.identity.signing_key):
        cause = refusal(
            federation, party, showing(federation, forged(federation, signer, member=claimed), own)
        )
        assert cause.kind == "signature"
        assert "revfrf admission v1" in str(cause)


@pytest.mark.parametrize("party", ANYBODY)
def test_verify_key_that_everybody_can_sign_for_is_refused(federation: Federation, party: str) -> None:
    weak = member(federation, verify_key=b"\1" + bytes(31))
    admission = forged(federation, kgc_of(federation), member=weak)
    assert refusal(federation, party, showing(federation, admission)).kind == "malformed"


@pytest.mark.parametrize("party", ANYBODY)
def test_requester_whom_the_epoch_has_revoked_is_refused(
    federation: Federation, party: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = signed(federation)
    revoked = certificate(federation, revoked=("clinic",))
    monkeypatch.setattr(federation.with_policies[party].identity, "certificate", revoked)
    assert refusal(federation, party, request).kind == "member"
    assert refusal(federation, party, replace(signed(federation, "doctor"), n_rows=9)).kind == "signature"


@pytest.mark.parametrize("party", [CC, OWNER])
def test_revocation_ends_a_request_that_has_begun(
    federation: Federation, party: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, revoked = begun(federation, party), certificate(federation, revoked=("clinic",))
    monkeypatch.setattr(federation.with_policies[party].identity, "certificate", revoked)
    assert refusal(federation, party, request).kind == "member"


@pytest.mark.parametrize("party", ANYBODY)
@pytest.mark.parametrize("epoch", [None, 2])
def test_request_in_no_epoch_or_a_later_one_is_refused(
    federation: Federation, party: str, epoch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = signed(federation)
    current = certificate(federation, epoch=epoch) if epoch else None
    monkeypatch.setattr(federation.with_policies[party].identity, "certificate", current)
    waits = party == CS and epoch is not None  # until its forest is whole in that epoch
    told = "the forest is not ready" if waits else "rejected"
    assert refusal(federation, party, request, told).kind == ("forest" if waits else "epoch")


def test_whoever_is_not_admitted_signs_no_request(federation: Federation) -> None:
    kgc = federation.coordinator.identity.kgc
    with pytest.raises(ProtocolError, match="'mallory' is not admitted") as caught:
        signed(federation, identity=Identity("mallory", REQUESTER, kgc, SigningKey.generate(), True))
    assert caught.value.kind == "member"


# -- what is entered --------------------------------------------------------------------------------


@dataclass
class Entering:
    """A book of its own, with a policy."""

    federation: Federation
    policy: RequestPolicy = EVERYBODY
    book: RequestBook = field(default_factory=RequestBook)

    def enter(self, request: Request, depth: int = 0, count: int = 1) -> None:
        opening = self.federation.coordinator.opening
        enter_request(self.book, self.policy, opening, request, depth, count)

    def refusal(self, request: Request, depth: int = 0, count: int = 1) -> str:
        """The kind of the refusal, which leaves the book as it was."""
        return refusal_kind(lambda: self.enter(request, depth, count), unchanged=lambda: content(self.book))

    def n_entered_at_once(self, requests: list[Request], depth: int, refused: type[Exception]) -> int:
        """How many of these pass, if they all come at the same time."""
        start = Barrier(len(requests))

        def enter(request: Request) -> bool:
            start.wait()
            try:
                self.enter(request, depth)
            except refused:
                return False
            return True

        with ThreadPoolExecutor(len(requests)) as pool:
            return sum(pool.map(enter, requests))


def test_depths_ascend_may_be_left_out_and_are_answered_once(federation: Federation) -> None:
    entering, request = Entering(federation), signed(federation)
    for depth in (0, 2, CASE.rules.max_depth - 1):
        entering.enter(request, depth)
        assert entering.book.known[request.id].depth == depth
        for earlier in range(depth + 1):
            assert entering.refusal(request, earlier) == "replay"
    assert entering.book.rows == {"clinic": 3}


def test_comparisons_are_above_the_leaves_and_from_one_to_trees_times_rows(federation: Federation) -> None:
    entering, request = Entering(federation), signed(federation)
    most = CASE.rules.n_trees * request.n_rows
    for depth in (CASE.rules.max_depth, CASE.rules.max_depth + 1, 2**32 - 1):
        assert entering.refusal(request, depth) == "request"
    for count in (0, -1, most + 1, 2**32 - 1):
        assert entering.refusal(request, 0, count) == "request"
    entering.enter(request, 0, most)


def test_second_request_with_the_same_id_is_refused(federation: Federation) -> None:
    entering, request = Entering(federation), signed(federation)
    entering.enter(request)
    for changed in set(CHANGES) - {"id"}:
        other = replace(request, **{changed: CHANGES[changed](federation)})
        assert entering.refusal(other, 1) == "replay"
    stranger = replace(signed(federation, "doctor"), id=request.id)
    assert entering.refusal(stranger, 1) == "replay"
    entering.enter(request, 1)


def test_policy_accepts_all_unless_it_names_some(federation: Federation) -> None:
    clinic, doctor = signed(federation), signed(federation, "doctor")
    for policy in (RequestPolicy(accepts=["clinic"]), RequestPolicy(refuses={"doctor"})):
        entering = Entering(federation, policy)
        entering.enter(clinic)
        assert entering.refusal(doctor) == "requester"
    for policy in (RequestPolicy(accepts=()), RequestPolicy(accepts=["clinic"], refuses=["clinic"])):
        assert Entering(federation, policy).refusal(clinic) == "requester"


def test_policy_may_change_while_a_request_is_answered(federation: Federation) -> None:
    entering, request = Entering(federation), signed(federation)
    entering.enter(request, 0)
    entering.policy = RequestPolicy(refuses=["clinic"])
    assert entering.refusal(request, 1) == "requester"
    entering.policy = RequestPolicy(max_rows=2)
    assert entering.refusal(request, 1) == "quota"
    entering.policy = EVERYBODY
    entering.enter(request, 1)


def test_rows_count_once_a_request_and_for_each_requester_alone(federation: Federation) -> None:
    entering = Entering(federation, RequestPolicy(max_rows=5))
    for name in ("clinic", "doctor"):
        first, second, third = (signed(federation, name, n_rows) for n_rows in (3, 2, 1))
        for depth in range(CASE.rules.max_depth):
            entering.enter(first, depth)
        assert entering.refusal(signed(federation, name, 3)) == "quota"
        entering.enter(second)
        assert entering.refusal(third) == "quota"
        entering.enter(second, 1)
    assert entering.book.rows == {"clinic": 5, "doctor": 5}
    assert Entering(federation, RequestPolicy(max_rows=0)).refusal(signed(federation, n_rows=1)) == "quota"


@pytest.mark.parametrize(
    "policy",
    [
        {"accepts": "clinic"},
        {"refuses": "clinic"},
        {"max_rows": -1},
        {"max_rows": 2.5},
        {"max_rows": "5"},
        {"max_rows": True},
    ],
    ids=str,
)
def test_policy_that_means_something_else_is_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give a"):
        RequestPolicy(**policy)


@pytest.mark.parametrize("party", [CS, CC])
@pytest.mark.parametrize("policy", [RequestPolicy(refuses=["clinic"]), RequestPolicy(max_rows=2)], ids=str)
def test_peer_is_told_that_it_is_the_policy_and_not_which_rule(
    federation: Federation, party: str, policy: RequestPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federation.with_policies[party], "policy", policy)
    cause = refusal(federation, party, signed(federation), told="its policy does not accept this request")
    assert isinstance(cause, PolicyError)


class SlowPolicy(RequestPolicy, frozen=True):
    """A policy that takes a while to consult."""

    def check(self, requester: str, n_rows: int) -> None:
        time.sleep(0.02)
        super().check(requester, n_rows)


@pytest.mark.parametrize("depth", [0, 1])
def test_of_four_who_enter_one_depth_at_once_one_passes(federation: Federation, depth: int) -> None:
    entering, request = Entering(federation, SlowPolicy()), signed(federation)
    if depth:
        entering.enter(request, 0)
    assert entering.n_entered_at_once([request] * 4, depth, ProtocolError) == 1
    assert entering.book.rows == {"clinic": 3}


def test_quota_holds_if_all_requests_come_at_once(federation: Federation) -> None:
    entering = Entering(federation, SlowPolicy(max_rows=7))
    assert entering.n_entered_at_once([signed(federation) for _ in range(4)], 0, PolicyError) == 2
    assert entering.book.rows == {"clinic": 6}


# -- KGC admits -------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Federation:
    """A forest that nobody has asked yet."""
    return train(CASE)


def test_stranger_is_admitted_with_new_keys(fresh: Federation) -> None:
    identity = fresh.enrol_requester("clinic").identity
    admission, weak = identity.admission, identity.weak
    assert admission is not None
    assert (admission.federation, admission.epoch) == (fresh.coordinator.certificate.federation, 1)
    expected = Member("clinic", REQUESTER, number(weak.public.h), identity.signing_key.verify_key.raw)
    assert admission.member == expected
    assert expected.name not in {m.name for m in fresh.coordinator.certificate.members}
    assert identity.keys is not None
    assert identity.keys.share is None


def test_participant_is_admitted_with_the_keys_it_has(fresh: Federation) -> None:
    before = fresh.participants[OWNER].identity.weak
    identity = fresh.enrol_requester(OWNER).identity
    assert identity is fresh.participants[OWNER].identity
    assert identity.weak is before
    assert identity.admission is not None
    assert identity.admission.member in fresh.coordinator.certificate.members
    assert fresh.network.roles[OWNER] is fresh.participants[OWNER]


@pytest.mark.parametrize("name", ["clinic", OWNER])
def test_name_is_admitted_once(fresh: Federation, name: str) -> None:
    first = fresh.enrol_requester(name).identity.admission
    with pytest.raises(UsageError, match=f"'{name}' is "):
        fresh.enrol_requester(name)
    with pytest.raises(UsageError, match=f"'{name}' is a requester already"):
        fresh.kgc.admit(name)
    assert fresh.kgc.state.admitted[name] == first == fresh.requesters[name].identity.admission


@pytest.mark.parametrize("name", [KGC, CS, CC])
def test_servers_are_no_requesters(fresh: Federation, name: str) -> None:
    for admit in (fresh.enrol_requester, fresh.kgc.admit):
        with pytest.raises(UsageError, match=f"'{name}'"):
            admit(name)
    assert not fresh.kgc.state.admitted
    assert not fresh.requesters


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"name": OWNER}, "member"),
        ({"role": "participant"}, "member"),
        ({"role": CS}, "member"),
        ({"weak": ProvenKey(b"\4", b"\1", b"\1")}, "proof"),
        ({"weak": ProvenKey(b"\1", b"\1", b"\1")}, "trivial"),
        ({"weak": None}, "member"),
        ({"verify_key": bytes(32)}, "malformed"),
    ],
    ids=str,
)
def test_stranger_who_lies_is_not_admitted(fresh: Federation, changes: dict[str, Any], kind: str) -> None:
    kgc = fresh.coordinator.identity.kgc
    identity = Identity("mallory", REQUESTER, kgc, SigningKey.generate(), True)
    honest = Requester(identity, fresh.network.channel("mallory"))
    liar = FaultyPeer(honest, on_reply=changing(Enrolment, **changes))
    fresh.network.connect("mallory", REQUESTER, liar)
    with refused(kind):
        fresh.kgc.admit("mallory")
    assert fresh.kgc.state.admitted == {}
    assert identity.admission is None


@pytest.fixture
def restored(federation: Federation) -> Iterator[Identity]:
    """The clinic, whose admission stays what it is."""
    identity = federation.requesters["clinic"].identity
    before = identity.admission
    yield identity
    assert identity.admission is before


def refused_admission(federation: Federation, admission: Admission, sender: str = KGC) -> str:
    return refusal_kind(lambda: federation.network.channel(sender).call("clinic", admission, Done))


@pytest.mark.parametrize("changed", ADMISSION_CHANGES)
@pytest.mark.usefixtures("restored")
def test_requester_keeps_no_admission_that_was_changed_or_is_for_another(
    federation: Federation, changed: str
) -> None:
    changes = ADMISSION_CHANGES[changed](federation)
    assert refused_admission(federation, forged(federation, **changes)) == "signature"
    if changed != "signature":
        kind = "order" if changed in ("federation", "epoch") else "member"
        assert refused_admission(federation, forged(federation, kgc_of(federation), **changes)) == kind


def test_admission_before_any_key_is_refused(fresh: Federation) -> None:
    admission = fresh.enrol_requester("clinic").identity.admission
    assert admission is not None
    kgc = fresh.coordinator.identity.kgc
    late = Identity("clinic", REQUESTER, kgc, SigningKey.generate(), True)
    fresh.network.roles["clinic"] = Requester(late, fresh.network.channel("clinic"))
    assert refused_admission(fresh, admission) == "order"
    assert late.admission is None
