"""`revfrf.testing`: its helpers notice what they are for, and its link is as slow as it says."""

import doctest
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

import revfrf.testing
from revfrf.errors import AbsentError, FormatError, RefusedError, SignatureError
from revfrf.messages.alignment import SchemaRequest
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import LevelRequest
from revfrf.messages.frf_test import TestReply as BitsReply
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.testing.federations import random_case, set_up, train
from revfrf.testing.link import FaultyLink
from revfrf.testing.peers import FaultyPeer, LyingChannel, changing, failing, offline, replaced
from revfrf.testing.recorders import Recorder, recording, until
from revfrf.testing.refusals import refusal, refusal_kind, refused
from revfrf.transport.base import blaming
from revfrf.transport.calls import Endpoint
from revfrf.transport.grpc import Dialler
from revfrf.transport.memory import MemoryNetwork
from tests.transport.asking import ask_rows, digests
from tests.transport.links import LIMITS, SOON, OverGrpc, known

CASE = random_case(7)
MODULES = sorted(path.stem for path in Path(revfrf.testing.__path__[0]).glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(f"revfrf.testing.{name}"))
    assert (result.failed, result.attempted > 0) == (0, True)


# -- refusals ---------------------------------------------------------------------------------------


def fail(error: Exception) -> Callable[..., Message]:
    def call(*_: object) -> Message:
        raise error

    return call


def asking(answer: Callable[[str, Message], Message]) -> Callable[[], Message]:
    """A call that a peer answers like this."""
    network = MemoryNetwork()
    network.connect("bank", PARTICIPANT, Recorder(answer))
    return lambda: network.channel(CS).call("bank", SchemaRequest(epoch=1), Done)


def test_the_reason_behind_a_peers_refusal_is_found() -> None:
    call = asking(fail(FormatError("cut off", kind="length")))
    assert refusal_kind(call, by="bank") == "length"
    assert str(refusal(call)) == "cut off"
    with refused("length", "version") as caught:
        call()
    assert caught.reason == "cut off"


def test_a_blamed_party_is_found() -> None:
    def call() -> None:
        with blaming("bank"):
            raise SignatureError("forged")

    assert refusal_kind(call, by="bank") == "signature"


def talkative() -> None:
    reason = FormatError("row 7 is 3.5")
    raise RefusedError("bank", f"has refused: {reason}") from reason


