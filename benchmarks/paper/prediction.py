"""What an encrypted request costs: seconds and bytes of every role, beside the paper's own protocol.

    python -m benchmarks.paper.prediction settings   one row: the paper's forest, and ours
    python -m benchmarks.paper.prediction scaling    seconds against depth, trees and rows
    python -m benchmarks.paper.prediction cores      20 rows on one core and on all

Forests are grown on Adult with a party for every column. A request is made some times to warm up (CC makes
tables of its owners' keys) and then measured. Seconds of roles are processor time; "wall" is what the
requester waits. The paper's protocol, its HoLT and decryption one comparison at a time over the same
messages, is measured on some comparisons of the same forest and row in the same run, on one core, and taken
times all of them.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.paper.common import (
    MEGABYTE,
    add_command,
    exponent,
    keys,
    megabytes,
    positive,
    run_command,
    seconds,
    table,
)
from benchmarks.paper.datasets import Dataset, Frame, load
from benchmarks.paper.literal import literal
from benchmarks.paper.printed import EFFICIENCY, OURS
from revfrf import RevocableForestClassifier
from revfrf.costs import Costs
from revfrf.crypto.arithmetic import FixedBase
from revfrf.crypto.parallel import workers

PAPER_SECONDS = sum(EFFICIENCY[OURS].prediction.values())
PAPER_BYTES = EFFICIENCY[OURS].prediction_megabytes * MEGABYTE
"""The paper's efficiency table: prediction, servers and participants together."""

PROTOCOLS = {"FRF-Predict", "HoLT"}
ROLES = ("requester", "CS", "CC", "owners")
WARM_UPS = FixedBase.BREAK_EVEN
"""Until CC has made the tables of the keys of owners who are met once a request, too."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one request: comparisons, wall seconds, and by role processor seconds and bytes sent."""

    rows: int
    comparisons: int
    wall: float
    seconds: dict[str, float]
    bytes: dict[str, float]
    owners_powers: int
    """Powers of the owner who computes the most."""

    @property
    def all_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def all_bytes(self) -> float:
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class Setting:
    """A forest, what a request costs, and what the paper's protocol takes for as many comparisons."""

    trees: int
    depth: int
    key_bits: int
    cold_wall: float
    spent: Spent
    turns: list[tuple[Spent, float]]
    """On one core: a request, and in turn with it one comparison by the paper's protocol."""

    literal_measured: int

    @property
    def one_core(self) -> float:
        """Seconds of a request, the median."""
        return statistics.median(spent.all_seconds for spent, _ in self.turns)

    @property
    def literal_seconds(self) -> float:
        """Of one comparison by the paper's protocol, the median."""
        return statistics.median(literal for _, literal in self.turns)

    @property
    def ratio(self) -> float:
        """How many times as long the paper's protocol takes on one core, the median of all turns."""
        ratios = [literal * spent.comparisons / spent.all_seconds for spent, literal in self.turns]
        return statistics.median(ratios)


def main(arguments: Sequence[str] | None = None) -> None:
    adders = (add_settings, add_scaling, add_cores)
    run_command("benchmarks.paper.prediction", "Measure encrypted requests.", adders, arguments)


# -- forests and requests -----------------------------------------------------------------------------


def fitted(
    dataset: Dataset, trees: int, depth: int, key_bits: int, n_rows: int | None
) -> RevocableForestClassifier:
    split = dataset.splits(0)[0]
    model = RevocableForestClassifier(trees, max_depth=depth, random_state=0, n_jobs=-1, **keys(key_bits))
    return model.fit(split.X_train[:n_rows], split.y_train[:n_rows])


def request_rows(dataset: Dataset, n_rows: int) -> Frame:
    return dataset.splits(0)[0].X_test.iloc[:n_rows]


def ask(model: RevocableForestClassifier, X: Frame) -> float:
    """Wall seconds of an encrypted request, whose answer must be the right one."""
    answers: list[Any] = []
    spent = seconds(lambda: answers.append(model.predict_proba_encrypted(X)))
    if not np.array_equal(answers[0], model.predict_proba(X)):
        raise AssertionError("the encrypted answer is another")
    return spent


def warm_up(model: RevocableForestClassifier, X: Frame) -> Spent:
    """Ask until nothing is new; what the first request has cost."""
    first, *_ = (request(model, X) for _ in range(1 + WARM_UPS))
    return first


