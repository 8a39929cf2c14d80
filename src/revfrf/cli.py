"""The command line: it parses and prints; what it does is elsewhere.

Exit codes: 0 it holds, 1 it does not, 2 wrong usage or files that cannot be read. An error is one line on
standard error.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import revfrf
from revfrf.certificate import RevocationCertificate
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import CertificateError, RevFRFError
from revfrf.publickey import load_verify_key

DOES_NOT_HOLD = 1
WRONG_USAGE = 2

_UNREADABLE = ("missing", "io", "malformed", "version")
"""Kinds of CertificateError that say nothing of what a certificate proves."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CertificateFile = Annotated[
    Path, typer.Argument(metavar="CERTIFICATE", help="The revocation certificate (JSON).", show_default=False)
]
KeyFile = Annotated[
    Path,
    typer.Option("--kgc-key", metavar="FILE", help="The key centre's public key.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"revfrf {revfrf.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """RevFRF: random forests that their participants can leave, provably.

    Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.

    \b
    Examples:
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf audit bank-has-left.json --kgc-key kgc.pub \\
          --model forest.revfrf --data rows.csv --target label
    """


@app.command()
def verify(certificate: CertificateFile, kgc_key: KeyFile, as_json: Json = False) -> None:
    """Check a revocation certificate, offline.

    Needs the certificate and the key centre's public key, and nothing else. Says who left and what became of
    the forest, or which part does not hold.

    Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.

    \b
    Examples:
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf verify bank-has-left.json --kgc-key kgc.pub --json
    """
    with _errors(as_json):
        key = load_verify_key(kgc_key)
        found = RevocationCertificate.load(certificate)
        found.verify(key)
    facts = _facts(found, key)
    if as_json:
        _print_json({"holds": True, **facts})
    else:
        _print("The certificate holds.", facts)


@app.command()
def audit(
    certificate: CertificateFile,
    kgc_key: KeyFile,
    model: Annotated[
        Path,
        typer.Option(metavar="FOREST", help="The forest, saved with private_keys=True.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Option(metavar="TABLE.csv", help="The training rows, in their order.", show_default=False),
    ],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The table's column of labels.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Train again without those who left, and compare with the certificate.

    The forest may have been saved before they left or after. The table is a CSV file in UTF-8 whose first
    line names the columns; it needs no columns of those who left. Empty fields are missing values.

    Class weights are in the saved forest. Sample weights given to `fit` are not: every row counts once here,
    so a forest that was trained with them comes out different.

    Exit codes: 0 the digests are equal, 1 they are not or the certificate does not hold, 2 wrong usage or
    unreadable files.

    \b
    Example:
      revfrf audit bank-has-left.json --kgc-key kgc.pub \\
          --model forest.revfrf --data rows.csv --target label
    """
    from revfrf import audit as audits  # scikit-learn takes seconds to load, and `verify` does without

    with _errors(as_json):
        key = load_verify_key(kgc_key)
        found = RevocationCertificate.load(certificate)
        result = audits.audit(found, key, model, audits.Table.read(data), target)
    facts = asdict(result)
    if as_json:
        _print_json({"holds": result.equal, **facts})
    else:
        title = "The digests are equal." if result.equal else "The digests are different."
        _print(title, facts)
    if not result.equal:
        why = "the certificate's digest is not that of a forest trained on this table without those who left"
        if not result.same_targets:
            why += "; its labels and weights do not add up to those in the saved forest's leaves, either: "
            why += "is it the table that the forest was trained on, and without sample weights?"
        _fail(why, DOES_NOT_HOLD)


# -- what is said of a certificate ------------------------------------------------------------------


def _facts(certificate: RevocationCertificate, key: VerifyKey) -> dict[str, Any]:
    """What a certificate shows, as plain values."""
    c, report = certificate, certificate.report
    return {
        "federation": c.epoch_after.federation,
        "forest": report.forest.hex(),
        "leavers": list(c.leavers),
        "asked": {request.party: _time(request.time) for request in c.requests},
        "level": c.level,
        "epoch": c.epoch_after.epoch,
        "members": [member.name for member in c.epoch_after.members],
        "digest_before": report.digest_before,
        "digest_after": report.digest_after,
        "nodes_destroyed": report.destroyed,
        "nodes_rebuilt": report.rebuilt,
        "nodes_kept": report.kept,
        "receipts": [receipt.party for receipt in c.receipts],
        "kgc_key": key.fingerprint,
    }


def _time(seconds: int) -> str:
    """A time that a party claims, which may be any."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} seconds after 1970"


# -- printing ---------------------------------------------------------------------------------------


def _print(title: str, facts: dict[str, Any]) -> None:
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


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2))


def _fail(reason: str, code: int) -> None:
    typer.echo(f"revfrf: {_one_line(reason)}", err=True)
    raise typer.Exit(code)


@contextmanager
def _errors(as_json: bool) -> Iterator[None]:
    """Errors as one line and an exit code; in JSON, `holds` is null if nothing could be checked."""
    try:
        yield
    except (RevFRFError, MemoryError) as error:
        kind = error.kind if isinstance(error, RevFRFError) else "memory"
        checked = isinstance(error, CertificateError) and kind not in _UNREADABLE
        reason = str(error) or "there is not enough memory"
        if as_json:
            _print_json({"holds": False if checked else None, "kind": kind, "reason": reason})
        _fail(reason, DOES_NOT_HOLD if checked else WRONG_USAGE)
