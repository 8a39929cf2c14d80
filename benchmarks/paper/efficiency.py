"""Seconds and bytes of construction and prediction: the paper's table of efficiency, its last figures."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.paper.as_printed import measure_as_printed
from benchmarks.paper.asking import fitted, request_rows, requests, warm_up
from benchmarks.paper.books import OWNERS, by_role
from benchmarks.paper.cells import Cell
from benchmarks.paper.experiment import dataset, named
from benchmarks.paper.printed import BOST, VAIDYA, WU
from benchmarks.paper.rival_costs import SEEN, asking, building, evaluation
from benchmarks.paper.settings import Settings
from revfrf.names import CC, CS

BUILDING, ASKING, RIVAL = "construction", "prediction", "rival"
"""Kinds of cells."""

BUILDERS = (CS, CC, OWNERS)


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """Ours by key size, trees and trial, and by key size and depth; each rival by key size and trial."""
    where = {"file": named("adult", data)}
    found = []

    def add(run: Callable[..., dict[str, Any]], kind: str, **key: Any) -> None:
        found.append(Cell("efficiency", {"kind": kind, **key, **where}, partial(run, data=data, **key)))

    rows, trials = settings.cost_rows, settings.cost_trials
    for bits in settings.bits:
        for trees in settings.cost_trees:
            for seed in range(trials):
                size = {"trees": trees, "rows": rows, "depth": settings.cost_depth}
                add(construction, BUILDING, bits=bits, seed=seed, **size)
        for depth in settings.request_depths:
            printed = settings.as_printed if depth == settings.request_depths[-1] else 0
            size = {"trees": settings.request_trees, "rows": rows, "depth": depth}
            add(prediction, ASKING, bits=bits, trials=trials, as_printed=printed, **size)
    size = {"rows": rows, "trees": settings.request_trees, "depth": settings.request_depths[-1]}
    for bits, asked in settings.rival_trials:
        for run, rival, measured in (
            (evaluation, BOST, settings.rival_trees),
            (evaluation, WU, settings.rival_trees),
            (asking, VAIDYA, settings.counted_rows),
        ):
            for trial in range(asked):
                add(run, RIVAL, rival=rival, bits=bits, trial=trial, measured=measured, **size)
        for rival, measured in ((VAIDYA, settings.encrypted_rows), (SEEN, settings.counted_rows)):
            add(building, RIVAL, rival=rival, bits=bits, measured=measured, rows=rows)
    return found


# -- ours -------------------------------------------------------------------------------------------


def construction(
    data: Path | None, bits: int, trees: int, seed: int, rows: int, depth: int
) -> dict[str, Any]:
    """What FLE-Expan and FOS-Find cost, for so many trees; one such forest is grown before, unmeasured."""
    _rehearse(data, bits, trees, rows, depth)
    model = fitted(dataset("adult", data), trees, depth, bits, rows, seed)
    costs = model.costs_
    return {
        "splits": (model.n_nodes_ - trees) // 2,
        "seconds": by_role(costs.work, "seconds", ("FLE-Expan", "FOS-Find"), BUILDERS),
        "bytes": by_role(costs.traffic, "bytes", ("FLE-Expan",), BUILDERS),
    }


@cache
def _rehearse(data: Path | None, bits: int, trees: int, rows: int, depth: int) -> None:
    fitted(dataset("adult", data), trees, depth, bits, rows)


def prediction(
    data: Path | None, bits: int, trials: int, as_printed: int, trees: int, rows: int, depth: int
) -> dict[str, Any]:
    """What requests cost, each for another row; and, if asked, some comparisons of the paper's protocol."""
    adult = dataset("adult", data)
    model, X = fitted(adult, trees, depth, bits, rows), request_rows(adult, trials)
    found: dict[str, Any] = {
        "first": asdict(warm_up(model, X)),
        "requests": [asdict(spent) for spent in requests(model, X)],
    }
    if as_printed:
        found["as printed"] = measure_as_printed(model, X, as_printed).seconds
    return found
