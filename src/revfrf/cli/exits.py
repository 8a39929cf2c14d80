"""How commands end: one line on standard error, and an exit code; `revfrf --help` explains the codes."""

import io
import json
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError
from revfrf.io.files import UNREADABLE

NOT_VERIFIED, WRONG_USAGE, NO_ANSWER, INTERNAL_ERROR = 1, 2, 3, 70
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143  # 128 and the number of the signal

_NOTHING_CHECKED = (*UNREADABLE, "malformed", "version")
"""Kinds of errors that say nothing about what a certificate or a log proves."""

_WrongUsage: Any = typer.BadParameter.__base__
"""Typer's errors about a command line; typer has no public name for them."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, unless there is another handler."""
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
    """Commands that end with one line and an exit code, whatever happens."""

    def main(self, args: Any = None, prog_name: str | None = None, *_: Any, **__: Any) -> NoReturn:
        """See `TyperGroup.main`, which has exit codes of its own."""
        given = sys.argv[1:] if args is None else args
        try:
            with _ending_on_sigterm(), warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: say(str(message))
                with self.make_context(prog_name or "revfrf", [*given]) as context:
                    self.invoke(context)
            code = 0
        except (Exception, KeyboardInterrupt) as error:
            code = _explain(error, "--json" in given)
        sys.exit(code)


def _explain(error: BaseException, as_json: bool) -> int:
    """Say in one line why a command has ended, and return its exit code.

    In JSON, `holds` is null if nothing could be checked.
    """
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        say(_with_notes("interrupted", error))
        terminated = any(isinstance(each, _Terminated) for each in (error, error.__context__))
        return TERMINATED if terminated else INTERRUPTED
    if isinstance(error, OSError):
        sys.stdout = io.StringIO()  # flushing the rest would fail at exit
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return WRONG_USAGE
    code, kind, reason = _outcome(error)
    if as_json:
        try:
            print_json({"holds": False if code == NOT_VERIFIED else None, "kind": kind, "reason": reason})
        except OSError:
            sys.stdout = io.StringIO()
    say(reason)
    return code


def _outcome(error: BaseException) -> tuple[int, str, str]:
    """Return the exit code for an error, its kind, and the reason."""
    if isinstance(error, RevFRFError):
        kind, code = error.kind, WRONG_USAGE
        if isinstance(error, AuditLogError | CertificateError) and kind not in _NOTHING_CHECKED:
            code = NOT_VERIFIED
        elif isinstance(error, PartyError) or kind in ("absent", "refused"):
            code = NO_ANSWER
        return code, kind, _with_notes(str(error), error)
    if isinstance(error, _WrongUsage):
        said = error.format_message().rstrip(".")
        command = "revfrf" if error.ctx is None else error.ctx.command_path
        return WRONG_USAGE, "usage", f"{said}{' See' if said.endswith('?') else '; see'} `{command} --help`"
    if isinstance(error, MemoryError):
        return WRONG_USAGE, "memory", "not enough memory"
    if isinstance(error, OSError):
        return WRONG_USAGE, "io", f"{error.filename or 'output cannot be written'}: {error.strerror}"
    with suppress(OSError):
        traceback.print_exception(error)
    return INTERNAL_ERROR, "error", "internal error; please report it with the traceback above"


def _with_notes(reason: str, error: BaseException) -> str:
    return "; ".join([reason, *getattr(error, "__notes__", ())])


@contextmanager
def advising(remedies: Mapping[str, str], file: Path | None = None) -> Iterator[None]:
    """Add a command's advice to errors, by their kind, and name the file as the user did."""
    try:
        yield
    except RevFRFError as error:
        if file is not None:
            error.args = (str(error).replace(str(file.absolute()), str(file)),)
        if error.kind in remedies:
            error.add_note(remedies[error.kind])
        raise


def say(reason: str) -> None:
    """Print one line on standard error."""
    with suppress(OSError):
        typer.echo(f"revfrf: {one_line(reason)}", err=True)


def one_line(text: str) -> str:
    """Return text that is safe on a terminal: characters that do not print are escaped."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


def print_json(value: Any) -> None:
    """Print JSON, for programs."""
    typer.echo(json.dumps(value, indent=2))
