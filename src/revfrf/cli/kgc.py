"""Commands of the key centre: create a federation, invite parties, accept requests to leave."""

import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from revfrf.cli.console import ask_party, print_done, quoted, show
from revfrf.cli.options import AllowInsecure, Directory, Json
from revfrf.errors import RevFRFError, UsageError
from revfrf.io.files import check_place, create, reading, writing
from revfrf.node import api

MAX_REQUEST = 2**20  # bytes in a file with a request to leave

app = typer.Typer(no_args_is_help=True, help="Create a federation and invite its parties.")


@app.command()
def init(
    federation: Annotated[str, Argument(metavar="FEDERATION", help="The federation's name.")],
    coordinator: Annotated[
        str, Option(metavar="HOST:PORT", help="CS's address, the only open port of the federation.")
    ],
    directory: Directory = Path("kgc"),
    protocol: Annotated[
        str | None, Option(metavar="paper|shares", help="How forests are trained and asked (default paper).")
    ] = None,
    key_bits: Annotated[
        int | None,
        Option(help="Size of the keys of the paper protocol; 3072 gives about 128 bits of security."),
    ] = None,
    allow_insecure: AllowInsecure = False,
    as_json: Json = False,
) -> None:
    """Create a federation, with its certificate authority.

    \b
    Example:
      revfrf kgc init loans --coordinator cs.example.org:8470 -d kgc
    """
    from revfrf.node.invitations import create_federation

    keys = {"protocol": protocol, "key_bits": key_bits, "allow_insecure": allow_insecure or None}
    create_federation(directory, federation, coordinator, **keys)
    facts = {"directory": str(directory), "federation": federation}
    done = f"{directory} is the key centre of {federation}. Next, invite CS, CC and all other parties:"
    print_done(as_json, facts, done, f"  revfrf kgc invite CS -d {quoted(directory)}")


@app.command()
def invite(
    role: Annotated[str, Argument(metavar="ROLE", help="CS, CC, participant or requester.")],
    name: Annotated[
        str, Argument(metavar="NAME", help="The name of a participant or requester.", show_default=False)
    ] = "",
    directory: Directory = Path("kgc"),
    days: Annotated[int, Option(help="How long the party's TLS certificate is valid.")] = 365,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write the token to a new file that only you can read.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a one-time join token for a party.

    If the party has joined before, the token renews its TLS certificate. The token is a secret: send it to
    that party only.

    \b
    Examples:
      revfrf kgc invite CS -d kgc
      revfrf kgc invite participant bank -d kgc --out bank.token
    """
    if out is not None:
        check_place(out)
        if os.path.lexists(out):
            raise UsageError(f"{out} exists and is not overwritten; give another path")
    token = ask_party(directory, api.Invite(role, name, days), as_json)
    if out is None:
        print_done(as_json, {"role": role, "name": name or role, "token": token}, token)
        return
    with writing(out, UsageError):
        create(out, f"{token}\n".encode())
    typer.echo(f"written to {out}", err=True)
    print_done(as_json, {"file": str(out)})


@app.command()
def uninvite(
    name: Annotated[str, Argument(metavar="NAME", help="The party's name.")],
    directory: Directory = Path("kgc"),
    as_json: Json = False,
) -> None:
    """Cancel an invitation.

    Once the federation is set up, only invitations of requesters can be cancelled.

    \b
    Example:
      revfrf kgc uninvite bank -d kgc
    """
    ask_party(directory, api.Uninvite(name), as_json)
    print_done(as_json, {"name": name}, f"Invitation for {name} cancelled.")


@app.command()
def accept(
    request: Annotated[Path, Argument(metavar="REQUEST", help="The file of `revfrf revoke --out`.")],
    directory: Directory = Path("kgc"),
    as_json: Json = False,
) -> None:
    """Accept a request to leave that did not come through CS.

    \b
    Example:
      revfrf kgc accept leave.request -d kgc
    """
    wrote = "`revfrf revoke --out`"
    with reading(request, UsageError, f"give the file that {wrote} wrote"), request.open("rb") as file:
        data = file.read(MAX_REQUEST)
    try:
        digits = bytes.fromhex(data.decode("ascii")).hex()
    except ValueError:
        raise UsageError(f"{request}: not a request to leave, as {wrote} writes it") from None
    try:
        result = ask_party(directory, api.Accept(digits), as_json)
    except RevFRFError as error:
        raise error if error.kind != "usage" else UsageError(f"{request}: {error}") from None
    show("KGC has the request.", result, as_json)
