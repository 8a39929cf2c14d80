"""Epochs of the shares protocol: nobody has keys of DT-PKC, and such keys are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from revfrf.crypto.signing import SigningKey
from revfrf.errors import ProtocolError
from revfrf.messages.base import number
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import Admission, Enrolment, EpochAccepted, EpochCertificate, Member, ProvenKey
from revfrf.names import CS, KGC, REQUESTER, Protocol
from revfrf.protocols.common.epoch import check_succession, verify_certificate, write_parameters
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.signed import sign
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import _ADMISSION, answer_admission, answer_deal
from revfrf.testing.federations import toy_keys
from revfrf.testing.peers import FaultyPeer, changing, replaced
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refusal, refused
from tests.protocols.key_setup.parties import (
    DEALS,
    ROLES,
    Parties,
    accepted,
    dealt_to,
    forging,
    fresh_setup,
    signed_again,
    with_bank,
)

LEVELS = pytest.mark.parametrize("level", [1, 2])
PROTOCOLS = pytest.mark.parametrize("protocol", ["shares", "paper"])


def byte_strings(value: Any) -> list[bytes]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [found for part in parts for found in byte_strings(part)]
    return [value] if isinstance(value, bytes) else []


def test_everybody_enters_the_first_epoch_and_no_long_number_is_sent(parties: Parties) -> None:
    with recording(parties.network) as sent:
        certificate = parties.enrol("shares")
    assert (certificate.epoch, certificate.forest_protocol, certificate.dtpkc) == (1, "shares", None)
    assert {member.name: (member.role, member.h) for member in certificate.members} == {
        name: (role, None) for name, role in ROLES.items()
    }
    for name, identity in parties.identities.items():
        assert identity.certificate == certificate
        assert (identity.keys, identity.pending_keys) == (None, None)
        assert certificate.by_name[name].verify_key == identity.signing_key.verify_key.raw
    found = [data for each in sent for data in byte_strings(each.plain)]
    assert found
    assert max(map(len, found)) <= 64  # a signature


@PROTOCOLS
def test_certificate_names_the_key_for_notes_which_is_not_the_one_that_signs_it(
    parties: Parties, protocol: Protocol
) -> None:
    certificate = parties.enrol(protocol)
    assert parties.kgc.keys is not None
    assert certificate.notes_key == parties.kgc.keys.notes.verify_key.raw
    assert certificate.notes_key != parties.signing.verify_key.raw


# -- absent is invalid, and so is present -----------------------------------------------------------

MIXED: dict[Protocol, dict[str, Callable[[EpochCertificate], dict[str, Any]]]] = {
    "paper": {
        "no parameters": lambda _: {"dtpkc": None},
        "one without a weak key": lambda c: {"members": with_bank(c, h=None)},
        "nobody with a weak key": lambda c: {"members": tuple(replace(m, h=None) for m in c.members)},
        "nothing of it": lambda c: {"members": tuple(replace(m, h=None) for m in c.members), "dtpkc": None},
        "all of it, under the other protocol": lambda _: {"forest_protocol": "shares"},
    },
    "shares": {
        "parameters": lambda _: {"dtpkc": write_parameters(toy_keys().parameters)},
        "one with a weak key": lambda c: {"members": with_bank(c, h=b"\4")},
        "all with a weak key": lambda c: {"members": tuple(replace(m, h=b"\4") for m in c.members)},
        "nothing of it, under the other protocol": lambda _: {"forest_protocol": "paper"},
    },
}
MIXTURES = pytest.mark.parametrize(
    ("protocol", "wrong"), [(protocol, wrong) for protocol, changes in MIXED.items() for wrong in changes]
)


@MIXTURES
def test_certificate_has_dtpkc_if_its_protocol_is_the_papers_else_nothing_of_it(
    parties: Parties, protocol: Protocol, wrong: str
) -> None:
    right, kgc = parties.enrol(protocol), parties.signing
    verify_certificate(kgc.verify_key, right)
    with refused("epoch"):
        verify_certificate(kgc.verify_key, signed_again(kgc, right, **MIXED[protocol][wrong](right)))


@MIXTURES
def test_nobody_enters_an_epoch_whose_keys_do_not_fit_its_protocol(
    parties: Parties, protocol: Protocol, wrong: str
) -> None:
    kgc = parties.signing
    parties.kgc.channel = forging(
        parties.network, lambda c: signed_again(kgc, c, **MIXED[protocol][wrong](c))
    )
    assert isinstance(refusal(lambda: parties.enrol(protocol)), ProtocolError)
    assert parties.identities["bank"].certificate is None


def test_party_enrols_with_a_weak_key_under_the_paper_protocol_alone(parties: Parties) -> None:
    key = ProvenKey(b"\4", b"\1", b"\1")
    liar = FaultyPeer(parties.network.roles["telco"], on_reply=changing(Enrolment, weak=key))
    with replaced(parties.network, "telco", liar), refused("member") as caught:
        parties.enrol("shares")
    assert "'telco' enrols with a weak key that has no place in this protocol" in caught.reason
    assert not parties.kgc.state.certificates


def test_strong_share_without_a_modulus_is_refused(parties: Parties) -> None:
    deal = dealt_to(CS, dtpkc=None)
    assert deal.share is not None
    assert refusal(lambda: parties.send(CS, deal)).kind == "member"
    assert parties.identities[CS].deal == 0


@PROTOCOLS
def test_deal_of_the_other_protocol_is_refused_once_there_is_one(
    parties: Parties, protocol: Protocol
) -> None:
    parties.enrol(protocol)
    bank = parties.identities["bank"]
    held = bank.keys
    deal = dealt_to("bank", epoch=2) if protocol == "shares" else dealt_to("bank", epoch=2, dtpkc=None)
    assert refusal(lambda: parties.send("bank", deal)).kind == "order"
    assert (bank.keys, bank.pending_keys, bank.dealt_epoch) == (held, None, 1)


def test_certificate_before_any_deal_is_refused(parties: Parties) -> None:
    certificate = parties.enrol("shares")
    late = Identity("bank", "participant", parties.signing.verify_key, SigningKey.generate())
    parties.network.roles["bank"].identity = late  # type: ignore[attr-defined]
    assert refusal(lambda: parties.send("bank", certificate)).kind == "epoch"
    assert late.certificate is None


# -- leaving ----------------------------------------------------------------------------------------


@LEVELS
def test_epoch_without_the_leaver_follows_and_erases_at_level_2(
    parties: Parties, level: RevocationLevel
) -> None:
    first = parties.enrol("shares")
    with recording(parties.network) as sent:
        second = parties.leave("telco", level=level)
    staying = {name for name in ROLES if name != "telco"}
    assert {each.type for each in sent} == {"EpochCertificate", "EpochAccepted"}  # nothing is dealt
    assert second.members == tuple(member for member in first.members if member.name in staying)
    assert (second.erases, second.forest_protocol) == (level == 2, "shares")
    assert {parties.identities[name].certificate for name in staying} == {second}
    assert accepted(parties, "bank", second) == EpochAccepted(epoch=2)


WRONG: dict[str, Callable[[EpochCertificate], dict[str, Any]]] = {
    "another protocol": lambda c: {
        "forest_protocol": "paper",
        "dtpkc": write_parameters(toy_keys().parameters),
        "members": tuple(replace(m, h=number(4 + i)) for i, m in enumerate(c.members)),
    },
    "another key for notes": lambda _: {"notes_key": SigningKey.generate().verify_key.raw},
    "a modulus": lambda _: {"dtpkc": write_parameters(toy_keys().parameters)},
    "a weak key": lambda c: {"members": with_bank(c, h=b"\4")},
    "another verify key": lambda c: {
        "members": with_bank(c, verify_key=SigningKey.generate().verify_key.raw)
    },
}


@pytest.mark.parametrize("wrong", WRONG)
@LEVELS
def test_nobody_enters_an_epoch_that_changes_what_must_stay(
    parties: Parties, level: RevocationLevel, wrong: str
) -> None:
    """Whatever KGC itself has signed."""
    first, kgc = parties.enrol("shares"), parties.signing
    right = next_epoch(
        parties.network.channel(KGC), first, parties.requests("telco", level=level), None, next(DEALS)
    )
    check_succession(first, right)
    forged = signed_again(kgc, right, **WRONG[wrong](right))
    with pytest.raises(ProtocolError):
        check_succession(first, forged)
    refusal(lambda: accepted(parties, "bank", forged))
    assert parties.identities["bank"].certificate == first
    assert accepted(parties, "bank", signed_again(kgc, right)).epoch == 2


def test_new_modulus_begins_no_epoch_of_shares(parties: Parties) -> None:
    first = parties.enrol("shares")
    assert refusal(lambda: parties.leave("telco", setup=fresh_setup())).kind == "order"
    assert {identity.certificate for identity in parties.identities.values()} == {first}


# -- requesters -------------------------------------------------------------------------------------


def admission_of(parties: Parties, member: Member, epoch: int = 1) -> Admission:
    unsigned = Admission(federation="federation", epoch=epoch, member=member, signature=bytes(64))
    return sign(parties.signing, _ADMISSION, unsigned)


def test_requester_is_admitted_by_its_verify_key_in_the_epoch_of_its_deal(parties: Parties) -> None:
    clinic = Identity("clinic", REQUESTER, parties.signing.verify_key, SigningKey.generate())
    enrolment = answer_deal(clinic, dealt_to(REQUESTER, epoch=3, dtpkc=None))
    member = Member("clinic", REQUESTER, None, enrolment.verify_key)
    assert (enrolment.weak, member) == (None, clinic.member(None))
    for wrong in (
        admission_of(parties, member, 2),
        admission_of(parties, replace(member, h=b"\4"), 3),
        admission_of(parties, replace(member, verify_key=bytes(32)), 3),
    ):
        with pytest.raises(ProtocolError):
            answer_admission(clinic, wrong)
    assert clinic.admission is None
    answer_admission(clinic, admission_of(parties, member, 3))
    assert clinic.admitted.member == member


@pytest.mark.parametrize("name", ["bank", "clinic"])
def test_who_has_a_weak_key_takes_no_admission_without_it(parties: Parties, name: str) -> None:
    parties.enrol()
    known = parties.identities.get(name)
    if known is None:
        known = Identity(name, REQUESTER, parties.signing.verify_key, SigningKey.generate(), True)
        answer_deal(known, dealt_to(REQUESTER))
    held = (known.keys, known.pending_keys)
    with refused("member"):
        answer_admission(known, admission_of(parties, known.member(None)))
    assert (known.keys, known.pending_keys) == held
