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

from benchmarks.paper.datasets import SOURCES, load
from benchmarks.paper.experiment import forest, owners
from benchmarks.rivals.irrevocable import rebuild_all
from benchmarks.studies.common import add_command, positive, run_command, set_names, table


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure whether leaving is exact."
    found = run_command("benchmarks.studies.exactness", what, (add_exact,), arguments)
    if any(one["equal"] != one["leavers"] for one in found.values()):
        sys.exit(1)


def add_exact(commands: Any) -> None:
    what = "whether the forest is the one without the leaver, for every single leaver"
    parser = add_command(commands, "exact", what, list(SOURCES), exact)
    parser.add_argument("--sets", type=set_names, help="which, with commas between them")
    parser.add_argument("--trees", type=positive, default=10)
    parser.add_argument("--depth", type=positive, default=8)
    parser.add_argument("--rows", type=positive, default=3000, help="training rows")
    parser.add_argument("--protocol", choices=("shares", "paper"), default="shares")
    parser.add_argument("--level", type=int, choices=(1, 2), default=1)


def exact(options: argparse.Namespace, console: Console) -> dict[str, dict[str, int]]:
    view = table("the digest after leaving is that of training without the leaver", "set", "leavers", "equal")
    results: dict[str, dict[str, int]] = {}
    with Progress(console=console, transient=True) as progress:
        for name in options.sets:
            dataset = load(name, options.data)
            split = dataset.splits(0)[0]
            X, y = split.X_train[: options.rows], split.y_train[: options.rows]
            equal = 0
            for column in progress.track(list(X.columns), description=name):
                model = forest(dataset.task, options.trees, 0, max_depth=options.depth)
                model.set_params(protocol=options.protocol).fit(X, y)
                leavers = owners(model, [column])
                fresh = rebuild_all(model, X, y, leavers).forest
                model.revoke(leavers, options.level)
                equal += model.digest_ == fresh.digest_
            view.add_row(name, str(len(X.columns)), str(equal))
            console.print(f"{name}: {equal} of {len(X.columns)}")
            results[name] = {"leavers": len(X.columns), "equal": equal}
    console.print(view)
    return results


if __name__ == "__main__":
    main()