def measure(model: RevocableForestClassifier, X: Frame, repeats: int) -> Spent:
    """The median request of several."""
    found = [request(model, X) for _ in range(repeats)]
    return sorted(found, key=lambda spent: spent.wall)[len(found) // 2]


def request(model: RevocableForestClassifier, X: Frame) -> Spent:
    """What one request costs."""
    before, bits_before = model.costs_, _comparisons(model)
    wall = ask(model, X)
    after = model.costs_
    most = max(_powers(after, party) - _powers(before, party) for party in model.parties_)
    spent, sent = (
        {
            role: value - _by_role(getattr(before, books), what, model)[role]
            for role, value in _by_role(getattr(after, books), what, model).items()
        }
        for books, what in (("work", "seconds"), ("traffic", "bytes"))
    )
    return Spent(len(X), _comparisons(model) - bits_before, wall, spent, sent, most)


def _comparisons(model: RevocableForestClassifier) -> int:
    """All comparisons so far, as the owners have counted them."""
    learnt = model.leakage_()
    return sum(learnt[party].get("comparisons with its splits", 0) for party in model.parties_)


def _role(name: str, model: RevocableForestClassifier) -> str:
    return "owners" if name in model.parties_ else name


def _by_role(
    table: Mapping[str, Mapping[str, Mapping[str, Any]]], what: str, model: RevocableForestClassifier
) -> dict[str, float]:
    """A column of `costs_`, by role; of a link, its sender."""
    found = dict.fromkeys(ROLES, 0.0)
    for name, row in table.items():
        for protocol in PROTOCOLS & row.keys():
            found[_role(name.split(" -> ")[0], model)] += row[protocol][what]
    return found


def _powers(costs: Costs, party: str) -> int:
    cell = costs.work.get(party, {}).get("HoLT", {"exponentiations": {}})
    return int(sum(cell["exponentiations"].values()))


# -- settings ---------------------------------------------------------------------------------------


def add_settings(commands: Any) -> None:
    parser = add_command(commands, "settings", "one row, beside the paper's protocol", ["adult"], settings)
    parser.add_argument(
        "--forests",
        type=forest,
        nargs="+",
        metavar="TREESxDEPTHxBITS",
        default=[(10, 10, 1024), (100, 10, 2048), (100, 10, 3072)],
        help="by default the paper's forest, and ours",
    )
    parser.add_argument("--repeats", type=positive, default=3, help="requests of each")
    parser.add_argument("--literal", type=positive, default=10, help="comparisons by the paper's, a turn")
    parser.add_argument("--rows", type=positive, help="only so many training rows")


def forest(text: str) -> tuple[int, int, int]:
    """An option like 100x10x2048."""
    try:
        trees, depth, bits = (positive(part) for part in text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: give trees, depth and key size like 100x10x2048") from None
    return trees, depth, bits


def settings(options: argparse.Namespace, console: Console) -> object:
    dataset, results = load("adult", options.data), []
    X = request_rows(dataset, 1)
    for trees, depth, bits in options.forests:
        model = fitted(dataset, trees, depth, bits, options.rows)
        cold = warm_up(model, X).wall
        spent = measure(model, X, options.repeats)
        model.set_params(n_jobs=1)
        turns = [
            (measure(model, X, 1), literal(model, X, options.literal).seconds) for _ in range(options.repeats)
        ]
        setting = Setting(trees, depth, bits, cold, spent, turns, options.literal)
        console.print(setting_table(setting))
        results.append(asdict(setting) | {"times_the_literal": setting.ratio})
    return results


def setting_table(setting: Setting) -> Table:
    spent = setting.spent
    title = f"{setting.trees} trees of depth {setting.depth}, {setting.key_bits} bits, one row: "
    view = table(title + f"{spent.comparisons} comparisons", "role", "seconds", "bytes sent")
    for role in ROLES:
        view.add_row(role, f"{spent.seconds[role]:.3f}", megabytes(spent.bytes[role]))
    view.add_row("all roles", f"{spent.all_seconds:.3f}", megabytes(spent.all_bytes), style="bold")
    view.add_row("wall", f"{spent.wall:.3f}", "")
    view.add_row("wall, first request", f"{setting.cold_wall:.3f}", "")
    view.add_row("all roles, one core", f"{setting.one_core:.3f}", "")
    literal = setting.literal_seconds * spent.comparisons
    view.add_row("as printed, one core", f"{literal:.2f}", "")
    view.caption = (
        f"{setting.ratio:.0f} × faster than as printed, on one core "
        f"({setting.literal_seconds * 1000:.0f} ms a comparison, the mean of {setting.literal_measured}).\n"
        f"The busiest owner computes {spent.owners_powers} powers.\n"
        f"The paper, 10 trees of depth 10 at 1024 bits: {PAPER_SECONDS:.2f} s, {megabytes(PAPER_BYTES)}"
    )
    return view


# -- scaling ----------------------------------------------------------------------------------------


def add_scaling(commands: Any) -> None:
    parser = add_command(commands, "scaling", "seconds against depth, trees and rows", ["adult"], scaling)
    parser.add_argument("--depths", type=positive, nargs="+", default=[2, 4, 6, 8, 10])
    parser.add_argument("--trees", type=positive, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--requests", type=positive, nargs="+", default=[1, 5, 20], help="rows of a request")
    parser.add_argument("--bits", type=positive, default=1024, help="key size")
    parser.add_argument("--rows", type=positive, help="only so many training rows")


def scaling(options: argparse.Namespace, console: Console) -> object:
    """Each alone; the others are the last of their lists but for rows, which are one."""
    dataset, results = load("adult", options.data), {}
    deepest, most = options.depths[-1], options.trees[-1]
    varied: dict[str, list[tuple[int, int, int]]] = {
        "depth": [(depth, most, 1) for depth in options.depths],
        "trees": [(deepest, trees, 1) for trees in options.trees],
        "rows": [(deepest, most, rows) for rows in options.requests],
    }
    for what, shapes in varied.items():
        title = f"{options.bits} bits; depth {deepest}, {most} trees, one row, but for what varies"
        headings = ("comparisons", "seconds, all roles", "ms a comparison", "wall", "bytes")
        view = table(title, what, *headings)
        found = []
        for depth, trees, rows in shapes:
            model, X = fitted(dataset, trees, depth, options.bits, options.rows), request_rows(dataset, rows)
            warm_up(model, X)
            spent = measure(model, X, 1)
            found.append(spent)
            size = {"depth": depth, "trees": trees, "rows": rows}[what]
            each = 1000 * spent.all_seconds / spent.comparisons
            values = (
                f"{spent.comparisons:,}",
                f"{spent.all_seconds:.3f}",
                f"{each:.2f}",
                f"{spent.wall:.3f}",
            )
            view.add_row(str(size), *values, megabytes(spent.all_bytes))
        if len(found) > 1:
            power = exponent([s.comparisons for s in found], [s.all_seconds for s in found])
            view.caption = f"seconds grow with comparisons to the power {power:.2f}"
        console.print(view)
        results[what] = [asdict(spent) for spent in found]
    return results


# -- cores ------------------------------------------------------------------------------------------


def add_cores(commands: Any) -> None:
    parser = add_command(commands, "cores", "many rows on one core and on all", ["adult"], cores)
    parser.add_argument("--trees", type=positive, default=20)
    parser.add_argument("--depth", type=positive, default=10)
    parser.add_argument("--bits", type=positive, default=2048, help="key size")
    parser.add_argument("--requests", type=positive, default=20, help="rows of the request")
    parser.add_argument("--rounds", type=positive, default=3, help="how often, in turns")
    parser.add_argument("--rows", type=positive, help="only so many training rows")


def cores(options: argparse.Namespace, console: Console) -> object:
    dataset = load("adult", options.data)
    model = fitted(dataset, options.trees, options.depth, options.bits, options.rows)
    X = request_rows(dataset, options.requests)
    ask(model, X)
    walls: dict[int, list[float]] = {1: [], workers(-1): []}
    for _ in range(options.rounds):
        for n_jobs, found in walls.items():
            found.append(ask(model.set_params(n_jobs=n_jobs), X))
    ratios = [one / many for one, many in zip(walls[1], walls[workers(-1)], strict=True)]
    title = f"{options.requests} rows, {options.trees} trees of depth {options.depth}, {options.bits} bits"
    view = table(title, "cores", "seconds, median", "seconds, best")
    for n_jobs, found in walls.items():
        view.add_row(str(n_jobs), f"{statistics.median(found):.2f}", f"{min(found):.2f}")
    view.caption = f"{statistics.median(ratios):.2f} × one core (median of {len(ratios)} rounds)"
    console.print(view)
    return {"walls": walls, "ratios": ratios}


if __name__ == "__main__":
    main()
