"""The nine UCI sets of the paper's figures, as X, target and split. The repository ships none of them.

A directory holds one gzip CSV a set, with a header and rows in the order of the UCI file: `--data PATH`,
else the environment's REVFRF_DATA, else `../shared/data` beside the repository. Text columns become
categories.
"""

import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, train_test_split

from revfrf.errors import UsageError

Frame = Any  # pandas has no types
Column = Any
Task = Literal["classes", "numbers"]

ROOT = Path(__file__).parents[2]
TEST_SHARE = 0.25
SMALL = 10_000
"""Rows below which a quarter is too few to test on: one row of `drug` would be 0.2 points of accuracy."""


class MissingDataError(UsageError):
    """Files are not where they should be; the message says which, and where each comes from."""

    kind = "data"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """All rows of a set. The first `train_rows` are its official training part; None: it has none."""

    name: str
    task: Task
    X: Frame
    y: Column
    train_rows: int | None

    def splits(self, seed: int) -> list["Split"]:
        """The official split, or else three quarters against one, drawn with this seed.

        Of a small set, all four: each quarter is tested on once.
        """
        rows = np.arange(len(self.X))
        if self.train_rows is not None:
            return [self._split(rows[: self.train_rows], rows[self.train_rows :])]
        if len(rows) >= SMALL:
            return [self._split(*train_test_split(rows, test_size=TEST_SHARE, random_state=seed))]
        folds = KFold(round(1 / TEST_SHARE), shuffle=True, random_state=seed)
        return [self._split(*fold) for fold in folds.split(rows)]

    def _split(self, train: Column, test: Column) -> "Split":
        return Split(self.X.iloc[train], self.y.iloc[train], self.X.iloc[test], self.y.iloc[test])


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    X_train: Frame
    y_train: Column
    X_test: Frame
    y_test: Column

    def first(self, rows: int | None) -> "Split":
        """With so many training rows at most, and half as many to test on."""
        half = None if rows is None else rows // 2
        return Split(self.X_train[:rows], self.y_train[:rows], self.X_test[:half], self.y_test[:half])

    @property
    def coded(self) -> "Split":
        """With categories as their numbers, for scikit-learn."""
        return Split(coded(self.X_train), self.y_train, coded(self.X_test), self.y_test)

    def without(self, columns: Sequence[str]) -> "Split":
        """Without these columns."""
        kept = [name for name in self.X_train.columns if name not in columns]
        return Split(self.X_train[kept], self.y_train, self.X_test[kept], self.y_test)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a set comes from, how many rows it has, and what is predicted from what."""

    uci: str
    doi: str
    files: str
    instances: int
    participants: int
    predicts: str
    task: Task
    target: str
    dropped: Sequence[str] = ()
    train_rows: int | None = None
    label: Callable[[Column], Column] | None = None
    features: Callable[[Frame], Frame] | None = None


def cannabis_user(answers: Column) -> Column:
    """CL0 to CL2 are never, over a decade ago and in the last decade: no user. CL3 to CL6 are one."""
    return answers.isin(["CL3", "CL4", "CL5", "CL6"])


def thousands(shares: Column) -> Column:
    """The unit in which the paper's error can be explained."""
    return shares / 1000


def person(table: Frame) -> Frame:
    """What is asked about a person, without the id and the other drugs."""
    return table.loc[:, "age":"ss"]


def time_as_numbers(table: Frame) -> Frame:
    """Hour, weekday and month in place of the date."""
    date = pd.to_datetime(table["date"]).dt
    parts = {"hour": date.hour, "weekday": date.day_of_week, "month": date.month}
    return table.drop(columns="date").assign(**parts)


