"""Parties that call each other: over links in memory, good and bad ones, and over gRPC on this machine."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from threading import Event
from typing import Any

import pytest

from revfrf.crypto.signing import SigningKey
from revfrf.errors import AbsentError, RejectedError
from revfrf.messages.base import Done, Message
from revfrf.testing.recorders import Recorder, until
from revfrf.transport import calls, connections
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.connections import Link, Timeouts
from revfrf.transport.frames import Frame, frames
from revfrf.transport.grpc import Dialler, Server
from revfrf.transport.join_token import Authority, TlsIdentity, join
from revfrf.transport.letters import Letter, Place, Sealing
from revfrf.transport.passport import PartyId, Passport
from tests.transport.parties import ADDRESS, VERIFY_KEY, authority

Answer = Callable[[str, Message], Message]
SOON = 60.0
"""Seconds in which a slow machine, too, has done whatever has to happen."""

LIMITS = Timeouts(heartbeat=2 * SOON, call=2 * SOON)
"""Longer than that: what ends soon was not ended by them."""

ROLE_OF = {name: name for name in ("KGC", "CS", "CC")} | {"clinic": "requester"}


@dataclass(frozen=True)
class Known:
    """A party with certificates, and the keys that go with them."""

    tls: TlsIdentity
    signing: SigningKey
    sealing: Sealing

    @property
    def who(self) -> PartyId:
        return self.tls.who

    @property
    def passport(self) -> Passport:
        return self.tls.passport

    def restarted(self) -> Sealing:
        """The same party in another process, which has offered no key yet."""
        return Sealing(self.tls, self.signing)


def invited_by(kgc: Authority, who: PartyId, serial: int = 1) -> Known:
    signing = SigningKey.generate()
    token = kgc.invite(who, ADDRESS, VERIFY_KEY, serial)
    tls = join(token, signing.verify_key.raw)
    return Known(tls, signing, Sealing(tls, signing))


@lru_cache
def known(name: str, role: str | None = None) -> Known:
    """The party of this name: a server, a requester called clinic, or a participant."""
    return invited_by(authority(), PartyId(role or ROLE_OF.get(name, "participant"), name))


def nothing(sender: str, message: Message) -> Message:
    raise AssertionError(f"{sender} has sent a {type(message).__name__}")


OPEN: list[Endpoint] = []
"""Endpoints that are closed when the test that has opened them ends."""


def endpoint_of(
    name: str,
    answer: Answer = nothing,
    limits: Timeouts = LIMITS,
    sealing: Sealing | None = None,
    **more: Any,
) -> Endpoint:
    """The endpoint of a party, for as long as the test runs."""
    party = known(name)
    OPEN.append(Endpoint(party.who, answer, sealing or party.sealing, limits, **more))
    return OPEN[-1]


def offer_of(reader: Known, caller: str) -> Letter:
    """A fresh key of this reader, for a letter of this caller; without its signature."""
    return Letter(reader.passport, reader.sealing._keys.make(caller))


def letter(
    writer: Known, reader: str, number: int, message: Message, caller: str | None = None
) -> list[Frame]:
    """A sealed call as CS passes it on: in the name of the writer, or of another caller."""
    name = caller or writer.who.name
    sealed, _ = writer.sealing.seal((name, reader, number), offer_of(known(reader), name), encode(message))
    return list(frames("call", name, reader, number, sealed))


def place(frame: Frame) -> Place:
    """Whose hello or call this is, to whom, and its number."""
    return frame.sender, frame.recipient, frame.call


@contextmanager
def no_threads_left() -> Iterator[None]:
    """What begins here has ended, too."""
    before = set(threading.enumerate())
    yield
    until(lambda: set(threading.enumerate()) <= before)


class Clock:
    """Time as calls and links see it: it stands still until somebody moves it. Heartbeats go on."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        patch.setattr(connections, "time", self)
        patch.setattr(calls, "time", self)

    def monotonic(self) -> float:
        return self.now


# -- links in memory ----------------------------------------------------------------------------------


Faults = Callable[[bytes], list[bytes]]
"""What a link does with what is sent over it: the frames that come out when one goes in."""


def faithful(data: bytes) -> list[bytes]:
    return [data]


class Unreliable:
    """Drops and delays frames by a seed, about one in `rate` each, as long as there are `chances`."""

    def __init__(self, seed: int, rate: int, chances: Iterator[int] | None = None) -> None:
        self._rng, self._rate = random.Random(seed), rate
        self._chances = chances or count()
        self._delayed: list[bytes] = []

    def __call__(self, data: bytes) -> list[bytes]:
        fault, out = self._rng.randrange(self._rate), [data]
        if fault < 2 and next(self._chances, None) is None:
            fault = self._rate
        if fault == 0:
            out = []
        elif fault == 1:
            out, self._delayed = [], [*self._delayed, data]
        if self._delayed and self._rng.random() < 0.5:
            out.append(self._delayed.pop(self._rng.randrange(len(self._delayed))))
        return out


