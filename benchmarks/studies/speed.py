"""How long training, predicting and leaving take under the shares protocol, beside scikit-learn.

    python -m benchmarks.studies.speed fit        training on Adult, Bike and Appliances
    python -m benchmarks.studies.speed predict    predicting the rows of a large made table
    python -m benchmarks.studies.speed leaving    one of 14 participants leaves, and one of 5

Each prints what was measured beside its target. `--rows` and `--trees` make a quick run of it.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.datasets import load
from benchmarks.studies.common import add_command, positive, run_command, table
from benchmarks.studies.turns import OURS, PLAIN, Claim, Shape, in_turns, made_rows, ratio, show

_MISSING_SHARE = 0.1


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure the speed of the shares protocol."
    run_command("benchmarks.studies.speed", what, (add_fit, add_predict, add_leaving), arguments)


def _add_options(parser: argparse.ArgumentParser, repeats: int) -> None:
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--repeats", type=positive, default=repeats)


def _rows_of(name: str, options: argparse.Namespace) -> tuple[Any, Any, Shape]:
    """Return a set's training rows as numbers, and the forest that fits them."""
    dataset = load(name, options.data)
    split = dataset.splits(0)[0].coded
    X, y = split.X_train.to_numpy(dtype=np.float64)[: options.rows], np.asarray(split.y_train)[: options.rows]
    return X, y, Shape(dataset.task == "classes", options.trees, isqrt(X.shape[1]))


# -- training ---------------------------------------------------------------------------------------


def add_fit(commands: Any) -> None:
    sets = ["adult", "bike", "appliances"]
    parser = add_command(commands, "fit", "training, beside scikit-learn", sets, fit)
    parser.add_argument("--rows", type=positive, help="training rows (default: all)")
    _add_options(parser, 5)


def fit(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    X, y, adult = _rows_of("adult", options)
    holes = np.where(rng.random(X.shape) < _MISSING_SHARE, np.nan, X)
    weights = rng.random(len(y)) + 0.1
    one_plain_job = adult.plain()
    deep = replace(adult, depth=None, leaf=1)
    cases = [
        ("Adult, one job", adult.ours(), one_plain_job, (X, y), 0.30),
        ("Adult, two jobs (scikit-learn: one)", replace(adult, jobs=2).ours(), one_plain_job, (X, y), 0.17),
        ("Adult, unlimited depth", deep.ours(), deep.plain(), (X, y), 0.50),
        (
            "Adult, unlimited depth, two jobs",
            replace(deep, jobs=2).ours(),
            deep.plain(n_jobs=2),
            (X, y),
            0.50,
        ),
        ("Adult, fractional weights", adult.ours(), one_plain_job, (X, y, weights), 0.35),
        ("Adult, a tenth missing", adult.ours(), one_plain_job, (holes, y), 0.35),
    ]
    for name in ("bike", "appliances"):
        numbers, targets, shape = _rows_of(name, options)
        title = f"{name.capitalize()}, regression"
        cases.append((title, shape.ours(), shape.plain(), (numbers, targets), 0.35))
    claims = []
    for what, ours, plain, rows, target in cases:
        ours.fit(*(part[:200] for part in rows))  # compiles
        works = {OURS: partial(ours.fit, *rows), PLAIN: partial(plain.fit, *rows)}
        claims.append(ratio(what, in_turns(works, options.repeats), target))
    traffic = adult.ours().fit(X, y).costs_.total("bytes") / MEGABYTE
    claims.append(Claim("Adult, MB of traffic", traffic, 1.0))
    view = table("Adult, one job, beside boosters", "forest", "seconds")
    works = {OURS: partial(adult.ours().fit, X, y)}
    works |= {name: partial(model.fit, X, y == y.max()) for name, model in adult.boosters(X.shape[1]).items()}
    for name, seconds in in_turns(works, options.repeats).items():
        view.add_row(name, f"{seconds.wall:.3f}")
    console.print(view)
    return show(console, f"training, {options.trees} trees: ratio to scikit-learn", claims)


# -- predicting -------------------------------------------------------------------------------------


def add_predict(commands: Any) -> None:
    parser = add_command(
        commands, "predict", "predicting, beside scikit-learn with the same jobs", [], predict
    )
    parser.add_argument("--rows", type=positive, default=1_000_000)
    parser.add_argument("--columns", type=positive, default=20)
    parser.add_argument("--training-rows", type=positive, default=100_000)
    _add_options(parser, 3)


def predict(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    X, y = made_rows(options.rows, options.columns)
    claims = []
    for jobs in (1, 2):
        shape = Shape(True, options.trees, isqrt(options.columns), jobs=jobs)
        models: dict[str, Any] = {OURS: shape.ours(), PLAIN: shape.plain()}
        for model in models.values():
            model.fit(X[: options.training_rows], y[: options.training_rows]).predict(X[:100])
        works = {name: partial(model.predict, X) for name, model in models.items()}
        claims.append(ratio(f"{jobs} jobs", in_turns(works, options.repeats), 0.7))
    title = f"predicting {options.rows:,} rows, {options.columns} columns, {options.trees} trees"
    return show(console, f"{title}: ratio to scikit-learn", claims)


# -- leaving ----------------------------------------------------------------------------------------


def add_leaving(commands: Any) -> None:
    parser = add_command(
        commands, "leaving", "one of 14 participants leaves, and one of 5", ["adult"], leaving
    )
    parser.add_argument("--rows", type=positive, help="training rows (default: all)")
    _add_options(parser, 3)


def leaving(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    X, y, shape = _rows_of("adult", options)
    plain, claims = in_turns({PLAIN: partial(shape.plain().fit, X, y)}, options.repeats)[PLAIN], []
    for count, target in ((14, 0.15), (5, 0.30)):
        owned = np.array_split(np.arange(X.shape[1]), count)
        parties = {f"party {i}": list(columns) for i, columns in enumerate(owned) if len(columns)}
        for level in (1, 2):
            spent = [_leave(shape.ours(parties=parties).fit(X, y), leaver, level) for leaver in parties]
            mean, longest = np.mean(spent) / plain.wall, max(spent) / plain.wall
            what = f"one of {len(parties)}, level {level}"
            claims.append(
                Claim(what, float(mean), target, f"{np.mean(spent):.3f} s; the longest {longest:.3f}")
            )
    title = "leaving, the mean over leavers: ratio to scikit-learn's fit"
    return show(console, f"{title} ({plain.wall:.3f} s)", claims)


def _leave(model: Any, leaver: str, level: int) -> float:
    return in_turns({"leave": partial(model.revoke, leaver, level)}, 1)["leave"].wall


if __name__ == "__main__":
    main()
