"""Seconds and bytes of construction and prediction: the paper's table of efficiency, its last figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from math import log
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.paper.asking import WARM_UPS, fitted, request, request_rows, warm_up
from benchmarks.paper.books import OWNERS, by_role
from benchmarks.paper.cells import Cell, Done, where
from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.experiment import Experiment, Model, dataset, forest, named
from benchmarks.paper.literal import literal
from benchmarks.paper.plots import Series
from benchmarks.paper.printed import BOST, EFFICIENCY, KEY_BITS, OURS, VAIDYA, WU
from benchmarks.paper.rival_costs import COMPLETE_SPLITS, SEEN, encrypted, evaluation
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Figure, Part, Table, number, ratio, spread

NODES = 100
"""Splits of the table's construction."""

BUILDING, ASKING, RIVAL = "construction", "prediction", "rival"
CS, CC, SERVERS, UD, ALL = "CS", "CC", "CS + CC", "UD", "all"
ROLES = (CS, CC, SERVERS, UD, "requester", ALL)
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
            printed = settings.literal if depth == settings.request_depths[-1] else 0
            size = {"trees": settings.request_trees, "rows": rows, "depth": depth}
            add(prediction, ASKING, bits=bits, trials=trials, as_printed=printed, **size)
    size = {"rows": rows, "trees": settings.request_trees, "depth": settings.request_depths[-1]}
    for bits, asked in settings.rival_trials:
        for rival in (BOST, WU):
            for trial in range(asked):
                which = {"rival": rival, "bits": bits, "trial": trial, "measured": settings.rival_trees}
                add(evaluation, RIVAL, **which, **size)
        for rival, measured in ((VAIDYA, settings.encrypted_rows), (SEEN, settings.counted_rows)):
            add(encrypted, RIVAL, rival=rival, bits=bits, measured=measured, **size)
    return found


# -- ours -------------------------------------------------------------------------------------------


def construction(
    data: Path | None, bits: int, trees: int, seed: int, rows: int, depth: int
) -> dict[str, Any]:
    """What FLE-Expan and FOS-Find cost, for so many trees; one such forest is grown before, unmeasured."""
    _rehearse(data, bits, trees, rows, depth)
    model = _grown(data, bits, trees, seed, rows, depth)
    costs = model.costs_
    return {
        "splits": (model.n_nodes_ - trees) // 2,
        "seconds": by_role(costs.work, "seconds", ("FLE-Expan", "FOS-Find"), BUILDERS),
        "bytes": by_role(costs.traffic, "bytes", ("FLE-Expan",), BUILDERS),
        "wall": model.federation_.timings.training,
    }


def _grown(data: Path | None, bits: int, trees: int, seed: int, rows: int, depth: int) -> Model:
    split = dataset("adult", data).splits(0)[0]
    return forest("classes", trees, seed, bits, max_depth=depth).fit(
        split.X_train[:rows], split.y_train[:rows]
    )


@cache
def _rehearse(data: Path | None, bits: int, trees: int, rows: int, depth: int) -> None:
    _grown(data, bits, trees, 0, rows, depth)


def prediction(
    data: Path | None, bits: int, trials: int, as_printed: int, trees: int, rows: int, depth: int
) -> dict[str, Any]:
    """What encrypted requests of one row cost; and, if asked, some comparisons of the paper's protocol."""
    adult = dataset("adult", data)
    model, X = fitted(adult, trees, depth, bits, rows), request_rows(adult, 1)
    first = warm_up(model, X)
    found: dict[str, Any] = {
        "first": asdict(first),
        "requests": [asdict(request(model, X)) for _ in range(trials)],
    }
    if as_printed:
        found["as printed"] = literal(model, X, as_printed).seconds
    return found


# -- the table --------------------------------------------------------------------------------------


Trials = Mapping[str, Sequence[float]]
"""By role, what each trial took."""


