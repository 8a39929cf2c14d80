"""Whether an error differs from that of scikit-learn's forest, and why.

    python -m benchmarks.studies.accuracy sets        the shares protocol on all sets, with equal parameters
    python -m benchmarks.studies.accuracy features    under the paper protocol: features a node, cuts, chance

A party holds every column. A forest that some have left is trained without them, with the chance of a column
to be tried that leaving keeps: it is the same, bit for bit.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isqrt, sqrt
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.progress import Progress
from sklearn import metrics

from benchmarks.paper.datasets import SOURCES, Column, Dataset, Split, Task, load
from benchmarks.paper.experiment import CHIEF, answers, forest, leavers, loss, scores
from benchmarks.rivals.plain import plain_forest
from benchmarks.studies.common import add_command, positive, run_command, set_names, table
from benchmarks.studies.turns import Claim, Shape, show
from revfrf.errors import UsageError
from revfrf.forest.randomness import feature_probability

PLAIN = "plain"
PLAIN_FORESTS = 3
"""Beside whose mean each forest is put, so that their chance matters less."""

Forest = Callable[[int], Column]
"""What a forest of this seed answers."""


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure whether an error differs from scikit-learn's, and why."
    run_command("benchmarks.studies.accuracy", what, (add_sets, add_features), arguments)


# -- on all sets ------------------------------------------------------------------------------------


def add_sets(commands: Any) -> None:
    what = "how much worse forests of the shares protocol are than scikit-learn's"
    parser = add_command(commands, "sets", what, list(SOURCES), sets)
    parser.add_argument("--sets", type=set_names, help="which, with commas between them")
    parser.add_argument("--rows", type=positive, help="training rows at most, and half as many to test on")
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--jobs", type=positive, default=2)


def sets(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Both try ⌈√F⌉ features of F at a node, ours on average; the mean over seeds is compared."""
    claims = []
    with Progress(console=console, transient=True) as progress:
        for name in options.sets:
            dataset = load(name, options.data)
            seeds = progress.track(range(options.seeds), description=name)
            losses = [_losses(dataset, seed, options) for seed in seeds]
            for measure, target in _TARGETS[dataset.task].items():
                values = [one[measure] for one in losses if measure in one]
                if values:
                    error = f"± {stdev(values) / sqrt(len(values)):.4f}" if len(values) > 1 else ""
                    claims.append(Claim(f"{name}, {measure}", mean(values), target, error))
    return show(console, f"worse than scikit-learn, the mean of {options.seeds} seeds", claims)


_TARGETS: Mapping[Task, Mapping[str, float]] = {
    "classes": {"points of ACC": 0.3, "AUC": 0.005},
    "numbers": {"% of MSE": 1.0},
}


