"""Commands of a federation of separate processes: found, join, serve, train, test, predict, leave."""

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from revfrf.cli_printing import (
    AllowInsecure,
    Json,
    check_file,
    errors,
    print_facts,
    print_json,
    progress,
    quoted,
    show,
    write_file,
)
from revfrf.errors import UsageError

app = typer.Typer()

Directory = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="The party's directory.")]
Voting = Annotated[
    Literal["hard", "soft"],
    typer.Option(help="hard: a majority of the trees; soft: their mean probabilities."),
]
IdColumn = Annotated[str | None, typer.Option("--id-column", metavar="COLUMN", help="The column of ids.")]
REPLACED = "a file that is there is replaced."


@app.command()
def join(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="What KGC has sent; - reads it from standard input.")
    ],
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", metavar="DIR", help="By default, the party's name.")
    ] = None,
    allow_insecure: AllowInsecure = False,
    as_json: Json = False,
) -> None:
    """Make a party's keys and directory, offline. In a directory that has joined: a new certificate.

    \b
    Examples:
      revfrf join revfrf1-… -d bank
      revfrf join - -d bank < bank.token
    """
    from revfrf.names import REQUESTER
    from revfrf.node.home import CONFIG, join_federation
    from revfrf.transport.tls import MAX_TOKEN, Token

    with errors(as_json):
        text = sys.stdin.read(MAX_TOKEN).strip() if token == "-" else token  # noqa: S105
        home = directory or Path(Token.parse(text).who.name)
        renewed = (home / CONFIG).exists()
        who = join_federation(home, text, allow_insecure=allow_insecure)
    if as_json:
        print_json({"directory": str(home), "role": who.role, "name": who.name, "renewed": renewed})
    elif renewed:
        typer.echo(f"The certificate of {who} in {home} is renewed; its keys stay as they are.")
    elif who.role == REQUESTER:
        typer.echo(f"{home} is {who}. It asks, and runs only then: once there is a forest,")
        typer.echo(f"  revfrf predict --encrypted ROWS.csv -d {quoted(home)}")
    else:
        typer.echo(f"{home} is {who}. Next: look at {home / CONFIG}, then:")
        typer.echo(f"  revfrf serve -d {quoted(home)}")


