"""One party's database: every step happens wholly or not at all, and what is erased is gone.

SQLite with a write-ahead log and a sync at every commit: what was committed survives the end of the process,
and of the machine. `secure_delete` overwrites with zeros what is deleted, but pages that SQLite has split or
merged may still hold a copy: `scrub` writes all of them anew, and empties the log. The file is its owner's
alone, and one process's at a time.

After a step that failed half-way nothing is written or read any more: whoever opens the file again finds it
as it was before that step.
"""

import os
import shlex
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from revfrf.errors import StorageError

VERSION = 1
_APPLICATION = 0x52465246
_MODE = 0o600
_FULL, _LOCKED = "database or disk is full", "database is locked"

_PRAGMAS = (
    "locking_mode = EXCLUSIVE",
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cell_size_check = ON",
    "trusted_schema = OFF",
)

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE splits (
    tree INTEGER, path INTEGER, feature TEXT NOT NULL, cut INTEGER NOT NULL, owner TEXT NOT NULL,
    turns BLOB NOT NULL, ciphertext BLOB NOT NULL, epoch INTEGER NOT NULL, batch INTEGER NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY (tree, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE batches (number INTEGER PRIMARY KEY, root BLOB NOT NULL, leaves BLOB NOT NULL) STRICT;
CREATE TABLE leaves (
    tree INTEGER, path INTEGER, sums BLOB NOT NULL, PRIMARY KEY (tree, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE cuts (
    tree INTEGER, path INTEGER, feature INTEGER NOT NULL, cut INTEGER NOT NULL, PRIMARY KEY (tree, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (id BLOB PRIMARY KEY, digest BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE quotas (requester TEXT PRIMARY KEY, n_rows INTEGER NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""


class Database:
    """An open database. Raises StorageError, whatever is wrong with it."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = Path(path)
        self._lock, self._depth, self._failed = RLock(), 0, False
        with self._reported():
            if create:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE))
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
        if status.st_mode & 0o077:
            raise StorageError(
                f"{self.path}: holds private keys and is open to others; "
                f"run: chmod 600 {shlex.quote(str(self.path))}",
                kind="mode",
            )

    def _set_up(self, create: bool) -> None:
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        if create:
            self._connection.executescript(_SCHEMA)
            return
        if not self._value("PRAGMA schema_version"):
            raise StorageError(f"{self.path}: empty", kind="missing")
        if self._value("PRAGMA application_id") != _APPLICATION:
            raise StorageError(f"{self.path}: not a database of RevFRF", kind="malformed")
        if self._value("PRAGMA user_version") != VERSION:
            raise StorageError(
                f"{self.path}: of another version; this RevFRF reads version {VERSION}", kind="version"
            )
        if self._value("PRAGMA quick_check(1)") != "ok":
            raise self._damaged()

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
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: sqlite3.Error) -> StorageError:
        reason = str(error)
        if reason == _LOCKED:
            return StorageError(f"{self.path}: in use by another process, or another model", kind="in-use")
        if reason == _FULL:
            return StorageError(
                f"{self.path}: the disk is full; make room, and open it again: what was committed is there",
                kind="full",
            )
        if isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError):
            return StorageError(f"{self.path}: {reason}", kind="io")
        return self._damaged()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is one step; within another, a part of it."""
        with self._lock:
            if self._failed:
                raise StorageError(f"{self.path}: a step has failed; open it again", kind="io")
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
                self._failed = True
                self.close()
                raise
            finally:
                self._depth = 0

    def change(self, statement: str, rows: Iterable[Sequence[Any]] = ((),)) -> None:
        """Run a statement once for each of these rows, in a transaction."""
        with self.transaction():
            self._connection.executemany(statement, rows)

    def insert(self, statement: str, row: Sequence[Any]) -> int:
        """Insert a row, in a transaction, and return its number."""
        with self.transaction():
            return int(self._connection.execute(statement, row).lastrowid or 0)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer to a query."""
        with self._lock, self._reported():
            return self._connection.execute(query, values).fetchall()

    def scrub(self) -> None:
        """Leave no trace of what was deleted: all pages written anew, and the log emptied."""
        with self._lock, self._reported():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """What was not committed has not happened."""
        with self._lock:
            self._failed = True
            self._connection.close()
