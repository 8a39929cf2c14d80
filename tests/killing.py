"""Real processes that die by SIGKILL at a chosen step, and others that open what they leave.

A step is whatever may be the last that a process does: a message before it is delivered, and after it was
handled but before the answer is used; a database file before and after it is made, its tables before and
after they are; every commit, every erasure, every closed database and every removed file, before and after.

Children are forked from a process that has everything imported and compiled, and has no database open.
"""

import gc
import os
import pickle
import shutil
import signal
import sqlite3
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import pytest

from revfrf import parallel
from revfrf.messages.base import Message
from revfrf.transport.memory import MemoryChannel

Result = TypeVar("Result")

for_good = pytest.MonkeyPatch()
"""For what children change in themselves: it is never put back."""

_SECONDS = 120
"""Until a child that hangs is ended."""

AT_ONCE = 16
"""How many directories of killed processes one other process checks."""

_NAMES = {"COMMIT": "commit", "VACUUM": "new pages", "PRAGMA wal_checkpoint(TRUNCATE)": "empty log"}
"""What is a step of all that a database is told."""


class Steps:
    """The steps of this process, by name, in order. It dies at the `last` one with `name` in it, from 1."""

    def __init__(
        self,
        last: int = 0,
        name: str = "",
        *,
        watch: Callable[[], None] = lambda: None,
        file: Path | None = None,
    ) -> None:
        self.names: list[str] = []
        self._last, self._name, self._watch = last, name, watch
        self._file = file.open("a", buffering=1) if file is not None else None
        self._seen, self._lock = 0, RLock()

    def __call__(self, name: str) -> None:
        with self._lock:
            self.names.append(name)
            if self._file is not None:
                self._file.write(name + "\n")
            self._watch()
            self._seen += self._name in name
            if self._last and self._seen >= self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    def count(
        self,
        owner: Any,
        function: str,
        name: Callable[..., str | None],
        before: str = "before",
        after: str | None = "after",
    ) -> None:
        """Count calls of a function in this process, a child, from now on; those without a name are none."""
        original = getattr(owner, function)

        def counted(*arguments: Any, **named: Any) -> Any:
            what = name(*arguments, **named)
            if what is None:
                return original(*arguments, **named)
            self(f"{what}: {before}")
            done = original(*arguments, **named)
            if after is not None:
                self(f"{what}: {after}")
            return done

        for_good.setattr(owner, function, counted)

    def count_databases(self) -> None:
        """Count what changes a database: commits, erasures, new tables, and its end."""
        connect = sqlite3.connect

        class Connection(sqlite3.Connection):
            file = ""

        def connected(path: Any, **options: Any) -> sqlite3.Connection:
            connection: Connection = connect(path, factory=Connection, **options)
            connection.file = Path(path).name
            return connection

        def executed(connection: Connection, sql: str, *_: Any) -> str | None:
            return f"{_NAMES[sql]} of {connection.file}" if sql in _NAMES else None

        self.count(Connection, "execute", executed)
        self.count(Connection, "executescript", lambda connection, _: f"tables of {connection.file}")
        self.count(Connection, "close", lambda connection: f"close of {connection.file}")
        for_good.setattr(sqlite3, "connect", connected)

    def count_one_process(self) -> None:
        """Count messages, databases and files of a federation in one process, in the same order each time."""
        one_by_one = lambda function, items, _: [function(item) for item in items]  # noqa: E731
        for_good.setattr(parallel, "_threaded", one_by_one)

        def sent(channel: MemoryChannel, recipient: str, request: Message, _: object) -> str:
            return f"{type(request).__name__} from {channel.sender} to {recipient}"

        def made(path: Any, flags: int, *_: Any, **__: Any) -> str | None:
            return f"making of {Path(path).name}" if flags & os.O_EXCL else None

        self.count(MemoryChannel, "call", sent, "not delivered", "handled, not answered")
        self.count_databases()
        self.count(Path, "unlink", lambda path, **_: f"unlink of {path.name}")
        self.count(os, "open", made)


# -- processes --------------------------------------------------------------------------------------


class ChildError(AssertionError):
    """A child has failed; the text is its traceback."""


def in_process(work: Callable[[], Result]) -> Result:
    """What `work` returns in a process of its own."""
    status, answer = _forked(work)
    assert os.WIFEXITED(status), f"ended by signal {os.WTERMSIG(status)}"
    if isinstance(answer, ChildError):
        raise answer
    return answer  # type: ignore[no-any-return]


