"""Commands of every party: join, serve, status; and a participant's revoke."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer import Argument, Option

from revfrf.cli.console import ask_party, print_done, progress, quoted, show, write_file
from revfrf.cli.exits import advising
from revfrf.cli.options import REPLACED, AllowInsecure, Directory, IdColumn, Json
from revfrf.errors import UsageError
from revfrf.io.files import check_place
from revfrf.node import api

_OWN_TABLE = {
    "no-table": "put the table there, give --data FILE, or set `file` in [data] of revfrf.toml",
    "no-ids": "give the id column with --id-column, or as `id_column` in [data]",
    "no-labels": "give the label column with --target, or as `target` in [data]",
}


def join(
    token: Annotated[str, Argument(metavar="TOKEN", help="From KGC; - reads standard input.")],
    directory: Annotated[
        Path | None, Option("--directory", "-d", metavar="DIR", help="Default: the party's name.")
    ] = None,
    allow_insecure: AllowInsecure = False,
    as_json: Json = False,
) -> None:
    """Create a party's keys and directory, offline. If it has joined before: renew its TLS certificate.

    \b
    Examples:
      revfrf join revfrf1-… -d bank
      revfrf join - -d bank < bank.token
    """
    from revfrf.names import REQUESTER
    from revfrf.node.home import CONFIG
    from revfrf.node.invitations import join_federation
    from revfrf.transport.join_token import MAX_TOKEN, Token

    if len(token) < 250 and Path(token).is_file():
        raise UsageError(f"{token} is a file; use: revfrf join - < {quoted(Path(token))}")
    text = sys.stdin.read(MAX_TOKEN).strip() if token == "-" else token  # noqa: S105
    home = directory or Path(Token.parse(text).who.name)
    renewed = (home / CONFIG).exists()
    who = join_federation(home, text, allow_insecure=allow_insecure)
    if renewed:
        lines = [f"The TLS certificate of {who} in {home} is renewed; its keys are unchanged."]
    elif who.role == REQUESTER:
        lines = [f"{home} is {who}. It needs no running process. Once there is a forest:"]
        lines += [f"  revfrf predict --encrypted ROWS.csv -d {quoted(home)}"]
    else:
        lines = [f"{home} is {who}. Next: check {home / CONFIG}, then:", f"  revfrf serve -d {quoted(home)}"]
    facts = {"directory": str(home), "role": who.role, "name": who.name, "renewed": renewed}
    print_done(as_json, facts, *lines)


def serve(
    directory: Directory = Path(),
    data: Annotated[Path | None, Option(metavar="FILE", help="The table: CSV or Parquet.")] = None,
    id_column: IdColumn = None,
    target: Annotated[str | None, Option(metavar="COLUMN", help="CS: the label column.")] = None,
    task: Annotated[str | None, Option(help="CS: the labels are classes or numbers.")] = None,
    policy: Annotated[list[str] | None, Option(help="Answer only this requester; repeatable.")] = None,
    listen: Annotated[str | None, Option(metavar="HOST:PORT", help="CS: the address.")] = None,
    workers: Annotated[str | None, Option(help="Cores, -1 for all, or like ray://HOST:PORT.")] = None,
    log_format: Annotated[str | None, Option(help="text or json.")] = None,
) -> None:
    """Run a party, until Ctrl-C or SIGTERM.

    Interrupted work continues. Flags override the configuration file for this run.

    \b
    Example:
      revfrf serve -d bank --data customers.csv --id-column customer
    """
    from revfrf.node.config import with_overrides
    from revfrf.node.home import Home
    from revfrf.node.logs import set_up_logging
    from revfrf.node.roles import service_of
    from revfrf.parallel import using_backend

    flags: dict[str, Any] = {"file": data, "id_column": id_column, "target": target, "task": task}
    flags |= {"listen": listen, "accepts": policy or None, "log_format": log_format, **_workers(workers)}
    with advising(_OWN_TABLE), closing(Home.open(directory)) as home:
        config = with_overrides(home.config, **flags)
        set_up_logging(config.log.level, config.log.format)
        with using_backend(config.work.backend, config.work.address, config.work.workers):
            service = service_of(home, config)
            service.stop_on_signals()
            service.run()


def _workers(workers: str | None) -> dict[str, Any]:
    """Return the settings of `--workers 4`, `--workers ray://HOST:PORT`, or `--workers ray`."""
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


def status(directory: Directory = Path(), as_json: Json = False) -> None:
    """Show the party's status: connected peers and current problems.

    \b
    Example:
      revfrf status -d cs
    """
    result = ask_party(directory, api.Status(), as_json)
    show(f"{result.role} {result.name!r}", result, as_json)


def revoke(
    directory: Directory = Path(),
    level: Annotated[
        int,
        Option(
            min=1,
            max=2,
            help="2: also collect receipts and, with the paper protocol, renew all keys; 1: do not.",
        ),
    ] = 2,
    yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False,
    no_wait: Annotated[
        bool, Option("--no-wait", help="Return once KGC has the request; keep the process running.")
    ] = False,
    out: Annotated[
        Path | None, Option(metavar="FILE", help=f"Write the request to a file, for `kgc accept`; {REPLACED}")
    ] = None,
    as_json: Json = False,
) -> None:
    """Participant: leave the forest. This cannot be undone.

    The request goes to the key centre through the coordinator, which can neither read nor change it. If the
    coordinator holds it back, take the request to the key centre another way: --out. The forest is rebuilt
    without this party's columns, and the key centre signs an event certificate.

    The command waits until the coordinator no longer accepts this party and its process has ended. Ctrl-C
    ends only the waiting; the request remains valid. Keep the process running until then: if another
    participant is leaving, the forest is first rebuilt with this one.

    \b
    Example:
      revfrf revoke -d bank
    """
    if out is not None:
        check_place(out)
    if not yes and not _confirmed():
        raise typer.Exit(1)
    title = "KGC has the request."
    result = ask_party(directory, api.Revoke(2 if level == 2 else 1, send=out is None), as_json)
    if out is not None:
        write_file(out, f"{result.request}\n")
        title = f"The request is in {out}; take it to `revfrf kgc accept`."
    elif not no_wait:
        from revfrf.node.home import wait_until_left

        if not as_json:
            typer.echo("KGC has the request. Waiting until CS no longer accepts this party …", err=True)
            typer.echo("Ctrl-C ends the waiting; the request remains valid.", err=True)
        with progress(as_json) as on_progress:
            on_progress(api.Progress("leaving"))
            wait_until_left(directory)
        title = "KGC has the request, and CS no longer accepts this party: it has left."
    show(title, msgspec.structs.replace(result, request=""), as_json)


def _confirmed() -> bool:
    try:
        return typer.confirm("Leave the forest for good?", err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise UsageError("cannot ask for confirmation without a terminal; give --yes") from None
        raise