class MemoryLink(Link):
    """One end of a link in memory: what is sent comes out at `other`, in a thread of its own."""

    other: "MemoryLink"

    def __init__(self, endpoint: Endpoint, who: PartyId, faults: Faults) -> None:
        super().__init__(who, SOON)
        self.endpoint, self._faults, self.silent = endpoint, faults, False

    def start(self) -> None:
        threading.Thread(target=self._pump, name="memory link", daemon=True).start()

    def close(self) -> None:
        for end in (self, self.other):
            Link.close(end)

    def _pump(self) -> None:
        try:
            for data in self.outgoing():
                for each in [] if self.silent else self._faults(data):
                    self.other.endpoint.received(self.other, each)
        except RejectedError:
            self.close()
        self.other.endpoint.disconnected(self.other)


def link_up(
    hub: Endpoint, leaf: Endpoint, passport: Passport, faults: Callable[[], Faults] = lambda: faithful
) -> MemoryLink:
    """A link between CS and somebody. Returns the end of the latter."""
    there, here = MemoryLink(hub, passport.who, faults()), MemoryLink(leaf, hub.who, faults())
    there.other, here.other = here, there
    hub.connected(there, passport)
    leaf.connected(here, hub.sealing._tls.passport)
    there.start()
    here.start()
    return here


# -- networks -----------------------------------------------------------------------------------------


class InMemory:
    """Links in memory."""

    def __init__(
        self,
        answer: Answer = nothing,
        limits: Timeouts = LIMITS,
        faults: Callable[[], Faults] = lambda: faithful,
        **more: Any,
    ) -> None:
        self.limits, self._faults = limits, faults
        self.cs = endpoint_of("CS", answer, limits, **more)
        self.endpoints = [self.cs]
        self.links: dict[str, MemoryLink] = {}

    def add(self, name: str, answer: Answer = nothing, **more: Any) -> Endpoint:
        endpoint = endpoint_of(name, answer, self.limits, known(name).restarted(), **more)
        self.endpoints.append(endpoint)
        self.join(endpoint)
        return endpoint

    def join(self, endpoint: Endpoint, party: Known | None = None) -> MemoryLink:
        passport = (party or known(endpoint.who.name)).passport
        link = link_up(self.cs, endpoint, passport, self._faults)
        self.links[endpoint.who.name] = link
        return link

    def cut(self, name: str) -> None:
        self.links[name].close()
        until(lambda: name not in self.cs.present())

    def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.close()


class OverGrpc:
    """Links over gRPC, with TLS."""

    def __init__(self, answer: Answer = nothing, limits: Timeouts = LIMITS, **more: Any) -> None:
        self.limits = limits
        self.cs = Endpoint(PartyId("CS", "CS"), answer, known("CS").sealing, limits, **more)
        self.server = Server(self.cs, known("CS").tls, "127.0.0.1:0")
        self.diallers: dict[str, Dialler] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def add(self, name: str, answer: Answer = nothing, **more: Any) -> Endpoint:
        party = known(name)
        endpoint = Endpoint(party.who, answer, party.restarted(), self.limits, **more)
        self.diallers[name] = Dialler(endpoint, party.tls, self.address)
        assert self.cs.wait_for([name], SOON) == []
        assert endpoint.wait_for(["CS"], SOON) == []
        return endpoint

    def cut(self, name: str) -> None:
        """It hangs up for good: a dialler alone would come back."""
        self.diallers[name].close()
        until(lambda: name not in self.cs.present())

    def close(self) -> None:
        for dialler in self.diallers.values():
            dialler.close()
        self.server.close()


Network = InMemory | OverGrpc


# -- what others see ----------------------------------------------------------------------------------


class Held(Recorder):
    """A role that answers everybody, or only one sender, not before it is let go."""

    def __init__(self, answer: Answer = lambda *_: Done(), only: str | None = None) -> None:
        super().__init__(self._late)
        self._later, self._only, self.asked, self.end = answer, only, Event(), Event()

    def _late(self, sender: str, message: Message) -> Message:
        self.asked.set()
        if self._only in (None, sender):
            self.end.wait(2 * SOON)
        return self._later(sender, message)


class RawLink(Link):
    """A neighbour of an endpoint who sends what it likes, and sees what comes back."""

    def __init__(self, endpoint: Endpoint, name: str = "", passport: Passport | None = None) -> None:
        shown = passport or known(name).passport
        super().__init__(shown.who, SOON)
        self.endpoint = endpoint
        self.frames: list[Frame] = []
        endpoint.connected(self, shown)

    @property
    def closed(self) -> bool:
        return not self._open

    def send(self, frame: bytes, wait: bool = True) -> None:  # noqa: ARG002
        if self.closed:
            raise AbsentError(self.who.name, "is not accepting data")
        self.frames.append(Frame.decode(frame))

    pass_on = send

    def say(self, *frames: Frame) -> None:
        """Send these; an error ends the link, as whoever carries frames does it."""
        try:
            for frame in frames:
                self.endpoint.received(self, frame.encode())
        except RejectedError:
            self.endpoint.disconnected(self)

    def heard(self, count: int = 1, *, kind: str | None = None) -> list[Frame]:
        """Wait for so many frames, but for pings."""
        found: list[Frame] = []

        def enough() -> bool:
            said = [frame for frame in self.frames if frame.kind != "ping"]
            found[:] = [frame for frame in said if kind in (None, frame.kind)]
            return len(found) >= count

        until(enough)
        return found


def cs_with(*names: str, answer: Answer = nothing) -> tuple[Endpoint, list[RawLink]]:
    """CS, and raw links of these parties to it."""
    cs = endpoint_of("CS", answer)
    return cs, [RawLink(cs, name) for name in names]
