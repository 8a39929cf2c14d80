"""Commands that check what others claim, offline: event certificates and audit logs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from revfrf.cli.console import fact_lines, print_done
from revfrf.cli.exits import NOT_VERIFIED, say
from revfrf.cli.options import Json
from revfrf.errors import UsageError


def verify(
    certificate: Annotated[Path, Argument(metavar="CERTIFICATE", help="An event certificate.")],
    kgc_key: Annotated[Path, Option("--kgc-key", metavar="FILE", help="The key centre's public key.")],
    retrain: Annotated[
        Path | None,
        Option(metavar="FOREST", help="Retrain this forest, saved with private_keys=True, and compare."),
    ] = None,
    data: Annotated[
        Path | None, Option(metavar="TABLE", help="With --retrain: the training rows in their order.")
    ] = None,
    target: Annotated[
        str | None, Option(metavar="COLUMN", help="With --retrain: the table's label column.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify an event certificate, offline.

    This needs the key centre's public key, and nothing else. It prints what happened to the forest, and who
    has not signed for it yet, or which part of the certificate is invalid.

    With --retrain, the forest is trained again from a table, and its digest is compared with the
    certificate's. Save the forest after the event, and before the next: the certificate's digest is salted,
    and the salt goes with the next event. The table needs no columns of those who have left. Empty fields are
    missing values. Class weights are in the saved forest. Sample weights given to `fit` are not, so a forest
    trained with them comes out different.

    Exit codes: 0 verified; 1 verification failed; 2 usage error or unreadable file.

    \b
    Examples:
      revfrf verify bank-has-left.json --kgc-key kgc.pub
      revfrf verify bank-has-left.json --kgc-key kgc.pub \\
          --retrain forest.revfrf --data rows.csv --target label
    """
    from revfrf.io.public_key import load_verify_key
    from revfrf.protocols.certificate import EventCertificate, shown_by

    if len({given is None for given in (retrain, data, target)}) > 1:
        raise UsageError("--retrain, --data and --target: give all three, or none")
    key = load_verify_key(kgc_key)
    found = EventCertificate.load(certificate)
    found.verify(key)
    if retrain is not None and data is not None and target is not None:
        from revfrf.estimators import retraining

        compared = retraining.retrain(found, key, retrain, retraining.Table.read(data), target)
        title = f"The digests are {'equal' if compared.equal else 'different'}."
        facts = asdict(compared)
        print_done(as_json, {"holds": compared.equal, **facts}, *fact_lines(title, facts))
        if not compared.equal:
            reason = "a forest trained on this table has another digest than certified"
            if not compared.same_targets:
                reason += "; its labels and weights differ from those in the saved forest's leaves, too: "
                reason += "is it the table that the forest was trained on, and without sample weights?"
            say(reason)
            raise typer.Exit(NOT_VERIFIED)
    else:
        facts = {**shown_by(found), "kgc_key": key.fingerprint}
        lines = fact_lines("The event certificate is valid.", facts)
        print_done(as_json, {"holds": True, **facts}, *lines)


def verify_log(
    log: Annotated[Path, Argument(metavar="LOG", help="A party's audit log.")],
    head: Annotated[str | None, Option(metavar="HASH", help="A hash that the log had at some time.")] = None,
    as_json: Json = False,
) -> None:
    """Verify a party's audit log, offline.

    Every line must follow from the one before. That no lines were cut off at the end is shown only by --head,
    a hash that was noted down elsewhere: `revfrf status` prints it.

    Exit codes: 0 verified; 1 verification failed; 2 usage error or unreadable file.

    \b
    Example:
      revfrf verify-log bank/audit.log --head 7b123f02…
    """
    from revfrf.node import audit_log

    facts = asdict(audit_log.verify_log(log, head))
    print_done(as_json, {"holds": True, **facts}, *fact_lines("The audit log is valid.", facts))