@pytest.mark.parametrize(
    ("call", "expected", "complaint"),
    [
        (lambda: None, {}, "nothing was refused"),
        (fail(FormatError("x", kind="length")), {"by": "bank"}, "'bank' is not blamed"),
        (asking(fail(FormatError("x"))), {"by": "shop"}, "'shop' is not blamed"),
        (talkative, {}, "tells more than it should"),
    ],
)
def test_other_refusals_fail(call: Callable[[], object], expected: dict[str, str], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        refusal(call, by=expected.get("by"))


def test_another_kind_fails() -> None:
    with pytest.raises(AssertionError, match="refused as 'length' instead of 'version'"), refused("version"):
        raise FormatError("x", kind="length")


def test_a_refusal_that_leaves_a_trace_fails() -> None:
    book: list[int] = []

    def call() -> None:
        book.append(1)
        raise FormatError("x")

    with pytest.raises(AssertionError, match="left a trace"):
        refusal(call, unchanged=lambda: list(book))


def test_other_exceptions_are_not_refusals() -> None:
    with pytest.raises(ZeroDivisionError), refused():
        raise ZeroDivisionError


# -- peers and recorders ------------------------------------------------------------------------------


def test_a_federation_with_peers_that_do_nothing_wrong_grows_the_same_forest() -> None:
    plain, faulty = train(CASE), set_up(CASE)
    faulty.coordinator.channel = LyingChannel(faulty.network.channel(CS))
    for name in CASE.codes:
        faulty.network.roles[name] = FaultyPeer(faulty.network.roles[name])
    assert train(CASE, faulty).coordinator.digest() == plain.coordinator.digest()


def test_a_lie_on_a_channel_is_passed_on() -> None:
    federation = set_up(CASE)
    seen: list[str] = []

    def note(recipient: str, request: Message) -> Message:
        seen.append(recipient)
        return request

    channel = federation.network.channel(CS)
    federation.coordinator.channel = LyingChannel(channel, on_request=note)
    train(CASE, federation)
    assert set(seen) == {CC, KGC, *CASE.codes}
    longer = changing(BitsReply, bits=lambda reply: reply.bits + b"\0")
    federation.coordinator.channel = LyingChannel(channel, on_reply=longer)
    with refused("length"):
        federation.votes(CASE.codes, CASE.n_rows, "hard")


def test_a_peer_fails_after_some_messages() -> None:
    federation = set_up(CASE)
    failure = failing(FormatError("broken"), LevelRequest, after=2)
    with (
        recording(federation.network) as sent,
        replaced(federation.network, "bank", FaultyPeer(federation.participants["bank"], on_request=failure)),
        refused("malformed", by="bank"),
    ):
        train(CASE, federation)
    assert [each.type for each in sent if each.sender == "bank"].count("LevelReply") == 2
    assert federation.network.roles["bank"] is federation.participants["bank"]


def test_a_party_is_offline_for_a_while() -> None:
    federation = train(CASE)
    with offline(federation.network, "bank"), pytest.raises(AbsentError):
        federation.votes(CASE.codes, CASE.n_rows, "hard")
    assert federation.votes(CASE.codes, CASE.n_rows, "hard").totals.shape == (60, 3)


def test_messages_are_recorded_in_order_and_on_the_chosen_network() -> None:
    one, other = set_up(CASE), set_up(CASE)
    with recording() as everywhere, recording(one.network) as here:
        train(CASE, one)
        train(CASE, other)
    assert len(everywhere) == 2 * len(here)
    assert not Counter(here) - Counter(everywhere)
    bank = [each for each in here if "bank" in (each.sender, each.recipient)]
    assert bank
    for request, reply in pairwise(bank):
        if request.type == "LevelRequest":
            assert isinstance(request.message, LevelRequest)
            assert (reply.sender, reply.recipient, reply.type) == ("bank", CS, "LevelReply")


def test_waiting_for_what_does_not_happen_fails() -> None:
    with pytest.raises(AssertionError, match="the end of the world is not true after"):
        until(lambda: False, "the end of the world", 0.01)


# -- the link ---------------------------------------------------------------------------------------


class Echo:
    """A server that sends back what it gets, and a client over a faulty link."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.link = FaultyLink(f"127.0.0.1:{self.server.getsockname()[1]}")
        self.connect()

    def connect(self) -> None:
        self.client = socket.create_connection(self.link.host_and_port)
        self.accepted, _ = self.server.accept()

    def round_trip(self, data: bytes) -> float:
        """Seconds until all has come back."""
        started = time.monotonic()
        self.client.sendall(data)
        for there in (self.accepted, self.client):
            got = b""
            while len(got) < len(data):
                got += there.recv(65536)
            assert got == data
            if there is self.accepted:
                there.sendall(got)
        return time.monotonic() - started

    def close(self) -> None:
        self.link.close()
        for each in (self.client, self.accepted, self.server):
            each.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


def test_a_link_is_as_slow_as_it_says(echo: Echo) -> None:
    assert echo.round_trip(b"hello") < 5
    echo.link.round_trip = 0.25
    assert 0.25 <= echo.round_trip(b"hello") < 5
    echo.link.round_trip, echo.link.bytes_per_second = 0.0, 100_000
    assert 0.4 <= echo.round_trip(bytes(20_000)) < 5
    echo.link.bytes_per_second, echo.link.loss = None, 1.0
    assert 0.4 <= echo.round_trip(b"hello") < 5
    assert echo.link.bytes == 2 * (3 * 5 + 20_000)


def test_the_end_of_one_direction_is_passed_on(echo: Echo) -> None:
    echo.client.sendall(b"last")
    echo.client.shutdown(socket.SHUT_WR)
    assert (echo.accepted.recv(4), echo.accepted.recv(4)) == (b"last", b"")
    echo.accepted.sendall(b"answer")
    assert echo.client.recv(6) == b"answer"


def broken(there: socket.socket) -> bool:
    with there:
        try:
            return there.recv(1) == b""
        except ConnectionResetError:
            return True


def test_dropped_connections_can_be_made_again_and_cut_ones_only_after_the_cut(echo: Echo) -> None:
    echo.link.drop()
    assert broken(echo.client)
    assert broken(echo.accepted)
    echo.connect()
    assert echo.round_trip(b"again") < 5
    echo.link.cut()
    assert broken(echo.client)
    assert broken(echo.accepted)
    assert broken(socket.create_connection(echo.link.host_and_port))
    echo.link.mend()
    echo.connect()
    echo.link.cut(0.3)
    assert broken(echo.client)
    assert broken(echo.accepted)
    assert broken(socket.create_connection(echo.link.host_and_port))
    time.sleep(0.5)
    echo.connect()
    assert echo.round_trip(b"again") < 5
    assert echo.link.connections == 4


def test_a_target_that_is_gone_breaks_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"127.0.0.1:{server.getsockname()[1]}"
    with FaultyLink(target) as link, socket.create_connection(link.host_and_port) as client:
        assert broken(client)
        assert link.connections == 1


def test_parties_over_grpc_bear_a_slow_link_that_is_cut() -> None:
    network = OverGrpc(digests)
    with FaultyLink(network.address, round_trip=0.2) as link:
        bank = Endpoint(known("bank").who, digests, known("bank").restarted(), LIMITS)
        dialler = Dialler(bank, known("bank").tls, link.address)
        try:
            assert bank.wait_for([CS], SOON) == []
            started = time.monotonic()
            ask_rows(bank, b"rows")
            assert time.monotonic() - started >= 0.2
            link.cut(0.5)
            until(lambda: link.connections > 1, "a second connection")
            assert bank.wait_for([CS], SOON) == []
            ask_rows(bank, b"rows")
        finally:
            dialler.close()
            network.close()
