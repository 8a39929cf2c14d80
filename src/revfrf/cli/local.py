"""Commands for trying it out: a whole federation on this machine, and the demo."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from revfrf.cli.console import print_done, quoted
from revfrf.cli.options import REPLACED, AllowInsecure, Json
from revfrf.io.files import check_place

FederationDirectory = Annotated[
    Path, Option("--directory", "-d", metavar="DIR", help="The directory of all parties' directories.")
]


def up(
    parties: Annotated[
        int | None, Option(help="Hospitals, which share the columns of the data (default 5).")
    ] = None,
    directory: FederationDirectory = Path("federation"),
    key_bits: Annotated[int | None, Option(help="Size of the keys (default 2048).")] = None,
    allow_insecure: AllowInsecure = False,
    detach: Annotated[
        bool, Option("--detach", help="Run in the background; `revfrf down` stops it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a whole federation on this machine, for trying it out.

    Every party is a process. The first time, the federation is created in the directory, with scikit-learn's
    breast-cancer data spread over the hospitals. Later, what is there is started again. It runs until Ctrl-C,
    SIGTERM, until its terminal is closed, or until `revfrf down`; with --detach, until `revfrf down`.

    \b
    Examples:
      revfrf up
      revfrf up --detach --parties 3 -d tryout
    """
    from revfrf.node.sandbox import check, exists, make, running, start, staying, stop

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores it
            signal.signal(number, signal.default_int_handler)
    if exists(directory):
        check(directory, parties, key_bits)
    else:
        bits = 2048 if key_bits is None else key_bits
        make(directory, 5 if parties is None else parties, bits, allow_insecure)
    started = start(directory, lambda line: typer.echo(line, err=True))
    try:
        hospitals = staying(directory)
        facts = {"directory": str(directory), "started": started, "hospitals": hospitals}
        print_done(as_json, facts, *_next_commands(directory, hospitals, detach))
        while not detach and running(directory):
            time.sleep(1)  # unlike `signal.pause`, it also ends after a signal that came just before
        if not detach:
            typer.echo("all processes have stopped", err=True)
    except KeyboardInterrupt:
        typer.echo("stopping …", err=True)
        detach = False
    finally:
        if not detach:
            stop(directory)


def _next_commands(directory: Path, hospitals: list[str], detach: bool) -> list[str]:
    """Return lines that suggest what to do now."""
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
    where = "Now" if detach else "In another terminal (Ctrl-C here stops it)"
    return [f"All are connected. {where}:", *(f"  revfrf {line}" for line in lines)]


def down(directory: FederationDirectory = Path("federation"), as_json: Json = False) -> None:
    """Stop all processes of a federation of `revfrf up`.

    \b
    Example:
      revfrf down
    """
    from revfrf.node.sandbox import stop

    ended = stop(directory)
    print_done(as_json, {"ended": ended}, f"Stopped {ended} processes.")


def demo(
    key_bits: Annotated[int, Option(help="Size of the keys.")] = 3072,
    trees: Annotated[int, Option(min=1, help="Number of trees.")] = 30,
    allow_insecure: AllowInsecure = False,
    page: Annotated[
        Path, Option(metavar="FILE", help=f"Where to write the page about it; {REPLACED}")
    ] = Path("five_hospitals.html"),
) -> None:
    """Show everything in a minute: train, predict, leave, verify.

    All parties are in one process.

    \b
    Example:
      revfrf demo --page story.html
    """
    check_place(page)
    from revfrf.crypto.dtpkc.keys import check_sizes

    check_sizes(key_bits, None, allow_insecure)
    from revfrf.cli.demo import Story  # scikit-learn takes seconds to load

    Story(key_bits, trees, allow_insecure, page).run()
