"""One party's database: every step happens wholly or not at all, and what is erased is gone.

SQLite with a write-ahead log and a sync at every commit: what was committed survives a crash of the process
or the machine. `secure_delete` overwrites with zeros what is deleted, but pages that SQLite has split or
merged may still hold a copy: `scrub` rewrites all pages, and empties the log. Only its owner may read the
file, and only one process at a time may open it.

After a failed step the database refuses everything. Opened again, it is as it was before that step.
"""

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from revfrf.errors import StorageError
from revfrf.io.files import PRIVATE, check_private
from revfrf.storage.memory import Row, Tables

VERSION = 1
_APPLICATION = 0x52465246
_DAMAGED = "damaged; restore it from a backup", "malformed"

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cell_size_check = ON",
    "trusted_schema = OFF",
)

_TABLES = {
    "facts": ("name", "name TEXT, value BLOB"),
    "splits": (
        "tree, path",
        "tree INTEGER, path INTEGER, feature TEXT, cut INTEGER, owner TEXT, directions BLOB, "
        "ciphertext BLOB, epoch INTEGER, batch INTEGER, position INTEGER",
    ),
    "batches": ("number", "number INTEGER, signature BLOB, leaves BLOB"),
    "leaves": ("tree, path", "tree INTEGER, path INTEGER, sums BLOB"),
    "own_splits": ("tree, path", "tree INTEGER, path INTEGER, feature INTEGER, threshold INTEGER"),
    "trees": ("tree", "tree INTEGER, data BLOB"),
    "columns": ("feature", "feature TEXT, line BLOB, salt BLOB"),
    "bins": ("feature, chunk", "feature TEXT, chunk INTEGER, data BLOB"),
    "requests": ("id", "id BLOB, digest BLOB"),
    "quotas": ("requester", "requester TEXT, n_rows INTEGER"),
}
"""The key and the columns of each table. The last column of every row is a checksum of the others: SQLite
itself has none."""


def _create(table: str) -> str:
    key, columns = _TABLES[table]
    return f"CREATE TABLE {table} ({columns}, checksum BLOB, PRIMARY KEY ({key})) STRICT, WITHOUT ROWID"


def checksum(table: str, row: Row) -> bytes:
    """Return the checksum of a row of this table."""
    hashed = hashlib.sha256(table.encode())
    for value in row:
        data = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(b"%s %d " % (type(value).__name__.encode(), len(data)))
        hashed.update(data)
    return hashed.digest()[:16]


class Database(Tables):
    """An open database. Every problem with it is a StorageError."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = Path(path)
        self._lock, self._depth = RLock(), 0
        self._ended: str | None = None
        with self._reported():
            if create:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
            else:
                status = os.lstat(self.path)
                if not stat.S_ISREG(status.st_mode):
                    raise self._error("not a file", "malformed")
                check_private(self.path, status, StorageError)
            self._connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(create)
            except BaseException:
                self._connection.close()
                raise

    def __str__(self) -> str:
        return str(self.path)

    def _set_up(self, create: bool) -> None:
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        if not create:
            self._check_kind()
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        if create:
            tables = list(map(_create, _TABLES))
            marks = [f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}"]
            self._connection.executescript(";".join(["BEGIN IMMEDIATE", *tables, *marks, "COMMIT"]))
        elif self._value("PRAGMA quick_check(1)") != "ok":
            raise self._error(*_DAMAGED)

    def _check_kind(self) -> None:
        """Refuse a database of another program, before anything in it changes."""
        if not self._value("PRAGMA schema_version"):
            raise self._error("empty", "missing")
        if self._value("PRAGMA application_id") != _APPLICATION:
            raise self._error("not a database of RevFRF", "malformed")
        if self._value("PRAGMA user_version") != VERSION:
            raise self._error(f"has another version; this RevFRF reads version {VERSION}", "version")

    def _value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def _error(self, reason: str, kind: str) -> StorageError:
        return StorageError(f"{self.path}: {reason}", kind=kind)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn errors of SQLite and the file system into StorageError."""
        try:
            yield
        except FileExistsError:
            raise self._error("exists already", "exists") from None
        except FileNotFoundError:
            raise self._error("there is no such file", "missing") from None
        except OSError as error:
            raise self._error(str(error.strerror), "io") from None
        except UnicodeDecodeError:
            raise self._error(*_DAMAGED) from None
        except OverflowError:
            raise self._error("a number or a column is too large for it", "io") from None
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: sqlite3.Error) -> StorageError:
        if self._ended is not None:
            return StorageError(self._ended, kind="closed")
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                said = "in use by another process or model; stop or `close` that one first", "in-use"
            case sqlite3.SQLITE_FULL:
                said = "the disk is full; free some space, and open it again: no commit is lost", "full"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                said = "cannot be written; check its permissions, and its directory's", "io"
            case sqlite3.SQLITE_TOOBIG:
                said = "a column is larger than a gigabyte", "io"
            case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
                said = "cannot be read or written; check the disk", "io"
            case _:
                said = _DAMAGED
        return self._error(*said)

    def check(self) -> None:
        if self._ended is not None:
            raise StorageError(self._ended, kind="closed")

    @contextmanager
    def transaction(self) -> Iterator[None]:
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

    def change(self, statement: str, rows: Iterable[Row] = ((),)) -> None:
        """Run a statement once for each of these rows, in a transaction."""
        with self.transaction():
            self._connection.executemany(statement, rows)

    def put(self, table: str, rows: Iterable[Row]) -> None:
        whole = [(*row, checksum(table, row)) for row in rows]  # first: an error here is not a failed step
        marks = ", ".join("?" * (_TABLES[table][1].count(",") + 2))
        self.change(f"REPLACE INTO {table} VALUES ({marks})", whole)  # noqa: S608

    def delete(self, table: str, keys: Iterable[Row] | None = None) -> None:
        if keys is None:
            self.change(f"DELETE FROM {table}")  # noqa: S608
        else:
            rows = list(keys)
            parts = _TABLES[table][0].split(", ")[: len(rows[0])] if rows else []
            where = " AND ".join(f"{part} = ?" for part in parts)
            if rows:
                self.change(f"DELETE FROM {table} WHERE {where}", rows)  # noqa: S608

    def rows(self, table: str, where: str = "TRUE", values: Row = ()) -> list[tuple[Any, ...]]:
        """See `Tables.rows`; `where` is a condition with marks for these values."""
        query = f"SELECT * FROM {table} WHERE {where}"  # noqa: S608
        with self._lock, self._reported():
            self.check()
            found = self._connection.execute(query, values).fetchall()
        if any(checksum(table, row) != written for *row, written in found):
            raise self._error(*_DAMAGED)
        return [tuple(row) for *row, _ in found]

    def fact(self, name: str) -> bytes | None:
        found = self.rows("facts", "name = ?", (name,))
        return found[0][1] if found else None

    def scrub(self) -> None:
        """See `Tables.scrub`: delete signatures without a split, rewrite all pages, and empty the log."""
        self.change("DELETE FROM batches WHERE number NOT IN (SELECT batch FROM splits)")
        with self._lock, self._reported():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close it. What was not committed has not happened."""
        self._end("this forest is closed; `open` it again")

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = f"{self.path}: {reason}"
            self._connection.close()
