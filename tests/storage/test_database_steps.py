"""A database changes step by whole step, whatever breaks, and rows are read as they were written."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database
from tests.storage.databases import (
    HIDDEN,
    TABLES,
    OurOwnError,
    check_refuses_everything,
    made,
    names,
    names_in,
    put,
    refusal,
    refused,
    wrong_with,
)

# -- whole steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OurOwnError, KeyError, KeyboardInterrupt, SystemExit, MemoryError])
def test_step_that_fails_half_way_has_not_happened_and_nothing_happens_after_it(
    path: Path, error: type[BaseException]
) -> None:
    database = Database(path, create=True)
    put(database, 1)
    with pytest.raises(error), database.transaction():  # noqa: PT012
        put(database, 2)
        database.put("leaves", [(0, 3, b"")])
        assert names(database) == [1, 2, 3]
        raise error("half-way")
    check_refuses_everything(database)
    database.close()
    again = Database(path)
    assert names(again) == [1]
    put(again, 4)
    assert names(again) == [1, 4]


def test_rows_of_a_step_are_all_written_or_none(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 5)

    def rows() -> Iterator[tuple[int, int, bytes]]:
        yield 0, 6, b""
        raise OurOwnError

    with pytest.raises(OurOwnError):
        database.put("leaves", rows())
    assert names(database) == [5]
    statement = "INSERT INTO leaves (tree, path) VALUES (0, ?)"
    assert isinstance(refusal(lambda: database.change(statement, [(8,), (9,), (5,)])), StorageError)
    check_refuses_everything(database)
    assert names_in(path) == [5]


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("INSERT INTO facts VALUES (?, ?, ?)", ("name", HIDDEN, b"")),
        ("INSERT INTO facts VALUES (?, ?, ?)", (None, HIDDEN.encode(), b"")),
        ("INSERT INTO facts VALUES (?, ?, ?)", (HIDDEN, 5, b"")),
        ("INSERT INTO facts VALUES (?)", (HIDDEN,)),
        ("INSERT INTO facts VALUES (?, ?)", (HIDDEN,)),
        ("INSERT INTO secrets VALUES (?)", (HIDDEN,)),
        ("INSERT INTO facts VALUES (?, ?, ?)", ("name", {HIDDEN}, b"")),
        ("no SQL", ()),
    ],
)
def test_values_that_are_refused_are_not_printed(path: Path, statement: str, row: tuple[Any, ...]) -> None:
    database = Database(path, create=True)
    refusal(lambda: database.change(statement, [row]))
    check_refuses_everything(database)


def test_steps_within_a_step_are_one(path: Path) -> None:
    database = Database(path, create=True)
    with database.transaction():
        put(database, 1)
        with database.transaction():
            put(database, 2)
            with database.transaction():
                put(database, 3)
        put(database, 4)
    assert names(database) == [1, 2, 3, 4]
    with pytest.raises(OurOwnError), database.transaction():  # noqa: PT012
        with database.transaction():
            put(database, 5)
        put(database, 6)
        raise OurOwnError
    again = Database(path)
    assert names(again) == [1, 2, 3, 4]
    with pytest.raises(OurOwnError), again.transaction():  # noqa: PT012
        put(again, 7)
        with again.transaction():
            raise OurOwnError
    assert names_in(path) == [1, 2, 3, 4]


def test_step_is_on_disk_before_the_next_begins(path: Path) -> None:
    """A copy of the files is what a crash leaves: every finished step, and nothing of the open one."""
    database = Database(path, create=True)
    for name in range(1, 6):
        put(database, name)
        with database.transaction():
            put(database, 10 + name)
            put(database, 20 + name)
            copy = copied(path, f"copy {name}")
        opened = Database(copy)
        done = [*range(1, name + 1), *range(11, 10 + name), *range(21, 20 + name)]
        assert names(opened) == done
        opened.close()


def copied(path: Path, name: str) -> Path:
    """The files of a database as they are now."""
    copy = path.parent / name / path.name
    copy.parent.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copy.parent / file.name)
    return copy


@pytest.mark.parametrize("damage", ["cut off", "noise", "a bit"])
def test_torn_log_leaves_the_state_after_a_whole_step(path: Path, damage: str) -> None:
    """Every step writes three rows and a number; of its pages none counts without the others."""
    database = Database(path, create=True)
    for step in range(40):
        with database.transaction():
            put(database, *(1000 * k + step for k in range(3)), size=600)
            database.put("quotas", [("steps", step + 1)])
    rng, found = random.Random(damage), set()
    for attempt in range(25):
        copy = copied(path, f"copy {attempt}")
        log = copy.with_name("party.db-wal")
        data = bytearray(log.read_bytes())
        at = rng.randrange(len(data))
        if damage == "cut off":
            del data[at:]
        elif damage == "noise":
            data[at:] = rng.randbytes(len(data) - at)
        else:
            data[at] ^= 1 << rng.randrange(8)
        log.write_bytes(data)
        error = wrong_with(copy)
        if error is not None:
            assert error.kind in ("malformed", "missing")  # not even the tables had been written
            continue
        opened = Database(copy)
        n_steps = dict(opened.rows("quotas")).get("steps", 0)
        assert names(opened) == sorted(1000 * k + step for k in range(3) for step in range(n_steps))
        found.add(n_steps)
        opened.close()
    assert len(found) > 5


def test_log_that_is_gone_is_an_older_state_or_none_but_never_half_a_step(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 1, 2)
    database.scrub()
    put(database, 3, 4)
    copy = copied(path, "copy")
    database.close()
    copy.with_name("party.db-wal").unlink()
    assert names_in(copy) == [1, 2]


def test_log_of_another_database_raises_nothing_but_a_storage_error(path: Path) -> None:
    made(path)
    other = Database(path.with_name("other.db"), create=True)
    for name in range(50):
        put(other, name)
    shutil.copy(path.with_name("other.db-wal"), path.with_name("party.db-wal"))
    other.close()
    assert HIDDEN not in str(wrong_with(path))


def test_closed_database_refuses_everything_and_closes_again(path: Path) -> None:
    database = Database(path, create=True)
    database.close()
    database.close()
    check_refuses_everything(database)


ROWS: list[tuple[Any, ...]] = [
    ("facts", "größe", b""),
    ("facts", "", bytes(10_000)),
    ("leaves", 0, 2**63 - 1, b"x"),
    ("leaves", -(2**63), 0, b""),
    ("quotas", "nul\0nul", 0),
    ("batches", 7, b"signature", b"leaves"),
    ("requests", b"", b"\xff"),
    ("own_splits", 1, 2, 3, -4),
    ("splits", 1, 2, "bank/x", 3, "bank", b"directions", b"c", 4, 5, 6),
]


def test_rows_are_read_as_they_were_written_and_the_later_counts(path: Path) -> None:
    database = Database(path, create=True)
    for table, *row in ROWS:
        database.put(table, [row, row])
    for _ in range(2):
        for table in TABLES:
            expected = sorted(tuple(row) for other, *row in ROWS if other == table)
            assert sorted(database.rows(table)) == expected
        database.close()
        database = Database(path)
    assert database.rows("leaves", "path = ?", (0,)) == [(-(2**63), 0, b"")]
    database.put("quotas", [("nul\0nul", 9)])
    assert database.rows("quotas") == [("nul\0nul", 9)]


@pytest.mark.parametrize("row", [(0, 2**63, b""), (-(2**63) - 1, 0, b"")])
def test_numbers_that_do_not_fit_are_refused(path: Path, row: tuple[Any, ...]) -> None:
    database = Database(path, create=True)
    assert refused(lambda: database.put("leaves", [row])) == "io"
    check_refuses_everything(database)


# -- what is deleted --------------------------------------------------------------------------------


def test_scrub_empties_the_log_and_loses_nothing(path: Path) -> None:
    database = Database(path, create=True)
    put(database, *range(500))
    before = names(database)
    database.scrub()
    assert path.with_name("party.db-wal").stat().st_size == 0
    assert names(database) == before
    copy = copied(path, "copy")
    database.close()
    assert names_in(copy) == before


def test_settings_that_erasure_and_crashes_depend_on_are_set(path: Path) -> None:
    for create in (True, False):
        database = Database(path, create=create)
        settings = {
            name: database._value(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "secure_delete", "locking_mode", "temp_store")
        }
        assert settings == {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "locking_mode": "exclusive",
            "temp_store": 2,
        }
        database.close()
