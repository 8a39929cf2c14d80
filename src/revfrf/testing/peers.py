"""Parties that do not do what they should, for federations in one process.

A hook sees every request, or every reply with its request. It returns what is passed on instead, or raises.
`changing` and `failing` make common hooks.

>>> from revfrf.messages.frf_test import TestReply
>>> from revfrf.testing.federations import random_case, train
>>> from revfrf.testing.refusals import refused
>>> case = random_case(1)
>>> federation = train(case)
>>> liar = FaultyPeer(federation.participants["bank"], on_reply=changing(TestReply, bits=b""))
>>> with replaced(federation.network, "bank", liar), refused("length"):
...     federation.votes(case.codes, case.n_rows, "hard")
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from revfrf.messages.base import Message
from revfrf.transport.base import Answering, Reply
from revfrf.transport.memory import MemoryNetwork

Hook = Callable[[Any, Any], Message]
"""Called with the other party's name and the request, or with a request and its reply."""


def unchanged(_: object, message: Message) -> Message:
    """Pass a message on as it is."""
    return message


def changing(kind: type[Message], **fields: Any) -> Hook:
    """Return a hook that sets these fields of messages of one type, to values or functions of the message."""

    def change(_: object, message: Message) -> Message:
        if not isinstance(message, kind):
            return message
        new = {name: value(message) if callable(value) else value for name, value in fields.items()}
        return msgspec.structs.replace(message, **new)

    return change


def failing(error: Exception, kind: type[Message] = Message, after: int = 0) -> Hook:
    """Return a hook that passes on some messages of one type, and raises an error at each later one."""
    numbers = count()

    def fail(_: object, message: Message) -> Message:
        if isinstance(message, kind) and next(numbers) >= after:
            raise error
        return message

    return fail


@dataclass
class _Hooked:
    honest: Any
    on_request: Hook = unchanged
    on_reply: Hook = unchanged


class FaultyPeer(_Hooked):
    """A role whose requests or replies pass through hooks on their way to and from the honest one."""

    def handle(self, sender: str, message: Message) -> Message:
        """See `transport.base.Answering`."""
        request = self.on_request(sender, message)
        return self.on_reply(request, self.honest.handle(sender, request))


class LyingChannel(_Hooked):
    """A party's channel on which its requests, or the replies to them, pass through hooks."""

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        """See `transport.base.Channel`."""
        sent = self.on_request(recipient, request)
        reply = self.on_reply(sent, self.honest.call(recipient, sent, reply_type))
        if not isinstance(reply, reply_type):
            raise AssertionError(f"a channel never returns a {type(reply).__name__} here")
        return reply


@contextmanager
def replaced(network: MemoryNetwork, name: str, peer: Answering) -> Iterator[None]:
    """Let another peer answer in a party's name for the length of a block."""
    honest = network.roles[name]
    network.roles[name] = peer
    try:
        yield
    finally:
        network.roles[name] = honest


@contextmanager
def offline(network: MemoryNetwork, *names: str) -> Iterator[None]:
    """Disconnect some parties for the length of a block."""
    gone = {name: network.roles.pop(name) for name in names}
    try:
        yield
    finally:
        network.roles.update(gone)
