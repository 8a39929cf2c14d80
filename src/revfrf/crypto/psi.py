"""Private set intersection by Diffie-Hellman on the curve P-256: which ids do two parties share?

CS asks, a participant answers, and CS alone learns the ids that both have, all of which it holds already. The
participant learns how many ids CS asks about, and CS how many the participant has. To find the ids that all
parties share, CS asks every participant about all of its ids (`protocols.alignment`), so it learns for each
participant which of them that one has.

::

    CS            request   a·H(id) of every id, shuffled                a: fresh for every `Query`
    participant   setup     b·H(id) of every id of its own, sorted       b: fresh for every answer
                  response  b·(a·H(id)), in the order of the request
    CS            common    the ids whose a⁻¹·(b·a·H(id)) is in the setup

H hashes an id together with the names of federation and table. Every message begins with a tag, a hash of
what it is and answers to, so that a message of another federation, table or request is refused. Nothing here
shows who has sent it. A message has exactly one form: the tag, then points of 33 bytes each.

Parties can lie about their ids. A participant can claim ids that it guesses, and CS can ask about ids that it
has made up, at most `max_ids` at a time.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

import private_set_intersection.python as psi

from revfrf.crypto.canonical import digest
from revfrf.crypto.secret import Secret, hides_locals
from revfrf.errors import FormatError, ProtocolError, UsageError
from revfrf.parallel import in_threads

TAG_BYTES = 16
POINT_BYTES = 33

_DOMAIN = "RevFRF matching v1"
_AT_A_TIME = 2048
"""Ids in one call of the library, which nothing interrupts: a quarter of a second."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Query(Secret):
    """CS's side of one question to one participant. Make another one for each participant."""

    __slots__ = ("_ids", "_key", "_n_jobs", "_place", "_shuffled", "request")

    @hides_locals
    def __init__(self, ids: Sequence[str], *, federation: str, table: str, n_jobs: int = -1) -> None:
        """Raises UsageError if there are no ids, or an id occurs twice."""
        self._place, self._n_jobs = (federation, table), n_jobs
        self._ids, self._shuffled = tuple(ids), list(ids)
        secrets.SystemRandom().shuffle(self._shuffled)
        self._key: bytes = psi.client.CreateWithNewKey(True).GetPrivateKeyBytes()

        def blinded(some: list[bytes]) -> list[bytes]:
            client = psi.client.CreateFromKey(self._key, True)
            return list(client.CreateRequest(some).encrypted_elements)

        points = _in_parts(blinded, _hashed(self._shuffled, *self._place), n_jobs)
        self.request = _tag("request", self._place) + b"".join(points)

    @hides_locals
    def common(self, setup: bytes, response: bytes) -> list[str]:
        """Return the ids that the participant has, too, in their original order.

        Raises FormatError for bytes that do not parse, and ProtocolError, kind `request`, for an answer to
        another request.
        """
        theirs = _points(setup, "setup", self._place, self.request)
        if any(a >= b for a, b in pairwise(theirs)):
            raise FormatError("a setup whose points are not in ascending order")
        ours = _points(response, "response", self._place, self.request, setup)
        if len(ours) != len(self._ids):
            raise FormatError(f"a response with {len(ours)} points to {len(self._ids)} ids", kind="length")
        filled = psi.ServerSetup()
        filled.raw.SetInParent()
        filled.raw.encrypted_elements.extend(theirs)

        def matched(places: list[int]) -> list[str]:
            client = psi.client.CreateFromKey(self._key, True)
            part = psi.Response(encrypted_elements=[ours[place] for place in places])
            with _on_the_curve():
                return [self._shuffled[places[i]] for i in client.GetIntersection(filled, part)]

        found = set(_in_parts(matched, list(range(len(ours))), self._n_jobs))
        return [one for one in self._ids if one in found]


