"""The benchmarks' commands: `python -m benchmarks`, from the root of the repository."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from revfrf.cli.exits import Program
from revfrf.errors import UsageError

app = typer.Typer(
    cls=Program,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Run benchmarks: the paper's evaluation, and single operations.",
)


@app.command("paper")
def paper(
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes instead of an hour: fewer rows, trees and repetitions.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The nine data sets (default: $REVFRF_DATA).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where to write results.", show_default="bench-paper-full, or -quick"
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPERIMENT", help="Run only this one; repeatable.", show_default=False),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ignore cached results and run everything again.")
    ] = False,
) -> None:
    """Reproduce every table and figure of the paper's evaluation, beside the printed values.

    Writes JSON for each experiment and one page, report.html. It can be interrupted: the same command
    continues. Experiments: classification, regression, growth, comparison, theory,
    efficiency, rebuilding.

    \b
    Examples:
      python -m benchmarks paper --quick
      python -m benchmarks paper --only classification --only regression
    """
    settings = "quick" if quick else "full"
    raise typer.Exit(_module("paper.bench").main(settings, data, out, only or (), fresh))


@app.command("micro")
def micro(
    bits: Annotated[list[int] | None, typer.Option(help="Key sizes.", show_default="1024 2048 3072")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions of each operation.")] = 7,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write results to this file.", show_default=False)
    ] = None,
) -> None:
    """Time every operation of the cryptosystem, beside python-paillier and the paper's protocol.

    \b
    Example:
      python -m benchmarks micro --bits 2048 --rounds 3
    """
    _module("micro.bench").main(bits or (1024, 2048, 3072), rounds, json)


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("benchmarks", "revfrf")):
            raise
        raise UsageError(f"{error.name} is missing: pip install 'revfrf[bench]'") from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
