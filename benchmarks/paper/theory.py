"""Exponentiations, bytes and nodes, counted where the paper has formulas for them."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from benchmarks.paper.as_printed import measure_as_printed
from benchmarks.paper.asking import PROTOCOLS, fitted, request_rows, requests, warm_up
from benchmarks.paper.books import powers
from benchmarks.paper.cells import Cell, Plain
from benchmarks.paper.common import TOY_BITS
from benchmarks.paper.experiment import dataset, leavers, named, owners
from benchmarks.paper.printed import BOST, CONSTRUCTION, OURS, PREDICTION, VAIDYA, WU
from benchmarks.paper.rival_costs import asking, building, evaluation
from benchmarks.paper.settings import Settings
from revfrf.crypto.dtpkc.packing import slots
from revfrf.embedded.costs import Costs
from revfrf.protocols.paper.frf_revoc import doomed

RIVALS = "rivals"
DRAWS = 20
"""Of those who leave together, where what they take along is counted."""

SPLIT_POWERS = 2
"""What a split costs its owner: an encryption."""

LEVELS: tuple[Literal[1, 2], ...] = (1, 2)


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a key size, and one for the rivals, whose counts are the same with keys of any size."""
    size = {
        "trees": settings.request_trees,
        "depth": settings.request_depths[-1],
        "rows": settings.cost_rows,
    }
    where = {"file": named("adult", data)}
    more = {"asked": settings.cost_trials, "leavers": settings.leavers, "as_printed": settings.as_printed}
    keys: list[tuple[str, dict[str, Any]]] = [
        *((OURS, {"bits": bits, **size, **more}) for bits in settings.bits),
        (RIVALS, {"measured": settings.encrypted_rows, **size}),
    ]
    runs: Mapping[str, Callable[..., Plain]] = {OURS: run, RIVALS: rivals}
    return [
        Cell("theory", {"of": name, **key, **where}, partial(runs[name], data=data, **key))
        for name, key in keys
    ]


def run(
    data: Path | None, bits: int, trees: int, depth: int, rows: int, asked: int, leavers: int, as_printed: int
) -> dict[str, Any]:
    """Counts of ours. Raises AssertionError if those are not right that can only be so."""
    adult = dataset("adult", data)
    model, X = fitted(adult, trees, depth, bits, rows), request_rows(adult, asked)
    store = model.federation_.coordinator.store
    return {
        "columns": len(model.parties_),
        "cuts": model.n_candidates,
        "rows": rows,
        "slots": slots(model.federation_.parameters),
        "nodes a tree": model.n_nodes_ / trees,
        **built(model, (model.n_nodes_ - trees) // 2),
        **answered(model, X),
        "as printed": measure_as_printed(model, X, as_printed).powers,
        "draws": DRAWS,
        "nodes taken along": [
            mean(len(doomed(store, who)) for who in drawn(model, n)) / trees for n in range(1, leavers + 1)
        ],
        **{f"level {level}": left(model, level) for level in LEVELS},
    }


def built(model: Any, splits: int) -> dict[str, float]:
    """A forest was built: powers and bytes, and features about whose cuts CS was told."""
    costs = model.costs_
    by_cs, by_owners = powers(costs, "CS", "FOS-Find"), _owners(model, costs, "FOS-Find")
    check("powers of owners for the splits", by_owners, SPLIT_POWERS * splits)
    check("powers of CS for the splits", by_cs, 0)
    return {
        "splits": splits,
        "offers": model.leakage_["CS"]["numbers of candidate cuts"],
        "built by CS": by_cs,
        "built by owners": by_owners,
        "built bytes": costs.total("bytes", "FLE-Expan"),
    }


def answered(model: Any, X: Any) -> dict[str, float]:
    """Each of these rows is asked, and nothing is new: comparisons, powers and bytes of all together."""
    warm_up(model, X)
    before = model.costs_
    comparisons = sum(spent.comparisons for spent in requests(model, X))
    after = model.costs_
    return {
        "comparisons": comparisons,
        "asked of CS": powers(after, "CS", "HoLT") - powers(before, "CS", "HoLT"),
        "asked of CC": powers(after, "CC", "HoLT") - powers(before, "CC", "HoLT"),
        "asked of owners": _owners(model, after, "HoLT") - _owners(model, before, "HoLT"),
        "asked bytes": sum(after.total("bytes", name) - before.total("bytes", name) for name in PROTOCOLS),
    }


def left(model: Any, level: Literal[1, 2]) -> dict[str, float]:
    """One participant leaves: splits built again, and powers and bytes, but for new keys."""
    store, before = model.federation_.coordinator.store, model.costs_
    [[going]] = drawn(model, 1)[:1]
    kept = store.splits.keys() - doomed(store, [going])
    model.revoke([going], level)
    after, rebuilt = model.costs_, len(store.splits) - len(kept)
    names = ("FLE-Expan", "FOS-Find", "FRF-Revoc")
    servers, owners = (
        sum(powers(after, who, name) - powers(before, who, name) for who in some for name in names)
        for some in (("CS", "CC"), model.parties_)
    )
    again = rebuilt + (len(kept) if level == 2 else 0)
    check(f"powers of owners for the splits, level {level}", owners, SPLIT_POWERS * again)
    sent = sum(after.total("bytes", name) - before.total("bytes", name) for name in names)
    return {"splits": rebuilt, "kept": len(kept), "owners": owners, "servers": servers, "bytes": sent}


def check(what: str, counted: float, right: float) -> None:
    if counted != right:
        raise AssertionError(f"{what}: {counted:g}, not {right:g}")


def drawn(model: Any, count: int) -> list[list[str]]:
    """Draws of so many who leave together."""
    columns = [column for owned in model.parties_.values() for column in owned]
    return [owners(model, leavers(columns, count, seed)) for seed in range(DRAWS)]


def _owners(model: Any, costs: Costs, protocol: str) -> int:
    return sum(powers(costs, party, protocol) for party in model.parties_)


def rivals(data: Path | None, measured: int, trees: int, depth: int, rows: int) -> dict[str, Any]:
    """What the rivals' programs count. Of Wu's complete trees one is enough, of Vaidya's rows a few."""
    size = {"rows": rows, "trees": trees, "depth": depth}
    bost, wu = (
        evaluation(data, rival, TOY_BITS, 0, some, **size)["prediction"]
        for rival, some in ((BOST, trees), (WU, 1))
    )
    built = building(data, VAIDYA, TOY_BITS, measured, rows)["construction"]
    asked = asking(data, VAIDYA, TOY_BITS, 0, measured, **size)["prediction"]
    return {
        BOST: {PREDICTION: bost["operations"]},
        WU: {PREDICTION: wu["operations"]},
        VAIDYA: {CONSTRUCTION: built["operations"], PREDICTION: asked["operations"]},
    }
