"""The tables of `rebuilding`, from its results."""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

from benchmarks.paper import printed
from benchmarks.paper.cells import Done, Plain
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.rebuilding import SMALL, cells
from benchmarks.paper.show import Part, Table, ratio, several, spread


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
        "leavers",
        "draws",
        "nodes destroyed",
        "nodes rebuilt",
        "all nodes",
        "s",
        "s, retraining",
        "share, %",
    )
    note = (
        "On Adult, with 14 participants. A draw is a forest and its leavers; each result is checked to be "
        "bit for bit the forest built without them. Mean ± standard deviation over draws. Nodes are splits "
        "and leaves; s is wall-clock seconds.\n"
        "Both sides run on one core and rebuild their tables of powers, as after a restart. Key set-up is "
        "not part of retraining.\n"
        "“New keys” is revocation level 2, the default: a new modulus (the time of this search varies), new "
        "keys for everyone who stays, and every split encrypted again, which retraining would need as well."
    )
    return Table("rebuilding", "Leaving beside retraining (IRev.Fed)", head, rows, note)


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
    head = ["leavers", "bits"]
    for what in ("nodes", "s"):
        head += [what, f"{what}, paper", f"{what}, ours / paper", f"{what}: share", f"{what}: share, paper"]
    draws = len([one for one in small if one.key["left"] == 1 and one.key["bits"] == small[0].key["bits"]])
    note = (
        f"{several(draws, 'draw').capitalize()} for each row; IRev.Fed uses the draws of all rows. Shares "
        "are of retraining; both sides rebuild their tables of powers. The paper rebuilds few nodes because "
        "it expects depth × leavers nodes per tree. But everything below a leaver's node must go too, or the "
        "forest still depends on the leaver. Seconds are compared only where keys are as long as the paper's."
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
    "A real revocation in one process, with signatures, certificates and erasure.",
    ("adult",),
    cells,
    parts,
)