@dataclass(frozen=True, slots=True)
class System:
    """Some rows of the table. Columns are seconds of construction (TC) and of prediction (TP), then megabytes
    of both; `about` says which are extrapolated.
    """

    name: str
    bits: int
    columns: Sequence[Trials]
    about: Sequence[bool] = (False,) * 4


def parts(results: Sequence[Done]) -> list[Part]:
    whole = efficiency(results)
    return [
        stage(whole, "construction", "TC"),
        stage(whole, "prediction", "TP", whole.note),
        *figures(results),
    ]


def stage(whole: Table, name: str, short: str, note: str = "") -> Table:
    """The columns of one stage, and the rows that have something there."""
    places = [i for i, head in enumerate(whole.head) if short in head]
    rows = [(*row[:3], *(row[i] for i in places)) for row in whole.rows if any(row[i] for i in places)]
    head = (*whole.head[:3], *(whole.head[i] for i in places))
    return Table(f"efficiency-{name}", f"Computation and communication: {name}", head, rows, note)


def efficiency(results: Sequence[Done]) -> Table:
    sizes = sorted({one.key["bits"] for one in results})
    systems = [system for bits in sizes for system in (*rivals(results, bits), *ours(results, bits))]
    what = [f"{when}, {unit}" for unit in ("s", "MB") for when in ("TC", "TP")]
    head = ("system", "bits", "role", *what, *(f"paper {name}" for name in what))
    table = [row for system in systems for row in rows(system)]
    return Table("efficiency", "Computation and communication", head, table, note(results))


def rivals(results: Sequence[Done], bits: int) -> list[System]:
    systems = []
    for rival in (BOST, WU, VAIDYA, SEEN):
        found = [one.result for one in where(results, kind=RIVAL, rival=rival, bits=bits)]
        if found:
            columns, about = [], []
            for what, unit in (("seconds", 1), ("bytes", MEGABYTE)):
                for stage in ("construction", "prediction"):
                    costs = [one[stage] for one in found if stage in one]
                    scale = NODES / COMPLETE_SPLITS if (rival, stage) == (VAIDYA, "construction") else 1
                    columns.append(trials([cost[what] for cost in costs], [scale / unit] * len(costs)))
                    about.append(any(cost["of"] is not None for cost in costs))
            systems.append(System(rival, bits, columns, about))
    return systems


def ours(results: Sequence[Done], bits: int) -> list[System]:
    built = [one.result for one in where(results, kind=BUILDING, bits=bits, trees=1)]
    deepest = max(one.key["depth"] for one in where(results, kind=ASKING, bits=bits))
    asked = where(results, kind=ASKING, bits=bits, depth=deepest)[0].result
    scales = [NODES / one["splits"] for one in built]
    building = [
        trials([one[what] for one in built], [scale / unit for scale in scales])
        for what, unit in (("seconds", 1), ("bytes", MEGABYTE))
    ]
    warm, cold = (
        [
            trials([one[what] for one in requests], [1 / unit] * len(requests))
            for what, unit in (("seconds", 1), ("bytes", MEGABYTE))
        ]
        for requests in (asked["requests"], [asked["first"]])
    )
    literally = {ALL: [asked["as printed"] * asked["first"]["comparisons"]]}
    return [
        System(OURS, bits, (building[0], warm[0], building[1], warm[1])),
        System(f"{OURS}, first request", bits, ({}, cold[0], {}, cold[1])),
        System("as printed", bits, ({}, literally, {}, {}), (False, True, False, False)),
    ]


def trials(found: Sequence[Mapping[str, float] | float], scales: Sequence[float]) -> Trials:
    """Trials by role, each times its scale, and what both servers and all together took."""
    several: dict[str, list[float]] = {}
    for one, scale in zip(found, scales, strict=True):
        roles = one if isinstance(one, Mapping) else {ALL: one}
        named = {UD if role == OWNERS else role: value for role, value in roles.items()}
        sums = {ALL: sum(named.values())}
        if CC in named:
            sums[SERVERS] = named[CS] + named[CC]
        for role, value in (named | sums).items():
            several.setdefault(role, []).append(value * scale)
    return several


