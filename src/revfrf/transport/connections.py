"""What is kept of a link in use, of a call that waits for its answer, and of calls that CS passes on.

All of it is bounded, and nobody waits for another: a party that asks too much is refused, which the others do
not notice.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Condition
from typing import Literal

from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.messages.base import MIB
from revfrf.messages.registry import longest_call
from revfrf.names import KGC
from revfrf.transport.frames import Assembly, Frame, Kind, refusal
from revfrf.transport.letters import Sealing
from revfrf.transport.passport import PartyId

AWAY = "is not connected; run `revfrf serve` there, then ask again"

_QUEUE, _PASSED_ON = 64, 1024
"""Frames that wait to be sent over one link: a sender of more has to wait, except for what CS relays."""

_BYTES = 192 * MIB
"""And their size: two messages of the longest kind that CS passes on, and what waits besides."""

_LOAD, _LEAST_LOAD = 1024 * MIB, 4 * MIB
"""Bytes of one sender's calls that wait for their answers, and for how many each counts at least."""

Fate = Literal["pass on", "ignore", "absence", "refusal"]
"""What becomes of a frame that is not for CS itself; the last two are reported to its sender."""

_SENDERS = 1024  # of calls that wait: a relay can make up names
_OWED = 64  # calls of one caller that CS has passed on to one party, and that wait for their answers
_ANSWER = MIB + Sealing.OVERHEAD  # bytes: what KGC and the others say to each other in answers is short


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: between signs of life, and for the longest call. A link is dead after three such silences."""

    heartbeat: float
    call: float

    @property
    def silence(self) -> float:
        return 3 * self.heartbeat


class Link:
    """The way to a neighbour, who is known by its TLS certificate: a queue from which a stream takes frames.

    They arrive once and in order, until the link breaks. `hang_up` ends the stream; `patience` is how many
    seconds to wait for a neighbour that takes nothing. `owed` has, by caller, the calls that CS has passed on
    over this link, and that wait for their answers; `heard_at` is when there was a sign of life.
    """

    def __init__(self, who: PartyId, patience: float) -> None:
        self.who, self._patience = who, patience
        self.hang_up: Callable[[], object] = lambda: None
        self._outgoing: deque[bytes] = deque()
        self._open = True
        self._changed = Condition()
        self.assembly, self.not_after, self.heard_at = Assembly(), datetime.now(UTC), time.monotonic()
        self.owed: defaultdict[str, set[int]] = defaultdict(set)

    def send(self, frame: bytes, wait: bool = True) -> None:
        """Send a frame, or raise AbsentError. Without `wait`, one that would have to wait is not sent."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: not self._open or not self._is_full, self._patience)
            if not self._open or (wait and self._is_full):
                raise AbsentError(self.who.name, "is not accepting data")
            if not self._is_full:
                self._outgoing.append(frame)
                self._changed.notify_all()

    @property
    def _is_full(self) -> bool:
        return len(self._outgoing) >= _QUEUE

    def pass_on(self, frame: bytes) -> None:
        """Send another party's frame without waiting, or raise AbsentError if too much waits already."""
        with self._changed:
            waiting = self._outgoing
            if not self._open or len(waiting) >= _PASSED_ON or sum(map(len, waiting)) > _BYTES:
                raise AbsentError(self.who.name, "is not accepting data")
            waiting.append(frame)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._outgoing.clear()
            self._changed.notify_all()
        self.hang_up()

    def outgoing(self) -> Iterator[bytes]:
        """What is to be sent, until the link is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._outgoing or not self._open)
                if not self._open:
                    return
                frame = self._outgoing.popleft()
                self._changed.notify_all()
            yield frame

    def fault(self, silence: float) -> str:
        """Return why the link must not be used, if so."""
        if time.monotonic() - self.heard_at > silence:
            return "is silent"
        return "has a TLS certificate that has expired" if datetime.now(UTC) > self.not_after else ""

    def fate_of(self, frame: Frame, onward: "Link | None") -> Fate:
        """What CS does with a frame for the party at `onward`. Raises ProtocolError to end this link.

        It passes on calls between KGC and the others, of those who may make them, and answers that are owed.
        """
        if KGC not in (frame.sender, frame.recipient):
            raise ProtocolError(f"{frame.sender!r} may not write to {frame.recipient!r}", kind="sender")
        if not frame.asks:
            return self._fate_of_answer(frame, onward)
        if onward is None:
            return "absence" if frame.offset == 0 else "ignore"
        longest = longest_call(self.who.role, onward.who.role) + Sealing.OVERHEAD
        if frame.size > (0 if frame.kind == "hello" else longest):
            raise ProtocolError(f"{frame.sender!r} sent a call of {frame.size:,} bytes", kind="too-large")
        owed = onward.owed[frame.sender]
        if frame.offset == 0 and len(owed) < _OWED:
            owed.add(frame.call)
        if frame.call in owed:
            return "pass on"
        return "ignore" if frame.offset else "refusal"

    def _fate_of_answer(self, frame: Frame, onward: "Link | None") -> Fate:
        owed = self.owed.get(frame.recipient, set())
        if frame.call not in owed:
            return "ignore"  # nobody has asked
        if frame.size > _ANSWER:
            raise ProtocolError(f"{frame.sender!r} answered with {frame.size:,} bytes", kind="too-large")
        if frame.offset + len(frame.piece) >= frame.size:
            owed.remove(frame.call)
        return "ignore" if onward is None else "pass on"


class InFlightBudget:
    """How much of what each sender has asked waits for an answer. Use it under a lock."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}

    def take(self, sender: str, size: int, calls: int) -> bool:
        """Whether one more call of this size is not too much of this sender; until it is given back."""
        counted, waiting = max(size, _LEAST_LOAD), self._sizes.get(sender, [])
        if len(waiting) >= calls or (waiting and sum(waiting) + counted > _LOAD):
            return False
        if not waiting and len(self._sizes) >= _SENDERS:
            return False
        self._sizes[sender] = [*waiting, counted]
        return True

    def give_back(self, sender: str, size: int) -> None:
        """The call that was taken has been answered."""
        self._sizes[sender].remove(max(size, _LEAST_LOAD))
        if not self._sizes[sender]:
            del self._sizes[sender]


@dataclass(eq=False)
class PendingCall:
    """A call that waits for what comes back."""

    recipient: str
    link: Link
    limit: int
    seconds: float
    _answer: Future[bytes] = field(default_factory=Future)
    _began: float = field(default_factory=time.monotonic)

    def end(self, kind: Kind, data: bytes = b"") -> None:
        """This has come back; what comes later does not count."""
        with suppress(InvalidStateError):
            if kind == "absence":
                self._answer.set_exception(AbsentError(self.recipient, AWAY))
            elif kind == "refusal":
                self._answer.set_exception(RefusedError(self.recipient, f"has refused: {refusal(data)}"))
            else:
                self._answer.set_result(data)

    @property
    def goes_on(self) -> bool:
        """Whether nothing has come back, and there is time."""
        return not self._answer.done() and self._left > 0

    @property
    def _left(self) -> float:
        return max(0.0, self._began + self.seconds - time.monotonic())

    def outcome(self) -> bytes:
        """Wait for the answer. Raises AbsentError or RefusedError if there is none."""
        try:
            return self._answer.result(self._left)
        except TimeoutError:
            reason = f"has not answered within {self.seconds:,.0f} seconds"
            raise AbsentError(self.recipient, reason) from None
