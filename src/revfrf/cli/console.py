"""How commands ask, print, write files, and end.

What takes a while to load is imported where it is needed, here and in all commands: help comes at once, and
Ctrl-C finds a command that ends quietly.
"""

import io
import json
import shlex
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import msgspec
import typer
from rich import progress as bars
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError
from revfrf.io.files import UNREADABLE, write_text
from revfrf.node.api import OnProgress, Progress, Request
from revfrf.node.control import CONTROL, ask

Result = TypeVar("Result")
DOES_NOT_HOLD = 1
WRONG_USAGE = 2
NO_ANSWER = 3
FAULT = 70
INTERRUPTED = 130
TERMINATED = 143
NOBODY_READS = 141

_SAYING_NOTHING = (*UNREADABLE, "malformed", "version")
"""Kinds of errors that say nothing of what a certificate or a log proves."""

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

_SAID_EVERY = 10.0
"""Seconds between two lines about what is going on, where there is no terminal."""

_ORDER = (
    *("kgc", "join", "serve", "match", "train", "test", "predict", "revoke", "status", "history", "export"),
    *("report", "verify", "audit", "up", "down", "demo", "bench"),
)
"""Commands as they are used, one after the other."""

_WrongUsage: Any = typer.BadParameter.__base__
"""Whatever is wrong with a command line; typer has no name of its own for it."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


@contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, in order, unless somebody has decided otherwise."""
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Program(TyperGroup):
    """Commands that end with one line and a code of their own, whatever happens to them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `TyperGroup.list_commands`."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """See `TyperGroup.main`."""
        try:
            with _heeding_sigterm():
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
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        _end(interrupt)
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


def facts_of(result: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are set, as values that JSON has."""
    facts: dict[str, Any] = msgspec.to_builtins(result)
    return {name: value for name, value in facts.items() if value is not None}


def show(title: str, result: msgspec.Struct, as_json: bool) -> None:
    """Print a result, for people or for programs."""
    facts = facts_of(result)
    if as_json:
        print_json(facts)
        return
    for name in facts:
        part = getattr(result, name)
        if isinstance(part, msgspec.Struct):
            facts = {known: value for known, value in facts.items() if known != name} | facts_of(part)
    print_facts(title, facts)


def quoted(path: Path) -> str:
    """A path as a shell reads it, for commands that are suggested."""
    return shlex.quote(str(path))


def write_file(path: Path, text: str) -> None:
    """See `files.write_text`; says so on standard error."""
    write_text(path, text)
    typer.echo(f"written to {path}", err=True)


@contextmanager
def progress(quiet: bool) -> Iterator[OnProgress]:
    """A line on standard error that says how far it is; where there is no terminal, a new one from time to
    time.
    """
    console = Console(stderr=True)
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn())
    with ExitStack() as closing:
        bar = bars.Progress(
            *columns, console=console, transient=True, disable=quiet or not console.is_terminal
        )
        closing.enter_context(bar)
        task, said, line = bar.add_task("…", total=None), set(), [""]
        if bar.disable and not quiet:
            closing.enter_context(_again_and_again(lambda: line[0]))

        def on_progress(now: Progress) -> None:
            if bar.disable and not quiet and now.waiting and now.step not in said:
                said.add(now.step)
                typer.echo(now.step, err=True)
            line[0] = f"{now.step}: {now.detail}" if now.detail else now.step
            total = None if now.done is None else 1.0
            bar.update(task, description=line[0], total=total, completed=now.done or 0)

        yield on_progress


@contextmanager
def _again_and_again(what: Callable[[], str]) -> Iterator[None]:
    """Say every ten seconds what is going on, if anything is."""
    over, begin = Event(), time.monotonic()

    def repeat() -> None:
        while not over.wait(_SAID_EVERY):
            if what():
                typer.echo(f"{what()} ({time.monotonic() - begin:.0f} s)", err=True)

    saying = Thread(target=repeat, name="progress", daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()


def ask_party(directory: Path, request: Request[Result], quiet: bool) -> Result:
    """Ask the party that runs in a directory, and show progress. If none does, see `node.roles.run_offline`,
    which takes a second to load.
    """
    home, goes_on = directory.expanduser().absolute(), "; what a running party has begun goes on there"

    def offline() -> Result:
        nonlocal goes_on
        goes_on = ""
        from revfrf.node.roles import run_offline

        return run_offline(home, request, on_progress)

    with progress(quiet) as on_progress:
        try:
            return ask(home / CONTROL, request, on_progress, offline)
        except KeyboardInterrupt as interrupt:
            _end(interrupt, goes_on)
        except RevFRFError as error:
            if error.kind == "wrong-role":
                from revfrf.node.roles import check_role

                check_role(home, request)
            raise


# -- how commands end -------------------------------------------------------------------------------


def _end(interrupt: BaseException, more: str = "") -> NoReturn:
    """As shells have it: 128 and the signal's number."""
    terminated = any(isinstance(each, _Terminated) for each in (interrupt, interrupt.__context__))
    fail(f"interrupted{more}", TERMINATED if terminated else INTERRUPTED)


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
        checked = isinstance(error, AuditLogError | CertificateError) and kind not in _SAYING_NOTHING
        remedy = (remedies or {}).get(kind)
        reason = (str(error) or "there is not enough memory") + (f"; {remedy}" if remedy else "")
        if as_json:
            print_json({"holds": False if checked else None, "kind": kind, "reason": reason})
        absent = isinstance(error, PartyError) or kind in ("absent", "refused")
        fail(reason, DOES_NOT_HOLD if checked else NO_ANSWER if absent else WRONG_USAGE)