@app.command()
def serve(
    directory: Directory = Path(),
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV or Parquet.")] = None,
    id_column: IdColumn = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="CS: the column of labels.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Answer only requests of these; repeat it.")
    ] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="CS: where to listen.")] = None,
    workers: Annotated[
        str | None, typer.Option(help="Cores, -1 for all; or a joblib backend like ray://HOST:PORT.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
) -> None:
    """Run the party whose directory this is, until Ctrl-C or SIGTERM.

    Whatever was under way when it ended goes on. Flags stand above the configuration file for this run.

    \b
    Example:
      revfrf serve -d bank --data customers.csv --id-column customer
    """
    from revfrf.config import with_overrides
    from revfrf.crypto.parallel import using_backend
    from revfrf.logs import set_up_logging
    from revfrf.node.home import Home
    from revfrf.node.services import service_of

    with errors(False):
        home = Home.open(directory)
        try:
            own = {"file": data, "id_column": id_column, "target": target, "accepts": policy or None}
            flags = {**own, "listen": listen, "log_format": log_format, **_workers(workers)}
            config = with_overrides(home.config, **flags)
            set_up_logging(config.log.level, config.log.format)
            with using_backend(config.work.backend, config.work.address, config.work.workers):
                service = service_of(home, config)
                service.stop_on_signals()
                service.run()
        finally:
            home.close()


def _workers(workers: str | None) -> dict[str, Any]:
    """`--workers 4`, `--workers ray://HOST:PORT`, or `--workers ray`."""
    if workers is None:
        return {}
    backend, found, _ = workers.partition("://")
    if found or backend in ("ray", "dask", "loky", "threading", "multiprocessing"):
        return {"backend": backend, "address": workers if found else ""}
    try:
        return {"workers": int(workers)}
    except ValueError:
        raise UsageError(
            f"--workers {workers}: give a number of cores, -1 for all, or a backend: ray, ray://HOST:PORT or "
            "dask://HOST:PORT"
        ) from None


# -- the coordinator --------------------------------------------------------------------------------


@app.command()
def train(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: grow the forest, or go on with it.

    First, the federation is set up, with everybody who is invited, and the rows are found that all have.
    Whoever is away is waited for. Ctrl-C ends the command, not the training.

    \b
    Example:
      revfrf train -d cs
    """
    with errors(as_json):
        result = ask_party(directory, "train", as_json)
    show("The forest is grown.", result, as_json)


@app.command("test")
def score(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Rows with labels, not trained on.")],
    directory: Directory = Path(),
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """CS: how good the forest is on rows with known labels.

    The file has ids and labels; the participants hold the rest of these rows.

    \b
    Example:
      revfrf test later.csv -d cs
    """
    with errors(as_json):
        result = ask_party(directory, "test", as_json, file=str(labels.absolute()), voting=voting)
    show("Tested.", result, as_json)


@app.command()
def predict(
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="CSV or Parquet.")],
    encrypted: Annotated[
        bool, typer.Option("--encrypted", help="The file has whole rows, which nobody else sees.")
    ] = False,
    directory: Directory = Path(),
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Write the answers here; {REPLACED}")
    ] = None,
    id_column: IdColumn = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="With --encrypted: go on if participants are away, with those trees that need none of them. "
            "Whoever refuses still ends it.",
        ),
    ] = False,
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """Answers of the forest.

    They are CSV or, with --json, JSON, on standard output or in a file. With --encrypted, in the directory of
    a requester or a participant: every value goes out encrypted, and the owners of the splits decide whether
    to answer. Without, in CS's directory: ids of rows that all participants hold.

    \b
    Examples:
      revfrf predict --encrypted rows.csv -d clinic
      revfrf predict ids.csv -d cs
    """
    with errors(as_json):
        if partial and not encrypted:
            raise UsageError("--partial: only with --encrypted; without it, all participants must be there")
        if out is not None:
            check_file(out)
            if out.exists() and rows.exists() and out.samefile(rows):
                raise UsageError(f"--out {out}: it would replace the rows; give another path")
        arguments: dict[str, Any] = {"file": str(rows.absolute()), "id_column": id_column, "voting": voting}
        if encrypted:
            arguments["partial"] = partial
        given = {name: value for name, value in arguments.items() if value is not None}
        result = ask_party(directory, "ask" if encrypted else "predict", as_json, **given)
        text = json.dumps(result, indent=2) + "\n" if as_json else _csv(result)
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_file(out, text)
        if result.get("absent"):
            typer.echo(f"without {', '.join(result['absent'])}", err=True)


def _csv(result: dict[str, Any]) -> str:
    from revfrf.datafile import write_csv

    file = io.StringIO(newline="")
    columns: dict[str, Any] = {
        name: result[name] for name in ("answers", "shares", "voted") if name in result
    }
    write_csv(file, result["ids"], columns)
    return file.getvalue()


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
    elif not result:
        typer.echo("Nobody has left.")
    for number, facts in enumerate(result if not as_json else ()):
        print_facts(f"Certificate {number}", facts)


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
        check_file(out)
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
        check_file(out)
        write_file(out, ask_party(directory, "report", as_json))
    if as_json:
        print_json({"file": str(out)})


# -- a participant, and everybody --------------------------------------------------------------------


@app.command()
def revoke(
    directory: Directory = Path(),
    level: Annotated[int, typer.Option(help="2: old copies of the forest die, too. 1: they do not.")] = 2,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return when KGC has the request, before this party is out.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Send nothing; write the request there, for `revfrf kgc accept`; {REPLACED}",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """A participant: leave the forest. It cannot be undone.

    The request goes to the key centre, sealed: the coordinator, who passes it on, can neither read nor change
    it. If it holds it back, bring the key centre the request by another way: --out. The forest is rebuilt
    without this party's columns, and the key centre signs a certificate.

    It waits until the coordinator lets this party in no more, and its process has ended. Ctrl-C ends the
    waiting; the request stands.

    \b
    Example:
      revfrf revoke -d bank
    """
    with errors(as_json):
        if level not in (1, 2):
            raise UsageError(f"--level {level}: give 1 or 2")
        if out is not None:
            check_file(out)
        if not yes and not _confirmed():
            raise typer.Exit(1)
        result = ask_party(directory, "revoke", as_json, level=level, send=out is None)
        title = "KGC has the request"
        if out is not None:
            write_file(out, result.pop("request") + "\n")
            title = f"The request is in {out}; KGC takes it by `revfrf kgc accept`"
        elif not no_wait:
            _wait_until_left(directory, as_json)
            title += ", and CS lets this party in no more: it has left"
    show(f"{title}.", result, as_json)


def _confirmed() -> bool:
    try:
        return typer.confirm("Leave the forest for good?")
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise UsageError("nobody is there to be asked; give --yes") from None
        raise


def _wait_until_left(directory: Path, quiet: bool) -> None:
    from revfrf.node.control import wait_until_left

    if not quiet:
        typer.echo("KGC has the request. Waiting until CS lets this party in no more …", err=True)
        typer.echo("Ctrl-C ends the waiting; the request stands.", err=True)
    with progress(quiet) as tell:
        tell({"step": "leaving"})
        wait_until_left(directory)


@app.command()
def status(directory: Directory = Path(), as_json: Json = False) -> None:
    """How the party is: who is connected, what is the trouble.

    \b
    Example:
      revfrf status -d cs
    """
    with errors(as_json):
        result = ask_party(directory, "status", as_json)
    show(f"{result['role']} {result['name']!r}", result, as_json)


def ask_party(directory: Path, verb: str, quiet: bool, **arguments: Any) -> Any:
    """See `node.services.ask_party`; with a line that says how far it is."""
    from revfrf.node import services

    with progress(quiet) as tell:
        return services.ask_party(directory.expanduser().absolute(), verb, arguments, tell)
