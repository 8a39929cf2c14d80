"""Every type that may cross a wire, and nothing else."""

from revfrf.messages import base, enrolment, prediction, revocation, testing, training
from revfrf.messages.base import Message

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
)
