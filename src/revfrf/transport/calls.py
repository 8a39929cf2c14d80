"""Calls between parties on different machines, over links that come and go.

Every party has one link, to CS, and CS one to everybody. What is not for CS itself, CS passes on: between KGC
and anybody else, sealed, so that CS neither reads nor changes it. A link knows who is at its other end, and a
message is answered only if its sender's role may send such a thing to this one; nothing else of it is even
decoded. Every wait ends: when the answer comes, a link on the way breaks or goes silent, or the longest time
is over.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, takewhile
from threading import Condition, Event, Lock, Thread

from revfrf.errors import AbsentError, FormatError, LetterError, ProtocolError, RevFRFError, StorageError
from revfrf.messages.base import Message
from revfrf.messages.registry import longest_call
from revfrf.metering import Ledger, measured
from revfrf.names import CS, KGC, PARTICIPANT, REQUESTER, SERVERS
from revfrf.parallel import side_by_side
from revfrf.transport.base import Reply
from revfrf.transport.codec import decode, decode_call, encode
from revfrf.transport.connections import AWAY, InFlightBudget, Link, PendingCall, Timeouts
from revfrf.transport.frames import Frame, Key, Kind, frames
from revfrf.transport.letters import Letter, Place, Sealing
from revfrf.transport.passport import PartyId, Passport

log = logging.getLogger(__name__)

_STRANGERS = (PARTICIPANT, REQUESTER)
_ANSWERING = 64  # calls that a party answers at once: of the servers, and as many of all others
_CALLS, _CALLS_OF_SERVERS = 16, 256  # calls of one sender that may wait for their answers
_TOO_MUCH = b"too much at once"


class Endpoint:
    """One party's end of all its calls.

    `answer` is its role; `admit` may refuse a neighbour, or the sender of a sealed message, by its passport;
    `failed` is called when the party's own disk fails.
    """

    def __init__(
        self,
        who: PartyId,
        answer: Callable[[str, Message], Message],
        sealing: Sealing,
        limits: Timeouts,
        admit: Callable[[Passport], None] = lambda _: None,
        failed: Callable[[StorageError], None] = lambda _: None,
        met: Callable[[], None] = lambda: None,
    ) -> None:
        self.who, self.limits, self.ledger = who, limits, Ledger()
        self.is_hub = who.name == CS
        self._answer, self.sealing, self._admit = answer, sealing, admit
        self._failed, self._tell_met = failed, met
        self._links: dict[str, Link] = {}
        self._met: Counter[str] = Counter()
        self._waiting: dict[int, PendingCall] = {}
        self._load = InFlightBudget()
        self._numbers = count(time.time_ns())  # higher than those of any process before
        self._lock = Lock()  # for what belongs together; to look up one link or call needs none
        self._changed = Condition(self._lock)
        self._closed = Event()
        self._servers = ThreadPoolExecutor(_ANSWERING, thread_name_prefix="answer")
        self._others = ThreadPoolExecutor(_ANSWERING, thread_name_prefix="answer")
        for pool in (self._servers, self._others):
            pool.submit(int)  # from now on it has a thread
        Thread(target=self._keep_alive, name="heartbeat", daemon=True).start()

    # -- links --------------------------------------------------------------------------------------

    def connected(self, link: Link, passport: Passport) -> None:
        """Use a link, instead of an older one to this neighbour. Raises RejectedError if it is not let in."""
        who = link.who
        if (who.role == CS) == self.is_hub or passport.who != who:
            raise ProtocolError(f"no link to {who} is allowed here", kind="sender")
        self._let_in(passport)
        with self._changed:
            if self._closed.is_set():
                raise ProtocolError("this endpoint is closed", kind="order")
            link.not_after, link.heard_at = passport.not_after, time.monotonic()
            before, self._links[who.name] = self._links.get(who.name), link
            self._met[who.name] += 1
            self._changed.notify_all()
        if before is not None:
            self._drop(before)
        try:
            self._let_in(passport)  # it may have left before this link was there to be closed
        except RevFRFError:
            self._drop(link)
            raise
        self._tell_met()

    def disconnected(self, link: Link) -> None:
        """A link is down: end all calls that wait for an answer over it."""
        if self._links.get(link.who.name) is link:
            self._drop(link)

    def _drop(self, link: Link) -> None:
        name = link.who.name
        with self._changed:
            if self._links.get(name) is link:
                del self._links[name]
                self._changed.notify_all()
        link.close()
        with self._lock:
            lost = [waiting for waiting in self._waiting.values() if waiting.link is link]
            callers = [(self._links.get(caller), n) for caller, owed in link.owed.items() for n in owed]
            link.owed.clear()
            for other in self._links.values():
                other.owed.pop(name, None)
        for waiting in lost:
            waiting.end("absence")
        for caller, number in callers:
            if caller is not None:
                self._send(caller, [Frame("absence", name, caller.who.name, number)])

    def _let_in(self, passport: Passport) -> None:
        """Raise RejectedError for a party that must not be talked to."""
        who = passport.who
        if {who.role, who.name} & {*SERVERS} and who.role != who.name:
            raise ProtocolError(f"{who} uses a server's name or role", kind="sender")
        try:
            self._admit(passport)
        except StorageError as error:
            self._failed(error)
            raise

    def present(self) -> set[str]:
        """The names of all neighbours."""
        with self._lock:
            return set(self._links)

    def meetings(self) -> dict[str, int]:
        """How often each neighbour has come so far."""
        with self._lock:
            return dict(self._met)

    def expel(self, names: Collection[str]) -> None:
        """Break the links to these."""
        for name in names:
            if (link := self._links.get(name)) is not None:
                self._drop(link)

    def wait_for(self, names: Collection[str], seconds: float) -> Sequence[str]:
        """Wait until all of these are neighbours; return who is missing when time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or set(names) <= self._links.keys(), seconds)
            return sorted(set(names) - self._links.keys())

    def close(self) -> None:
        """End all calls and links."""
        self._closed.set()
        with self._changed:
            links, self._links = list(self._links.values()), {}
            self._changed.notify_all()
        for link in links:
            self._drop(link)
        for pool in (self._servers, self._others):
            pool.shutdown(wait=False, cancel_futures=True)

    def _keep_alive(self) -> None:
        while not self._closed.wait(self.limits.heartbeat):
            with self._lock:
                links = list(self._links.items())
            for name, link in links:
                if fault := link.fault(self.limits.silence):
                    log.warning("%s %s", name, fault)
                    self._drop(link)
                else:
                    self._send(link, [Frame("ping", self.who.name, name, 0)], wait=False)

    def _send(self, link: Link, pieces: Iterable[Frame], wait: bool = True) -> None:
        """Send; a link that does not take it is down."""
        try:
            for piece in pieces:
                link.send(piece.encode(), wait)
        except AbsentError:
            self._drop(link)

    # -- calling ------------------------------------------------------------------------------------

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        data, limit = encode(request), reply_type.max_bytes
        if CS in (self.who.name, recipient):
            return decode(self._ask("call", recipient, next(self._numbers), data, limit), reply_type)
        # what CS passes on needs a key of the party at the far end
        offer, number = self._offer_of(recipient), next(self._numbers)
        letter, awaited = self.sealing.seal((self.who.name, recipient, number), offer, data)
        answer = self._ask("call", recipient, number, letter, limit + Sealing.OVERHEAD)
        return decode(awaited.open(answer), reply_type)

    def _offer_of(self, recipient: str) -> Letter:
        number = next(self._numbers)
        answer = self._ask("hello", recipient, number, b"", Sealing.OVERHEAD)
        offer = self.sealing.offered((self.who.name, recipient, number), answer)
        if (name := offer.sender.who.name) != recipient:
            raise ProtocolError(f"{recipient!r} showed the TLS certificate of {name!r}", kind="sender")
        self._let_in(offer.sender)
        return offer

    def reach(self, names: Iterable[str]) -> None:
        """Raise AbsentError unless all of these could be called now."""
        find = self._link_to if self.is_hub else self._offer_of
        side_by_side(lambda name: self._link_to(name) if name == CS else find(name), list(names))

    def _ask(self, kind: Kind, recipient: str, number: int, data: bytes, limit: int) -> bytes:
        """What comes back. Raises AbsentError or RefusedError."""
        link = self._link_to(recipient)
        waiting = PendingCall(recipient, link, limit, self.limits.call)
        with self._lock:
            self._waiting[number] = waiting
        pieces = frames(kind, self.who.name, recipient, number, data)
        try:
            self._send(link, takewhile(lambda _: waiting.goes_on, pieces))
            return waiting.outcome()
        finally:
            with self._lock:
                del self._waiting[number]

    def _link_to(self, recipient: str) -> Link:
        if not self.is_hub:
            self.wait_for([CS], self.limits.heartbeat)  # it is being dialled
        neighbour = recipient if self.is_hub else CS
        if (link := self._links.get(neighbour)) is None:
            raise AbsentError(neighbour, AWAY)
        return link

    # -- receiving ----------------------------------------------------------------------------------

    def received(self, link: Link, data: bytes) -> None:
        """A frame has come. It is dealt with in other threads. Raises RejectedError to end the link."""
        if self._links.get(link.who.name) is not link:
            raise ProtocolError("a frame arrived over a link that is not in use", kind="sender")
        link.heard_at = math.inf  # a party that is being read is not silent
        try:
            self._receive(link, Frame.decode(data), data)
        finally:
            link.heard_at = time.monotonic()

    def _receive(self, link: Link, frame: Frame, data: bytes) -> None:
        neighbour, waiting = link.who.name, None
        if self.is_hub and frame.sender != neighbour:
            raise ProtocolError(f"{neighbour!r} sent a frame in the name of {frame.sender!r}", kind="sender")
        if frame.kind == "ping":
            return
        if frame.recipient != self.who.name:
            self._relay(link, frame, data)
            return
        if not frame.asks and (waiting := self._waiting_for(link, frame.key)) is None:
            return  # too late, or never asked for
        try:
            limit = self._limit(frame) if waiting is None else waiting.limit
            message = link.assembly.add(frame, limit)
        except FormatError:
            if frame.sender == neighbour:
                raise
            message = None  # nobody at the far end can break this link
            self._give_up(link, frame.key, "refusal")
        for key in link.assembly.lost():
            self._give_up(link, key, "absence")
        if message is None:
            return
        if waiting is not None:
            waiting.end(frame.kind, message)
        elif frame.kind == "hello":
            self._greet(link, frame)
        else:
            self._take(link, frame, message)

    def _give_up(self, link: Link, key: Key, kind: Kind) -> None:
        """Nobody waits for what does not come."""
        what, sender, _, number = key
        if what in ("hello", "call"):
            self._send(link, frames(kind, self.who.name, sender, number))
        elif (waiting := self._waiting_for(link, key)) is not None:
            waiting.end(kind)

    def _waiting_for(self, link: Link, key: Key) -> PendingCall | None:
        found = self._waiting.get(key[3])
        return found if found is not None and (found.recipient, found.link) == (key[1], link) else None

    def _relay(self, link: Link, frame: Frame, data: bytes) -> None:
        """CS passes on what KGC and the others have to say to each other."""
        if not self.is_hub:
            raise ProtocolError(f"{frame.sender!r} may not write to {frame.recipient!r}", kind="sender")
        with self._lock:
            onward = self._links.get(frame.recipient)
            fate = link.fate_of(frame, onward)
        if fate == "pass on" and onward is not None:
            try:
                onward.pass_on(data)
            except AbsentError:
                log.warning("%s is not accepting relayed data", frame.recipient)
                self._drop(onward)
        elif fate in ("absence", "refusal"):
            told = _TOO_MUCH if fate == "refusal" else b""
            self._send(link, frames(fate, frame.recipient, frame.sender, frame.call, told))

    def _limit(self, frame: Frame) -> int:
        """How long what is asked may be; of a sender at the far end only the name is known yet."""
        if frame.kind == "hello":
            return 0
        link = self._links.get(frame.sender)
        roles = (link.who.role,) if link else (KGC,) if frame.sender == KGC else _STRANGERS
        longest = max(longest_call(role, self.who.role) for role in roles)
        return longest + (0 if link else Sealing.OVERHEAD)

    def _greet(self, link: Link, frame: Frame) -> None:
        """Offer a key to a party that wants to write to us."""
        if frame.sender == link.who.name:
            raise ProtocolError(f"{frame.sender!r} is a neighbour and must not send letters", kind="order")
        offer = self.sealing.offer((frame.sender, self.who.name, frame.call))
        self._send(link, frames("reply", self.who.name, frame.sender, frame.call, offer))

    def _take(self, link: Link, frame: Frame, data: bytes) -> None:
        """Have a call answered in another thread, unless too many of its sender wait already."""
        server = frame.sender in SERVERS
        pool, calls = (self._servers, _CALLS_OF_SERVERS) if server else (self._others, _CALLS)
        with self._lock:
            taken = not self._closed.is_set() and self._load.take(frame.sender, len(data), calls)
            if taken:
                with suppress(RuntimeError):  # no new thread can start: an existing one takes it later
                    pool.submit(self._answer_call, link, frame, data)
        if not taken:
            self._send(link, frames("refusal", self.who.name, frame.sender, frame.call, _TOO_MUCH))

    def _answer_call(self, link: Link, frame: Frame, data: bytes) -> None:
        try:
            if outcome := self._outcome(link, frame, data):
                kind, answer = outcome
                self._send(link, frames(kind, self.who.name, frame.sender, frame.call, answer))
        finally:
            with self._lock:
                self._load.give_back(frame.sender, len(data))

    def _outcome(self, link: Link, frame: Frame, data: bytes) -> tuple[Kind, bytes] | None:
        """What to say to a call; None to a letter that has come before."""
        try:
            if frame.sender == link.who.name:
                return "reply", self._reply(link.who, data)
            return "reply", self._answer_letter((frame.sender, self.who.name, frame.call), data)
        except LetterError as error:
            # the process that offered the key of this letter is gone
            return None if error.kind == "spent" else ("absence", b"")
        except RevFRFError as error:
            log.warning("refused a message from %s: %s", frame.sender, error)
            if isinstance(error, StorageError):
                self._failed(error)
            return "refusal", error.peer_message.encode()
        except Exception:
            log.exception("could not answer a message from %s", frame.sender)
            return "refusal", b""

    def _answer_letter(self, place: Place, data: bytes) -> bytes:
        letter = self.sealing.open(place, data)
        who = letter.sender.who
        if who.name != place[0]:
            raise ProtocolError(f"{who.name!r} wrote a letter in the name of {place[0]!r}", kind="sender")
        self._let_in(letter.sender)
        return self.sealing.answer(place, letter, self._reply(who, letter.data))

    def _reply(self, sender: PartyId, data: bytes) -> bytes:
        message = decode_call(data, sender.role, self.who.role)
        with measured(self.ledger, self.who.name, message.protocol):
            return encode(self._answer(sender.name, message))
