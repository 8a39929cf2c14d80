"""Every type that may cross a wire, and who may send which request to whom.

Both transports decode only what this table allows; roles check what a message says.
"""

from functools import cache

from revfrf.messages import (
    alignment,
    base,
    bins,
    events,
    fle_expan,
    frf_predict,
    frf_revoc,
    frf_test,
    key_setup,
)
from revfrf.messages.base import Message
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER

MESSAGES: tuple[type[Message], ...] = tuple(
    kind
    for module in (base, key_setup, alignment, fle_expan, bins, frf_test, frf_predict, frf_revoc, events)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind.__module__ == module.__name__
    if kind is not Message
)

_CALLS: dict[tuple[str, str], tuple[type[Message], ...]] = {
    (CS, CC): (fle_expan.OpenForest, frf_predict.MaskedComparisons, events.EventNotice),
    (CS, KGC): (key_setup.SetUpRequest, events.EventReport),
    (CS, PARTICIPANT): (
        alignment.SchemaRequest,
        alignment.MatchRequest,
        alignment.Align,
        alignment.Drop,
        fle_expan.OpenForest,
        fle_expan.LevelRequest,
        bins.BinsRequest,
        frf_test.TestRequest,
        frf_predict.ShareRequest,
        frf_revoc.Destroy,
        frf_revoc.Rekey,
        events.EventNotice,
    ),
    (PARTICIPANT, CS): (frf_predict.ForestQuery, frf_predict.PredictRequest),
    (PARTICIPANT, KGC): (key_setup.AdmissionRequest, frf_revoc.RevocationRequest),
    (REQUESTER, CS): (frf_predict.ForestQuery, frf_predict.PredictRequest),
    (REQUESTER, KGC): (key_setup.AdmissionRequest,),
}


@cache
def calls_between(sender: str, recipient: str) -> tuple[type[Message], ...]:
    """Return what a party with the role `sender` may ask of one with the role `recipient`."""
    kinds = _CALLS.get((sender, recipient), ())
    if sender == KGC != recipient:
        kinds += (key_setup.KeyDeal, key_setup.EpochCertificate, key_setup.Admission)
    return kinds


def longest_call(sender: str, recipient: str) -> int:
    """Return the bytes of the longest message that `sender` may send to `recipient`; 0 if there is none."""
    return max((kind.max_bytes for kind in calls_between(sender, recipient)), default=0)
