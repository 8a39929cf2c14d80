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
from typing import Any, TypeVar

import pytest

from revfrf.messages.base import Message
from revfrf.transport.base import Reply
from revfrf.transport.memory import MemoryChannel

Result = TypeVar("Result")

for_good = pytest.MonkeyPatch()
"""For what children change in themselves: it is never put back."""

_SECONDS = 120
"""After which a child that hangs is ended."""

AT_ONCE = 16
"""So many killed processes' directories one other process opens, one by one."""

_NAMES = {"COMMIT": "commit", "VACUUM": "new pages", "PRAGMA wal_checkpoint(TRUNCATE)": "empty log"}
"""What is a step of all that a database is told."""


class Steps:
    """The steps of this process, by name, in order; it dies at number `last`, counted from 1."""

    def __init__(self, last: int | None = None, watch: Callable[[], None] = lambda: None) -> None:
        self.names: list[str] = []
        self._last, self._watch = last, watch

    def __call__(self, name: str) -> None:
        self.names.append(name)
        self._watch()
        if len(self.names) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Count all steps of this process, a child, from now on."""
        _count_messages(self)
        _count_commits(self)
        _count_files(self)


def _count_messages(step: Steps) -> None:
    call = MemoryChannel.call

    def counted(channel: MemoryChannel, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        name = f"{type(request).__name__} from {channel.sender} to {recipient}"
        step(f"{name}: not delivered")
        reply = call(channel, recipient, request, reply_type)
        step(f"{name}: handled, not answered")
        return reply

    for_good.setattr(MemoryChannel, "call", counted)


def _count_commits(step: Steps) -> None:
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        file = ""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return self._counted(_NAMES.get(sql), lambda: super(Connection, self).execute(sql, *values))

        def executescript(self, script: str) -> sqlite3.Cursor:
            return self._counted("tables", lambda: super(Connection, self).executescript(script))

        def close(self) -> None:
            self._counted("close", super().close)

        def _counted(self, what: str | None, action: Callable[[], Result]) -> Result:
            if what is None:
                return action()
            step(f"{what} of {self.file}: before")
            done = action()
            step(f"{what} of {self.file}: after")
            return done

    def counted(path: Any, **options: Any) -> sqlite3.Connection:
        connection: Connection = connect(path, factory=Connection, **options)
        connection.file = Path(path).name
        return connection

    for_good.setattr(sqlite3, "connect", counted)


def _count_files(step: Steps) -> None:
    unlink, open_ = Path.unlink, os.open

    def counted_unlink(path: Path, missing_ok: bool = False) -> None:
        step(f"unlink of {path.name}: before")
        unlink(path, missing_ok)
        step(f"unlink of {path.name}: after")

    def counted_open(path: Any, flags: int, *options: Any, **named: Any) -> int:
        if not flags & os.O_EXCL:
            return open_(path, flags, *options, **named)
        step(f"making of {Path(path).name}: before")
        descriptor = open_(path, flags, *options, **named)
        step(f"making of {Path(path).name}: after")
        return descriptor

    for_good.setattr(Path, "unlink", counted_unlink)
    for_good.setattr(os, "open", counted_open)


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
    steps = Steps(None, watch)
    steps.install()
    work()
    return steps.names


def steps_of(work: Callable[[], object]) -> list[str]:
    """The names of all steps of `work`, undisturbed in a process of its own."""
    return in_process(lambda: list(all_steps(work)))


def dies_at(step: int, work: Callable[[], object]) -> bool:
    """Let a process do `work`, and die by SIGKILL at this step, counted from 1; False if it ends before."""

    def doomed() -> None:
        Steps(step).install()
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
