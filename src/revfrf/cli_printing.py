"""How commands print, and how they end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from revfrf.errors import AuditLogError, CertificateError, PartyError, RevFRFError

DOES_NOT_HOLD = 1
WRONG_USAGE = 2
NO_ANSWER = 3

_UNREADABLE = ("missing", "io", "malformed", "version")
"""Kinds of CertificateError that say nothing of what a certificate proves."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_facts(title: str, facts: dict[str, Any]) -> None:
    """Facts in two columns; a long one runs on, so that a digest stays in one piece."""
    console, width = Console(), max(map(len, facts))
    console.print(Text(title, style="bold"))
    for name, value in facts.items():
        label = Text(name.replace("_", " ").ljust(width + 2), style="dim")
        console.print(label + Text(_shown(value)), soft_wrap=True)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{_shown(name)}: {_shown(x)}" for name, x in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    """Text that can do nothing to a terminal: what does not print is escaped."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


def print_json(value: Any) -> None:
    """JSON, for programs."""
    typer.echo(json.dumps(value, indent=2))


def fail(reason: str, code: int) -> None:
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
