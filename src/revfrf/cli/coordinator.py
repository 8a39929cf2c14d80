"""The coordinator's commands: train, test, and what became of the forest."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from revfrf.cli.console import (
    REPLACED,
    Directory,
    Json,
    Voting,
    ask_party,
    errors,
    facts_of,
    print_facts,
    print_json,
    say,
    show,
    write_file,
)
from revfrf.io.files import check_place
from revfrf.node import api

app = typer.Typer()


@app.command()
def match(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: how many rows all have, before a forest is grown from them.

    The federation is set up, with everybody who is invited, and the participants are asked in turn, each
    about the ids that all before it have. Nothing is settled: correct a table, start `revfrf serve` again,
    and look again. `train` settles the rows for good.

    \b
    Example:
      revfrf match -d cs
    """
    with errors(as_json):
        result = ask_party(directory, api.Match(), as_json)
    if as_json:
        print_json(facts_of(result))
        return
    print_facts(
        "Shared rows", {"rows": result.rows, "shared": result.shared, "not_shared": result.not_shared}
    )
    typer.echo("Participants, in the order in which they were asked:")
    for found in result.participants:
        has = f"{found.columns} columns, {found.rows:,} rows"
        typer.echo(f"  {found.party}: {has}; {found.shared:,} rows still shared")


@app.command()
def train(
    directory: Directory = Path(),
    min_common: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Stop if all have less of CS's rows than this; 0.5 by default.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """CS: grow the forest, or go on with it.

    First, the federation is set up, with everybody who is invited, and the rows are found that all have: the
    forest knows no others for its life. `revfrf match` counts them beforehand. Whoever is away is waited for.
    Ctrl-C ends the command, not the training.

    \b
    Example:
      revfrf train -d cs
    """
    with errors(as_json):
        request = api.Train() if min_common is None else api.Train(min_common)
        result = ask_party(directory, request, as_json)
    for name in result.changed:
        say(
            f"{name} in the configuration has changed since `train` was first called; one forest a federation"
        )
    if as_json:
        print_json(facts_of(result))
    else:
        title = "The forest existed already." if result.existed else "The forest is trained."
        show(title, result.forest, False)


@app.command("test")
def score(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Rows with labels, not trained on.")],
    directory: Directory = Path(),
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """CS: how good the forest is on rows with known labels.

    The file has ids and labels; the participants hold the rest of these rows. `trained_on` counts those of
    them from which the forest was grown: of these it knows the labels, and its score says little.

    \b
    Example:
      revfrf test later.csv -d cs
    """
    same = "the columns of ids and labels are called as in the table that `serve` has read"
    with errors(as_json, {"no-ids": same, "no-labels": same}):
        result = ask_party(directory, api.Test(str(labels.absolute()), voting), as_json)
    show("Tested.", result, as_json)


@app.command()
def history(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: who has left, and what that did to the forest.

    \b
    Example:
      revfrf history -d cs
    """
    with errors(as_json):
        result = ask_party(directory, api.History(), as_json)
    if as_json:
        print_json([facts_of(revocation) for revocation in result])
    elif result:
        for number, revocation in enumerate(result):
            show(f"Certificate {number}", revocation, False)
    else:
        typer.echo("Nobody has left.")


@app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help=f"Where it goes; {REPLACED}")],
    directory: Directory = Path(),
    number: Annotated[
        int, typer.Option(help="Which certificate, as `history` numbers them; -1: the last.")
    ] = -1,
    forest: Annotated[
        bool, typer.Option("--forest", help="The forest instead, as CS knows it, as JSON.")
    ] = False,
    as_json: Json = False,
) -> None:
    """CS: a revocation certificate as a file; or the forest.

    `revfrf verify` checks the certificate. If somebody is leaving just now, it waits until the forest is
    whole again. The forest has owners and columns of all splits and the sums of the leaves. Where the cuts
    lie CS does not know.

    \b
    Examples:
      revfrf export bank-has-left.json -d cs
      revfrf export forest.json -d cs --forest
    """
    with errors(as_json):
        check_place(out)
        if forest:
            structure = ask_party(directory, api.Structure(), as_json)
            text = msgspec.json.encode(structure).decode() + "\n"
        else:
            text = ask_party(directory, api.Export(number), as_json)
        write_file(out, text)
    if as_json:
        print_json({"file": str(out)})


@app.command()
def report(
    out: Annotated[Path, typer.Argument(metavar="FILE", help=f"Where the page goes; {REPLACED}")],
    directory: Directory = Path(),
    as_json: Json = False,
) -> None:
    """CS: a page for browsers: who owns which splits, who has left.

    \b
    Example:
      revfrf report forest.html -d cs
    """
    with errors(as_json):
        check_place(out)
        write_file(out, ask_party(directory, api.Report(), as_json))
    if as_json:
        print_json({"file": str(out)})
