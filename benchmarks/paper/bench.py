"""Every table and figure of the paper's evaluation: what `python -m benchmarks paper` runs."""

import fcntl
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import revfrf
from benchmarks import paper, rivals
from benchmarks.paper.cells import Cell, Store, as_json, write
from benchmarks.paper.comparison_shown import COMPARED
from benchmarks.paper.datasets import ROOT, check_present
from benchmarks.paper.efficiency_shown import EFFICIENT
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.growth_shown import GROWTH
from benchmarks.paper.leaving_shown import CLASSES, NUMBERS
from benchmarks.paper.rebuilding_shown import REBUILDING
from benchmarks.paper.report import html_page, read
from benchmarks.paper.settings import FULL, QUICK, TINY, Settings
from benchmarks.paper.theory_shown import THEORY
from revfrf.errors import UsageError
from revfrf.io.files import write_text

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (CLASSES, NUMBERS, GROWTH, COMPARED, THEORY, EFFICIENT, REBUILDING)
}
SETTINGS = {settings.name: settings for settings in (FULL, QUICK, TINY)}
LIBRARIES = ("revfrf", "numpy", "scipy", "pandas", "scikit-learn", "gmpy2", "numba", "phe")
PRESENTING = ("*_shown.py", "show.py", "plots.py", "report.py", "page.py", "printed.py")
"""Modules beside this one on which no result depends: they only show results."""

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
    cells = {e.name: e.cells(options.settings, options.data) for e in chosen}
    with alone(options.out):
        measured = world()
        store = Store(
            options.out / "cells", measured, lambda line: console.print(line, style="yellow"), commit()
        )
        if not worked(store, cells, options, console):
            return INTERRUPTED
        if world() != measured:
            raise UsageError("the code has changed while it was measured; run the same command again")
        run = about(options)
        for experiment in chosen:
            results = [asdict(one) for one in store.all(cells[experiment.name])]
            facts = {"experiment": experiment.name, "run": run, "cells": results}
            write(options.out / f"{experiment.name}.json", facts)
        report = options.out / "report.html"
        write_text(report, html_page(experiments, read(options.out, experiments, run)))
    console.print(f"The report is {report}; the numbers are in the JSON files beside it.", soft_wrap=True)
    return 0


def worked(store: Store, cells: Mapping[str, Sequence[Cell]], options: Options, console: Console) -> bool:
    """Run the cells that are missing. False if somebody has interrupted it."""
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
            "the same command, without --fresh, goes on from there.",
            soft_wrap=True,
        )
        return False
    return True


def checked(only: Sequence[str], experiments: Mapping[str, Experiment]) -> Sequence[str]:
    """Names of experiments that exist."""
    for name in only:
        if name not in experiments:
            raise UsageError(
                f"--only {name}: there is no such experiment; there are {', '.join(experiments)}"
            )
    return only


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """The directory, made if need be; nobody else measures in it meanwhile."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: this is no directory")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"--out {out}: another run is at work there; wait for its end") from None
        yield


def work(store: Store, missing: Sequence[Cell], done: int, console: Console) -> None:
    """Run these cells, one after the other; without a terminal, say so line by line."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left about"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=done + len(missing), completed=done)
        for number, cell in enumerate(missing, done + 1):
            progress.update(task, description=cell.label)
            if not console.is_terminal:
                console.print(f"{number}/{done + len(missing)} {cell.label}", soft_wrap=True, highlight=False)
            store.run(cell)
            progress.advance(task)


# -- what a run was -----------------------------------------------------------------------------------


def world() -> dict[str, Any]:
    """What every result depends on besides its parameters: whatever is measured, and on what it runs."""
    return {
        "code": code(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "memory": memory()},
    }


def code() -> str:
    """Names the contents of all modules that are measured, ours and the rivals, and of those that measure."""
    digest = hashlib.sha256()
    for package in (revfrf, rivals, paper):
        root = Path(package.__path__[0])
        for file in sorted(root.rglob("*.py")):
            if package is not paper or not any(map(file.match, PRESENTING)):
                digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit of these sources, "-dirty" behind it if they differ; nothing if they are no checkout."""
    command = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()


def about(options: Options) -> dict[str, Any]:
    """What a reader must know of a run to judge it, or to repeat it."""
    return {**world(), "settings": as_json(asdict(options.settings))}


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
