"""Receipts in an event certificate: each is of this event, by a member that gives one, once, as signed."""

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from revfrf.messages.events import (
    CompletionReceipt,
    ErasureReceipt,
    Receipt,
    UsedColumn,
    UsedCutsReceipt,
)
from revfrf.names import CC, CS
from revfrf.protocols.certificate import EventCertificate, event_digest, sign_receipt
from revfrf.testing.refusals import refused
from tests.protocols.happened import Happened, changed, completed, happened, kind_of, waiting

LATER = ["creation", "level 1", "level 2", "two at level 2", "paper, two at level 2"]


def signed(of: Happened, receipt: Receipt, /, signer: str | None = None, **fields: Any) -> Receipt:
    """The receipt with other content, signed by its party or by another."""
    name = signer or fields.get("party") or receipt.party
    identity = of.federation.with_policies[name].identity
    return sign_receipt(identity, changed(receipt, **fields))


def of_kind(event: Happened, kind: type[Receipt], party: str) -> Receipt:
    [receipt] = [r for r in event.certificate.receipts if isinstance(r, kind) and r.party == party]
    return receipt


def used_cuts(event: Happened) -> UsedCutsReceipt:
    """Telco's."""
    receipt = of_kind(event, UsedCutsReceipt, "telco")
    assert isinstance(receipt, UsedCutsReceipt)
    return receipt


def without(event: Happened, receipt: Receipt) -> EventCertificate:
    others = tuple(other for other in event.certificate.receipts if other != receipt)
    return changed(event.certificate, receipts=others)


# -- who has to sign --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2])
def test_owners_sign_for_used_cuts_at_every_event_and_all_members_for_erasure_at_level_2(level: int) -> None:
    event = happened(f"level {level}")
    given = {(type(receipt), receipt.party) for receipt in event.certificate.receipts}
    owners, everybody = {"telco", "shop", "casino"}, {"telco", "shop", "casino", CS, CC}
    assert given == {(UsedCutsReceipt, name) for name in owners} | {
        (ErasureReceipt, name) for name in everybody if level == 2
    }


def test_under_the_paper_protocol_nobody_signs_for_used_cuts() -> None:
    assert not happened("paper, creation").certificate.receipts
    receipts = happened("paper, two at level 2").certificate.receipts
    assert {(type(receipt), receipt.party) for receipt in receipts} == {
        (ErasureReceipt, name) for name in ("shop", "casino", CS, CC)
    }


@pytest.mark.parametrize("kind", LATER)
def test_receipts_come_one_by_one_in_any_order_and_the_core_does_not_change(kind: str) -> None:
    event = happened(kind)
    receipts = list(event.certificate.receipts)
    random.Random(kind).shuffle(receipts)
    certificate = EventCertificate(event.core)
    missing = sum(map(len, certificate.unsigned.values()))
    for number, receipt in enumerate(receipts, 1):
        assert type(receipt) in certificate.unsigned[receipt.party]
        certificate = certificate.signed_by([receipt])
        certificate.verify(event.key)
        assert certificate.core == event.core
        assert sum(map(len, certificate.unsigned.values())) == missing - number
    assert not certificate.unsigned
    assert certificate.receipts == tuple(receipts)


# -- lies -------------------------------------------------------------------------------------------

Lie = Callable[[Happened], Receipt]


def with_columns(event: Happened, change: Callable[[tuple[UsedColumn, ...]], Any]) -> Receipt:
    right = used_cuts(event)
    columns = change(right.columns)
    assert columns != right.columns
    return signed(event, right, columns=columns)


