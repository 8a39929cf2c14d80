"""Where stores write: the seam between what a party remembers and where it is kept.

`storage.sqlite.Database` is the implementation on disk. Every step happens wholly or not at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Row = Sequence[Any]


class Tables:
    """Tables that keep nothing: their store has everything in memory anyway.

    Rows are given as iterators, which nobody runs here.
    """

    def __str__(self) -> str:
        return "memory"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make one step of everything inside; within another transaction, a part of it."""
        yield

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows, in place of those with the same keys."""

    def delete(self, table: str, keys: Iterable[Row] | None = None) -> None:
        """Delete the rows with these keys, or all of them."""

    def rows(self, table: str) -> list[tuple[Any, ...]]:  # noqa: ARG002
        """Return all rows of a table. Raises StorageError for a row that is not as it was written."""
        return []

    def fact(self, name: str) -> bytes | None:
        """Return the value of the newest row of this name in the table "facts"."""
        found: bytes | None = dict(self.rows("facts")).get(name)
        return found

    def scrub(self) -> None:
        """Leave no trace of what was deleted."""

    def check(self) -> None:
        """Raise StorageError if the tables were closed, or a step has failed."""

    def close(self) -> None:
        """Refuse all reads and writes from now on."""


class SavedTables(Tables):
    """Tables as a file holds them: rows are added, and never deleted."""

    def __init__(self, content: Mapping[str, Iterable[Row]] | None = None) -> None:
        self.content: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for table, rows in (content or {}).items():
            self.put(table, rows)

    def __str__(self) -> str:
        return "saved forest"

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows."""
        self.content[table] += map(tuple, rows)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return all rows of a table."""
        return list(self.content.get(table, ()))