SOURCES = {
    "adult": Source(
        "Adult",
        "10.24432/C5XW20",
        "adult.data, then adult.test",
        48842,
        14,
        "whether somebody earns more than 50,000 dollars a year",
        "classes",
        "income",
        train_rows=32561,
    ),
    "bank": Source(
        "Bank Marketing",
        "10.24432/C5K306",
        "bank-full.csv",
        45211,
        16,
        "whether a client agrees to a deposit",
        "classes",
        "y",
    ),
    "drug": Source(
        "Drug Consumption (Quantified)",
        "10.24432/C5TC7S",
        "drug_consumption.data",
        1885,
        12,
        "whether somebody has used cannabis in the last year, from 12 answers about the person; the paper "
        "does not say which drug it predicts",
        "classes",
        "cannabis",
        label=cannabis_user,
        features=person,
    ),
    "wine_white": Source(
        "Wine Quality",
        "10.24432/C56S3T",
        "winequality-white.csv",
        4898,
        11,
        "the quality of white wine: seven classes, 3 to 9",
        "classes",
        "quality",
    ),
    "superconduct": Source(
        "Superconductivty Data",
        "10.24432/C53P47",
        "train.csv",
        21263,
        81,
        "the critical temperature of a superconductor, in kelvin",
        "numbers",
        "critical_temp",
    ),
    "appliances": Source(
        "Appliances Energy Prediction",
        "10.24432/C5VC8G",
        "energydata_complete.csv",
        19735,
        30,
        "watt-hours of a house's appliances in ten minutes; the date is given as hour, weekday and month",
        "numbers",
        "Appliances",
        features=time_as_numbers,
    ),
    "insurance": Source(
        "Insurance Company Benchmark (COIL 2000)",
        "10.24432/C5630S",
        "ticdata2000.txt, then ticeval2000.txt with tictgts2000.txt",
        9822,
        85,
        "whether somebody insures a caravan: 0 or 1, taken as a number because the paper does",
        "numbers",
        "CARAVAN",
        train_rows=5822,
    ),
    "news": Source(
        "Online News Popularity",
        "10.24432/C5NS3V",
        "OnlineNewsPopularity.csv",
        39644,
        58,
        "thousands of shares of an article; a few dominate: the largest has 843, the median 1.4",
        "numbers",
        "shares",
        dropped=("url", "timedelta"),
        label=thousands,
    ),
    "bike": Source(
        "Bike Sharing",
        "10.24432/C5W894",
        "hour.csv",
        17379,
        12,
        "rented bikes in an hour, without the numbers of casual and registered users that add up to it",
        "numbers",
        "cnt",
        dropped=("instant", "dteday", "casual", "registered"),
    ),
}


WHERE = (
    "say by --data or REVFRF_DATA where the data sets are; docs/benchmarks.md says where they come from, and "
    "how their files are made"
)


def directory(given: Path | None) -> Path:
    """Where the files are expected: where it is said, or in shared/data beside the clone."""
    if given is not None:
        return given
    named = os.environ.get("REVFRF_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def check_present(names: Sequence[str], given: Path | None) -> None:
    """Raises MissingDataError unless there is a file for each of these sets."""
    where = directory(given)
    missing = [name for name in names if not (where / f"{name}.csv.gz").is_file()]
    if missing and not where.is_dir():
        raise MissingDataError(f"{where} is no directory; {WHERE}")
    if missing:
        source = SOURCES[missing[0]]
        others = f"; likewise {', '.join(missing[1:])}" if missing[1:] else ""
        raise MissingDataError(
            f"{where} has no {missing[0]}.csv.gz{others}; {WHERE}; {missing[0]} is {source.files} of UCI "
            f"{source.uci!r}, https://doi.org/{source.doi}"
        )


def digest(name: str, given: Path | None) -> str:
    """What names the content of a set's file. Raises MissingDataError if it is not there."""
    check_present([name], given)
    return hashlib.sha256((directory(given) / f"{name}.csv.gz").read_bytes()).hexdigest()[:16]


def load(name: str, given: Path | None) -> Dataset:
    """One set. Raises MissingDataError if its file is not there, or not what it should be."""
    check_present([name], given)
    source, file = SOURCES[name], directory(given) / f"{name}.csv.gz"
    try:
        table = pd.read_csv(file, keep_default_na=False)
        y, X = table[source.target], table.drop(columns=[source.target, *source.dropped])
        if source.features is not None:
            X = source.features(X)
    except KeyError as error:
        raise MissingDataError(f"{file} lacks a column: {error.args[0]}") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise MissingDataError(f"{file} cannot be read as CSV with a header, by gzip: {error}") from None
    return Dataset(
        name,
        source.task,
        categorised(X),
        y if source.label is None else source.label(y),
        source.train_rows,
    )


def categorised(X: Frame) -> Frame:
    """Text columns as categories."""
    text = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
    return X.astype(dict.fromkeys(text, "category"))


def coded(X: Frame) -> Frame:
    """Categories as their numbers, in the order in which the forest takes them: for scikit-learn."""
    return X.apply(lambda column: column.cat.codes if hasattr(column, "cat") else column)
