"""A party's audit log: one JSON object per line, each with the hash of the line before.

::

    {"n":0,"time":"2026-01-02T03:04:05.678901Z","event":"started","facts":{},"previous":"…","hash":"…"}

The hash of a line is the digest of all else in it; the first line follows a digest of whose log it is. Each
entry has exactly one valid line, the one that `AuditLog` writes; any other is refused.
"""

import errno
import fcntl
import json
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Annotated, BinaryIO

import msgspec

from revfrf.crypto.canonical import Field, digest
from revfrf.errors import AuditLogError, StorageError, UsageError
from revfrf.io.files import PRIVATE, check_own, check_private, opened, reading, sync_directory
from revfrf.record import Record

MAX_LINE = 64 * 1024  # bytes, including its end
_DOMAIN = "revfrf audit log v1"
_OWNER = "revfrf audit log owner v1"
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_FULL = "the disk is full; make room: no line is lost", "full"
_REASONS = {
    errno.EWOULDBLOCK: ("in use by another process; stop that one first", "in-use"),
    errno.ENOENT: ("there is no such file or directory", "missing"),
    errno.ELOOP: ("a symbolic link; give the path of the log itself", "malformed"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
}

Single = str | bool | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Fact = Single | list[Single]


class _Entry(Record, frozen=True):
    n: int
    time: str
    event: str
    facts: dict[str, Fact]
    previous: str
    hash: str


@dataclass(frozen=True)
class LogSummary:
    """A valid log: the number of lines, the times of the first and last one, and the last one's hash."""

    lines: int
    first: str | None
    last: str | None
    head: str


def verify_log(
    path: str | os.PathLike[str], expected_head: str | None = None, *, who: tuple[str, ...] | None = None
) -> LogSummary:
    """Check every line of a log, that it is the log of `who`, and that it has a line of hash `expected_head`.

    A line that was changed, removed, inserted, moved or repeated is found. Without a head that was noted down
    elsewhere two things are not: lines cut off at the end, and a log that its owner has rewritten as a
    whole. Nor are those after the line whose hash was noted: note the summary's head each time.

    Raises AuditLogError; its kinds are those of `reading` for the file, `malformed`, `chain` (a line is not
    as it was written, or follows another one), `order`, `torn` (the last line is incomplete) and `head`.
    """
    target, start = Path(path), None if who is None else _genesis(who)
    chain, wanted = _Chain(target, start), None if expected_head is None else expected_head.strip().lower()
    with reading(target, AuditLogError, "give the path of an audit log"), opened(target) as file:
        for found in chain.follow(file):
            wanted = None if wanted in found else wanted
    if chain.torn:
        what = f"{target}, line {chain.count + 1}: incomplete, after a crash or while it is being written"
        remedy = "verify again, or start this party, which repairs it"
        raise AuditLogError(f"{what}; {remedy}", kind="torn")
    if wanted not in (None, start):
        what = f"{target}: no line has the hash {wanted!r}"
        raise AuditLogError(f"{what}; lines were cut off, or the log was rewritten", kind="head")
    return LogSummary(chain.count, chain.first, chain.last, chain.head)


class AuditLog:
    """A log open for writing, by one process at a time.

    `who` is the federation, the role and the name of the party. All lines are verified on opening. A last
    line that a crash left incomplete is cut off, and a new line says so: no `append` had returned. Raises
    StorageError if the file cannot be used, and AuditLogError if it is not valid.
    """

    def __init__(self, path: str | os.PathLike[str], who: tuple[str, ...]) -> None:
        self.path, self._lock, self._open = Path(path), Lock(), True
        self._chain, self._spoilt = _Chain(self.path, _genesis(who)), False
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        new = not os.path.lexists(self.path)
        with self._stored(), ExitStack() as on_error:
            self._descriptor = os.open(self.path, flags | (os.O_CREAT | os.O_EXCL if new else 0), PRIVATE)
            on_error.callback(os.close, self._descriptor)
            self._claim(new)
            with os.fdopen(self._descriptor, "rb", closefd=False) as file:
                deque(self._chain.follow(file), 0)
            if self._chain.torn:
                os.ftruncate(self._descriptor, self._chain.size)
                self._append("log repaired", {"bytes": self._chain.torn})
            on_error.pop_all()

    @property
    def head(self) -> str:
        """The hash of the last line. Noted down elsewhere, it shows later that nothing was cut off."""
        return self._chain.head

    def append(self, event: str, /, **facts: Fact) -> None:
        """Write a line, which is on disk when this returns. After an error the log is unchanged.

        Raises UsageError for facts that are not str, int, bool or a list of these, or are too long, and
        StorageError, of kind `full` if the disk is full; once there is room, `append` works again.
        """
        with self._lock:
            if not self._open:
                raise StorageError(f"{self.path}: this log is closed; open it again", kind="closed")
            with self._stored():
                self._append(event, facts)

    def close(self) -> None:
        """Close the log, so that other processes can open it."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)

    def _claim(self, new: bool) -> None:
        """Lock the file for this process. Raises StorageError if it is not a file of this user alone."""
        if new:
            os.fchmod(self._descriptor, PRIVATE)  # the umask may have taken bits away
            sync_directory(self.path.parent)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{self.path}: not a file; move it away", kind="malformed")
        check_private(self.path, status, StorageError)
        check_own(self.path, status, StorageError)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _append(self, event: str, facts: dict[str, Fact]) -> None:
        chain = self._chain
        entry = _entry(chain.count, datetime.now(UTC).strftime(_TIME), event, facts, chain.head)
        line = _line(entry)
        if len(line) > MAX_LINE:
            raise UsageError(f"{event!r}: a line of an audit log has at most {MAX_LINE} bytes; log less")
        self._check_place()
        try:
            rest = memoryview(line)
            while rest:  # once, unless there is no room for all of it
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except BaseException:
            with suppress(OSError):  # if it cannot be undone now, then before the next line
                os.ftruncate(self._descriptor, chain.size)
            self._spoilt = True
            raise
        chain.grow(entry, len(line))

    def _check_place(self) -> None:
        """Raise StorageError if the file was moved, or its size has changed."""
        if self._spoilt:
            os.ftruncate(self._descriptor, self._chain.size)
            self._spoilt = False
        here, there = os.fstat(self._descriptor), os.lstat(self.path)
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise StorageError(f"{self.path}: replaced by another file; put the log back", kind="missing")
        if here.st_size != self._chain.size:
            raise StorageError(f"{self.path}: changed by another program; verify it", kind="malformed")

    @contextmanager
    def _stored(self) -> Iterator[None]:
        """Turn errors of the file system into StorageError."""
        try:
            yield
        except OSError as error:
            other = f"cannot be read or written: {error.strerror}", "io"
            reason, kind = _REASONS.get(error.errno or 0, other)
            raise StorageError(f"{self.path}: {reason}", kind=kind) from None


# -- lines ------------------------------------------------------------------------------------------


class _Chain:
    """The lines of a log so far, each checked against the one before. Without `start`, any can be first."""

    def __init__(self, path: Path, start: str | None) -> None:
        self.path, self.head = path, start or ""
        self.count = self.size = self.torn = 0
        self.first: str | None = None
        self.last: str | None = None

    def follow(self, file: BinaryIO) -> Iterator[tuple[str, str]]:
        """Check and count all lines of a file, and yield the hash before each and its own."""
        while line := file.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise self._error(f"is longer than {MAX_LINE} bytes", "malformed")
            if not line.endswith(b"\n"):
                self.torn = len(line)
                return
            entry = self._checked(line)
            self.grow(entry, len(line))
            yield entry.previous, entry.hash

    def grow(self, entry: _Entry, size: int) -> None:
        self.first = self.first or entry.time
        self.last, self.head = entry.time, entry.hash
        self.count, self.size = self.count + 1, self.size + size

    def _checked(self, line: bytes) -> _Entry:
        try:
            entry = msgspec.json.decode(line, type=_Entry)
            again = _entry(entry.n, entry.time, entry.event, entry.facts, entry.previous)
            time = datetime.strptime(entry.time, _TIME).strftime(_TIME)
        except (ValueError, RecursionError):
            raise self._error("is not a line of an audit log", "malformed") from None
        if _line(entry) != line or time != entry.time:
            raise self._error("is not written as RevFRF writes it", "malformed")
        if entry.hash != again.hash:
            raise self._error("was changed: its hash does not fit", "chain")
        if entry.n != self.count:
            raise self._error(f"has number {entry.n}, not {self.count}: lines are missing or moved", "order")
        if self.head not in ("", entry.previous):
            what = "does not follow from the line before it" if entry.n else "begins another party's log"
            raise self._error(what, "chain")
        return entry

    def _error(self, what: str, kind: str) -> AuditLogError:
        fix = "find out who changed the log; if it was the disk, restore a backup"
        if not self.count and kind == "malformed":
            fix = "this file is not an audit log, or its beginning was changed"
        return AuditLogError(f"{self.path}, line {self.count + 1}: {what}; {fix}", kind=kind)


def _entry(n: int, time: str, event: str, facts: dict[str, Fact], previous: str) -> _Entry:
    try:
        ordered = {name: msgspec.convert(facts[name], Fact) for name in sorted(facts)}
    except msgspec.ValidationError as error:
        what = "a fact is a str, a bool, an int of 64 bits or a list"
        raise UsageError(f"{event!r}: {what}: {error}") from None
    fields: tuple[Field, ...] = tuple(
        (name, tuple(fact) if isinstance(fact, list) else fact) for name, fact in ordered.items()
    )
    return _Entry(n, time, event, ordered, previous, digest(_DOMAIN, n, time, event, fields, previous).hex())


def _line(entry: _Entry) -> bytes:
    """Return a line in ASCII; other characters and line breaks are escaped."""
    return json.dumps(msgspec.structs.asdict(entry), separators=(",", ":")).encode("ascii") + b"\n"


def _genesis(who: tuple[str, ...]) -> str:
    return digest(_OWNER, *who).hex()
