"""Neighbours who cheat: whatever they send, no role is asked what it should not be, and others go on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from revfrf.errors import AbsentError, PassportError, ProtocolError, RefusedError, RejectedError, StorageError
from revfrf.messages.alignment import SchemaRequest
from revfrf.messages.base import MIB, Done, Message
from revfrf.messages.fle_expan import Schema
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted
from revfrf.testing.recorders import Recorder
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.frames import Frame, frames
from revfrf.transport.passport import PartyId, Passport
from tests.transport.asking import CERTIFICATE, PREDICT, digests
from tests.transport.links import SOON, InMemory, RawLink, cs_with, endpoint_of, invited_by, known, place
from tests.transport.parties import authority

CS, BANK = PartyId("CS", "CS"), PartyId("participant", "bank")


# -- neighbours ---------------------------------------------------------------------------------------


def test_everybody_else_has_no_link_but_to_cs() -> None:
    bank = endpoint_of("bank")
    for who in (PartyId("KGC", "KGC"), PartyId("participant", "telco"), PartyId("participant", "CS")):
        with pytest.raises(ProtocolError):
            RawLink(bank, passport=known(who.name, who.role).passport)


SERVERS_IN_DISGUISE = [
    ("CS", "CS"),
    ("CS", "other"),
    ("participant", "CS"),
    ("participant", "KGC"),
    ("requester", "CC"),
    ("KGC", "bank"),
    ("CC", "KGC"),
    ("CC", "x"),
]


@pytest.mark.parametrize(("role", "name"), SERVERS_IN_DISGUISE)
def test_cs_has_no_link_to_cs_or_to_others_with_a_servers_name_or_role(role: str, name: str) -> None:
    who = PartyId(role, name)
    with pytest.raises(ProtocolError):
        RawLink(endpoint_of("CS"), passport=replace(known("bank").passport, who=who))


@pytest.mark.parametrize(
    "who", [PartyId("participant", "participant"), PartyId("requester", "requester")], ids=str
)
def test_a_party_may_be_called_what_it_is(who: PartyId) -> None:
    cs = endpoint_of("CS")
    RawLink(cs, passport=replace(known("bank").passport, who=who))
    assert cs.present() == {who.name}


def test_a_disk_that_fails_while_somebody_comes_ends_the_party() -> None:
    failures: list[StorageError] = []

    def admit(_: Passport) -> None:
        raise StorageError("the disk is full", kind="full")

    cs = endpoint_of("CS", admit=admit, failed=failures.append)
    with pytest.raises(StorageError):
        RawLink(cs, "bank")
    assert [failure.kind for failure in failures] == ["full"]
    assert cs.present() == set()


# -- neighbours who cheat -----------------------------------------------------------------------------


def to_cs(message: Message, number: int = 1, sender: str = "bank", recipient: str = "CS") -> list[Frame]:
    return list(frames("call", sender, recipient, number, encode(message)))


@pytest.mark.parametrize("recipient", ["telco", "CC", "clinic", "nobody"])
def test_cs_passes_nothing_on_but_to_and_from_kgc(recipient: str) -> None:
    cs, [bank] = cs_with("bank")
    others = [RawLink(cs, name) for name in ("telco", "CC", "clinic")]
    bank.say(*to_cs(PREDICT, recipient=recipient))
    assert bank.closed
    assert [other.frames for other in others] == [[], [], []]


def test_nobody_but_cs_passes_anything_on() -> None:
    kgc = endpoint_of("KGC")
    cs = RawLink(kgc, "CS")
    cs.say(*to_cs(PREDICT, recipient="bank"))
    assert cs.closed


def test_cs_passes_on_no_more_than_a_message_may_have() -> None:
    _, [bank, kgc] = cs_with("bank", "KGC")
    bank.say(Frame("call", "bank", "KGC", 1, 66 * MIB, 0, b"x"))
    assert bank.closed
    assert not kgc.closed
    assert kgc.frames == []


def test_a_neighbours_message_that_is_too_long_ends_its_link() -> None:
    _, [bank] = cs_with("bank")
    bank.say(Frame("call", "bank", "CS", 1, 257 * MIB, 0, b"x"))
    assert bank.closed


def test_nobody_beyond_cs_breaks_the_link_to_it() -> None:
    """A participant writes to KGC what is too long for it."""
    kgc = endpoint_of("KGC")
    cs = RawLink(kgc, "CS")
    cs.say(Frame("call", "bank", "KGC", 7, 10 * MIB, 0, b"x"))
    [frame] = cs.heard()
    assert (frame.kind, frame.recipient, frame.call) == ("refusal", "bank", 7)
    assert kgc.present() == {"CS"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kgc.call, "bank", CERTIFICATE, EpochAccepted)
        [asked] = cs.heard(kind="hello")
        cs.say(*frames("reply", "bank", "KGC", asked.call, known("bank").sealing.offer(place(asked))))
        [asked] = cs.heard(kind="call")
        cs.say(Frame("reply", "bank", "KGC", asked.call, 10 * MIB, 0, b"x"))
        with pytest.raises(RefusedError):
            waiting.result(timeout=SOON)
    assert kgc.present() == {"CS"}


def test_answers_that_nobody_has_asked_for_are_ignored() -> None:
    cs, [bank, telco] = cs_with("bank", "telco")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cs.call, "bank", SchemaRequest(epoch=1), Schema)
        [asked] = bank.heard()
        forged = encode(Schema(columns=(), n_rows=666))
        telco.say(*frames("reply", "telco", "CS", asked.call, forged))
        telco.say(*frames("absence", "telco", "CS", asked.call))
        bank.say(*frames("reply", "bank", "CS", asked.call + 1, forged))
        assert not waiting.done()
        bank.say(*frames("reply", "bank", "CS", asked.call, encode(Schema(columns=(), n_rows=1))))
        assert waiting.result(timeout=SOON).n_rows == 1
    bank.say(*frames("reply", "bank", "CS", asked.call, forged))
    assert not bank.closed
    assert not telco.closed


def test_a_message_that_is_lost_keeps_nobody_waiting() -> None:
    """Some pieces have not come: the caller hears of it, and so does whoever waits for an answer."""
    cs, [bank] = cs_with("bank")
    bank.say(
        Frame("call", "bank", "CS", 7, 30, 0, bytes(10)), Frame("call", "bank", "CS", 7, 30, 20, bytes(10))
    )
    [frame] = bank.heard()
    assert (frame.kind, frame.call) == ("absence", 7)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cs.call, "bank", SchemaRequest(epoch=1), Schema)
        [asked] = bank.heard(kind="call")
        for offset in (0, 20):
            bank.say(Frame("reply", "bank", "CS", asked.call, 30, offset, bytes(10)))
        with pytest.raises(AbsentError):
            waiting.result(timeout=SOON)


@pytest.mark.parametrize("noise", [b"", b"noise", b"\x97" * 1000], ids=len)
def test_noise_ends_a_link_and_nothing_else(noise: bytes) -> None:
    cs, [bank, telco] = cs_with("bank", "telco")
    with pytest.raises(RejectedError):
        cs.received(bank, noise)
    assert not telco.closed
    assert "telco" in cs.present()


def test_calls_that_are_no_messages_are_refused() -> None:
    asked = Recorder(digests)
    _, [bank] = cs_with("bank", answer=asked)
    for number, data in enumerate((b"", b"\1", b"\2\x81", encode(PREDICT)[:-1], encode(PREDICT) + b"x")):
        bank.say(*frames("call", "bank", "CS", number, data))
    assert {frame.kind for frame in bank.heard(5)} == {"refusal"}
    assert {frame.piece for frame in bank.heard(5)} == {b"rejected"}
    assert asked.calls == []


# -- beyond CS --------------------------------------------------------------------------------------------


def test_new_certificates_are_used_at_once() -> None:
    """A party has joined anew, with other keys."""
    network = InMemory()
    kgc = network.add("KGC", digests)
    network.add("bank", digests)
    assert kgc.call("bank", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
    network.cut("bank")
    anew = invited_by(authority(), BANK, serial=2)
    bank = Endpoint(BANK, digests, anew.sealing, network.limits)
    network.endpoints.append(bank)
    network.join(bank, anew)
    assert kgc.call("bank", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch


def test_who_is_not_admitted_is_neither_heard_nor_called_across_cs() -> None:
    def admit(passport: Passport) -> None:
        if passport.who.name == "bank":
            raise PassportError("has left", kind="revoked")

    asked = Recorder(digests)
    network = InMemory()
    kgc = network.add("KGC", asked, admit=admit)
    bank = network.add("bank", asked)
    with pytest.raises(RefusedError):
        bank.call("KGC", AdmissionRequest(), Done)
    with pytest.raises(PassportError):
        kgc.call("bank", CERTIFICATE, EpochAccepted)
    assert asked.calls == []
