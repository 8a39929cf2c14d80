"""A new epoch begins whoever is away: who is needed now is told now, and all others when they are back."""

from pathlib import Path
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.lifecycle import Step
from revfrf.messages.base import Done
from revfrf.messages.events import UsedCutsReceipt
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import EpochAccepted, EpochCertificate
from revfrf.names import CC, CS, KGC
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.storage.directory import Directory
from revfrf.testing.federations import ignore, later_keys, random_case, set_up, train, with_books
from revfrf.testing.peers import FaultyPeer, changing, failing, offline, replaced
from revfrf.testing.recorders import Sent, recording
from tests.protocols.happened import of_four

CASE = of_four(random_case(5, rules=with_books(n_trees=2, max_depth=3)))
LEVELS: tuple[RevocationLevel, ...] = (1, 2)
any_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def federation() -> Federation:
    return train(CASE)


def begin(federation: Federation, party: str = "bank", level: RevocationLevel = 1, setup: Any = None) -> None:
    """A participant asks to leave, and KGC begins the epoch without it, which nobody has heard of."""
    request = federation.participants[party].leave(level)
    federation.network.channel(party).call(KGC, request, Done)
    federation.kgc.begin_epoch(setup)


def epochs(federation: Federation) -> dict[str, int]:
    """The epoch that each party is in."""
    return {name: party.identity.epoch for name, party in federation.with_policies.items()}


def told(sent: list[Sent]) -> list[tuple[str, int]]:
    """Who was told of which epoch, in this order."""
    found = [(each.recipient, each.message) for each in sent]
    return [(name, message.epoch) for name, message in found if isinstance(message, EpochCertificate)]


# -- who is needed ----------------------------------------------------------------------------------


@any_level
def test_under_shares_only_cs_has_to_hear_of_an_epoch(federation: Federation, level: RevocationLevel) -> None:
    begin(federation, level=level)
    with offline(federation.network, CC, "shop", "telco"):
        federation.kgc.announce()
        state = federation.kgc.lifecycle_state(present=federation.network.roles)
    assert epochs(federation) == {CS: 2, CC: 1, "bank": 1, "casino": 2, "shop": 1, "telco": 1}
    assert federation.kgc.behind == {CC, "shop", "telco"}
    assert (state.announced, state.lagging) == (True, False)
    back = federation.kgc.lifecycle_state()
    assert (back.announced, back.lagging, back.next_step) == (True, True, Step.ANNOUNCE)


def test_others_are_told_although_cs_is_away_and_the_epoch_stays_unannounced(federation: Federation) -> None:
    begin(federation)
    with offline(federation.network, CS), pytest.raises(AbsentError, match="'CS'"):
        federation.kgc.announce()
    assert federation.kgc.behind == {CS}
    assert federation.kgc.lifecycle_state(present=()).next_step is Step.ANNOUNCE
    federation.kgc.announce()
    assert not federation.kgc.behind


def test_under_the_paper_protocol_everybody_has_to_hear_of_it_now() -> None:
    federation = train(of_four(random_case(5)))
    begin(federation, level=2, setup=later_keys()[0])
    with offline(federation.network, "shop"), pytest.raises(AbsentError, match="'shop'"):
        federation.kgc.announce()
    state = federation.kgc.lifecycle_state(present=())
    assert (state.announced, state.next_step) == (False, Step.ANNOUNCE)


def test_when_cs_asks_for_an_epoch_everybody_has_to_hear_of_it(federation: Federation) -> None:
    begin(federation)
    with offline(federation.network, "shop"), pytest.raises(AbsentError, match="'shop'"):
        federation.kgc.announce(setup_requested=True)
    assert not federation.kgc.lifecycle_state(setup_requested=True).announced
    assert federation.kgc.lifecycle_state().announced


@pytest.mark.parametrize(
    "lie",
    [
        {"on_request": failing(ProtocolError("no", kind="order"), EpochCertificate)},
        {"on_reply": changing(EpochAccepted, epoch=9)},
        {"on_reply": changing(EpochAccepted, epoch=1)},
    ],
    ids=["refuses", "says it is ahead", "says it is behind"],
)
def test_member_that_is_not_needed_stops_nothing_by_what_it_answers(
    federation: Federation, lie: dict[str, Any]
) -> None:
    shop = FaultyPeer(federation.participants["shop"], **lie)
    with replaced(federation.network, "shop", shop):
        certificate = federation.revoke(["bank"], 2, ignore)
        assert "shop" in federation.kgc.behind
    assert certificate.leavers == ("bank",)
    certificate.verify(federation.coordinator.identity.kgc)
    federation.resume(ignore)
    assert not federation.kgc.behind
    assert not federation.coordinator.certificates[-1].unsigned


