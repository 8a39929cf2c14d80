"""Calls: the right answer once, or an error in time; over links in memory, over bad ones, and over gRPC."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
import pytest

from revfrf.errors import (
    AbsentError,
    FormatError,
    PassportError,
    PolicyError,
    ProtocolError,
    RefusedError,
    StorageError,
    UsageError,
)
from revfrf.messages.alignment import Drop, MatchReply, MatchRequest, SchemaRequest
from revfrf.messages.base import MIB, Done, Message
from revfrf.messages.fle_expan import Schema
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted, EpochCertificate, SetUpRequest
from revfrf.testing.recorders import Recorder, until
from revfrf.transport import frames as frames_module
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.connections import Timeouts
from revfrf.transport.frames import Frame
from revfrf.transport.passport import PartyId, Passport
from tests.transport.asking import CERTIFICATE, ask, ask_rows, digests
from tests.transport.links import (
    LIMITS,
    SOON,
    Clock,
    Held,
    InMemory,
    Network,
    OverGrpc,
    RawLink,
    Unreliable,
    endpoint_of,
    known,
    no_threads_left,
    nothing,
)

CS, BANK = PartyId("CS", "CS"), PartyId("participant", "bank")
QUICK = Timeouts(heartbeat=0.02, call=2 * SOON)
"""To be used with a clock that stands still: on a slow machine everybody seems silent."""


@pytest.fixture(params=[InMemory, OverGrpc], ids=["memory", "gRPC"])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    with no_threads_left():
        made = request.param(digests)
        try:
            yield made
        finally:
            made.close()


# -- over good links, of either kind ------------------------------------------------------------------


def test_everybody_who_may_has_an_answer(network: Network) -> None:
    bank, kgc = network.add("bank", digests), network.add("KGC", digests)
    ask(network.cs, "bank", b"ids")
    ask_rows(bank, b"rows")
    assert network.cs.call("KGC", SetUpRequest(), Done) == Done()
    assert kgc.call("CS", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
    assert kgc.call("bank", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
    assert bank.call("KGC", AdmissionRequest(), Done) == Done()
    assert network.cs.present() == {"bank", "KGC"}
    assert bank.present() == kgc.present() == {"CS"}
    for endpoint in (bank, kgc, network.cs):
        assert endpoint._waiting == {}


def test_what_is_long_is_the_same_at_the_other_end(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "PIECE", 1000)
    bank = network.add("bank", digests)
    for size in (999, 1000, 1001, 123_456):
        ask(network.cs, "bank", b"x" * size)
        ask_rows(bank, b"y" * size)


def test_long_and_short_messages_travel_together(network: Network) -> None:
    """Both ways, and from many threads."""
    bank = network.add("bank", digests)
    with ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(ask, network.cs, "bank", bytes([i]) * (3 * MIB), f"{i}") for i in range(4)]
        jobs += [pool.submit(ask_rows, bank, bytes([i]) * (2 * MIB)) for i in range(4)]
        jobs += [pool.submit(ask, network.cs, "bank", f"short {i}".encode(), f"{i}") for i in range(50)]
        jobs += [pool.submit(ask_rows, bank, f"short {i}".encode()) for i in range(50)]
        for job in jobs:
            job.result(timeout=SOON)


def test_many_parties_call_at_once(network: Network) -> None:
    kgc = network.add("KGC", digests)
    parties = {name: network.add(name, digests) for name in ("bank", "telco", "shop")}
    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(ask, network.cs, name, name.encode()) for name in parties for _ in range(10)]
        jobs += [pool.submit(ask_rows, party, b"rows") for party in parties.values() for _ in range(10)]
        to_all = [
            pool.submit(kgc.call, name, CERTIFICATE, EpochAccepted) for name in parties for _ in range(5)
        ]
        for job in jobs:
            job.result(timeout=SOON)
        assert {job.result(timeout=SOON).epoch for job in to_all} == {CERTIFICATE.epoch}


def test_an_answer_may_need_other_calls(network: Network) -> None:
    """KGC asks whoever asks it, over the same links."""
    kgc: Endpoint

    def admits(sender: str, message: Message) -> Message:
        assert isinstance(message, AdmissionRequest)
        assert kgc.call(sender, CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
        return Done()

    kgc, bank = network.add("KGC", admits), network.add("bank", digests)
    assert bank.call("KGC", AdmissionRequest(), Done) == Done()


def test_who_is_absent_is_said_to_be(network: Network) -> None:
    kgc = network.add("KGC", digests)
    for caller, party in ((network.cs, "bank"), (kgc, "bank"), (kgc, "nobody"), (network.cs, "CS")):
        with pytest.raises(AbsentError) as caught:
            caller.call(party, CERTIFICATE, EpochAccepted)
        assert caught.value.party == party
    bank = network.add("bank", digests)
    network.cut("KGC")
    with pytest.raises(AbsentError) as caught:
        bank.call("KGC", AdmissionRequest(), Done)
    assert caught.value.party == "KGC"


ERRORS: dict[str, Callable[[], Exception]] = {
    "rejected": lambda: ProtocolError("the reason", kind="epoch"),
    "format": lambda: FormatError("the reason"),
    "usage": lambda: UsageError("the reason"),
    "another party": lambda: RefusedError("telco", "the reason"),
    "disk": lambda: StorageError("the reason", kind="full"),
    "bug": lambda: ZeroDivisionError("the reason"),
    "recursion": lambda: RecursionError("the reason"),
}


@pytest.mark.parametrize("error", [*ERRORS, "policy"])
def test_a_refusal_never_says_why(network: Network, error: str, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[StorageError] = []

    def refuses(_: str, __: Message) -> Message:
        raise PolicyError("the reason", kind="quota") if error == "policy" else ERRORS[error]()

    network.add("bank", refuses, failed=failures.append)
    with caplog.at_level(logging.WARNING), pytest.raises(RefusedError) as caught:
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)
    told = PolicyError.peer_message if error == "policy" else "rejected"
    assert str(caught.value) == f"'bank' has refused: {told}"
    assert "the reason" in caplog.text  # where it happens
    assert [str(failure) for failure in failures] == (["the reason"] if error == "disk" else [])


def test_a_refusal_across_cs_never_says_why(network: Network) -> None:
    def refuses(_: str, __: Message) -> Message:
        raise ProtocolError("the reason")

    kgc, _ = network.add("KGC"), network.add("bank", refuses)
    with pytest.raises(RefusedError, match="'bank' has refused: rejected"):
        kgc.call("bank", CERTIFICATE, EpochAccepted)


def test_an_answer_of_another_type_is_refused_by_who_has_asked(network: Network) -> None:
    network.add("bank", lambda *_: Done())
    with pytest.raises(FormatError):
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)


def test_an_answer_that_is_too_long_to_send_is_a_refusal(network: Network) -> None:
    long = "x" * 2 * Drop.max_bytes
    network.add("bank", lambda *_: Drop(epoch=1, table=long))
    with pytest.raises(RefusedError):
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)
    with pytest.raises(UsageError, match="above the limit"):
        network.cs.call("bank", Drop(epoch=1, table=long), Done)


def absent_after(end: Callable[[], object], slow: Held, caller: Endpoint, request: Message) -> str:
    """Who is absent, by a call to bank's role that waits until this happens."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(caller.call, "bank", request, Schema)
        assert slow.asked.wait(SOON)
        end()
        with pytest.raises(AbsentError) as caught:
            waiting.result(timeout=SOON)
        slow.end.set()
    return caught.value.party


