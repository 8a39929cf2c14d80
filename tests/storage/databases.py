"""A party's databases: filled, read, and refused without a word of what is in them."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database

HIDDEN = "0123456789abcdef-this-is-a-private-key"
TABLES = ("facts", "splits", "batches", "leaves", "own_splits", "requests", "quotas")
PAGE = 4096


class OurOwnError(Exception):
    pass


def put(database: Database, *names: int, size: int = 100) -> None:
    """Rows with these names, in one step."""
    database.put("leaves", [(0, name, bytes([name % 251]) * size) for name in names])


def names(database: Database) -> list[int]:
    return sorted(path for _, path, _ in database.rows("leaves"))


def names_in(path: Path) -> list[int]:
    """The names in a database that is opened for it."""
    database = Database(path)
    try:
        return names(database)
    finally:
        database.close()


@pytest.fixture(autouse=True)
def closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every database that a test leaves open."""
    opened: list[Database] = []
    set_up = Database._set_up

    def recorded(database: Database, create: bool) -> None:
        set_up(database, create)
        opened.append(database)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "_set_up", recorded)
        yield
    for database in opened:
        database.close()


def made(path: Path, n_rows: int = 200) -> Path:
    """A closed database of some pages."""
    database = Database(path, create=True)
    put(database, *range(n_rows))
    database.put("facts", [("identity", HIDDEN.encode())])
    database.put("quotas", [("clinic", 7)])
    database.close()
    return path


def refusal(call: Callable[[], object]) -> StorageError:
    """The error of what is refused: ours, whose words and causes show no secret."""
    with pytest.raises(StorageError) as caught:
        call()
    report = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    context: BaseException | None = caught.value
    while context is not None:
        report += repr(context.args)
        context = context.__context__
    assert HIDDEN not in report
    return caught.value


def refused(call: Callable[[], object]) -> str:
    return refusal(call).kind


def everything(path: Path) -> list[list[tuple[Any, ...]]]:
    """All rows of a database that is opened for it."""
    database = Database(path)
    try:
        return [database.rows(table) for table in TABLES]
    finally:
        database.close()


def wrong_with(path: Path) -> StorageError | None:
    """What is said when all of a database is read."""
    try:
        everything(path)
    except StorageError as error:
        return error
    return None


def check_refuses_everything(database: Database) -> None:
    for call in (
        lambda: put(database, 77),
        lambda: database.change("DELETE FROM leaves"),
        lambda: names(database),
        lambda: database.transaction().__enter__(),
        lambda: database.scrub(),
        lambda: database.check(),
    ):
        assert refused(call) == "closed"
