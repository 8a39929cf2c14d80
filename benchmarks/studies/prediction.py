"""Encrypted requests beside the paper's own protocol, and on several cores.

    python -m benchmarks.studies.prediction settings   one row: the paper's forest, and ours
    python -m benchmarks.studies.prediction cores      20 rows on one core and on all

A request is made some times to warm up (CC makes tables of its owners' keys) and then measured. The paper's
protocol, its HoLT and decryption one comparison at a time over the same messages, is measured on some
comparisons of the same forest and row in the same run, on one core, and taken times all of them.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.paper.as_printed import measure_as_printed
from benchmarks.paper.asking import ROLES, Spent, ask, fitted, measure, request_rows, warm_up
from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.datasets import load
from benchmarks.paper.printed import EFFICIENCY, OURS
from benchmarks.studies.common import add_command, megabytes, positive, run_command, table
from revfrf.parallel import workers

PAPER_SECONDS = sum(EFFICIENCY[OURS].prediction.values())
PAPER_BYTES = EFFICIENCY[OURS].prediction_megabytes * MEGABYTE
"""The paper's efficiency table: prediction, servers and participants together."""


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

    printed_measured: int

    @property
    def one_core(self) -> float:
        """Seconds of a request, the median."""
        return statistics.median(spent.all_seconds for spent, _ in self.turns)

    @property
    def printed_seconds(self) -> float:
        """Of one comparison by the paper's protocol, the median."""
        return statistics.median(printed for _, printed in self.turns)

    @property
    def ratio(self) -> float:
        """How many times as long the paper's protocol takes on one core, the median of all turns."""
        ratios = [printed * spent.comparisons / spent.all_seconds for spent, printed in self.turns]
        return statistics.median(ratios)


def main(arguments: Sequence[str] | None = None) -> None:
    adders = (add_settings, add_cores)
    run_command("benchmarks.studies.prediction", "Measure encrypted requests.", adders, arguments)


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
    parser.add_argument("--as-printed", type=positive, default=10, help="comparisons by the paper's, a turn")
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
            (measure(model, X, 1), measure_as_printed(model, X, options.as_printed).seconds)
            for _ in range(options.repeats)
        ]
        setting = Setting(trees, depth, bits, cold, spent, turns, options.as_printed)
        console.print(setting_table(setting))
        results.append(asdict(setting) | {"times_as_printed": setting.ratio})
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
    printed = setting.printed_seconds * spent.comparisons
    view.add_row("as printed, one core", f"{printed:.2f}", "")
    view.caption = (
        f"{setting.ratio:.0f} × faster than as printed, on one core "
        f"({setting.printed_seconds * 1000:.0f} ms a comparison, the mean of {setting.printed_measured}).\n"
        f"The busiest owner computes {spent.owners_powers} powers.\n"
        f"The paper, 10 trees of depth 10 at 1024 bits: {PAPER_SECONDS:.2f} s, {megabytes(PAPER_BYTES)}"
    )
    return view


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
