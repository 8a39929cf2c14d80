"""Calls between parties on different machines, over links that come and go.

Every party has one link, to CS, and CS one to everybody. What is not for CS itself, CS passes on: between KGC
and anybody else, sealed, so that CS neither reads nor changes it. A link knows who is at its other end, and a
message is answered only if its sender's role may send such a thing to this one; nothing else of it is even
decoded. A call is answered at most once, and every wait ends: when the answer comes, the link breaks or goes
silent, or the longest time is over.
"""

import itertools
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition, Event, Lock, Thread
from typing import Protocol

from revfrf.errors import (
    AbsentError,
    ProtocolError,
    RefusedError,
    RejectedError,
    RevFRFError,
    StorageError,
)
from revfrf.messages.base import MIB, Message
from revfrf.messages.network import Chain, WhoIs
from revfrf.messages.registry import calls_between
from revfrf.metering import Ledger, measured
from revfrf.transport.base import Reply
from revfrf.transport.codec import decode, encode
from revfrf.transport.frames import Assembly, Frame, Kind, frames
from revfrf.transport.passport import Passport, Who
from revfrf.transport.sealed import Sealing

log = logging.getLogger(__name__)

HUB, CENTRE = "CS", "KGC"
_STRANGERS = ("participant", "requester")
_RELAYED = 65 * MIB
_REMEMBERED = 4096
_ANSWERING = 64
"""Calls that a party answers at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: between signs of life, and for the longest call. A link is dead after three such silences."""

    heartbeat: float = 10.0
    call: float = 3600.0

    @property
    def silence(self) -> float:
        """After how long without a sign of life a link is dead."""
        return 3 * self.heartbeat


class Link(Protocol):
    """The way to a neighbour, who is known by its certificate."""

    who: Who

    def send(self, frame: bytes) -> None:
        """Send a frame, or raise AbsentError."""

    def close(self) -> None:
        """Nothing is sent or received any more."""


@dataclass(eq=False)
class _Line:
    """A link in use: what is on its way, and when there was last a sign of life."""

    link: Link
    assembly: Assembly = field(default_factory=Assembly)
    heard: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Waiting:
    """A call that waits for what comes back."""

    recipient: str
    line: _Line
    limit: int
    done: Event = field(default_factory=Event)
    kind: Kind | None = None
    data: bytes = b""

    def end(self, kind: Kind, data: bytes = b"") -> None:
        if not self.done.is_set():
            self.kind, self.data = kind, data
            self.done.set()


