"""The coordinator's commands: train, test, and what became of the forest."""

import json
from pathlib import Path
from typing import Annotated

import typer

from revfrf.cli.console import (
    REPLACED,
    Directory,
    Json,
    Voting,
    ask_party,
    errors,
    print_facts,
    print_json,
    say,
    show,
    write_file,
)
from revfrf.io.files import check_place

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
        result = ask_party(directory, "match", as_json)
    if as_json:
        print_json(result)
        return
    participants = result.pop("participants")
    print_facts("Rows of CS, and how many of them all have", result)
    typer.echo("Participants, in the order in which they were asked:")
    for name, facts in participants.items():
        has = f"{facts['columns']} columns, {facts['rows']:,} rows"
        typer.echo(f"  {name}: {has}; {facts['common']:,} rows of CS are left")


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
        given = {} if min_common is None else {"min_common": min_common}
        result = ask_party(directory, "train", as_json, **given)
    before = result["grown"] == "before"
    for name in result["changed"]:
        say(
            f"{name} in the configuration has changed since `train` was first called; one forest a federation"
        )
    if not as_json:
        del result["grown"], result["changed"]
    show("The forest was grown before." if before else "The forest is grown.", result, as_json)


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
        result = ask_party(directory, "test", as_json, file=str(labels.absolute()), voting=voting)
    show("Tested.", result, as_json)


@app.command()
def history(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: who has left, and what that did to the forest.

    \b
    Example:
      revfrf history -d cs
    """
    with errors(as_json):
        result = ask_party(directory, "history", as_json)
    if as_json:
        print_json(result)
    elif result:
        for number, facts in enumerate(result):
            print_facts(f"Certificate {number}", facts)
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
            text = json.dumps(ask_party(directory, "structure", as_json)) + "\n"
        else:
            text = ask_party(directory, "export", as_json, number=number)
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
        write_file(out, ask_party(directory, "report", as_json))
    if as_json:
        print_json({"file": str(out)})
