"""KGC admits nobody who is not who it should be; nobody takes keys that are not for it, or out of turn."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from revfrf.crypto.dtpkc.arithmetic import inverse, multiply
from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.possession import PossessionProof, prove_possession
from revfrf.crypto.signing import SigningKey
from revfrf.errors import AbsentError, ProtocolError, RefusedError, RejectedError
from revfrf.messages.base import Message, number, of_number
from revfrf.messages.key_setup import Enrolment, KeyDeal, ProvenKey
from revfrf.names import CC, CS, KGC, REQUESTER
from revfrf.protocols.common.epoch import check_succession, public_half
from revfrf.protocols.common.identity import Identity, Keys
from revfrf.protocols.key_setup import answer_deal
from revfrf.testing.federations import toy_keys
from revfrf.testing.peers import FaultyPeer, changing, offline, replaced
from revfrf.testing.recorders import until
from revfrf.testing.refusals import refusal, refusal_kind, refused
from tests.protocols.key_setup.parties import (
    ROLES,
    Parties,
    dealt_to,
    fresh_setup,
    other_dtpkc,
    shares_of,
    untouched,
)


def test_everybody_ends_with_its_own_key_and_the_same_certificate(parties: Parties) -> None:
    certificate = parties.enrol()
    assert (certificate.federation, certificate.epoch, certificate.revoked) == ("federation", 1, ())
    assert {member.name: member.role for member in certificate.members} == ROLES
    for member in certificate.members:
        identity = parties.identities[member.name]
        assert identity.certificate == certificate
        assert identity.pending_keys is None
        assert public_half(member) == identity.weak.public.h
        assert member.verify_key == identity.signing_key.verify_key.raw
    assert shares_of(parties) == {
        CS: toy_keys().cs_share.value.reveal(),
        CC: toy_keys().cc_share.value.reveal(),
    }


def test_keys_that_are_not_there_are_not_used(parties: Parties) -> None:
    identity = parties.identities["bank"]
    for read in (lambda: identity.weak, lambda: identity.share):
        with pytest.raises(ProtocolError, match="has no"):
            read()
    assert identity.epoch == 0
    parties.enrol()
    assert identity.epoch == 1
    assert identity.weak.parameters == toy_keys().parameters
    with pytest.raises(ProtocolError, match="'bank' has no strong share here"):
        _ = identity.share


# -- a lying party ----------------------------------------------------------------------------------


def admission_of_a_liar(parties: Parties, change: Callable[[Enrolment], Enrolment]) -> RejectedError:
    def lie(_: Message, reply: Message) -> Message:
        return change(reply) if isinstance(reply, Enrolment) else reply

    liar = FaultyPeer(parties.network.roles["telco"], on_reply=lie)
    with replaced(parties.network, "telco", liar), pytest.raises(RejectedError) as caught:
        parties.enrol()
    assert not parties.kgc.state.certificates
    assert all(identity.certificate is None for identity in parties.identities.values())
    return caught.value


def pending_keys(parties: Parties, name: str) -> Keys:
    """The keys of a party, which is dealt them at the same time."""
    until(lambda: parties.identities[name].pending_keys is not None)
    keys = parties.identities[name].pending_keys
    assert keys is not None
    return keys


def with_key(enrolment: Enrolment, h: int, proof: PossessionProof) -> Enrolment:
    return replace(enrolment, weak=ProvenKey(number(h), number(proof.challenge), number(proof.response)))


def test_rogue_key_is_refused(parties: Parties) -> None:
    """h = g0^a / h_CS, so that the joint key with CS is one whose secret the rogue knows alone."""
    p = toy_keys().parameters

    def rogue(enrolment: Enrolment) -> Enrolment:
        cs, known = pending_keys(parties, CS), WeakKey.generate(p)
        h = multiply(p.n, known.public.h, inverse(cs.weak.public.h, p.n))
        return with_key(enrolment, h, prove_possession(known, "telco"))

    assert admission_of_a_liar(parties, rogue).kind == "proof"


def test_key_of_another_party_is_refused(parties: Parties) -> None:
    def stolen(enrolment: Enrolment) -> Enrolment:
        bank = pending_keys(parties, "bank").weak
        return with_key(enrolment, bank.public.h, prove_possession(bank, "bank"))

    assert admission_of_a_liar(parties, stolen).kind == "proof"


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "name of another": ({"name": "bank"}, "member"),
    "name that is nobody's": ({"name": "Telco"}, "member"),
    "role of CC": ({"role": CC}, "member"),
    "role of CS": ({"role": CS}, "member"),
    "no weak key": ({"weak": None}, "member"),
    "h is 0": ({"h": b"\0"}, "out-of-range"),
    "h is 1": ({"h": b"\1"}, "trivial"),
    "h above N": ({"h": b"\xff" * 32}, "out-of-range"),
    "h with leading zeros": ({"h": b"\0\2"}, "malformed"),
    "another challenge": ({"challenge": b"\0"}, "proof"),
    "another response": ({"response": b"\0"}, "proof"),
    "a response far too long": ({"response": b"\xff" * 500}, "proof"),
    "verify key of small order": ({"verify_key": bytes(32)}, "malformed"),
    "verify key that everybody can sign for": ({"verify_key": b"\1" + bytes(31)}, "malformed"),
}


@pytest.mark.parametrize("lie", LIES)
def test_liar_is_not_admitted(parties: Parties, lie: str) -> None:
    fields, kind = LIES[lie]

    def change(enrolment: Enrolment) -> Enrolment:
        assert enrolment.weak is not None
        if fields.keys() <= set(ProvenKey.__struct_fields__):
            return replace(enrolment, weak=replace(enrolment.weak, **fields))
        return replace(enrolment, **fields)

    assert admission_of_a_liar(parties, change).kind == kind


def test_verify_key_other_than_the_one_known_is_refused(parties: Parties) -> None:
    """Neither when a federation is set up by invitations, nor when a member gets new keys."""
    other = SigningKey.generate().verify_key.raw
    with refused("member") as caught:
        parties.kgc.begin_first_epoch("federation", toy_keys(), ROLES, lambda: {"telco": other})
    assert "'telco' enrols with another verify key" in caught.reason
    parties.enrol()
    liar = FaultyPeer(parties.network.roles["bank"], on_reply=changing(Enrolment, verify_key=other))
    with replaced(parties.network, "bank", liar), refused("member") as caught:
        parties.leave("telco", setup=fresh_setup())
    assert "'bank' enrols with another verify key" in caught.reason


# -- a lying key centre -----------------------------------------------------------------------------


def refused_deal(parties: Parties, party: str, **changes: Any) -> str:
    """The kind of the refusal of a deal, after which the party has nothing."""
    kind = refusal_kind(lambda: parties.send(party, dealt_to(party, **changes)))
    assert untouched(parties.identities[party])
    return kind


@pytest.mark.parametrize("party", [CS, CC])
def test_server_without_a_share_is_refused(parties: Parties, party: str) -> None:
    assert refused_deal(parties, party, share=None) == "member"


def test_share_for_a_participant_is_refused(parties: Parties) -> None:
    assert refused_deal(parties, "bank", share=number(toy_keys().cs_share.value.reveal())) == "member"


@pytest.mark.parametrize(
    "changes",
    [
        {"g0": b"\1"},
        {"g0": b"\0"},
        {"n": b"\0\7"},
        {"g0": b"\xff" * 40},
        {"n": b"\7"},
        {"exponent_bits": 8},
        {"n": b"\x80" * 32},
    ],
    ids=str,
)
def test_parameters_that_cannot_work_are_refused(parties: Parties, changes: dict[str, Any]) -> None:
    refused_deal(parties, "bank", **other_dtpkc(dealt_to("bank"), **changes))


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
        assert parties.identities[party].pending_keys is None
        assert parties.identities[party].certificate == certificate


@pytest.mark.parametrize("enrolled", [False, True])
def test_keys_can_be_dealt_again_before_their_epoch_begins(parties: Parties, enrolled: bool) -> None:
    """So that a deal that has failed half-way can be repeated."""
    if enrolled:
        parties.enrol()
    bank, epoch = parties.identities["bank"], 1 + enrolled
    held, made = bank.keys, set[int]()
    for _ in range(2):
        enrolment = parties.network.channel(KGC).call("bank", dealt_to("bank", epoch=epoch), Enrolment)
        assert bank.pending_keys is not None
        assert enrolment.weak is not None
        h = bank.pending_keys.weak.public.h
        assert (bank.dealt_epoch, h) == (epoch, of_number(enrolment.weak.h))
        made.add(h)
    assert len(made) == 2
    last = bank.pending_keys
    assert refusal(lambda: parties.send("bank", dealt_to("bank", epoch=epoch + 1))).kind == "order"
    assert bank.pending_keys is last
    assert bank.keys is held


def test_what_was_dealt_earlier_and_comes_late_displaces_nothing(parties: Parties) -> None:
    """Whoever passes letters on holds some back until KGC has dealt again, and everybody has enrolled."""
    parties.enrol()
    late, dealt = [dealt_to("bank", epoch=2) for _ in range(9)], fresh_setup()
    bank, seen = parties.network.roles["bank"], []

    def delay(request: Message, reply: Message) -> Message:
        for each in late if isinstance(request, KeyDeal) else ():
            with refused("order"):
                bank.handle(KGC, each)
            seen.append(each)
        return reply

    parties.network.roles["bank"] = FaultyPeer(bank, on_reply=delay)
    second = parties.leave("telco", setup=dealt)
    assert seen == late
    assert parties.identities["bank"].certificate == second
    assert parties.identities["bank"].weak.parameters == dealt.parameters


def test_numbers_of_deals_ascend_also_after_one_that_failed(parties: Parties) -> None:
    with offline(parties.network, "shop"), pytest.raises(AbsentError):
        parties.enrol()
    assert parties.kgc.state.deals == 1
    parties.enrol()
    assert parties.kgc.state.deals == 2
    assert {identity.deal for identity in parties.identities.values()} == {2}


def test_leaving_that_failed_at_the_deal_can_be_repeated_at_either_level(parties: Parties) -> None:
    first = parties.enrol()
    with offline(parties.network, "shop"), pytest.raises(AbsentError):
        parties.leave("telco", setup=fresh_setup())
    assert all(identity.certificate == first for identity in parties.identities.values())
    second = parties.leave("telco")
    third = parties.leave("bank", setup=fresh_setup())
    assert {identity.epoch for name, identity in parties.identities.items() if name in third.by_name} == {3}
    check_succession(first, second)
    check_succession(second, third)


@pytest.mark.parametrize("epoch", [0, 1, 3, 2**32 - 1])
def test_keys_are_dealt_for_the_next_epoch_alone(parties: Parties, epoch: int) -> None:
    if epoch != 1:
        assert refused_deal(parties, "bank", epoch=epoch) == "order"
    parties.enrol()
    assert refusal(lambda: parties.send("bank", dealt_to("bank", epoch=epoch))).kind == "order"
    assert parties.identities["bank"].pending_keys is None


def test_keys_of_another_federation_are_refused_once_there_is_one(parties: Parties) -> None:
    parties.enrol()
    other = dealt_to("bank", epoch=2, federation="another")
    assert refusal(lambda: parties.send("bank", other)).kind == "order"
    bank = parties.identities["bank"]
    assert (bank.federation, bank.pending_keys) == ("federation", None)


@pytest.mark.parametrize("epoch", [1, 2, 9])
def test_requester_comes_in_any_epoch(parties: Parties, epoch: int) -> None:
    signing = SigningKey.generate()
    clinic = Identity("clinic", REQUESTER, parties.signing.verify_key, signing, allow_insecure=True)
    assert answer_deal(clinic, dealt_to(REQUESTER, epoch=epoch)).name == "clinic"
    assert clinic.pending_keys is not None
    assert clinic.dealt_epoch == epoch
