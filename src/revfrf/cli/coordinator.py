"""The coordinator's commands: match, train, test, history, export, report."""

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from revfrf.cli.console import ask_party, fact_lines, facts_of, print_done, show, write_file
from revfrf.cli.exits import NOT_VERIFIED, advising, say
from revfrf.cli.options import REPLACED, Directory, Json, Voting
from revfrf.io.files import check_place
from revfrf.node import api

OutFile = Annotated[Path, Argument(metavar="FILE", help=f"Where to write it; {REPLACED}")]


def match(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: count the rows shared by all participants.

    The federation is set up with everybody who is invited. The participants are asked which of CS's ids
    they hold. Nothing is settled: you can correct a table, restart `revfrf serve` and count again. `train`
    settles the rows for good.

    \b
    Example:
      revfrf match -d cs
    """
    result = ask_party(directory, api.Match(), as_json)
    counts = {"rows": result.rows, "shared": result.shared, "not_shared": result.not_shared}
    each = [
        f"  {found.party}: {found.columns} columns, {found.rows:,} rows; {found.shared:,} rows shared with CS"
        for found in result.participants
    ]
    print_done(as_json, facts_of(result), *fact_lines("Shared rows", counts), "Participants:", *each)


def train(
    directory: Directory = Path(),
    min_common: Annotated[
        float, Option(min=0, max=1, help="Abort if fewer than this fraction of CS's rows is shared by all.")
    ] = 0.5,
    as_json: Json = False,
) -> None:
    """CS: train the forest, or continue training.

    First, the federation is set up with everybody who is invited, and the shared rows are found: the forest
    uses these rows for its life. `revfrf match` counts them beforehand. Offline parties are waited for.
    Ctrl-C ends the command, not the training.

    \b
    Example:
      revfrf train -d cs
    """
    result = ask_party(directory, api.Train(min_common), as_json)
    for name in result.changed:
        say(f"{name} in the configuration has changed since the first `train`; a federation has one forest")
    title = "The forest is already trained." if result.existed else "The forest is trained."
    print_done(as_json, facts_of(result), *fact_lines(title, facts_of(result.forest)))


def score(
    labels: Annotated[Path, Argument(metavar="LABELS", help="Labelled rows, not trained on.")],
    directory: Directory = Path(),
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """CS: score the forest on labelled rows.

    The file has ids and labels; the participants hold the other columns of these rows. `trained_on` counts
    rows that the forest was trained on: the score of these says little.

    \b
    Example:
      revfrf test later.csv -d cs
    """
    same = "the id and label columns must have the same names as in CS's own table"
    with advising({"no-ids": same, "no-labels": same}, labels):
        result = ask_party(directory, api.Test(str(labels.absolute()), voting), as_json)
    show("Score", result, as_json)


def history(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: list the events of the forest: its creation, and who left.

    \b
    Example:
      revfrf history -d cs
    """
    result = ask_party(directory, api.History(), as_json)
    lines = [fact_lines(f"Event certificate {number}", facts) for number, facts in enumerate(result)]
    print_done(as_json, result, *(chain(*lines) if result else ["There is no forest yet."]))


def audit(
    directory: Directory = Path(),
    kgc_key: Annotated[
        Path | None, Option("--kgc-key", metavar="FILE", help="The key centre's public key; CS's by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """CS: check the forest against its certified inputs.

    The forest is grown a second time from the bins, labels and rules in CS's directory, and compared with
    the stored one and with what KGC has certified and the owners have signed. This also works on a copy of
    the directory where no process runs. Only forests of the shares protocol can be audited.

    Exit codes: 0 everything holds; 1 something does not; 2 usage error or unreadable directory.

    \b
    Example:
      revfrf audit -d cs --kgc-key kgc.pub
    """
    from revfrf.io.public_key import load_verify_key

    key = None if kgc_key is None else load_verify_key(kgc_key).raw
    found = ask_party(directory, api.AuditForest(key), as_json)
    outcome = {check: found.problems.get(check, "holds") for check in found.checks}
    facts = {**outcome, "digest": found.digest, "missing_receipts": found.missing_receipts}
    title = "The forest is the one that its inputs define." if found.holds else "The audit has failed."
    print_done(as_json, facts_of(found), *fact_lines(title, facts))
    if not found.holds:
        raise typer.Exit(NOT_VERIFIED)


def export(
    out: OutFile,
    directory: Directory = Path(),
    number: Annotated[
        int, Option(help="Which event certificate, numbered as in `history`; -1: the last.")
    ] = -1,
    forest: Annotated[
        bool, Option("--forest", help="Export the forest instead, as CS knows it, as JSON.")
    ] = False,
    as_json: Json = False,
) -> None:
    """CS: write an event certificate to a file, or the forest.

    `revfrf verify` checks the certificate. If a participant is leaving, the command waits until the forest
    is rebuilt. The exported forest has the owners and columns of all splits and the sums of the leaves. CS
    does not know the thresholds.

    \b
    Examples:
      revfrf export bank-has-left.json -d cs
      revfrf export forest.json -d cs --forest
    """
    _write(out, api.Structure() if forest else api.Export(number), directory, as_json)


def report(out: OutFile, directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: write an HTML page: who owns which splits, and the events.

    \b
    Example:
      revfrf report forest.html -d cs
    """
    _write(out, api.Report(), directory, as_json)


def _write(out: Path, request: api.Request[str], directory: Path, as_json: bool) -> None:
    check_place(out)
    write_file(out, ask_party(directory, request, as_json))
    print_done(as_json, {"file": str(out)})
