"""Which process is for which role."""

import shlex
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from revfrf.errors import AbsentError, UsageError
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER
from revfrf.node.config import Config, Party
from revfrf.node.control import Tell, not_running
from revfrf.node.coordinator import CoordinatorService
from revfrf.node.home import Home, has_left, look
from revfrf.node.invitations import invite, uninvite
from revfrf.node.kgc import KeyCentreService
from revfrf.node.members import ComputeService, ParticipantService
from revfrf.node.requester import RequesterService
from revfrf.node.service import Service

_SERVICES: dict[str, type[Service]] = {
    KGC: KeyCentreService,
    CS: CoordinatorService,
    CC: ComputeService,
    PARTICIPANT: ParticipantService,
    REQUESTER: RequesterService,
}


def service_of(home: Home, config: Config) -> Service:
    """The process of the party whose directory this is."""
    return _SERVICES[config.party.role](home, config)


def party_with(directory: Path, verb: str) -> Party:
    """Whose directory this is. Raises UsageError if that party has no such verb."""
    party = look(directory).party
    if not hasattr(_SERVICES[party.role], f"do_{verb}"):
        roles = [role for role, service in _SERVICES.items() if hasattr(service, f"do_{verb}")]
        raise UsageError(
            f"{_SAID.get(verb, verb)!r} is for {' or '.join(roles)}, and {directory} is the directory of "
            f"{party.role} {party.name!r}; {_fix(party.role, verb)}give another one with -d"
        )
    return party


def _fix(role: str, verb: str) -> str:
    return "add --encrypted, or " if verb == "predict" and hasattr(_SERVICES[role], "do_ask") else ""


_SAID = {
    "ask": "predict --encrypted",
    "predict": "predict without --encrypted",
    "structure": "export --forest",
}
"""What verbs are called on the command line, if otherwise."""


def do_alone(directory: Path, verb: str, arguments: dict[str, Any], tell: Tell) -> Any:
    """A command where no process runs: a requester connects, asks, and goes; KGC invites offline.

    Raises UsageError for whatever needs a process, or is for another party.
    """
    party = party_with(directory, verb)
    if (party.role, verb) in _ALONE:
        with closing(Home.open(directory)) as home:
            return _ALONE[party.role, verb](home, tell, arguments)
    where = shlex.quote(str(directory))
    fix = f"start it, and ask again: revfrf serve -d {where}"
    if party.role == REQUESTER:
        fix = f"a requester needs none, and asks by itself: revfrf predict --encrypted ROWS -d {where}"
    elif party.role == PARTICIPANT and has_left(directory):
        fix = f"{party.name!r} has left the forest, and need not run any more"
    raise not_running(directory, fix)


def _ask(home: Home, tell: Tell, arguments: dict[str, Any]) -> Any:
    service = service_of(home, home.config)

    def ask() -> Any:
        try:
            return service.command("ask", arguments, tell)
        except AbsentError as error:
            raise AbsentError(error.party, service.link_problem or error.reason) from None
        finally:
            service.stop()

    with ThreadPoolExecutor(1) as pool:
        asked: list[Future[Any]] = []
        service.run(lambda: asked.append(pool.submit(ask)))
        return asked[0].result()


_ALONE: dict[tuple[str, str], Callable[[Home, Tell, dict[str, Any]], Any]] = {
    (REQUESTER, "ask"): _ask,
    (KGC, "invite"): lambda home, _, given: invite(
        home, given["party_role"], given["name"], given["days"]
    ).text(),
    (KGC, "uninvite"): lambda home, _, given: uninvite(home, given["name"]),
}
"""What is done without a process."""