def middle(values: Sequence[float]) -> str:
    """Of bytes, which hardly differ."""
    return number(mean(values))


SHOWN = (spread, spread, middle, middle)


def rows(system: System) -> list[tuple[str, ...]]:
    """A row a role, beside the paper's."""
    paper = printed(system)
    found = []
    for role in ROLES:
        mine = [column.get(role) for column in system.columns]
        if any(mine):
            shown = [
                "" if values is None else "~" * about + show(values)
                for values, about, show in zip(mine, system.about, SHOWN, strict=True)
            ]
            theirs = [
                beside(values, column.get(role), system.bits)
                for values, column in zip(mine, paper, strict=True)
            ]
            found.append((system.name, str(system.bits), role, *shown, *theirs))
    return found


def printed(system: System) -> Sequence[Mapping[str, float]]:
    """The paper's columns, by role: what it books to CS is both servers' where there are two."""
    if system.name not in EFFICIENCY:
        return ({},) * 4
    paper = EFFICIENCY[system.name]
    seconds: list[Mapping[str, float]] = [paper.construction or {}, paper.prediction]
    if system.name == OURS:
        seconds = [{SERVERS if role == CS else role: spent for role, spent in one.items()} for one in seconds]
    sizes = (paper.construction_megabytes, paper.prediction_megabytes)
    return [*seconds, *({} if size is None else {ALL: size} for size in sizes)]


def beside(mine: Sequence[float] | None, paper: float | None, bits: int) -> str:
    """The paper's number, and how many times that number ours is, if the keys are of its size."""
    if paper is None:
        return ""
    return f"{paper:g} ({ratio(mean(mine), paper)})" if mine and bits == KEY_BITS else f"{paper:g}"


def note(results: Sequence[Done]) -> str:
    asked, paper = where(results, kind=ASKING)[-1], EFFICIENCY[VAIDYA].construction_megabytes
    bost, wu = (
        where(results, kind=RIVAL, rival=rival)[0].result["prediction"]["operations"]["comparisons"]
        for rival in (BOST, WU)
    )
    return (
        f"TC: {NODES} splits of trees on {asked.key['rows']:,} rows of Adult; ours scaled from trees of "
        f"about so many, Vaidya's from a complete tree of {COMPLETE_SPLITS}, but for “leaves seen”, where a "
        f"row is encrypted once whatever the splits. TP: {asked.key['trees']} trees of depth "
        f"{asked.key['depth']}, one row. Mean ± standard deviation of trials; “~” is extrapolated. Seconds "
        "are processor time of all who have the role; bytes are those that the role sends. In brackets: "
        "measured as a multiple of printed, where keys are as long as the paper's; its CS is both servers, "
        f"since its HoLT is. Ours is warm: the same row was asked {1 + WARM_UPS} times before, so that the "
        "tables of powers of all keys are there; “first request” is the first after training. “As printed” "
        "is the paper's own HoLT on this machine, one comparison at a time. Left out: all roles are one "
        "process, without TLS and framing; no matching of ids, no enrolment, no KGC; all keys, the "
        "requester's too, are made before. Rivals are our own programs, simplified as their page says; their "
        "answers are checked where all of the work is done. Who sees the path: in Bost's and Wu's nobody, so "
        f"that they compare at every node, {bost:,} and {wu:,} times; in ours CS does, so that "
        f"{asked.result['first']['comparisons']} comparisons will do, and CS and CC must not collude; in "
        "Vaidya's the participants do. The paper has Bost send more than Wu, and we less: our Bost takes "
        "sparse trees as linear functions, without levelled encryption, and our Wu compares in complete "
        "trees by DGK's encryption, where the authors have ElGamal on a curve. Vaidya's bytes are far from "
        "the printed ones because every row sends a ciphertext for each leaf and class; the printed "
        f"{paper} MB are {(paper or 0) * MEGABYTE * 8 / (2 * KEY_BITS):,.0f} ciphertexts, fewer than rows."
    )


# -- the figures ------------------------------------------------------------------------------------


