"""What leaving costs, and that it is exact.

    python -m benchmarks.paper.revocation rebuild    nodes and seconds when 1 to 5 leave
    python -m benchmarks.paper.revocation exact      whether the forest is the one without the leaver

A party holds every column. Leavers are drawn by seed and leave one after the other. A full rebuild is a fit
without them in the same run, with the same keys.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.paper.common import (
    TOY_BITS,
    add_command,
    keys,
    positive,
    run_command,
    seconds,
    table,
)
from benchmarks.paper.datasets import SOURCES, Dataset, Frame, load
from benchmarks.paper.experiment import Model, owners
from benchmarks.paper.experiment import leavers as drawn
from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.protocols.frf_revoc import doomed


def main(arguments: Sequence[str] | None = None) -> None:
    adders = (add_rebuild, add_exact)
    run_command(
        "benchmarks.paper.revocation",
        "Measure what leaving costs, and whether it is exact.",
        adders,
        arguments,
    )


def forest(dataset: Dataset, trees: int, depth: int, bits: int, **more: Any) -> Model:
    """An unfitted forest; features a node by probability, which stays the same when columns go."""
    kind = RevocableForestClassifier if dataset.task == "classes" else RevocableForestRegressor
    n_features = dataset.X.shape[1]
    same = {"max_features": n_features**0.5 / n_features, "random_state": 0, "n_jobs": -1}
    return kind(trees, max_depth=depth, **{**same, **keys(bits), **more})


def without(X: Frame, leavers: Sequence[str]) -> Frame:
    return X.drop(columns=list(leavers))


# -- rebuild ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaving:
    """One more has left: nodes destroyed, rebuilt and kept; seconds of that, and of a fit without."""

    leavers: int
    level: int
    destroyed: int
    rebuilt: int
    kept: int
    seconds: float
    full_seconds: float
    full_nodes: int

    @property
    def share(self) -> float:
        """Seconds, of those of a full rebuild."""
        return self.seconds / self.full_seconds

    @property
    def node_ratio(self) -> float:
        """Seconds a rebuilt node, over those a node of the full rebuild."""
        return self.seconds / max(1, self.rebuilt) / (self.full_seconds / self.full_nodes)


def add_rebuild(commands: Any) -> None:
    what = "nodes and seconds when 1 to 5 leave, beside a full rebuild"
    parser = add_command(commands, "rebuild", what, list(SOURCES), rebuild)
    parser.add_argument("--set", choices=SOURCES, default="adult")
    parser.add_argument("--leavers", type=positive, default=5)
    parser.add_argument("--share", type=float, help="one leaver, who takes about this share of the nodes")
    parser.add_argument("--levels", type=int, nargs="+", choices=(1, 2), default=[1, 2])
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--bits", type=positive, default=TOY_BITS, help="key size")
    parser.add_argument("--rows", type=positive, help="only so many training rows")
    parser.add_argument("--seed", type=int, default=0)


def rebuild(options: argparse.Namespace, console: Console) -> object:
    dataset = load(options.set, options.data)
    split = dataset.splits(options.seed)[0]
    X, y = split.X_train[: options.rows], split.y_train[: options.rows]
    leavers = drawn(list(X.columns), options.leavers, options.seed)
    rules = (dataset, options.trees, options.depth, options.bits)
    title = f"{options.set}, {options.trees} trees of depth {options.depth}, {options.bits} bits"
    headings = ("destroyed", "rebuilt", "kept", "seconds", "full rebuild", "share", "a node, ratio")
    view = table(title, "left", "level", *headings)
    results = []
    forest(*rules).fit(X[:500], y[:500])  # compiles, and makes the modulus
    for level in options.levels:
        model = forest(*rules).fit(X, y)
        if options.share is not None:
            leavers = [taking(model, options.share)]
        for count, name in enumerate(leavers, 1):
            started = perf_counter()
            report = model.revoke(owners(model, [name]), level).report
            spent = perf_counter() - started
            fresh = forest(*rules)
            full = seconds(partial(fresh.fit, without(X, leavers[:count]), y))
            if fresh.digest_ != model.digest_:
                raise AssertionError(f"not the forest without {leavers[:count]}")
            done = Leaving(
                count, level, report.destroyed, report.rebuilt, report.kept, spent, full, fresh.n_nodes_
            )
            numbers = [f"{n:,}" for n in (done.destroyed, done.rebuilt, done.kept)]
            times = [f"{spent:.2f}", f"{full:.2f}", f"{done.share:.0%}", f"{done.node_ratio:.2f}"]
            view.add_row(f"{count}: {name}", str(level), *numbers, *times)
            results.append(asdict(done) | {"share": done.share, "node_ratio": done.node_ratio})
    view.caption = "each leaves after those above it; the ratio is of seconds a node"
    console.print(view)
    return results


def taking(model: Model, share: float) -> str:
    """The column whose leaving destroys nearest to this share of the nodes."""
    store = model.federation_.coordinator.store

    def distance(column: str) -> float:
        return abs(len(doomed(store, owners(model, [column])).nodes) / store.n_nodes - share)

    return min((column for columns in model.parties_.values() for column in columns), key=distance)


# -- exact ------------------------------------------------------------------------------------------


def add_exact(commands: Any) -> None:
    what = "whether the forest is the one without the leaver, for every single leaver"
    parser = add_command(commands, "exact", what, list(SOURCES), exact)
    parser.add_argument("--sets", default=",".join(SOURCES), help="which, with commas between them")
    parser.add_argument("--trees", type=positive, default=10)
    parser.add_argument("--depth", type=positive, default=8)
    parser.add_argument("--rows", type=positive, default=3000, help="training rows")
    parser.add_argument("--level", type=int, choices=(1, 2), default=1)


def exact(options: argparse.Namespace, console: Console) -> object:
    view = table("the digest after leaving is that of training without the leaver", "set", "leavers", "equal")
    results = {}
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
