"""Commands for trying out: a whole federation on this machine, and the demo."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from revfrf.cli.console import REPLACED, AllowInsecure, Json, errors, print_json, quoted
from revfrf.errors import UsageError
from revfrf.io.files import check_place

app = typer.Typer()


@app.command()
def up(
    parties: Annotated[
        int | None,
        typer.Option(
            help="Hospitals, which share the columns of the data; 5 by default.", show_default=False
        ),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--directory", "-d", metavar="DIR", help="Where all parties' directories are.")
    ] = Path("federation"),
    key_bits: Annotated[int | None, typer.Option(help="Size of the keys; 2048 by default.")] = None,
    allow_insecure: AllowInsecure = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave it running; `revfrf down` ends it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a whole federation on this machine, for trying out.

    All parties are separate processes. The first time, it is founded in the directory, with scikit-learn's
    breast-cancer data spread over the hospitals; after that, what is there is started again. It runs until
    Ctrl-C, SIGTERM or until its terminal is closed, or with --detach until `revfrf down`.

    \b
    Examples:
      revfrf up
      revfrf up --detach --parties 3 -d tryout
    """
    from revfrf.node.sandbox import check, exists, make, start, staying, stop

    with errors(as_json):
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                signal.signal(number, signal.default_int_handler)
        if exists(directory):
            check(directory, parties, key_bits)
        else:
            make(directory, parties or 5, key_bits or 2048, allow_insecure)
        started = start(directory, lambda line: typer.echo(line, err=True))
        try:
            hospitals = staying(directory)
            if as_json:
                print_json({"directory": str(directory), "started": started, "hospitals": hospitals})
            else:
                typer.echo(_next(directory, hospitals, detach))
            while not detach:
                time.sleep(1)  # unlike `signal.pause`, it ends also after a signal that came just before it
        except KeyboardInterrupt:
            typer.echo("stopping …", err=True)
            detach = False
        finally:
            if not detach:
                stop(directory)


def _next(directory: Path, hospitals: list[str], detach: bool) -> str:
    """What can be done now."""
    cs, clinic, last = directory / "cs", directory / "clinic", directory / hospitals[-1]
    lines = [
        f"train -d {quoted(cs)}",
        f"test {quoted(cs / 'test.csv')} -d {quoted(cs)}",
        f"predict --encrypted {quoted(clinic / 'request.csv')} -d {quoted(clinic)}",
        f"status -d {quoted(cs)}",
    ]
    if len(hospitals) > 1:  # the last one cannot leave
        lines += [
            f"revoke -d {quoted(directory / hospitals[0])} --yes",
            f"export left.json -d {quoted(cs)}",
            f"verify left.json --kgc-key {quoted(last / 'kgc.pub')}",
        ]
    if detach:
        lines.append(f"down -d {quoted(directory)}")
    where = "Now" if detach else "In another terminal; Ctrl-C here ends it"
    return "\n".join([f"All are connected. {where}:", *(f"  revfrf {line}" for line in lines)])


@app.command()
def down(
    directory: Annotated[
        Path, typer.Option("--directory", "-d", metavar="DIR", help="The directory of `revfrf up`.")
    ] = Path("federation"),
    as_json: Json = False,
) -> None:
    """End all processes of a federation of `revfrf up`.

    \b
    Example:
      revfrf down
    """
    from revfrf.node.sandbox import stop

    with errors(as_json):
        ended = stop(directory)
    if as_json:
        print_json({"ended": ended})
    else:
        typer.echo(f"{ended} processes have ended.")


@app.command()
def demo(
    key_bits: Annotated[int, typer.Option(help="Size of the keys.")] = 3072,
    trees: Annotated[int, typer.Option(help="Size of the forest.")] = 30,
    allow_insecure: AllowInsecure = False,
    page: Annotated[
        Path, typer.Option(metavar="FILE", help=f"Where the page about it goes; {REPLACED}")
    ] = Path("five_hospitals.html"),
) -> None:
    """The whole story in a minute: train, ask, leave, prove.

    All parties are in one process.

    \b
    Example:
      revfrf demo --page story.html
    """
    with errors(False):
        check_place(page)
        from revfrf.cli.demo import Story  # scikit-learn takes seconds to load

        try:
            Story(key_bits, trees, allow_insecure, page).run()
        except ValueError as error:
            raise error if isinstance(error, UsageError) else UsageError(str(error)) from None
