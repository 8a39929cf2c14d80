"""Which process is for which role."""

import shlex
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from revfrf.errors import AbsentError, UsageError
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER
from revfrf.node.api import AuditForest, Invite, OnProgress, Predict, PredictEncrypted, Request, Uninvite
from revfrf.node.config import Config, PartySection
from revfrf.node.control import not_running
from revfrf.node.coordinator import CoordinatorService
from revfrf.node.home import Home, has_left, look
from revfrf.node.kgc import KeyCentreService
from revfrf.node.members import ComputeService, ParticipantService
from revfrf.node.requester import RequesterService
from revfrf.node.service import Service

Result = TypeVar("Result")
SERVICES: dict[str, type[Service]] = {
    KGC: KeyCentreService,
    CS: CoordinatorService,
    CC: ComputeService,
    PARTICIPANT: ParticipantService,
    REQUESTER: RequesterService,
}


def service_of(home: Home, config: Config) -> Service:
    """The process of the party whose directory this is."""
    return SERVICES[config.party.role](home, config)


def check_role(directory: Path, request: Request[Any]) -> PartySection:
    """Return whose directory this is. Raises UsageError if that party does not answer this request."""
    party, kind = look(directory).party, type(request)
    if not SERVICES[party.role].handler(kind):
        roles = [
            f"a {role}" if role in (PARTICIPANT, REQUESTER) else role
            for role, service in SERVICES.items()
            if service.handler(kind)
        ]
        encrypted = kind is Predict and SERVICES[party.role].handler(PredictEncrypted)
        remedy = f"{'add --encrypted, or ' if encrypted else ''}pass another one with -d"
        here = f"{directory} is the directory of {party.role} {party.name!r}"
        raise UsageError(f"`{kind.__struct_config__.tag}` is for {' or '.join(roles)}, and {here}; {remedy}")
    return party


def run_offline(directory: Path, request: Request[Result], on_progress: OnProgress) -> Result:
    """Answer a request where no process runs: KGC invites, CS's forest is audited, a requester connects.

    Raises UsageError if the request needs a running process, or is for another party.
    """
    party = check_role(directory, request)
    if type(request) in (AuditForest, Invite, Uninvite):
        with closing(Home.open(directory)) as home:
            return service_of(home, home.config).command(request, on_progress)
    if (party.role, type(request)) == (REQUESTER, PredictEncrypted):
        with closing(Home.open(directory)) as home:
            return _run_once(service_of(home, home.config), request, on_progress)
    where = shlex.quote(str(directory))
    remedy = f"start it, and retry: revfrf serve -d {where}"
    if party.role == REQUESTER:
        remedy = f"a requester needs no process to predict: revfrf predict --encrypted ROWS -d {where}"
    elif party.role == PARTICIPANT and has_left(directory):
        remedy = f"{party.name!r} has left the forest and need not run"
    raise not_running(directory, remedy)


def _run_once(service: Service, request: Request[Result], on_progress: OnProgress) -> Result:
    """Run a party for one request."""

    def answer() -> Result:
        try:
            return service.command(request, on_progress)
        except AbsentError as error:
            raise AbsentError(error.party, service.link_problem or error.reason) from None
        finally:
            service.stop()

    with ThreadPoolExecutor(1) as pool:
        answers: list[Future[Result]] = []
        service.run(lambda: answers.append(pool.submit(answer)))
        return answers[0].result()
