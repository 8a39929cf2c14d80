"""Why an error differs from that of scikit-learn's forest.

    python -m benchmarks.studies.accuracy features    features a node, cuts, and chance, each by itself

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

from benchmarks.paper.datasets import SOURCES, Column, Dataset, Split, Task, load
from benchmarks.paper.experiment import CHIEF, answers, forest, leavers, loss, scores
from benchmarks.rivals.plain import plain_forest
from benchmarks.studies.common import add_command, positive, run_command, table
from revfrf.errors import UsageError
from revfrf.forest.randomness import feature_probability

PLAIN = "plain"
PLAIN_FORESTS = 3
"""Beside whose mean each forest is put, so that their chance matters less."""

Forest = Callable[[int], Column]
"""What a forest of this seed answers."""


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure why an error differs from scikit-learn's."
    run_command("benchmarks.studies.accuracy", what, (add_features,), arguments)


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
