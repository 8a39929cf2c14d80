"""What a refusal tells: by whom it is, and not why."""

from collections.abc import Iterable
from functools import partial

import msgspec
import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import PolicyError, RefusedError
from revfrf.messages.base import Message
from revfrf.messages.fle_expan import LevelReply, LevelRequest
from revfrf.messages.frf_predict import ShareReply, ShareRequest
from revfrf.names import CS
from revfrf.protocols.common.request import RequestPolicy
from revfrf.testing.federations import random_case, train
from revfrf.testing.refusals import refusal
from tests.views.overheard import Run, watching


def refuse(federation: Federation, owner: str, how: str) -> None:
    """Let an owner refuse what comes next, for this reason."""
    its = federation.participants[owner]
    match how:
        case "requester":
            its.policy = RequestPolicy(refuses=["clinic"])
        case "stranger":
            its.policy = RequestPolicy(accepts=["hospital"])
        case "quota":
            its.policy = RequestPolicy(max_rows=0)
        case "keys":
            its.identity.keys = None
        case "forest":
            its.side = None


@pytest.mark.parametrize("how", ["requester", "stranger", "quota", "keys", "forest"])
def test_requester_hears_of_a_refusal_by_whom_and_not_why(how: str) -> None:
    case = random_case(72)
    federation = train(case)
    federation.enrol_requester("clinic")
    owner = federation.coordinator.store.splits[0, 1].owner
    refuse(federation, owner, how)
    with watching() as watch, pytest.raises(RefusedError) as caught:
        federation.ask(case.codes, "clinic", "soft", False, lambda _: None)
    assert caught.value.party == owner
    assert caught.value.reason == "has refused this request, and its consent is needed"
    [reply] = [sent.plain for sent in watch.sent if sent.plain["type"] == "PredictReply"]
    failure = {"party": owner, "reason": "refused"}
    assert reply == {"type": "PredictReply", "votes": b"", "n_voted": b"", "absent": [], "failure": failure}
    assert not [sent for sent in watch.sent if sent.sender == owner]


def test_refusal_tells_the_peer_nothing_but_that(run: Run) -> None:
    """Whatever the reason, the words are the same."""
    good = next(s for s in run.leaving if s.plain["type"] == "LevelRequest" and s.recipient == "bank")
    request = msgspec.msgpack.decode(good.data[1:], type=LevelRequest)
    reasons: list[Message] = [
        request,
        msgspec.structs.replace(request, epoch=9),
        msgspec.structs.replace(request, forest=bytes(16)),
        msgspec.structs.replace(request, round=99, asked_nodes=b"\7"),
    ]
    said, why = refusals(run.federation, "bank", reasons, LevelReply)
    assert said == {"rejected"}
    assert len(why) == 4


def refusals(
    federation: Federation, party: str, messages: Iterable[Message], reply_type: type[Message]
) -> tuple[set[str], set[str]]:
    """What CS is told, and the reasons that the party keeps to itself."""
    channel = federation.network.channel(CS)
    reasons = [refusal(partial(channel.call, party, message, reply_type), by=party) for message in messages]
    return {reason.peer_message for reason in reasons}, set(map(str, reasons))


def test_refusal_to_open_results_tells_the_coordinator_that_it_is_the_policy_or_nothing() -> None:
    case = random_case(73)
    federation = train(case)
    with watching() as watch:
        federation.ask(case.codes, None, "soft", False, lambda _: None)
    sent = next(sent for sent in watch.sent if sent.plain["type"] == "ShareRequest")
    owner, good = sent.recipient, msgspec.msgpack.decode(sent.data[1:], type=ShareRequest)
    header = good.request
    forged = msgspec.structs.replace(header, n_rows=header.n_rows - 1)
    reasons: list[Message] = [
        good,  # again
        msgspec.structs.replace(good, depth=good.depth + 1),
        msgspec.structs.replace(good, request=forged),
        msgspec.structs.replace(good, request=msgspec.structs.replace(header, forest=bytes(16))),
    ]
    said, why = refusals(federation, owner, reasons, ShareReply)
    assert said == {"rejected"}
    assert len(why) == 4
    its = federation.participants[owner]
    said, why = set(), set()
    for policy in (RequestPolicy(refuses=["requester"]), RequestPolicy(max_rows=1)):
        its.policy = policy
        heard, reason = refusals(federation, owner, [good], ShareReply)
        said |= heard
        why |= reason
    its.policy = RequestPolicy()
    assert said == {PolicyError.peer_message}
    assert len(why) == 2
