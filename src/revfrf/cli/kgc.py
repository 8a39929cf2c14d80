"""Commands of the key centre: found a federation, invite its parties."""

import os
from pathlib import Path
from typing import Annotated

import typer

from revfrf.cli.console import (
    AllowInsecure,
    Directory,
    Json,
    ask_party,
    errors,
    print_json,
    quoted,
    show,
)
from revfrf.errors import RevFRFError, UsageError
from revfrf.io.files import check_place, create, reading, writing
from revfrf.node import api

app = typer.Typer(no_args_is_help=True, help="Found a federation, and invite its parties.")


@app.command("init")
def kgc_init(
    federation: Annotated[str, typer.Argument(metavar="FEDERATION", help="The federation's name.")],
    coordinator: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where CS will listen; the only open port of all.")
    ],
    directory: Directory = Path("kgc"),
    key_bits: Annotated[int | None, typer.Option(help="Size of the keys; 3072 is about 128 bits.")] = None,
    allow_insecure: AllowInsecure = False,
    as_json: Json = False,
) -> None:
    """Found a federation, with its certificate authority.

    \b
    Example:
      revfrf kgc init loans --coordinator cs.example.org:8470 -d kgc
    """
    from revfrf.node.invitations import found

    with errors(as_json):
        keys = {"key_bits": key_bits, "allow_insecure": allow_insecure or None}
        found(directory, federation, coordinator, **keys)
    if as_json:
        print_json({"directory": str(directory), "federation": federation})
    else:
        typer.echo(f"{directory} is the key centre of {federation}. Next, for CS, CC and all others:")
        typer.echo(f"  revfrf kgc invite CS -d {quoted(directory)}")


@app.command("invite")
def kgc_invite(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="CS, CC, participant or requester.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of a participant or requester; CS and CC have theirs.",
            show_default=False,
        ),
    ] = "",
    directory: Directory = Path("kgc"),
    days: Annotated[int, typer.Option(help="For how long its certificate is good.")] = 365,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write it to a new file that nobody else can read; none is replaced."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a token by which one party joins.

    For a party that has joined, it is one for a new certificate. The token is a secret: send it to that party
    alone. It is good for one certificate.

    \b
    Examples:
      revfrf kgc invite CS -d kgc
      revfrf kgc invite participant bank -d kgc --out bank.token
    """
    with errors(as_json):
        if out is not None:
            check_place(out)
            if os.path.lexists(out):
                raise UsageError(f"{out} exists and is not overwritten; give another path")
        token = ask_party(directory, api.Invite(role, name, days), as_json)
        if out is not None:
            with writing(out, UsageError):
                create(out, f"{token}\n".encode())
            typer.echo(f"written to {out}", err=True)
    if as_json:
        print_json(
            {"role": role, "name": name or role, "token": token} if out is None else {"file": str(out)}
        )
    elif out is None:
        typer.echo(token)


@app.command("uninvite")
def kgc_uninvite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who was invited.")],
    directory: Directory = Path("kgc"),
    as_json: Json = False,
) -> None:
    """Wait no longer for somebody who was invited.

    Once the federation is set up, only requesters can be uninvited.

    \b
    Example:
      revfrf kgc uninvite bank -d kgc
    """
    with errors(as_json):
        ask_party(directory, api.Uninvite(name), as_json)
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"{name} is invited no more.")


@app.command("accept")
def kgc_accept(
    request: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="What `revfrf revoke --out` has written.")
    ],
    directory: Directory = Path("kgc"),
    as_json: Json = False,
) -> None:
    """Take a request to leave that came by another way than CS.

    \b
    Example:
      revfrf kgc accept leave.request -d kgc
    """
    with errors(as_json):
        found = _request(request)
        try:
            result = ask_party(directory, api.Accept(found), as_json)
        except RevFRFError as error:
            raise error if error.kind != "usage" else UsageError(f"{request}: {error}") from None
    show("KGC has the request.", result, as_json)


def _request(path: Path) -> str:
    """The request in a file, as hexadecimal digits."""
    with reading(path, UsageError, "give the file that `revfrf revoke --out` wrote"), path.open("rb") as file:
        data = file.read(_LONGEST)
    try:
        return bytes.fromhex(data.decode("ascii")).hex()
    except ValueError:
        raise UsageError(f"{path}: not a request to leave, as `revfrf revoke --out` writes it") from None


_LONGEST = 2**20
