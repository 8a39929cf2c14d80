"""Commands for trying out: a whole federation on this machine, and the demo."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from revfrf.cli_federation import Directory
from revfrf.cli_printing import errors
from revfrf.errors import UsageError

app = typer.Typer()


@app.command()
def up(
    parties: Annotated[int, typer.Option(help="Hospitals, which share the columns of the data.")] = 5,
    directory: Directory = Path("federation"),
    key_bits: Annotated[int, typer.Option(help="Size of the keys.")] = 2048,
    allow_insecure: Annotated[bool, typer.Option(help="Accept keys below 2048 bits.")] = False,
    detach: Annotated[bool, typer.Option(help="Leave it running; `revfrf down` ends it.")] = False,
) -> None:
    """Start a whole federation as separate processes on this machine, for trying out.

    The first time, it is founded in the directory, with scikit-learn's breast-cancer data spread over the
    hospitals; after that, what is there is started again.
    """
    from revfrf.node.local import homes, make, start, stop

    with errors(False):
        if not homes(directory):
            make(directory, parties, key_bits, allow_insecure)
        start(directory, lambda line: typer.echo(line, err=True))
        typer.echo(_NEXT.format(d=directory))
        if not detach:
            try:
                signal.pause()
            except KeyboardInterrupt:
                typer.echo("stopping …", err=True)
            finally:
                stop(directory)


_NEXT = """\
All are connected. In another terminal:
  revfrf train -d {d}/cs
  revfrf test {d}/cs/test.csv -d {d}/cs
  revfrf predict --encrypted {d}/clinic/request.csv -d {d}/clinic
  revfrf revoke -d {d}/hospital-1
  revfrf status -d {d}/cs"""


@app.command()
def down(directory: Directory = Path("federation")) -> None:
    """End what `revfrf up --detach` has started."""
    from revfrf.node.local import stop

    with errors(False):
        typer.echo(f"{stop(directory)} processes have ended.")


@app.command()
def demo(
    key_bits: Annotated[int, typer.Option(help="Size of the keys.")] = 3072,
    trees: Annotated[int, typer.Option(help="Size of the forest.")] = 30,
    allow_insecure: Annotated[bool, typer.Option(help="Accept keys below 2048 bits.")] = False,
    page: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page about it.")] = Path(
        "five_hospitals.html"
    ),
) -> None:
    """The whole story in one process, in about a minute: train, ask, leave, prove."""
    from revfrf.demo import Options, Story

    with errors(False):
        try:
            Story(Options(key_bits, trees, allow_insecure, page)).tell()
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from None
        except ValueError as error:
            raise error if isinstance(error, UsageError) else UsageError(str(error)) from None
