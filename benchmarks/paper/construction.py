"""Speed and size of building a forest.

    python -m benchmarks.paper.construction speed     seconds of a fit on Adult, as a ratio to scikit-learn's
    python -m benchmarks.paper.construction scaling   time and memory against rows, trees and nodes
    python -m benchmarks.paper.construction memory    Superconduct with a party for every column
    python -m benchmarks.paper.construction bytes     what FLE-Expan sends for 100 splits

Each takes `--json FILE`, and those that read a set `--data PATH`; `--help` after the name lists the rest.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier

from benchmarks.paper.common import (
    MEGABYTE,
    TOY_BITS,
    add_command,
    exponent,
    in_fresh_process,
    keys,
    megabytes,
    positive,
    run_command,
    seconds,
    table,
)
from benchmarks.paper.datasets import coded, load
from benchmarks.paper.fits import Cost, Shape, Traffic, generated_fit, superconduct_fit, traffic
from benchmarks.paper.printed import EFFICIENCY, OURS
from revfrf import RevocableForestClassifier

PAPER_BYTES = (EFFICIENCY[OURS].construction_megabytes or 0) * MEGABYTE
WANTED_SPLITS = 100


def main(arguments: Sequence[str] | None = None) -> None:
    adders = (add_speed, add_scaling, add_memory, add_bytes)
    run_command("benchmarks.paper.construction", "Measure how a forest is built.", adders, arguments)


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
        for bits in options.bits:  # compiles, makes the modulus, starts workers
            RevocableForestClassifier(2, max_depth=3, n_jobs=-1, **keys(bits)).fit(X[:500], y[:500])
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


# -- bytes ------------------------------------------------------------------------------------------


def add_bytes(commands: Any) -> None:
    parser = add_command(commands, "bytes", "what FLE-Expan sends for 100 splits on Adult", ["adult"], wire)
    parser.add_argument("--rows", type=positive, default=5_000)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--bits", type=positive, default=1024, help="key size")


def wire(options: argparse.Namespace, console: Console) -> object:
    """The tree of the asked depth, and the one of at most that depth with about 100 splits."""
    split = load("adult", options.data).splits(0)[0]
    X, y = split.X_train[: options.rows], split.y_train[: options.rows]
    trees = traffic(X, y, range(1, options.depth + 1), options.bits)
    near = min(trees, key=lambda tree: abs(tree.splits - WANTED_SPLITS))
    title = f"Adult, {len(X):,} rows, one tree, {X.shape[1]} parties, {options.bits} bits: bytes of FLE-Expan"
    view = table(title, "depth", "splits", "to parties", "from parties", "for 100 splits", "× the paper's")
    for tree in {near.depth: near, options.depth: trees[-1]}.values():
        sizes = [megabytes(size) for size in (tree.to_parties, tree.from_parties, tree.per_100_splits)]
        ratio = f"{tree.per_100_splits / PAPER_BYTES:.2f}"
        view.add_row(str(tree.depth), str(tree.splits), *sizes, ratio)
    view.caption = f"the paper sends {megabytes(PAPER_BYTES)}"
    console.print(view)
    return [wire_json(tree) for tree in trees]


def wire_json(tree: Traffic) -> dict[str, float]:
    return asdict(tree) | {"per_100_splits": tree.per_100_splits, "paper": PAPER_BYTES}


if __name__ == "__main__":
    main()
