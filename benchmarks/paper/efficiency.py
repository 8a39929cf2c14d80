"""Seconds and bytes of construction and prediction: the paper's table of efficiency, its last figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.paper.cells import Cell, Done
from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.experiment import Experiment, dataset, forest, named, warm
from benchmarks.paper.plots import Series
from benchmarks.paper.prediction import fitted, literal, measure, request_rows, warm_up
from benchmarks.paper.printed import BOST, EFFICIENCY, OURS, VAIDYA, WU, Efficiency
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Figure, Part, Table, number, ratio
from benchmarks.rivals.comparisons import CLIENT, SERVER, ClientKeys, bost, evaluate, wu
from benchmarks.rivals.encrypted_database import EncryptedDatabase, RandomTrees
from benchmarks.rivals.paillier import Paillier
from benchmarks.rivals.plain import plain_forest
from benchmarks.rivals.trees import from_sklearn
from revfrf.costs import Costs

NODES = 100
"""Splits of the table's construction."""

BUILDING, ASKING, RIVAL = "construction", "prediction", "rival"
SEEN = "Vaidya, leaves seen"
"""The cheaper way, in which it is seen which leaf a row reaches."""

COMPLETE_DEPTH = 7
"""Of the one random tree whose construction is measured: 127 splits."""


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """Ours by key size, nodes and trial, and by key size and depth; each rival by key size."""
    where = {"file": named("adult", data)}
    found = []

    def add(run: Callable[..., dict[str, Any]], kind: str, **key: Any) -> None:
        found.append(Cell("efficiency", {"kind": kind, **key, **where}, partial(run, data=data, **key)))

    for bits in settings.bits:
        size = {"rows": settings.cost_rows, "depth": settings.cost_depth}
        for trees in settings.cost_trees:
            trials = settings.cost_trials if trees == 1 else 1
            for seed in range(trials):
                add(construction, BUILDING, bits=bits, trees=trees, seed=seed, **size)
        for depth in settings.request_depths:
            printed = settings.literal if depth == settings.request_depths[-1] else 0
            size = {"trees": settings.request_trees, "rows": settings.cost_rows, "depth": depth}
            add(prediction, ASKING, bits=bits, as_printed=printed, **size)
    for bits in settings.rival_bits:
        size = {"trees": settings.request_trees, "depth": settings.request_depths[-1]}
        for name in (BOST, WU):
            add(evaluation, RIVAL, rival=name, bits=bits, measured=1, rows=settings.cost_rows, **size)
        measured = settings.encrypted_rows
        add(encrypted, RIVAL, rival=VAIDYA, bits=bits, measured=measured, rows=settings.cost_rows, **size)
        add(encrypted, RIVAL, rival=SEEN, bits=bits, measured=measured, rows=settings.cost_rows, **size)
    return found


# -- ours -------------------------------------------------------------------------------------------


def construction(
    data: Path | None, bits: int, trees: int, seed: int, rows: int, depth: int
) -> dict[str, Any]:
    """What FLE-Expan and FOS-Find cost, for so many trees."""
    split = dataset("adult", data).splits(0)[0]
    X, y = split.X_train[:rows], split.y_train[:rows]
    warm(bits, X, y)
    model = forest("classes", trees, seed, bits, max_depth=depth).fit(X, y)
    costs = model.costs_
    return {
        "splits": (model.n_nodes_ - trees) // 2,
        "seconds": seconds_by_role(costs, ("FLE-Expan", "FOS-Find")),
        "bytes": costs.total("bytes", "FLE-Expan"),
        "wall": model.federation_.timings.training,
    }


def seconds_by_role(costs: Costs, protocols: Iterable[str]) -> dict[str, float]:
    """Processor seconds of the servers, and of all participants together."""
    found = {"CS": 0.0, "CC": 0.0, "UD": 0.0}
    for role, row in costs.work.items():
        who = role if role in ("CS", "CC") else "UD"
        found[who] += sum(row[protocol]["seconds"] for protocol in protocols if protocol in row)
    return found


def prediction(
    data: Path | None, bits: int, as_printed: int, trees: int, rows: int, depth: int
) -> dict[str, Any]:
    """What an encrypted request of one row costs; and, if asked, some comparisons of the paper's protocol."""
    adult = dataset("adult", data)
    model, X = fitted(adult, trees, depth, bits, rows), request_rows(adult, 1)
    first = warm_up(model, X)
    spent = measure(model, X, 3)
    found = asdict(spent) | {"first": first}
    if as_printed:
        found["as printed"] = literal(model, X, as_printed).seconds
    return found


# -- rivals -----------------------------------------------------------------------------------------


@cache
def client_keys(bits: int) -> ClientKeys:
    """Keys, made once a size."""
    return ClientKeys.generate(bits)


