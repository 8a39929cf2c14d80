"""Lying parties at the key set-up: KGC admits nobody who is not who it should be, and nobody trusts a
certificate that is not about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from revfrf.crypto.arithmetic import inverse, multiply
from revfrf.crypto.keys import WeakKey
from revfrf.crypto.possession import prove_possession
from revfrf.crypto.signing import SigningKey
from revfrf.errors import ProtocolError, RefusedError, RejectedError, RevFRFError
from revfrf.messages.base import Done, Message, number, of_number
from revfrf.messages.enrolment import Dealt, Enrolment, EpochCertificate, Member
from revfrf.protocols.key_setup import (
    _CERTIFICATE,
    CC,
    CS,
    KGC,
    PARTICIPANT,
    Identity,
    certificate_fields,
)
from revfrf.roles.compute import ComputePartner
from revfrf.roles.kgc import KeyCentre
from revfrf.roles.party import Party
from revfrf.transport.base import Answering
from revfrf.transport.memory import MemoryNetwork
from tests.conftest import world_of
from tests.federations import keys

ROLES = {CS: CS, CC: CC, "bank": PARTICIPANT, "telco": PARTICIPANT}


@dataclass
class Parties:
    """KGC and four parties, before anything is dealt."""

    network: MemoryNetwork
    kgc: KeyCentre
    signing: SigningKey
    identities: dict[str, Identity]

    def enrol(self) -> EpochCertificate:
        return self.kgc.enrol("federation", keys(), ROLES)

    def send(self, party: str, message: Message, sender: str = KGC) -> Done:
        return self.network.channel(sender).call(party, message, Done)


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
        assert identity.weak is not None
        assert of_number(member.h) == identity.weak.public.h
        assert member.verify_key == identity.signing_key.verify_key.raw
    shares = {
        name: identity.share.value.reveal()
        for name, identity in parties.identities.items()
        if identity.share is not None
    }
    assert shares == {CS: keys().cs_share.value.reveal(), CC: keys().cc_share.value.reveal()}


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
    assert parties.kgc.certificates == []
    assert all(identity.certificate is None for identity in parties.identities.values())
    return caught.value


def changed(**fields: Any) -> Callable[[Enrolment], Enrolment]:
    return lambda enrolment: msgspec.structs.replace(enrolment, **fields)


def test_rogue_key_is_refused(parties: Parties) -> None:
    """h = g0^a / h_CS, so that the joint key with CS is one whose secret the rogue knows alone."""
    p = keys().parameters

    def rogue(enrolment: Enrolment) -> Enrolment:
        cs, known = parties.identities[CS].weak, WeakKey.generate(p)
        assert cs is not None
        h = multiply(p.n, known.public.h, inverse(cs.public.h, p.n))
        proof = prove_possession(known, "telco")
        return msgspec.structs.replace(
            enrolment, h=number(h), challenge=number(proof.challenge), response=number(proof.response)
        )

    assert admission_of_a_liar(parties, rogue).kind == "proof"


def test_key_of_another_party_is_refused(parties: Parties) -> None:
    def stolen(enrolment: Enrolment) -> Enrolment:
        bank = parties.identities["bank"].weak
        assert bank is not None
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
        federation="federation", n=number(p.n), g0=number(p.g0), exponent_bits=p.exponent_bits, share=share
    )
    return msgspec.structs.replace(message, **changes)


def untouched(identity: Identity) -> bool:
    return (identity.weak, identity.share, identity.certificate) == (None, None, None)


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
        assert parties.identities[party].certificate == certificate


@pytest.mark.parametrize("sender", [CS, CC, "bank", "telco", "kgc"])
def test_keys_and_certificates_of_anybody_but_the_key_centre_are_refused(
    parties: Parties, sender: str
) -> None:
    assert refusal(lambda: parties.send("bank", dealt_to("bank"), sender)).kind == "sender"
    assert untouched(parties.identities["bank"])
    certificate = parties.enrol()
    assert refusal(lambda: parties.send("bank", certificate, sender)).kind == "sender"


def test_certificate_is_taken_once(parties: Parties) -> None:
    certificate = parties.enrol()
    assert refusal(lambda: parties.send("bank", certificate)).kind == "order"


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
    assert parties.kgc.certificates == []
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
    assert certified_wrongly(parties, forge).kind == "signature"


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
