"""Questions whose answers show that all of them has arrived."""

from hashlib import sha256
from typing import cast

from revfrf.errors import ProtocolError
from revfrf.messages.alignment import MatchReply, MatchRequest, SchemaRequest
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import Schema
from revfrf.messages.frf_predict import PredictReply, PredictRequest
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted, EpochCertificate, SetUpRequest
from revfrf.transport.calls import Endpoint
from tests.messages.test_messages import FULL

CERTIFICATE = cast(EpochCertificate, FULL[EpochCertificate])
PREDICT = cast(PredictRequest, FULL[PredictRequest])


def digests(_: str, message: Message) -> Message:
    """A party whose answers depend on all that it is sent."""
    match message:
        case MatchRequest():
            return MatchReply(own=sha256(message.blinded).digest(), twice=message.table.encode())
        case PredictRequest():
            voted = sha256(message.rows).digest()
            return PredictReply(votes=message.rows[::-1], n_voted=voted, absent=(), failure=None)
        case EpochCertificate():
            return EpochAccepted(epoch=message.epoch)
        case SchemaRequest():
            return Schema(columns=(), n_rows=message.epoch)
        case AdmissionRequest() | SetUpRequest():
            return Done()
    raise ProtocolError("no such message")


def ask(cs: Endpoint, party: str, data: bytes, table: str = "t") -> None:
    """CS asks a participant, and has the right answer."""
    reply = cs.call(party, MatchRequest(epoch=1, table=table, blinded=data), MatchReply)
    assert (reply.own, reply.twice) == (sha256(data).digest(), table.encode())


def ask_rows(endpoint: Endpoint, rows: bytes) -> None:
    """A participant asks CS, and has the right answer."""
    reply = endpoint.call("CS", PredictRequest(request=PREDICT.request, rows=rows), PredictReply)
    assert (reply.votes, reply.n_voted) == (rows[::-1], sha256(rows).digest())
