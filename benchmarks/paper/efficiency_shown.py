"""The table and the figures of `efficiency`, from its results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import mean, stdev

from benchmarks.paper.asking import WARM_UPS
from benchmarks.paper.books import OWNERS
from benchmarks.paper.cells import Done, where
from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.efficiency import ASKING, BUILDING, RIVAL, cells
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.plots import Point, Series
from benchmarks.paper.printed import BOST, EFFICIENCY, KEY_BITS, OURS, VAIDYA, WU
from benchmarks.paper.rival_costs import COMPLETE_SPLITS, SEEN
from benchmarks.paper.show import Figure, Part, Table, number, ratio, several, spread
from revfrf.names import CC, CS

NODES = 100
"""Splits of the table's construction."""

SERVERS, UD, ALL = "CS + CC", "UD", "all"
ROLES = (CS, CC, SERVERS, UD, "requester", ALL)


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
        stage(whole, "construction", "TC", building_note(results)),
        stage(whole, "prediction", "TP", asking_note(results)),
        *figures(results),
    ]


def stage(whole: Table, name: str, short: str, note: str) -> Table:
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
    return Table("efficiency", "Computation and communication", head, table)


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
    printed, at_first = (
        {ALL: [asked["as printed"] * one["comparisons"] for one in requests]}
        for requests in (asked["requests"], [asked["first"]])
    )
    about = (False, True, False, False)
    return [
        System(OURS, bits, (building[0], warm[0], building[1], warm[1])),
        System(f"{OURS}, first request", bits, ({}, cold[0], {}, cold[1])),
        System("as printed", bits, ({}, printed, {}, {}), about),
        System("as printed, first request", bits, ({}, at_first, {}, {}), about),
    ]


def trials(found: Sequence[Mapping[str, float] | float], scales: Sequence[float]) -> Trials:
    """Trials by role, each times its scale, and what both servers and all together took."""
    by_role: dict[str, list[float]] = {}
    for one, scale in zip(found, scales, strict=True):
        roles = one if isinstance(one, Mapping) else {ALL: one}
        named = {UD if role == OWNERS else role: value for role, value in roles.items()}
        sums = {ALL: sum(named.values())}
        if CC in named:
            sums[SERVERS] = named[CS] + named[CC]
        for role, value in (named | sums).items():
            by_role.setdefault(role, []).append(value * scale)
    return by_role


