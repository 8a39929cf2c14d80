"""All roles in one process: messages pass through the codec, and are counted, as on a wire."""

import logging
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from revfrf.errors import AbsentError, ProtocolError, RefusedError, RevFRFError, StorageError
from revfrf.messages.base import Message
from revfrf.metering import Ledger, measured
from revfrf.names import SERVERS
from revfrf.transport.base import Answering, Reply
from revfrf.transport.codec import decode, decode_call, encode

log = logging.getLogger(__name__)

Link = tuple[str, str, str]
"""Sender, recipient, protocol."""


class MemoryNetwork:
    """Connects parties by name. Keeps the books: work by role, traffic by link, and what each party learnt.

    `roles` holds the parties that are connected now.
    """

    def __init__(self) -> None:
        self.roles: dict[str, Answering] = {}
        self.ledger = Ledger()
        self.messages: Counter[Link] = Counter()
        self.bytes: Counter[Link] = Counter()
        self.learnt: Counter[tuple[str, str]] = Counter()
        self._role_of: dict[str, str] = {name: name for name in SERVERS}
        self._lock = Lock()

    def connect(self, name: str, role: str, answering: Answering) -> None:
        """Connect a party. Its role decides what it may send to whom."""
        self._role_of[name] = role
        self.roles[name] = answering

    def channel(self, sender: str) -> "MemoryChannel":
        return MemoryChannel(self, sender)

    def record(self, sender: str, recipient: str, message: Message, data: bytes, protocol: str) -> None:
        """Enter a message in the books. A reply belongs to the protocol of its request."""
        link = (sender, recipient, protocol)
        with self._lock:
            self.messages[link] += 1
            self.bytes[link] += len(data)
            for what, count in message.discloses().items():
                self.learnt[recipient, what] += count


@dataclass(frozen=True)
class MemoryChannel:
    """One party's way to all others in this process."""

    network: MemoryNetwork
    sender: str

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        data = encode(request)
        with measured(self.network.ledger, recipient, request.protocol):
            answer = self._answer(recipient, data)
        reply = decode(answer, reply_type)
        self.network.record(recipient, self.sender, reply, answer, request.protocol)
        return reply

    def _answer(self, recipient: str, data: bytes) -> bytes:
        network, role_of = self.network, self.network._role_of
        if recipient not in network.roles:
            raise AbsentError(recipient, "is not connected; connect it and retry")
        try:
            if self.sender not in role_of:
                raise ProtocolError(f"{self.sender!r} was never connected", kind="sender")
            message = decode_call(data, role_of[self.sender], role_of[recipient])
            network.record(self.sender, recipient, message, data, message.protocol)
            return encode(network.roles[recipient].handle(self.sender, message))
        except StorageError:  # of a party in this very process
            raise
        except RevFRFError as error:
            log.warning("%s refused a message from %s: %s", recipient, self.sender, error)
            raise RefusedError(recipient, f"has refused: {error.peer_message}") from error
