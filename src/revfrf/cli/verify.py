"""Commands that check what others claim, offline: revocation certificates and audit logs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from revfrf.cli.console import Json, print_facts
from revfrf.cli.exits import NOT_VERIFIED, errors, fail, print_json
from revfrf.errors import UsageError

if TYPE_CHECKING:
    from revfrf.estimators.retraining import Retraining

app = typer.Typer()


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A revocation certificate.")],
    kgc_key: Annotated[Path, typer.Option("--kgc-key", metavar="FILE", help="The key centre's public key.")],
    retrain: Annotated[
        Path | None,
        typer.Option(
            metavar="FOREST",
            help="Also retrain without the leavers, and compare: a forest saved with private_keys=True.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help="With --retrain: the training rows in their order, CSV or Parquet."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --retrain: the table's label column.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a revocation certificate, offline.

    This needs the key centre's public key, and nothing else. It prints who left and how the forest changed,
    or which part of the certificate is invalid.

    With --retrain, a forest is trained without the leavers, and its digest is compared with the
    certificate's. The forest may have been saved before or after they left. The table needs no columns of
    the leavers. Empty fields are missing values. Class weights are in the saved forest. Sample weights given
    to `fit` are not, so a forest trained with them comes out different.

    Exit codes: 0 verified; 1 verification failed; 2 usage error or unreadable file.

    \b
    Examples:
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf verify bank-has-left.json --kgc-key kgc.pub \\
          --retrain forest.revfrf --data rows.csv --target label
    """
    from revfrf.io.public_key import load_verify_key
    from revfrf.protocols.certificate import RevocationCertificate, shown_by

    with errors(as_json):
        if retrain is not None and (data is None or target is None):
            raise UsageError("--retrain: give --data and --target, too")
        if retrain is None and (data is not None or target is not None):
            raise UsageError("--data and --target: only with --retrain")
        key = load_verify_key(kgc_key)
        found = RevocationCertificate.load(certificate)
        found.verify(key)
        facts = {**shown_by(found), "kgc_key": key.fingerprint}
        if retrain is not None and data is not None and target is not None:
            from revfrf.estimators import retraining

            compared = retraining.retrain(found, key, retrain, retraining.Table.read(data), target)
            _print_comparison(compared, as_json)
            return
    _print_verified("The revocation certificate is valid.", facts, as_json)


def _print_comparison(compared: "Retraining", as_json: bool) -> None:
    """Print whether retraining gives the certified forest. Ends with exit code 1 if not."""
    if as_json:
        print_json({"holds": compared.equal, **asdict(compared)})
    else:
        title = "The digests are equal." if compared.equal else "The digests are different."
        print_facts(title, asdict(compared))
    if not compared.equal:
        reason = "a forest trained on this table without the leavers has another digest than certified"
        if not compared.same_targets:
            reason += "; its labels and weights differ from those in the saved forest's leaves, too: "
            reason += "is it the table that the forest was trained on, and without sample weights?"
        fail(reason, NOT_VERIFIED)


def _print_verified(title: str, facts: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json({"holds": True, **facts})
    else:
        print_facts(title, facts)


@app.command("verify-log")
def verify_audit_log(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A party's audit log.")],
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="A hash that the log had at some time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a party's audit log, offline: every line must follow from the one before.

    Only a hash that was noted down elsewhere (`revfrf status` prints it) shows that no lines were cut off at
    the end: --head.

    Exit codes: 0 verified; 1 verification failed; 2 usage error or unreadable file.

    \b
    Example:
      revfrf verify-log bank/audit.log --head 7b123f02…
    """
    from revfrf.node.audit_log import verify_log

    with errors(as_json):
        facts = asdict(verify_log(log, head))
    _print_verified("The audit log is valid.", facts, as_json)
