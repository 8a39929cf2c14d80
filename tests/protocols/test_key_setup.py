"""Lying parties at the key set-up: KGC admits nobody who is not who it should be, and nobody trusts a
certificate that is not about itself, or an epoch that does not follow its own."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import pytest

from revfrf.crypto.arithmetic import inverse, multiply
from revfrf.crypto.keys import WeakKey
from revfrf.crypto.possession import prove_possession
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import (
    AbsentError,
    ProtocolError,
    RefusedError,
    RejectedError,
    RevFRFError,
    SignatureError,
)
from revfrf.messages.base import Done, Message, number, of_number
from revfrf.messages.enrolment import Dealt, Enrolment, EpochAccepted, EpochCertificate, Member, Receipt
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER
from revfrf.protocols.epoch import (
    _CERTIFICATE,
    certificate_digest,
    certificate_fields,
    check_receipts,
    check_succession,
    erased_keys,
)
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.identity import Identity
from revfrf.protocols.key_setup import announce, answer_deal
from revfrf.roles.compute import ComputePartner
from revfrf.roles.kgc import KeyCentre
from revfrf.roles.party import Party
from revfrf.transport.base import Answering
from revfrf.transport.memory import MemoryNetwork
from tests.conftest import world_of
from tests.federations import keys

DEALS = count(1000)
"""Numbers of deals, higher than those that KGC makes by itself."""

ROLES = {CS: CS, CC: CC, "bank": PARTICIPANT, "shop": PARTICIPANT, "telco": PARTICIPANT}


@dataclass
class Parties:
    """KGC and five parties, before anything is dealt."""

    network: MemoryNetwork
    kgc: KeyCentre
    signing: SigningKey
    identities: dict[str, Identity]

    def enrol(self) -> EpochCertificate:
        return self.kgc.enrol("federation", keys(), ROLES)

    def send(self, party: str, message: Message, sender: str = KGC) -> Done:
        return self.network.channel(sender).call(party, message, Done)

    def leave(
        self, *leavers: str, dealt: SetUp | None = None
    ) -> tuple[EpochCertificate, tuple[Receipt, ...]]:
        """The epoch without these, with new keys if there is a new set-up."""
        current = self.identities[CS].certificate
        assert current is not None
        channel = self.network.channel(KGC)
        after = next_epoch(channel, self.signing, current, leavers, dealt, next(DEALS), 1)
        return after, announce(channel, current, after, 1)


@pytest.fixture
def parties() -> Parties:
    network, signing = MemoryNetwork(), SigningKey.generate()
    kgc = KeyCentre(network.channel(KGC), signing)
    identities = {
        name: Identity(name, role, signing.verify_key, SigningKey.generate(), allow_insecure=True)
        for name, role in ROLES.items()
    }
    network.roles = {name: ComputePartner(identity) for name, identity in identities.items()}
    return Parties(network, kgc, signing, identities)


def refusal(call: Callable[[], object]) -> RevFRFError:
    """Why the other side refused; whoever asked is told nothing."""
    with pytest.raises(RefusedError) as caught:
        call()
    assert str(caught.value).endswith(": rejected")
    assert isinstance(caught.value.__cause__, RejectedError)
    return caught.value.__cause__


def test_everybody_ends_with_its_own_key_and_the_same_certificate(parties: Parties) -> None:
    certificate = parties.enrol()
    assert (certificate.federation, certificate.epoch, certificate.revoked) == ("federation", 1, ())
    assert {member.name: member.role for member in certificate.members} == ROLES
    for member in certificate.members:
        identity = parties.identities[member.name]
        assert identity.certificate == certificate
        assert identity.dealt is None
        assert of_number(member.h) == identity.weak.public.h
        assert member.verify_key == identity.signing_key.verify_key.raw
    assert shares_of(parties) == {CS: keys().cs_share.value.reveal(), CC: keys().cc_share.value.reveal()}


def shares_of(parties: Parties) -> dict[str, int]:
    """Who has a strong share, and which."""
    held = {name: identity.keys for name, identity in parties.identities.items()}
    return {name: k.share.value.reveal() for name, k in held.items() if k is not None and k.share is not None}


def test_keys_that_are_not_there_are_not_used(parties: Parties) -> None:
    identity = parties.identities["bank"]
    for read in (lambda: identity.weak, lambda: identity.share):
        with pytest.raises(ProtocolError, match="has no"):
            read()
    assert identity.epoch == 0
    parties.enrol()
    assert identity.epoch == 1
    assert identity.weak.parameters == keys().parameters
    with pytest.raises(ProtocolError, match="'bank' has no strong share here"):
        _ = identity.share


# -- a lying party ----------------------------------------------------------------------------------


@dataclass
class Liar:
    """A party whose enrolment is not what it should be."""

    party: Party
    change: Callable[[Enrolment], Enrolment]

    def handle(self, sender: str, message: Message) -> Message:
        reply = self.party.handle(sender, message)
        return self.change(reply) if isinstance(reply, Enrolment) else reply


def admission_of_a_liar(parties: Parties, change: Callable[[Enrolment], Enrolment]) -> RejectedError:
    honest = parties.network.roles["telco"]
    assert isinstance(honest, Party)
    liar: Answering = Liar(honest, change)
    parties.network.roles["telco"] = liar
    with pytest.raises(RejectedError) as caught:
        parties.enrol()
    assert not parties.kgc.told
    assert all(identity.certificate is None for identity in parties.identities.values())
    return caught.value


def changed(**fields: Any) -> Callable[[Enrolment], Enrolment]:
    return lambda enrolment: msgspec.structs.replace(enrolment, **fields)


def test_rogue_key_is_refused(parties: Parties) -> None:
    """h = g0^a / h_CS, so that the joint key with CS is one whose secret the rogue knows alone."""
    p = keys().parameters

    def rogue(enrolment: Enrolment) -> Enrolment:
        cs, known = parties.identities[CS].dealt, WeakKey.generate(p)
        assert cs is not None
        h = multiply(p.n, known.public.h, inverse(cs.weak.public.h, p.n))
        proof = prove_possession(known, "telco")
        return msgspec.structs.replace(
            enrolment, h=number(h), challenge=number(proof.challenge), response=number(proof.response)
        )

    assert admission_of_a_liar(parties, rogue).kind == "proof"


def test_key_of_another_party_is_refused(parties: Parties) -> None:
    def stolen(enrolment: Enrolment) -> Enrolment:
        dealt = parties.identities["bank"].dealt
        assert dealt is not None
        bank = dealt.weak
        proof = prove_possession(bank, "bank")
        h, challenge, response = (number(x) for x in (bank.public.h, proof.challenge, proof.response))
        return msgspec.structs.replace(enrolment, h=h, challenge=challenge, response=response)

    assert admission_of_a_liar(parties, stolen).kind == "proof"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (changed(name="bank"), "member"),
        (changed(name="Telco"), "member"),
        (changed(role=CC), "member"),
        (changed(role=CS), "member"),
        (changed(h=b"\0"), "out-of-range"),
        (changed(h=b"\1"), "trivial"),
        (changed(h=b"\xff" * 32), "out-of-range"),
        (changed(h=b"\0\2"), "malformed"),
        (changed(challenge=b"\0"), "proof"),
        (changed(response=b"\0"), "proof"),
        (changed(response=b"\xff" * 500), "proof"),
        (changed(verify_key=bytes(32)), "malformed"),
        (changed(verify_key=b"\1" + bytes(31)), "malformed"),
    ],
    ids=[
        "name of another",
        "name that is nobody's",
        "role of CC",
        "role of CS",
        "h is 0",
        "h is 1",
        "h above N",
        "h with leading zeros",
        "another challenge",
        "another response",
        "a response far too long",
        "verify key of small order",
        "verify key that everybody can sign for",
    ],
)
def test_liar_is_not_admitted(parties: Parties, change: Callable[[Enrolment], Enrolment], kind: str) -> None:
    assert admission_of_a_liar(parties, change).kind == kind


# -- a lying key centre -----------------------------------------------------------------------------


def dealt_to(role: str, **changes: Any) -> Dealt:
    p = keys().parameters
    shares = {CS: keys().cs_share, CC: keys().cc_share}
    share = number(shares[role].value.reveal()) if role in shares else None
    message = Dealt(
        federation="federation",
        epoch=1,
        number=next(DEALS),
        n=number(p.n),
        g0=number(p.g0),
        exponent_bits=p.exponent_bits,
        share=share,
    )
    return msgspec.structs.replace(message, **changes)


def untouched(identity: Identity) -> bool:
    return (identity.keys, identity.dealt, identity.certificate) == (None, None, None)


@pytest.mark.parametrize("party", [CS, CC])
def test_server_without_a_share_is_refused(parties: Parties, party: str) -> None:
    call = lambda: parties.send(party, dealt_to(party, share=None))  # noqa: E731
    assert refusal(call).kind == "member"
    assert untouched(parties.identities[party])


def test_share_for_a_participant_is_refused(parties: Parties) -> None:
    share = number(keys().cs_share.value.reveal())
    assert refusal(lambda: parties.send("bank", dealt_to("bank", share=share))).kind == "member"
    assert untouched(parties.identities["bank"])


@pytest.mark.parametrize(
    "changes",
    [{"g0": b"\1"}, {"g0": b"\0"}, {"n": b"\0\7"}, {"g0": b"\xff" * 40}],
    ids=["generator 1", "generator 0", "leading zeros", "generator above N"],
)
def test_parameters_that_are_none_are_refused(parties: Parties, changes: dict[str, bytes]) -> None:
    refusal(lambda: parties.send("bank", dealt_to("bank", **changes)))
    assert untouched(parties.identities["bank"])


@pytest.mark.parametrize("changes", [{"n": b"\7"}, {"exponent_bits": 8}, {"n": b"\x80" * 32}])
def test_sizes_that_cannot_work_are_refused(parties: Parties, changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        parties.send("bank", dealt_to("bank", **changes))
    assert untouched(parties.identities["bank"])


def test_party_takes_toy_keys_only_if_it_was_told_to(parties: Parties) -> None:
    parties.identities["bank"].allow_insecure = False
    with pytest.raises(RefusedError):
        parties.enrol()
    assert untouched(parties.identities["bank"])


def test_keys_are_dealt_once(parties: Parties) -> None:
    certificate = parties.enrol()
    before = {name: identity.weak for name, identity in parties.identities.items()}
    for party, role in ROLES.items():
        assert refusal(lambda p=party, r=role: parties.send(p, dealt_to(r))).kind == "order"  # type: ignore[misc]
        assert parties.identities[party].weak is before[party]
        assert parties.identities[party].dealt is None
        assert parties.identities[party].certificate == certificate


@pytest.mark.parametrize("enrolled", [False, True])
def test_keys_can_be_dealt_again_before_their_epoch_begins(parties: Parties, enrolled: bool) -> None:
    """So that a deal that has failed half-way can be repeated."""
    if enrolled:
        parties.enrol()
    bank, epoch = parties.identities["bank"], 1 + enrolled
    held, made = bank.keys, []
    for _ in range(2):
        enrolment = parties.network.channel(KGC).call("bank", dealt_to("bank", epoch=epoch), Enrolment)
        assert bank.dealt is not None
        assert (bank.dealt.epoch, bank.dealt.weak.public.h) == (epoch, of_number(enrolment.h))
        made.append(enrolment.h)
    assert len(set(made)) == 2
    last = bank.dealt
    assert refusal(lambda: parties.send("bank", dealt_to("bank", epoch=epoch + 1))).kind == "order"
    assert bank.dealt is last
    assert bank.keys is held


def test_what_was_dealt_earlier_and_comes_late_displaces_nothing(parties: Parties) -> None:
    """Whoever passes letters on holds some back until KGC has dealt again, and everybody has enrolled."""
    parties.enrol()
    late, dealt = [dealt_to("bank", epoch=2) for _ in range(9)], new_keys()
    bank, refusals = parties.network.roles["bank"], []

    class Delaying:
        def handle(self, sender: str, message: Message) -> Message:
            reply = bank.handle(sender, message)
            for each in late if isinstance(message, Dealt) else ():
                with pytest.raises(ProtocolError) as caught:
                    bank.handle(sender, each)
                refusals.append(caught.value.kind)
            return reply

    parties.network.roles["bank"] = Delaying()
    second, _ = parties.leave("telco", dealt=dealt)
    assert refusals == ["order"] * 9
    assert parties.identities["bank"].certificate == second
    assert parties.identities["bank"].weak.parameters == dealt.parameters


def test_numbers_of_deals_ascend_also_after_one_that_failed(parties: Parties) -> None:
    shop = parties.network.roles.pop("shop")
    with pytest.raises(AbsentError):
        parties.enrol()
    parties.network.roles["shop"] = shop
    assert parties.kgc.state.deals == 1
    parties.enrol()
    assert parties.kgc.state.deals == 2
    assert {identity.deal for identity in parties.identities.values()} == {2}


def test_leaving_that_failed_at_the_deal_can_be_repeated_at_either_level(parties: Parties) -> None:
    first = parties.enrol()
    shop = parties.network.roles.pop("shop")
    with pytest.raises(AbsentError):
        parties.leave("telco", dealt=new_keys())
    assert all(identity.certificate == first for identity in parties.identities.values())
    parties.network.roles["shop"] = shop
    second, receipts = parties.leave("telco")
    assert receipts == ()
    third, receipts = parties.leave("bank", dealt=new_keys())
    assert {receipt.party for receipt in receipts} == {CS, CC, "shop"}
    check_succession(first, second)
    check_succession(second, third)


@pytest.mark.parametrize("epoch", [0, 1, 3, 2**32 - 1])
def test_keys_are_dealt_for_the_next_epoch_alone(parties: Parties, epoch: int) -> None:
    if epoch != 1:
        assert refusal(lambda: parties.send("bank", dealt_to("bank", epoch=epoch))).kind == "order"
        assert untouched(parties.identities["bank"])
    parties.enrol()
    assert refusal(lambda: parties.send("bank", dealt_to("bank", epoch=epoch))).kind == "order"
    assert parties.identities["bank"].dealt is None


def test_keys_of_another_federation_are_refused_once_there_is_one(parties: Parties) -> None:
    parties.enrol()
    other = dealt_to("bank", epoch=2, federation="another")
    assert refusal(lambda: parties.send("bank", other)).kind == "order"
    assert (parties.identities["bank"].federation, parties.identities["bank"].dealt) == ("federation", None)


@pytest.mark.parametrize("epoch", [1, 2, 9])
def test_requester_comes_in_any_epoch(parties: Parties, epoch: int) -> None:
    signing = SigningKey.generate()
    clinic = Identity("clinic", REQUESTER, parties.signing.verify_key, signing, allow_insecure=True)
    assert answer_deal(clinic, dealt_to(REQUESTER, epoch=epoch)).name == "clinic"
    assert clinic.dealt is not None
    assert clinic.dealt.epoch == epoch


@pytest.mark.parametrize("sender", [CS, CC, "bank", "telco", "kgc"])
def test_keys_and_certificates_of_anybody_but_the_key_centre_are_refused(
    parties: Parties, sender: str
) -> None:
    assert refusal(lambda: parties.send("bank", dealt_to("bank"), sender)).kind == "sender"
    assert untouched(parties.identities["bank"])
    certificate = parties.enrol()
    assert refusal(lambda: parties.send("bank", certificate, sender)).kind == "sender"


def test_certificate_that_comes_again_is_answered_the_same_and_changes_nothing(parties: Parties) -> None:
    certificate = parties.enrol()
    bank = parties.identities["bank"]
    held = bank.keys
    assert accepted(parties, "bank", certificate) == EpochAccepted(epoch=1, receipt=None)
    second, receipts = parties.leave("telco", dealt=new_keys())
    [receipt] = [receipt for receipt in receipts if receipt.party == "bank"]
    assert bank.keys is not held
    held = bank.keys
    for _ in range(2):
        assert accepted(parties, "bank", second) == EpochAccepted(epoch=2, receipt=receipt)
    assert bank.keys is held


def test_certificate_of_the_same_epoch_with_anything_else_is_refused(parties: Parties) -> None:
    certificate = parties.enrol()
    other = signed_again(parties.signing, certificate, revoked=("nobody",))
    assert refusal(lambda: parties.send("bank", other)).kind == "order"
    unsigned = msgspec.structs.replace(certificate, signature=bytes(64))
    assert refusal(lambda: parties.send("bank", unsigned)).kind == "order"
    assert parties.identities["bank"].certificate == certificate


def test_certificate_before_any_key_is_refused(parties: Parties) -> None:
    other = MemoryNetwork()
    late = Identity("bank", PARTICIPANT, parties.signing.verify_key, SigningKey.generate(), True)
    other.roles = {"bank": ComputePartner(late)}
    certificate = parties.enrol()
    call = lambda: other.channel(KGC).call("bank", certificate, Done)  # noqa: E731
    assert refusal(call).kind == "order"
    assert untouched(late)


@dataclass
class Forging:
    """KGC's channel, on which certificates for "bank" are not what KGC made."""

    network: MemoryNetwork
    forge: Callable[[EpochCertificate], EpochCertificate]

    def call(self, recipient: str, request: Message, reply_type: type[Any]) -> Any:
        if recipient == "bank" and isinstance(request, EpochCertificate):
            request = self.forge(request)
        return self.network.channel(KGC).call(recipient, request, reply_type)


