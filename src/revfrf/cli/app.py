"""The command line: it parses and prints; what it does is elsewhere.

Exit codes: 0 done, or it holds; 1 it does not; 2 wrong usage or files that cannot be read; 3 a party is away
or has refused; 70 a fault of RevFRF itself; 130 Ctrl-C; 141 nobody reads what is printed; 143 SIGTERM. An
error is one line on standard error.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import revfrf
from revfrf.cli import bench, coordinator, kgc, local, party
from revfrf.cli.console import DOES_NOT_HOLD, Json, Program, errors, fail, print_facts, print_json
from revfrf.errors import UsageError

app = typer.Typer(
    cls=Program,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_CERTIFICATE = typer.Argument(
    metavar="CERTIFICATE", help="The revocation certificate (JSON).", show_default=False
)
_KEY = typer.Option("--kgc-key", metavar="FILE", help="The key centre's public key.", show_default=False)


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

    Exit codes: 0 done, or it holds; 1 it does not hold; 2 wrong usage or unreadable files; 3 a party is away
    or has refused; 70 a fault of RevFRF itself; 130 Ctrl-C; 141 nobody reads what is printed; 143 SIGTERM.

    \b
    Examples:
      revfrf up --parties 5
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf audit bank-has-left.json --kgc-key kgc.pub \\
          --model forest.revfrf --data rows.csv --target label
    """


@app.command()
def verify(
    certificate: Annotated[Path | None, _CERTIFICATE] = None,
    kgc_key: Annotated[Path | None, _KEY] = None,
    log: Annotated[
        Path | None, typer.Option("--audit", metavar="LOG", help="A party's audit log.", show_default=False)
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="A hash that the log has had at some time.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a revocation certificate, or an audit log, offline.

    A certificate needs the key centre's public key, and nothing else. Says who left and what became of the
    forest, or which part does not hold. Of a log it says whether every line follows from the one before; that
    its end was not cut off, only a hash noted down elsewhere (`revfrf status`) can show: --head.

    Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.

    \b
    Examples:
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf verify --audit bank/audit.log --head 7b123f02…
    """
    from revfrf.io.public_key import load_verify_key
    from revfrf.node.audit_log import verify_log
    from revfrf.protocols.certificate import RevocationCertificate, shown_by

    with errors(as_json):
        if log is not None and certificate is None and kgc_key is None:
            title, facts = "The log holds.", asdict(verify_log(log, head))
        elif certificate is not None and kgc_key is not None and log is None and head is None:
            key = load_verify_key(kgc_key)
            found = RevocationCertificate.load(certificate)
            found.verify(key)
            title, facts = "The certificate holds.", {**shown_by(found), "kgc_key": key.fingerprint}
        else:
            raise UsageError("give a certificate and --kgc-key, or --audit and perhaps --head")
    if as_json:
        print_json({"holds": True, **facts})
    else:
        print_facts(title, facts)


@app.command()
def audit(
    certificate: Annotated[Path, _CERTIFICATE],
    kgc_key: Annotated[Path, _KEY],
    model: Annotated[
        Path,
        typer.Option(metavar="FOREST", help="The forest, saved with private_keys=True.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="TABLE", help="The training rows, in their order; CSV or Parquet.", show_default=False
        ),
    ],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The table's column of labels.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Train again without those who left, and compare.

    The digest of the forest that comes out is compared with the certificate's. The saved forest may have been
    saved before they left or after. The table is a CSV file in UTF-8 whose first line names the columns, or
    a Parquet file; it needs no columns of those who left. Empty fields are missing values.

    Class weights are in the saved forest. Sample weights given to `fit` are not: every row counts once here,
    so a forest that was trained with them comes out different.

    Exit codes: 0 the digests are equal, 1 they are not or the certificate does not hold, 2 wrong usage or
    unreadable files.

    \b
    Example:
      revfrf audit bank-has-left.json --kgc-key kgc.pub \\
          --model forest.revfrf --data rows.csv --target label
    """
    from revfrf.estimators import retraining as audits
    from revfrf.io.public_key import load_verify_key
    from revfrf.protocols.certificate import RevocationCertificate

    with errors(as_json):
        key = load_verify_key(kgc_key)
        found = RevocationCertificate.load(certificate)
        result = audits.audit(found, key, model, audits.Table.read(data).as_text(), target)
    facts = asdict(result)
    if as_json:
        print_json({"holds": result.equal, **facts})
    else:
        title = "The digests are equal." if result.equal else "The digests are different."
        print_facts(title, facts)
    if not result.equal:
        why = "the certificate's digest is not that of a forest trained on this table without those who left"
        if not result.same_targets:
            why += "; its labels and weights do not add up to those in the saved forest's leaves, either: "
            why += "is it the table that the forest was trained on, and without sample weights?"
        fail(why, DOES_NOT_HOLD)


for commands in (party, coordinator, local):
    app.registered_commands += commands.app.registered_commands
app.add_typer(kgc.app, name="kgc")
app.add_typer(bench.app, name="bench")
