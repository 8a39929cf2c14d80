"""What a rival's run has cost, in the same units as ours: processor seconds by role, bytes, operations."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time

from revfrf.errors import UsageError


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds by role, bytes of all messages both ways, and operations by role and name.

    `extrapolated_from` is the share of the work that was really done, and None if that was all of it.
    """

    seconds: dict[str, float]
    bytes: int
    counts: dict[str, dict[str, int]]
    extrapolated_from: float | None = None

    def times(self, whole: float) -> "Cost":
        """The cost of `whole` times as much work of the same sort; no longer measured unless that is 1."""
        if whole < 1:
            raise UsageError(f"a cost is extrapolated to more than was measured, not to {whole} of it")
        return Cost(
            {role: spent * whole for role, spent in self.seconds.items()},
            round(self.bytes * whole),
            {role: {name: round(n * whole) for name, n in row.items()} for role, row in self.counts.items()},
            self.extrapolated_from if whole == 1 else (self.extrapolated_from or 1.0) / whole,
        )

    def __add__(self, other: "Cost") -> "Cost":
        """Both together; extrapolated if one is, from the smaller share of the two."""
        shares = [x.extrapolated_from for x in (self, other) if x.extrapolated_from is not None]
        return Cost(
            dict(Counter(self.seconds) + Counter(other.seconds)),
            self.bytes + other.bytes,
            {
                role: dict(Counter(self.counts.get(role)) + Counter(other.counts.get(role)))
                for role in {**self.counts, **other.counts}
            },
            min(shares, default=None),
        )


class Meter:
    """Counts while a protocol runs in one thread."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._bytes, self._role = 0, ""

    @contextmanager
    def role(self, name: str) -> Iterator[None]:
        """The work of this block is this role's."""
        self._role, started = name, thread_time()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + thread_time() - started

    def count(self, operation: str, times: int = 1) -> None:
        """Operations of the role whose block this is in, or follows."""
        self._counts.setdefault(self._role, Counter())[operation] += times

    def send(self, size: int) -> None:
        """A message of so many bytes, either way."""
        self._bytes += size

    def cost(self) -> Cost:
        counts = {role: dict(counted) for role, counted in self._counts.items()}
        return Cost(dict(self._seconds), self._bytes, counts)
