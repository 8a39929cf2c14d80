"""Scores after 0 to 5 participants have left: the paper's tables of classification and regression."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.paper.cells import Cell
from benchmarks.paper.datasets import Column, Split, Task
from benchmarks.paper.experiment import (
    answers,
    dataset,
    forest,
    leavers,
    named,
    owners,
    scores,
)
from benchmarks.paper.printed import PLAIN
from benchmarks.paper.settings import Settings
from benchmarks.rivals.plain import plain_forest

SOFT, HARD = "ours", "ours, majority"


def cells(
    experiment: str, sets: Sequence[str], task: Task, settings: Settings, data: Path | None
) -> list[Cell]:
    """One a set and seed: a forest that several leave, one after the other."""
    found = []
    for seed in range(settings.seeds):
        for name in sets:
            size: dict[str, Any] = {
                "trees": settings.trees,
                "rows": settings.rows,
                "leavers": settings.leavers,
                "plain": settings.plain_forests,
            }
            key = {"set": name, "seed": seed, **size, "task": task, "file": named(name, data)}
            found.append(Cell(experiment, key, partial(run, name, data, task, seed, **size)))
    return found


def run(
    name: str,
    data: Path | None,
    task: Task,
    seed: int,
    trees: int,
    rows: int | None,
    leavers: int,
    plain: int,
) -> dict[str, Any]:
    """Scores of all forests after each leaving, means of the set's splits, or the first if rows are few."""
    splits = [split.first(rows) for split in dataset(name, data).splits(seed)[: 1 if rows else None]]
    runs = [one_split(task, split, trees, leavers, seed, plain) for split in splits]
    found = [
        {
            who: [means(of_splits) for of_splits in zip(*(one[who] for one in same), strict=True)]
            for who in same[0]
        }
        for same in zip(*(run["scores"] for run in runs), strict=True)
    ]
    return {**runs[0], "scores": found, "rows": len(splits[0].X_train)}


def means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each measure."""
    return {measure: mean(one[measure] for one in found) for measure in found[0]}


def one_split(task: Task, split: Split, trees: int, count: int, seed: int, plain: int) -> dict[str, Any]:
    """Scores after each leaving, of every forest: ours has one, and there are several plain ones."""
    going = leavers(list(split.X_train.columns), count, seed)
    ours = forest(task, trees, seed).fit(split.X_train, split.y_train)
    parties, found = len(ours.parties_), []
    for n in range(len(going) + 1):
        if n:
            ours.revoke(owners(ours, [going[n - 1]]), level=1)
        rest = split.without(going[:n])
        told = {PLAIN: plain_answers(task, rest.coded, trees, range(seed * plain, (seed + 1) * plain))}
        told |= {who: [answers(ours, rest.X_test, vote)] for who, vote in models(task).items()}
        found.append({who: [scores(task, rest.y_test, y) for y in each] for who, each in told.items()})
    return {"left": going, "scores": found, "parties": parties}


def plain_answers(task: Task, split: Split, trees: int, seeds: Iterable[int]) -> list[Column]:
    """Of a plain forest for each of these seeds."""
    columns = split.X_train.shape[1]
    forests = (plain_forest(task, trees, seed, columns, n_jobs=-1) for seed in seeds)
    return [one.fit(split.X_train, split.y_train).predict(split.X_test) for one in forests]


def models(task: Task) -> dict[str, str]:
    """Ours, by each vote."""
    return {SOFT: "soft", HARD: "hard"} if task == "classes" else {SOFT: "soft"}
