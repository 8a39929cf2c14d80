"""Calls between parties on different machines, over links that come and go.

Every party has one link, to CS, and CS one to everybody. What is not for CS itself, CS passes on: between KGC
and anybody else, sealed, so that CS neither reads nor changes it. A link knows who is at its other end, and a
message is answered only if its sender's role may send such a thing to this one; nothing else of it is even
decoded. A call is answered at most once, and every wait ends: when the answer comes, a link on the way breaks
or goes silent, or the longest time is over.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, takewhile
from threading import Condition, Event, Lock, Thread

from revfrf.errors import (
    AbsentError,
    FormatError,
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
from revfrf.transport.frames import Frame, Key, Kind, Line, Link, Seen, Waiting, frames, refusal
from revfrf.transport.passport import Passport, Who
from revfrf.transport.sealed import Sealing

log = logging.getLogger(__name__)

HUB, CENTRE = "CS", "KGC"
_SERVERS = {HUB, CENTRE, "CC"}
_STRANGERS = ("participant", "requester")
_RELAYED = 65 * MIB
_ANSWERING = 64
"""Calls that a party answers at once."""

_AWAY = "is not connected; start it, and go on"


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: between signs of life, and for the longest call. A link is dead after three such silences."""

    heartbeat: float = 10.0
    call: float = 3600.0

    @property
    def silence(self) -> float:
        """After how long without a sign of life a link is dead."""
        return 3 * self.heartbeat


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
        self._answer, self.sealing, self._admit, self._failed = answer, sealing, admit, failed
        self._lines: dict[str, Line] = {}
        self._met: Counter[str] = Counter()
        self._chains: dict[str, bytes] = {}
        self._waiting: dict[int, Waiting] = {}
        self._seen: dict[str, Seen] = {}
        self._numbers = count(time.time_ns())  # higher than those of any process before
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

        Raises RejectedError for a neighbour who is not let in.
        """
        who = link.who
        if (who.role == HUB) == self.is_hub or (passport is not None and passport.who != who):
            raise ProtocolError(f"a link to {who}", kind="sender")
        if passport is not None:
            try:
                self._let_in(passport)
            except StorageError as error:
                self._failed(error)
                raise
        with self._changed:
            if self._closed.is_set():
                raise ProtocolError("a link to a party that has hung up", kind="order")
            before = self._lines.get(who.name)
            self._lines[who.name] = Line(link)
            self._met[who.name] += 1
            if passport is not None:
                self._chains[who.name] = passport.chain
            self._changed.notify_all()
        if before is not None:
            self._drop(before)

    def disconnected(self, link: Link) -> None:
        """A link is down: whoever waits for an answer over it waits no longer."""
        with self._lock:
            line = self._lines.get(link.who.name)
        if line is not None and line.link is link:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        name = line.link.who.name
        with self._changed:
            if self._lines.get(name) is line:
                del self._lines[name]
                self._changed.notify_all()
        line.link.close()
        with self._lock:
            lost = [waiting for waiting in self._waiting.values() if waiting.line is line]
            owed, line.owed = line.owed, {}
            callers = [(self._lines.get(caller), number) for caller, number in owed]
        for waiting in lost:
            waiting.end("absence")
        for caller, number in callers:
            if caller is not None:
                self._send(caller, [Frame("absence", name, caller.link.who.name, number)])

    def _let_in(self, passport: Passport) -> None:
        """Raise RejectedError for whoever is not to be talked to."""
        who = passport.who
        if {who.role, who.name} & _SERVERS and who.role != who.name:
            raise ProtocolError(f"{who} has the name of a server, or its role", kind="sender")
        self._admit(passport)

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
            self._drop(line)

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
            self._drop(line)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _keep_alive(self) -> None:
        while not self._closed.wait(self.limits.heartbeat):
            now = time.monotonic()
            with self._lock:
                lines = list(self._lines.items())
            for name, line in lines:
                if now - line.heard > self.limits.silence:
                    log.warning("%s is silent", name)
                    self._drop(line)
                else:
                    self._send(line, [Frame("ping", self.who.name, name, 0)], wait=False)

    def _send(self, line: Line, pieces: Iterable[Frame], wait: bool = True) -> None:
        """Send; a link that does not take it is down."""
        try:
            for piece in pieces:
                line.link.send(piece.encode(), wait)
        except AbsentError:
            self._drop(line)

    # -- calling ------------------------------------------------------------------------------------

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        """See `transport.base.Channel`."""
        data, number = encode(request), next(self._numbers)
        line = self._line_to(recipient)
        peer = None if HUB in (self.who.name, recipient) else self._passport_of(recipient)
        if peer is not None:
            data = self.sealing.seal(("call", self.who.name, recipient, number), peer, data)
        limit = reply_type.max_bytes + (0 if peer is None else Sealing.OVERHEAD)
        waiting = Waiting(recipient, line, limit, time.monotonic() + self.limits.call)
        with self._lock:
            self._waiting[number] = waiting
        pieces = frames("call", self.who.name, recipient, number, data)
        try:
            self._send(line, takewhile(lambda _: waiting.goes_on, pieces))
            if not waiting.ended():
                raise AbsentError(recipient, f"has not answered within {self.limits.call:,.0f} seconds")
        finally:
            with self._lock:
                del self._waiting[number]
        kind, answer = waiting.result
        if kind == "absence":
            raise AbsentError(recipient, _AWAY)
        if kind == "refusal":
            raise RefusedError(recipient, f"has refused: {refusal(answer)}")
        if peer is not None:
            sender, answer = self.sealing.open(("reply", recipient, self.who.name, number), answer)
            if sender.who != peer.who or sender.verify_key != peer.verify_key:
                raise ProtocolError("an answer by somebody else", kind="sender")
        return decode(answer, reply_type)

    def _line_to(self, recipient: str) -> Line:
        if not self.is_hub:
            self.wait_for([HUB], self.limits.heartbeat)  # it is being dialled
        with self._lock:
            line = self._lines.get(recipient if self.is_hub else HUB)
        if line is None:
            raise AbsentError(recipient, _AWAY)
        return line

    def _passport_of(self, name: str) -> Passport:
        """Who is at the far end of what CS passes on. CS is asked, and not believed."""
        try:
            found = self.sealing.read(self.call(HUB, WhoIs(name=name), Chain).pem)
        except RefusedError:
            raise AbsentError(name, _AWAY) from None
        if found.who.name != name:
            raise ProtocolError(f"the certificates of {found.who.name!r}", kind="sender")
        self._let_in(found)
        return found

    # -- receiving ----------------------------------------------------------------------------------

    def received(self, link: Link, data: bytes) -> None:
        """A frame has come. It is dealt with in other threads. Raises RejectedError to end the link."""
        with self._lock:
            line = self._lines.get(link.who.name)
        if line is None or line.link is not link:
            raise ProtocolError("a frame over a link that is not in use", kind="sender")
        line.heard = math.inf  # whoever is being listened to is not silent
        try:
            self._receive(line, Frame.decode(data), data)
        finally:
            line.heard = time.monotonic()

    def _receive(self, line: Line, frame: Frame, data: bytes) -> None:
        neighbour, waiting = line.link.who.name, None
        if self.is_hub and frame.sender != neighbour:
            raise ProtocolError(f"{neighbour!r} speaks for {frame.sender!r}", kind="sender")
        if frame.kind == "ping":
            return
        if frame.recipient != self.who.name:
            self._relay(line, frame, data)
            return
        if frame.kind != "call":
            waiting = self._waiting_for(line, frame.key)
            if waiting is None:
                return  # too late, or never asked for
        try:
            limit = self._call_limit(frame.sender) if waiting is None else waiting.limit
            message = line.assembly.add(frame, limit)
        except FormatError:
            if frame.sender == neighbour:
                raise
            message = None  # nobody at the far end can break this link
            self._give_up(line, frame.key, "refusal")
        for key in line.assembly.lost():
            self._give_up(line, key, "absence")
        if message is not None and waiting is not None:
            waiting.end(frame.kind, message)
        elif message is not None:
            self._take(line, frame, message)

    def _give_up(self, line: Line, key: Key, kind: Kind) -> None:
        """Nobody waits for what does not come."""
        what, sender, _, number = key
        if what == "call":
            self._send(line, frames(kind, self.who.name, sender, number))
        elif (waiting := self._waiting_for(line, key)) is not None:
            waiting.end(kind)

    def _waiting_for(self, line: Line, key: Key) -> Waiting | None:
        """Who waits for this answer, over this link."""
        with self._lock:
            found = self._waiting.get(key[3])
        return found if found is not None and (found.recipient, found.line) == (key[1], line) else None

    def _relay(self, line: Line, frame: Frame, data: bytes) -> None:
        """CS passes on what KGC and the others have to say to each other."""
        if not self.is_hub or CENTRE not in (frame.sender, frame.recipient) or frame.size > _RELAYED:
            raise ProtocolError(f"{frame.sender!r} writes to {frame.recipient!r}", kind="sender")
        begins, ends = frame.offset == 0, frame.offset + len(frame.piece) >= frame.size
        with self._lock:
            onward = self._lines.get(frame.recipient)
            if frame.kind != "call" and ends:
                line.owed.pop((frame.recipient, frame.call), None)
            elif frame.kind == "call" and begins and onward is not None:
                onward.owe(frame.sender, frame.call)
        if onward is not None:
            try:
                onward.link.send(data)
            except AbsentError:
                self._drop(onward)
        elif frame.kind == "call" and begins:
            self._send(line, [Frame("absence", frame.recipient, frame.sender, frame.call)])

    def _call_limit(self, sender: str) -> int:
        """How long a call of this sender may be; of somebody at the far end only the name is known yet."""
        with self._lock:
            line = self._lines.get(sender)
        roles = (line.link.who.role,) if line else (CENTRE,) if sender == CENTRE else _STRANGERS
        kinds = [kind for role in roles for kind in calls_between(role, self.who.role)]
        return max((kind.max_bytes for kind in kinds), default=0) + (0 if line else Sealing.OVERHEAD)

    def _take(self, line: Line, frame: Frame, data: bytes) -> None:
        """Have a call answered in another thread, unless too many of this link wait already."""
        with self._lock:
            taken = not self._closed.is_set() and line.load.take(len(data))
            if taken:
                future = self._pool.submit(self._answer_call, line, frame, data)
                future.add_done_callback(lambda _: line.load.give_back(len(data)))
        if not taken:
            self._send(line, frames("refusal", self.who.name, frame.sender, frame.call, b"too much at once"))

    def _answer_call(self, line: Line, frame: Frame, data: bytes) -> None:
        """Answer or refuse, in a thread of its own; nothing, if the call has come before."""
        header = (frame.sender, self.who.name, frame.call)
        kind: Kind = "reply"
        try:
            who, peer = line.link.who, None
            if frame.sender != who.name:
                peer, data = self.sealing.open(("call", *header), data)
                who = peer.who
                if who.name != frame.sender:
                    raise ProtocolError(f"{who.name!r} speaks for {frame.sender!r}", kind="sender")
                self._let_in(peer)
            with self._lock:
                seen = line.seen if peer is None else self._seen.setdefault(who.name, Seen())
                if not seen.is_new(frame.call):
                    return
            reply = self._reply(who, data)
            if peer is not None:
                reply = self.sealing.seal(("reply", self.who.name, frame.sender, frame.call), peer, reply)
        except RevFRFError as error:
            log.warning("refused a message of %s: %s", frame.sender, error)
            told = error.peer_message if isinstance(error, RejectedError) else RejectedError.peer_message
            kind, reply = "refusal", told.encode()
            if isinstance(error, StorageError):
                self._failed(error)
        except Exception:
            log.exception("a message of %s could not be answered", frame.sender)
            kind, reply = "refusal", b""
        self._send(line, frames(kind, self.who.name, frame.sender, frame.call, reply))

    def _reply(self, sender: Who, data: bytes) -> bytes:
        kinds = calls_between(sender.role, self.who.role)
        if not kinds:
            raise ProtocolError(f"{sender.role} has nothing to say to {self.who.role}", kind="sender")
        message = decode(data, *kinds)
        with measured(self.ledger, self.who.name, message.protocol):
            if not isinstance(message, WhoIs):
                return encode(self._answer(sender.name, message))
            if message.name not in self._chains:
                raise ProtocolError(f"nobody here is called {message.name!r}", kind="member")
            return encode(Chain(pem=self._chains[message.name]))
