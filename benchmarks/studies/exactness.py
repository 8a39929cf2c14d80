"""That leaving is exact, on all sets.

    python -m benchmarks.studies.exactness exact    whether the forest is the one without the leaver

A party holds every column, and each of them leaves a forest of its own. The exit code is 1 if one is another.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.paper.common import TOY_BITS, keys
from benchmarks.paper.datasets import SOURCES, Dataset, Frame, load
from benchmarks.paper.experiment import Model, owners
from benchmarks.studies.common import add_command, positive, run_command, table
from revfrf import RevocableForestClassifier, RevocableForestRegressor


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure whether leaving is exact."
    found = run_command("benchmarks.studies.exactness", what, (add_exact,), arguments)
    if any(one["equal"] != one["leavers"] for one in found.values()):
        sys.exit(1)


def forest(dataset: Dataset, trees: int, depth: int, bits: int, **more: Any) -> Model:
    """An unfitted forest; features a node by probability, which stays the same when columns go."""
    kind = RevocableForestClassifier if dataset.task == "classes" else RevocableForestRegressor
    n_features = dataset.X.shape[1]
    same = {"max_features": n_features**0.5 / n_features, "random_state": 0, "n_jobs": -1}
    return kind(trees, max_depth=depth, **{**same, **keys(bits), **more})


def without(X: Frame, leavers: Sequence[str]) -> Frame:
    return X.drop(columns=list(leavers))


def add_exact(commands: Any) -> None:
    what = "whether the forest is the one without the leaver, for every single leaver"
    parser = add_command(commands, "exact", what, list(SOURCES), exact)
    parser.add_argument("--sets", default=",".join(SOURCES), help="which, with commas between them")
    parser.add_argument("--trees", type=positive, default=10)
    parser.add_argument("--depth", type=positive, default=8)
    parser.add_argument("--rows", type=positive, default=3000, help="training rows")
    parser.add_argument("--level", type=int, choices=(1, 2), default=1)


def exact(options: argparse.Namespace, console: Console) -> dict[str, dict[str, int]]:
    view = table("the digest after leaving is that of training without the leaver", "set", "leavers", "equal")
    results: dict[str, dict[str, int]] = {}
    with Progress(console=console, transient=True) as progress:
        for name in options.sets.split(","):
            dataset = load(name, options.data)
            split = dataset.splits(0)[0]
            X, y = split.X_train[: options.rows], split.y_train[: options.rows]
            equal = 0
            for column in progress.track(list(X.columns), description=name):
                model = forest(dataset, options.trees, options.depth, TOY_BITS).fit(X, y)
                model.revoke(owners(model, [column]), options.level)
                fresh = forest(dataset, options.trees, options.depth, TOY_BITS).fit(without(X, [column]), y)
                equal += model.digest_ == fresh.digest_
            view.add_row(name, str(len(X.columns)), str(equal))
            console.print(f"{name}: {equal} of {len(X.columns)}")
            results[name] = {"leavers": len(X.columns), "equal": equal}
    console.print(view)
    return results


if __name__ == "__main__":
    main()
