"""What is built again when 1 to 5 leave, beside building all again: the paper's table of rebuilding times."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any, Literal

from benchmarks.paper import printed
from benchmarks.paper.cells import Cell, Done, Plain
from benchmarks.paper.experiment import Experiment, dataset, forest, leavers, named, owners, warm
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part, Table, ratio, several, spread
from benchmarks.rivals.irrevocable import rebuild_all
from revfrf.crypto.arithmetic import fixed_base

SMALL, LARGE = "small", "large"
"""A forest of the paper's size, and one as large as those whose accuracy is measured."""

LARGE_LEAVERS = (1, 3, 5)
NEW_KEYS_TRIALS = 3


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
    size = {"trees": settings.trees, "rows": settings.rows, "depth": 10}
    rest = {"level": 1, "bits": settings.rebuild_bits[-1], **size, **file}
    large = [(left, trial) for left in LARGE_LEAVERS for trial in range(settings.large_trials)]
    return found + [
        _cell({"forest": LARGE, "left": left, "seed": seed, **rest}, data) for left, seed in large
    ]


def jobs(settings: Settings) -> Iterator[tuple[int, int, int]]:
    """Leavers, trial and level. New keys for all cost the same whoever leaves, so few trials will do."""
    for left in range(1, settings.leavers + 1):
        yield from ((left, trial, 1) for trial in range(settings.rebuild_trials))
    for left in sorted({1, settings.leavers}):
        yield from ((left, trial, 2) for trial in range(min(settings.rebuild_trials, NEW_KEYS_TRIALS)))


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
    report = model.revoke(going, level).report
    spent = perf_counter() - started
    if model.digest_ != full.forest.digest_:
        raise AssertionError(f"not the forest without {going}")
    return {
        "destroyed": report.destroyed,
        "rebuilt": report.rebuilt,
        "kept": report.kept,
        "seconds": spent,
        "full nodes": full.forest.n_nodes_,
        "full seconds": full.training_seconds,
    }


# -- showing ----------------------------------------------------------------------------------------


def parts(results: Sequence[Done]) -> list[Part]:
    return [table(results), beside_the_paper(results)]


def table(results: Sequence[Done]) -> Table:
    rows = []
    for place in dict.fromkeys(map(_place, results)):
        _, trees, bits, level, left = place
        found = [one.result for one in results if _place(one) == place]
        what = f"{trees} trees, {bits} bits" + (", new keys" if level == 2 else "")
        share = [100 * one["seconds"] / one["full seconds"] for one in found]
        columns = ("destroyed", "rebuilt", "full nodes", "seconds", "full seconds")
        values = [spread([float(one[name]) for one in found]) for name in columns]
        rows.append((what, str(left), str(len(found)), *values, spread(share, 0)))
    head = (
        "forest",
        "left",
        "draws",
        "nodes destroyed",
        "nodes rebuilt",
        "all nodes",
        "s",
        "s, all again",
        "share, %",
    )
    note = (
        "On Adult, with 14 participants. A draw is a forest and who leaves it together; it is checked "
        "to be bit for bit the one that is built without them. Mean ± standard deviation of draws. Nodes are "
        "splits and leaves. Both sides run on one core and make their tables of powers anew, as after a "
        "restart; set-up of keys is left out of building all again. “New keys” is level 2: a new modulus, "
        "whose search takes now more and now less, new keys for all who stay, and every split encrypted "
        "again, which building all again would need as well."
    )
    return Table("rebuilding", "Leaving, beside building all again (IRev.Fed)", head, rows, note)


def beside_the_paper(results: Sequence[Done]) -> Table:
    small = [one for one in results if (one.key["forest"], one.key["level"]) == (SMALL, 1)]
    rows = []
    for bits in sorted({one.key["bits"] for one in small}):
        some = [one for one in small if one.key["bits"] == bits]
        for left in sorted({one.key["left"] for one in some}):
            found = [one.result for one in some if one.key["left"] == left]
            theirs = printed.REBUILT_NODES[left - 1], printed.REBUILDING_SECONDS[left - 1]
            rows.append((str(left), str(bits), *compared(found, ("rebuilt", "seconds"), theirs, bits)))
        whole = printed.IRREVOCABLE_NODES, printed.IRREVOCABLE_SECONDS
        found = [one.result for one in some]
        rows.append(("IRev.Fed", str(bits), *compared(found, ("full nodes", "full seconds"), whole, bits)))
    head = ["left", "bits"]
    for what in ("nodes", "s"):
        head += [what, f"{what}, paper", f"{what}, ours / paper's", f"{what}: share", f"{what}: share, paper"]
    draws = len([one for one in small if one.key["left"] == 1 and one.key["bits"] == small[0].key["bits"]])
    note = (
        f"{several(draws, 'draw').capitalize()} for each row, IRev.Fed's of all rows together. Shares are of "
        "building all again; both sides make their tables of powers anew. The paper's forest is built again "
        "with few nodes because it expects depth × leavers nodes a tree; all that is below a leaver's node "
        "has to go, too, or the forest still depends on the leaver. Seconds are compared where keys are as "
        "long as the paper's."
    )
    return Table("rebuilding-printed", "The small forest beside the paper's numbers", head, rows, note)


def compared(
    found: Sequence[Plain], names: tuple[str, str], theirs: tuple[float, float], bits: int
) -> Iterator[str]:
    """Nodes, then seconds: ours, the paper's, their ratio, and both as shares of building all again."""
    wholes = ("full nodes", printed.IRREVOCABLE_NODES), ("full seconds", printed.IRREVOCABLE_SECONDS)
    for name, paper, (full, whole) in zip(names, theirs, wholes, strict=True):
        mine = [float(one[name]) for one in found]
        alike = full == "full nodes" or bits == printed.KEY_BITS
        share = mean(one[name] / one[full] for one in found)
        yield from (spread(mine), f"{paper:g}", ratio(mean(mine), paper) if alike else "")
        yield from (f"{100 * share:.0f} %", f"{100 * paper / whole:.0f} %")


def _place(done: Done) -> tuple[Any, ...]:
    """What the trials of a row have in common."""
    return tuple(done.key[name] for name in ("forest", "trees", "bits", "level", "left"))


REBUILDING = Experiment(
    "rebuilding",
    "Rebuilding after participants have left",
    "A real revocation with its signatures, certificates and erasure, in one process.",
    ("adult",),
    ("rebuilding", "rebuilding-printed"),
    cells,
    parts,
)