def evaluation(
    data: Path | None, rival: str, bits: int, measured: int, rows: int, trees: int, depth: int
) -> dict[str, Any]:
    """A scikit-learn forest on Adult, evaluated by one of the two protocols."""
    split = dataset("adult", data).splits(0)[0].coded
    X, y = split.X_train[:rows], split.y_train[:rows]
    plain = plain_forest("classes", trees, 0, X.shape[1], max_depth=depth).fit(X, y)
    row = [int(value) for value in split.X_test.iloc[0]]
    protocol = bost if rival == BOST else wu
    grown = [from_sklearn(tree, 0) for tree in plain.estimators_]
    cost = evaluate(protocol, grown, row, client_keys(bits), measured).cost
    spent = {"CS": cost.seconds[SERVER], "UD": cost.seconds[CLIENT]}
    return {"prediction": {"seconds": spent, "bytes": cost.bytes, "of": cost.extrapolated_from}}


def encrypted(
    data: Path | None, rival: str, bits: int, measured: int, rows: int, trees: int, depth: int
) -> dict[str, Any]:
    """Random trees that count under encryption."""
    split = dataset("adult", data).splits(0)[0].coded
    X, y = split.X_train[:rows].to_numpy(), split.y_train[:rows].to_numpy()
    key = Paillier.generate(bits)
    one = EncryptedDatabase(
        "classes", RandomTrees.draw(X, 1, COMPLETE_DEPTH, 0), key, oblivious=rival == VAIDYA
    )
    building = one.measure_fit(X, y, measured)
    many = EncryptedDatabase("classes", RandomTrees.draw(X, trees, depth, 0), key)
    many.fit(X[:measured], y[:measured]).predict(split.X_test[:1].to_numpy())
    return {
        name: {"seconds": {"UD": cost.all_seconds}, "bytes": cost.bytes, "of": cost.extrapolated_from}
        for name, cost in (("construction", building), ("prediction", many.predicting))
    }


# -- the table --------------------------------------------------------------------------------------


def parts(results: Sequence[Done]) -> list[Part]:
    return [efficiency(results), *figures(results)]


def of(results: Sequence[Done], kind: str, **wanted: Any) -> list[Done]:
    """Cells of this kind whose keys have these values."""
    pairs = {"kind": kind, **wanted}.items()
    return [one for one in results if all(one.key[name] == value for name, value in pairs)]


def efficiency(results: Sequence[Done]) -> Table:
    rows: list[tuple[str, ...]] = []
    for bits in sorted({one.key["bits"] for one in results}):
        for rival in (BOST, WU, VAIDYA, SEEN):
            for one in of([r for r in results if r.key["kind"] == RIVAL], RIVAL, rival=rival, bits=bits):
                rows += rival_rows(one.result, rival, bits)
        rows += our_rows(results, bits)
    head = (
        "system",
        "bits",
        "role",
        "TC, s",
        "TP, s",
        "TC, MB",
        "TP, MB",
        "paper TC, s",
        "paper TP, s",
        "paper TC, MB",
        "paper TP, MB",
    )
    note = (
        f"TC: {NODES} splits of trees on 5,000 rows of Adult; ours scaled from trees of about so many, "
        "Vaidya's is one complete tree of 127. TP: ten trees of depth ten, one row. Seconds are processor "
        "time of all who have the role, without making keys. Rivals are our own programs, simplified as "
        "their page says: Bost and Wu compare 64-bit numbers by DGK's encryption, one tree of ten "
        "measured; Vaidya's hides which leaf a row reaches, as the paper counts it, or does not, some rows "
        "measured. “~” is extrapolated. “As printed” is the paper's own HoLT on this machine, one comparison "
        "at a time. In "
        "brackets: measured as a multiple of printed, where keys are as long as the paper's."
    )
    return Table("efficiency", "Computation and communication", head, rows, note)


Seconds = Mapping[str, float]


def rival_rows(found: Mapping[str, Any], name: str, bits: int) -> list[tuple[str, ...]]:
    building, asking = found.get("construction"), found["prediction"]
    about = "~" if asking["of"] is not None else ""
    sizes = [
        "" if cost is None else ("~" if cost["of"] is not None else "") + number(cost["bytes"] / MEGABYTE)
        for cost in (building, asking)
    ]
    rows = []
    for role in asking["seconds"]:
        spent = ["" if building is None else "~" + number(building["seconds"][role])]
        spent.append(about + number(asking["seconds"][role]))
        measured = (building and building["seconds"], asking["seconds"])
        sent = (building and building["bytes"], asking["bytes"])
        theirs = beside(EFFICIENCY[name], role, bits, measured, sent) if name in EFFICIENCY else ("",) * 4
        rows.append((name, str(bits), role, *spent, *(sizes if role == "UD" else ("", "")), *theirs))
    return rows


