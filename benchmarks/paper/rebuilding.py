"""What is built again when 1 to 5 leave, beside building all again: the paper's table of rebuilding times."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from benchmarks.paper.cells import Cell
from benchmarks.paper.experiment import dataset, forest, leavers, named, owners, warm
from benchmarks.paper.settings import Settings
from benchmarks.rivals.irrevocable import rebuild_all
from revfrf.crypto.dtpkc.arithmetic import fixed_base

SMALL, LARGE = "small", "large"
"""A forest of the paper's size, and one as large as those whose accuracy is measured."""

LARGE_LEAVERS = {1: (1, 3, 5), 2: (1, 5)}
"""How many leave the large one, by level."""


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a number of leavers and trial: a forest that so many leave together."""
    file = {"file": named("adult", data)}
    found = []
    size: dict[str, Any]
    size = {"trees": settings.rebuild_trees, "rows": settings.cost_rows, "depth": settings.cost_depth}
    for bits in settings.rebuild_bits:
        for left, trial, level in jobs(settings):
            who = {"left": left, "seed": trial, "level": level, "bits": bits}
            found.append(_cell({"forest": SMALL, **who, **size, **file}, data))
    size = {"trees": settings.trees, "rows": settings.rows, "depth": 10, "bits": settings.rebuild_bits[-1]}
    for level, numbers in LARGE_LEAVERS.items():
        for left in numbers:
            for trial in range(settings.large_trials):
                who = {"left": left, "seed": trial, "level": level}
                found.append(_cell({"forest": LARGE, **who, **size, **file}, data))
    return found


def jobs(settings: Settings) -> Iterator[tuple[int, int, int]]:
    """Leavers, trial and level. New keys are for all, so the fewest and the most leavers will do there."""
    for left in range(1, settings.leavers + 1):
        yield from ((left, trial, 1) for trial in range(settings.rebuild_trials))
    for left in sorted({1, settings.leavers}):
        yield from ((left, trial, 2) for trial in range(settings.rebuild_trials))


def _cell(key: dict[str, Any], data: Path | None) -> Cell:
    rules = {name: value for name, value in key.items() if name not in ("forest", "file")}
    return Cell("rebuilding", key, partial(run, data=data, **rules))


def run(
    data: Path | None,
    left: int,
    seed: int,
    level: Literal[1, 2],
    trees: int,
    rows: int | None,
    depth: int,
    bits: int,
) -> dict[str, Any]:
    """Leave, and beside it build all again without those who left; both on one core, without any tables."""
    split = dataset("adult", data).splits(0)[0]
    X, y = split.X_train[:rows], split.y_train[:rows]
    warm(bits, X, y)
    model = forest("classes", trees, seed, bits, max_depth=depth).fit(X, y).set_params(n_jobs=1)
    going = owners(model, leavers(list(X.columns), left, seed))
    fixed_base.cache_clear()
    full = rebuild_all(model, X, y, going)
    fixed_base.cache_clear()
    started = perf_counter()
    report = model.revoke(going, level).core.report
    spent = perf_counter() - started
    if model.digest_ != full.forest.digest_:
        raise AssertionError(f"not the forest without {going}")
    return {
        "destroyed": report.destroyed,
        "rebuilt": report.rebuilt,
        "seconds": spent,
        "full nodes": full.forest.n_nodes_,
        "full seconds": full.training_seconds,
    }