def rows(system: System) -> list[tuple[str, ...]]:
    """A row a role, beside the paper's."""
    paper = printed(system)
    found = []
    for role in ROLES:
        mine = [column.get(role) for column in system.columns]
        if any(mine):
            shown = [
                "" if values is None else "~" * about + spread(values)
                for values, about in zip(mine, system.about, strict=True)
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


def building_note(results: Sequence[Done]) -> str:
    """What a reader must know of construction, a line each."""
    asked = where(results, kind=ASKING)[-1].key
    forests = len({one.key["seed"] for one in where(results, kind=BUILDING)})
    paper = EFFICIENCY[VAIDYA].construction_megabytes or 0
    lines = (
        f"TC is for {NODES} splits of trees on {asked['rows']:,} rows of Adult. Ours is scaled from trees of "
        f"about this size, Vaidya's from a complete tree of {COMPLETE_SPLITS} splits. “Leaves seen” is not "
        "scaled: it encrypts a row once, whatever the number of splits.",
        "Seconds are processor time of everyone in the role. Bytes are those that the role sends; the "
        "rivals' programs count all roles together.",
        "In brackets: measured / printed, where keys are as long as the paper's. The paper's CS is both "
        "servers, since its HoLT needs both.",
        f"Mean ± standard deviation over trials: ours {several(forests, 'forest')}, Vaidya's one.",
        extrapolated(results, "construction"),
        "Vaidya's bytes differ widely from the printed ones because every row sends one ciphertext per leaf "
        f"and class; the printed {paper} MB are {paper * MEGABYTE * 8 / (2 * KEY_BITS):,.0f} ciphertexts, "
        "fewer than there are rows.",
        LEFT_OUT,
    )
    return "\n".join(filter(None, lines))


def asking_note(results: Sequence[Done]) -> str:
    """What a reader must know of prediction, a line each."""
    asked = where(results, kind=ASKING)[-1]
    database = where(results, kind=RIVAL, rival=VAIDYA, trial=0)[-1].key
    trials = Counter(one.key["bits"] for one in where(results, kind=RIVAL, rival=BOST))
    rivals = ", ".join(f"{several(count, 'row')} with {bits} bits" for bits, count in sorted(trials.items()))
    bost, wu = (where(results, kind=RIVAL, rival=rival)[0].result["prediction"] for rival in (BOST, WU))
    theirs = EFFICIENCY[BOST].prediction_megabytes / EFFICIENCY[WU].prediction_megabytes
    lines = (
        f"TP is for one row and {asked.key['trees']} trees of depth {asked.key['depth']}. Vaidya's is the "
        f"same whether or not leaves were seen, on a database of {database['measured']:,} rows.",
        f"Ours is warm: all rows were requested together {WARM_UPS} times before, so the tables of powers of "
        "all keys exist. “First request” is the first one after training.",
        "“As printed” is the paper's own HoLT on this machine, one comparison at a time. Its deviation is "
        "that of the number of comparisons per row, not of their time.",
        "Mean ± standard deviation over trials: ours "
        f"{several(len(asked.result['requests']), 'row')}, each requested alone, so the deviation includes "
        f"that of rows; rivals {rivals}.",
        extrapolated(results, "prediction"),
        "Nobody sees the path in Bost's and Wu's protocols, so they compare at every node, "
        f"{bost['operations'][CS]['comparisons']:,} and {wu['operations'][CS]['comparisons']:,} times. In "
        f"ours CS sees it, so {mean(one['comparisons'] for one in asked.result['requests']):.0f} comparisons "
        "are enough on average, and CS and CC must not collude. In Vaidya's the participants see it.",
        f"Bost sends {number(theirs)} times as many bytes as Wu in the paper, and "
        f"{number(bost['bytes'] / wu['bytes'])} times here: our Bost evaluates sparse trees as linear "
        "functions, without levelled encryption, and our Wu compares in complete trees with DGK encryption "
        "where the authors use ElGamal on a curve.",
        "The rivals are our own programs, simplified as benchmarks/rivals/README.md says. Their answers are "
        "checked wherever the whole work is done.",
        LEFT_OUT,
    )
    return "\n".join(lines)


LEFT_OUT = (
    "Not included: all roles share one process, without TLS and framing; no alignment of rows, no enrolment, "
    "no KGC; all keys exist before, including the requester's."
)


def extrapolated(results: Sequence[Done], stage: str) -> str:
    """What a “~” is from, if there is one."""
    from_what, whole = list[str](), list[str]()
    for one in where(results, kind=RIVAL):
        key, cost = one.key, one.result.get(stage, {"of": None})
        unit = "trees" if key["rival"] in (BOST, WU) else "rows"
        if cost["of"] is not None:
            from_what.append(f"“{key['rival']}” from {key['measured']} of {key[unit]:,} {unit}")
            if key["rival"] == VAIDYA:
                whole.append(f"{sum(cost['seconds'].values()) / 60:.0f} minutes with {key['bits']} bits")
    if stage == "prediction":
        printed = max(one.key["as_printed"] for one in where(results, kind=ASKING))
        from_what.append(f"“as printed” from {several(printed, 'comparison')}")
    why = (
        f" All rows of Vaidya's tree of {COMPLETE_SPLITS} splits would take {' and '.join(whole)}; every row "
        "costs the same."
        if whole
        else ""
    )
    return f"“~” is extrapolated: {', '.join(dict.fromkeys(from_what))}.{why}" if from_what else ""


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
            "construction-bytes", f"{building}: traffic", "splits", "MB", size, building_growth(seconds, size)
        ),
        Figure("prediction-seconds", f"{asking}: time", "depth", spent, longer),
        Figure(
            "prediction-bytes",
            f"{asking}: traffic",
            "depth",
            "MB",
            larger,
            asking_growth(longer, larger, compared),
        ),
    ]


def points(results: Sequence[Done], bits: int, kind: str, what: str, unit: float) -> list[Point]:
    """Means over trials with their spread: of as many trees over their splits, of requests over depth."""
    by = "trees" if kind == BUILDING else "depth"
    found: list[Point] = []
    for place in sorted({one.key[by] for one in where(results, kind=kind, bits=bits)}):
        some = [one.result for one in where(results, kind=kind, bits=bits, **{by: place})]
        trials = some if kind == BUILDING else some[0]["requests"]
        values = [_all(one[what]) / unit for one in trials]
        x = mean(one["splits"] for one in some) if kind == BUILDING else place
        found.append((x, mean(values), stdev(values) if len(values) > 1 else None))
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


def building_growth(seconds: Sequence[Series], size: Sequence[Series]) -> str:
    shares = [f"{100 * constant(one):.0f} % ({one.label})" for one in seconds if growth(one) < LINEAR]
    why = (
        f" A constant share of the first point's seconds, {', '.join(shares)}, does not grow with splits: "
        "mostly the tables of powers, built once per key."
        if shares
        else ""
    )
    return (
        f"From the first point to the last, seconds grow with splits {powers(seconds)}, bytes "
        f"{powers(size)}; the paper says linearly (1).{why}"
    )


def asking_growth(seconds: Sequence[Series], size: Sequence[Series], compared: Sequence[Series]) -> str:
    why = " Not all paths are as deep as the trees." if growth(compared[0]) < LINEAR else ""
    return (
        f"From the first point to the last, seconds grow with depth {powers(seconds)}, bytes "
        f"{powers(size)}, comparisons {powers(compared)}; the paper says linearly (1).{why}"
    )


def powers(lines: Sequence[Series]) -> str:
    return "to the power " + ", ".join(f"{growth(series):.2f} ({series.label})" for series in lines)


EFFICIENT = Experiment(
    "efficiency",
    "Efficiency of construction and prediction",
    "Each of Adult's 14 columns belongs to one party. The paper's keys of 1024 bits are INSECURE.",
    ("adult",),
    cells,
    parts,
)