def figures(results: Sequence[Done]) -> list[Figure]:
    sizes = sorted({one.key["bits"] for one in where(results, kind=BUILDING)})
    seconds, size, longer, larger, compared = (
        [Series(f"{bits} bits", points(results, bits, *how)) for bits in sizes]
        for how in (
            (BUILDING, "seconds", 1),
            (BUILDING, "bytes", MEGABYTE),
            (ASKING, "seconds", 1),
            (ASKING, "bytes", MEGABYTE),
            (ASKING, "comparisons", 1),
        )
    )
    building, asking = "Construction", "Prediction of one row, warm"
    spent = "processor seconds, all roles"
    return [
        Figure("construction-seconds", f"{building}: time", "splits", spent, seconds),
        Figure(
            "construction-bytes", f"{building}: traffic", "splits", "MB", size, building_note(seconds, size)
        ),
        Figure("prediction-seconds", f"{asking}: time", "depth", spent, longer),
        Figure(
            "prediction-bytes",
            f"{asking}: traffic",
            "depth",
            "MB",
            larger,
            asking_note(longer, larger, compared),
        ),
    ]


def points(
    results: Sequence[Done], bits: int, kind: str, what: str, unit: float
) -> list[tuple[float, float, float]]:
    """Means over trials with their spread: of as many trees over their splits, of requests over depth."""
    by = "trees" if kind == BUILDING else "depth"
    found = []
    for place in sorted({one.key[by] for one in where(results, kind=kind, bits=bits)}):
        some = [one.result for one in where(results, kind=kind, bits=bits, **{by: place})]
        several = some if kind == BUILDING else some[0]["requests"]
        values = [_all(one[what]) / unit for one in several]
        x = mean(one["splits"] for one in some) if kind == BUILDING else place
        found.append((x, mean(values), stdev(values) if len(values) > 1 else 0.0))
    return found


def _all(value: Mapping[str, float] | float) -> float:
    return sum(value.values()) if isinstance(value, Mapping) else value


def growth(series: Series) -> float:
    """k of y ~ x^k, between the first point and the last."""
    (x, y, _), *_, (far, high, _) = series.points
    return log(high / y) / log(far / x)


def constant(series: Series) -> float:
    """The share of the first point that stays the same on a line from it to the last."""
    (x, y, _), *_, (far, high, _) = series.points
    return 1 - x / y * (high - y) / (far - x)


LINEAR = 0.9
"""A power below it is not linear any more."""


def building_note(seconds: Sequence[Series], size: Sequence[Series]) -> str:
    shares = [f"{100 * constant(one):.0f} % ({one.label})" for one in seconds if growth(one) < LINEAR]
    why = (
        f" Of the first point's seconds {', '.join(shares)} do not grow with splits: mostly the tables of "
        "powers, made once a key."
        if shares
        else ""
    )
    return (
        f"From the first point to the last, seconds grow with splits {powers(seconds)}, bytes "
        f"{powers(size)}; the paper says linearly, which is 1.{why}"
    )


def asking_note(seconds: Sequence[Series], size: Sequence[Series], compared: Sequence[Series]) -> str:
    why = " Not all paths are as deep as the trees." if growth(compared[0]) < LINEAR else ""
    return (
        f"From the first point to the last, seconds grow with depth {powers(seconds)}, bytes "
        f"{powers(size)}, comparisons {powers(compared)}; the paper says linearly, which is 1.{why}"
    )


def powers(several: Sequence[Series]) -> str:
    return "to the power " + ", ".join(f"{growth(series):.2f} ({series.label})" for series in several)


EFFICIENT = Experiment(
    "efficiency",
    "Efficiency of construction and prediction",
    "A party holds each of Adult's 14 columns. The paper's keys of 1024 bits are INSECURE.",
    ("adult",),
    (
        *(f"efficiency-{stage}" for stage in ("construction", "prediction")),
        *(f"{stage}-{what}" for stage in ("construction", "prediction") for what in ("seconds", "bytes")),
    ),
    cells,
    parts,
)
