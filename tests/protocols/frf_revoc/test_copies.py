"""What a copy of the old forest is worth after each level of leaving, and which keys are new, or gone."""

import gc
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from revfrf.crypto.dtpkc.dtpkc import h_enc_ref, ho_enc, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, WeakKey
from revfrf.crypto.dtpkc.packing import Comparison, mask_comparisons, read_slots, undo_coins
from revfrf.crypto.dtpkc.strong import StrongShare, strong_half, strong_open
from revfrf.crypto.dtpkc.strong import set_up as new_set_up
from revfrf.crypto.secret import SecretInt
from revfrf.embedded import federation as federation_module
from revfrf.embedded.federation import Federation
from revfrf.embedded.moduli import fresh_setup_like
from revfrf.errors import RevFRFError
from revfrf.forest.nodes import Node
from revfrf.messages.base import number
from revfrf.messages.events import ErasureReceipt
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS
from revfrf.protocols.common.epoch import certificate_digest
from revfrf.storage.memory import StoredSplit
from revfrf.testing.federations import later_keys, train
from tests.federations import modulus
from tests.protocols.frf_revoc.leaving import CASE, LEVELS, check_same, leave

# -- copies of the old forest -----------------------------------------------------------------------


@dataclass
class Copy:
    """What somebody took along from CS's disk, and both servers' shares of that time."""

    splits: dict[Node, StoredSplit]
    cuts: dict[Node, int]
    cs: WeakKey
    cs_share: StrongShare
    cc_share: StrongShare
    leaver: WeakKey

    def ciphertext(self, node: Node) -> Ciphertext:
        return Ciphertext.from_bytes(self.cs.parameters, self.splits[node].ciphertext)


def copied(federation: Federation) -> Copy:
    cs, cc, bank = federation.coordinator, federation.compute, federation.participants["bank"]
    own = {node: cut for node, (_, cut) in list(bank.store.own_splits.items())[:4]}
    splits = dict(cs.store.splits)
    identities = (cs.identity.weak, cs.identity.share, cc.identity.share, bank.identity.weak)
    return Copy(splits, own, *identities)


def compared(cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, x: int, s: Ciphertext) -> bool | None:
    """Whether x ≤ s, as CS and CC find it together; None if CC reads nothing."""
    [known] = ho_enc(cs.public, [x], n_jobs=1)
    packs, coins = mask_comparisons(cs_share, cs.public, [Comparison(known, s)], n_jobs=1)
    [bit] = read_slots(cc_share, packs, n_jobs=1)
    return None if bit is None else undo_coins([bit], coins)[0]


def check_compares(
    copy: Copy, cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, refresh: bool = False
) -> None:
    for node, cut in copy.cuts.items():
        split = copy.ciphertext(node)
        if refresh:
            [split] = h_enc_ref(cs.parameters, SecretInt(12345), [split], n_jobs=1)
        for x in (cut - 1, cut, cut + 1):
            assert compared(cs_share, cc_share, cs, x, split) == (x <= cut)


def test_level_1_leaves_the_shares_so_that_a_copy_of_the_old_forest_still_compares(
    federation: Federation,
) -> None:
    """What level 1 does not promise."""
    copy = copied(federation)
    leave(federation, ["bank"], 1)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    check_compares(copy, cs.share, cc.share, cs.weak)
    for node, cut in copy.cuts.items():
        c = copy.ciphertext(node).c
        halves = strong_half(cs.share, [c], n_jobs=1)
        assert strong_open(cc.share, [c], halves, n_jobs=1) == [cut]


def compares_nothing(
    cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, x: int, s: Ciphertext
) -> bool:
    """Whether a comparison fails, or CC reads nothing."""
    with suppress(RevFRFError):
        return compared(cs_share, cc_share, cs, x, s) is None
    return True


def opened_by(first: StrongShare, second: StrongShare, ciphertext: Ciphertext) -> int | None:
    with suppress(RevFRFError):
        halves = strong_half(first, [ciphertext.c], n_jobs=1)
        return strong_open(second, [ciphertext.c], halves, n_jobs=1)[0]
    return None


def test_level_2_leaves_no_share_that_opens_or_compares_a_copy_of_the_old_forest(
    federation: Federation,
) -> None:
    """Not even with the leaver's own key and the other owners'."""
    copy = copied(federation)
    check_compares(copy, copy.cs_share, copy.cc_share, copy.cs)
    leave(federation, ["bank"], 2)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    for node, cut in copy.cuts.items():
        old = copy.ciphertext(node)
        for first, second, weak in (
            (cs.share, cc.share, cs.weak),
            (copy.cs_share, cc.share, copy.cs),
            (cs.share, copy.cc_share, cs.weak),
        ):
            assert compares_nothing(first, second, weak, cut, old)
            opened = opened_by(first, second, old)
            assert opened is None or abs(opened) > 2**128  # a random number below N
        for owner in federation.participants.values():
            with pytest.raises(RevFRFError):
                par_h_dec2(owner.identity.weak, [old], n_jobs=1)
        assert par_h_dec2(copy.leaver, [old], n_jobs=1) == [cut]  # its own cut it can always read