def certified_wrongly(parties: Parties, forge: Callable[[EpochCertificate], EpochCertificate]) -> RevFRFError:
    parties.kgc.channel = Forging(parties.network, forge)
    cause = refusal(parties.enrol)
    assert parties.identities["bank"].certificate is None
    assert not parties.kgc.told
    return cause


def signed_again(kgc: SigningKey, certificate: EpochCertificate, **changes: Any) -> EpochCertificate:
    """Changed, and signed by KGC itself."""
    new = msgspec.structs.replace(certificate, **changes)
    return msgspec.structs.replace(new, signature=kgc.sign(_CERTIFICATE, *certificate_fields(new)))


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": bytes(64)},
        {"epoch": 2},
        {"federation": "other"},
        {"exponent_bits": 127},
        {"revoked": ("telco",)},
        {"previous": b"\0"},
        {"n": b"\7"},
        {"members": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_certificate_that_was_changed_on_its_way_is_refused(
    parties: Parties, changes: dict[str, Any]
) -> None:
    forge = lambda certificate: msgspec.structs.replace(certificate, **changes)  # noqa: E731
    out_of_turn = changes.keys() & {"epoch", "n"}  # seen before the signature is looked at
    assert certified_wrongly(parties, forge).kind == ("order" if out_of_turn else "signature")


def test_certificate_signed_by_anybody_else_is_refused(parties: Parties) -> None:
    stranger = SigningKey.generate()
    assert certified_wrongly(parties, lambda c: signed_again(stranger, c)).kind == "signature"


def with_bank(certificate: EpochCertificate, **changes: Any) -> tuple[Member, ...]:
    return tuple(
        msgspec.structs.replace(member, **changes) if member.name == "bank" else member
        for member in certificate.members
    )


@pytest.mark.parametrize(
    "members",
    [
        lambda c: with_bank(c, h=number(WeakKey.generate(keys().parameters).public.h)),
        lambda c: with_bank(c, verify_key=SigningKey.generate().verify_key.raw),
        lambda c: with_bank(c, role=CC),
        lambda c: with_bank(c, name="Bank"),
        lambda c: tuple(m for m in c.members if m.name != "bank"),
        lambda c: (*c.members, c.members[0]),
        lambda c: (*c.members, *with_bank(c, h=b"\4")),
    ],
    ids=[
        "its key replaced",
        "its verify key replaced",
        "another role",
        "another name",
        "left out",
        "somebody twice",
        "itself twice, once with another key",
    ],
)
def test_certificate_that_does_not_name_the_party_rightly_is_refused(
    parties: Parties, members: Callable[[EpochCertificate], tuple[Member, ...]]
) -> None:
    kgc = parties.signing
    cause = certified_wrongly(parties, lambda c: signed_again(kgc, c, members=members(c)))
    assert isinstance(cause, ProtocolError)
    assert cause.kind == "member"


@pytest.mark.parametrize(
    "changes",
    [
        lambda: {"n": number(world_of(256).parameters.n), "g0": number(world_of(256).parameters.g0)},
        lambda: {"g0": number(pow(keys().parameters.g0, 2, keys().parameters.n))},
        lambda: {"exponent_bits": keys().parameters.exponent_bits - 1},
        lambda: {"federation": "another federation than at the deal"},
    ],
    ids=["another modulus", "another generator", "other exponents", "another federation"],
)
def test_certificate_for_something_else_than_was_dealt_is_refused(
    parties: Parties, changes: Callable[[], dict[str, Any]]
) -> None:
    kgc = parties.signing
    cause = certified_wrongly(parties, lambda c: signed_again(kgc, c, **changes()))
    assert isinstance(cause, ProtocolError)


# -- one epoch after another ------------------------------------------------------------------------


def new_keys() -> SetUp:
    """Another modulus than the first epoch's."""
    return world_of(256).dealt


LEVELS = pytest.mark.parametrize("dealt", [lambda: None, new_keys], ids=["level 1", "level 2"])
MakeKeys = Callable[[], SetUp | None]


def accepted(parties: Parties, party: str, certificate: EpochCertificate) -> EpochAccepted:
    return parties.network.channel(KGC).call(party, certificate, EpochAccepted)


@LEVELS
def test_epoch_without_the_leaver_follows(parties: Parties, dealt: MakeKeys) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco", dealt=dealt())
    check_succession(None, first)
    check_succession(first, second)
    assert (second.epoch, second.revoked, second.previous) == (2, ("telco",), certificate_digest(first))
    assert {m.name: m.role for m in second.members} == {n: r for n, r in ROLES.items() if n != "telco"}
    for name, identity in parties.identities.items():
        assert identity.certificate == (first if name == "telco" else second)
        assert identity.dealt is None


def test_epochs_of_both_levels_follow_one_another(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco")
    third, receipts = parties.leave("bank", dealt=new_keys())
    check_succession(first, second)
    check_succession(second, third)
    assert third.revoked == ("telco", "bank")
    assert {receipt.epoch for receipt in receipts} == {2}
    with pytest.raises(ProtocolError):
        check_succession(first, third)


def test_several_leave_together(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco", "bank")
    check_succession(first, second)
    assert second.revoked == ("bank", "telco")


def test_keys_stay_at_level_1(parties: Parties) -> None:
    first = parties.enrol()
    before = {name: identity.keys for name, identity in parties.identities.items()}
    second, receipts = parties.leave("telco")
    assert receipts == ()
    assert (second.n, second.g0, second.exponent_bits) == (first.n, first.g0, first.exponent_bits)
    assert set(second.members) < set(first.members)
    assert all(identity.keys is before[name] for name, identity in parties.identities.items())


def test_all_who_stay_have_new_keys_and_forget_the_old_ones_at_level_2(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco", dealt=new_keys())
    assert not {m.h for m in first.members} & {m.h for m in second.members}
    for member in second.members:
        identity = parties.identities[member.name]
        assert identity.keys is not None
        assert identity.keys.epoch == 2
        assert identity.weak.parameters == new_keys().parameters
        assert of_number(member.h) == identity.weak.public.h
    assert shares_of(parties) == {
        CS: new_keys().cs_share.value.reveal(),
        CC: new_keys().cc_share.value.reveal(),
    }


@pytest.mark.parametrize("changes", [{"epoch": 2}, {"revoked": ("telco",)}, {"previous": bytes(32)}])
def test_first_epoch_comes_after_none(parties: Parties, changes: dict[str, Any]) -> None:
    first = msgspec.structs.replace(parties.enrol(), **changes)
    with pytest.raises(ProtocolError) as caught:
        check_succession(None, first)
    assert caught.value.kind == "epoch"


def only(certificate: EpochCertificate, *names: str) -> tuple[Member, ...]:
    return tuple(member for member in certificate.members if member.name in names)


Epochs = tuple[EpochCertificate, EpochCertificate]
WRONG: dict[str, tuple[str, Callable[[EpochCertificate, EpochCertificate], dict[str, Any]]]] = {
    "another federation": ("epoch", lambda _a, _b: {"federation": "another"}),
    "the same number": ("epoch", lambda _a, b: {"epoch": b.epoch - 1}),
    "a number left out": ("epoch", lambda _a, b: {"epoch": b.epoch + 1}),
    "after none": ("epoch", lambda _a, _b: {"previous": b""}),
    "after itself": ("epoch", lambda _a, b: {"previous": certificate_digest(b)}),
    "after another": (
        "epoch",
        lambda a, _b: {"previous": certificate_digest(msgspec.structs.replace(a, revoked=()))},
    ),
    "nobody has left": ("member", lambda a, _b: {"revoked": a.revoked}),
    "nobody has left, and all are there": (
        "member",
        lambda a, b: {"revoked": a.revoked, "members": (*b.members, *only(a, "telco"))},
    ),
    "who has left is back": ("member", lambda _a, b: {"revoked": b.revoked[1:]}),
    "who has left before is first no more": ("member", lambda _a, b: {"revoked": b.revoked[::-1]}),
    "the leaver is a member": ("member", lambda a, b: {"members": (*b.members, *only(a, "telco"))}),
    "another one is missing": (
        "member",
        lambda _a, b: {"members": tuple(m for m in b.members if m.name != "bank")},
    ),
    "somebody new": (
        "member",
        lambda _a, b: {"members": (*b.members, Member("x", PARTICIPANT, b"1", bytes(32)))},
    ),
    "another name": ("member", lambda _a, b: {"members": with_bank(b, name="Bank")}),
    "another role": ("member", lambda _a, b: {"members": with_bank(b, role=CC)}),
    "another verify key": ("member", lambda _a, b: {"members": with_bank(b, verify_key=bytes(32))}),
    "a leaver who was never there": ("member", lambda _a, b: {"revoked": (*b.revoked, "nobody")}),
    "a server has left": (
        "member",
        lambda _a, b: {
            "revoked": (*b.revoked, CC),
            "members": tuple(m for m in b.members if m.name != CC),
        },
    ),
    "a leaver twice": ("member", lambda _a, b: {"revoked": (*b.revoked, "telco")}),
    "an earlier leaver again": ("member", lambda _a, b: {"revoked": (*b.revoked, b.revoked[0])}),
    "somebody twice": ("member", lambda _a, b: {"members": (*b.members, *only(b, "bank"))}),
    "somebody with a key besides": (
        "member",
        lambda _a, b: {"members": (*b.members, *with_bank(b, h=b"\4"))},
    ),
    "one new key": ("member", lambda a, b: {"members": with_bank(b, h=other_key(a, b))}),
    "somebody with the leaver's key": (
        "member",
        lambda a, b: {"members": with_bank(b, h=only(a, "telco")[0].h)},
    ),
    "somebody with the key of another": (
        "member",
        lambda _a, b: {"members": with_bank(b, h=only(b, CC)[0].h)},
    ),
    "new keys and the old modulus, or old keys and a new one": (
        "member",
        lambda a, b: {"n": a.n if a.n != b.n else number(new_keys().parameters.n)},
    ),
}


def other_key(before: EpochCertificate, after: EpochCertificate) -> bytes:
    """Of bank: where all have new keys its old one, else a new one."""
    fresh = number(WeakKey.generate(keys().parameters).public.h)
    return only(before, "bank")[0].h if before.n != after.n else fresh


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def epochs(parties: Parties, request: pytest.FixtureRequest) -> Epochs:
    """The second and the third epoch: first shop has left, then telco."""
    parties.enrol()
    second, _ = parties.leave("shop")
    third, _ = parties.leave("telco", dealt=new_keys() if request.param == 2 else None)
    return second, third


@pytest.mark.parametrize("wrong", WRONG)
def test_epoch_that_does_not_follow_is_refused(epochs: Epochs, wrong: str) -> None:
    before, after = epochs
    kind, changes = WRONG[wrong]
    check_succession(before, after)
    with pytest.raises(ProtocolError) as caught:
        check_succession(before, msgspec.structs.replace(after, **changes(before, after)))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "changes", [{"g0": b"\4"}, {"exponent_bits": 127}], ids=["another generator", "other exponents"]
)
def test_parameters_stay_where_keys_do(parties: Parties, changes: dict[str, Any]) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco")
    with pytest.raises(ProtocolError):
        check_succession(first, msgspec.structs.replace(second, **changes))


@pytest.mark.parametrize("wrong", WRONG)
@LEVELS
def test_party_stays_in_its_epoch_if_the_next_one_is_wrong(
    parties: Parties, wrong: str, dealt: MakeKeys
) -> None:
    """Whatever KGC itself has signed."""
    parties.enrol()
    second, _ = parties.leave("shop")
    bank, kgc, held = parties.identities["bank"], parties.signing, parties.identities["bank"].keys

    def forge(certificate: EpochCertificate) -> EpochCertificate:
        return signed_again(kgc, certificate, **WRONG[wrong][1](second, certificate))

    channel = Forging(parties.network, forge)
    third = next_epoch(channel, kgc, second, ["telco"], dealt(), next(DEALS), 1)
    refusal(lambda: announce(channel, second, third, 1))
    assert bank.certificate == second
    assert bank.keys is held


def test_certificates_are_taken_in_turn(parties: Parties) -> None:
    first = parties.enrol()
    late = parties.identities["bank"]
    second = signed_again(
        parties.signing,
        first,
        epoch=2,
        members=tuple(m for m in first.members if m.name != "shop"),
        revoked=("shop",),
        previous=certificate_digest(first),
    )
    third = signed_again(
        parties.signing,
        second,
        epoch=3,
        members=tuple(m for m in second.members if m.name != "telco"),
        revoked=("shop", "telco"),
        previous=certificate_digest(second),
    )
    assert refusal(lambda: parties.send("bank", third)).kind == "order"
    assert late.certificate == first
    for certificate in (second, third):
        assert accepted(parties, "bank", certificate) == EpochAccepted(epoch=certificate.epoch, receipt=None)
        for old in (first, second)[: certificate.epoch - 1]:
            assert refusal(lambda c=old: parties.send("bank", c)).kind == "order"  # type: ignore[misc]
    assert late.certificate == third


def test_leaver_does_not_enter_the_epoch_without_it(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco")
    assert refusal(lambda: parties.send("telco", second)).kind == "member"
    assert parties.identities["telco"].certificate == first


def test_keys_that_were_dealt_are_not_used_before_their_epoch(parties: Parties) -> None:
    parties.enrol()
    bank = parties.identities["bank"]
    before, p = bank.weak, new_keys().parameters
    changes = {"epoch": 2, "n": number(p.n), "g0": number(p.g0), "exponent_bits": p.exponent_bits}
    parties.network.channel(KGC).call("bank", dealt_to("bank", **changes), Enrolment)
    assert bank.weak is before
    assert bank.epoch == 1


def test_keys_that_were_dealt_in_vain_are_forgotten_with_the_next_epoch(parties: Parties) -> None:
    parties.enrol()
    bank, p = parties.identities["bank"], new_keys().parameters
    changes = {"epoch": 2, "n": number(p.n), "g0": number(p.g0), "exponent_bits": p.exponent_bits}
    parties.network.channel(KGC).call("bank", dealt_to("bank", **changes), Enrolment)
    held = bank.keys
    _, receipts = parties.leave("telco")
    assert receipts == ()
    assert bank.keys is held
    assert bank.dealt is None


# -- receipts for erased keys -----------------------------------------------------------------------


def test_everybody_who_stays_signs_for_the_key_it_has_erased(parties: Parties) -> None:
    first = parties.enrol()
    second, receipts = parties.leave("telco", dealt=new_keys())
    assert sorted(receipt.party for receipt in receipts) == sorted(member.name for member in second.members)
    known = {member.name: member for member in first.members}
    for receipt in receipts:
        member = known[receipt.party]
        assert (receipt.epoch, receipt.keys) == (1, erased_keys(first.n, member))
        assert receipt.entered == certificate_digest(second)
    check_receipts(first, second, receipts)


def test_first_epoch_erases_nothing(parties: Parties) -> None:
    certificate = parties.enrol()
    assert announce(Silent(), None, certificate, 1) == ()


@dataclass
class Silent:
    """A channel on which everybody accepts whatever epoch, or always the same one."""

    epoch: int | None = None

    def call(self, _: str, request: Message, reply_type: type[Any]) -> Any:
        assert isinstance(request, EpochCertificate)
        return reply_type(epoch=request.epoch if self.epoch is None else self.epoch, receipt=None)


@pytest.mark.parametrize("epoch", [0, 2, 9])
def test_party_that_accepts_another_epoch_is_noticed(parties: Parties, epoch: int) -> None:
    certificate = parties.enrol()
    with pytest.raises(ProtocolError) as caught:
        announce(Silent(epoch), None, certificate, 1)
    assert caught.value.kind == "epoch"


@pytest.fixture
def renewal(parties: Parties) -> tuple[EpochCertificate, EpochCertificate, dict[str, Receipt]]:
    """Two epochs with different keys, and the receipts."""
    first = parties.enrol()
    second, receipts = parties.leave("telco", dealt=new_keys())
    return first, second, {receipt.party: receipt for receipt in receipts}


Renewal = tuple[EpochCertificate, EpochCertificate, dict[str, Receipt]]


@pytest.mark.parametrize(
    "changes",
    [
        {"party": "bank"},
        {"party": "telco"},
        {"epoch": 2},
        {"keys": bytes(32)},
        {"entered": bytes(32)},
        {"signature": bytes(64)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_receipt_holds_as_it_was_signed_alone(renewal: Renewal, changes: dict[str, Any]) -> None:
    before, after, receipts = renewal
    check_receipts(before, after, list(receipts.values()))
    other = receipts | {"shop": msgspec.structs.replace(receipts["shop"], **changes)}
    with pytest.raises(RejectedError):
        check_receipts(before, after, list(other.values()))


@pytest.mark.parametrize("changes", [{"epoch": 2}, {"signature": bytes(64)}], ids=["epoch", "signature"])
def test_receipt_that_its_party_has_not_signed_is_refused(renewal: Renewal, changes: dict[str, Any]) -> None:
    before, after, receipts = renewal
    other = receipts | {"shop": msgspec.structs.replace(receipts["shop"], **changes)}
    with pytest.raises(SignatureError):
        check_receipts(before, after, list(other.values()))


def test_every_member_signs_once_and_nobody_else(renewal: Renewal) -> None:
    before, after, receipts = renewal
    signed = list(receipts.values())
    for wrong in ([], signed[1:], [*signed, signed[0]], [*signed[1:], signed[1]]):
        with pytest.raises(ProtocolError, match="not every party"):
            check_receipts(before, after, wrong)


def test_nobody_signs_for_keys_that_it_keeps(parties: Parties) -> None:
    first = parties.enrol()
    second, _ = parties.leave("telco")
    check_receipts(first, second, [])
    with pytest.raises(ProtocolError):
        check_receipts(first, second, [Receipt("bank", 1, bytes(32), bytes(32), bytes(64))])


def test_receipt_holds_between_its_two_epochs_alone(parties: Parties, renewal: Renewal) -> None:
    before, after, receipts = renewal
    other = signed_again(parties.signing, after, g0=b"\4")
    with pytest.raises(ProtocolError, match="other keys"):
        check_receipts(before, other, list(receipts.values()))
    with pytest.raises(RejectedError):
        check_receipts(signed_again(parties.signing, before, federation="x"), after, list(receipts.values()))


def test_party_that_gives_no_receipt_is_noticed(parties: Parties) -> None:
    first = parties.enrol()
    channel = parties.network.channel(KGC)
    second = next_epoch(channel, parties.signing, first, ["telco"], new_keys(), next(DEALS), 1)
    with pytest.raises(ProtocolError, match="not every party"):
        announce(Silent(), first, second, 1)


def test_different_keys_are_erased_under_different_names(parties: Parties) -> None:
    first = parties.enrol()
    names = {erased_keys(n, member) for member in first.members for n in (first.n, b"\7")}
    assert len(names) == 2 * len(first.members)
