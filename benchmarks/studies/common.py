"""What the studies share: options, memory, fresh processes, and how numbers are shown."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.paper.common import MEGABYTE
from benchmarks.paper.datasets import SOURCES, check_present
from revfrf.errors import RevFRFError
from revfrf.io.files import check_place, write_text

Result = TypeVar("Result")


# -- options ----------------------------------------------------------------------------------------


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="PATH", help="directory of the data files")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")


def run_command(
    program: str,
    what: str,
    adders: Sequence[Callable[[Any], None]],
    arguments: Sequence[str] | None,
) -> Any:
    """Run the command that the arguments name, of those that `adders` add. Its results."""
    parser = argparse.ArgumentParser(prog=program, description=what)
    commands = parser.add_subparsers(dest="command", required=True)
    for add in adders:
        add(commands)
    options = parser.parse_args(arguments)
    try:
        check_options(options)
        results = options.run(options, console())
        write_json(options.json, {options.command: results})
    except RevFRFError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted")
    return results


def add_command(
    commands: Any, name: str, what: str, sets: list[str], run: Callable[..., object]
) -> argparse.ArgumentParser:
    """A command that needs the files of these sets, or of those that an option `--sets` of its own says."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=what)
    parser.set_defaults(run=run, sets=sets)
    add_common_options(parser)
    return parser


def positive(text: str) -> int:
    """An option that is a whole number above zero."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def set_names(text: str) -> list[str]:
    """An option that is several sets."""
    names = text.split(",")
    for name in names:
        if name not in SOURCES:
            raise argparse.ArgumentTypeError(f"{name!r} is no set; sets are {', '.join(SOURCES)}")
    return names


def check_options(options: argparse.Namespace) -> None:
    """Raise UsageError now for what would fail after minutes of work: no place for results, no data."""
    if options.json:
        check_place(options.json)
    check_present(options.sets, options.data)


def write_json(file: Path | None, results: object) -> None:
    if file:
        write_text(file, json.dumps(results, indent=2) + "\n")


# -- measuring --------------------------------------------------------------------------------------


def in_fresh_process(function: Callable[..., Result], *arguments: object) -> Result:
    """`function(*arguments)` in a new interpreter, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory() -> int:
    """Bytes: the peaks of this process and of its living descendants, added up.

    Read from /proc, because `ru_maxrss` of a process begins with that of the process which started it.
    Pages that processes share count in each of them, so this is never too little.
    """
    return _memory("VmHWM")


def current_memory() -> int:
    """Bytes: what this process and its descendants hold now, added up likewise."""
    return _memory("VmRSS")


def _memory(field: str) -> int:
    processes, family = _processes(), {os.getpid()}
    while more := {pid for pid, status in processes.items() if int(status["PPid"]) in family} - family:
        family |= more
    kilobytes = (processes[pid].get(field, "0 kB").split()[0] for pid in family)  # a zombie has none
    return 1024 * sum(map(int, kilobytes))


def _processes() -> dict[int, dict[str, str]]:
    """/proc/*/status, by process id."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = file.read_text().splitlines()
        except OSError:  # it has just ended
            continue
        pairs = (line.partition(":") for line in lines)
        found[int(file.parent.name)] = {key: value.strip() for key, _, value in pairs}
    return found


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """k of value ~ size^k, fitted on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


# -- showing ----------------------------------------------------------------------------------------


def table(title: str, *headings: str) -> Table:
    """Words in the first column, numbers in the others."""
    view = Table(headings[0], title=title, title_justify="left", caption_justify="left")
    for heading in headings[1:]:
        view.add_column(heading, justify="right")
    return view


def megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.2f} MB"


def console() -> Console:
    """As wide as the terminal; into a file or a pipe, wide enough for every table."""
    return Console(width=None if sys.stdout.isatty() else 150)
