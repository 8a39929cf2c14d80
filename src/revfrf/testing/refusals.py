"""Check that something is refused, for which reason, and that the peer learns only what it should.

Errors carry a `kind`, a stable slug (see `revfrf.errors`). If another party in this process refuses, the
caller gets a RefusedError that hides the reason. These helpers look behind it and return the reason itself.

>>> from revfrf.errors import SignatureError
>>> def check(signature):
...     if signature != b"good":
...         raise SignatureError("the signature does not hold")
>>> refusal_kind(lambda: check(b"forged"))
'signature'
>>> with refused("signature"):
...     check(b"forged")
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from revfrf.errors import RefusedError, RevFRFError
from revfrf.transport.base import blaming


class Refusal:
    """What `refused` has caught, once its block has ended."""

    error: RevFRFError

    @property
    def reason(self) -> str:
        """The text of the error."""
        return str(self.error)


@contextmanager
def refused(
    *kinds: str, by: str | None = None, unchanged: Callable[[], object] | None = None
) -> Iterator[Refusal]:
    """Raise AssertionError unless the block is refused with one of these kinds, or with any if none is given.

    A refusal of another party must name the party `by`. `unchanged` returns a state that must be the same
    before and after. The reason is in what this yields, after the block.
    """
    caught = Refusal()
    before = unchanged() if unchanged is not None else None
    try:
        yield caught
    except RevFRFError as error:
        if by is not None and getattr(error, "party", None) != by:
            raise AssertionError(f"{by!r} is not blamed: {error}") from error
        caught.error = _reason(error)
    else:
        raise AssertionError("nothing was refused")
    if kinds and (kind := caught.error.kind) not in kinds:
        expected = " or ".join(map(repr, kinds))
        raise AssertionError(f"refused as {kind!r} instead of {expected}: {caught.error}") from caught.error
    if unchanged is not None and unchanged() != before:
        raise AssertionError("the refusal has left a trace") from caught.error


def refusal(call: Callable[[], object], **more: Any) -> RevFRFError:
    """Return the error with which a call is refused; `more` is for `refused`."""
    with refused(**more) as caught:
        call()
    return caught.error


def refusal_kind(call: Callable[[], object], **more: Any) -> str:
    """Return the kind of the error with which a call is refused; `more` is for `refused`."""
    return refusal(call, **more).kind


def _reason(error: RevFRFError) -> RevFRFError:
    """Return the reason behind a refusal, if known here; raise AssertionError if the refusal tells it."""
    reason = error.__cause__
    if not isinstance(error, RefusedError) or not isinstance(reason, RevFRFError):
        return error
    if error.reason not in (f"has refused: {reason.peer_message}", _blame(error.party, reason)):
        raise AssertionError(f"the refusal tells more than it should: {error}") from error
    return reason


def _blame(party: str, reason: RevFRFError) -> str:
    """Return what is said of a party whose reply is refused for this reason."""
    try:
        with blaming(party):
            raise reason
    except RevFRFError as blamed:
        return blamed.reason if isinstance(blamed, RefusedError) else ""
