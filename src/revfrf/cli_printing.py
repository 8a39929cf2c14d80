"""How commands print, write files, and end.

What takes a while to load is imported where it is needed, here and in all commands: help comes at once, and
Ctrl-C finds a command that ends quietly.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperGroup

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError

if TYPE_CHECKING:  # it takes a while to load, and `verify` does without
    from revfrf.node.control import Tell

DOES_NOT_HOLD = 1
WRONG_USAGE = 2
NO_ANSWER = 3
INTERRUPTED = 130

_UNREADABLE = ("missing", "io", "malformed", "version")
"""Kinds of CertificateError that say nothing of what a certificate proves."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AllowInsecure = Annotated[
    bool,
    typer.Option(
        "--allow-insecure", help="For trying out: accept keys below 2048 bits, which protect nothing."
    ),
]


class Program(TyperGroup):
    """Commands of which each ends quietly when it is interrupted."""

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup.invoke`."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort):
            fail("interrupted; what a running party has begun goes on there", INTERRUPTED)


# -- what is printed --------------------------------------------------------------------------------


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Facts in two columns; a long one runs on, so that a digest stays in one piece."""
    console, width = Console(), max(map(len, facts), default=0)
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, value in facts.items():
        label = name.replace("_", " ").ljust(width + 2)
        console.print(Text.assemble((label, "dim"), _shown(value)), soft_wrap=True)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.3g}"
    if isinstance(value, dict):
        return ", ".join(f"{_shown(name)}: {_shown(x)}" for name, x in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return _one_line(str(value)) or "none"


def _one_line(text: str) -> str:
    """Text that can do nothing to a terminal: what does not print is escaped."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


def print_json(value: Any) -> None:
    """JSON, for programs."""
    typer.echo(json.dumps(value, indent=2))


def show(title: str, result: dict[str, Any], as_json: bool) -> None:
    """A result, for people or for programs."""
    if as_json:
        print_json(result)
    else:
        print_facts(title, result)


def quoted(path: Path) -> str:
    """A path as a shell reads it, for commands that are suggested."""
    return shlex.quote(str(path))


def check_file(path: Path) -> None:
    """Raise UsageError, before the work begins, if `write_file` could not write there."""
    from revfrf.datafile import check_place

    check_place(path)


def write_file(path: Path, text: str) -> None:
    """See `datafile.write_whole`; says so on standard error."""
    from revfrf.datafile import write_whole

    write_whole(path, text)
    typer.echo(f"written to {path}", err=True)


@contextmanager
def progress(quiet: bool) -> Iterator["Tell"]:
    """A line on standard error that says how far it is."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("…", total=None)

        def tell(facts: dict[str, Any]) -> None:
            what = facts.get("step", "asking")
            rest = ", ".join(
                f"{name} {value}" for name, value in facts.items() if name not in ("step", "done")
            )
            done = facts.get("done")
            bar.update(
                task, description=f"{what} {rest}", total=None if done is None else 1.0, completed=done or 0
            )

        yield tell


# -- how commands end -------------------------------------------------------------------------------


def fail(reason: str, code: int) -> NoReturn:
    """One line on standard error, and the end."""
    typer.echo(f"revfrf: {_one_line(reason)}", err=True)
    raise typer.Exit(code)


@contextmanager
def errors(as_json: bool) -> Iterator[None]:
    """Errors as one line and an exit code; in JSON, `holds` is null if nothing could be checked."""
    try:
        yield
    except (RevFRFError, MemoryError) as error:
        kind = error.kind if isinstance(error, RevFRFError) else "memory"
        checked = isinstance(error, AuditLogError | CertificateError) and kind not in _UNREADABLE
        reason = str(error) or "there is not enough memory"
        if as_json:
            print_json({"holds": False if checked else None, "kind": kind, "reason": reason})
        absent = isinstance(error, PartyError) or kind in ("absent", "refused")
        fail(reason, DOES_NOT_HOLD if checked else NO_ANSWER if absent else WRONG_USAGE)
