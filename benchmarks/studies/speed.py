"""How long training, leaving and predicting take under the shares protocol, beside plain forests.

    python -m benchmarks.studies.speed fit        training on the sets, beside scikit-learn
    python -m benchmarks.studies.speed large      training and predicting on a large made table
    python -m benchmarks.studies.speed leaving    one of many participants leaves

Machines are noisy: what is compared runs in turns, and a ratio is that of the shortest times. XGBoost's and
LightGBM's random forests are measured too where they are installed (`pip install xgboost-cpu lightgbm`).
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.paper.datasets import load
from benchmarks.studies.common import (
    add_command,
    megabytes,
    peak_memory,
    positive,
    run_command,
    set_names,
    table,
)
from revfrf import RevocableForestClassifier, RevocableForestRegressor

Work = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> None:
    what = "Measure the speed of the shares protocol."
    run_command("benchmarks.studies.speed", what, (add_fit, add_large, add_leaving), arguments)


# -- what is compared -------------------------------------------------------------------------------


def in_turns(works: Mapping[str, Work], repeats: int) -> dict[str, float]:
    """Return the shortest of several times, in seconds, of each of these; they run in turns."""
    shortest = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            started = perf_counter()
            work()
            shortest[name] = min(shortest[name], perf_counter() - started)
    return shortest


def forests(
    classes: bool, trees: int, depth: int | None, leaf: int, share: float, jobs: int
) -> dict[str, Any]:
    """Return estimators with equal parameters, by name, ours first and scikit-learn's second."""
    same: dict[str, Any] = {
        "max_depth": depth,
        "min_samples_leaf": leaf,
        "max_features": share,
        "n_jobs": jobs,
    }
    found: dict[str, Any] = {
        "RevFRF": (RevocableForestClassifier if classes else RevocableForestRegressor)(
            trees, random_state=0, **same
        ),
        "scikit-learn": (RandomForestClassifier if classes else RandomForestRegressor)(
            trees, random_state=0, **same
        ),
    }
    if classes and depth is not None:
        found |= _peers(trees, depth, leaf, share, jobs)
    return found


def _peers(trees: int, depth: int, leaf: int, share: float, jobs: int) -> dict[str, Any]:
    """Return the random forests of gradient boosters that are installed."""
    found: dict[str, Any] = {}
    if find_spec("xgboost"):
        from xgboost import XGBRFClassifier  # type: ignore[import-not-found,unused-ignore]

        same: dict[str, Any] = {"n_estimators": trees, "max_depth": depth, "n_jobs": jobs}
        found["XGBoost"] = XGBRFClassifier(
            subsample=0.632, colsample_bynode=share, tree_method="hist", **same
        )
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier  # type: ignore[import-not-found,unused-ignore]

        found["LightGBM"] = LGBMClassifier(
            boosting_type="rf",
            n_estimators=trees,
            max_depth=depth,
            num_leaves=2**depth,
            min_child_samples=leaf,
            bagging_freq=1,
            bagging_fraction=0.632,
            feature_fraction_bynode=share,
            n_jobs=jobs,
            verbose=-1,
        )
    return found


def shown(console: Console, title: str, seconds: Mapping[str, float], scores: Mapping[str, float]) -> Any:
    """Print the times with their ratio to scikit-learn's, and return them."""
    view = table(title, "forest", "seconds", "ratio to scikit-learn", "score")
    for name, time in seconds.items():
        view.add_row(name, f"{time:.3f}", f"{time / seconds['scikit-learn']:.3f}", f"{scores[name]:.4f}")
    console.print(view)
    return {name: {"seconds": time, "score": scores[name]} for name, time in seconds.items()}


def numbers_of(name: str, options: argparse.Namespace) -> tuple[tuple[Any, Any, Any, Any], bool]:
    """Return a set's training and test rows as numbers, and whether it has classes."""
    dataset = load(name, options.data)
    split = dataset.splits(0)[0].coded
    X, X_test = (frame.to_numpy(dtype=np.float64) for frame in (split.X_train, split.X_test))
    y, y_test = np.asarray(split.y_train), np.asarray(split.y_test)
    if dataset.task == "classes":
        labels = np.unique(y)
        y, y_test = np.searchsorted(labels, y), np.searchsorted(labels, y_test)
    return (X, y, X_test, y_test), dataset.task == "classes"


# -- commands ---------------------------------------------------------------------------------------


