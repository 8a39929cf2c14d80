"""Commands of the key centre: found a federation, invite its parties."""

from pathlib import Path
from typing import Annotated, Any

import typer

from revfrf.cli_federation import Directory, ask_party, show
from revfrf.cli_printing import Json, errors
from revfrf.errors import UsageError
from revfrf.keyfile import write_key_file

app = typer.Typer(no_args_is_help=True, help="Found a federation, and invite its parties.")


@app.command("init")
def kgc_init(
    federation: Annotated[str, typer.Argument(metavar="FEDERATION", help="The federation's name.")],
    coordinator: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where CS will listen; the only open port of all.")
    ],
    directory: Directory = Path("kgc"),
    key_bits: Annotated[int | None, typer.Option(help="Size of the keys; 3072 is about 128 bits.")] = None,
    allow_insecure: Annotated[
        bool, typer.Option(help="For trying out: accept keys below 2048 bits.")
    ] = False,
) -> None:
    """Found a federation: the key centre's directory, with its certificate authority.

    \b
    Example:
      revfrf kgc init loans --coordinator cs.example.org:8470 -d kgc
    """
    from revfrf.node.home import found

    with errors(False):
        keys = {"key_bits": key_bits, "allow_insecure": allow_insecure or None}
        found(directory, federation, coordinator, **keys)
    typer.echo(f"{directory} is the key centre of {federation}. Next: revfrf kgc invite CS -d {directory}")


@app.command("invite")
def kgc_invite(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="CS, CC, participant or requester.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The party's name.", show_default=False)] = "",
    directory: Directory = Path("kgc"),
    days: Annotated[int, typer.Option(help="For how long its certificate is good.")] = 365,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to a new file that nobody else can read.")
    ] = None,
) -> None:
    """Print a token by which one party joins, or gets a new certificate.

    The token is a secret: send it to that party alone. It is good for one certificate.

    \b
    Example:
      revfrf kgc invite participant bank -d kgc
    """
    with errors(False):
        token = _centre(directory, "invite", party_role=role, name=name, days=days)
        if out is None:
            typer.echo(token)
        else:
            write_key_file(out, f"{token}\n".encode())


@app.command("uninvite")
def kgc_uninvite(name: str, directory: Directory = Path("kgc")) -> None:
    """Wait no longer for somebody who was invited, before the federation is set up."""
    with errors(False):
        _centre(directory, "uninvite", name=name)


@app.command("accept")
def kgc_accept(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="What `revfrf revoke --out` has written.")
    ],
    directory: Directory = Path("kgc"),
    as_json: Json = False,
) -> None:
    """Take a request to leave that did not come through the coordinator."""
    with errors(as_json):
        try:
            found = request.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise UsageError(f"{request}: cannot be read: {error}") from None
        result = ask_party(directory, "accept", as_json, request=found)
    show("KGC has the request.", result, as_json)


def _centre(directory: Path, verb: str, **arguments: Any) -> Any:
    """Ask KGC's running process, or do it in its stead."""
    from revfrf.node.control import ask, runs
    from revfrf.node.home import CONTROL, Home, invite, uninvite

    if runs(directory / CONTROL):
        return ask(directory / CONTROL, verb, arguments)
    home = Home.open(directory)
    try:
        if verb == "uninvite":
            return uninvite(home, arguments["name"])
        return invite(home, arguments["party_role"], arguments["name"], arguments["days"]).text()
    finally:
        home.close()