def all_steps(work: Callable[[], object], watch: Callable[[], None] = lambda: None) -> list[str]:
    """The names of all steps of `work` in this process, a child; at each one there is a look at it."""
    steps = Steps(watch=watch)
    steps.count_one_process()
    work()
    return steps.names


def steps_of(work: Callable[[], object]) -> list[str]:
    """The names of all steps of `work`, undisturbed in a process of its own."""
    return in_process(lambda: list(all_steps(work)))


def dies_at(step: int, work: Callable[[], object]) -> bool:
    """Let a process do `work`, and die by SIGKILL at this step, counted from 1; False if it ends before."""

    def doomed() -> None:
        Steps(step).count_one_process()
        work()

    return _was_killed(*_forked(doomed))


def dies_after(seconds: float, work: Callable[[], object]) -> bool:
    """Let a process do `work`, and kill it after some time, wherever it is; False if it ends before."""

    def doomed() -> None:
        work()

    return _was_killed(*_forked(doomed, seconds))


def _was_killed(status: int, answer: Any) -> bool:
    if isinstance(answer, ChildError):
        raise answer
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    return False


def _forked(work: Callable[[], object], seconds: float | None = None) -> tuple[int, Any]:
    """Do `work` in a child, for so many seconds at most; its status, and what it has returned, if it has."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, which children do not use
        child = os.fork()
    if not child:
        _live(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)  # of a child that has ended, there is still its status
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return status, pickle.loads(data) if data else None  # noqa: S301 (of our own child)


def _live(work: Callable[[], object], writing: int) -> None:
    """The life of a child; it never returns, and runs nothing that its parent would at its end."""
    try:
        gc.disable()  # looking at every object would copy the memory that the parent shares
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_SECONDS)
        try:
            answer = work()
        except BaseException as error:
            answer = ChildError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


# -- directories, and a kill at every step ----------------------------------------------------------


_numbers = count()


def some_place(place: Path) -> Path:
    return place / str(next(_numbers))


def copy_of(directory: Path, place: Path) -> Path:
    return Path(shutil.copytree(directory, some_place(place)))


def lasting(steps: Sequence[str]) -> list[int]:
    """The steps, by number, after which the disk is another; at all others it is as it was before."""
    return [i for i, name in enumerate(steps, 1) if name.endswith(": after")]


def sample(steps: Sequence[str], every: int) -> list[int]:
    """Some of the steps after which the disk is another, and the last."""
    changing = lasting(steps)
    return sorted({*changing[::every], changing[-1]})


def number_of(steps: Sequence[str], start: str, nth: int = 1) -> int:
    """Of the nth step whose name begins like this."""
    return [number for number, name in enumerate(steps, 1) if name.startswith(start)][nth - 1]


def sweep(
    place: Path,
    directory: Path | None,
    steps: Sequence[str],
    work: Callable[[Path], object],
    check: Callable[[Path, int], object],
    numbers: Sequence[int] | None = None,
) -> None:
    """Kill a process at each of these steps of its work, each time in a copy of a directory, or a new one;
    other processes check what each has left, some of these each.
    """
    assert steps
    failures: list[str] = []
    left: dict[int, Path] = {}
    chosen = range(1, len(steps) + 1) if numbers is None else numbers
    for number in chosen:
        left[number] = some_place(place) if directory is None else copy_of(directory, place)
        assert dies_at(number, partial(work, left[number])), f"there is no step {number}"
        if len(left) == AT_ONCE or number == chosen[-1]:
            wrong = in_process(partial(_checked, left, check))
            failures += [f"step {n}, {steps[n - 1]}: {reason}" for n, reason in wrong.items()]
            for killed in left.values():
                shutil.rmtree(killed)
            left = {}
    lines = [failure.splitlines()[0] for failure in failures]
    assert not failures, "\n".join([f"{len(failures)} of {len(chosen)} kills:", *lines, "", failures[0]])


def _checked(left: Mapping[int, Path], check: Callable[[Path, int], object]) -> dict[int, str]:
    """What is wrong with what was left, by the number of the step."""
    wrong = {}
    for number, killed in left.items():
        try:
            check(killed, number)
        except Exception as error:
            wrong[number] = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return wrong