def add_fit(commands: Any) -> None:
    parser = add_command(
        commands, "fit", "training, beside scikit-learn", ["adult", "bike", "appliances"], fit
    )
    parser.add_argument("--sets", type=set_names, help="which, with commas between them")
    _add_forest_options(parser)


def _add_forest_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trees", type=positive, default=100)
    parser.add_argument("--depth", type=positive, default=10, help="62 is unlimited")
    parser.add_argument("--leaf", type=positive, default=5, help="rows of a leaf")
    parser.add_argument("--jobs", type=positive, default=1)
    parser.add_argument("--repeats", type=positive, default=3)


def fit(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    results = {}
    for name in options.sets:
        (X, y, X_test, y_test), classes = numbers_of(name, options)
        depth = None if options.depth >= 62 else options.depth
        made = forests(classes, options.trees, depth, options.leaf, X.shape[1] ** -0.5, options.jobs)
        made["RevFRF"].fit(X[:200], y[:200])  # compiles
        works = {title: partial(model.fit, X, y) for title, model in made.items()}
        seconds = in_turns(works, options.repeats)
        scores = {title: float(model.score(X_test, y_test)) for title, model in made.items()}
        size = f"{len(X):,} rows, {options.trees} trees, depth {options.depth}, {options.jobs} jobs"
        title = f"fit: {name}, {size}"
        results[name] = shown(console, title, seconds, scores)
    return results


def add_large(commands: Any) -> None:
    parser = add_command(commands, "large", "training and predicting on a large made table", [], large)
    parser.add_argument("--rows", type=positive, default=1_000_000)
    parser.add_argument("--columns", type=positive, default=20)
    _add_forest_options(parser)
    parser.set_defaults(repeats=1, jobs=2)


def large(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(options.rows, options.columns))
    y = (X[:, :5].sum(axis=1) + rng.normal(size=options.rows) > 0).astype(np.int64)
    cut = options.rows * 7 // 10
    made = forests(True, options.trees, options.depth, options.leaf, options.columns**-0.5, options.jobs)
    made["RevFRF"].fit(X[:200], y[:200])
    before = peak_memory()
    made["RevFRF"].fit(X[:cut], y[:cut])
    console.print(f"memory that our fit added: {megabytes(peak_memory() - before)}")
    works = {name: partial(model.fit, X[:cut], y[:cut]) for name, model in made.items()}
    seconds = in_turns(works, options.repeats)
    scores = {name: float(model.score(X[cut:], y[cut:])) for name, model in made.items()}
    size = f"{cut:,} rows, {options.columns} columns, {options.trees} trees, {options.jobs} jobs"
    results = {"fit": shown(console, f"fit: {size}", seconds, scores)}
    works = {name: partial(model.predict, X) for name, model in made.items()}
    results["predict"] = shown(console, f"predict: {options.rows:,} rows", in_turns(works, 1), scores)
    return results


def add_leaving(commands: Any) -> None:
    parser = add_command(commands, "leaving", "one of many participants leaves", ["adult"], leaving)
    parser.add_argument("--parties", type=positive, default=14)
    parser.add_argument("--level", type=int, choices=(1, 2), default=2)
    _add_forest_options(parser)


def leaving(options: argparse.Namespace, console: Console) -> dict[str, float]:
    (X, y, _, _), _ = numbers_of("adult", options)
    n, count = X.shape[1], options.parties
    parties = {f"party {i}": range(i * n // count, (i + 1) * n // count) for i in range(count)}
    made = forests(True, options.trees, options.depth, options.leaf, n**-0.5, options.jobs)
    plain = in_turns({"fit": partial(made["scikit-learn"].fit, X, y)}, options.repeats)["fit"]
    spent = []
    for leaver in parties:
        model = made["RevFRF"].set_params(parties=parties).fit(X, y)
        spent.append(in_turns({"leave": partial(model.revoke, leaver, options.level)}, 1)["leave"])
    found = {"mean": float(np.mean(spent)), "longest": max(spent), "scikit-learn": plain}
    title = f"one of {count} leaves, level {options.level}"
    view = table(title, "", "seconds", "ratio to scikit-learn's fit")
    for name, seconds in found.items():
        view.add_row(name, f"{seconds:.3f}", f"{seconds / plain:.3f}")
    console.print(view)
    return found


if __name__ == "__main__":
    main()
