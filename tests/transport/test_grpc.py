"""gRPC: what its links do beyond what every link does, which is in `test_calls`."""

import socket
import time
import timeit
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

import pytest

from revfrf.errors import AbsentError, PassportError, UsageError
from revfrf.messages.alignment import MatchReply, MatchRequest, SchemaRequest
from revfrf.messages.base import MIB, Done, Message
from revfrf.messages.fle_expan import Schema
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.testing.recorders import until
from revfrf.transport.calls import Endpoint
from revfrf.transport.connections import _BYTES, _PASSED_ON, Link, Timeouts
from revfrf.transport.frames import Frame
from revfrf.transport.grpc import (
    _METHOD,
    _NONCE,
    _SERVICE,
    Dialler,
    Server,
    channel_credentials,
    grpc,
    server_credentials,
)
from revfrf.transport.passport import PartyId, Passport
from tests.node.founding import port_of_own
from tests.transport.asking import ask, digests
from tests.transport.links import LIMITS, SOON, Clock, OverGrpc, known, no_threads_left

CS, BANK = PartyId("CS", "CS"), PartyId("participant", "bank")


def cs(limits: Timeouts = LIMITS, **more: Any) -> Endpoint:
    return Endpoint(CS, digests, known("CS").sealing, limits, **more)


def bank(limits: Timeouts = LIMITS) -> Endpoint:
    return Endpoint(BANK, digests, known("bank").sealing, limits)


@pytest.fixture(autouse=True)
def _no_threads() -> Iterator[None]:
    with no_threads_left():
        yield


@contextmanager
def dialled(endpoint: Endpoint, port: int) -> Iterator[Dialler]:
    dialler = Dialler(endpoint, known("bank").tls, f"127.0.0.1:{port}")
    try:
        yield dialler
    finally:
        dialler.close()


@contextmanager
def serving(port: int = 0, **more: Any) -> Iterator[tuple[Endpoint, Server]]:
    endpoint = cs(**more)
    server = Server(endpoint, known("CS").tls, f"127.0.0.1:{port}")
    try:
        yield endpoint, server
    finally:
        server.close()


def test_a_round_trip_takes_milliseconds() -> None:
    network = OverGrpc(digests)
    network.add("bank", digests)
    taken = timeit.repeat(lambda: ask(network.cs, "bank", b"ids"), number=1, repeat=50)
    network.close()
    assert min(taken) < 0.05


def test_a_party_comes_back_when_cs_does() -> None:
    first = cs()
    server = Server(first, known("CS").tls, f"127.0.0.1:{port_of_own()}")
    with dialled(bank(), server.port) as dialler:
        assert first.wait_for(["bank"], SOON) == []
        ask(first, "bank", b"ids")
        server.close()
        until(lambda: dialler._endpoint.present() == set())
        with pytest.raises(AbsentError):
            first.call("bank", SchemaRequest(epoch=1), Schema)
        until(lambda: "does not answer" in dialler.problem)
        second = cs()
        again = Server(second, known("CS").tls, f"127.0.0.1:{server.port}")
        assert second.wait_for(["bank"], SOON) == []
        ask(second, "bank", b"ids")
        assert dialler._endpoint.meetings() == {"CS": 2}
        assert dialler.problem == ""
        again.close()


def test_pauses_become_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    dialler, pauses = Dialler.__new__(Dialler), list[float]()

    class Closed(Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            if len(pauses) == 10:
                self.set()
            return self.is_set()

    dialler._closed = Closed()
    monkeypatch.setattr("random.uniform", lambda _, b: b)
    monkeypatch.setattr(Dialler, "_one_link", lambda _: None)
    dialler._dial()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]