@hides_locals
def answer(
    ids: Sequence[str], request: bytes, max_ids: int, *, federation: str, table: str, n_jobs: int = -1
) -> tuple[bytes, bytes]:
    """Return a participant's answer, setup and response, made with a key for this answer only.

    Raises FormatError for a request that does not parse, ProtocolError for one of another federation or
    table, kind `request`, or about more than `max_ids` ids, kind `too-large`; and UsageError if there are no
    ids here, or an id occurs twice.
    """
    place, hashed = (federation, table), _hashed(ids, federation, table)
    if len(request) > TAG_BYTES + POINT_BYTES * max_ids:
        raise ProtocolError(f"a request about more than {max_ids} ids", kind="too-large")
    asked = _points(request, "request", place)
    if not asked or len(set(asked)) != len(asked):
        raise FormatError("a request about no id, or twice about one")
    key = psi.server.CreateWithNewKey(True).GetPrivateKeyBytes()

    def again(some: list[bytes]) -> list[bytes]:
        server = psi.server.CreateFromKey(key, True)
        part = psi.Request(reveal_intersection=True, encrypted_elements=some)
        with _on_the_curve():
            return list(server.ProcessRequest(part).encrypted_elements)

    def blinded(some: list[bytes]) -> list[bytes]:
        server = psi.server.CreateFromKey(key, True)
        part = server.CreateSetupMessage(1e-9, len(asked), some, psi.DataStructure.RAW)
        return list(part.raw.encrypted_elements)

    answered = _in_parts(again, asked, n_jobs)
    own = sorted(_in_parts(blinded, hashed, n_jobs))  # sorted as ciphertexts: the order of the rows is gone
    setup = _tag("setup", place, request) + b"".join(own)
    return setup, _tag("response", place, request, setup) + b"".join(answered)


def _in_parts(function: Callable[[list[Item]], list[Result]], items: list[Item], n_jobs: int) -> list[Result]:
    """Apply a function of a list part by part in threads: the library releases the interpreter lock."""
    parts = [items[start : start + _AT_A_TIME] for start in range(0, len(items), _AT_A_TIME)]
    return [result for done in in_threads(function, parts, n_jobs) for result in done]


@contextmanager
def _on_the_curve() -> Iterator[None]:
    """Turn the library's error about the other side's points into ours."""
    try:
        yield
    except RuntimeError:
        raise FormatError("a point that is not on the curve", kind="out-of-range") from None


def _hashed(ids: Sequence[str], federation: str, table: str) -> list[bytes]:
    """Return the ids as the library takes them."""
    if not ids:
        raise UsageError(f"table {table!r}: no ids to match; give this party some rows")
    if len(set(ids)) != len(ids):
        raise UsageError(f"table {table!r}: an id occurs twice; each id must name one row")
    prefix = digest(_DOMAIN, "id", federation, table)
    try:
        return [hashlib.sha256(prefix + one.encode()).digest() for one in ids]
    except UnicodeEncodeError:
        raise UsageError(f"table {table!r}: an id is not valid Unicode; save the file as UTF-8") from None


def _tag(what: str, place: tuple[str, str], *answered: bytes) -> bytes:
    """Return the start of a message: a hash of its kind, its place, and the messages that it answers."""
    before = tuple(hashlib.sha256(message).digest() for message in answered)
    return digest(_DOMAIN, what, *place, before)[:TAG_BYTES]


def _points(message: bytes, what: str, place: tuple[str, str], *answered: bytes) -> list[bytes]:
    """Return the compressed points of a message. They may still lie off the curve."""
    if len(message) < TAG_BYTES or (len(message) - TAG_BYTES) % POINT_BYTES:
        raise FormatError(f"a {what} of {len(message)} bytes", kind="length")
    if message[:TAG_BYTES] != _tag(what, place, *answered):
        raise ProtocolError(f"a {what} of another federation or table, or to another request", kind="request")
    points = [message[start : start + POINT_BYTES] for start in range(TAG_BYTES, len(message), POINT_BYTES)]
    if any(point[0] not in (2, 3) for point in points):
        raise FormatError(f"a {what} with something other than points")
    return points