def beside(
    printed: Efficiency,
    role: str,
    bits: int,
    seconds: tuple[Seconds | None, Seconds],
    sent: tuple[float | None, float],
) -> tuple[str, ...]:
    """The paper's row, with ratios to it if the keys are of its size; bytes are in the participants' row."""
    mine = [(spent or {}).get(role) for spent in seconds]
    mine += [None if size is None else size / MEGABYTE for size in sent]
    theirs = [(spent or {}).get(role) for spent in (printed.construction, printed.prediction)]
    sizes = (printed.construction_megabytes, printed.prediction_megabytes)
    theirs += [size if role == "UD" else None for size in sizes]
    shown = []
    for value, paper in zip(mine, theirs, strict=True):
        times = f" ({ratio(value, paper)})" if value is not None and paper and bits == PAPER_BITS else ""
        shown.append("" if paper is None else f"{paper:g}{times}")
    return tuple(shown)


PAPER_BITS = 1024


def our_rows(results: Sequence[Done], bits: int) -> list[tuple[str, ...]]:
    built = [one.result for one in of(results, BUILDING, bits=bits, trees=1)]
    deepest = max(one.key["depth"] for one in of(results, ASKING, bits=bits))
    asked = of(results, ASKING, bits=bits, depth=deepest)[0].result
    building = {
        role: mean(one["seconds"][role] * NODES / one["splits"] for one in built)
        for role in built[0]["seconds"]
    }
    sent = mean(one["bytes"] * NODES / one["splits"] for one in built)
    asking = {"CS": asked["seconds"]["CS"], "CC": asked["seconds"]["CC"], "UD": asked["seconds"]["owners"]}
    received = sum(asked["bytes"].values())
    sizes = (number(sent / MEGABYTE), number(received / MEGABYTE))
    rows = [
        (
            OURS,
            str(bits),
            role,
            number(building[role]),
            number(asking[role]),
            *(sizes if role == "UD" else ("", "")),
            *beside(EFFICIENCY[OURS], role, bits, (building, asking), (sent, received)),
        )
        for role in asking
    ]
    requester = number(asked["seconds"]["requester"])
    rows.append((OURS, str(bits), "requester", "", requester, *[""] * 6))
    printed = "~" + number(asked["as printed"] * asked["comparisons"])
    rows.append(("as printed", str(bits), "all", "", printed, *[""] * 6))
    return rows


# -- the figures ------------------------------------------------------------------------------------


def figures(results: Sequence[Done]) -> list[Figure]:
    sizes = sorted({one.key["bits"] for one in of(results, BUILDING)})
    building = {bits: [one.result for one in of(results, BUILDING, bits=bits)] for bits in sizes}
    asking = {bits: of(results, ASKING, bits=bits) for bits in sizes}
    return [
        Figure(
            "construction-seconds",
            "Construction: time",
            "splits",
            "processor seconds, all roles",
            [
                _nodes(bits, found, lambda one: sum(one["seconds"].values()))
                for bits, found in building.items()
            ],
        ),
        Figure(
            "construction-bytes",
            "Construction: traffic",
            "splits",
            "MB",
            [_nodes(bits, found, lambda one: one["bytes"] / MEGABYTE) for bits, found in building.items()],
        ),
        Figure(
            "prediction-seconds",
            "Prediction of one row, ten trees: time",
            "depth",
            "processor seconds, all roles",
            [_depths(bits, found, "seconds", 1) for bits, found in asking.items()],
        ),
        Figure(
            "prediction-bytes",
            "Prediction of one row, ten trees: traffic",
            "depth",
            "MB",
            [_depths(bits, found, "bytes", MEGABYTE) for bits, found in asking.items()],
            "Construction grows linearly with splits, as in the paper; the first make tables of powers. "
            "Prediction grows less than linearly with depth, because most paths end before.",
        ),
    ]


def _nodes(bits: int, found: Sequence[Mapping[str, Any]], value: Callable[[Any], float]) -> Series:
    """A point a forest; single trees, of which there are several, are one point with its spread."""
    points = []
    several = [one for one in found if one["splits"] < 2 * found[0]["splits"] * 0.75]
    if len(several) > 1:
        values = [value(one) for one in several]
        points.append((mean(one["splits"] for one in several), mean(values), stdev(values)))
        found = [one for one in found if one not in several]
    points += [(one["splits"], value(one), 0.0) for one in found]
    return Series(f"{bits} bits", sorted(points))


def _depths(bits: int, found: Sequence[Done], what: str, unit: float) -> Series:
    points = [(one.key["depth"], sum(one.result[what].values()) / unit, 0.0) for one in found]
    return Series(f"{bits} bits", points)


EFFICIENT = Experiment(
    "efficiency",
    "Efficiency of construction and prediction",
    "A party holds each of Adult's 14 columns. The paper's keys of 1024 bits are INSECURE.",
    ("adult",),
    ("efficiency", "construction-seconds", "construction-bytes", "prediction-seconds", "prediction-bytes"),
    cells,
    parts,
)
