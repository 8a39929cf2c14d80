"""Recorders of what parties send to each other, and a wait for what must happen.

>>> from revfrf.testing.federations import random_case, train
>>> with recording() as sent:
...     federation = train(random_case(1))
>>> sorted({each.type for each in sent if each.sender == "bank"})
['Enrolment', 'EpochAccepted', 'LevelReply', 'Schema']
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from unittest.mock import patch

import msgspec

from revfrf.messages.base import Message
from revfrf.messages.registry import MESSAGES
from revfrf.transport.codec import decode
from revfrf.transport.memory import MemoryNetwork


@dataclass(frozen=True)
class Sent:
    """A request or a reply, in the bytes that travelled."""

    sender: str
    recipient: str
    data: bytes

    @property
    def message(self) -> Message:
        """The message, decoded again."""
        return decode(self.data, *MESSAGES)

    @property
    def plain(self) -> dict[str, Any]:
        """The message's fields, read without this package's types."""
        fields: dict[str, Any] = msgspec.msgpack.decode(self.data[1:])
        return fields

    @property
    def type(self) -> str:
        """The name of the message's type."""
        return str(self.plain["type"])


@contextmanager
def recording(network: MemoryNetwork | None = None) -> Iterator[list[Sent]]:
    """Record every message in order, as long as the block runs: of one network, or of all of this process."""
    sent: list[Sent] = []
    enter = MemoryNetwork.record

    def record(
        self: MemoryNetwork, sender: str, recipient: str, message: Message, data: bytes, protocol: str
    ) -> None:
        if network in (None, self):
            sent.append(Sent(sender, recipient, data))
        enter(self, sender, recipient, message, data, protocol)

    with patch.object(MemoryNetwork, "record", record):
        yield sent


class Recorder:
    """A role that answers by a function, and keeps senders and messages in `calls`, in order of arrival."""

    def __init__(self, answer: Callable[[str, Message], Message]) -> None:
        self._answer, self._lock = answer, Lock()
        self.calls: list[tuple[str, Message]] = []

    def handle(self, sender: str, message: Message) -> Message:
        """See `transport.base.Answering`."""
        with self._lock:
            self.calls.append((sender, message))
        return self._answer(sender, message)

    __call__ = handle


def until(condition: Callable[[], object], what: str = "the condition", seconds: float = 60.0) -> None:
    """Wait until a condition is true; raise AssertionError if it is not within some seconds."""
    end, pause = time.monotonic() + seconds, 0.001
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} is not true after {seconds:g} s")
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)  # who waits for long leaves the cores to those it waits for
