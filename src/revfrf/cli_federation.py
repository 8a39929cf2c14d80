"""Commands of a federation of separate processes: found, join, serve, train, test, predict, leave."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from revfrf.cli_printing import Json, errors, print_facts, print_json
from revfrf.errors import UsageError

app = typer.Typer()

Directory = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="The party's directory.")]
Voting = Annotated[
    Literal["hard", "soft"],
    typer.Option(help="hard: a majority of the trees; soft: their mean probabilities."),
]
IdColumn = Annotated[str | None, typer.Option("--id-column", metavar="COLUMN", help="The column of ids.")]


@app.command()
def join(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="What KGC has sent; - reads it from standard input.")
    ],
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", metavar="DIR", help="By default, the party's name.")
    ] = None,
    allow_insecure: Annotated[
        bool, typer.Option(help="For trying out: accept keys below 2048 bits.")
    ] = False,
) -> None:
    """Make a party's keys and directory, offline. In a directory that has joined: a new certificate.

    \b
    Example:
      revfrf join revfrf1-… -d bank
    """
    from revfrf.node.home import CONFIG, join_federation
    from revfrf.transport.tls import MAX_TOKEN, Token

    with errors(False):
        text = sys.stdin.read(MAX_TOKEN).strip() if token == "-" else token  # noqa: S105
        home = directory or Path(Token.parse(text).who.name)
        who = join_federation(home, text, allow_insecure=allow_insecure)
    typer.echo(
        f"{home} is {who.role} {who.name}. Next: look at {home / CONFIG}, then: revfrf serve -d {home}"
    )


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
        str | None, typer.Option(help="Cores, or a joblib backend like ray://HOST:PORT.")
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
            flags: dict[str, Any] = {
                "file": None if data is None else str(data),
                "id_column": id_column,
                "target": target,
            }
            flags |= {"accepts": policy or None, "listen": listen, "log_format": log_format}
            config = with_overrides(home.config, **flags, **_workers(workers))
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
    if found or backend.isalpha():
        return {"backend": backend, "address": workers if found else ""}
    try:
        return {"workers": int(workers)}
    except ValueError:
        raise UsageError(f"--workers {workers!r}: give a number, or a backend like ray://HOST:PORT") from None


# -- the coordinator --------------------------------------------------------------------------------


@app.command()
def train(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: set the federation up, find the common rows, and grow the forest; or go on with it."""
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
    """CS: how good the forest is on rows that the participants hold, and whose labels are in a file."""
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
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answers here.")] = None,
    id_column: IdColumn = None,
    partial: Annotated[bool, typer.Option(help="Answer without parties that are away or refuse.")] = False,
    voting: Voting = "hard",
    as_json: Json = False,
) -> None:
    """Answers of the forest, as CSV.

    With --encrypted, in the directory of a requester or a participant: every value goes out encrypted, and
    the owners of the splits decide whether to answer. Without, in CS's directory: ids of rows that all
    participants hold.

    \b
    Examples:
      revfrf predict --encrypted rows.csv -d clinic
      revfrf predict ids.csv -d cs
    """
    from revfrf.datafile import write_answers

    with errors(as_json):
        arguments: dict[str, Any] = {"file": str(rows.absolute()), "id_column": id_column, "voting": voting}
        if encrypted:
            arguments["partial"] = partial
        given = {name: value for name, value in arguments.items() if value is not None}
        result = ask_party(directory, "ask" if encrypted else "predict", as_json, **given)
        if as_json:
            print_json(result)
            return
        columns = {name: result[name] for name in ("answers", "shares", "voted") if name in result}
        write_answers(out or sys.stdout, result["ids"], columns)
        if result.get("absent"):
            typer.echo(f"without {', '.join(result['absent'])}", err=True)


@app.command()
def history(directory: Directory = Path(), as_json: Json = False) -> None:
    """CS: who has left, and what that did to the forest."""
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
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes.")],
    directory: Directory = Path(),
    number: Annotated[
        int, typer.Option(help="Which certificate, as `history` numbers them; -1: the last.")
    ] = -1,
    forest: Annotated[
        bool, typer.Option("--forest", help="The forest instead, as CS knows it, as JSON.")
    ] = False,
) -> None:
    """CS: a revocation certificate as a file, for `revfrf verify`; or the forest.

    The forest has owners and columns of all splits and the sums of the leaves. Where the cuts lie CS does not
    know.
    """
    from revfrf.certificate import RevocationCertificate

    with errors(False):
        if forest:
            _write(out, json.dumps(ask_party(directory, "structure", True)) + "\n")
        else:
            text = ask_party(directory, "export", True, number=number)
            RevocationCertificate.from_json(text.encode()).save(out)


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None


@app.command()
def report(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where the page goes.")],
    directory: Directory = Path(),
) -> None:
    """CS: a page about the forest that opens offline: who owns which splits, and who has left."""
    with errors(False):
        _write(out, ask_party(directory, "report", True))


# -- a participant, and everybody --------------------------------------------------------------------


@app.command()
def revoke(
    directory: Directory = Path(),
    level: Annotated[int, typer.Option(help="2: old copies of the forest die, too. 1: they do not.")] = 2,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the request there, for `revfrf kgc accept`.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """A participant: leave the forest. It cannot be undone.

    The request goes to the key centre, sealed: the coordinator, who passes it on, can neither read nor change
    it. If it holds it back, bring the key centre the request by another way: --out. The forest is rebuilt
    without this party's columns, and the key centre signs a certificate.
    """
    with errors(as_json):
        if level not in (1, 2):
            raise UsageError(f"--level {level}: give 1 or 2")
        if not yes and not typer.confirm("Leave the forest for good?"):
            raise typer.Exit(1)
        result = ask_party(directory, "revoke", as_json, level=level, send=out is None)
        if out is not None:
            _write(out, result.pop("request") + "\n")
    show("KGC has the request." if out is None else f"The request is in {out}.", result, as_json)


@app.command()
def status(directory: Directory = Path(), as_json: Json = False) -> None:
    """How the party is: its epoch, who is connected, the forest."""
    with errors(as_json):
        result = ask_party(directory, "status", as_json)
    show(f"{result['role']} {result['name']}", result, as_json)


def show(title: str, result: dict[str, Any], as_json: bool) -> None:
    """A result, for people or for programs."""
    if as_json:
        print_json(result)
    else:
        print_facts(title, result)


def ask_party(directory: Path, verb: str, quiet: bool, **arguments: Any) -> Any:
    """Ask the running process; a requester needs none, and asks by itself."""
    from revfrf.node.control import ask, runs
    from revfrf.node.home import CONTROL
    from revfrf.node.services import alone

    with _progress(quiet) as tell:
        if verb == "ask" and not runs(directory / CONTROL):
            return alone(directory, verb, arguments, tell)
        return ask(directory / CONTROL, verb, arguments, tell)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line on standard error that says how far it is."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("…", total=None)

        def tell(facts: dict[str, Any]) -> None:
            what = facts.get("step", "asking")
            rest = ", ".join(
                f"{name} {value}" for name, value in facts.items() if name not in ("step", "done")
            )
            done = facts.get("done")
            bar.update(
                task, description=f"{what} {rest}", total=None if done is None else 1.0, completed=done or 0
            )

        yield tell
