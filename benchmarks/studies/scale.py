"""Whether training under the shares protocol scales: a million rows, and how time and memory grow.

    python -m benchmarks.studies.scale large     a million rows, beside scikit-learn, XGBoost and LightGBM
    python -m benchmarks.studies.scale linear    time against rows, trees and columns

scikit-learn needs minutes for a million rows and 100 trees. Its time is that of a few trees, scaled up: the
trees are independent. Accuracy is compared with so few trees of both.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isqrt
from typing import Any

from rich.console import Console

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
from benchmarks.studies.turns import OURS, PLAIN, Claim, Seconds, Shape, in_turns, made_rows, show

_GIGABYTE = 1e9


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure how training under the shares protocol scales."
    run_command("benchmarks.studies.scale", what, (add_large, add_linear), arguments)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=1_000_000)
    parser.add_argument("--columns", type=positive, default=20)
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--repeats", type=positive, default=1)


def _shape(options: argparse.Namespace) -> Shape:
    return Shape(True, options.trees, isqrt(options.columns), jobs=options.jobs)


def _compile() -> None:
    Shape(True, 2, 2).ours().fit(*made_rows(200, 5))


# -- a million rows ---------------------------------------------------------------------------------


def add_large(commands: Any) -> None:
    parser = add_command(commands, "large", "a million rows, beside other forests", [], large)
    parser.add_argument("--plain-trees", type=positive, default=4, help="trees of scikit-learn's forest")
    _add_options(parser)


def large(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    shape, few = _shape(options), replace(_shape(options), trees=options.plain_trees)
    before, peak = in_fresh_process(_memory, options.rows, options.columns, shape)
    X, y = made_rows(options.rows + options.rows // 4, options.columns)
    X_test, y_test, X, y = X[options.rows :], y[options.rows :], X[: options.rows], y[: options.rows]
    _compile()
    models: dict[str, Any] = {OURS: shape.ours(), **shape.boosters(options.columns), PLAIN: few.plain()}
    seconds = in_turns({name: partial(model.fit, X, y) for name, model in models.items()}, options.repeats)
    plain = seconds[PLAIN].wall * options.trees / options.plain_trees
    view = table(
        f"{options.rows:,} rows, {options.jobs} jobs", "forest", "seconds", "CPU seconds", "accuracy"
    )
    for name, spent in seconds.items():
        accuracy = f"{models[name].score(X_test, y_test):.4f}"
        view.add_row(f"{name}, {models[name].n_estimators} trees", *(f"{s:.1f}" for s in spent), accuracy)
    console.print(view)
    ours = seconds[OURS].wall
    detail = f"{ours:.1f} / ~{plain:.1f} s, from {options.plain_trees} trees"
    claims = [
        Claim("ratio to scikit-learn", ours / plain, 0.1, detail),
        Claim("GB of memory, with the rows", peak / _GIGABYTE, 2.0, f"{megabytes(before)} before the fit"),
    ]
    boosters = {name: spent.wall for name, spent in seconds.items() if name not in (OURS, PLAIN)}
    if boosters:
        fastest = min(boosters, key=boosters.__getitem__)
        claims.append(Claim(f"ratio to {fastest}, the faster booster", ours / boosters[fastest], 1.0))
    loss = models[PLAIN].score(X_test, y_test) - few.ours().fit(X, y).score(X_test, y_test)
    title = f"points of accuracy lost, {options.plain_trees} trees each"
    claims.append(Claim(title, float(100 * loss), 0.3))
    title = f"{options.rows:,} rows, {options.columns} columns, {options.trees} trees, {options.jobs} jobs"
    return show(console, title, claims)


def _memory(rows: int, columns: int, shape: Shape) -> tuple[int, int]:
    """Return the memory of this process before a fit, and at its peak."""
    _compile()
    X, y = made_rows(rows, columns)
    before = current_memory()
    shape.ours().fit(X, y)
    return before, peak_memory()


# -- growth of time ---------------------------------------------------------------------------------


def add_linear(commands: Any) -> None:
    parser = add_command(commands, "linear", "time against rows, trees and columns", [], linear)
    _add_options(parser)
    parser.set_defaults(rows=400_000, trees=40, columns=40)


def linear(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """All columns are candidates: √F would make time grow with √F."""
    _compile()
    X, y = made_rows(options.rows, options.columns)
    claims = []
    for what, largest in (("rows", options.rows), ("trees", options.trees), ("columns", options.columns)):
        sizes = [largest // 4, largest // 2, largest]
        works = {}
        for size in sizes:
            asked = {"rows": options.rows // 4, "trees": options.trees // 4, "columns": options.columns // 4}
            asked[what] = size
            shape = Shape(True, asked["trees"], asked["columns"], jobs=options.jobs)
            rows, columns = asked["rows"], asked["columns"]
            works[str(size)] = partial(shape.ours().fit, X[:rows, :columns], y[:rows])
        seconds: dict[str, Seconds] = in_turns(works, options.repeats)
        power = exponent(sizes, [spent.cpu for spent in seconds.values()])
        detail = "; ".join(f"{size}: {spent.wall:.2f} s" for size, spent in seconds.items())
        claims.append(Claim(f"exponent of CPU time against {what}", power, 1.1, detail))
    return show(console, "time grows no faster than its cause", claims)


if __name__ == "__main__":
    main()
