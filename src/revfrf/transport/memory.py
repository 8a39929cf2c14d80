"""All roles in one process: messages pass through the codec, and are counted, as on a wire."""

import logging
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from revfrf.errors import AbsentError, RefusedError, RevFRFError, StorageError
from revfrf.messages.base import Message
from revfrf.messages.registry import MESSAGES
from revfrf.metering import Ledger, measured
from revfrf.transport.base import Answering, Reply
from revfrf.transport.codec import decode, encode

log = logging.getLogger(__name__)

Link = tuple[str, str, str]
"""Sender, recipient, protocol."""


class MemoryNetwork:
    """Connects roles by name. Keeps the books: work by role, traffic by link, and what each role learnt."""

    def __init__(self) -> None:
        self.roles: dict[str, Answering] = {}
        self.ledger = Ledger()
        self.messages: Counter[Link] = Counter()
        self.bytes: Counter[Link] = Counter()
        self.learnt: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def channel(self, sender: str) -> "MemoryChannel":
        """The channel of one party."""
        return MemoryChannel(self, sender)

    def deliver(
        self, sender: str, recipient: str, data: bytes, *expected: type[Reply], protocol: str | None = None
    ) -> Reply:
        """Decode what arrives, and write it down; an answer belongs to the protocol of its question."""
        message = decode(data, *expected)
        link = (sender, recipient, protocol or message.protocol)
        with self._lock:
            self.messages[link] += 1
            self.bytes[link] += len(data)
            for what, count in message.discloses().items():
                self.learnt[recipient, what] += count
        return message


@dataclass(frozen=True)
class MemoryChannel:
    """One party's way to all others in this process."""

    network: MemoryNetwork
    sender: str

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        """See `transport.base.Channel`."""
        data = encode(request)
        with measured(self.network.ledger, recipient, request.protocol):
            answer = self._answer(recipient, data)
        return self.network.deliver(recipient, self.sender, answer, reply_type, protocol=request.protocol)

    def _answer(self, recipient: str, data: bytes) -> bytes:
        """What happens at the other end."""
        if recipient not in self.network.roles:
            raise AbsentError(recipient, "is not connected; connect it, and ask again")
        try:
            message = self.network.deliver(self.sender, recipient, data, *MESSAGES)
            return encode(self.network.roles[recipient].handle(self.sender, message))
        except StorageError:  # of a party in this very process
            raise
        except RevFRFError as error:
            log.warning("%s refused a message of %s: %s", recipient, self.sender, error)
            told = error.peer_message
            raise RefusedError(recipient, f"has refused: {told}") from error