@pytest.mark.parametrize("kind", ["revoked", "replaced", "name", "expired"])
def test_who_is_not_let_in_learns_that_or_that_it_has_left_and_no_more(
    caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    def admit(passport: Passport) -> None:
        raise PassportError(f"{passport.who} is refused", kind=kind)

    with serving(admit=admit) as (endpoint, server), dialled(bank(), server.port) as dialler:
        until(lambda: dialler.problem)
        assert dialler.left == (kind == "revoked")
        told = "this party has left the federation" if dialler.left else "its log says why"
        assert dialler.problem.startswith(f"127.0.0.1:{server.port} refuses us: {told}")
        time.sleep(0.5)
        assert dialler._endpoint.meetings() == endpoint.meetings() == {}
    assert "is refused" in caplog.text


def test_whoever_is_at_the_other_end_twice_is_there_once() -> None:
    """Two processes with one identity: the later one counts."""
    with serving() as (endpoint, server), dialled(bank(), server.port) as first:
        assert endpoint.wait_for(["bank"], SOON) == []
        first._closed.set()  # it does not dial again
        with dialled(bank(), server.port) as second:
            until(lambda: endpoint.meetings() == {"bank": 2})
            until(lambda: first._endpoint.present() == set())
            assert second._endpoint.wait_for(["CS"], SOON) == []
            ask(endpoint, "bank", b"ids")


@contextmanager
def mute_coordinator(answers: bool) -> Iterator[tuple[int, list[float]]]:
    """Somebody with CS's certificates who says nothing: the port, and when it was dialled."""
    threads, dialled_at = ThreadPoolExecutor(8), list[float]()

    def stream(_: Any, context: Any) -> Iterator[bytes]:
        dialled_at.append(time.monotonic())
        if answers:
            context.send_initial_metadata(())
        over = Event()
        if context.add_callback(over.set):
            over.wait(2 * SOON)
        yield b""

    served = grpc.server(threads)
    handlers = {_METHOD: grpc.stream_stream_rpc_method_handler(stream)}
    served.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = served.add_secure_port("127.0.0.1:0", server_credentials(known("CS").tls))
    served.start()
    try:
        yield port, dialled_at
    finally:
        served.stop(None).wait()
        threads.shutdown()


@pytest.mark.parametrize("answers", [False, True], ids=["nothing at all", "no welcome"])
def test_a_coordinator_that_welcomes_nobody_is_given_up(answers: bool) -> None:
    """It keeps the stream, and neither welcomes a party nor sends it away."""
    quick = bank(Timeouts(heartbeat=0.1, call=1))
    with mute_coordinator(answers) as (port, dialled_at), dialled(quick, port) as dialler:
        until(lambda: len(dialled_at) > 1)
        assert "does not answer" in dialler.problem
        assert dialler._endpoint.meetings() == {}


def test_a_port_that_says_nothing_is_given_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        dialled(bank(Timeouts(heartbeat=0.1, call=1)), deaf.getsockname()[1]) as dialler,
    ):
        until(lambda: "does not answer" in dialler.problem)


