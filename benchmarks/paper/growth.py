"""Accuracy and error against the number of trees: the paper's two figures of the training process."""

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.datasets import SOURCES
from benchmarks.paper.experiment import answers, dataset, forest, named, scores
from benchmarks.paper.printed import OURS, PLAIN
from benchmarks.paper.settings import Settings
from benchmarks.rivals.plain import plain_forest

SETS = ("adult", "bank", "superconduct", "appliances")


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a set, seed and number of trees."""
    found = []
    for name in SETS:
        for seed in range(settings.growth_seeds):
            for trees in settings.growth:
                key = {"set": name, "seed": seed, "trees": trees, "rows": settings.rows}
                run = partial(score, name, data, seed, trees, settings.rows)
                found.append(Cell("growth", {**key, "file": named(name, data)}, run))
    return found


def score(name: str, data: Path | None, seed: int, trees: int, rows: int | None) -> dict[str, Any]:
    task, split = SOURCES[name].task, dataset(name, data).splits(seed)[0].first(rows)
    ours = forest(task, trees, seed).fit(split.X_train, split.y_train)
    columns = split.X_train.shape[1]
    plain = plain_forest(task, trees, seed, columns, n_jobs=-1).fit(split.coded.X_train, split.y_train)
    told = {PLAIN: plain.predict(split.coded.X_test), OURS: answers(ours, split.X_test, "soft")}
    return {who: scores(task, split.y_test, y) for who, y in told.items()}
