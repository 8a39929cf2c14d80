"""How commands ask, print, write files, and end.

What takes a while to load is imported where it is needed, here and in all commands: help comes at once, and
Ctrl-C finds a command that ends quietly.
"""

import io
import json
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperGroup

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError
from revfrf.node.control import CONTROL, Tell, ask

DOES_NOT_HOLD = 1
WRONG_USAGE = 2
NO_ANSWER = 3
FAULT = 70
INTERRUPTED = 130
NOBODY_READS = 141

_UNREADABLE = ("missing", "io", "malformed", "version")
"""Kinds of CertificateError that say nothing of what a certificate proves."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AllowInsecure = Annotated[
    bool,
    typer.Option(
        "--allow-insecure", help="For trying out: accept keys below 2048 bits, which protect nothing."
    ),
]
Directory = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="The party's directory.")]
Voting = Annotated[
    Literal["hard", "soft"],
    typer.Option(help="hard: a majority of the trees; soft: their mean probabilities."),
]
REPLACED = "a file that is there is replaced."

_WrongUsage: Any = typer.BadParameter.__base__
"""Whatever is wrong with a command line; typer has no name of its own for it."""


class Program(TyperGroup):
    """Commands that end with one line and a code of their own, whatever happens to them."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """See `TyperGroup.main`."""
        try:
            sys.exit(super().main(*args, **extra | {"standalone_mode": False}) or 0)
        except _WrongUsage as error:
            _explain(error, as_json="--json" in (extra.get("args") or sys.argv))
            sys.exit(WRONG_USAGE)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """See `TyperGroup.make_context`."""
        with _orderly():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup.invoke`."""
        with _orderly(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(str(message))
            return super().invoke(ctx)


@contextmanager
def _orderly() -> Iterator[None]:
    """What this process cannot do is one line, and is never taken for what does not hold."""
    try:
        yield
    except (typer.Exit, _WrongUsage):
        raise
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = io.StringIO()  # what is not written yet would fail at the end
        raise typer.Exit(NOBODY_READS) from None
    except OSError as error:
        sys.stdout = io.StringIO()
        fail(f"{error.filename or 'output cannot be written'}: {error.strerror}", WRONG_USAGE)
    except Exception:
        with suppress(OSError):
            traceback.print_exc()
        fail("this should not have happened; please report it with what stands above", FAULT)


def _explain(error: Any, as_json: bool) -> None:
    """What is wrong with a command line; of one that is empty, help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = "revfrf" if error.ctx is None else error.ctx.command_path
    reason = f"{error.format_message().rstrip('.')}; look at `{command} --help`"
    if as_json:
        print_json({"holds": None, "kind": "usage", "reason": reason})
    say(reason)


# -- what is printed --------------------------------------------------------------------------------


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """See `Console.on_broken_pipe`: `Program` says how that ends."""
        raise


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Facts in two columns; a long one runs on, so that a digest stays in one piece."""
    console, width = _Console(), max(map(len, facts), default=0)
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
def progress(quiet: bool) -> Iterator[Tell]:
    """A line on standard error that says how far it is."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task, said = bar.add_task("…", total=None), set()

        def tell(facts: dict[str, Any]) -> None:
            what = facts.get("step", "asking")
            if bar.disable and not quiet and what.startswith("waiting") and what not in said:
                said.add(what)
                typer.echo(what, err=True)
            rest = ", ".join(
                f"{name} {value}" for name, value in facts.items() if name not in ("step", "done")
            )
            done = facts.get("done")
            bar.update(
                task, description=f"{what} {rest}", total=None if done is None else 1.0, completed=done or 0
            )

        yield tell


def ask_party(directory: Path, verb: str, quiet: bool, **arguments: Any) -> Any:
    """Ask the process that runs in a directory, with a line that says how far it is; where none does, see
    `node.dispatch.do_alone`. That takes a second to load, and is left alone where a process runs.
    """
    home = directory.expanduser().absolute()

    def alone() -> Any:
        from revfrf.node.dispatch import do_alone

        return do_alone(home, verb, arguments, tell)

    with progress(quiet) as tell:
        try:
            return ask(home / CONTROL, verb, arguments, tell, alone)
        except KeyboardInterrupt:
            fail("interrupted; what a running party has begun goes on there", INTERRUPTED)
        except RevFRFError as error:
            if error.kind == "verb":
                from revfrf.node.dispatch import party_with

                party_with(home, verb)
            raise


# -- how commands end -------------------------------------------------------------------------------


def fail(reason: str, code: int) -> NoReturn:
    """One line on standard error, and the end."""
    say(reason)
    raise typer.Exit(code)


def say(reason: str) -> None:
    """One line on standard error."""
    with suppress(OSError):
        typer.echo(f"revfrf: {_one_line(reason)}", err=True)


@contextmanager
def errors(as_json: bool, remedies: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors as one line and an exit code; in JSON, `holds` is null if nothing could be checked.

    `remedies` are, by kinds of errors, what this command has to say about them.
    """
    try:
        yield
    except (RevFRFError, MemoryError) as error:
        kind = error.kind if isinstance(error, RevFRFError) else "memory"
        checked = isinstance(error, AuditLogError | CertificateError) and kind not in _UNREADABLE
        remedy = (remedies or {}).get(kind)
        reason = (str(error) or "there is not enough memory") + (f"; {remedy}" if remedy else "")
        if as_json:
            print_json({"holds": False if checked else None, "kind": kind, "reason": reason})
        absent = isinstance(error, PartyError) or kind in ("absent", "refused")
        fail(reason, DOES_NOT_HOLD if checked else NO_ANSWER if absent else WRONG_USAGE)
