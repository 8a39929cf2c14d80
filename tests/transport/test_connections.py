"""What is kept of links and calls is bounded, is given back, and never lets a call count twice."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import AbsentError, RefusedError
from revfrf.messages.base import MIB, Done
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted, SetUpRequest
from revfrf.testing.recorders import until
from revfrf.transport.codec import encode
from revfrf.transport.connections import Connection, InFlightBudget, PendingCall, ReplayWindow, Timeouts
from revfrf.transport.frames import Frame, frames
from revfrf.transport.passport import PartyId
from tests.transport.asking import CERTIFICATE, PREDICT, digests
from tests.transport.links import (
    LIMITS,
    SOON,
    Clock,
    Held,
    InMemory,
    Network,
    OverGrpc,
    RawLink,
    UnusedLink,
    cs_with,
    endpoint_of,
    known,
    nothing,
)
from tests.transport.parties import joined, token_for

CS, KGC = PartyId("CS", "CS"), PartyId("KGC", "KGC")


NOWHERE = UnusedLink("KGC")


# -- what a line and a call keep ----------------------------------------------------------------------


def test_a_link_owes_no_more_than_so_many_answers() -> None:
    line = Connection(NOWHERE)
    taken = [number for number in range(5000) if line.owe("bank", number)]
    assert taken == list(range(64))
    assert line.owe("telco", 5000)
    line.settle("bank", 7)
    assert (line.owes("bank", 7), line.owe("bank", 64), line.owe("bank", 65)) == (False, True, False)
    line.settle("telco", 5000)
    assert "telco" not in line.owed


@given(st.lists(st.integers(0, 50), max_size=100))
def test_a_call_is_new_once(numbers: list[int]) -> None:
    seen = ReplayWindow()
    new = [number for number in numbers if seen.is_new(number)]
    assert sorted(new) == sorted(set(numbers))


def test_old_numbers_are_forgotten_but_never_new_again() -> None:
    seen = ReplayWindow()
    assert all(seen.is_new(number) for number in range(0, 20_000, 2))
    assert len(seen._recent) == 4096
    assert not any(seen.is_new(number) for number in range(20_000 - 2 * 4096 - 1))
    assert seen.is_new(19_999)
    assert not seen.is_new(19_999)


def test_what_comes_back_first_counts() -> None:
    waiting = PendingCall("CS", Connection(NOWHERE), 10, 0.0)
    with pytest.raises(AbsentError, match="has not answered"):
        waiting.outcome()
    waiting.end("reply", b"first")
    waiting.end("absence")
    waiting.end("reply", b"second")
    assert waiting.outcome() == b"first"


# -- what waits of each sender ------------------------------------------------------------------------


def test_calls_that_wait_are_bounded_but_the_longest_is_taken() -> None:
    load = InFlightBudget()
    taken = [load.take("bank", 10, 16) for _ in range(100)]
    assert [end is not None for end in taken] == [True] * 16 + [False] * 84
    assert taken[3] is not None
    taken[3].close()
    assert load.take("bank", 10, 16) is not None
    assert load.take("bank", 10, 16) is None
    assert load.take("alone", 2**40, 16) is not None
    assert load.take("alone", 1, 16) is None


def test_many_long_calls_are_too_much_before_they_are_many() -> None:
    load = InFlightBudget()
    taken = [load.take("KGC", 100 * MIB, 256) for _ in range(20)]
    assert sum(end is not None for end in taken) == 10


@given(st.lists(st.sampled_from(["bank", "telco", "shop"]), max_size=120), st.randoms())
def test_no_sender_counts_for_another_and_all_are_forgotten(senders: list[str], rng: random.Random) -> None:
    """Whatever the order in which calls come and end."""
    load = InFlightBudget()
    taken = [(sender, load.take(sender, 1, 16)) for sender in senders]
    ends = [(sender, end) for sender, end in taken if end is not None]
    for sender in ("bank", "telco", "shop"):
        assert sum(name == sender for name, _ in ends) == min(16, senders.count(sender))
    rng.shuffle(ends)
    for _, end in ends:
        end.close()
    assert load._sizes == {}


def test_no_more_than_so_many_senders_wait() -> None:
    """Somebody who passes calls on can make up names."""
    load = InFlightBudget()
    taken = [load.take(f"party {number}", 1, 16) for number in range(10_000)]
    assert sum(end is not None for end in taken) == len(load._sizes) == 1024
    assert load.take("party 0", 1, 16) is not None
    for end in taken:
        if end is not None:
            end.close()
    assert load._sizes.keys() == {"party 0"}
    assert load.take("party 9999", 1, 16) is not None


def test_sixteen_calls_of_a_neighbour_that_wait_keep_nobody_else_waiting() -> None:
    slow = Held(digests, only="bank")
    cs, [bank, telco, kgc] = cs_with("bank", "telco", "KGC", answer=slow)
    for number in range(17):
        bank.say(*frames("call", "bank", "CS", number, encode(PREDICT)))
    [refused] = bank.heard()
    assert (refused.kind, refused.call, refused.piece) == ("refusal", 16, b"too much at once")
    telco.say(*frames("call", "telco", "CS", 1, encode(PREDICT)))
    kgc.say(*frames("call", "KGC", "CS", 1, encode(CERTIFICATE)))
    assert [other.heard()[0].kind for other in (telco, kgc)] == ["reply", "reply"]
    slow.end.set()
    bank.heard(17)
    until(lambda: cs._load._sizes == {})
    bank.say(*frames("call", "bank", "CS", 100, encode(PREDICT)))
    until(lambda: [frame.kind for frame in bank.frames if frame.call == 100] == ["reply"])
    assert not bank.closed


def test_a_call_for_which_there_is_no_thread_is_answered_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system has none to give; the link goes on, and nothing counts for ever."""

    def no_thread(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    slow = Held(digests, only="bank")
    cs, [bank] = cs_with("bank", answer=slow)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", no_thread)
        for number in (1, 2):
            bank.say(*frames("call", "bank", "CS", number, encode(PREDICT)))
    until(lambda: len(slow.calls) == 1)
    assert len(cs._load._sizes["bank"]) == 2
    slow.end.set()
    assert {(frame.kind, frame.call) for frame in bank.heard(2)} == {("reply", 1), ("reply", 2)}
    until(lambda: cs._load._sizes == {})
    assert not bank.closed


@pytest.mark.parametrize("make", [InMemory, OverGrpc], ids=["memory", "gRPC"])
def test_whoever_asks_too_much_is_refused_and_the_servers_go_on(make: type[InMemory | OverGrpc]) -> None:
    slow = Held(digests, only="bank")
    network: Network = make(digests, LIMITS)
    kgc, bank = network.add("KGC", slow), network.add("bank", digests)
    clinic = network.add("clinic", digests)
    with ThreadPoolExecutor(16) as pool:
        waiting = [pool.submit(bank.call, "KGC", AdmissionRequest(), Done) for _ in range(16)]
        until(lambda: len(slow.calls) == 16)
        with pytest.raises(RefusedError, match="too much at once"):
            bank.call("KGC", AdmissionRequest(), Done)
        assert clinic.call("KGC", AdmissionRequest(), Done) == Done()
        assert network.cs.call("KGC", SetUpRequest(), Done) == Done()
        assert kgc.call("bank", CERTIFICATE, EpochAccepted).epoch == CERTIFICATE.epoch
        assert not any(job.done() for job in waiting)
        slow.end.set()
        assert [job.result(timeout=SOON) for job in waiting] == [Done()] * 16
    until(lambda: kgc._load._sizes == {})
    assert bank.call("KGC", AdmissionRequest(), Done) == Done()
    network.close()


# -- links whose certificates end ---------------------------------------------------------------------


def test_a_line_has_a_fault_once_its_certificate_has_ended() -> None:
    now = datetime.now(UTC)
    assert Connection(NOWHERE).fault(1.0) == ""
    assert Connection(NOWHERE, now + timedelta(seconds=60)).fault(1.0) == ""
    assert "has ended" in Connection(NOWHERE, now - timedelta(seconds=1)).fault(1.0)
    assert "silent" in Connection(NOWHERE, heard=0.0).fault(1.0)


@pytest.mark.parametrize("hub", [True, False], ids=["of a party, at CS", "of CS, at a party"])
def test_a_link_ends_with_the_certificate_of_who_is_at_its_other_end(
    hub: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was good when the link began, and whoever has it goes on saying that it is alive."""
    Clock(monkeypatch)  # nobody is silent, however slow this machine is
    here, there = ("CS", "bank") if hub else ("bank", "CS")
    brief = joined(token_for(known(there).who, days=1)).passport
    endpoint = endpoint_of(here, nothing, Timeouts(heartbeat=0.02, call=5))
    link = RawLink(endpoint, known(there).who, brief)
    for count in (1, 2, 3):
        link.say(Frame("ping", there, here, 0))
        until(partial(lambda least: len(link.frames) >= least, count))
    assert endpoint.present() == {there}

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # noqa: ARG003
            return brief.not_after + timedelta(seconds=1)

    monkeypatch.setattr("revfrf.transport.connections.datetime", Tomorrow)
    link.say(Frame("ping", there, here, 0))
    until(lambda: link.closed)
    assert endpoint.present() == set()
    assert f"{there} has a certificate that has ended" in caplog.text