def test_a_wait_ends_when_the_link_breaks(network: Network) -> None:
    slow = Held()
    network.add("bank", slow)
    assert absent_after(lambda: network.cut("bank"), slow, network.cs, SchemaRequest(epoch=1)) == "bank"
    assert network.cs._waiting == {}


def test_a_wait_ends_when_the_link_beyond_cs_breaks(network: Network) -> None:
    """KGC's own link is up all the time."""
    slow = Held()
    kgc, _ = network.add("KGC"), network.add("bank", slow)
    assert absent_after(lambda: network.cut("bank"), slow, kgc, CERTIFICATE) == "bank"
    assert kgc.present() == {"CS"}


def test_nothing_is_owed_once_it_is_answered(network: Network) -> None:
    kgc, _ = network.add("KGC", digests), network.add("bank", digests)
    for _ in range(3):
        kgc.call("bank", CERTIFICATE, EpochAccepted)
    assert not any(owed for line in network.cs._links.values() for owed in line.owed.values())


def test_closing_ends_every_wait(network: Network) -> None:
    slow = Held()
    network.add("bank", slow)
    absent_after(network.close, slow, network.cs, SchemaRequest(epoch=1))
    with pytest.raises(AbsentError):
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)


def test_who_is_expelled_is_gone(network: Network) -> None:
    network.add("bank", digests)
    network.cs._admit = not_again
    network.cs.expel(["bank", "nobody"])
    assert network.cs.present() == set()
    with pytest.raises(AbsentError):
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)


