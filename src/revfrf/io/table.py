"""Tables in CSV or Parquet files: columns by name, and ids that can be compared with another party's.

Both are read alike. Whitespace around a number or a category is ignored, `1.0` as a category or a label is
`1`, and empty fields and the usual words for nothing are missing values. CSV files are in UTF-8, separated by
commas, and their first line names the columns.

Ids are compared character by character. An id that could not match for an invisible reason is refused:
missing, duplicate, with whitespace around it, or a float such as 17.0. A whole number in Parquet is its
decimal text: 17 is "17" in a CSV file.

Errors are UsageErrors that name the file, the column, and the line of a CSV file or the row of a Parquet
file, counted from 1.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revfrf.errors import UsageError
from revfrf.io.files import PathLike

_ABSENT = {"", "nan", "na", "n/a", "null", "none", "<na>"}
_TRUTH = {"True": 1, "False": 0}
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_NUMERIC_ID = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?")
_NO_ID = (bool, float, np.floating)
_ODD_ID = "ids with whitespace around them or characters that do not print never match; remove those"
_FLOAT_ID = (
    "ids that are floats or booleans never match; write them as whole numbers or text (pandas turns integers "
    "into floats where one is missing)"
)
_PLAIN = ("string", "large_string", "string_view", "integer", "floating", "decimal", "boolean", "null")
"""Types of Parquet columns whose values are numbers or categories."""

Values = Sequence[Any] | NDArray[Any]


# -- values -----------------------------------------------------------------------------------------


def _is_no_id(value: Any) -> bool:
    """Whether a value may be written in several ways, so that it is no id."""
    return isinstance(value, _NO_ID) or (isinstance(value, Decimal) and value.as_tuple().exponent != 0)


def number(value: Any) -> Any:
    """Return a number, text as Python reads it, or None if it is missing. Raises UsageError."""
    if not isinstance(value, str):
        return None if value is None or value != value else value
    text = value.strip()
    if text.lower() in _ABSENT:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    with suppress(ValueError):
        if "_" not in text:
            return int(text) if text.lstrip("+-").isdecimal() else float(text)
    raise UsageError(f"{some([text])} is not a number")


def category(value: object, known: Collection[str] = ()) -> str | None:
    """Return a category or a label as text, or None if it is missing; a known one is taken as it is."""
    if value is None or value != value:
        return None
    text = plain_text(value)
    if text in known:
        return text
    text = text.strip()
    if text.lower() in _ABSENT:
        return None
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def plain_text(value: object) -> str:
    """Return a value as text; 1.0 is 1: pandas makes floats of integers where a value is missing."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def some(names: Sequence[object], most: int = 10) -> str:
    """Return the first few names, as text."""
    shown = ", ".join(text if len(text) <= 60 else text[:57] + "..." for text in map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# -- files ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A file: its columns by name, in a CSV file all of them text, and the lines on which its rows begin."""

    path: str
    columns: Mapping[str, Any] = field(repr=False)
    lines: tuple[int, ...] | None = field(repr=False)

    @classmethod
    def read(cls, path: PathLike) -> "Table":
        """Read a file by its suffix, .csv or .parquet. Raises UsageError."""
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            return cls._read_csv(path)
        if suffix == ".parquet":
            return cls._read_parquet(path)
        raise UsageError(f"{path}: give a file whose name ends in .csv or .parquet")

    @classmethod
    def _read_csv(cls, path: PathLike) -> "Table":
        rows, starts, after = [], [], 0
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
            lines = csv.reader(io.StringIO(text, newline=""), strict=True)
            names = next(lines, [])
            after = lines.line_num
            for row in lines:
                start, after = after + 1, lines.line_num
                if row and len(row) != len(names):
                    raise UsageError(f"{path}, line {start}: {len(row)} values in {len(names)} columns")
                if row or len(names) == 1:
                    rows.append(row or [""])
                    starts.append(start)
        except OSError as error:
            raise _unreadable(path, error) from None
        except UnicodeDecodeError as error:
            line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
            raise UsageError(
                f"{path}, line {line}: byte 0x{byte:02x}: not a CSV file in UTF-8 (perhaps Latin-1 or "
                "Windows-1252); save it as UTF-8"
            ) from None
        except csv.Error as error:
            raise UsageError(f"{path}: not a CSV file in UTF-8: after line {after}, {error}") from None
        return cls._checked(path, names, tuple(zip(*rows, strict=True)), tuple(starts))

    @classmethod
    def _read_parquet(cls, path: PathLike) -> "Table":
        import pyarrow  # slow to load, and CSV files do not need it
        from pyarrow import parquet

        try:
            with Path(path).open("rb") as file:
                content = parquet.ParquetFile(file).read()
            content.validate(full=True)  # above all, text that is not UTF-8
            names = content.column_names
        except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise _unreadable(path, error) from None
            raise UsageError(f"{path}: not a Parquet file, or damaged: {error}") from None
        return cls._checked(path, names, content.columns if content.num_rows else (), None)

    @classmethod
    def _checked(
        cls, path: PathLike, names: Sequence[str], columns: Sequence[Any], lines: tuple[int, ...] | None
    ) -> "Table":
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise UsageError(f"{path}: two columns are called {twice[0]!r}; give each its own name")
        if not columns:
            raise UsageError(f"{path}: there are no rows")
        return cls(str(path), dict(zip(names, columns, strict=True)), lines)

    def at(self, row: int, column: str) -> str:
        """Return the place of a value, for errors."""
        return f"{self.path}, {self.places([row])}, column {column!r}"

    def places(self, rows: Sequence[int]) -> str:
        """Return the places of the first five of these rows."""
        shown = [str(row + 1 if self.lines is None else self.lines[row]) for row in rows[:5]]
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        return f"{'row' if self.lines is None else 'line'} {', '.join(shown)}{more}"

    def find(self, name: str, kind: str | None = None) -> Any:
        """Return a column as it was read. Raises UsageError of this kind, which names the existing ones."""
        if name in self.columns:
            return self.columns[name]
        hint = "; are its columns separated by commas?" if len(self.columns) == 1 else ""
        known = f"its columns are {some([*self.columns])}{hint}"
        raise UsageError(f"{self.path}: there is no column {name!r}; {known}", kind=kind)

    def column(self, name: str, kind: str | None = None) -> Any:
        """Return a column's values: text, numbers, None. Raises UsageError, also for types without such."""
        column = self.find(name, kind)
        if self.lines is not None:
            return column
        from pyarrow import types

        if types.is_floating(column.type):
            return column.to_numpy()
        inner = column.type.value_type if types.is_dictionary(column.type) else column.type
        if not any(getattr(types, f"is_{plain}")(inner) for plain in _PLAIN):
            raise UsageError(
                f"{self.path}, column {name!r}: a {column.type} is neither number nor category; convert it "
                "(a date to a number of days, for example), or drop it"
            )
        return column.to_pylist()

    def texts(self, name: str, kind: str | None = None) -> list[str]:
        """Return a column as in a CSV file; see `column`."""
        return ["" if value is None else str(value) for value in self.column(name, kind)]

    def ids(self, name: str) -> tuple[str, ...]:
        """Return a column of ids, all present and all different."""
        texts, place = self.texts(name, "no-ids"), f"{self.path}, column {name!r}"
        floats = [row for row, value in enumerate(self.column(name)) if _is_no_id(value)]
        if all(map(_NUMERIC_ID.fullmatch, texts)):
            floats = floats or [row for row, text in enumerate(texts) if "." in text]
        absent = [row for row, text in enumerate(texts) if text.strip().lower() in _ABSENT]
        if absent:
            raise UsageError(f"{place}: no id in {self.places(absent)}; every row needs one")
        odd = [row for row, text in enumerate(texts) if text != text.strip() or not text.isprintable()]
        for wrong, reason in ((odd, _ODD_ID), (floats, _FLOAT_ID)):
            if wrong:
                shown = some([texts[row] for row in wrong], 5)
                raise UsageError(f"{place}, {self.places(wrong)}: {shown}: {reason}")
        if len(set(texts)) != len(texts):
            raise UsageError(f"{place}: ids must be unique, and these are not: {self._twice(texts)}")
        return tuple(texts)

    def _twice(self, ids: Sequence[str]) -> str:
        rows: dict[str, list[int]] = {}
        for row, one in enumerate(ids):
            rows.setdefault(one, []).append(row)
        twice = [f"{one!r} in {self.places(places)}" for one, places in rows.items() if len(places) > 1]
        return "; ".join(twice[:5]) + (f"; and {len(twice) - 5} more" if len(twice) > 5 else "")


def _unreadable(path: PathLike, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path}: there is no such file", kind="no-table")
    return UsageError(f"{path}: cannot be read: {error.strerror}")
