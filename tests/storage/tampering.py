"""Databases that somebody has changed by hand."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from revfrf.storage.sqlite import _TABLES, checksum


def by_hand(file: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    """Change rows of a closed database; there must be some to change."""
    connection = sqlite3.connect(file)
    with connection:
        changed = connection.execute(statement, values).rowcount
    connection.close()
    assert changed


def edit(file: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a fact of a closed database."""
    connection = sqlite3.connect(file)
    [value] = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    connection.close()
    changed = msgspec.msgpack.encode(change(msgspec.msgpack.decode(value)))
    assert changed != value
    by_hand(file, "UPDATE facts SET value = ? WHERE name = ?", (changed, name))


def edit_data(file: Path, table: str, change: Callable[[bytes], bytes]) -> None:
    """Change the data of one row of a closed database."""
    connection = sqlite3.connect(file)
    [data] = connection.execute(f"SELECT data FROM {table} ORDER BY 1 LIMIT 1").fetchone()  # noqa: S608
    connection.close()
    changed = change(data)
    assert changed != data
    by_hand(file, f"UPDATE {table} SET data = ? WHERE data = ?", (changed, data))  # noqa: S608


def recompute_checksums(file: Path) -> None:
    """Make every row of a closed database look as if it had been written so."""
    connection = sqlite3.connect(file)
    with connection:
        for table in _TABLES:
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
            for *row, _ in rows:
                marks = ", ".join("?" * (len(row) + 1))
                statement = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
                connection.execute(statement, (*row, checksum(table, row)))
    connection.close()


def with_byte(data: bytes, at: int = 0, by: int = 1) -> bytes:
    """Change one byte."""
    changed = bytearray(data)
    changed[at] ^= by
    return bytes(changed)


def fields(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change these fields of a record."""
    return lambda record: record | {name: change(record[name]) for name, change in changes.items()}
