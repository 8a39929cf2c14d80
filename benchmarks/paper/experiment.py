"""What an experiment is, and what several of them share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics

from benchmarks.paper.cells import Cell, Done
from benchmarks.paper.common import TOY_BITS, keys
from benchmarks.paper.datasets import Column, Dataset, Task, digest, load
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part
from revfrf import RevocableForestClassifier, RevocableForestRegressor

Model = RevocableForestClassifier | RevocableForestRegressor

NAMES = {
    "adult": "Adult Income",
    "bank": "Bank Market",
    "drug": "Drug Consumption",
    "wine_white": "Wine Quality",
    "superconduct": "Super Conduct",
    "appliances": "Appliance Energy",
    "insurance": "Insurance Company",
    "news": "News Popularity",
    "bike": "Bike Sharing",
}
"""Sets, as the paper calls them."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Cells to be run, and what to show of their results."""

    name: str
    title: str
    text: str
    sets: Sequence[str]
    cells: Callable[[Settings, Path | None], list[Cell]]
    parts: Callable[[Sequence[Done]], list[Part]]


@lru_cache(maxsize=2)
def dataset(name: str, data: Path | None) -> Dataset:
    """A set, kept while cells that follow each other need it."""
    return load(name, data)


@cache
def named(name: str, data: Path | None) -> str:
    """The set and what is in its file, as a part of keys."""
    return digest(name, data)


def forest(task: Task, trees: int, seed: int, bits: int = TOY_BITS, **more: Any) -> Model:
    """One of ours, unfitted, with a party for every column."""
    kind = RevocableForestClassifier if task == "classes" else RevocableForestRegressor
    return kind(trees, random_state=seed, n_jobs=-1, **keys(bits), **more)


_WARM: set[int] = set()


def warm(bits: int, X: Any, y: Any) -> None:
    """Compile, make the modulus and start the workers, so that what is measured next has all that."""
    if bits not in _WARM:
        forest("classes", 2, 0, bits, max_depth=3).fit(X[:500], y[:500])
        _WARM.add(bits)


def leavers(columns: Sequence[str], count: int, seed: int) -> list[str]:
    """Columns of those who leave, in their order; one stays at least."""
    count = min(count, len(columns) - 1)
    return [str(name) for name in np.random.default_rng(seed).choice(list(columns), count, replace=False)]


def owners(model: Model, columns: Sequence[str]) -> list[str]:
    """The parties of these columns."""
    return [party for party, owned in model.parties_.items() if set(owned) & set(columns)]


ERRORS = ("MSE", "MAE")
"""Measures of which less is better."""

CHIEF: dict[Task, str] = {"classes": "ACC", "numbers": "MSE"}


def scores(task: Task, y: Column, answers: Column) -> dict[str, float]:
    """The paper's measures. Recall and F1 are means over the classes by their size; these are percents."""
    if task == "classes":
        return {
            "ACC": 100 * float(metrics.accuracy_score(y, answers)),
            "RR": 100 * float(metrics.recall_score(y, answers, average="weighted", zero_division=0)),
            "F1": 100 * float(metrics.f1_score(y, answers, average="weighted", zero_division=0)),
        }
    return {
        "MSE": float(metrics.mean_squared_error(y, answers)),
        "MAE": float(metrics.mean_absolute_error(y, answers)),
        "R2": float(metrics.r2_score(y, answers)),
    }


def loss(measure: str, plain: float, ours: float) -> float:
    """By how many percent of the plain score ours is worse. Equals are no worse."""
    if ours == plain:
        return 0.0
    return 100 * (ours / plain - 1) if measure in ERRORS else 100 * (1 - ours / plain)


def answers(model: Model, X: Any, voting: str) -> Column:
    """What ours answers; classes by this vote."""
    if isinstance(model, RevocableForestClassifier):
        model.set_params(voting=voting)
    return model.predict(X)
