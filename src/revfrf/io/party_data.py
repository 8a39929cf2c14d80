"""A party's own table: a participant's columns, CS's labels; and predictions as CSV.

`io.table` describes the files. A participant's columns are encoded as it has published them, so that later
rows are encoded like the first ones.
"""

import csv
import io
import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.encoding import FixedPoint, missing
from revfrf.errors import RangeError, UsageError
from revfrf.io.files import PathLike
from revfrf.io.table import Table, Values, category, number, some
from revfrf.messages.fle_expan import Column

MAX_COLUMNS = 2**16 - 1
Task = Literal["classes", "numbers"]
"""The kind of labels."""

Labels = dict[str, Any]
"""The coordinator's labels by their ids: classes are text, numbers are floats."""

MAX_FREE_CATEGORIES = 100
"""Up to this number, distinct values are taken for categories or classes without asking."""


# -- a participant's rows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A participant's table. Columns are read when they are needed: others may hold anything."""

    table: Table
    id_column: str
    ids: tuple[str, ...] = field(repr=False)
    categories: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    decimals: int | Mapping[str, int] | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What the participant publishes: names, decimals and rings, and names of categories, but no values.

        Raises UsageError for a column that is neither number nor category. Unless `categories` names the
        column, that includes columns in which only a part (at least half) of the values are numbers, and
        columns with more than 100 categories that are more than half of the values: such values are data.
        Raises RangeError for a number that does not fit.
        """
        places = self.decimals if isinstance(self.decimals, Mapping) else {}
        for name in sorted({*self.categories, *self.drop, *places}):
            self.table.find(name)
        names = [name for name in self.table.columns if name != self.id_column and name not in self.drop]
        if not 0 < len(names) <= MAX_COLUMNS:
            raise UsageError(
                f"{self.table.path}: {len(names):,} columns besides the ids; "
                f"a participant has 1 to {MAX_COLUMNS:,}"
            )
        return tuple(map(self._learn, names))

    def codes(self, columns: Sequence[Column], *, clamp: bool = False) -> NDArray[np.int64]:
        """Return x̂, of shape (n_columns, n_rows), by the columns' published decimals, rings and categories.

        A category that was not published is missing. Raises UsageError for a column that is not in the file
        or has another kind there, and RangeError for a number that does not fit; see `FixedPoint.encode`.
        """
        codes = [self._encode(column, clamp) for column in columns]
        return np.array(codes, dtype=np.int64).reshape(len(columns), len(self.ids))

    def _learn(self, name: str) -> Column:
        path = f"{self.table.path}, column {name!r}"
        if not 0 < len(name) <= 200 or not name.isprintable():
            raise UsageError(f"{path}: a name has 1 to 200 printable characters; rename it, or drop it")
        if name not in self.categories and self._numeric(name):
            decimals = self.decimals.get(name) if isinstance(self.decimals, Mapping) else self.decimals
            with self._placing(name, path):
                point = FixedPoint.derive(self._numbers(name), path, decimals)
            return Column(name, point.decimals, point.ring, None)
        present = [text for text in map(category, self.table.column(name)) if text is not None]
        found = tuple(sorted(set(present)))
        if not "".join(found).isprintable():
            raise UsageError(f"{path}: its categories have characters that do not print; rename them")
        if name not in self.categories and _mostly_different(len(found), len(present)):
            raise UsageError(
                f"{path}: {len(found)} categories in {len(present)} values would all be published; drop the "
                "column, or list it in `categories` if that is intended"
            )
        return Column(name, 0, 32, found)

    def _numeric(self, name: str) -> bool:
        """Return whether all present values of a column are numbers, text only if it is a finite one."""
        values = self.table.column(name)
        if not any(isinstance(value, str) for value in values):
            return True
        read = [_finite(value) for value in values]
        others = [row for row, yes in enumerate(read) if yes is False]
        if others and read.count(True) >= len(others):
            raise UsageError(
                f"{self.table.path}, column {name!r}, {self.table.places(others)}: "
                f"{some([values[row] for row in others], 5)}: not a finite number, unlike others; correct "
                "it, leave it empty, or list the column in `categories`, which publishes all its values"
            )
        return not others

    def _encode(self, column: Column, clamp: bool) -> NDArray[np.int64]:
        path = f"{self.table.path}, column {column.name!r}"
        if column.categories is not None:
            return category_codes(self.table.column(column.name), column.categories, path)
        with self._placing(column.name, path):
            numbers = self._numbers(column.name)
            return FixedPoint(column.decimals, column.ring, path).encode(numbers, clamp=clamp)

    @contextmanager
    def _placing(self, name: str, path: str) -> Iterator[None]:
        """Name the line in errors about a number."""
        try:
            yield
        except RangeError as error:
            row, _, reason = str(error).removeprefix(f"{path}, row ").partition(": ")
            raise RangeError(f"{self.table.at(int(row), name)}: {reason}") from None

    def _numbers(self, name: str) -> Values:
        values: Values = self.table.column(name)
        if any(isinstance(value, str) for value in values):
            return [self._number(row, name, value) for row, value in enumerate(values)]
        return values

    def _number(self, row: int, name: str, text: str) -> Any:
        try:
            return number(text)
        except UsageError as error:
            raise UsageError(
                f"{self.table.at(row, name)}: {error}, but the column was published as numbers; correct it, "
                "or leave it empty if it is missing"
            ) from None


def read_rows(
    path: PathLike,
    id_column: str,
    *,
    categories: Collection[str] = (),
    drop: Collection[str] = (),
    decimals: int | Mapping[str, int] | None = None,
) -> Rows:
    """Read a participant's rows from a .csv or .parquet file.

    `categories` lists columns that are categories even if they look like numbers, `drop` columns to leave
    out. `decimals` is for all number columns, or by name; where it is not given it is derived from the whole
    column, as `FixedPoint.derive` does.
    """
    if isinstance(categories, str) or isinstance(drop, str):
        raise UsageError("`categories` and `drop` are lists of column names")
    table = Table.read(path)
    return Rows(table, id_column, table.ids(id_column), frozenset(categories), frozenset(drop), decimals)


def category_codes(values: Values, categories: Sequence[str], where: str) -> NDArray[np.int64]:
    """Return the number of each value's category; a value without one is missing.

    Raises UsageError if all values are numbers and no category is, and warns if no value has a category.
    """
    known = {name: code for code, name in enumerate(categories)}
    texts = [category(value, known) for value in values]
    absent = missing(32)
    codes = np.array([absent if text is None else known.get(text, absent) for text in texts], np.int64)
    present = [text for text in texts if text is not None]
    if present and (codes == absent).all():
        if all(map(_finite, present)) and not any(map(_finite, known)):
            raise UsageError(f"{where} is a number here, but was a category in training; convert it")
        warnings.warn(
            f"{where}: no value is among its categories {some(categories, 5)}: all missing", stacklevel=4
        )
    return codes


def _mostly_different(n_different: int, n_values: int) -> bool:
    """Return whether values are data rather than names: more than 100, and more than half, are distinct."""
    return n_different > max(MAX_FREE_CATEGORIES, n_values // 2)


def _finite(value: Any) -> bool | None:
    """Return whether a value is a finite number, or None if it is missing."""
    try:
        found = number(value)
        return None if found is None else math.isfinite(found)
    except (UsageError, OverflowError):
        return False


# -- labels and answers -----------------------------------------------------------------------------


def read_labels(path: PathLike, id_column: str, target: str, task: Task, *, settled: bool = False) -> Labels:
    """Read labels by their ids from a .csv or .parquet file.

    Missing labels are refused, and so are words like "none": rename such a class. So are mostly distinct
    numbers as classes, unless that is `settled`.
    """
    if target == id_column:
        raise UsageError(f"{path}: {target!r} cannot be both the id and the label column")
    table, where = Table.read(path), f"{path}, column {target!r}"
    ids = table.ids(id_column)
    read = category if task == "classes" else _label_number
    found = []
    for row, value in enumerate(table.column(target, "no-labels")):
        try:
            found.append(read(value))
        except (UsageError, OverflowError) as error:
            raise UsageError(f"{table.at(row, target)}: {error}; correct it, or remove the row") from None
    absent = [row for row, value in enumerate(found) if value is None]
    if absent:
        raise UsageError(f"{where}: no label in {table.places(absent)}; add them, or remove the rows")
    odd = [row for row, value in enumerate(found) if isinstance(value, str) and not value.isprintable()]
    if odd:
        raise UsageError(f"{where}, {table.places(odd)}: characters that do not print; remove them")
    different, unclear = {*found}, task == "classes" and not settled
    if unclear and _mostly_different(len(different), len(found)) and all(map(_finite, different)):
        raise UsageError(
            f"{where}: {len(different)} different numbers in {len(found)} rows would each be a class; to "
            'predict numbers, set `task = "numbers"` in [data], or give --task numbers; if they are names, '
            "put a letter before them"
        )
    return dict(zip(ids, found, strict=True))


def _label_number(value: Any) -> float | None:
    """Return a finite number as a float, or None if it is missing."""
    found = number(value)
    if found is not None and not math.isfinite(found):
        raise UsageError(f"{found} is not finite")
    return None if found is None else float(found)


def csv_text(ids: Sequence[str], columns: Mapping[str, Values], *, id_column: str = "id") -> str:
    """Return ids and columns as CSV."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([id_column, *columns])
    writer.writerows(zip(ids, *columns.values(), strict=True))
    return file.getvalue()