def _losses(dataset: Dataset, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Return by how much our forest is worse on a seed's test rows; of several splits, the mean."""
    found: list[dict[str, float]] = []
    for split in dataset.splits(seed):
        part = split.first(options.rows)
        rows, columns = part.coded, part.X_train.shape[1]
        shape = Shape(dataset.task == "classes", options.trees, 1 + isqrt(columns - 1), jobs=options.jobs)
        more = {"voting": "soft"} if shape.classes else {}
        ours = shape.ours(random_state=seed, **more).fit(part.X_train, part.y_train)
        plain = shape.plain(random_state=seed).fit(rows.X_train, rows.y_train)
        found.append(_worse(dataset.task, part.y_test, (plain, rows.X_test), (ours, part.X_test)))
    return {measure: mean(one[measure] for one in found) for measure in found[0]}


def _worse(task: Task, y: Column, *forests: tuple[Any, Any]) -> dict[str, float]:
    """Return by how much the second of two forests, each with its rows, is worse than the first one."""
    if task == "numbers":
        plain, ours = (metrics.mean_squared_error(y, model.predict(X)) for model, X in forests)
        return {"% of MSE": loss("MSE", plain, ours)}
    plain, ours = (metrics.accuracy_score(y, model.predict(X)) for model, X in forests)
    found = {"points of ACC": 100 * (plain - ours)}
    if y.nunique() == 2:
        plain, ours = (metrics.roc_auc_score(y, model.predict_proba(X)[:, 1]) for model, X in forests)
        found["AUC"] = plain - ours
    return found


# -- why --------------------------------------------------------------------------------------------


def add_features(commands: Any) -> None:
    what = "by how much forests are worse than plain ones, by features a node and cuts"
    parser = add_command(commands, "features", what, [], features)
    parser.add_argument("--set", choices=SOURCES, default="superconduct")
    parser.add_argument("--leavers", type=counts, default=(0, 5), help="how many, with commas between them")
    parser.add_argument("--seeds", type=positive, default=20)
    parser.add_argument("--trees", type=positive, default=100)


def counts(text: str) -> tuple[int, ...]:
    """An option that is several numbers, each from 0."""
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers from 0, with commas between them")
    return tuple(map(int, parts))


def features(options: argparse.Namespace, console: Console) -> object:
    dataset = load(options.set, options.data)
    most, columns = max(options.leavers), dataset.X.shape[1]
    if most >= columns:
        raise UsageError(f"--leavers {most}: {options.set} has {columns} columns; let one at least stay")
    title = f"{options.set}: worse than plain by, % of its {CHIEF[dataset.task]}"
    view, found = table(title, "forest", "left", "mean", "its standard error", "of a seed, ±"), {}
    with Progress(console=console, transient=True) as progress:
        for left in options.leavers:
            seeds = progress.track(range(options.seeds), description=f"{left} left")
            losses = [one_seed(dataset, left, seed, options.trees) for seed in seeds]
            found[str(left)] = {name: [one[name] for one in losses] for name in losses[0]}
            for name, values in found[str(left)].items():
                view.add_row(name, str(left), *shown(values))
    console.print(view)
    return found


def shown(values: Sequence[float]) -> tuple[str, str, str]:
    """Mean, its standard error, and standard deviation, which one value has not."""
    if len(values) == 1:
        return f"{values[0]:.2f}", "?", "?"
    spread = stdev(values)
    return f"{mean(values):.2f}", f"{spread / sqrt(len(values)):.2f}", f"{spread:.2f}"


def one_seed(dataset: Dataset, left: int, seed: int, trees: int) -> dict[str, float]:
    """By how much each forest is worse than the plain ones, on the rows and without the leavers of a draw."""
    split = dataset.splits(seed)[0]
    rest = split.without(leavers(list(split.X_train.columns), left, seed))
    measure, compared = CHIEF[dataset.task], forests(dataset.task, trees, rest, split.X_train.shape[1])

    def score(name: str, seed: int) -> float:
        return scores(dataset.task, rest.y_test, compared[name](seed))[measure]

    # The last plain forest is put beside the others of its kind: that is chance.
    *others, last = range(seed * (PLAIN_FORESTS + 1), (seed + 1) * (PLAIN_FORESTS + 1))
    reference = mean(score(PLAIN, other) for other in others)
    return {name: loss(measure, reference, score(name, last)) for name in compared}


def forests(task: Task, trees: int, split: Split, before: int) -> Mapping[str, Forest]:
    """Forests on the columns that are left of `before` ones; each differs from another one in one thing."""
    columns, rows = split.X_train.shape[1], split.coded
    most, fewest, kept = 1 + isqrt(columns - 1), isqrt(columns), feature_probability("sqrt", before)

    def plain(max_features: int, seed: int) -> Column:
        model = plain_forest(task, trees, seed, columns, n_jobs=-1).set_params(max_features=max_features)
        return model.fit(rows.X_train, rows.y_train).predict(rows.X_test)

    def ours(seed: int, **parameters: Any) -> Column:
        model = forest(task, trees, seed, **parameters).fit(split.X_train, split.y_train)
        return answers(model, split.X_test, "soft")

    return {
        PLAIN: partial(plain, most),
        "plain, ⌊√F⌋ features": partial(plain, fewest),
        "ours": partial(ours, max_features=kept),
        "ours, ⌈√F⌉ features": partial(ours, max_features=most / columns),
        "ours, ⌈√F⌉ features, 255 cuts": partial(
            ours, max_features=most / columns, n_candidates=255, n_sampled=4096
        ),
    }


if __name__ == "__main__":
    main()