def test_cs_that_refuses_an_epoch_stops_it(federation: Federation) -> None:
    begin(federation)
    refusing = failing(ProtocolError("no", kind="order"), EpochCertificate)
    liar = FaultyPeer(federation.coordinator, on_request=refusing)
    with replaced(federation.network, CS, liar), pytest.raises(RefusedError, match="'CS'"):
        federation.kgc.announce()
    assert not federation.kgc.lifecycle_state().announced


# -- in which order ---------------------------------------------------------------------------------


def test_cs_hears_of_an_epoch_before_anybody_else_does(federation: Federation) -> None:
    """It stops answering for the leaver then."""
    begin(federation)
    with recording(federation.network) as sent:
        federation.kgc.announce()
    assert told(sent)[0] == (CS, 2)
    accepted = [each.type for each in sent].index("EpochAccepted")
    assert {each.recipient for each in sent[:accepted]} == {CS}
    assert sorted(told(sent)[1:]) == [(CC, 2), ("casino", 2), ("shop", 2), ("telco", 2)]


def test_nobody_is_told_twice_and_the_leaver_is_told_nothing(federation: Federation) -> None:
    with recording(federation.network) as sent:
        federation.revoke(["bank"], 1, ignore)
        federation.kgc.announce()
        federation.resume(ignore)
    assert sorted(told(sent)) == [(CC, 2), (CS, 2), ("casino", 2), ("shop", 2), ("telco", 2)]


def test_member_that_missed_several_epochs_hears_of_all_of_them_in_turn_and_signs_for_the_last(
    federation: Federation,
) -> None:
    with offline(federation.network, "shop", CC):
        for leaver, level in (("bank", LEVELS[0]), ("telco", LEVELS[1])):
            certificate = federation.revoke([leaver], level, ignore)
            assert certificate.unsigned.keys() == ({"shop"} if level == 1 else {"shop", CC})
    with recording(federation.network) as sent:
        federation.resume(ignore)
    assert [epoch for name, epoch in told(sent) if name == "shop"] == [2, 3]
    assert [epoch for name, epoch in told(sent) if name == CC] == [2, 3]
    first, second, third = federation.coordinator.certificates
    assert not third.unsigned
    assert second.unsigned == {"shop": [UsedCutsReceipt]}  # nobody is asked for what is over
    assert {receipt.party for receipt in first.receipts} == set(CASE.codes)


# -- one silent member keeps nobody from leaving ----------------------------------------------------


@any_level
def test_participant_leaves_although_cc_and_another_one_are_away(
    federation: Federation, level: RevocationLevel
) -> None:
    with offline(federation.network, CC, "shop"):
        certificate = federation.revoke(["bank"], level, ignore)
    assert federation.coordinator.digest() == train(CASE.without("bank")).coordinator.digest()
    certificate.verify(federation.coordinator.identity.kgc)
    assert certificate.unsigned.keys() == ({CC, "shop"} if level == 2 else {"shop"})
    federation.resume(ignore)
    last = federation.coordinator.certificates[-1]
    assert (last.core, last.unsigned) == (certificate.core, {})
    assert last.receipts[: len(certificate.receipts)] == certificate.receipts
    last.verify(federation.coordinator.identity.kgc)


def test_those_who_have_heard_are_known_after_a_restart(tmp_path: Path) -> None:
    stores = Directory(tmp_path, new=True)
    federation = train(CASE, set_up(CASE, stores=stores))
    begin(federation)
    with offline(federation.network, "shop"):
        federation.kgc.announce()
    kgc = federation.kgc
    again = KeyCentre(kgc.channel, KeyCentreKeys.read(kgc.store), kgc.store)
    again.recall()
    assert again.behind == {"shop"}
    with recording(federation.network) as sent:
        again.announce()
    assert told(sent) == [("shop", 2)]
    stores.close()
