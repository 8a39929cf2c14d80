"""From a user's X to what each party holds: who owns which column, and its values as x̂."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.encoding import FixedPoint
from revfrf.errors import UsageError
from revfrf.io.party_data import category_codes
from revfrf.io.table import plain_text
from revfrf.messages.fle_expan import Column
from revfrf.names import check_name
from revfrf.protocols.columns import ColumnSettings

Parties = Mapping[str, Iterable[int | str]]
Decimals = int | Mapping[int | str, int] | None
"""Decimals of all columns, or by column; None and columns that are not named derive theirs."""


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas DataFrame."""
    return hasattr(X, "columns") and hasattr(X, "iloc") and hasattr(X, "dtypes")


@dataclass(frozen=True)
class Layout:
    """Who owns which columns of X, by position, and how each column is written as integers."""

    owned: Mapping[str, tuple[int, ...]]
    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, X: Any, names: Sequence[str] | None, parties: Parties | None, decimals: Decimals) -> Self:
        """Return who owns which column of X, and how it is encoded. Errors name the party and the column.

        Columns without names are numbered "x0", "x1", … within X while owners are found, and then within
        their party: a feature's id must not depend on other parties.
        """
        known = [f"x{i}" for i in range(X.shape[1])] if names is None else list(names)
        positions = _positions(known)
        owned, places = _owners(positions, parties), _by_position(positions, decimals, "decimals")
        owner = {position: party for party, mine in owned.items() for position in mine}
        own_names = dict(enumerate(known))
        if names is None and parties is not None:
            own_names = {p: f"x{i}" for mine in owned.values() for i, p in enumerate(mine)}
        columns = []
        for i, name in enumerate(known):
            categories = _categories(X, i, name)
            if categories is None:
                where = _where(X, owner[i], own_names[i], i)
                point = FixedPoint.derive(_numbers(X, i, where), where, places.get(i))
                columns.append(Column(own_names[i], point.decimals, point.ring, None))
            else:
                columns.append(Column(own_names[i], 0, 32, categories))
        return cls(owned, tuple(columns))

    def with_gone(self, X: Any, names: Sequence[str] | None) -> Any:
        """Return X with the columns of those who have left, whose content is ignored, if it has none."""
        owned = sorted(position for positions in self.owned.values() for position in positions)
        if len(owned) == len(self.columns):
            return X
        if is_frame(X) and names is not None:
            kept = {names[position] for position in owned}
            return X.reindex(columns=list(names)) if kept <= set(X.columns) < set(names) else X
        if np.ndim(X) != 2 or np.shape(X)[1] != len(owned):
            return X
        if is_frame(X):
            return X.set_axis(owned, axis="columns").reindex(columns=range(len(self.columns)))
        given = np.asarray(X)
        full = np.zeros((len(given), len(self.columns)), dtype=given.dtype)
        full[:, owned] = given
        return full

    def of(self, party: str) -> list[Column]:
        """Return what a party publishes of its columns."""
        return [self.columns[position] for position in self.owned[party]]

    def settings(
        self, party: str, given: Mapping[str, Any], names: Sequence[str] | None
    ) -> dict[str, ColumnSettings]:
        """Return the settings of a party's columns by their names.

        Each of them is given once for all columns, or as a dict by column of X. A budget for all counts for
        those with noise.
        """
        known = _positions([f"x{i}" for i in range(len(self.columns))] if names is None else names)
        found = {what: _by_position(known, value, what) for what, value in given.items()}
        if given["epsilon"] is not None and not isinstance(given["epsilon_budget"], Mapping):
            noisy, budgets = found["epsilon"], found["epsilon_budget"]
            found["epsilon_budget"] = {i: budgets[i] for i in budgets if noisy.get(i) is not None}
        return {
            self.columns[i].name: ColumnSettings(**{what: by[i] for what, by in found.items() if i in by})
            for i in self.owned[party]
        }

    def encode(self, X: Any, *, clamp: bool = False) -> dict[str, NDArray[np.int64]]:
        """Return the x̂ of each party's columns, of shape (n_columns, n_rows); see `FixedPoint.encode`."""
        return {
            party: np.stack([self._encode(X, party, position, clamp) for position in positions])
            for party, positions in self.owned.items()
        }

    def _encode(self, X: Any, party: str, position: int, clamp: bool) -> NDArray[np.int64]:
        column = self.columns[position]
        where = _where(X, party, column.name, position)
        if column.categories is None:
            numbers = _numbers(X, position, where)
            return FixedPoint(column.decimals, column.ring, where).encode(numbers, clamp=clamp)
        values = X.iloc[:, position] if is_frame(X) else X[:, position]
        if is_frame(X):
            values = values.astype(object).where(values.notna(), None)  # NA cannot be compared
        return category_codes(values, column.categories, where)


