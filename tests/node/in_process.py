"""The parties of a federation as their processes have them, all in one process, without its threads."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from revfrf.messages.base import Done
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import EpochCertificate, SetUpReply, SetUpRequest
from revfrf.node.home import Home
from revfrf.node.kgc import KeyCentreService
from revfrf.node.members import ParticipantService
from revfrf.node.roles import service_of
from revfrf.node.service import Service
from revfrf.protocols.certificate import sign_revocation
from revfrf.testing.recorders import Recorder
from revfrf.transport.calls import Endpoint
from tests.node.founding import SERVING
from tests.transport.links import LIMITS, Faults, faithful, link_up


class Federation:
    """All parties of a federation in this process, with links in memory that do with frames as they like."""

    def __init__(self, directory: Path, faults: Callable[[], Faults] = lambda: faithful) -> None:
        self.directory, self._faults = directory, faults
        self.services: dict[str, Service] = {}
        self.endpoints: list[Endpoint] = []
        for name in SERVING:
            self.open(name)

    def open(self, name: str) -> Service:
        home = Home.open(self.directory / name)
        self.services[name] = service = service_of(home, home.config)
        self.endpoints.append(service.endpoint)
        if name != "CS":
            self.link(service.endpoint, home)
        return service

    def link(self, endpoint: Endpoint, home: Home) -> None:
        """Raises PassportError if CS does not let it in."""
        link_up(self.services["CS"].endpoint, endpoint, home.tls().passport, self._faults)

    def stranger(self, home: Home, role: Recorder) -> Endpoint:
        """The end of somebody with another program than ours, not linked yet."""
        self.endpoints.append(Endpoint(home.who, role, home.sealing(), LIMITS))
        return self.endpoints[-1]

    @property
    def kgc(self) -> KeyCentreService:
        return cast(KeyCentreService, self.services["KGC"])

    @property
    def epoch(self) -> EpochCertificate:
        return self.kgc.role.current

    def set_up(self) -> None:
        assert self.kgc.answer("CS", SetUpRequest()) == SetUpReply(missing=None, refused=None)

    def members(self) -> list[str]:
        return sorted(member.name for member in self.epoch.members)

    def leave(self, name: str, level: RevocationLevel = 2) -> None:
        """Ask KGC over the links, as the participant does it. Raises RefusedError."""
        service = cast(ParticipantService, self.services[name])
        request = sign_revocation(service.role.identity, bytes(16), level)
        service.endpoint.call("KGC", request, Done)

    def shut(self, name: str) -> None:
        service = self.services.pop(name)
        service.endpoint.close()
        service.audit.close()
        service.home.close()

    def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.close()
        for name in list(self.services):
            self.shut(name)
