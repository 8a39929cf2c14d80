"""Replays: whatever was said once, said again over a fresh link of who has said it, changes nothing."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
import pytest

from revfrf.errors import FormatError, RefusedError
from revfrf.federation import Federation
from revfrf.messages.registry import MESSAGES
from revfrf.messages.training import LevelReply
from revfrf.protocols.identity import Identity, Keys
from revfrf.transport.codec import decode
from revfrf.transport.frames import Frame
from tests.federations import digest_of, ignore, no_search_for_primes, random_case, train, with_rules
from tests.transport.federation import Call, GrpcNetwork, over_grpc
from tests.transport.links import until

CASE = random_case(61, rules=with_rules(n_trees=2, max_depth=2))
SEALED = "sealed"
"""What a frame holds that CS has passed on."""


def ask(federation: Federation) -> None:
    some = {party: CASE.codes[party][:, :2] for party in federation.participants}
    federation.votes(some, 2, "soft")
    federation.ask(some, None, "soft", False, lambda _: None)


def keys_of(*held: Keys | None) -> object:
    return [(keys.epoch, keys.weak.public.h, keys.share is None) for keys in held if keys is not None]


def identity_of(identity: Identity) -> object:
    now, next_one = keys_of(identity.keys), keys_of(identity.dealt)
    return identity.federation, now, next_one, identity.certificate, identity.receipt, identity.admission


def state_of(federation: Federation) -> dict[str, Any]:
    """All that the roles know and have written down."""
    cs, state = federation.coordinator, dict[str, Any]()
    splits = {node: (s.feature, s.cut, s.ciphertext, s.epoch) for node, s in cs.store.splits.items()}
    state["forest"] = digest_of(federation), splits, dict(cs.store.leaves), cs.store.level
    state["CS"] = cs.record, cs.certificates, cs.store.rebuilding, cs.ready
    state["KGC"] = federation.kgc.state
    state["CC"] = federation.compute.forest
    for name, party in federation.participants.items():
        growth = party.growth
        assert growth is not None
        grown = growth.rules, dict(growth.index), len(growth.proposals)
        state[f"forest of {name}"] = dict(party.store.cuts), party.store.level, set(party.tables), grown
    for name, answering in federation.with_policies.items():
        book = answering.store.book
        state[f"book of {name}"] = dict(book.known), dict(book.rows)
        state[f"identity of {name}"] = identity_of(answering.identity)
    for name, requester in federation.requesters.items():
        state[f"requester {name}"] = identity_of(requester.identity)
    return state


@dataclass(frozen=True)
class Replayed:
    """What has come of it, by type of message."""

    refused: set[str]
    answered: set[str]
    ignored: set[str]
    changed: dict[str, set[str]]


NUMBERS = count(2**62)


class Replay:
    """Says again what was said before, one after the other, and looks whether anything has changed."""

    def __init__(self, federation: Federation, network: GrpcNetwork, said: Sequence[Frame | Call]) -> None:
        self.federation, self.network = federation, network
        self.outcomes: defaultdict[str, set[str]] = defaultdict(set)
        self.changed: defaultdict[str, set[str]] = defaultdict(set)
        network.reconnect()
        network.frames.clear()  # whoever was owed an answer over the old links has been told that none comes
        for each in said:
            if {each.sender, each.recipient} <= network.present.keys():
                self._again(each)

    def result(self) -> Replayed:
        refused = {what for what, kinds in self.outcomes.items() if "refusal" in kinds}
        answered = {what for what, kinds in self.outcomes.items() if "reply" in kinds}
        ignored = {what for what, kinds in self.outcomes.items() if kinds == {"silence"}}
        return Replayed(refused, answered, ignored, dict(self.changed))

    def _again(self, said: Frame | Call) -> None:
        if isinstance(said, Call):
            self._message(said)
            return
        renumbered = msgspec.structs.replace(said, call=next(NUMBERS))
        if is_far(said):
            self._letter(said)
            self._letter(renumbered)
        else:
            self._frame(renumbered)

    def _frame(self, frame: Frame) -> None:
        """The very bytes, but for the number of the call."""
        before = state_of(self.federation)
        self._send(frame)
        until(lambda: self._back(frame))
        self._note(type(decode(frame.piece, *MESSAGES)).__name__, self._back(frame)[0].kind, before)

    def _letter(self, frame: Frame) -> None:
        """The very bytes. Whoever they are for has dealt with them when it answers what comes later, and
        nothing waits any more.
        """
        before, hello = (
            state_of(self.federation),
            Frame("hello", frame.sender, frame.recipient, next(NUMBERS)),
        )
        self._send(frame)
        self._send(hello)
        load = self.network.present[frame.recipient].endpoint._load
        until(lambda: self._back(hello) and frame.sender not in load._sizes)
        back = self._back(frame)
        self._note(SEALED, back[0].kind if back else "silence", before)

    def _send(self, frame: Frame) -> None:
        endpoint = self.network.present[frame.sender].endpoint
        endpoint._lines[frame.recipient if frame.sender == "CS" else "CS"].link.send(frame.encode())

    def _back(self, frame: Frame) -> list[Frame]:
        """What has come back."""
        return [f for f in list(self.network.frames) if f.call == frame.call and f.recipient == frame.sender]

    def _message(self, call: Call) -> None:
        """The same message, sealed anew."""
        before, kind = state_of(self.federation), "reply"
        try:
            self.network.present[call.sender].endpoint.call(call.recipient, call.message, LevelReply)
        except RefusedError:
            kind = "refusal"
        except FormatError:
            pass  # a reply of another type
        self._note(type(call.message).__name__, kind, before)

    def _note(self, what: str, kind: str, before: dict[str, Any]) -> None:
        self.outcomes[what].add(kind)
        after = state_of(self.federation)
        changes = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if changes:
            self.changed[what] |= changes


def is_far(said: Frame | Call) -> bool:
    """Whether CS has passed it on."""
    return "CS" not in (said.sender, said.recipient)


def said_in(network: GrpcNetwork) -> list[Frame | Call]:
    """Every frame of a call as it was, and every message that came sealed; they are said only once."""
    said: list[Frame | Call] = [*network.recorded_calls(), *filter(is_far, network.calls)]
    network.frames.clear()
    network.calls.clear()
    return said


@lru_cache
def replayed() -> tuple[Replayed, Replayed]:
    """After training and asking; and again after somebody has left."""
    with no_search_for_primes(), over_grpc() as networks:
        federation = train(CASE)
        [network] = networks
        ask(federation)
        said = said_in(network)
        first = Replay(federation, network, said).result()
        said_in(network)  # what was a replay
        federation.revoke(["shop"], 2, (), ignore)
        ask(federation)
        said += said_in(network)
        return first, Replay(federation, network, said).result()


@pytest.mark.parametrize("after", [0, 1], ids=["training", "leaving"])
def test_a_replay_changes_nothing_but_keys_that_a_requester_was_not_admitted_with(after: int) -> None:
    """KGC may deal to a requester as often as it likes: its new keys are for nothing until it is admitted,
    and go when it is admitted once more with those it has.
    """
    changed = replayed()[after].changed
    assert changed.keys() <= {"Admission"}
    assert set().union(*changed.values()) <= {"requester requester"}


REFUSED = {
    "LevelRequest",
    "TestRequest",
    "PredictRequest",
    "MaskedComparisons",
    "ShareRequest",
}
"""What is good for once."""


def test_after_training_replays_are_refused_or_answered_as_before() -> None:
    first, _ = replayed()
    assert first.refused == REFUSED | {"Dealt"}
    again = {"Admission", "EpochCertificate", "OpenForest", "ForestQuery"}
    assert first.answered == again


def test_after_leaving_nothing_is_answered_but_what_the_new_epoch_has_said() -> None:
    """Of the old one everything is refused; `Dealt` is for the requester."""
    _, second = replayed()
    assert second.refused >= REFUSED | {"EpochCertificate", "OpenForest", "ForestQuery"}
    again = {"Admission", "EpochCertificate", "ForestQuery", "Rekey", "RevocationReport"}
    assert second.answered == again


def test_letters_are_good_for_once() -> None:
    """As they were, and with another number."""
    assert [outcome.ignored for outcome in replayed()] == [{SEALED}, {SEALED}]
