"""Every type that may cross a wire, and nothing else."""

from functools import cache

from revfrf.messages import base, enrolment, matching, network, prediction, revocation, testing, training
from revfrf.messages.base import Message
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER

MESSAGES: tuple[type[Message], ...] = (
    base.Done,
    enrolment.Dealt,
    enrolment.Enrolment,
    enrolment.EpochCertificate,
    enrolment.EpochAccepted,
    enrolment.Admission,
    training.OpenForest,
    training.Schema,
    training.LevelRequest,
    training.LevelReply,
    testing.TestRequest,
    testing.TestReply,
    prediction.ForestQuery,
    prediction.ForestFacts,
    prediction.PredictRequest,
    prediction.PredictReply,
    prediction.MaskedComparisons,
    prediction.SealedResults,
    prediction.ShareRequest,
    prediction.ShareReply,
    prediction.HoAddRequest,
    prediction.HoLTRequest,
    prediction.CiphertextReply,
    revocation.RevocationRequest,
    revocation.Destroy,
    revocation.Rekey,
    revocation.Rekeyed,
    revocation.RevocationReport,
    revocation.Certified,
    network.SetUpRequest,
    network.SetUpReply,
    network.AdmissionRequest,
    matching.SchemaRequest,
    matching.MatchRequest,
    matching.MatchReply,
    matching.Align,
    matching.Drop,
)

_CALLS: dict[tuple[str, str], tuple[type[Message], ...]] = {
    (CS, CC): (training.OpenForest, prediction.MaskedComparisons),
    (CS, KGC): (network.SetUpRequest, revocation.RevocationReport),
    (CS, PARTICIPANT): (
        matching.SchemaRequest,
        matching.MatchRequest,
        matching.Align,
        matching.Drop,
        training.OpenForest,
        training.LevelRequest,
        testing.TestRequest,
        prediction.ShareRequest,
        revocation.Destroy,
        revocation.Rekey,
    ),
    (PARTICIPANT, CS): (
        prediction.ForestQuery,
        prediction.PredictRequest,
        revocation.RevocationRequest,
    ),
    (PARTICIPANT, KGC): (network.AdmissionRequest, revocation.RevocationRequest),
    (REQUESTER, CS): (prediction.ForestQuery, prediction.PredictRequest),
    (REQUESTER, KGC): (network.AdmissionRequest,),
}


@cache
def calls_between(sender: str, recipient: str) -> tuple[type[Message], ...]:
    """What a party with this role may ask of one with that role."""
    kinds = _CALLS.get((sender, recipient), ())
    if sender == KGC != recipient:
        kinds += (enrolment.Dealt, enrolment.EpochCertificate, enrolment.Admission)
    return kinds
