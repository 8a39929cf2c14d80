"""Who may say what to whom: every type of message, from everybody, to everybody.

New types of messages, and new rules of `calls_between`, are covered as soon as they are registered.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from revfrf.errors import PartyError, PassportError, RejectedError
from revfrf.messages.base import Done, Message
from revfrf.messages.registry import MESSAGES, calls_between
from revfrf.testing.recorders import Recorder, until
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.connections import Link
from revfrf.transport.frames import Frame, frames
from revfrf.transport.grpc import _METHOD, _NONCE, _SERVICE, Server, channel_credentials, grpc
from revfrf.transport.join_token import Authority
from revfrf.transport.memory import MemoryChannel, MemoryNetwork
from revfrf.transport.passport import PartyId, Passport
from tests.messages.test_messages import FULL
from tests.transport.links import (
    LIMITS,
    SOON,
    InMemory,
    Known,
    RawLink,
    cs_with,
    endpoint_of,
    invited_by,
    known,
    letter,
)
from tests.transport.parties import CS, authority

PARTIES = ("KGC", "CS", "CC", "bank", "telco", "clinic")
NUMBERS = count(1)


def role(name: str) -> str:
    return known(name).who.role


class Federation:
    """All roles, each of which writes down what it is asked, over `transport.memory`."""

    def __init__(self) -> None:
        self.roles = {name: Recorder(lambda *_: Done()) for name in PARTIES}
        self.network: Any = MemoryNetwork()
        for name, recorder in self.roles.items():
            self.network.connect(name, role(name), recorder)

    def asked(self) -> list[tuple[str, str, Message]]:
        """What has come to any role since this was asked last."""
        found = [(name, *call) for name, role in self.roles.items() for call in role.calls]
        for recorder in self.roles.values():
            recorder.calls.clear()
        return found

    def call(self, sender: str, recipient: str, message: Message) -> Message:
        """The reply, or PartyError."""
        return MemoryChannel(self.network, sender).call(recipient, message, Done)


class BetweenEndpoints(Federation):
    """The same over `transport.calls`."""

    def __init__(self) -> None:
        super().__init__()
        self.network = InMemory(self.roles["CS"], LIMITS)
        others = {name: self.network.add(name, self.roles[name]) for name in PARTIES if name != "CS"}
        self.endpoints = {"CS": self.network.cs} | others

    def call(self, sender: str, recipient: str, message: Message) -> Message:
        """CS cuts off a sender that goes too far; the next call begins with a new link."""
        endpoint = self.endpoints[sender]
        if sender != "CS" and not endpoint.present():
            self.network.join(endpoint)
        reply: Message = endpoint.call(recipient, message, Done)
        return reply


@pytest.fixture(scope="module", params=[Federation, BetweenEndpoints])
def federation(request: pytest.FixtureRequest) -> Iterator[Federation]:
    made: Federation = request.param()
    yield made
    if isinstance(made, BetweenEndpoints):
        made.network.close()


# -- by their roles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recipient", PARTIES)
@pytest.mark.parametrize("sender", PARTIES)
def test_exactly_what_a_role_may_say_reaches_the_other(
    federation: Federation, sender: str, recipient: str
) -> None:
    if sender == recipient:
        return
    allowed = set(calls_between(role(sender), role(recipient)))
    reached: set[type[Message]] = set()
    refusals: list[BaseException | None] = []
    for kind in MESSAGES:
        try:
            assert federation.call(sender, recipient, FULL[kind]) == Done()
        except PartyError as error:
            refusals.append(error.__cause__)
            expected = []
        else:
            expected = [(recipient, sender, FULL[kind])]
            reached.add(kind)
        assert federation.asked() == expected
    assert reached == allowed
    causes = [cause for cause in refusals if isinstance(cause, RejectedError)]
    assert len(causes) == (0 if isinstance(federation, BetweenEndpoints) else len(refusals))
    longest = max((kind.max_bytes for kind in allowed), default=0)
    larger = sum(len(encode(FULL[kind])) > longest for kind in set(MESSAGES) - allowed)
    assert [cause.kind for cause in causes].count("too-large") <= larger
    assert {cause.kind for cause in causes} <= {"sender", "too-large"}


def test_who_has_nothing_to_say_to_each_other_is_who_is_not_next_to_cs_or_kgc() -> None:
    """Otherwise the test above would pass with rules that allow nothing."""
    pairs = {(a, b) for a in PARTIES for b in PARTIES if a != b and calls_between(role(a), role(b))}
    assert ("KGC", "bank") in pairs
    assert ("bank", "KGC") in pairs
    assert all({"CS", "KGC"} & {a, b} for a, b in pairs)
    assert {kind for a, b in pairs for kind in calls_between(role(a), role(b))} < set(MESSAGES)


@pytest.mark.parametrize("recipient", ["bank", "CC", "clinic", "KGC"])
@pytest.mark.parametrize("writer", [name for name in PARTIES if name not in ("CS", "KGC")])
def test_what_a_cheating_cs_passes_on_is_judged_by_its_writer(writer: str, recipient: str) -> None:
    """CS carries letters that it should not, from and to whomever it likes."""
    if writer == recipient:
        return
    asked = Recorder(lambda *_: Done())
    endpoint = endpoint_of(recipient, asked)
    cs = RawLink(endpoint, "CS")
    numbers = {}
    for kind in MESSAGES:
        number = numbers[kind] = next(NUMBERS)
        cs.say(*letter(known(writer), recipient, number, FULL[kind]))
        cs.heard(len(numbers))
    allowed = set(calls_between(role(writer), role(recipient)))
    answered = {frame.call: frame.kind for frame in cs.heard(len(MESSAGES))}
    assert {kind for kind, number in numbers.items() if answered[number] == "reply"} == allowed
    assert {type(message) for _, message in asked.calls} == allowed
    assert {sender for sender, _ in asked.calls} <= {writer}


# -- by their names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", [name for name in PARTIES if name != "bank"])
def test_nobody_speaks_for_another_on_its_own_link(victim: str) -> None:
    asked = Recorder(lambda *_: Done())
    cs, [kgc] = cs_with("KGC", answer=asked)
    for kind in MESSAGES:
        for recipient in ("CS", "KGC"):
            bank = RawLink(cs, "bank")
            bank.say(*frames("call", victim, recipient, next(NUMBERS), encode(FULL[kind])))
            assert bank.closed
            assert bank.frames == []
    assert asked.calls == []
    assert kgc.frames == []


def all_letters_are_refused(
    recipient: str, writers: Iterable[Known], caller: str | None = None, **more: Any
) -> None:
    """Letters of every type, from these writers, to a party that must not be asked."""
    asked, sent = Recorder(lambda *_: Done()), 0
    cs = RawLink(endpoint_of(recipient, asked, **more), "CS")
    for writer in writers:
        for kind in MESSAGES:
            cs.say(*letter(writer, recipient, next(NUMBERS), FULL[kind], caller=caller))
            sent += 1
            cs.heard(sent)
    assert {frame.kind for frame in cs.heard(sent)} == {"refusal"}
    assert asked.calls == []


@pytest.mark.parametrize("recipient", ["bank", "KGC", "CC", "clinic"])
def test_nobody_writes_letters_in_the_name_of_another(recipient: str) -> None:
    """Signed by the one, in a place of the other; or with the certificates of the other."""
    for victim in set(PARTIES) - {recipient, "CS"}:
        writer = "telco" if victim != "telco" else "bank"
        if writer != recipient:
            all_letters_are_refused(recipient, [known(writer)], caller=victim)


# -- by their standing --------------------------------------------------------------------------------


def revoked(passport: Passport) -> None:
    if passport.who.name in ("bank", "KGC", "CC", "clinic"):
        raise PassportError(f"{passport.who} has left", kind="revoked")


@pytest.mark.parametrize("name", ["bank", "KGC", "CC", "clinic"])
def test_who_has_left_gets_no_link(name: str) -> None:
    cs = endpoint_of("CS", admit=revoked)
    with pytest.raises(RejectedError):
        RawLink(cs, name)
    assert cs.present() == set()
    late = Link(known(name).who, 0.0)
    for kind in MESSAGES:
        for recipient in ("CS", "KGC", "bank"):
            frame = Frame("call", name, recipient, next(NUMBERS), 1, 0, encode(FULL[kind])[:1])
            with pytest.raises(RejectedError):
                cs.received(late, frame.encode())


@pytest.mark.parametrize("recipient", ["KGC", "telco", "CC", "clinic"])
def test_letters_of_who_has_left_are_refused(recipient: str) -> None:
    writers = [known(name) for name in ("bank", "KGC") if name != recipient]
    all_letters_are_refused(recipient, writers, admit=revoked)


FOREIGN = Authority.new("breast cancer")


@pytest.mark.parametrize("recipient", ["KGC", "telco", "CC", "clinic"])
def test_letters_of_a_foreign_federation_are_refused(recipient: str) -> None:
    all_letters_are_refused(recipient, [invited_by(FOREIGN, known(name).who) for name in ("bank", "KGC")])


# -- over gRPC ----------------------------------------------------------------------------------------


@dataclass
class Listening:
    """CS's port, whose role must not be asked anything."""

    server: Server
    endpoint: Endpoint
    asked: Recorder

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@pytest.fixture(scope="module")
def listening() -> Iterator[Listening]:
    asked = Recorder(lambda *_: Done())
    endpoint = endpoint_of("CS", asked, admit=gone)
    server = Server(endpoint, known("CS").tls, "127.0.0.1:0")
    yield Listening(server, endpoint, asked)
    server.close()


