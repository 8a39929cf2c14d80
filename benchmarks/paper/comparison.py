"""Accuracy and error of ours beside other private forests: the paper's table of performance."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.paper.cells import Cell
from benchmarks.paper.datasets import SOURCES, Split, Task
from benchmarks.paper.experiment import answers, dataset, forest, named, scores
from benchmarks.paper.printed import COMPARISON, OURS, PLAIN, RANA, VAIDYA
from benchmarks.paper.settings import Settings
from benchmarks.rivals.encrypted_database import ClearDatabase, RandomTrees
from benchmarks.rivals.plain import plain_forest
from benchmarks.rivals.private_noise import Domain, PrivateForest

DEFAULTS = "scikit-learn's defaults"
EPSILON, NOISY_DEPTH, RANDOM_DEPTH = 1.0, 6, 10
FEW = 10
"""Trees between which noise leaves more of every row than between a hundred."""

RANA_FEW = f"{RANA}, {FEW} trees"


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a set and seed."""
    found = []
    for name in COMPARISON:
        for seed in range(settings.comparison_seeds):
            size: dict[str, Any] = {"trees": settings.trees, "rows": settings.rows}
            rules = {"epsilon": EPSILON, "noisy depth": NOISY_DEPTH, "few": FEW, "random depth": RANDOM_DEPTH}
            key = {"set": name, "seed": seed, **size, **rules, "file": named(name, data)}
            found.append(Cell("comparison", key, partial(run, name, data, seed, **size)))
    return found


def run(name: str, data: Path | None, seed: int, trees: int, rows: int | None) -> dict[str, Any]:
    task = SOURCES[name].task
    split = dataset(name, data).splits(seed)[0].first(rows)
    coded = split.coded
    fitted = {who: model.fit(coded.X_train, coded.y_train) for who, model in rivals(task, coded, trees, seed)}
    told = {who: model.predict(coded.X_test) for who, model in fitted.items()}
    ours = forest(task, trees, seed).fit(split.X_train, split.y_train)
    told[OURS] = answers(ours, split.X_test, "soft")
    return {who: scores(task, split.y_test, y) for who, y in told.items()}


def rivals(task: Task, split: Split, trees: int, seed: int) -> list[tuple[str, Any]]:
    """All but ours, unfitted."""
    domain = Domain.of(
        task, pd.concat([split.X_train, split.X_test]), pd.concat([split.y_train, split.y_test])
    )
    noise: dict[str, Any] = {"epsilon": EPSILON, "depth": NOISY_DEPTH, "seed": seed}
    structure = RandomTrees.draw(split.X_train, trees, RANDOM_DEPTH, seed)
    own = RandomForestClassifier if task == "classes" else RandomForestRegressor
    return [
        (PLAIN, plain_forest(task, trees, seed, split.X_train.shape[1], n_jobs=-1)),
        (DEFAULTS, own(trees, random_state=seed, n_jobs=-1)),
        (RANA, PrivateForest(task, domain, n_trees=trees, **noise)),
        (RANA_FEW, PrivateForest(task, domain, n_trees=FEW, **noise)),
        (VAIDYA, ClearDatabase(task, structure)),
    ]
