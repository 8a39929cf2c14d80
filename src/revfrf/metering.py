"""What work costs, counted where it is done: exponentiations by kind, and seconds of processor time.

To count, open a `Ledger` and say, around a piece of work, whose it is and for which protocol.
Powers are counted by `crypto.dtpkc.arithmetic`, in whatever thread or worker process they happen; work inside
other work is counted once, where it belongs. Without a ledger nothing is counted.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from time import thread_time

Power = tuple[str, int]
"""How a power was computed ("fixed base", "public", "secret"), and the bits of its modulus."""


@dataclass
class Work:
    """Processor seconds and powers."""

    seconds: float = 0.0
    powers: Counter[Power] = field(default_factory=Counter)

    def add(self, other: "Work") -> None:
        """Add another piece of work to this one."""
        self.seconds += other.seconds
        self.powers.update(other.powers)


class Ledger:
    """Work by (role, protocol)."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], Work] = {}
        self._lock = Lock()

    def add(self, role: str, protocol: str, work: Work) -> None:
        """Enter a piece of work; from any thread."""
        with self._lock:
            self.entries.setdefault((role, protocol), Work()).add(work)


@dataclass
class Meter:
    """A running measurement of this thread's work."""

    ledger: Ledger
    role: str
    protocol: str
    work: Work = field(default_factory=Work)
    since: float = field(default_factory=thread_time)

    def pause(self) -> None:
        """Stop the clock."""
        self.work.seconds += thread_time() - self.since

    def resume(self) -> None:
        """Start it again."""
        self.since = thread_time()


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


def current() -> Meter | None:
    """The measurement that work in this thread belongs to."""
    return _current.get()


@contextmanager
def measured(ledger: Ledger, role: str, protocol: str) -> Iterator[None]:
    """Measure the work of this block for this role and protocol, and no longer for what is around it."""
    outer, meter = _current.get(), Meter(ledger, role, protocol)
    if outer is not None:
        outer.pause()
    token = _current.set(meter)
    try:
        yield
    finally:
        meter.pause()
        _current.reset(token)
        ledger.add(role, protocol, meter.work)
        if outer is not None:
            outer.resume()


def within(protocol: str) -> AbstractContextManager[None]:
    """Measure the work of this block for another protocol of the same role."""
    return continued(_current.get(), protocol)


def continued(meter: Meter | None, protocol: str = "") -> AbstractContextManager[None]:
    """Go on measuring in another thread what `current` gave in the first."""
    return measured(meter.ledger, meter.role, protocol or meter.protocol) if meter else nullcontext()


def count_power(kind: str, modulus_bits: int, times: int = 1) -> None:
    """Note powers just computed."""
    if (meter := _current.get()) is not None:
        meter.work.powers[kind, modulus_bits] += times


def add_work(work: Work) -> None:
    """Note work that another process has done for this one."""
    if (meter := _current.get()) is not None:
        meter.work.add(work)
