"""What is built again when 1 to 5 leave, beside building all again: the paper's table of rebuilding times."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any, Literal

from benchmarks.paper import printed
from benchmarks.paper.cells import Cell, Done
from benchmarks.paper.experiment import Experiment, dataset, forest, leavers, named, owners, warm
from benchmarks.paper.settings import Settings
from benchmarks.paper.show import Part, Table, number, ratio, spread
from benchmarks.rivals.irrevocable import rebuild_all

SMALL, LARGE = "small", "large"
"""A forest of the paper's size, and one as large as those whose accuracy is measured."""

LARGE_LEAVERS = (1, 3, 5)


def cells(settings: Settings, data: Path | None) -> list[Cell]:
    """One a number of leavers and trial: a forest that so many leave together."""
    file = {"file": named("adult", data), "bits": settings.rebuild_bits}
    found = []
    size: dict[str, Any]
    size = {"trees": settings.rebuild_trees, "rows": settings.cost_rows, "depth": settings.cost_depth}
    for left, trial, level in jobs(settings):
        who = {"left": left, "seed": trial, "level": level}
        found.append(_cell({"forest": SMALL, **who, **size, **file}, data))
    if settings.large_rebuild:
        size = {"trees": settings.trees, "rows": settings.rows, "depth": 10}
        rest = {"seed": 0, "level": 1, **size, **file}
        found += [_cell({"forest": LARGE, "left": left, **rest}, data) for left in LARGE_LEAVERS]
    return found


def jobs(settings: Settings) -> Iterator[tuple[int, int, int]]:
    """Leavers, trial and level. New keys for all cost the same whoever leaves, so few trials will do."""
    for left in range(1, settings.leavers + 1):
        yield from ((left, trial, 1) for trial in range(settings.rebuild_trials))
    yield from ((left, 0, 2) for left in sorted({1, settings.leavers}))


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
    """Leave, and beside it build all again without those who left."""
    split = dataset("adult", data).splits(0)[0]
    X, y = split.X_train[:rows], split.y_train[:rows]
    warm(bits, X, y)
    model = forest("classes", trees, seed, bits, max_depth=depth).fit(X, y)
    going = owners(model, leavers(list(X.columns), left, seed))
    full = rebuild_all(model, X, y, going)
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
        "full seconds": full.forest.federation_.timings.training,
    }


# -- showing ----------------------------------------------------------------------------------------


def parts(results: Sequence[Done]) -> list[Part]:
    return [table(results), beside_the_paper(results)]


def table(results: Sequence[Done]) -> Table:
    rows = []
    for kind in (SMALL, LARGE):
        for level in (1, 2):
            for left in sorted({done.key["left"] for done in results}):
                done = chosen(results, kind, level, left)
                if done:
                    key, found = done[0].key, [one.result for one in done]
                    what = f"{key['trees']} trees, {key['bits']} bits" + (", new keys" if level == 2 else "")
                    share = [100 * one["seconds"] / one["full seconds"] for one in found]
                    columns = ("destroyed", "rebuilt", "full nodes", "seconds", "full seconds")
                    values = [spread([float(one[name]) for one in found]) for name in columns]
                    rows.append((what, str(left), *values, spread(share, 0)))
    head = (
        "forest",
        "left",
        "nodes destroyed",
        "nodes rebuilt",
        "all nodes",
        "s",
        "s, all again",
        "share, %",
    )
    note = (
        "On Adult, with 14 participants, of whom those drawn leave together; the forest is checked to be bit "
        "for bit the one that is built without them. Nodes are splits and leaves. Building all again is "
        "counted without its set-up of keys, but these are new, and their tables of powers are made again: "
        "in small forests ours looks better than it is. “New keys” is level 2: a new modulus, new keys for "
        "all who stay, and every split encrypted again, which building all again would need as well."
    )
    return Table("rebuilding", "Leaving, beside building all again (IRev.Fed)", head, rows, note)


def beside_the_paper(results: Sequence[Done]) -> Table:
    rows = []
    for left in sorted({done.key["left"] for done in results if done.key["forest"] == SMALL}):
        done = chosen(results, SMALL, 1, left)
        share, seconds = (
            mean(one.result[part] / one.result[whole] for one in done)
            for part, whole in (("rebuilt", "full nodes"), ("seconds", "full seconds"))
        )
        theirs = printed.REBUILT_NODES[left - 1], printed.REBUILDING_SECONDS[left - 1]
        their_share = theirs[0] / printed.IRREVOCABLE_NODES
        their_seconds = theirs[1] / printed.IRREVOCABLE_SECONDS
        took = mean(one.result["seconds"] for one in done)
        rows.append(
            (
                str(left),
                f"{100 * share:.0f} %",
                f"{100 * their_share:.0f} %",
                f"{100 * seconds:.0f} %",
                f"{100 * their_seconds:.0f} %",
                number(took),
                number(theirs[1]),
                ratio(took, theirs[1]),
            )
        )
    head = (
        "left",
        "nodes, ours",
        "paper's",
        "time, ours",
        "paper's",
        "s, ours",
        "paper's",
        "ours / paper's",
    )
    note = (
        "Shares of building all again. The paper counts few nodes because it expects depth × leavers nodes a "
        "tree; all that is below a leaver's node has to go, too, or the forest still depends on the leaver."
    )
    return Table("rebuilding-printed", "The small forest beside the paper's numbers", head, rows, note)


def chosen(results: Sequence[Done], kind: str, level: int, left: int) -> list[Done]:
    wanted = (kind, level, left)
    return [one for one in results if (one.key["forest"], one.key["level"], one.key["left"]) == wanted]


REBUILDING = Experiment(
    "rebuilding",
    "Rebuilding after participants have left",
    "A real revocation with its signatures, certificates and erasure, in one process with all cores.",
    ("adult",),
    ("rebuilding", "rebuilding-printed"),
    cells,
    parts,
)
