"""Requests: what a requester signs, and by what others decide whether to answer.

CS, CC and every owner check a request for themselves, each with its own policy and its own book. An answer
needs all of them. A request limits what is asked: each depth of the trees once, with at most as many
comparisons as there are trees and rows. An attempt counts, whether it succeeds or not.
"""

import hashlib
import secrets
from collections.abc import Collection
from numbers import Integral

import msgspec

from revfrf.crypto.canonical import Field, digest
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import PolicyError, ProtocolError, UsageError
from revfrf.forest.voting import Voting
from revfrf.messages.fle_expan import OpenForest
from revfrf.messages.frf_predict import Request
from revfrf.messages.key_setup import Admission
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.key_setup import verify_admission
from revfrf.storage.memory import KnownRequest, RequestBook

_REQUEST = "revfrf request v1"
_ROWS = "revfrf encrypted rows v1"


class RequestPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose requests a party answers, and how many of them.

    `accepts` names the only requesters it answers, None for all that KGC has admitted; `refuses` names some
    whom it does not, even if they are among these. `max_rows` is how many rows each requester may ask about
    in an epoch, None for any number. Every answered row tells CS on which side of some thresholds it lies; 62
    well-chosen rows find a threshold.
    """

    accepts: Collection[str] | None = None
    refuses: Collection[str] = ()
    max_rows: int | None = None

    def __post_init__(self) -> None:
        change, limit = msgspec.structs.force_setattr, self.max_rows
        if self.accepts is not None:
            change(self, "accepts", _names("accepts", self.accepts))
        change(self, "refuses", _names("refuses", self.refuses))
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 0):
            raise UsageError(f"max_rows={limit!r}: give a number of rows, or None for any number")
        change(self, "max_rows", None if limit is None else int(limit))

    def check(self, requester: str, n_rows: int) -> None:
        """Raise PolicyError unless this requester may ask about this many rows in all."""
        if requester in self.refuses or (self.accepts is not None and requester not in self.accepts):
            raise PolicyError(f"{requester!r} is not accepted here", kind="requester")
        if self.max_rows is not None and n_rows > self.max_rows:
            raise PolicyError(
                f"{requester!r} asks about {n_rows} rows in all; {self.max_rows} are accepted", kind="quota"
            )


def _names(parameter: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise UsageError(f"{parameter}={names!r}: give a list of requesters' names, like ['clinic']")
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{parameter}={names!r}: requesters' names are strings")
    return tuple(sorted(set(names)))


# -- the requester ----------------------------------------------------------------------------------


def sign_request(
    identity: Identity, forest: bytes, n_rows: int, voting: Voting, partial: bool, rows: bytes
) -> Request:
    """A new request for these encrypted rows. Raises ProtocolError before KGC has admitted the requester."""
    name = secrets.token_bytes(16)
    unsigned = Request(identity.admitted, forest, name, n_rows, voting, partial, rows_digest(rows), bytes(64))
    signature = identity.signing_key.sign(_REQUEST, *_fields(unsigned))
    return msgspec.structs.replace(unsigned, signature=signature)


def rows_digest(rows: bytes) -> bytes:
    """Return the digest that ties a request to its encrypted rows."""
    return digest(_ROWS, rows)


def _fields(request: Request) -> tuple[Field, ...]:
    """Return what a requester signs: everything but the signature."""
    r, a = request, request.admission
    return (a.federation, a.epoch, a.member.name, r.forest, r.id, r.n_rows, r.voting, r.partial, r.digest)


# -- CS, CC and owners -------------------------------------------------------------------------------


def check_request(identity: Identity, forest: OpenForest, book: RequestBook, request: Request) -> None:
    """Raise RejectedError unless KGC admitted the requester in this epoch, and it asks this forest.

    Signatures are verified once: what is in the book was verified when it came first.
    """
    if request.forest != forest.forest:
        raise ProtocolError("a request to another forest", kind="forest")
    _check_standing(identity, request.admission)
    with book.lock:
        known = book.known.get(request.id)
    if known is not None and known.digest == _request_hash(request):
        return
    verify_admission(identity.kgc, request.admission)
    VerifyKey(request.admission.member.verify_key).verify(request.signature, _REQUEST, *_fields(request))


def check_admission(identity: Identity, admission: Admission) -> None:
    """Raise RejectedError unless KGC admitted this requester in the current epoch."""
    _check_standing(identity, admission)
    verify_admission(identity.kgc, admission)


def _check_standing(identity: Identity, admission: Admission) -> None:
    certificate = identity.certificate
    if certificate is None or admission.epoch != certificate.epoch:
        raise ProtocolError(
            f"an admission of epoch {admission.epoch}, not the current one; if this persists, KGC's or this "
            "party's directory is an old copy: restore the latest one",
            kind="epoch",
        )
    if admission.federation != certificate.federation:
        raise ProtocolError("an admission to another federation", kind="forest")
    if admission.member.name in certificate.revoked:
        raise ProtocolError(f"{admission.member.name!r} is revoked", kind="member")


def enter_request(
    book: RequestBook, policy: RequestPolicy, forest: OpenForest, request: Request, depth: int, count: int
) -> None:
    """Write down that a checked request has come to this depth, with this many comparisons.

    Raises PolicyError if the policy does not accept it, ProtocolError for a depth that was answered before or
    is deeper than the trees, for a second request with the same id, and for more comparisons than the
    request has rows and the forest has trees.
    """
    if not 0 < count <= forest.rules.n_trees * request.n_rows or depth >= forest.rules.max_depth:
        raise ProtocolError(f"depth {depth} with {count} comparisons is beyond the request", kind="request")
    requester, digest = request.admission.member.name, _request_hash(request)
    with book.lock:
        known = book.known.get(request.id)
        rows = book.rows[requester] + (0 if known else request.n_rows)
        policy.check(requester, rows)
        if known is not None and (known.digest != digest or depth <= known.depth):
            raise ProtocolError(f"depth {depth} of a request was answered before", kind="replay")
        book.enter(request.id, KnownRequest(digest, depth), requester, rows)


def _request_hash(request: Request) -> bytes:
    """Return the hash of all of it, including signatures."""
    return hashlib.sha256(msgspec.msgpack.encode(request)).digest()