def gone(passport: Passport) -> None:
    if passport.who.name == "gone":
        raise PassportError("has left", kind="revoked")


def in_all_frames(name: str) -> Iterator[bytes]:
    """Every message to everybody, without waiting to be let in."""
    for kind in MESSAGES:
        for recipient in PARTIES:
            for frame in frames("call", name, recipient, next(NUMBERS), encode(FULL[kind])):
                yield frame.encode()


TO_CS = [("grpc.ssl_target_name_override", CS.dns)]


@contextmanager
def saying_all(at: Listening, credentials: Any, name: str) -> Iterator[Any]:
    """The stream of somebody who dials as everybody does, but says all at once before it is let in."""
    with grpc.secure_channel(at.address, credentials, TO_CS) as channel:
        dial = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")
        yield dial(in_all_frames(name), timeout=SOON, metadata=((_NONCE, bytes(32)),))


def refused_by_tls_or_cs(at: Listening, credentials: Any, name: str) -> Any:
    """Whoever does not wait to be let in is heard by nobody."""
    met = at.endpoint.meetings()
    with saying_all(at, credentials, name) as stream, pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert at.endpoint.present() == set()
    assert at.endpoint.meetings() == met
    assert at.asked.calls == []
    return caught.value.code()


def test_without_certificates_nobody_is_heard(listening: Listening) -> None:
    credentials = grpc.ssl_channel_credentials(authority().certificate_pem)
    assert refused_by_tls_or_cs(listening, credentials, "bank") == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (PartyId("participant", "gone"), "has left"),
        (CS, "no link to CS 'CS'"),
        (PartyId("CS", "x"), "no link to CS 'x'"),
        (PartyId("participant", "KGC"), "uses a server's name"),
        (PartyId("KGC", "bank"), "uses a server's name or role"),
    ],
    ids=str,
)
def test_whom_cs_does_not_let_in_nobody_hears(
    listening: Listening, who: PartyId, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One who has left; another CS; one with the name of a server, or with its role."""
    credentials, _ = channel_credentials(invited_by(authority(), who).tls)
    assert refused_by_tls_or_cs(listening, credentials, who.name) == grpc.StatusCode.PERMISSION_DENIED
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("refused a link: ")
    assert reason in said


def test_over_tls_too_nobody_speaks_for_another(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("telco", "KGC", "CS"):
        credentials, _ = channel_credentials(known("bank").tls)
        with saying_all(listening, credentials, name) as stream:
            with suppress(grpc.RpcError):
                assert next(stream, None) is None
            assert stream.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.OK)  # cut off, or ended
        until(lambda: listening.endpoint.present() == set())
        logged = f"closing the link to bank: 'bank' sent a frame in the name of {name!r}"
        until(lambda logged=logged: logged in caplog.messages)  # type: ignore[misc]
    assert listening.asked.calls == []
