"""What is kept of links and calls is bounded, is given back, and never lets a call count twice."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.messages.base import MIB, Done
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted, SetUpRequest
from revfrf.testing.recorders import until
from revfrf.transport.codec import encode
from revfrf.transport.connections import InFlightBudget, Link, PendingCall, Timeouts
from revfrf.transport.frames import Frame, frames
from revfrf.transport.letters import Sealing
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
    cs_with,
    endpoint_of,
    known,
    nothing,
)
from tests.transport.parties import joined, token_for


def link(name: str = "KGC") -> Link:
    """One of which only the neighbour matters."""
    return Link(known(name).who, 0.0)


def test_what_comes_back_first_counts() -> None:
    waiting = PendingCall("CS", link(), 10, 0.0)
    with pytest.raises(AbsentError, match="has not answered"):
        waiting.outcome()
    waiting.end("reply", b"first")
    waiting.end("absence")
    waiting.end("reply", b"second")
    assert waiting.outcome() == b"first"


# -- what CS passes on -------------------------------------------------------------------------------


def links() -> tuple[Link, Link]:
    """Those of KGC and of a requester."""
    return link("KGC"), link("clinic")


def test_an_answer_that_nobody_is_owed_goes_nowhere() -> None:
    kgc, clinic = links()
    answer = Frame("reply", "KGC", "clinic", 7)
    assert kgc.fate_of(answer, clinic) == "ignore"
    assert clinic.fate_of(Frame("call", "clinic", "KGC", 7), kgc) == "pass on"
    assert clinic.fate_of(Frame("reply", "clinic", "KGC", 7), kgc) == "ignore"
    assert kgc.fate_of(answer, clinic) == "pass on"
    assert kgc.fate_of(answer, clinic) == "ignore"


def test_nobody_asks_with_more_than_its_role_has_to_say_nor_answers_at_length() -> None:
    kgc, clinic = links()
    with pytest.raises(ProtocolError, match="sent"):
        clinic.fate_of(Frame("call", "clinic", "KGC", 1, 1025 + Sealing.OVERHEAD), kgc)
    with pytest.raises(ProtocolError, match="sent"):
        clinic.fate_of(Frame("hello", "clinic", "KGC", 1, 1), kgc)
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 1, 64 * MIB), clinic) == "pass on"
    with pytest.raises(ProtocolError, match="answered with"):
        clinic.fate_of(Frame("reply", "clinic", "KGC", 1, 2 * MIB), kgc)
    with pytest.raises(ProtocolError, match="may not write to"):
        clinic.fate_of(Frame("call", "clinic", "bank", 1), link("bank"))


def test_pieces_follow_the_first_one_alone() -> None:
    kgc, clinic = links()
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 3, 9, 4, b"piece"), clinic) == "ignore"
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 3, 9, 0, b"four"), clinic) == "pass on"
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 3, 9, 4, b"piece"), clinic) == "pass on"
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 4, 9, 0, b"four"), None) == "absence"
    assert kgc.fate_of(Frame("call", "KGC", "clinic", 4, 9, 4, b"piece"), None) == "ignore"


def test_who_asks_too_much_at_once_is_refused_and_the_others_are_not() -> None:
    network = InMemory()
    asked = []

    def never(data: bytes) -> list[bytes]:
        asked.append(Frame.decode(data))
        return []

    network.add("KGC", lambda *_: Done())
    network.links["KGC"].other._faults = never  # KGC hears nothing
    evil = RawLink(network.cs, "bank")
    evil.say(*(Frame("hello", "bank", "KGC", number) for number in range(100)))
    until(lambda: len(asked) == 64)
    refused = evil.heard(36, kind="refusal")
    assert [frame.call for frame in refused] == list(range(64, 100))
    assert not evil.closed
    assert "KGC" in network.cs.present()
    network.links["KGC"].other._faults = lambda data: [data]
    clinic = network.add("clinic")
    assert clinic.call("KGC", AdmissionRequest(), Done) == Done()
    network.cut("KGC")
    assert len(evil.heard(64, kind="absence")) == 64


# -- what waits of each sender ------------------------------------------------------------------------


def test_calls_that_wait_are_bounded_but_the_longest_is_taken() -> None:
    load = InFlightBudget()
    assert [load.take("bank", 10, 16) for _ in range(100)] == [True] * 16 + [False] * 84
    load.give_back("bank", 10)
    assert [load.take("bank", 10, 16) for _ in range(2)] == [True, False]
    assert load.take("alone", 2**40, 16)
    assert not load.take("alone", 1, 16)
    assert sum(load.take("KGC", 100 * MIB, 256) for _ in range(20)) == 10


@given(st.lists(st.sampled_from(["bank", "telco", "shop"]), max_size=120), st.randoms())
def test_no_sender_counts_for_another_and_all_are_forgotten(senders: list[str], rng: random.Random) -> None:
    """Whatever the order in which calls come and end."""
    load = InFlightBudget()
    taken = [sender for sender in senders if load.take(sender, 1, 16)]
    assert Counter(taken) == {sender: min(16, count) for sender, count in Counter(senders).items()}
    rng.shuffle(taken)
    for sender in taken:
        load.give_back(sender, 1)
    assert load._sizes == {}


def test_no_more_than_so_many_senders_wait() -> None:
    """Somebody who passes calls on can make up names."""
    load = InFlightBudget()
    assert sum(load.take(f"party {number}", 1, 16) for number in range(10_000)) == len(load._sizes) == 1024
    assert load.take("party 0", 1, 16)
    load.give_back("party 1", 1)
    assert load.take("party 9999", 1, 16)


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


@pytest.mark.parametrize("hub", [True, False], ids=["of a party, at CS", "of CS, at a party"])
def test_a_link_ends_with_the_certificate_of_who_is_at_its_other_end(
    hub: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was good when the link began, and whoever has it goes on saying that it is alive."""
    Clock(monkeypatch)  # nobody is silent, however slow this machine is
    here, there = ("CS", "bank") if hub else ("bank", "CS")
    brief = joined(token_for(known(there).who, days=1)).passport
    endpoint = endpoint_of(here, nothing, Timeouts(heartbeat=0.02, call=5))
    link = RawLink(endpoint, passport=brief)
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
    assert f"{there} has a TLS certificate that has expired" in caplog.text
