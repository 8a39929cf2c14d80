"""One party's database: every step happens wholly or not at all, and what is erased is gone.

SQLite with a write-ahead log and a sync at every commit: what was committed survives the end of the process,
and of the machine. `secure_delete` overwrites with zeros what is deleted, but pages that SQLite has split or
merged may still hold a copy: `scrub` writes all of them anew, and empties the log. The file is its owner's
alone, and one process's at a time.

After a step that failed half-way nothing is written or read any more: whoever opens the file again finds it
as it was before that step.
"""

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from revfrf.errors import StorageError
from revfrf.io.files import PRIVATE, check_private

VERSION = 1
_APPLICATION = 0x52465246

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cell_size_check = ON",
    "trusted_schema = OFF",
)

_TABLES = {
    "facts": "name TEXT PRIMARY KEY, value BLOB",
    "splits": "tree INTEGER, path INTEGER, feature TEXT, cut INTEGER, owner TEXT, turns BLOB, "
    "ciphertext BLOB, epoch INTEGER, batch INTEGER, position INTEGER",
    "batches": "number INTEGER PRIMARY KEY, root BLOB, leaves BLOB",
    "leaves": "tree INTEGER, path INTEGER, sums BLOB",
    "own_splits": "tree INTEGER, path INTEGER, feature INTEGER, threshold INTEGER",
    "requests": "id BLOB PRIMARY KEY, digest BLOB",
    "quotas": "requester TEXT PRIMARY KEY, n_rows INTEGER",
}
"""Every row ends with a seal, a hash of the others, which shows damage that SQLite does not look for."""


def _create(table: str, columns: str) -> str:
    key = "" if "PRIMARY KEY" in columns else ", PRIMARY KEY (tree, path)"
    return f"CREATE TABLE {table} ({columns}, seal BLOB{key}) STRICT, WITHOUT ROWID"


def _seal(table: str, row: Sequence[Any]) -> bytes:
    sealed = hashlib.sha256(table.encode())
    for value in row:
        data = value if isinstance(value, bytes) else str(value).encode()
        sealed.update(b"%s %d " % (type(value).__name__.encode(), len(data)))
        sealed.update(data)
    return sealed.digest()[:16]


class Database:
    """An open database. Raises StorageError, whatever is wrong with it."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = Path(path)
        self._lock, self._depth = RLock(), 0
        self._ended: str | None = None
        with self._reported():
            if create:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
            else:
                self._check_file()
            self._connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(create)
            except BaseException:
                self._connection.close()
                raise

    def _check_file(self) -> None:
        status = os.lstat(self.path)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{self.path}: not a file", kind="malformed")
        check_private(self.path, status, StorageError)

    def _set_up(self, create: bool) -> None:
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        if not create:
            self._check_kind()
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        if create:
            tables = [_create(table, columns) for table, columns in _TABLES.items()]
            marks = [f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}"]
            self._connection.executescript(";".join(["BEGIN IMMEDIATE", *tables, *marks, "COMMIT"]))
        elif self._value("PRAGMA quick_check(1)") != "ok":
            raise self._damaged()

    def _check_kind(self) -> None:
        """Refuse what is another program's, before anything in it changes."""
        if not self._value("PRAGMA schema_version"):
            raise StorageError(f"{self.path}: empty", kind="missing")
        if self._value("PRAGMA application_id") != _APPLICATION:
            raise StorageError(f"{self.path}: not a database of RevFRF", kind="malformed")
        if self._value("PRAGMA user_version") != VERSION:
            raise StorageError(
                f"{self.path}: of another version; this RevFRF reads version {VERSION}", kind="version"
            )

    def _value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def _damaged(self) -> StorageError:
        return StorageError(f"{self.path}: damaged; restore it from a backup", kind="malformed")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Errors of SQLite and the file system as ours."""
        try:
            yield
        except FileExistsError:
            raise StorageError(f"{self.path}: exists already", kind="exists") from None
        except FileNotFoundError:
            raise StorageError(f"{self.path}: there is no such file", kind="missing") from None
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kind="io") from None
        except UnicodeDecodeError:
            raise self._damaged() from None
        except OverflowError:
            raise StorageError(f"{self.path}: a number or a column too large for it", kind="io") from None
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: sqlite3.Error) -> StorageError:
        if self._ended is not None:
            return StorageError(self._ended, kind="closed")
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason, kind = "in use by another process or model; stop or `close` that one first", "in-use"
            case sqlite3.SQLITE_FULL:
                reason, kind = "the disk is full; make room, and open it again: no commit is lost", "full"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                reason, kind = "cannot be written; look at its permissions, and its directory's", "io"
            case sqlite3.SQLITE_TOOBIG:
                reason, kind = "a column with more than a gigabyte", "io"
            case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
                reason, kind = "cannot be read or written; look at its disk", "io"
            case _:
                return self._damaged()
        return StorageError(f"{self.path}: {reason}", kind=kind)

    def check(self) -> None:
        """Raise StorageError if it was closed, or a step has failed."""
        if self._ended is not None:
            raise StorageError(self._ended, kind="closed")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is one step; within another, a part of it."""
        with self._lock:
            self.check()
            if self._depth:
                yield
                return
            self._depth = 1
            try:
                with self._reported():
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield
                    self._connection.execute("COMMIT")
            except BaseException:
                self._end("a step has failed; `close` this forest, and `open` it again")
                raise
            finally:
                self._depth = 0

    def change(self, statement: str, rows: Iterable[Sequence[Any]] = ((),)) -> None:
        """Run a statement once for each of these rows, in a transaction."""
        with self.transaction():
            self._connection.executemany(statement, rows)

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows, in place of those with the same keys, in a transaction."""
        marks = ", ".join("?" * (_TABLES[table].count(",") + 2))
        statement = f"REPLACE INTO {table} VALUES ({marks})"  # noqa: S608
        self.change(statement, ((*row, _seal(table, row)) for row in rows))

    def rows(self, table: str, where: str = "TRUE", values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a table. Raises StorageError if one of them is not as it was written."""
        query = f"SELECT * FROM {table} WHERE {where}"  # noqa: S608
        with self._lock, self._reported():
            self.check()
            found = self._connection.execute(query, values).fetchall()
        if any(_seal(table, row) != seal for *row, seal in found):
            raise self._damaged()
        return [tuple(row) for *row, _ in found]

    def scrub(self) -> None:
        """Leave no trace of what was deleted: all pages written anew, and the log emptied."""
        with self._lock, self._reported():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """What was not committed has not happened."""
        self._end("this forest is closed; `open` it again")

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = f"{self.path}: {reason}"
            self._connection.close()