def test_a_coordinator_that_falls_silent_is_dialled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine is gone, and nobody has said so."""
    quick = Timeouts(heartbeat=0.2, call=5.0)
    slow = Timeouts(heartbeat=60, call=5.0)
    with serving(limits=slow) as (silent, server), dialled(bank(quick), server.port) as dialler:
        assert silent.wait_for(["bank"], SOON) == []
        monkeypatch.setattr(silent, "disconnected", lambda _: None)
        until(lambda: dialler._endpoint.meetings().get("CS", 0) >= 2)


def test_hanging_up_takes_no_time() -> None:
    """Whatever is under way: dialling in vain, answering, calling."""
    end = Event()

    def answers_late(sender: str, message: Message) -> Message:
        end.wait(2 * SOON)
        return digests(sender, message)

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        waiting = Dialler(bank(), known("bank").tls, f"127.0.0.1:{deaf.getsockname()[1]}")
        time.sleep(0.1)
        started = time.monotonic()
        waiting.close()
        assert time.monotonic() - started < SOON
    endpoint = cs()
    server = Server(endpoint, known("CS").tls, "127.0.0.1:0")
    busy = Endpoint(BANK, answers_late, known("bank").sealing, LIMITS)
    connected = Dialler(busy, known("bank").tls, f"127.0.0.1:{server.port}")
    assert endpoint.wait_for(["bank"], SOON) == []
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(endpoint.call, "bank", SchemaRequest(epoch=1), Schema)
        time.sleep(0.1)
        started = time.monotonic()
        connected.close()
        assert time.monotonic() - started < SOON
        with pytest.raises(AbsentError):
            calling.result(timeout=SOON)
        end.set()
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < SOON


def test_hanging_up_while_dialling_leaves_no_link() -> None:
    with serving() as (endpoint, server):
        for pause in (0.0, 0.005, 0.01, 0.02, 0.03, 0.05):
            with dialled(bank(), server.port) as dialler:
                time.sleep(pause)
            assert not dialler._thread.is_alive()
            until(lambda: endpoint.present() == set())


def test_a_taken_port_is_said_to_be() -> None:
    second = cs()
    with serving() as (_, server), pytest.raises(UsageError, match="in use"):
        Server(second, known("CS").tls, f"127.0.0.1:{server.port}")
    second.close()


# -- the queue of a link ------------------------------------------------------------------------------


def test_a_full_queue_is_waited_for_but_not_for_ever() -> None:
    link = Link(BANK, patience=0.2)
    for _ in range(64):
        link.send(b"x")
    link.send(b"ping", wait=False)  # is not sent, and raises nothing
    started = time.monotonic()
    with pytest.raises(AbsentError):
        link.send(b"y")
    assert 0.15 < time.monotonic() - started < SOON
    taking = link.outgoing()
    assert [next(taking) for _ in range(64)] == [b"x"] * 64
    link.send(b"z", wait=False)
    assert next(taking) == b"z"


def test_closing_wakes_whoever_waits() -> None:
    link, hung_up = Link(BANK, patience=2 * SOON), Event()
    link.hang_up = hung_up.set
    for _ in range(64):
        link.send(b"x")
    with ThreadPoolExecutor(3) as pool:
        senders = [pool.submit(link.send, b"y") for _ in range(2)]
        time.sleep(0.05)
        link.close()
        for sender in senders:
            with pytest.raises(AbsentError):
                sender.result(timeout=SOON)
    assert hung_up.is_set()
    assert list(link.outgoing()) == []
    for wait in (True, False):
        with pytest.raises(AbsentError):
            link.send(b"z", wait)


def test_who_waits_for_something_to_send_has_it_at_once() -> None:
    link = Link(BANK, patience=2 * SOON)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(lambda: next(link.outgoing()))
        time.sleep(0.05)
        link.send(b"x")
        assert taken.result(timeout=SOON) == b"x"
        ends = pool.submit(lambda: list(link.outgoing()))
        time.sleep(0.05)
        link.close()
        assert ends.result(timeout=SOON) == []


def test_a_party_that_reads_nothing_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """CS has more for it than its queue and its window take."""
    Clock(monkeypatch)  # nobody is silent, but a queue is not waited for any longer
    network = OverGrpc(digests, Timeouts(heartbeat=0.5, call=2 * SOON))
    network.add("telco", digests)
    stuck, release = network.add("bank", digests), Event()
    receive = stuck.received

    def slowly(link: Any, data: bytes) -> None:
        if Frame.decode(data).kind == "call":
            release.wait(2 * SOON)
        receive(link, data)

    met = network.cs.meetings()
    stuck.received = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        long = MatchRequest(epoch=1, table="t", blinded=bytes(100 * 2**20))
        sending = pool.submit(network.cs.call, "bank", long, MatchReply)
        for _ in range(20):
            ask(network.cs, "telco", b"ids")
            time.sleep(0.1)
        assert "telco" in network.cs.present()
        assert network.cs.meetings()["telco"] == met["telco"]
        with pytest.raises(AbsentError):
            sending.result(timeout=SOON)
        release.set()
    network.close()


def test_a_party_that_floods_kgc_and_hardly_reads_the_answers_cuts_nobody_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every answer goes through CS, which does not wait for the slow one, and shows it out."""
    Clock(monkeypatch)  # nobody is silent, but a queue is not waited for any longer
    network, stop = OverGrpc(digests, Timeouts(heartbeat=1.0, call=2 * SOON)), Event()
    network.add("KGC", lambda *_: Done())
    clinic = network.add("clinic")

    def hellos() -> Iterator[bytes]:
        for number in count():
            if stop.is_set():
                return
            yield Frame("hello", "bank", "KGC", number).encode()

    credentials, options = channel_credentials(known("bank").tls)
    with grpc.secure_channel(network.address, credentials, options) as channel:
        flood = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")(hellos(), metadata=((_NONCE, bytes(32)),))
        assert network.cs.wait_for(["bank"], SOON) == []
        for _ in range(3):
            assert clinic.call("KGC", AdmissionRequest(), Done) == Done()
        until(lambda: "bank" not in network.cs.present(), seconds=3 * SOON)
        stop.set()
        flood.cancel()
    network.close()


def test_more_than_ever_should_wait_to_be_passed_on_ends_the_link() -> None:
    link = Link(BANK, 1.0)
    for _ in range(_PASSED_ON):
        link.pass_on(b"frame")
    with pytest.raises(AbsentError):
        link.pass_on(b"frame")
    heavy, frame = Link(BANK, 1.0), bytes(MIB)
    for _ in range(_BYTES // MIB + 1):
        heavy.pass_on(frame)
    with pytest.raises(AbsentError):
        heavy.pass_on(frame)


def test_who_does_not_read_and_dials_again_and_again_takes_no_more_than_one_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("revfrf.transport.grpc.MAX_LINKS", 6)
    network, over = OverGrpc(digests, Timeouts(heartbeat=1.0, call=10.0)), Event()
    network.add("KGC", digests)

    def hellos() -> Iterator[bytes]:
        for number in range(120):
            yield Frame("hello", "clinic", "KGC", number).encode()
        over.wait(2 * SOON)

    credentials, options = channel_credentials(known("clinic").tls)
    small = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]
    with grpc.secure_channel(network.address, credentials, [*options, *small]) as channel:
        dial = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")
        streams = []
        for _ in range(8):
            streams.append(dial(hellos(), metadata=((_NONCE, bytes(32)),)))
            assert streams[-1].initial_metadata()
            time.sleep(0.3)  # until CS waits for it to read
        network.add("bank", digests)  # it finds room
        over.set()
        for stream in streams:
            stream.cancel()
    network.close()