def not_again(_: Passport) -> None:
    raise PassportError("has left", kind="revoked")


def test_who_leaves_while_it_is_being_let_in_gets_no_link(network: Network) -> None:
    """The others are shown out after it was looked at, and before its link is there."""
    cs, asked = network.cs, list[Passport]()

    def leaves_now(passport: Passport) -> None:
        asked.append(passport)
        cs._admit = not_again
        cs.expel(["bank"])

    cs._admit = leaves_now
    with pytest.raises(PassportError, match="has left"):
        RawLink(cs, "bank")
    assert asked == [known("bank").passport]
    assert cs.present() == set()


def test_work_is_in_the_books_of_who_does_it(network: Network) -> None:
    bank = network.add("bank", digests)
    ask(network.cs, "bank", b"ids")
    assert set(bank.ledger.entries) == {("bank", "matching")}
    assert network.cs.ledger.entries == {}


# -- over bad links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_over_a_bad_link_there_is_the_right_answer_or_an_error_in_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames are dropped, delayed and reordered; nobody is asked twice."""
    monkeypatch.setattr(frames_module, "PIECE", 100)
    seeds = iter(range(1000 * seed, 1000 * seed + 1000))
    limits, asked, outcomes = Timeouts(LIMITS.heartbeat, call=0.7), Recorder(digests), list[str]()
    with no_threads_left():
        network = InMemory(asked, limits, lambda: Unreliable(next(seeds), rate=40))
        kgc, bank = network.add("KGC", asked), network.add("bank", asked)

        def one(number: int) -> None:
            started, size = time.monotonic(), 10 + 97 * (number % 7)
            try:
                match number % 3:
                    case 0:
                        ask(network.cs, "bank", bytes(size), f"call {number}")
                    case 1:
                        ask_rows(bank, f"call {number}".encode() + bytes(size))
                    case _:
                        assert kgc.call("bank", certificate(number), EpochAccepted).epoch == number
                outcomes.append("answered")
            except (AbsentError, RefusedError):
                outcomes.append("in vain")
            assert time.monotonic() - started < SOON

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(90)))
        assert len(outcomes) == 90
        assert outcomes.count("answered") > 20
        for endpoint in network.endpoints:
            assert endpoint._waiting == {}
        network.close()
    assert max(Counter(encode(message) for _, message in asked.calls).values()) == 1


def certificate(epoch: int) -> EpochCertificate:
    return msgspec.structs.replace(CERTIFICATE, epoch=epoch)


def test_a_link_that_falls_silent_is_given_up_after_three_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, network = Clock(monkeypatch), InMemory(limits=QUICK)
    bank = network.add("bank", lambda *_: Done())
    lines = [network.cs._links["bank"], bank._links["CS"]]
    for _ in range(5):
        clock.now += 0.9 * QUICK.silence
        until(lambda: all(line.heard_at == clock.now for line in lines))
    assert network.cs.present() == {"bank"}  # it has nothing to say, and yet it is heard
    network.links["bank"].silent, bank.limits = True, LIMITS  # only CS gives up

    def is_given_up() -> bool:
        clock.now += 0.1 * QUICK.heartbeat
        return network.cs.present() == set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(network.cs.call, "bank", SchemaRequest(epoch=1), Schema)
        until(is_given_up)
        with pytest.raises(AbsentError):
            waiting.result(timeout=SOON)
    assert clock.now - lines[0].heard_at > QUICK.silence


def test_an_answer_that_does_not_come_is_not_waited_for_longer_than_the_longest_call() -> None:
    slow = Held()
    network = InMemory(limits=Timeouts(LIMITS.heartbeat, call=0.3))
    network.add("bank", slow)
    started = time.monotonic()
    with pytest.raises(AbsentError, match="within"):
        network.cs.call("bank", SchemaRequest(epoch=1), Schema)
    assert 0.25 < time.monotonic() - started < SOON
    assert network.cs.present() == {"bank"}
    slow.end.set()


class Clogged(RawLink):
    """A neighbour who takes frames ever so slowly."""

    def send(self, frame: bytes, wait: bool = True) -> None:
        if wait:
            time.sleep(0.1)
            super().send(frame)


