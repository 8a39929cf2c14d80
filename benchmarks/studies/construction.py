"""Speed and size of building a forest.

    python -m benchmarks.studies.construction speed     seconds on Adult, as a ratio to scikit-learn's
    python -m benchmarks.studies.construction scaling   time and memory against rows, trees and nodes
    python -m benchmarks.studies.construction memory    Superconduct with a party for every column

Each takes `--json FILE`, and those that read a set `--data PATH`; `--help` after the name lists the rest.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier

from benchmarks.paper.common import TOY_BITS, keys, seconds
from benchmarks.paper.datasets import Column, coded, load
from benchmarks.paper.experiment import warm
from benchmarks.studies.common import (
    add_command,
    current_memory,
    exponent,
    in_fresh_process,
    megabytes,
    peak_memory,
    positive,
    run_command,
    table,
)
from revfrf import RevocableForestClassifier, RevocableForestRegressor


def main(arguments: Sequence[str] | None = None) -> None:
    adders = (add_speed, add_scaling, add_memory)
    run_command("benchmarks.studies.construction", "Measure how a forest is built.", adders, arguments)


# -- single fits, most of them in a process of their own ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """What is fitted, and by how many parties with an equal share of the columns."""

    rows: int
    features: int
    parties: int
    trees: int
    depth: int
    key_bits: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one fit: its shape, and bytes of memory, `before` it and at the peak, of all its processes."""

    shape: Shape
    nodes: int
    seconds: float
    before: int
    peak: int


