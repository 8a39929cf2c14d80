"""The command line. It parses and prints; the work is done elsewhere."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Option

import revfrf
from revfrf.cli import coordinator, kgc, local, party, predict, verify
from revfrf.cli.exits import Program


class _KeyCentreFirst(Program):
    def list_commands(self, ctx: Any) -> list[str]:
        """See `TyperGroup.list_commands`, which lists groups last."""
        return sorted(super().list_commands(ctx), key=lambda name: name != "kgc")


app = typer.Typer(
    cls=_KeyCentreFirst,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"revfrf {revfrf.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """RevFRF: random forests that their participants can leave, provably.

    Exit codes: 0 success or verified; 1 verification failed; 2 usage error or unreadable file; 3 a party is
    offline or refused; 70 internal error; 130 interrupted; 141 broken pipe; 143 terminated.

    \b
    Examples:
      revfrf up --parties 5
      revfrf verify bank-has-left.json --kgc-key kgc.pub
    """


_COMMANDS: dict[str, Callable[..., None]] = {
    "join": party.join,
    "serve": party.serve,
    "match": coordinator.match,
    "train": coordinator.train,
    "test": coordinator.score,
    "predict": predict.predict,
    "revoke": party.revoke,
    "status": party.status,
    "history": coordinator.history,
    "audit": coordinator.audit,
    "export": coordinator.export,
    "report": coordinator.report,
    "verify": verify.verify,
    "verify-log": verify.verify_log,
    "up": local.up,
    "down": local.down,
    "demo": local.demo,
}
"""In the order in which they are used."""

for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(kgc.app, name="kgc")