def test_sending_is_part_of_the_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "PIECE", 10)
    cs = endpoint_of("CS", nothing, Timeouts(LIMITS.heartbeat, call=0.5))
    link = Clogged(cs, "bank")
    with pytest.raises(AbsentError, match="within"):
        cs.call("bank", MatchRequest(epoch=1, table="t", blinded=bytes(1000)), MatchReply)
    assert len(link.frames) < 10


def test_a_neighbour_that_takes_nothing_does_not_silence_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats never wait."""

    class Full(RawLink):
        def send(self, frame: bytes, wait: bool = True) -> None:  # noqa: ARG002
            if wait:
                time.sleep(2 * SOON)

    clock, network = Clock(monkeypatch), InMemory(limits=QUICK)
    Full(network.cs, "full")
    bank = network.add("bank", digests)
    for _ in range(5):
        clock.now += 0.1 * QUICK.silence
        until(lambda: bank._links["CS"].heard_at == clock.now)
    assert network.cs.present() == {"bank", "full"}
    ask(network.cs, "bank", b"ids")


def test_who_is_being_listened_to_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What KGC says waits until it is passed on."""
    clock, listening, end = Clock(monkeypatch), Event(), Event()

    class Held(RawLink):
        def pass_on(self, frame: bytes, wait: bool = True) -> None:  # noqa: ARG002
            listening.set()
            end.wait(2 * SOON)

    cs = endpoint_of("CS", nothing, QUICK)
    kgc = RawLink(cs, "KGC")
    Held(cs, "bank")
    with ThreadPoolExecutor(1) as pool:
        saying = pool.submit(kgc.say, Frame("call", "KGC", "bank", 1, 1, 0, b"x"))
        assert listening.wait(SOON)
        clock.now += 2 * QUICK.silence
        until(lambda: cs.present() == {"KGC"})  # bank has said nothing for as long
        end.set()
        saying.result(timeout=SOON)
    assert cs.present() == {"KGC"}


# -- links that come and go ---------------------------------------------------------------------------


def test_a_new_link_replaces_the_old_one() -> None:
    slow = Held(digests)
    network = InMemory()
    bank = network.add("bank", slow)
    old = network.links["bank"]
    absent_after(lambda: network.join(bank), slow, network.cs, SchemaRequest(epoch=1))
    until(lambda: not old._open)
    ask(network.cs, "bank", b"ids")
    assert network.cs.meetings() == {"bank": 2}
    with pytest.raises(ProtocolError):
        network.cs.received(old.other, Frame("ping", "bank", "CS", 0).encode())
    network.cs.disconnected(old.other)  # it is late, and does no harm
    ask(network.cs, "bank", b"ids")


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_link_that_breaks_while_somebody_begins_to_call_keeps_nobody_waiting(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is gone between being found and being used."""
    cs = endpoint_of("CS")

    class Breaking(RawLink):
        def send(self, frame: bytes, wait: bool = True) -> None:
            cs.disconnected(self)
            super().send(frame, wait)

    link = (Breaking if moment == "while" else RawLink)(cs, "bank")
    if moment == "before":
        cs.disconnected(link)
        monkeypatch.setattr(cs, "_link_to", lambda _: link)
    started = time.monotonic()
    with pytest.raises(AbsentError):
        cs.call("bank", SchemaRequest(epoch=1), Schema)
    assert time.monotonic() - started < SOON


def test_a_call_waits_for_a_link_that_is_being_dialled() -> None:
    network = InMemory(digests)
    bank = endpoint_of("bank", nothing, network.limits)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask_rows, bank, b"rows")
        time.sleep(0.1)
        network.join(bank)
        waiting.result(timeout=SOON)


def test_waiting_for_neighbours_ends() -> None:
    network = InMemory()
    network.add("bank")
    assert network.cs.wait_for(["bank"], 0) == []
    assert network.cs.wait_for(["bank", "telco", "shop"], 0.05) == ["shop", "telco"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(network.cs.wait_for, ["telco"], 2 * SOON)
        time.sleep(0.05)
        network.close()
        assert waiting.result(timeout=SOON) == ["telco"]


def test_who_has_hung_up_takes_no_link() -> None:
    network = InMemory()
    network.close()
    with pytest.raises(ProtocolError):
        RawLink(network.cs, "bank")
    assert network.cs.present() == set()
