"""What is kept of a link in use, and of a call that waits for its answer. All of it is bounded."""

import time
from bisect import bisect_left
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from typing import Protocol

from revfrf.errors import AbsentError, RefusedError
from revfrf.messages.base import MIB
from revfrf.transport.frames import Assembly, Kind, refusal
from revfrf.transport.passport import PartyId

AWAY = "is not connected; run `revfrf serve` there, then ask again"

_LOAD, _LEAST_LOAD = 1024 * MIB, 4 * MIB
"""Bytes of one sender's calls that wait for their answers, and for how many each counts at least."""

_SENDERS = 1024
"""Senders of calls that wait: a relay can make up names."""

_REMEMBERED = 4096
"""Calls of which it is known that they have come."""

_OWED = 64
"""Calls of one caller that CS has passed on to one party, and that wait for their answers."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: between signs of life, and for the longest call. A link is dead after three such silences."""

    heartbeat: float = 10.0
    call: float = 3600.0

    @property
    def silence(self) -> float:
        """After how long without a sign of life a link is dead."""
        return 3 * self.heartbeat


class Link(Protocol):
    """The way to a neighbour, who is known by its certificate."""

    who: PartyId

    def send(self, frame: bytes, wait: bool = True) -> None:
        """Send a frame, or raise AbsentError. Without `wait`, one that would have to wait is not sent."""

    def pass_on(self, frame: bytes) -> None:
        """Send another party's frame without waiting, or raise AbsentError if too much waits already."""

    def close(self) -> None:
        """Stop sending and receiving."""


class ReplayWindow:
    """The numbers of one sender's calls, which ascend: of those of long ago it is known that they are old."""

    def __init__(self) -> None:
        self._recent: list[int] = []
        self._old = -1
        self._lock = Lock()

    def is_new(self, number: int) -> bool:
        """Whether this call has not come before; from now on it has."""
        with self._lock:
            place = bisect_left(self._recent, number)
            if number <= self._old or number in self._recent[place : place + 1]:
                return False
            self._recent.insert(place, number)
            if len(self._recent) > _REMEMBERED:
                self._old = self._recent.pop(0)
            return True


class InFlightBudget:
    """How much of what each sender has asked waits for an answer."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}
        self._lock = Lock()

    def take(self, sender: str, size: int, calls: int) -> ExitStack | None:
        """None if that is too much of this sender, or too many calls; else a stack to be closed."""
        counted = max(size, _LEAST_LOAD)
        with self._lock:
            waiting = self._sizes.get(sender, [])
            if len(waiting) >= calls or (waiting and sum(waiting) + counted > _LOAD):
                return None
            if not waiting and len(self._sizes) >= _SENDERS:
                return None
            self._sizes[sender] = waiting
            waiting.append(counted)

        def give_back() -> None:
            with self._lock:
                waiting.remove(counted)
                if not waiting and self._sizes.get(sender) is waiting:
                    del self._sizes[sender]

        wait = ExitStack()
        wait.callback(give_back)
        return wait


@dataclass(eq=False)
class Connection:
    """A link in use: what has come over it, which answers CS is to pass on, and the last sign of life."""

    link: Link
    not_after: datetime | None = None
    assembly: Assembly = field(default_factory=Assembly)
    seen: ReplayWindow = field(default_factory=ReplayWindow)
    owed: dict[str, set[int]] = field(default_factory=dict)
    heard: float = field(default_factory=time.monotonic)

    def owe(self, caller: str, number: int) -> bool:
        """Whether a call of this caller may be passed on over this link; from now on it is owed an answer."""
        numbers = self.owed.setdefault(caller, set())
        if len(numbers) < _OWED:
            numbers.add(number)
        return number in numbers

    def owes(self, caller: str, number: int) -> bool:
        """Whether this call waits for its answer over this link."""
        return number in self.owed.get(caller, ())

    def settle(self, caller: str, number: int) -> None:
        """The answer has come."""
        numbers = self.owed.get(caller, set())
        numbers.discard(number)
        if not numbers:
            self.owed.pop(caller, None)

    def fault(self, silence: float) -> str:
        """Return why the link must not be used, if so."""
        if time.monotonic() - self.heard > silence:
            return "is silent"
        if self.not_after is not None and datetime.now(UTC) > self.not_after:
            return "has a certificate that has ended"
        return ""


@dataclass(eq=False)
class PendingCall:
    """A call that waits for what comes back."""

    recipient: str
    line: Connection
    limit: int
    seconds: float
    _result: tuple[Kind, bytes] = ("absence", b"")
    _done: Event = field(default_factory=Event)
    _began: float = field(default_factory=time.monotonic)

    def end(self, kind: Kind, data: bytes = b"") -> None:
        """This has come back; what comes later does not count."""
        if not self._done.is_set():
            self._result = kind, data
            self._done.set()

    @property
    def goes_on(self) -> bool:
        """Whether nothing has come back, and there is time."""
        return not self._done.is_set() and self._left > 0

    @property
    def _left(self) -> float:
        return max(0.0, self._began + self.seconds - time.monotonic())

    def outcome(self) -> bytes:
        """Wait for the answer. Raises AbsentError or RefusedError if there is none."""
        if not self._done.wait(self._left):
            raise AbsentError(self.recipient, f"has not answered within {self.seconds:,.0f} seconds")
        kind, data = self._result
        if kind == "absence":
            raise AbsentError(self.recipient, AWAY)
        if kind == "refusal":
            raise RefusedError(self.recipient, f"has refused: {refusal(data)}")
        return data
