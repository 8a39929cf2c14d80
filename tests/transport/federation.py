"""A federation of one process whose parties talk over gRPC all the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from revfrf.embedded import federation as federation_module
from revfrf.errors import AbsentError, PassportError
from revfrf.messages.base import Message
from revfrf.testing.recorders import until
from revfrf.transport import letters
from revfrf.transport.base import Reply
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import encode
from revfrf.transport.frames import Frame
from revfrf.transport.grpc import Dialler, Server
from revfrf.transport.join_token import Authority
from revfrf.transport.memory import MemoryChannel, MemoryNetwork
from revfrf.transport.passport import PartyId, Passport
from tests.transport.links import LIMITS, SOON, invited_by


class _TappedEndpoint(Endpoint):
    """Writes down every frame that comes to it."""

    tapped: list[Frame]

    def received(self, link: Any, data: bytes) -> None:
        self.tapped.append(Frame.decode(data))
        super().received(link, data)


@dataclass
class _Present:
    endpoint: _TappedEndpoint
    link: Server | Dialler


class GrpcNetwork(MemoryNetwork):
    """A network over gRPC on this machine.

    `roles` may change at any time: a new party is given certificates and dials CS, one that is gone hangs up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.authority = Authority.new("one process")
        self.present: dict[str, _Present] = {}
        self._serials, self._connecting = count(1), Lock()

    def channel(self, sender: str) -> "_GrpcChannel":
        return _GrpcChannel(self, sender)

    def endpoint(self, name: str) -> Endpoint:
        """The one of this party, who is connected. Everybody else's is up, too."""
        with self._connecting:
            for gone in self.present.keys() - self.roles.keys():
                self._hang_up(gone)
            for new in sorted(self.roles.keys() - self.present.keys(), key=lambda party: party != "CS"):
                self._connect(new)
        if name not in self.present:
            raise AbsentError(name, "is not there")
        return self.present[name].endpoint

    def _connect(self, name: str) -> None:
        who = PartyId(self._role_of[name], name)
        party = invited_by(self.authority, who, next(self._serials))

        def answer(sender: str, message: Message) -> Message:
            self.record(sender, name, message, encode(message), message.protocol)
            return self.roles[name].handle(sender, message)

        endpoint = _TappedEndpoint(who, answer, party.sealing, LIMITS, admit=self._admit)
        endpoint.tapped, endpoint.ledger = self.frames, self.ledger
        if name == "CS":
            self.present[name] = _Present(endpoint, Server(endpoint, party.tls, "127.0.0.1:0"))
            return
        server = self.present["CS"]
        assert isinstance(server.link, Server)
        self.present[name] = _Present(endpoint, Dialler(endpoint, party.tls, f"127.0.0.1:{server.link.port}"))
        assert server.endpoint.wait_for([name], SOON) == []
        assert endpoint.wait_for(["CS"], SOON) == []

    def _admit(self, passport: Passport) -> None:
        kgc: Any = self.roles["KGC"]
        if kgc.state.certificates and passport.who.name in kgc.current.revoked:
            raise PassportError(f"{passport.who} has left", kind="revoked")

    def _hang_up(self, name: str) -> None:
        self.present.pop(name).link.close()

    def reconnect(self) -> None:
        """Everybody but CS has a fresh link, as after a short failure of the network."""
        cs = self.present["CS"].endpoint
        before = cs.meetings()
        cs.expel(cs.present())
        others = self.present.keys() - {"CS"}
        until(lambda: all(cs.meetings()[name] > before[name] for name in others))
        assert cs.wait_for(others, SOON) == []
        for name in others:
            assert self.present[name].endpoint.wait_for(["CS"], SOON) == []

    def close(self) -> None:
        for name in sorted(self.present, key=lambda party: party == "CS"):
            self._hang_up(name)


@dataclass(frozen=True)
class _GrpcChannel(MemoryChannel):
    network: GrpcNetwork

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        endpoint = self.network.endpoint(self.sender)
        if recipient not in self.network.roles:
            raise AbsentError(recipient, "is not there")
        reply = endpoint.call(recipient, request, reply_type)
        self.network.record(recipient, self.sender, reply, encode(reply), request.protocol)
        return reply


@contextmanager
def one_time_keys() -> Iterator[list[X25519PrivateKey]]:
    """All keys that are made for letters and their answers. Nobody but a test has them later."""
    made: list[X25519PrivateKey] = []

    class Noting:
        @staticmethod
        def generate() -> X25519PrivateKey:
            made.append(X25519PrivateKey.generate())
            return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letters, "X25519PrivateKey", Noting)
        yield made


@contextmanager
def over_grpc() -> Iterator[list[GrpcNetwork]]:
    """Federations that are made here talk over gRPC; the networks that they have."""
    made: list[GrpcNetwork] = []

    def make() -> GrpcNetwork:
        made.append(GrpcNetwork())
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federation_module, "MemoryNetwork", make)
        try:
            yield made
        finally:
            for network in made:
                network.close()
