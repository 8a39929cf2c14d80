"""A federation of the shares protocol: it is set up, participants leave at both levels, requesters come."""

from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError, UsageError
from revfrf.lifecycle import Step
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_revoc import Certified, Report, RevocationLevel, RevocationReport
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import CC, CS, KGC
from revfrf.protocols.certificate import RevocationCertificate, sign_report, sign_revocation
from revfrf.protocols.common.epoch import certificate_digest, sign_certificate
from revfrf.protocols.common.identity import IdentityRecord
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.storage.directory import Directory
from revfrf.testing.federations import toy_keys
from revfrf.testing.refusals import refusal_kind

OWNERS = ("bank", "shop", "telco")
COLUMNS = {name: [Column("x0", 0, 64, None)] for name in OWNERS}
LEVELS = pytest.mark.parametrize("level", [1, 2])
NO_DIGEST = "0" * 64


@pytest.fixture
def federation() -> Federation:
    return Federation(COLUMNS, protocol="shares", seed=b"seed")


def leave(federation: Federation, party: str, level: RevocationLevel) -> EpochCertificate:
    """A participant asks to leave; KGC begins the epoch without it, and all others enter it."""
    request = sign_revocation(federation.participants[party].identity, bytes(16), level)
    federation.network.channel(party).call(KGC, request, Done)
    certificate = federation.kgc.begin_epoch(None)
    federation.kgc.announce()
    return certificate


def certified(federation: Federation) -> RevocationCertificate:
    """What KGC certifies when CS reports a forest without the leaver."""
    epoch = certificate_digest(federation.kgc.current)
    unsigned = Report(epoch, bytes(16), NO_DIGEST, NO_DIGEST, 1, 2, 3, bytes(64))
    report = RevocationReport(report=sign_report(federation.coordinator.identity, unsigned))
    reply = federation.network.channel(CS).call(KGC, report, Certified)
    return RevocationCertificate.from_json(reply.certificate)


def kgc_key(federation: Federation) -> SigningKey:
    assert federation.kgc.keys is not None
    return federation.kgc.keys.signing


def test_federation_is_set_up_without_a_modulus(federation: Federation) -> None:
    certificate = federation.kgc.current
    assert (certificate.epoch, certificate.forest_protocol, certificate.dtpkc) == (1, "shares", None)
    assert {member.name for member in certificate.members} == {CS, CC, *OWNERS}
    assert {party.certificate for party in federation.with_policies.values()} == {certificate}
    assert federation.timings.search == 0
    with pytest.raises(ProtocolError, match="no DT-PKC keys"):
        _ = federation.parameters
    for party in federation.with_policies.values():
        with pytest.raises(ProtocolError, match="has no weak key here"):
            _ = party.identity.weak


def test_set_up_is_needed_by_the_paper_protocol_and_by_no_other() -> None:
    for wrong in ({"protocol": "shares", "setup": toy_keys()}, {"protocol": "paper"}, {}):
        with pytest.raises(UsageError, match='"paper" needs a set-up, and "shares" has none'):
            Federation(COLUMNS, seed=b"seed", **wrong)


@LEVELS
def test_participants_leave_one_after_the_other(federation: Federation, level: RevocationLevel) -> None:
    other: RevocationLevel = 1 if level == 2 else 2
    for epoch, (party, asked) in enumerate((("telco", level), ("bank", other)), start=2):
        before = federation.kgc.current
        after = leave(federation, party, asked)
        assert (after.epoch, after.erases, after.dtpkc) == (epoch, asked == 2, None)
        assert (after.forest_protocol, after.notes_key) == ("shares", before.notes_key)
        receipts = federation.kgc.state.receipts
        assert receipts is not None
        staying = {member.name for member in after.members}
        assert {receipt.party for receipt in receipts} == (staying if asked == 2 else set())
        certificate = certified(federation)
        certificate.verify(kgc_key(federation).verify_key)
        assert (certificate.level, certificate.leavers) == (asked, (party,))
        del federation.participants[party], federation.network.roles[party]
    assert federation.kgc.current.participants == ["shop"]
    assert {party.certificate for party in federation.with_policies.values()} == {federation.kgc.current}


@LEVELS
def test_no_epoch_of_shares_takes_a_set_up(federation: Federation, level: RevocationLevel) -> None:
    request = sign_revocation(federation.participants["bank"].identity, bytes(16), level)
    federation.network.channel("bank").call(KGC, request, Done)
    with pytest.raises(UsageError, match="under the shares protocol neither does"):
        federation.kgc.begin_epoch(toy_keys())
    assert federation.kgc.lifecycle_state().next_step is Step.BEGIN_EPOCH
    assert federation.kgc.begin_epoch(None).erases == (level == 2)


@LEVELS
def test_certificate_of_another_level_than_its_epoch_is_refused(
    federation: Federation, level: RevocationLevel
) -> None:
    """Even if KGC and CS have signed all of it."""
    leave(federation, "telco", level)
    right, kgc = certified(federation), kgc_key(federation)
    after = sign_certificate(kgc, changed(right.epoch_after, erases=level == 1))
    report = changed(right.report, epoch=certificate_digest(after))
    forged = changed(right, epoch_after=after, report=sign_report(federation.coordinator.identity, report))
    assert refusal_kind(lambda: forged.verify(kgc.verify_key)) == "keys"


def test_certificate_of_level_2_without_all_receipts_is_refused(federation: Federation) -> None:
    leave(federation, "telco", 2)
    right, key = certified(federation), kgc_key(federation).verify_key
    silent = changed(right, receipts=right.receipts[1:])
    assert refusal_kind(lambda: silent.verify(key)) == "receipt"
    by_another = changed(right.receipts[0], signature=right.receipts[1].signature)
    forged = changed(right, receipts=(by_another, *right.receipts[1:]))
    assert refusal_kind(lambda: forged.verify(key)) == "receipt"


@pytest.mark.parametrize("name", ["clinic", "bank"])
def test_requester_is_admitted_in_each_epoch_again(federation: Federation, name: str) -> None:
    first = federation.enrol_requester(name).identity.admitted
    assert (first.epoch, first.member.h) == (1, None)
    leave(federation, "telco", 2)
    certified(federation)
    second = federation.requester(name).identity.admitted
    assert (second.epoch, second.member) == (2, first.member)


def test_identities_and_keys_of_kgc_come_back_from_their_stores(tmp_path: Path) -> None:
    stores = Directory(tmp_path, new=True)
    federation = Federation(COLUMNS, protocol="shares", seed=b"seed", stores=stores)
    leave(federation, "telco", 2)
    for party in (federation.coordinator, federation.compute, federation.participants["bank"]):
        back = party.store.expect("identity", IdentityRecord).identity(allow_insecure=False)
        assert back.record() == party.identity.record()
        assert back.receipt is not None
    kgc = federation.kgc
    again = KeyCentre(kgc.channel, KeyCentreKeys.read(kgc.store), kgc.store)
    again.recall()
    assert again.state == kgc.state
    assert again.keys is not None
    assert kgc.keys is not None
    assert again.keys.export() == kgc.keys.export()
    assert again.current.notes_key == again.keys.notes.verify_key.raw
    stores.close()
