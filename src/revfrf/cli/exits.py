"""How commands end: one line on standard error, and an exit code.

0 success or verified; 1 verification failed; 2 usage error or unreadable file; 3 a party is offline or
refused; 70 internal error; 130 interrupted; 141 broken pipe; 143 terminated.
"""

import io
import json
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError
from revfrf.io.files import UNREADABLE

NOT_VERIFIED = 1
WRONG_USAGE = 2
NO_ANSWER = 3
INTERNAL_ERROR = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

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

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """See `TyperGroup.main`."""
        try:
            with _ending_on_sigterm():
                sys.exit(super().main(*args, **extra | {"standalone_mode": False}) or 0)
        except _WrongUsage as error:
            _explain(error, as_json="--json" in (extra.get("args") or sys.argv))
            sys.exit(WRONG_USAGE)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """See `TyperGroup.make_context`."""
        with _one_line_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup.invoke`."""
        with _one_line_errors(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(str(message))
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what goes wrong in this process into one line and its own exit code."""
    try:
        yield
    except (typer.Exit, _WrongUsage):
        raise
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        end_interrupted(interrupt)
    except BrokenPipeError:
        sys.stdout = io.StringIO()  # flushing the rest would fail at exit
        raise typer.Exit(BROKEN_PIPE) from None
    except OSError as error:
        sys.stdout = io.StringIO()
        fail(f"{error.filename or 'output cannot be written'}: {error.strerror}", WRONG_USAGE)
    except Exception:
        with suppress(OSError):
            traceback.print_exc()
        fail("internal error; please report it with the traceback above", INTERNAL_ERROR)


def _explain(error: Any, as_json: bool) -> None:
    """Say what is wrong with a command line; print help if it is empty."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    command = "revfrf" if error.ctx is None else error.ctx.command_path
    reason = f"{error.format_message().rstrip('.')}; see `{command} --help`"
    if as_json:
        print_json({"holds": None, "kind": "usage", "reason": reason})
    say(reason)


def end_interrupted(interrupt: BaseException, more: str = "") -> NoReturn:
    """End with 128 and the signal's number, as shells do."""
    terminated = any(isinstance(each, _Terminated) for each in (interrupt, interrupt.__context__))
    fail(f"interrupted{more}", TERMINATED if terminated else INTERRUPTED)


def fail(reason: str, code: int) -> NoReturn:
    """Print one line on standard error, and end."""
    say(reason)
    raise typer.Exit(code)


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


@contextmanager
def errors(as_json: bool, remedies: Mapping[str, str] | None = None) -> Iterator[None]:
    """End with one line and an exit code on errors. In JSON, `holds` is null if nothing could be checked.

    `remedies` has advice of this command for kinds of errors.
    """
    try:
        yield
    except (RevFRFError, MemoryError) as error:
        kind = error.kind if isinstance(error, RevFRFError) else "memory"
        checked = isinstance(error, AuditLogError | CertificateError) and kind not in _NOTHING_CHECKED
        remedy = (remedies or {}).get(kind)
        reason = (str(error) or "not enough memory") + (f"; {remedy}" if remedy else "")
        if as_json:
            print_json({"holds": False if checked else None, "kind": kind, "reason": reason})
        absent = isinstance(error, PartyError) or kind in ("absent", "refused")
        fail(reason, NOT_VERIFIED if checked else NO_ANSWER if absent else WRONG_USAGE)
