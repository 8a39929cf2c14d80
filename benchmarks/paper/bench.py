"""Every table and figure of the paper's evaluation: what `revfrf bench paper` runs."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.paper.cells import Cell, Store, write, write_text
from benchmarks.paper.comparison import COMPARED
from benchmarks.paper.datasets import check_present
from benchmarks.paper.efficiency import EFFICIENT
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.growth import GROWTH
from benchmarks.paper.leaving import CLASSES, NUMBERS
from benchmarks.paper.rebuilding import REBUILDING
from benchmarks.paper.report import FORMAT, html_page, read
from benchmarks.paper.settings import FULL, QUICK, TINY, Settings
from benchmarks.paper.theory import THEORY
from revfrf.errors import UsageError

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (CLASSES, NUMBERS, GROWTH, COMPARED, THEORY, EFFICIENT, REBUILDING)
}
SETTINGS = {settings.name: settings for settings in (FULL, QUICK, TINY)}
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """What is run, from which data, and where results go."""

    settings: Settings
    data: Path | None
    out: Path
    only: Sequence[str] = ()
    fresh: bool = False


def main(size: str, data: Path | None, out: Path | None, only: Sequence[str], fresh: bool) -> int:
    """Run what is missing and write the report. The exit code."""
    options = Options(SETTINGS[size], data, out or Path(f"bench-paper-{size}"), only, fresh)
    return run(options, Console(stderr=True))


def run(options: Options, console: Console, experiments: Mapping[str, Experiment] = EXPERIMENTS) -> int:
    """Run what is missing of the chosen experiments, then write their JSON and the report."""
    chosen = [experiments[name] for name in checked(options.only, experiments)] or [*experiments.values()]
    check_present(sorted({name for experiment in chosen for name in experiment.sets}), options.data)
    store = Store(prepared(options.out) / "cells", world(), lambda line: console.print(line, style="yellow"))
    cells = {e.name: e.cells(options.settings, options.data) for e in chosen}
    everything = [cell for some in cells.values() for cell in some]
    if options.fresh:
        store.forget(everything)
    missing = store.missing(everything)
    done = len(everything) - len(missing)
    if done:
        console.print(f"{done} of {len(everything)} cells are there already.")
    try:
        work(store, missing, done, console)
    except KeyboardInterrupt:
        kept = len(everything) - len(store.missing(everything))
        console.print(
            f"Interrupted. {kept} of {len(everything)} cells are done and kept in {options.out}; "
            "the same command, without --fresh, goes on from there."
        )
        return INTERRUPTED
    for experiment in chosen:
        facts = {"experiment": experiment.name, **about(options)}
        results = [asdict(one) for one in store.all(cells[experiment.name])]
        write(options.out / f"{experiment.name}.json", {**facts, "cells": results})
    report = options.out / "report.html"
    write_text(report, html_page(experiments, read(options.out, experiments)))
    console.print(f"The report is {report}; the numbers are in the JSON files beside it.")
    return 0


def checked(only: Sequence[str], experiments: Mapping[str, Experiment]) -> Sequence[str]:
    """Names of experiments that exist."""
    for name in only:
        if name not in experiments:
            raise UsageError(
                f"--only {name}: there is no such experiment; there are {', '.join(experiments)}"
            )
    return only


def prepared(out: Path) -> Path:
    """The directory, which can be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise UsageError(f"--out {out}: this directory cannot be written")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    return out


def work(store: Store, missing: Sequence[Cell], done: int, console: Console) -> None:
    """Run these cells, one after the other."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=done + len(missing), completed=done)
        for cell in missing:
            progress.update(task, description=cell.label)
            store.run(cell)
            progress.advance(task)


# -- what a run was -----------------------------------------------------------------------------------


def world() -> dict[str, Any]:
    """What every result depends on besides its parameters."""
    return {"format": FORMAT, "revfrf": version("revfrf"), "processor": processor(), "cores": os.cpu_count()}


def about(options: Options) -> dict[str, Any]:
    """What a reader must know of a run to judge it, or to repeat it."""
    libraries = {name: version(name) for name in ("revfrf", "numpy", "scikit-learn", "gmpy2", "numba", "phe")}
    command = f"revfrf bench paper{'' if options.settings.name == 'full' else f' --{options.settings.name}'}"
    return {
        "format": FORMAT,
        "settings": asdict(options.settings),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "memory": memory()},
        "versions": {"python": platform.python_version(), **libraries},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command,
    }


def processor() -> str:
    """What the system says that it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def memory() -> int:
    """Bytes of this machine, or 0 if it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
