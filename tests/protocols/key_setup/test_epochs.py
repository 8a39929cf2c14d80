"""One epoch after another: nobody enters one that does not follow its own, whatever KGC has signed."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.errors import ProtocolError
from revfrf.messages.base import number, of_number
from revfrf.messages.key_setup import DtpkcParameters, Enrolment, EpochAccepted, EpochCertificate, Member
from revfrf.names import CC, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import certificate_digest, check_succession, write_parameters
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.protocols.key_setup import inform
from revfrf.testing.federations import toy_keys
from revfrf.testing.refusals import refusal, refused
from tests.federations import modulus
from tests.protocols.key_setup.parties import (
    DEALS,
    ROLES,
    Parties,
    accepted,
    dealt_to,
    dtpkc_of,
    following,
    forging,
    fresh_setup,
    level_of,
    other_dtpkc,
    signed_again,
    with_bank,
)

LEVELS = pytest.mark.parametrize("new_setup", [lambda: None, fresh_setup], ids=["level 1", "level 2"])
MakeKeys = Callable[[], SetUp | None]


@LEVELS
def test_epoch_without_the_leaver_follows(parties: Parties, new_setup: MakeKeys) -> None:
    first = parties.enrol()
    second = parties.leave("telco", setup=new_setup())
    check_succession(None, first)
    check_succession(first, second)
    assert (second.epoch, second.revoked, second.previous) == (2, ("telco",), certificate_digest(first))
    assert {m.name: m.role for m in second.members} == {n: r for n, r in ROLES.items() if n != "telco"}
    for name, identity in parties.identities.items():
        assert identity.certificate == (first if name == "telco" else second)
        assert identity.pending_keys is None


@pytest.mark.parametrize(
    "changes", [{"epoch": 2}, {"revoked": ("telco",)}, {"previous": bytes(32)}, {"erases": True}]
)
def test_first_epoch_comes_after_none(parties: Parties, changes: dict[str, Any]) -> None:
    first = replace(parties.enrol(), **changes)
    with refused("epoch"):
        check_succession(None, first)


def only(certificate: EpochCertificate, *names: str) -> tuple[Member, ...]:
    return tuple(member for member in certificate.members if member.name in names)


def all_but(certificate: EpochCertificate, name: str) -> tuple[Member, ...]:
    return tuple(member for member in certificate.members if member.name != name)


Epochs = tuple[EpochCertificate, EpochCertificate]
Changes = dict[str, Callable[[EpochCertificate, EpochCertificate], dict[str, Any]]]
OUT_OF_TURN: Changes = {
    "another federation": lambda _a, _b: {"federation": "another"},
    "another protocol": lambda _a, _b: {"forest_protocol": "shares"},
    "another key for notes": lambda _a, _b: {"notes_key": bytes(32)},
    "the same number": lambda _a, b: {"epoch": b.epoch - 1},
    "a number left out": lambda _a, b: {"epoch": b.epoch + 1},
    "after none": lambda _a, _b: {"previous": b""},
    "after itself": lambda _a, b: {"previous": certificate_digest(b)},
    "after another": lambda a, _b: {"previous": certificate_digest(replace(a, revoked=()))},
}
WRONG_LEAVERS: Changes = {
    "nobody has left": lambda a, _b: {"revoked": a.revoked},
    "who has left is back": lambda _a, b: {"revoked": b.revoked[1:]},
    "who has left before is first no more": lambda _a, b: {"revoked": b.revoked[::-1]},
    "a leaver who was never there": lambda _a, b: {"revoked": (*b.revoked, "nobody")},
    "a leaver twice": lambda _a, b: {"revoked": (*b.revoked, "telco")},
    "an earlier leaver again": lambda _a, b: {"revoked": (*b.revoked, b.revoked[0])},
    "a server has left": lambda _a, b: {"revoked": (*b.revoked, CC), "members": all_but(b, CC)},
    "nobody has left, and all are there": lambda a, b: {
        "revoked": a.revoked,
        "members": (*b.members, *only(a, "telco")),
    },
}
WRONG_MEMBERS: dict[str, Callable[[EpochCertificate, EpochCertificate], tuple[Member, ...]]] = {
    "the leaver is a member": lambda a, b: (*b.members, *only(a, "telco")),
    "another one is missing": lambda _a, b: all_but(b, "bank"),
    "somebody new": lambda _a, b: (*b.members, Member("x", PARTICIPANT, b"1", bytes(32))),
    "another name": lambda _a, b: with_bank(b, name="Bank"),
    "another role": lambda _a, b: with_bank(b, role=CC),
    "another verify key": lambda _a, b: with_bank(b, verify_key=bytes(32)),
    "somebody twice": lambda _a, b: (*b.members, *only(b, "bank")),
    "somebody with a key besides": lambda _a, b: (*b.members, *with_bank(b, h=b"\4")),
    "one new key": lambda a, b: with_bank(b, h=other_key(a, b)),
    "somebody with the leaver's key": lambda a, b: with_bank(b, h=only(a, "telco")[0].h),
    "somebody with the key of another": lambda _a, b: with_bank(b, h=only(b, CC)[0].h),
}
WRONG_REQUESTS: dict[str, tuple[str, Callable[[EpochCertificate, EpochCertificate], dict[str, Any]]]] = {
    "nobody has asked to leave": ("leaver", lambda _a, _b: {"requests": ()}),
    "a request twice": ("leaver", lambda _a, b: {"requests": b.requests * 2}),
    "a request for the other level": ("signature", lambda _a, b: asked(b, level=3 - b.requests[0].level)),
    "a request that was not signed": ("signature", lambda _a, b: asked(b, signature=bytes(64))),
    "a request of somebody who stays": ("signature", lambda _a, b: asked(b, party="bank")),
    "a request of a server": ("member", lambda _a, b: asked(b, party=CC)),
    "a request of who has left before": ("epoch", lambda a, _b: {"requests": a.requests}),
    "a request to leave another federation": ("epoch", lambda _a, b: asked(b, federation="another")),
}
ERASES = "keys are erased although nobody has new ones, or not although all have"
NEW_KEYS = "new keys and the old modulus, or old keys and a new one"
WRONG = [*OUT_OF_TURN, *WRONG_LEAVERS, *WRONG_MEMBERS, *WRONG_REQUESTS, NEW_KEYS, ERASES]


def wrongly(wrong: str, before: EpochCertificate, after: EpochCertificate) -> dict[str, Any]:
    """What is changed about the epoch after."""
    if wrong == NEW_KEYS:
        same = before.dtpkc == after.dtpkc
        return {"dtpkc": write_parameters(fresh_setup().parameters) if same else before.dtpkc}
    if wrong == ERASES:
        return {"erases": not after.erases}
    if wrong in WRONG_MEMBERS:
        return {"members": WRONG_MEMBERS[wrong](before, after)}
    if wrong in WRONG_REQUESTS:
        return WRONG_REQUESTS[wrong][1](before, after)
    return (OUT_OF_TURN | WRONG_LEAVERS)[wrong](before, after)


def asked(after: EpochCertificate, **changes: Any) -> dict[str, Any]:
    """What is changed about an epoch with these changes of the first request to leave."""
    return {"requests": (replace(after.requests[0], **changes), *after.requests[1:])}


def kind_of(wrong: str) -> str:
    """The kind of the refusal."""
    if wrong in WRONG_REQUESTS:
        return WRONG_REQUESTS[wrong][0]
    return "epoch" if wrong in OUT_OF_TURN else "leaver" if wrong == ERASES else "member"


def other_key(before: EpochCertificate, after: EpochCertificate) -> bytes | None:
    """Of bank: where all have new keys its old one, else a new one."""
    fresh = number(WeakKey.generate(toy_keys().parameters).public.h)
    return only(before, "bank")[0].h if before.dtpkc != after.dtpkc else fresh


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def epochs(parties: Parties, request: pytest.FixtureRequest) -> Epochs:
    """The second and the third epoch: first shop has left, then telco."""
    parties.enrol()
    second = parties.leave("shop")
    third = parties.leave("telco", setup=fresh_setup() if request.param == 2 else None)
    return second, third


@pytest.mark.parametrize("wrong", WRONG)
def test_epoch_that_does_not_follow_is_refused(epochs: Epochs, wrong: str) -> None:
    before, after = epochs
    check_succession(before, after)
    with refused(kind_of(wrong)):
        check_succession(before, replace(after, **wrongly(wrong, before, after)))


@pytest.mark.parametrize(
    "changes", [{"g0": b"\4"}, {"exponent_bits": 127}], ids=["another generator", "other exponents"]
)
def test_parameters_stay_where_keys_do(parties: Parties, changes: dict[str, Any]) -> None:
    first = parties.enrol()
    second = parties.leave("telco")
    with pytest.raises(ProtocolError):
        check_succession(first, replace(second, **other_dtpkc(second, **changes)))


BAD_PARAMETERS: dict[str, Callable[[DtpkcParameters], dict[str, Any]]] = {
    "a longer modulus": lambda b: {"n": number(of_number(b.n) << 8 | 1)},
    "a shorter modulus": lambda b: {"n": number(of_number(b.n) >> 8 | 1)},
    "a modulus with a factor of the old one": lambda b: {"n": number(of_number(b.n) // 3 * 3)},
    "shorter exponents": lambda b: {"exponent_bits": b.exponent_bits - 1},
}


@pytest.mark.parametrize("wrong", BAD_PARAMETERS)
def test_new_parameters_are_as_large_and_not_made_from_the_old_ones(parties: Parties, wrong: str) -> None:
    first = parties.enrol()
    second = parties.leave("telco", setup=fresh_setup())
    before = replace(first, **other_dtpkc(first, n=number(modulus(first) // 3 * 3)))
    after = replace(second, previous=certificate_digest(before))
    check_succession(before, after)
    with refused("member") as caught:
        changes = BAD_PARAMETERS[wrong](dtpkc_of(second))
        check_succession(before, replace(after, **other_dtpkc(second, **changes)))
    assert "a new modulus is of the same size" in caught.reason


@pytest.mark.parametrize("wrong", WRONG)
@LEVELS
def test_party_stays_in_its_epoch_if_the_next_one_is_wrong(
    parties: Parties, wrong: str, new_setup: MakeKeys
) -> None:
    """Whatever KGC itself has signed."""
    parties.enrol()
    second = parties.leave("shop")
    bank, kgc, held = parties.identities["bank"], parties.signing, parties.identities["bank"].keys

    def forge(certificate: EpochCertificate) -> EpochCertificate:
        return signed_again(kgc, certificate, **wrongly(wrong, second, certificate))

    channel = forging(parties.network, forge)
    setup = new_setup()
    requests = parties.requests("telco", level=level_of(setup))
    unsigned = next_epoch(channel, second, requests, setup, next(DEALS))
    third = signed_again(kgc, unsigned)
    refusal(lambda: inform(channel, [third], "bank"))
    assert bank.certificate == second
    assert bank.keys is held


def test_certificates_are_taken_in_turn(parties: Parties) -> None:
    first = parties.enrol()
    late = parties.identities["bank"]

    second = following(parties, first, "shop")
    third = following(parties, second, "telco")
    assert refusal(lambda: parties.send("bank", third)).kind == "order"
    assert late.certificate == first
    for certificate in (second, third):
        assert accepted(parties, "bank", certificate) == EpochAccepted(epoch=certificate.epoch)
        for old in (first, second)[: certificate.epoch - 1]:  # whoever sends it is told where the party is
            assert accepted(parties, "bank", old) == EpochAccepted(epoch=certificate.epoch)
            forged = replace(old, signature=bytes(64))
            assert refusal(lambda c=forged: parties.send("bank", c)).kind == "signature"  # type: ignore[misc]
        assert late.certificate == certificate


def test_leaver_does_not_enter_the_epoch_without_it(parties: Parties) -> None:
    first = parties.enrol()
    second = parties.leave("telco")
    assert refusal(lambda: parties.send("telco", second)).kind == "member"
    assert parties.identities["telco"].certificate == first


def test_keys_that_were_dealt_are_not_used_before_their_epoch_and_forgotten_with_another(
    parties: Parties,
) -> None:
    parties.enrol()
    bank, p = parties.identities["bank"], fresh_setup().parameters
    held, weak = bank.keys, bank.weak
    dealt = dealt_to("bank", epoch=2, dtpkc=write_parameters(p))
    parties.network.channel(KGC).call("bank", dealt, Enrolment)
    assert bank.weak is weak
    assert bank.epoch == 1
    parties.leave("telco")
    assert bank.keys is held
    assert bank.pending_keys is None
