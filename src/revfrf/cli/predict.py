"""Predict with the forest: at CS by id, or with encrypted rows."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from revfrf.cli.console import ask_party, facts_of, write_file
from revfrf.cli.exits import advising
from revfrf.cli.options import REPLACED, Directory, IdColumn, Json, Voting
from revfrf.errors import RevFRFError, UsageError
from revfrf.io.files import check_place
from revfrf.node import api


def predict(
    rows: Annotated[Path, Argument(metavar="ROWS", help="CSV or Parquet.")],
    encrypted: Annotated[
        bool, Option("--encrypted", help="The file has whole rows, which only this party sees.")
    ] = False,
    directory: Directory = Path(),
    out: Annotated[
        Path | None, Option(metavar="FILE", help=f"Write the predictions here; {REPLACED}")
    ] = None,
    id_column: IdColumn = None,
    partial: Annotated[
        bool, Option("--partial", help="With --encrypted: skip trees that need an offline participant.")
    ] = False,
    min_coverage: Annotated[
        float | None,
        Option(min=0, max=1, show_default="0.5", help="Fail if a smaller fraction of the trees voted."),
    ] = None,
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """Predict with the forest.

    Predictions are CSV or, with --json, JSON, on standard output or in a file. With --encrypted, use the
    directory of a requester or a participant: every value leaves it encrypted, and the owners of the splits
    decide whether to answer. Without --encrypted, use CS's directory: the file has ids of rows that all
    participants hold.

    \b
    Examples:
      revfrf predict --encrypted rows.csv -d clinic
      revfrf predict ids.csv -d cs
    """
    if partial and not encrypted:
        raise UsageError("--partial: only with --encrypted; without it, all participants are needed")
    if out is not None:
        check_place(out)
        if out.exists() and rows.exists() and out.samefile(rows):
            raise UsageError(f"--out {out} would replace the rows; give another path")
    file = str(rows.absolute())
    request: api.Request[api.Predictions] = api.Predict(file, id_column, voting)
    if encrypted:
        request = api.PredictEncrypted(file, id_column or "id", voting, partial)
    with advising({"no-ids": "give the id column with --id-column"}, rows):
        result = ask_party(directory, request, as_json)
    _check_coverage(result, 0.5 if min_coverage is None else min_coverage)
    text = json.dumps(facts_of(result), indent=2) + "\n" if as_json else _csv(result)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text)
    _report_gaps(result)


def _check_coverage(result: api.Predictions, least: float) -> None:
    """Raise RevFRFError if the coverage of a row is lower than this."""
    coverage = result.coverage or ()
    low = [fraction for fraction in coverage if fraction < least]
    if low:
        raise RevFRFError(
            f"{', '.join(result.offline)} offline: coverage below {least:.0%} for {len(low)} of "
            f"{len(coverage)} rows (lowest {min(low):.1%}); retry later, or lower --min-coverage",
            kind="absent",
        )


def _report_gaps(result: api.Predictions) -> None:
    """Print on standard error what the predictions lack."""
    if result.offline:
        lowest = min(result.coverage or (1.0,))
        typer.echo(f"{', '.join(result.offline)} offline: the lowest coverage is {lowest:.1%}", err=True)
    if result.not_shared:
        asked = len(result.ids) + result.not_shared
        typer.echo(f"{result.not_shared} of {asked} ids are not held by all participants", err=True)


def _csv(result: api.Predictions) -> str:
    from revfrf.io.party_data import csv_text

    every = {"prediction": result.prediction, "probability": result.probability, "coverage": result.coverage}
    columns = {name: values for name, values in every.items() if values is not None}
    named = result.id_column
    return csv_text(result.ids, columns, id_column="id" if named in columns else named)
