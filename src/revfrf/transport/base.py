"""The seam between protocols and the world: one method."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from revfrf.errors import RefusedError, RejectedError
from revfrf.messages.base import Message

Reply = TypeVar("Reply", bound=Message)


class Channel(Protocol):
    """One party's way to all others."""

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        """Send a request and return its reply, decoded and of this type.

        Raises RefusedError if the other side refuses, AbsentError if it cannot be reached, FormatError if its
        reply cannot be read.
        """


class Answering(Protocol):
    """A role: whatever it is sent, it answers or refuses."""

    def handle(self, sender: str, message: Message) -> Message:
        """The reply to a message that is known to come from this sender. Raises RevFRFError to refuse."""


@contextmanager
def blaming(party: str) -> Iterator[None]:
    """An answer of this party that is refused here is as if the party had refused."""
    try:
        yield
    except RejectedError as error:
        raise RefusedError(party, "sent an invalid reply") from error
