"""Which process is for which role."""

import os
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from revfrf.config import Config
from revfrf.errors import RevFRFError, UsageError
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
        service, ready = service_of(home, home.config), Event()
        running = Thread(target=service.run, args=(ready.set,), daemon=True)
        running.start()
        ready.wait()
        try:
            return service.command(verb, arguments, tell)
        except RevFRFError as error:
            raise type(error)(*error.args) if not service.problem else UsageError(service.problem) from None
        finally:
            service.stop()
            running.join()
    finally:
        home.close()
