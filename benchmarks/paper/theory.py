"""Exponentiations, bytes and nodes that the paper's formulas give, beside those counted."""

from collections.abc import Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.paper import printed
from benchmarks.paper.cells import Cell, Done
from benchmarks.paper.experiment import Experiment, dataset, leavers, named, owners
from benchmarks.paper.prediction import fitted, literal, measure, request_rows, warm_up
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part, Table, number, ratio
from revfrf.costs import Costs
from revfrf.protocols.frf_revoc import doomed

DRAWS = 20
"""Of those who leave together, where what they take along is counted."""


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a key size."""
    size = {
        "trees": settings.request_trees,
        "depth": settings.request_depths[-1],
        "rows": settings.cost_rows,
        "leavers": settings.leavers,
        "as_printed": settings.literal,
    }
    where = {"file": named("adult", data)}
    return [
        Cell("theory", {"bits": bits, **size, **where}, partial(run, data=data, bits=bits, **size))
        for bits in settings.bits
    ]


def run(
    data: Path | None, bits: int, trees: int, depth: int, rows: int, leavers: int, as_printed: int
) -> dict[str, Any]:
    adult = dataset("adult", data)
    model, X = fitted(adult, trees, depth, bits, rows), request_rows(adult, 1)
    built = model.costs_
    splits = (model.n_nodes_ - trees) // 2
    warm_up(model, X)
    before = model.costs_
    comparisons = measure(model, X, 1).comparisons
    after = model.costs_
    asked = {
        role: powers(after, role, "HoLT") - powers(before, role, "HoLT")
        for role in ("CS", "CC", *model.parties_)
    }
    sent = sum(after.total("bytes", name) - before.total("bytes", name) for name in ("HoLT", "FRF-Predict"))
    store = model.federation_.coordinator.store
    taken = [
        mean(len(doomed(store, who).nodes) for who in drawn(model, n)) / trees for n in range(1, leavers + 1)
    ]
    return {
        "columns": len(model.parties_),
        "cuts": model.n_candidates,
        "rows": rows,
        "splits": splits,
        "nodes a tree": model.n_nodes_ / trees,
        "built by CS": powers(built, "CS", "FOS-Find"),
        "built by owners": sum(powers(built, party, "FOS-Find") for party in model.parties_),
        "built bytes": built.total("bytes", "FLE-Expan"),
        "comparisons": comparisons,
        "asked of CS": asked["CS"],
        "asked of CC": asked["CC"],
        "asked of owners": sum(asked[party] for party in model.parties_),
        "asked bytes": sent,
        "as printed": literal(model, X, as_printed).powers,
        "nodes taken along": taken,
    }


def drawn(model: Any, count: int) -> list[list[str]]:
    """Draws of so many who leave together."""
    columns = [column for owned in model.parties_.values() for column in owned]
    return [owners(model, leavers(columns, count, seed)) for seed in range(DRAWS)]


def powers(costs: Costs, role: str, protocol: str) -> int:
    cell = costs.work.get(role, {}).get(protocol, {"exponentiations": {}})
    return int(sum(cell["exponentiations"].values()))


def parts(results: Sequence[Done]) -> list[Part]:
    return [work(results), nodes(results[-1])]


def work(results: Sequence[Done]) -> Table:
    rows: list[tuple[str, ...]] = []
    for done in results:
        bits, found = done.key["bits"], done.result
        splits, comparisons = found["splits"], found["comparisons"]
        building = printed.construction_bits(bits, sqrt(found["columns"]), found["rows"], found["cuts"]) / 8
        pairs = [
            ("construction: powers of CS for a split", 0, found["built by CS"] / splits),
            (
                "construction: powers of owners for a split",
                printed.CONSTRUCTION_OWNER,
                found["built by owners"] / splits,
            ),
            ("construction: bytes for a split", building, found["built bytes"] / splits),
            (
                "prediction: powers of CS for a comparison",
                printed.PREDICTION_CS,
                found["asked of CS"] / comparisons,
            ),
            ("prediction: powers of CC for a comparison", None, found["asked of CC"] / comparisons),
            (
                "prediction: powers of owners for a comparison",
                printed.PREDICTION_OWNER,
                found["asked of owners"] / comparisons,
            ),
            (
                "prediction: powers of all for a comparison, as printed",
                printed.PREDICTION_CS + printed.PREDICTION_OWNER,
                found["as printed"],
            ),
            (
                "prediction: bytes for a comparison",
                printed.PREDICTION_BITS * bits / 8,
                found["asked bytes"] / comparisons,
            ),
        ]
        rows += [
            (
                what,
                str(bits),
                "" if theory is None else number(theory),
                number(counted),
                ratio(counted, theory or 0),
            )
            for what, theory, counted in pairs
        ]
    note = (
        "A power is an exponentiation, 1.5 N multiplications in the paper. Ours are counted where they "
        "happen, whatever their exponents: an owner's two for a split come from tables, most of CS's have "
        "exponents of 64 bits and not of N, and 7 comparisons share one opening at 1024 bits, 15 at 2048. "
        "Bytes of construction by the paper's formula are for all rows at every node; ours sends "
        "those of the node."
    )
    head = ("", "bits", "the paper's formula", "counted", "counted / formula")
    return Table("theory", "Formulas and counts", head, rows, note)


def nodes(done: Done) -> Table:
    found, depth = done.result, done.key["depth"]
    rows = [
        (
            str(left),
            str(printed.rebuilt_nodes(depth, left)),
            number(taken),
            f"{100 * taken / found['nodes a tree']:.0f} %",
        )
        for left, taken in enumerate(found["nodes taken along"], 1)
    ]
    note = f"Mean of {DRAWS} draws of who leaves, of {found['columns']} participants; trees of depth {depth}."
    head = ("left", "d_max · n_d", "counted", "of all nodes")
    return Table("theory-nodes", "Nodes of a tree that go with those who leave", head, rows, note)


THEORY = Experiment(
    "theory",
    "Theoretical costs, and what is counted",
    "The paper's table of theoretical costs, its constants as exponentiations for a split or a comparison. "
    "The rivals' formulas are not checked.",
    ("adult",),
    ("theory", "theory-nodes"),
    cells,
    parts,
)
