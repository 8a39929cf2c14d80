"""Which process is for which role."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from revfrf.config import Config
from revfrf.errors import AbsentError, UsageError
from revfrf.node.coordinator import CoordinatorService
from revfrf.node.home import Home
from revfrf.node.parties import ComputeService, KeyCentreService, ParticipantService
from revfrf.node.requester import RequesterService
from revfrf.node.service import Service
from revfrf.protocols.epoch import CC, CS, KGC, PARTICIPANT, REQUESTER

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


def alone(
    directory: str | os.PathLike[str],
    verb: str,
    arguments: dict[str, Any],
    tell: Callable[[dict[str, Any]], None],
) -> Any:
    """A requester's command without a running process: connect, ask, and go."""
    home = Home.open(directory)
    try:
        if home.who.role != REQUESTER:
            raise UsageError(f"no `revfrf serve` runs in {home.path}; start it, and ask again")
        service = service_of(home, home.config)

        def ask() -> Any:
            try:
                return service.command(verb, arguments, tell)
            except AbsentError as error:
                raise AbsentError(error.party, service.link_problem or error.reason) from None
            finally:
                service.stop()

        with ThreadPoolExecutor(1) as pool:
            asked: list[Future[Any]] = []
            service.run(lambda: asked.append(pool.submit(ask)))
            return asked[0].result()
    finally:
        home.close()
