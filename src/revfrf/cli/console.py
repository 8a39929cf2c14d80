"""Printing and asking, which commands share.

Commands import what takes long to load where they need it, so that help appears immediately.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import msgspec
import typer
from rich.console import Console

from revfrf.cli.exits import one_line, print_json
from revfrf.errors import RevFRFError
from revfrf.io.files import write_text
from revfrf.node.api import OnProgress, Progress, Request
from revfrf.node.control import CONTROL, ask, is_running
from revfrf.report.progress import progress_bar

Result = TypeVar("Result")

REPEAT_SECONDS = 10.0
"""How often progress is printed where there is no terminal."""


def fact_lines(title: str, facts: Mapping[str, Any]) -> list[str]:
    """Return facts in two columns. Long ones are not wrapped, so that digests stay in one piece."""
    width = max(map(len, facts), default=0) + 2
    labels = {name: typer.style(name.replace("_", " ").ljust(width), dim=True) for name in facts}
    return [typer.style(title, bold=True), *(labels[name] + _shown(value) for name, value in facts.items())]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"
    if isinstance(value, dict):
        parts = (f"({_shown(x)})" if isinstance(x, dict) else _shown(x) for x in value.values())
        return "; ".join(f"{_shown(name)}: {part}" for name, part in zip(value, parts, strict=True)) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return one_line(str(value)) or "none"


def facts_of(result: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are set, as JSON values."""
    facts: dict[str, Any] = msgspec.to_builtins(result)
    return {name: value for name, value in facts.items() if value is not None}


def show(title: str, result: msgspec.Struct, as_json: bool) -> None:
    """Print a result, for people or for programs. For people, the facts of its parts are listed too."""
    facts, shown = facts_of(result), dict[str, Any]()
    for name, value in facts.items():
        part = getattr(result, name)
        shown |= facts_of(part) if isinstance(part, msgspec.Struct) else {name: value}
    print_done(as_json, facts, *fact_lines(title, shown))


def print_done(as_json: bool, facts: Any, *lines: str) -> None:
    """Print what was done: these facts as JSON, or these lines."""
    if as_json:
        print_json(facts)
    else:
        for line in lines:
            typer.echo(line)


def quoted(path: Path) -> str:
    """Return a path as a shell reads it."""
    return shlex.quote(str(path))


def write_file(path: Path, text: str) -> None:
    """Write a file, and print its path on standard error."""
    write_text(path, text)
    typer.echo(f"written to {path}", err=True)


@contextmanager
def progress(quiet: bool) -> Iterator[OnProgress]:
    """Show progress on standard error: a bar on a terminal, else a line from time to time."""
    console = Console(stderr=True)
    lines_only = not console.is_terminal and not quiet
    announced, now = set[str](), [""]
    lines = _repeating(lambda: now[0]) if lines_only else nullcontext()
    with progress_bar(console, console.is_terminal and not quiet, True) as update, lines:

        def on_progress(found: Progress) -> None:
            if lines_only and found.waiting and found.step not in announced:
                announced.add(found.step)
                typer.echo(found.step, err=True)
            now[0] = f"{found.step}: {found.detail}" if found.detail else found.step
            update(found.done, now[0])

        yield on_progress


@contextmanager
def _repeating(text: Callable[[], str]) -> Iterator[None]:
    """Print a text again and again, unless it is empty."""
    over, begin = Event(), time.monotonic()

    def repeat() -> None:
        while not over.wait(REPEAT_SECONDS):
            if text():
                typer.echo(f"{text()} ({time.monotonic() - begin:.0f} s)", err=True)

    thread = Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ask_party(directory: Path, request: Request[Result], quiet: bool) -> Result:
    """Ask the party that runs in a directory, and show progress. If none runs, see `run_offline`."""
    home = directory.expanduser()
    with progress(quiet) as on_progress:
        if not is_running(home / CONTROL):
            from revfrf.node.roles import run_offline

            return run_offline(home, request, on_progress)
        try:
            return ask(home / CONTROL, request, on_progress)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("a running party continues what it has begun")
            raise
        except RevFRFError as error:
            if error.kind == "wrong-role":
                from revfrf.node.roles import check_role

                check_role(home, request)
            raise
