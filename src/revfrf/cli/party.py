"""Commands of a party of a federation of separate processes: join, serve, predict, leave."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from revfrf.cli.console import (
    REPLACED,
    AllowInsecure,
    Directory,
    Json,
    Voting,
    ask_party,
    errors,
    facts_of,
    print_json,
    progress,
    quoted,
    show,
    write_file,
)
from revfrf.errors import RevFRFError, UsageError
from revfrf.io.files import check_place
from revfrf.node import api

app = typer.Typer()

_OWN_TABLE = {
    "no-table": "put the table there, give --data FILE, or set `file` in [data] of revfrf.toml",
    "no-ids": "give the column of ids with --id-column, or as `id_column` in [data]",
    "no-labels": "give the column of labels with --target, or as `target` in [data]",
}
IdColumn = Annotated[str | None, typer.Option("--id-column", metavar="COLUMN", help="The column of ids.")]


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
    from revfrf.node.home import CONFIG
    from revfrf.node.invitations import join_federation
    from revfrf.transport.tls import MAX_TOKEN, Token

    with errors(as_json):
        if len(token) < 250 and Path(token).is_file():
            raise UsageError(f"{token} is a file; have it read: revfrf join - < {quoted(Path(token))}")
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
    task: Annotated[str | None, typer.Option(metavar="classes|numbers", help="CS: what labels are.")] = None,
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

    Whatever was under way when it ended goes on. Flags override the configuration file, for
    this run.

    \b
    Example:
      revfrf serve -d bank --data customers.csv --id-column customer
    """
    from revfrf.node.config import with_overrides
    from revfrf.node.home import Home
    from revfrf.node.logs import set_up_logging
    from revfrf.node.roles import service_of
    from revfrf.parallel import using_backend

    with errors(False, _OWN_TABLE):
        home = Home.open(directory)
        try:
            own = {"file": data, "id_column": id_column, "target": target, "task": task}
            flags = {
                **own,
                "accepts": policy or None,
                "listen": listen,
                "log_format": log_format,
                **_workers(workers),
            }
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
    min_coverage: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="FRACTION",
            help="With --partial: fail if the coverage of a row is lower (default 0.5). Coverage is the "
            "fraction of trees that voted.",
            show_default=False,
        ),
    ] = None,
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
    with errors(as_json, {"no-ids": "give the column of ids with --id-column"}):
        if partial and not encrypted:
            raise UsageError("--partial: only with --encrypted; without it, all participants must be there")
        if min_coverage is not None and not partial:
            raise UsageError("--min-coverage: only with --partial; without it, all trees vote")
        if out is not None:
            check_place(out)
            if out.exists() and rows.exists() and out.samefile(rows):
                raise UsageError(f"--out {out}: it would replace the rows; give another path")
        file = str(rows.absolute())
        request: api.Request[api.Predictions] = api.Predict(file, id_column, voting)
        if encrypted:
            request = api.PredictEncrypted(file, id_column or "id", voting, partial)
        result = ask_party(directory, request, as_json)
        _check_coverage(result, 0.5 if min_coverage is None else min_coverage)
        text = json.dumps(facts_of(result), indent=2) + "\n" if as_json else _csv(result)
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_file(out, text)
        _explain_gaps(result)


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


def _explain_gaps(result: api.Predictions) -> None:
    """Say on standard error what is missing from predictions."""
    if result.offline:
        lowest = min(result.coverage or (1.0,))
        typer.echo(f"{', '.join(result.offline)} offline: the lowest coverage is {lowest:.1%}", err=True)
    if result.not_shared:
        asked = len(result.ids) + result.not_shared
        typer.echo(f"{result.not_shared} of {asked} ids are not held by all participants", err=True)


def _csv(result: api.Predictions) -> str:
    from revfrf.io.party_data import csv_text

    every = {
        "prediction": result.prediction,
        "probability": result.probability,
        "coverage": result.coverage,
    }
    columns = {name: values for name, values in every.items() if values is not None}
    named = result.id_column
    return csv_text(result.ids, columns, id_column="id" if named in columns else named)


@app.command()
def revoke(
    directory: Directory = Path(),
    level: Annotated[
        int,
        typer.Option(
            min=1,
            max=2,
            help="2: also replace all keys, so that old copies of the forest are useless. 1: keep the keys.",
        ),
    ] = 2,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="Return when KGC has the request, before this party is out; keep its process running.",
        ),
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

    It waits until the coordinator no longer accepts this party, and its process has ended. Ctrl-C ends the
    waiting; the request stands. Keep the process running until then: if another participant is leaving just
    now, the forest is still rebuilt with this one first.

    \b
    Example:
      revfrf revoke -d bank
    """
    with errors(as_json):
        if out is not None:
            check_place(out)
        if not yes and not _confirmed():
            raise typer.Exit(1)
        wanted: api.RevocationLevel = 2 if level == 2 else 1
        if out is not None:
            signed = ask_party(directory, api.SignRevocation(wanted), as_json)
            write_file(out, f"{signed.request}\n")
            result, title = signed.departure, f"The request is in {out}; KGC takes it by `revfrf kgc accept`"
        else:
            result, title = ask_party(directory, api.Revoke(wanted), as_json), "KGC has the request"
            if not no_wait:
                _wait_until_left(directory, as_json)
                title += ", and CS no longer accepts this party: it has left"
    show(f"{title}.", result, as_json)


def _confirmed() -> bool:
    try:
        return typer.confirm("Leave the forest for good?", err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise UsageError("nobody is there to be asked; give --yes") from None
        raise


def _wait_until_left(directory: Path, quiet: bool) -> None:
    from revfrf.node.home import wait_until_left

    if not quiet:
        typer.echo("KGC has the request. Waiting until CS no longer accepts this party …", err=True)
        typer.echo("Ctrl-C ends the waiting; the request stands.", err=True)
    with progress(quiet) as on_progress:
        on_progress(api.Progress("leaving"))
        wait_until_left(directory)


@app.command()
def status(directory: Directory = Path(), as_json: Json = False) -> None:
    """How the party is: who is connected, and any problem.

    \b
    Example:
      revfrf status -d cs
    """
    with errors(as_json):
        result = ask_party(directory, api.Status(), as_json)
    show(f"{result.role} {result.name!r}", result, as_json)