LIES: dict[str, Lie] = {
    "of another event": lambda e: signed(e, used_cuts(e), event=event_digest(happened("level 1").core)),
    "of no event": lambda e: signed(e, used_cuts(e), event=bytes(32)),
    "with no signature": lambda e: changed(used_cuts(e), signature=bytes(64)),
    "signed by another member": lambda e: signed(e, used_cuts(e), signer="shop"),
    "signed by CS": lambda e: signed(e, used_cuts(e), signer=CS),
    "by a party that is not a member": lambda e: signed(e, used_cuts(e), signer=CS, party="nobody"),
    "by the leaver": lambda e: changed(used_cuts(e), party="bank"),
    "by KGC": lambda e: changed(used_cuts(e), party="KGC"),
    "by CC for used cuts": lambda e: signed(e, used_cuts(e), party=CC, columns=()),
    "by CS for used cuts": lambda e: signed(e, used_cuts(e), party=CS, columns=()),
    "of completion, without anything to wait for": lambda e: signed(
        e, CompletionReceipt(CS, event_digest(e.core), bytes(32), 1, bytes(64))
    ),
    "for a column of another": lambda e: with_columns(
        e, lambda columns: (UsedColumn("casino/x0", 1, 3, bytes(32)), *columns)
    ),
    "for a column of its own that it has not": lambda e: with_columns(
        e, lambda columns: (*columns, UsedColumn("telco/x9", 1, 3, bytes(32)))
    ),
    "for a column of the leaver": lambda e: with_columns(
        e, lambda columns: (UsedColumn("bank/x0", 1, 3, bytes(32)), *columns)
    ),
    "for a column twice": lambda e: with_columns(e, lambda columns: (columns[0], *columns)),
    "for columns out of order": lambda e: with_columns(e, lambda columns: columns[::-1]),
    "for another generation": lambda e: with_columns(
        e, lambda columns: (changed(columns[0], generation=columns[0].generation + 1), *columns[1:])
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_no_receipt_holds_that_is(lie: str) -> None:
    event = happened("level 2")
    wrong, bare = LIES[lie](event), without(event, used_cuts(event))
    bare.verify(event.key)
    with refused("receipt"):
        bare.signed_by([wrong])
    assert kind_of(changed(bare, receipts=(*bare.receipts, wrong)), event.key) == "receipt"
    assert kind_of(changed(bare, receipts=(wrong, *bare.receipts)), event.key) == "receipt"


@pytest.mark.parametrize("kind", [UsedCutsReceipt, ErasureReceipt])
def test_nobody_signs_twice(kind: type[Receipt]) -> None:
    """Neither the same nor anything else."""
    event = happened("level 2")
    right = of_kind(event, kind, "telco")
    other = signed(event, right, columns=()) if kind is UsedCutsReceipt else right
    for receipt in (right, other):
        with refused("receipt") as caught:
            event.certificate.signed_by([receipt])
        assert "'telco'" in caught.reason


def test_nobody_signs_for_an_erasure_that_has_not_happened() -> None:
    event = happened("level 1")
    for name in ("telco", CS, CC):
        receipt = signed(event, ErasureReceipt(name, event_digest(event.core), bytes(64)))
        with refused("receipt"):
            event.certificate.signed_by([receipt])


@pytest.mark.parametrize("other", ["level 1", "second epoch, 1 after 1", "creation"])
def test_receipts_of_one_event_are_worth_nothing_for_another(other: str) -> None:
    event = happened("level 2")
    for receipt in happened(other).certificate.receipts:
        with refused("receipt"):
            EventCertificate(event.core).signed_by([receipt])


def test_receipt_of_one_kind_is_none_of_another() -> None:
    """What an owner signs of an erasure says nothing about cuts, although both name the same event."""
    event = happened("level 2")
    erasure = of_kind(event, ErasureReceipt, "telco")
    forged = UsedCutsReceipt("telco", erasure.event, (), erasure.signature)
    with refused("receipt"):
        without(event, used_cuts(event)).signed_by([forged])


# -- completion -------------------------------------------------------------------------------------


def test_forest_that_waits_is_completed_by_cs_and_only_then_do_owners_sign_for_its_cuts() -> None:
    event, before = completed(), waiting()
    kinds = [type(receipt) for receipt in event.certificate.receipts]
    assert kinds.index(CompletionReceipt) < kinds.index(UsedCutsReceipt)
    assert UsedCutsReceipt not in map(type, before.certificate.receipts)
    assert before.certificate.unsigned == {"telco": [ErasureReceipt]}  # CS waits for nobody else
    assert not event.certificate.unsigned
    event.certificate.verify(event.key)
    bare = EventCertificate(event.core)
    assert bare.waits_for == ("telco",)
    assert bare.digest_after == event.core.report.digest_after != event.certificate.digest_after
    assert event.certificate.n_nodes == event.federation.coordinator.side.n_nodes > bare.n_nodes
    with refused("receipt"):
        bare.signed_by([used_cuts(event)])


COMPLETIONS: dict[str, dict[str, Any]] = {
    "of another event": {"event": bytes(32)},
    "by CC": {"party": CC},
    "by the owner that was away": {"party": "telco"},
    "signed by CC": {"signer": CC},
}


@pytest.mark.parametrize("lie", COMPLETIONS)
def test_no_completion_holds(lie: str) -> None:
    event = completed()
    right = of_kind(event, CompletionReceipt, CS)
    with refused("receipt"):
        EventCertificate(event.core).signed_by([signed(event, right, **COMPLETIONS[lie])])


def test_forest_is_completed_once() -> None:
    event, numbers = completed(), count()
    right = of_kind(event, CompletionReceipt, CS)
    for other in (right, signed(event, right, rebuilt=10**6 + next(numbers))):
        with refused("receipt"):
            event.certificate.signed_by([other])