class Endpoint:
    """One party's end of all its calls.

    `answer` is its role; `admit` may refuse a neighbour, or whoever sends something sealed, by its passport;
    `failed` is told when the party's own disk fails it.
    """

    def __init__(
        self,
        who: Who,
        answer: Callable[[str, Message], Message],
        sealing: Sealing,
        limits: Limits | None = None,
        admit: Callable[[Passport], None] = lambda _: None,
        failed: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.who, self.limits, self.ledger = who, limits or Limits(), Ledger()
        self._answer, self._sealing, self._admit, self._failed = answer, sealing, admit, failed
        self._lines: dict[str, _Line] = {}
        self._met: Counter[str] = Counter()
        self._chains: dict[str, bytes] = {}
        self._passports: dict[str, Passport] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._answered: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._oldest: dict[str, int] = {}
        self._numbers = itertools.count(time.time_ns())  # higher than those of any process before
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._closed = Event()
        self._pool = ThreadPoolExecutor(_ANSWERING, thread_name_prefix="answer")
        Thread(target=self._keep_alive, name="heartbeat", daemon=True).start()

    @property
    def is_hub(self) -> bool:
        """Whether this is CS."""
        return self.who.name == HUB

    # -- links --------------------------------------------------------------------------------------

    def connected(self, link: Link, passport: Passport | None = None) -> None:
        """A link is up; an older one to the same neighbour is not needed any more.

        CS, who is asked for them, wants everybody's passport. Raises RejectedError for a neighbour who is not
        let in.
        """
        who = link.who
        if (who.role == HUB) == self.is_hub or (who.name in (HUB, CENTRE, "CC")) != (who.name == who.role):
            raise ProtocolError(f"a link to {who.role} {who.name!r}", kind="sender")
        if passport is not None:
            self._admit(passport)
        with self._changed:
            before = self._lines.get(who.name)
            self._lines[who.name] = _Line(link)
            self._met[who.name] += 1
            if passport is not None:
                self._chains[who.name] = passport.chain
            self._changed.notify_all()
        if before is not None:
            self._lose(before)

    def disconnected(self, link: Link) -> None:
        """A link is down: whoever waits for an answer over it waits no longer."""
        with self._changed:
            line = self._lines.get(link.who.name)
            if line is None or line.link is not link:
                return
            del self._lines[link.who.name]
            self._changed.notify_all()
        self._lose(line)

    def _lose(self, line: _Line) -> None:
        line.link.close()
        with self._lock:
            lost = [waiting for waiting in self._waiting.values() if waiting.line is line]
        for waiting in lost:
            waiting.end("absence")

    def present(self) -> set[str]:
        """The names of all neighbours."""
        with self._lock:
            return set(self._lines)

    def meetings(self) -> dict[str, int]:
        """How often each neighbour has come so far."""
        with self._lock:
            return dict(self._met)

    def expel(self, names: Collection[str]) -> None:
        """Break the links to these."""
        with self._lock:
            lines = [self._lines[name] for name in names if name in self._lines]
        for line in lines:
            self.disconnected(line.link)

    def wait_for(self, names: Collection[str], seconds: float) -> Sequence[str]:
        """Wait until all of these are neighbours; return who is missing when time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or set(names) <= self._lines.keys(), seconds)
            return sorted(set(names) - self._lines.keys())

    def close(self) -> None:
        """End all calls and links."""
        self._closed.set()
        with self._changed:
            lines, self._lines = list(self._lines.values()), {}
            self._changed.notify_all()
        for line in lines:
            self._lose(line)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _keep_alive(self) -> None:
        while not self._closed.wait(self.limits.heartbeat):
            now = time.monotonic()
            with self._lock:
                lines = list(self._lines.items())
            for name, line in lines:
                if now - line.heard > self.limits.silence:
                    log.warning("%s is silent", name)
                    self.disconnected(line.link)
                else:
                    self._send(line, Frame("ping", self.who.name, name, 0))

    def _send(self, line: _Line, *pieces: Frame) -> None:
        """Send; a link that does not take it is down."""
        try:
            for piece in pieces:
                line.link.send(piece.encode())
        except AbsentError:
            self.disconnected(line.link)

    # -- calling ------------------------------------------------------------------------------------

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        """See `transport.base.Channel`."""
        data, number = encode(request), next(self._numbers)
        line = self._line_to(recipient)
        peer = None if HUB in (self.who.name, recipient) else self._passport_of(recipient)
        if peer is not None:
            data = self._sealing.seal(("call", self.who.name, recipient, number), peer, data)
        limit = reply_type.max_bytes + (0 if peer is None else Sealing.OVERHEAD)
        waiting = _Waiting(recipient, line, limit)
        with self._lock:
            self._waiting[number] = waiting
        try:
            self._send(line, *frames("call", self.who.name, recipient, number, data))
            if not waiting.done.wait(self.limits.call):
                raise AbsentError(recipient, f"has not answered within {self.limits.call:,.0f} seconds")
        finally:
            with self._lock:
                del self._waiting[number]
        match waiting.kind:
            case "absence":
                raise AbsentError(recipient, "is not connected; start it, and go on")
            case "refusal":
                raise RefusedError(recipient, f"has refused: {_told(waiting.data)}")
        answer = waiting.data
        if peer is not None:
            sender, answer = self._sealing.open(("reply", recipient, self.who.name, number), answer)
            if sender.who != peer.who or sender.verify_key != peer.verify_key:
                raise ProtocolError("an answer by somebody else", kind="sender")
        return decode(answer, reply_type)

    def _line_to(self, recipient: str) -> _Line:
        if not self.is_hub:
            self.wait_for([HUB], self.limits.heartbeat)  # it is being dialled
        with self._lock:
            line = self._lines.get(recipient if self.is_hub else HUB)
        if line is None:
            raise AbsentError(recipient, "is not connected; start it, and go on")
        return line

    def _passport_of(self, name: str) -> Passport:
        """Who is at the far end of what CS passes on. CS is asked, and not believed."""
        known = self._passports.get(name)
        if known is None:
            try:
                known = self._sealing.read(self.call(HUB, WhoIs(name=name), Chain).pem)
            except RefusedError:
                raise AbsentError(name, "is not connected; start it, and go on") from None
            if known.who.name != name:
                raise ProtocolError(f"the certificates of {known.who.name!r}", kind="sender")
            self._admit(known)
            self._passports[name] = known
        return known

    # -- receiving ----------------------------------------------------------------------------------

    def received(self, link: Link, data: bytes) -> None:
        """A frame has come. It is dealt with in other threads. Raises RejectedError to end the link."""
        with self._lock:
            line = self._lines.get(link.who.name)
        if line is None or line.link is not link:
            raise ProtocolError("a frame over a link that is not in use", kind="sender")
        frame = Frame.decode(data)
        line.heard = time.monotonic()
        if self.is_hub and frame.sender != line.link.who.name:
            raise ProtocolError(f"{line.link.who.name!r} speaks for {frame.sender!r}", kind="sender")
        if frame.kind == "ping":
            return
        if frame.recipient != self.who.name:
            self._relay(line, frame, data)
            return
        if frame.kind == "call":
            message = line.assembly.add(frame, self._call_limit(frame.sender))
            if message is not None and self._is_new(frame.sender, frame.call):
                self._pool.submit(self._answer_call, line, frame, message)
            return
        with self._lock:
            waiting = self._waiting.get(frame.call)
        if waiting is None or waiting.recipient != frame.sender or waiting.line is not line:
            return  # too late, or never asked for
        message = line.assembly.add(frame, waiting.limit)
        if message is not None:
            waiting.end(frame.kind, message)

    def _relay(self, line: _Line, frame: Frame, data: bytes) -> None:
        """CS passes on what KGC and the others have to say to each other."""
        if not self.is_hub or CENTRE not in (frame.sender, frame.recipient) or frame.size > _RELAYED:
            raise ProtocolError(f"{frame.sender!r} writes to {frame.recipient!r}", kind="sender")
        with self._lock:
            onward = self._lines.get(frame.recipient)
        if onward is not None:
            try:
                onward.link.send(data)
                return
            except AbsentError:
                self.disconnected(onward.link)
        if frame.kind == "call" and frame.offset == 0:
            self._send(line, Frame("absence", frame.recipient, frame.sender, frame.call))

    def _call_limit(self, sender: str) -> int:
        """How long a call of this sender may be; of somebody at the far end only the name is known yet."""
        with self._lock:
            line = self._lines.get(sender)
        roles = (line.link.who.role,) if line else (CENTRE,) if sender == CENTRE else _STRANGERS
        kinds = [kind for role in roles for kind in calls_between(role, self.who.role)]
        return max((kind.max_bytes for kind in kinds), default=0) + (0 if line else Sealing.OVERHEAD)

    def _is_new(self, sender: str, number: int) -> bool:
        """Whether this call was not seen before; the numbers of a sender ascend."""
        with self._lock:
            if number <= self._oldest.get(sender, -1) or (sender, number) in self._answered:
                return False
            self._answered[sender, number] = None
            if len(self._answered) > _REMEMBERED:
                (oldest, forgotten), _ = self._answered.popitem(last=False)
                self._oldest[oldest] = max(forgotten, self._oldest.get(oldest, -1))
        return True

    def _answer_call(self, line: _Line, frame: Frame, data: bytes) -> None:
        """Answer or refuse, in a thread of its own."""
        header = (frame.sender, self.who.name, frame.call)
        kind: Kind = "reply"
        try:
            who, peer = line.link.who, None
            if frame.sender != who.name:
                peer, data = self._sealing.open(("call", *header), data)
                who = peer.who
                if who.name != frame.sender:
                    raise ProtocolError(f"{who.name!r} speaks for {frame.sender!r}", kind="sender")
                self._admit(peer)
            reply = self._reply(who, data)
            if peer is not None:
                reply = self._sealing.seal(("reply", self.who.name, frame.sender, frame.call), peer, reply)
        except RevFRFError as error:
            log.warning("refused a message of %s: %s", frame.sender, error)
            told = error.peer_message if isinstance(error, RejectedError) else RejectedError.peer_message
            kind, reply = "refusal", told.encode()
            if isinstance(error, StorageError):
                self._failed(error)
        except Exception:
            log.exception("a message of %s could not be answered", frame.sender)
            kind, reply = "refusal", RejectedError.peer_message.encode()
        self._send(line, *frames(kind, self.who.name, frame.sender, frame.call, reply))

    def _reply(self, sender: Who, data: bytes) -> bytes:
        kinds = calls_between(sender.role, self.who.role)
        if not kinds:
            raise ProtocolError(f"{sender.role} has nothing to say to {self.who.role}", kind="sender")
        message = decode(data, *kinds)
        with measured(self.ledger, self.who.name, message.protocol):
            if isinstance(message, WhoIs):
                return encode(self._chain_of(message.name))
            return encode(self._answer(sender.name, message))

    def _chain_of(self, name: str) -> Chain:
        with self._lock:
            chain = self._chains.get(name)
        if chain is None:
            raise ProtocolError(f"nobody here is called {name!r}", kind="member")
        return Chain(pem=chain)


def _told(data: bytes) -> str:
    """What a peer says of its refusal, in so far as it can be printed."""
    try:
        text = data[:200].decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and text.isprintable() else RejectedError.peer_message
