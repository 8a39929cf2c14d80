"""Accuracy and error of ours beside other private forests: the paper's table of performance."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.paper.cells import Cell, Done, where
from benchmarks.paper.datasets import SOURCES, Split, Task
from benchmarks.paper.experiment import NAMES, Experiment, answers, dataset, forest, named, scores
from benchmarks.paper.printed import COMPARISON, OURS, PLAIN, RANA, VAIDYA
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part, Table, ratio, several, spread
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
    plain = split.coded
    fitted = {who: model.fit(plain.X_train, plain.y_train) for who, model in rivals(task, plain, trees, seed)}
    told = {who: model.predict(plain.X_test) for who, model in fitted.items()}
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


def parts(results: Sequence[Done]) -> list[Part]:
    printed_head = ("set", "", PLAIN, RANA, VAIDYA, OURS)
    head = (*printed_head, RANA_FEW, DEFAULTS)
    mine, theirs, seeds = [], [], len({one.key["seed"] for one in results})
    for name, printed in COMPARISON.items():
        done = [one.result for one in where(results, set=name)]
        for measure in ("ACC",) if SOURCES[name].task == "classes" else ("MAE", "MSE"):
            values = {who: [one[who][measure] for one in done] for who in head[2:]}
            mine.append((NAMES[name], measure, *(spread(values[who]) for who in head[2:])))
            if measure != "MSE":
                pairs = [
                    f"{printed[who]:g} ({ratio(mean(values[who]), printed[who])})" for who in printed_head[2:]
                ]
                theirs.append((NAMES[name], measure, *pairs))
    targets = [f"{NAMES[name]}, {SOURCES[name].predicts}" for name in COMPARISON]
    note = (
        "Rana's forest hides single rows by noise: here by the usual definition, stricter than theirs, with "
        f"ε = {EPSILON:g} for the whole forest and trees of depth {NOISY_DEPTH}. Every row is in one tree, "
        f"so few trees suffer less from noise. Vaidya's trees are random, of depth {RANDOM_DEPTH}; "
        "encryption does not change their answers. The last column is a forest whose trees are as deep as "
        "they grow, and for numbers tries all features at every node; plain tries ⌈√F⌉ of F, ours √F on "
        f"average. {'Mean ± standard deviation over' if seeds > 1 else 'Of'} {several(seeds, 'seed')}, one "
        f"forest of each. Targets: {'; '.join(targets)}."
    )
    return [
        Table("comparison", "Measured", head, mine, note),
        Table(
            "comparison-printed",
            "Printed, and ours as a multiple of it",
            printed_head,
            theirs,
            "The paper calls its last two rows MSE; they can only be MAE.",
        ),
    ]


COMPARED = Experiment(
    "comparison",
    "Performance beside other private forests",
    f"All on the same rows, with the same number of trees but where {FEW} are said, and a vote by mean "
    "probability.",
    tuple(COMPARISON),
    ("comparison", "comparison-printed"),
    cells,
    parts,
)
