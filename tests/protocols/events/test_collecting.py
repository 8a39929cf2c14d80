"""CS collects receipts from who is there, and keeps none that does not hold; nobody signs what is not so."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError
from revfrf.messages.events import (
    Countersigned,
    ErasureReceipt,
    Event,
    EventNotice,
    Receipt,
    UsedCutsReceipt,
)
from revfrf.names import CC, CS
from revfrf.protocols.certificate import FORMAT, EventCertificate, sign_receipt
from revfrf.protocols.common.signed import sign
from revfrf.storage.directory import Directory
from revfrf.testing.federations import ignore, set_up, train
from revfrf.testing.peers import FaultyPeer, changing, failing, offline, replaced
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refused
from tests.protocols.happened import CASE, changed, forgetting, kgc_key, leave, of_four


@pytest.fixture
def federation() -> Federation:
    return train(of_four(CASE))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Federation]:
    """One whose parties keep what they know in files."""
    case, stores = of_four(CASE), Directory(tmp_path, new=True)
    yield train(case, set_up(case, stores=stores))
    stores.close()


def event_kept_by(federation: Federation, party: str) -> Event | None:
    return federation.with_policies[party].store.read("event", Event)


def last(federation: Federation) -> EventCertificate:
    return federation.coordinator.certificates[-1]


# -- who is there -----------------------------------------------------------------------------------


def test_members_that_come_back_sign_one_after_the_other_and_the_core_does_not_change(
    federation: Federation,
) -> None:
    roles, back = federation.network.roles, ["shop", CC, "telco"]
    gone = {name: roles.pop(name) for name in back}
    core = leave(federation, {"bank": 2}).core
    for number, name in enumerate(back):
        assert last(federation).unsigned.keys() == set(back[number:])
        roles[name] = gone[name]
        federation.resume(ignore)
        assert last(federation).core == core
        last(federation).verify(kgc_key(federation).verify_key)
    assert not last(federation).unsigned


def test_only_what_is_missing_is_asked_for_and_nobody_twice(federation: Federation) -> None:
    with offline(federation.network, "shop"):
        leave(federation, {"bank": 2})
    with recording(federation.network) as sent:
        federation.resume(ignore)
        federation.resume(ignore)
    assert [each.recipient for each in sent if each.type == "EventNotice"] == ["shop"]


def test_every_owner_is_told_its_own_cuts_and_no_others(federation: Federation) -> None:
    with recording(federation.network) as sent:
        leave(federation, {"bank": 2})
    used = federation.coordinator.side.used_cuts()
    notices = {each.recipient: each.message for each in sent if each.type == "EventNotice"}
    assert notices.keys() == {"telco", "shop", "casino", CC}
    for name, message in notices.items():
        assert isinstance(message, EventNotice)
        assert message.used == (None if name == CC else used.get(name, ()))


def test_nobody_is_told_cuts_before_a_forest_that_waits_is_whole() -> None:
    federation = forgetting("telco")
    with recording(federation.network) as sent, offline(federation.network, "telco"):
        leave(federation, {"bank": 2})
    notices = [each.message for each in sent if each.type == "EventNotice"]
    assert notices
    assert all(isinstance(notice, EventNotice) and notice.used is None for notice in notices)
    federation.resume(ignore)
    assert not last(federation).unsigned


# -- members that lie -------------------------------------------------------------------------------


def resigned(party: Any, reply: Countersigned, /, **fields: Any) -> Countersigned:
    """The reply with another receipt for used cuts, which its sender has signed."""
    first, *others = reply.receipts
    return changed(reply, receipts=(sign_receipt(party.identity, changed(first, **fields)), *others))


def other_digest(receipt: Receipt) -> tuple[Any, ...]:
    assert isinstance(receipt, UsedCutsReceipt)
    return (changed(receipt.columns[0], cuts=bytes(32)), *receipt.columns[1:])


def other_rounds(receipt: Receipt) -> tuple[Any, ...]:
    assert isinstance(receipt, UsedCutsReceipt)
    return (changed(receipt.columns[0], rounds=8), *receipt.columns[1:])


def of_shop(federation: Federation) -> Receipt:
    """What shop signs of the event that has just been certified."""
    notice = EventNotice(event=last(federation).core, used=federation.coordinator.side.used_cuts()["shop"])
    reply = federation.participants["shop"].handle(CS, notice)
    assert isinstance(reply, Countersigned)
    return reply.receipts[0]


Lie = Callable[[Federation, Countersigned], Countersigned]
BY_TELCO: dict[str, Lie] = {
    "no receipt": lambda _, reply: changed(reply, receipts=()),
    "a receipt twice": lambda _, reply: changed(reply, receipts=(reply.receipts[0], reply.receipts[0])),
    "a receipt that it has not signed": lambda _, reply: changed(
        reply, receipts=(changed(reply.receipts[0], signature=bytes(64)),)
    ),
    "a receipt of somebody else": lambda f, reply: changed(reply, receipts=(of_shop(f),)),
    "a receipt in the name of somebody else": lambda f, reply: resigned(
        f.participants["telco"], reply, party="shop"
    ),
    "a receipt for another event": lambda f, reply: resigned(f.participants["telco"], reply, event=bytes(32)),
    "a receipt for other cuts": lambda f, reply: resigned(
        f.participants["telco"], reply, columns=other_digest(reply.receipts[0])
    ),
    "a receipt for more rounds": lambda f, reply: resigned(
        f.participants["telco"], reply, columns=other_rounds(reply.receipts[0])
    ),
    "a receipt for no cuts": lambda f, reply: resigned(f.participants["telco"], reply, columns=()),
    "no salt": lambda _, reply: changed(reply, salt=None),
    "another salt": lambda _, reply: changed(reply, salt=bytes(32)),
}


@pytest.mark.parametrize("lie", BY_TELCO)
def test_member_that_answers_otherwise_has_not_signed_and_keeps_nobody_from_signing(
    federation: Federation, lie: str
) -> None:
    def on_reply(_: object, reply: Any) -> Any:
        return BY_TELCO[lie](federation, reply) if isinstance(reply, Countersigned) else reply

    honest = federation.participants["telco"]
    with replaced(federation.network, "telco", FaultyPeer(honest, on_reply=on_reply)):
        leave(federation, {"bank": 1})
    assert last(federation).unsigned == {"telco": [UsedCutsReceipt]}
    assert federation.coordinator.ready
    assert not federation.coordinator.lifecycle_state().unsigned  # it is not asked again and again
    last(federation).verify(kgc_key(federation).verify_key)
    federation.resume(ignore)
    assert not last(federation).unsigned
    assert federation.coordinator.store.used_salts.keys() == {"telco", "shop", "casino"}


def test_member_that_refuses_is_asked_again_later(federation: Federation) -> None:
    refusing = failing(ProtocolError("not now", kind="order"), EventNotice)
    telco = FaultyPeer(federation.participants["telco"], on_request=refusing)
    with replaced(federation.network, "telco", telco):
        leave(federation, {"bank": 2})
    assert last(federation).unsigned == {"telco": [UsedCutsReceipt, ErasureReceipt]}
    federation.resume(ignore)
    assert not last(federation).unsigned


def test_receipts_that_were_given_are_no_fault_if_they_come_again(federation: Federation) -> None:
    """An answer was lost, or only one of two receipts was missing."""
    leave(federation, {"bank": 2})
    cs, signed = federation.coordinator, last(federation)
    without = [r for r in signed.receipts if not (r.party == "telco" and isinstance(r, UsedCutsReceipt))]
    cs.certificates = (*cs.certificates[:-1], changed(signed, receipts=tuple(without)))
    federation.resume(ignore)
    assert not last(federation).unsigned
    assert set(last(federation).receipts) == set(signed.receipts)


def test_salt_of_a_member_that_was_not_asked_for_one_is_dropped(federation: Federation) -> None:
    """It could make its own receipt for used cuts look false."""
    leave(federation, {"bank": 2})
    cs, signed, salts = (
        federation.coordinator,
        last(federation),
        dict(federation.coordinator.store.used_salts),
    )
    without = [r for r in signed.receipts if not (r.party == "telco" and isinstance(r, ErasureReceipt))]
    cs.certificates = (*cs.certificates[:-1], changed(signed, receipts=tuple(without)))
    liar = FaultyPeer(federation.participants["telco"], on_reply=changing(Countersigned, salt=bytes(32)))
    with replaced(federation.network, "telco", liar):
        federation.resume(ignore)
    assert not last(federation).unsigned
    assert cs.store.used_salts == salts


# -- what a member does not sign --------------------------------------------------------------------


def notice(event: Event) -> EventNotice:
    return EventNotice(event=event, used=None)


def asked(federation: Federation, party: str, event: Event) -> Countersigned:
    return federation.network.channel(CS).call(party, notice(event), Countersigned)


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "that KGC has not signed": ("signature", {"signature": bytes(64)}),
    "whose report was changed": ("signature", {"certified_at": 0}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_nobody_countersigns_an_event(kept: Federation, wrong: str) -> None:
    kind, fields = WRONG[wrong]
    event = leave(kept, {"bank": 2}).core
    for party in ("telco", CC):
        with refused(kind, by=party):
            asked(kept, party, changed(event, **fields))
        assert event_kept_by(kept, party) == event


def test_nobody_countersigns_what_is_signed_by_kgc_and_is_not_about_it(federation: Federation) -> None:
    event, key = leave(federation, {"bank": 2}).core, kgc_key(federation)

    def of(**epoch: Any) -> Event:
        return sign(key, FORMAT, changed(event, epoch_after=changed(event.epoch_after, **epoch)))

    members = tuple(member for member in event.epoch_after.members if member.name != "telco")
    wrong = [
        ("epoch", of(federation="another")),
        ("epoch", of(epoch=3)),
        ("epoch", of(previous=bytes(32))),
        ("member", of(epoch=1, members=members)),
    ]
    for kind, other in wrong:
        with refused(kind, by="telco"):
            asked(federation, "telco", other)


def test_leaver_does_not_countersign_that_it_has_left(federation: Federation) -> None:
    bank = federation.participants["bank"]
    event = leave(federation, {"bank": 2}).core
    with refused("epoch"):
        bank.handle(CS, notice(event))


def test_event_of_another_forest_is_countersigned_by_no_owner(federation: Federation) -> None:
    event, key = leave(federation, {"bank": 2}).core, kgc_key(federation)
    other = sign(key, FORMAT, changed(event, report=changed(event.report, forest=bytes(16))))
    with refused("forest", by="telco"):
        asked(federation, "telco", other)


@pytest.mark.parametrize("sender", ["shop", CC, "KGC"])
def test_only_cs_asks_for_countersignatures(federation: Federation, sender: str) -> None:
    event = last(federation).core
    with refused(by="telco"):
        federation.network.channel(sender).call("telco", notice(event), Countersigned)


def test_old_event_is_countersigned_late_and_the_newest_is_kept(kept: Federation) -> None:
    first = leave(kept, {"bank": 2}).core
    second = leave(kept, {"shop": 1}).core
    for event in (first, second, first):
        receipts = asked(kept, "telco", event).receipts
        assert [type(receipt) for receipt in receipts] == [ErasureReceipt] * (event is first)
    assert event_kept_by(kept, "telco") == second


def test_nobody_signs_for_an_erasure_at_level_1(federation: Federation) -> None:
    event = leave(federation, {"bank": 1}).core
    assert asked(federation, "telco", event).receipts == ()
    assert asked(federation, CC, event).receipts == ()


def test_all_members_keep_the_same_event(kept: Federation) -> None:
    """CS cannot show one of them another."""
    event = leave(kept, {"bank": 2}).core
    assert {event_kept_by(kept, name) for name in ("telco", "shop", "casino", CC)} == {event}
