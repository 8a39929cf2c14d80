"""Nobody trusts a certificate that is not KGC's, not about itself, or not about what was dealt."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.signing import SigningKey
from revfrf.errors import ProtocolError, RevFRFError
from revfrf.messages.base import Done, number
from revfrf.messages.key_setup import DtpkcParameters, EpochAccepted, EpochCertificate, Member
from revfrf.names import CC, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import write_parameters
from revfrf.protocols.common.identity import Identity
from revfrf.roles.compute import ComputePartner
from revfrf.testing.federations import toy_keys
from revfrf.testing.refusals import refusal
from revfrf.transport.memory import MemoryNetwork
from tests.conftest import world_of
from tests.protocols.key_setup.parties import (
    Parties,
    accepted,
    forging,
    fresh_setup,
    other_dtpkc,
    signed_again,
    untouched,
    with_bank,
)


def test_certificate_that_comes_again_is_answered_the_same_and_changes_nothing(parties: Parties) -> None:
    certificate = parties.enrol()
    bank = parties.identities["bank"]
    held = bank.keys
    assert accepted(parties, "bank", certificate) == EpochAccepted(epoch=1)
    second = parties.leave("telco", setup=fresh_setup())
    assert bank.keys is not held
    held = bank.keys
    for _ in range(2):
        assert accepted(parties, "bank", second) == EpochAccepted(epoch=2)
    assert bank.keys is held


def test_certificate_of_the_same_epoch_with_anything_else_is_refused(parties: Parties) -> None:
    certificate = parties.enrol()
    other = signed_again(parties.signing, certificate, revoked=("nobody",))
    assert refusal(lambda: parties.send("bank", other)).kind == "epoch"
    unsigned = msgspec.structs.replace(certificate, signature=bytes(64))
    assert refusal(lambda: parties.send("bank", unsigned)).kind == "signature"
    assert parties.identities["bank"].certificate == certificate


def test_certificate_before_any_key_is_refused(parties: Parties) -> None:
    other = MemoryNetwork()
    late = Identity("bank", PARTICIPANT, parties.signing.verify_key, SigningKey.generate(), True)
    other.connect("bank", PARTICIPANT, ComputePartner(late))
    certificate = parties.enrol()
    call = lambda: other.channel(KGC).call("bank", certificate, Done)  # noqa: E731
    assert refusal(call).kind == "order"
    assert untouched(late)


def certified_wrongly(parties: Parties, forge: Callable[[EpochCertificate], EpochCertificate]) -> RevFRFError:
    parties.kgc.channel = forging(parties.network, forge)
    cause = refusal(parties.enrol)
    assert parties.identities["bank"].certificate is None
    assert not parties.kgc.lifecycle_state().announced
    return cause


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": bytes(64)},
        {"epoch": 2},
        {"federation": "other"},
        {"forest_protocol": "shares"},
        {"notes_key": bytes(32)},
        {"dtpkc": None},
        {"dtpkc": DtpkcParameters(b"\7", b"\4", 128)},
        {"revoked": ("telco",)},
        {"erases": True},
        {"previous": b"\0"},
        {"members": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_certificate_that_was_changed_on_its_way_is_refused(
    parties: Parties, changes: dict[str, Any]
) -> None:
    forge = lambda certificate: msgspec.structs.replace(certificate, **changes)  # noqa: E731
    out_of_turn = changes.keys() & {"epoch", "dtpkc"}  # seen before the signature is looked at
    assert certified_wrongly(parties, forge).kind == ("order" if out_of_turn else "signature")


def test_certificate_signed_by_anybody_else_is_refused(parties: Parties) -> None:
    stranger = SigningKey.generate()
    assert certified_wrongly(parties, lambda c: signed_again(stranger, c)).kind == "signature"


@pytest.mark.parametrize(
    "members",
    [
        lambda c: with_bank(c, h=number(WeakKey.generate(toy_keys().parameters).public.h)),
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
        lambda _: {"dtpkc": write_parameters(world_of(256).parameters)},
        lambda c: other_dtpkc(c, g0=number(pow(toy_keys().parameters.g0, 2, toy_keys().parameters.n))),
        lambda c: other_dtpkc(c, exponent_bits=toy_keys().parameters.exponent_bits - 1),
        lambda _: {"federation": "another federation than at the deal"},
    ],
    ids=["another modulus", "another generator", "other exponents", "another federation"],
)
def test_certificate_for_something_else_than_was_dealt_is_refused(
    parties: Parties, changes: Callable[[EpochCertificate], dict[str, Any]]
) -> None:
    kgc = parties.signing
    cause = certified_wrongly(parties, lambda c: signed_again(kgc, c, **changes(c)))
    assert isinstance(cause, ProtocolError)