def generated_fit(shape: Shape) -> Cost:
    """Rows of Gaussian features, and two classes that depend on some of them, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.rows, shape.features))
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + rng.standard_normal(shape.rows) > 0
    return _cost(RevocableForestClassifier, X, y, shape)


def superconduct_fit(parties: int, trees: int, depth: int, key_bits: int, data: Path | None) -> Cost:
    dataset = load("superconduct", data)
    rows, features = dataset.X.shape
    shape = Shape(rows, features, min(parties, features), trees, depth, key_bits)
    return _cost(RevocableForestRegressor, dataset.X.to_numpy(), dataset.y.to_numpy(), shape)


def _cost(estimator: Any, X: Column, y: Column, shape: Shape) -> Cost:
    owned = np.array_split(np.arange(shape.features), shape.parties)
    same = {
        "parties": {f"party {number}": list(columns) for number, columns in enumerate(owned)},
        "random_state": 0,
        "n_jobs": -1,
        **keys(shape.key_bits),
    }
    warm_up = estimator(2, max_depth=3, **same).fit(X[:500], y[:500])  # compiles, and makes the modulus
    del warm_up
    before = current_memory()
    model = estimator(shape.trees, max_depth=shape.depth, **same)
    spent = seconds(lambda: model.fit(X, y))
    return Cost(shape, model.n_nodes_, spent, before, peak_memory())


# -- speed ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Speed:
    """Median seconds of a fit, over those of scikit-learn with 5 rows a leaf, and with its default of 1."""

    model: str
    seconds: float
    to_leaf_5: float
    to_default: float


LEAF_5, DEFAULT = "scikit-learn, 1 core, 5 rows a leaf", "scikit-learn, 1 core, its defaults"


def add_speed(commands: Any) -> None:
    parser = add_command(commands, "speed", "a fit on Adult beside scikit-learn's", ["adult"], speed)
    parser.add_argument("--bits", type=positive, nargs="+", default=[TOY_BITS, 2048], help="key sizes")
    parser.add_argument("--rounds", type=positive, default=5, help="how often each is fitted, in turns")
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--rows", type=positive, help="only so many training rows")


def speed(options: argparse.Namespace, console: Console) -> object:
    split = load("adult", options.data).splits(0)[0]
    X, y = split.X_train[: options.rows], split.y_train[: options.rows]
    plain = coded(X)
    forest = {"n_estimators": options.trees, "max_depth": options.depth}
    fits: dict[str, Callable[[], object]] = {
        LEAF_5: lambda: RandomForestClassifier(**forest, min_samples_leaf=5, n_jobs=1).fit(plain, y),
        DEFAULT: lambda: RandomForestClassifier(**forest, n_jobs=1).fit(plain, y),
    }
    for bits in options.bits:
        model = RevocableForestClassifier(**forest, n_jobs=-1, **keys(bits))
        fits[f"ours, all cores, {bits} bits"] = partial(model.fit, X, y)
    times: dict[str, list[float]] = {name: [] for name in fits}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("warming up", total=options.rounds * len(fits))
        for bits in options.bits:
            warm(bits, X, y)
        for _ in range(options.rounds):
            for name, fit in fits.items():
                progress.update(task, description=name)
                times[name].append(seconds(fit))
                progress.advance(task)
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    results = [Speed(name, s, s / medians[LEAF_5], s / medians[DEFAULT]) for name, s in medians.items()]
    title = (
        f"Adult, {len(X):,} rows, {options.trees} trees of depth {options.depth}: median of {options.rounds}"
    )
    view = table(title, "model", "seconds", "× scikit-learn, leaf 5", "× its defaults")
    view.caption = "without compilation and the making of the modulus; parties' keys are made in each fit"
    for r in results:
        view.add_row(r.model, f"{r.seconds:.2f}", f"{r.to_leaf_5:.2f}", f"{r.to_default:.2f}")
    console.print(view)
    return {"medians": [asdict(result) for result in results], "seconds": times}


# -- scaling ----------------------------------------------------------------------------------------


def add_scaling(commands: Any) -> None:
    parser = add_command(commands, "scaling", "time and memory against size, generated data", [], scaling)
    parser.add_argument("--rows", type=positive, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--trees", type=positive, nargs="*", default=[10, 20, 40, 80])
    parser.add_argument("--depths", type=positive, nargs="*", default=[4, 6, 8, 10, 12])
    parser.add_argument("--base-rows", type=positive, default=50_000, help="rows where trees or depth vary")
    parser.add_argument("--bits", type=positive, default=TOY_BITS, help="key size")


def scaling(options: argparse.Namespace, console: Console) -> object:
    base = Shape(options.base_rows, features=20, parties=4, trees=20, depth=10, key_bits=options.bits)
    series = {
        "rows": [replace(base, rows=rows) for rows in options.rows],
        "trees": [replace(base, trees=trees) for trees in options.trees],
        "nodes": [replace(base, depth=depth) for depth in options.depths],
    }
    results: dict[str, object] = {}
    for name, shapes in series.items():
        with Progress(console=console, transient=True) as progress:
            tracked = progress.track(shapes, description=name)
            costs = [in_fresh_process(generated_fit, shape) for shape in tracked]
        if costs:
            sizes = [size_of(name, cost) for cost in costs]
            exponents = fitted_exponents(sizes, costs)
            console.print(scaling_table(name, costs, exponents))
            results[name] = {"fits": [asdict(cost) for cost in costs], "exponents": exponents}
    return results


def size_of(series: str, cost: Cost) -> int:
    return {"rows": cost.shape.rows, "trees": cost.shape.trees, "nodes": cost.nodes}[series]


def fitted_exponents(sizes: list[int], costs: list[Cost]) -> dict[str, float] | None:
    if len(set(sizes)) < 2:
        return None
    return {
        "seconds": exponent(sizes, [cost.seconds for cost in costs]),
        "peak": exponent(sizes, [cost.peak for cost in costs]),
        "peak less before": exponent(sizes, [max(cost.peak - cost.before, 1) for cost in costs]),
    }


def scaling_table(name: str, costs: list[Cost], exponents: dict[str, float] | None) -> Table:
    shape = costs[0].shape
    fixed = {"rows": f"{shape.rows:,} rows", "trees": f"{shape.trees} trees", "nodes": f"depth {shape.depth}"}
    rest = ", ".join(text for series, text in fixed.items() if series != name)
    title = f"By {name}: {rest}, {shape.features} features, {shape.parties} parties, {shape.key_bits} bits"
    varied = "depth" if name == "nodes" else name
    view = table(title, varied, "nodes", "seconds", "peak memory", "less what was there before")
    for cost in costs:
        add_cost(view, getattr(cost.shape, varied), cost)
    if exponents:
        view.add_section()
        view.add_row("exponent", "", *(f"{value:.2f}" for value in exponents.values()))
    return view


def add_cost(view: Table, first: int, cost: Cost) -> None:
    memory = [megabytes(cost.peak), megabytes(cost.peak - cost.before)]
    view.add_row(f"{first:,}", f"{cost.nodes:,}", f"{cost.seconds:.2f}", *memory)


# -- memory -----------------------------------------------------------------------------------------


def add_memory(commands: Any) -> None:
    what = "peak memory on Superconduct with a party for every column"
    parser = add_command(commands, "memory", what, ["superconduct"], memory)
    parser.add_argument("--parties", type=positive, nargs="+", default=[9, 81])
    parser.add_argument("--trees", type=positive, default=5)
    parser.add_argument("--depth", type=positive, default=6)
    parser.add_argument("--bits", type=positive, default=2048, help="key size")


def memory(options: argparse.Namespace, console: Console) -> object:
    rules = (options.trees, options.depth, options.bits, options.data)
    with Progress(console=console, transient=True) as progress:
        tracked = progress.track(options.parties, description="Superconduct")
        costs = [in_fresh_process(superconduct_fit, parties, *rules) for parties in tracked]
    title = f"Superconduct, {options.trees} trees of depth {options.depth}, {options.bits} bits"
    view = table(title, "parties", "nodes", "seconds", "peak memory", "less what was there before")
    for cost in costs:
        add_cost(view, cost.shape.parties, cost)
    view.caption = (
        "what grows: a party that has encrypted a few splits gets tables of powers of its key, so with\n"
        "trees and depth more than with parties; and the values of each column, once"
    )
    console.print(view)
    return [asdict(cost) for cost in costs]


if __name__ == "__main__":
    main()
