"""A federation of the shares protocol: it is set up, participants leave at both levels, requesters come."""

from pathlib import Path

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError, UsageError
from revfrf.lifecycle import Step
from revfrf.messages.base import Done
from revfrf.messages.events import ErasureReceipt
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS, KGC
from revfrf.protocols.common.identity import IdentityRecord
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.storage.directory import Directory
from revfrf.testing.federations import columns_of, ignore, random_case, set_up, toy_keys, train, with_books

OWNERS = ("bank", "shop", "telco")
CASE = random_case(5, rules=with_books(n_trees=2, max_depth=2))
LEVELS = pytest.mark.parametrize("level", [1, 2])


@pytest.fixture
def federation() -> Federation:
    return train(CASE)


def test_federation_is_set_up_without_a_modulus() -> None:
    federation = set_up(CASE)
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
            Federation(columns_of(CASE.codes), seed=b"seed", **wrong)


@LEVELS
def test_participants_leave_one_after_the_other(federation: Federation, level: RevocationLevel) -> None:
    other: RevocationLevel = 1 if level == 2 else 2
    for epoch, (party, asked) in enumerate((("telco", level), ("bank", other)), start=2):
        before = federation.kgc.current
        certificate = federation.revoke([party], asked, ignore)
        after = federation.kgc.current
        assert (after.epoch, after.erases, after.dtpkc) == (epoch, asked == 2, None)
        assert (after.forest_protocol, after.notes_key) == ("shares", before.notes_key)
        certificate.verify(federation.coordinator.identity.kgc)
        assert (certificate.level, certificate.leavers, certificate.unsigned) == (asked, (party,), {})
        erased = {receipt.party for receipt in certificate.receipts if isinstance(receipt, ErasureReceipt)}
        assert erased == ({member.name for member in after.members} if asked == 2 else set())
    assert federation.kgc.current.participants == ["shop"]
    assert {party.certificate for party in federation.with_policies.values()} == {federation.kgc.current}


@LEVELS
def test_no_epoch_of_shares_takes_a_set_up(federation: Federation, level: RevocationLevel) -> None:
    federation.network.channel("bank").call(KGC, federation.participants["bank"].leave(level), Done)
    with pytest.raises(UsageError, match="under the shares protocol neither does"):
        federation.kgc.begin_epoch(toy_keys())
    assert federation.kgc.lifecycle_state().next_step is Step.BEGIN_EPOCH
    assert federation.kgc.begin_epoch(None).erases == (level == 2)


@pytest.mark.parametrize("name", ["clinic", "bank"])
def test_requester_is_admitted_in_each_epoch_again(federation: Federation, name: str) -> None:
    first = federation.enrol_requester(name).identity.admitted
    assert (first.epoch, first.member.h) == (1, None)
    federation.revoke(["telco"], 2, ignore)
    second = federation.requester(name).identity.admitted
    assert (second.epoch, second.member) == (2, first.member)


def test_identities_and_keys_of_kgc_come_back_from_their_stores(tmp_path: Path) -> None:
    stores = Directory(tmp_path, new=True)
    federation = train(CASE, set_up(CASE, stores=stores))
    federation.revoke(["telco"], 2, ignore)
    for party in (federation.coordinator, federation.compute, federation.participants["bank"]):
        back = party.store.expect("identity", IdentityRecord).identity(allow_insecure=False)
        assert back.record() == party.identity.record()
    kgc = federation.kgc
    again = KeyCentre(kgc.channel, KeyCentreKeys.read(kgc.store), kgc.store)
    again.recall()
    assert again.state == kgc.state
    assert again.keys is not None
    assert kgc.keys is not None
    assert again.keys.export() == kgc.keys.export()
    assert again.current.notes_key == again.keys.notes.verify_key.raw
    stores.close()