def test_splits_refreshed_as_in_the_paper_still_compare_under_the_old_shares_alone(
    federation: Federation,
) -> None:
    """HEncRef changes the weak key that opens a split, and the strong shares do not care."""
    copy = copied(federation)
    check_compares(copy, copy.cs_share, copy.cc_share, copy.cs, refresh=True)
    for node in copy.cuts:
        [refreshed] = h_enc_ref(copy.cs.parameters, SecretInt(9), [copy.ciphertext(node)], n_jobs=1)
        with pytest.raises(RevFRFError):
            par_h_dec2(copy.leaver, [refreshed], n_jobs=1)
    leave(federation, ["bank"], 2)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    for node, cut in copy.cuts.items():
        [refreshed] = h_enc_ref(copy.cs.parameters, SecretInt(9), [copy.ciphertext(node)], n_jobs=1)
        assert compares_nothing(cs.share, cc.share, cs.weak, cut, refreshed)


# -- keys, old and new ------------------------------------------------------------------------------


SEARCHED = fresh_setup_like


def keys_in_memory(n: int) -> list[Any]:
    """Every weak key and strong share under this modulus that anything in this process still holds."""
    gc.collect()
    held = [thing for thing in gc.get_objects() if isinstance(thing, WeakKey | StrongShare)]
    return [thing for thing in held if thing.parameters.n == n]


def fresh_federation(level: RevocationLevel) -> tuple[Federation, int]:
    """One whose shares no cache holds, after the bank has left; and its first modulus."""
    case = CASE
    columns = {party: owner.columns for party, owner in train(case).participants.items()}
    setup = new_set_up(256, allow_insecure=True, n_jobs=1)
    federation = Federation(columns, setup=setup, seed=case.seed)
    n = setup.parameters.n
    del setup
    train(case, federation)
    some = {party: table[:, :2] for party, table in case.codes.items()}
    federation.ask(some, "telco", "hard", False, lambda _: None)
    assert len(keys_in_memory(n)) == 7
    leave(federation, ["bank"], level)
    return federation, n


@pytest.mark.parametrize(("level", "held"), [(1, 6), (2, 0)])
def test_level_2_alone_erases_every_key_and_share_of_the_old_epoch(level: RevocationLevel, held: int) -> None:
    """Of everybody who stays, wherever a reference could be left; the leaver's go with it."""
    federation, n = fresh_federation(level)
    assert len(keys_in_memory(n)) == held
    assert (federation.parameters.n == n) == (level == 1)
    assert len(keys_in_memory(federation.parameters.n)) >= 6


@pytest.mark.parametrize("level", LEVELS)
def test_all_keys_are_new_at_level_2_and_none_at_level_1(
    federation: Federation, level: RevocationLevel
) -> None:
    before = federation.kgc.current
    certificate = leave(federation, ["bank"], level)
    after = federation.kgc.current
    old = {member.name: member for member in before.members}
    assert {member.name for member in after.members} == {CS, CC, "telco", "shop"}
    for member in after.members:
        assert (member.h == old[member.name].h) == (level == 1)
        assert (member.role, member.verify_key) == (old[member.name].role, old[member.name].verify_key)
    assert (after.dtpkc == before.dtpkc) == (level == 1)
    assert (after.epoch, after.revoked) == (2, ("bank",))
    assert federation.parameters.n == modulus(after)
    roles = federation.with_policies
    for name, role in roles.items():
        identity = role.identity
        assert identity.keys is not None
        assert identity.pending_keys is None
        assert identity.certificate == after
        assert identity.dealt_epoch == level
        assert identity.weak.parameters.n == modulus(after)
        [member] = [member for member in after.members if member.name == name]
        assert number(identity.weak.public.h) == member.h
        if name in (CS, CC):
            assert identity.share.parameters.n == modulus(after)
    assert certificate.core.report.epoch == certificate_digest(after)
    signed = {receipt.party for receipt in certificate.receipts if isinstance(receipt, ErasureReceipt)}
    assert signed == (set(roles) if level == 2 else set())


def test_new_modulus_is_searched_for(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation_module, "fresh_setup_like", SEARCHED)
    before = federation.parameters
    leave(federation, ["bank"], 2)
    assert federation.parameters.n not in {before.n, *(setup.parameters.n for setup in later_keys())}
    assert federation.parameters.exponent_bits == before.exponent_bits
    check_same(federation, CASE.without("bank"), ask=True)


def test_requesters_forget_their_keys_at_level_2(federation: Federation) -> None:
    clinic = federation.enrol_requester("clinic")
    before = clinic.identity.weak
    leave(federation, ["bank"], 1)
    assert clinic.identity.weak is before
    leave(federation, ["shop"], 2)
    identity = clinic.identity
    assert (identity.keys, identity.pending_keys, identity.admission) == (None, None, None)
    federation.enrol_requester("clinic")
    assert clinic.identity.weak.parameters == federation.parameters != before.parameters