def _where(X: Any, party: str, name: str, position: int) -> str:
    """Return what errors call a column."""
    return f"party {party!r}, column {name!r}" + ("" if is_frame(X) else f" (position {position})")


def _positions(names: Sequence[str]) -> dict[str, int]:
    """Return the position of each name. Raises UsageError for a name that is none, or is given twice."""
    wrong = [name for name in names if not 0 < len(name) <= 200 or not name.isprintable()]
    if wrong:
        raise UsageError(f"column {wrong[0]!r}: give it a name of 1 to 200 printable characters")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UsageError(f"two columns are called {twice[0]!r}; give every column its own name")
    return {name: position for position, name in enumerate(names)}


def _owners(positions: Mapping[str, int], parties: Parties | None) -> dict[str, tuple[int, ...]]:
    """Return the positions of each party's columns, in ascending order."""
    names = list(positions)
    if parties is None:
        parties = {name: [name] for name in names}
    owner: dict[int, str] = {}
    owned: dict[str, tuple[int, ...]] = {}
    for party, columns in parties.items():
        check_name("party", party)
        listed = [] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
        if not 0 < len(listed) < 2**16:
            raise UsageError(f"party {party!r}: give a list of at least one column, and at most 65,535")
        mine = [_position(positions, column, f"party {party!r}") for column in listed]
        for position in mine:
            if position in owner:
                raise UsageError(
                    f"column {names[position]!r} is owned twice: by {owner[position]!r} and {party!r}"
                )
            owner[position] = party
        owned[party] = tuple(sorted(mine))
    unowned = [name for name, position in positions.items() if position not in owner]
    if unowned:
        raise UsageError(
            f"column {unowned[0]!r} has no owner; {len(unowned)} such in all: {unowned[:10]}; "
            "give each to a party, or drop it from X"
        )
    return owned


def _position(positions: Mapping[str, int], column: Any, who: str) -> int:
    if isinstance(column, str):
        if column not in positions:
            raise UsageError(f"{who}: there is no column {column!r}; columns are {list(positions)[:20]}")
        return positions[column]
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if not 0 <= column < len(positions):
            raise UsageError(
                f"{who}: there is no column {column}; positions go from 0 to {len(positions) - 1}"
            )
        return int(column)
    raise UsageError(f"{who}: a column is a name or a position, not {column!r}")


def _by_position(positions: Mapping[str, int], given: Any, what: str) -> dict[int, Any]:
    """Return a setting by position: one for all columns, a dict by name or position, or None for none."""
    if given is None:
        return {}
    by_column = given if isinstance(given, Mapping) else dict.fromkeys(positions, given)
    return {
        _position(positions, column, f"`{what}`"): value.item() if isinstance(value, np.generic) else value
        for column, value in by_column.items()
    }


def _categories(X: Any, position: int, name: str) -> tuple[str, ...] | None:
    """Return a column's categories in their order, if it has any."""
    kind: Any = X.iloc[:, position].dtype if is_frame(X) else None
    if not hasattr(kind, "categories"):
        return None
    shown = tuple(map(plain_text, kind.categories))
    if len(set(shown)) != len(shown):
        raise UsageError(f"column {name!r}: two of its categories have the same text; rename one")
    if not "".join(shown).isprintable():
        raise UsageError(
            f"column {name!r}: its categories have characters that cannot be printed; rename them"
        )
    return shown


def _numbers(X: Any, position: int, where: str) -> Any:
    """Return a column of X as numbers that `FixedPoint` takes."""
    if not is_frame(X):
        return X[:, position]
    values = X.iloc[:, position]
    if hasattr(values.dtype, "categories"):
        raise UsageError(f"{where} is a category, but was a number in `fit`")
    if getattr(values.dtype, "kind", "O") in "biuf" and not hasattr(values.array, "_mask"):
        return values.to_numpy()
    found = list(values)
    if any(isinstance(value, str) for value in found):
        raise UsageError(f"{where} holds text; make it a category first: X[…].astype('category')")
    return found
