"""Every exchange with several parties is one round trip: with one core, too, all are called at the same time.

The first calls of each kind wait here for each other. Calls made one after another would wait in vain.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Barrier, Lock
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import RefusedError, UsageError
from revfrf.messages.alignment import Align, MatchReply, MatchRequest, NumberedRows, SchemaRequest
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import LevelRequest, OpenForest, Schema
from revfrf.messages.frf_predict import ShareRequest
from revfrf.messages.frf_revoc import Destroy, Rekey
from revfrf.messages.frf_test import TestRequest as BitsRequest
from revfrf.messages.key_setup import EpochCertificate, KeyDeal
from revfrf.protocols.alignment import answer_match, ask_all, match
from revfrf.testing.federations import Case, prepared_keys, train, with_rules
from revfrf.transport.memory import MemoryChannel

SOON = 60.0
PARTIES = [f"p{i}" for i in range(6)]
EXPECTED: Mapping[type[Message], int] = {
    KeyDeal: 8,  # CS, CC and all participants
    EpochCertificate: 7,  # CS alone is told before
    OpenForest: 7,
    LevelRequest: 6,
    BitsRequest: 2,  # as many as own splits of the first level
    ShareRequest: 2,
    Destroy: 2,
    Rekey: 2,
}


@dataclass
class Meeting:
    """The first calls of each kind wait until as many as expected have begun."""

    expected: Mapping[type[Message], int]
    began: Counter[type[Message]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._barriers = {kind: Barrier(count) for kind, count in self.expected.items()}

    def wait(self, request: Message) -> None:
        kind = type(request)
        with self._lock:
            self.began[kind] += 1
            waits = self.began[kind] <= self.expected.get(kind, 0)
        if waits:
            self._barriers[kind].wait(SOON)


@contextmanager
def meeting() -> Iterator[Meeting]:
    made, call = Meeting(EXPECTED), MemoryChannel.call

    def waiting(channel: MemoryChannel, recipient: str, request: Message, reply_type: type[Any]) -> Any:
        if recipient != "CS":
            made.wait(request)
        return call(channel, recipient, request, reply_type)

    def dealing(channel: MemoryChannel, recipient: str, request: Message, reply_type: type[Any]) -> Any:
        if isinstance(request, KeyDeal) and recipient == "CS":
            made.wait(request)
        return waiting(channel, recipient, request, reply_type)

    with patch.object(MemoryChannel, "call", dealing):
        yield made


def test_all_parties_are_called_at_the_same_time_with_one_core() -> None:
    """As between machines: in one process, where a call is work of its cores, `n_jobs` limits them."""
    rng = np.random.default_rng(5)
    codes = {party: rng.integers(-50, 50, size=(2, 80)) for party in PARTIES}
    y = [float(a > 0) for a in sum(table[0] for table in codes.values())]
    case = Case(codes, y, 2, rules=with_rules(n_trees=12))
    with prepared_keys(), patch.object(Federation, "_calls", len(EXPECTED)), meeting() as made:
        federation = train(case)
        federation.votes(codes, 80, "hard")
        federation.ask({party: table[:, :2] for party, table in codes.items()}, None, "hard", False, print)
        federation.revoke(PARTIES[:1], 2, lambda _: None)
    assert made.began.keys() >= EXPECTED.keys()
    assert all(made.began[kind] >= count for kind, count in EXPECTED.items())


# -- alignment --------------------------------------------------------------------------------------


@dataclass
class Answering:
    """A channel to participants with these ids, who are all called before one of them answers."""

    ids: Mapping[str, Sequence[str]]
    meeting: Meeting
    refusing: Sequence[str] = ()

    def call(self, recipient: str, request: Message, reply_type: type[Any]) -> Any:
        self.meeting.wait(request)
        if recipient in self.refusing:
            raise RefusedError(recipient, "has refused: rejected")
        match request:
            case SchemaRequest():
                return Schema(columns=(), n_rows=len(self.ids[recipient]))
            case MatchRequest():
                return answer_match(self.ids[recipient], "f", request, 1)
        assert reply_type is Done
        return Done()


def participants(**ids: str) -> Answering:
    """Participants whose ids are single letters."""
    kinds = (SchemaRequest, MatchRequest, Align)
    return Answering(ids, Meeting(dict.fromkeys(kinds, len(ids))))


def test_participants_are_asked_about_all_ids_of_cs_and_the_rows_are_those_that_all_have() -> None:
    channel = participants(bank="abcdx", telco="dcby", shop="bcdaz")
    names = list(channel.ids)
    schemas = ask_all(channel, names, SchemaRequest(epoch=1), Schema)
    assert {party: schema.n_rows for party, schema in schemas.items()} == {"bank": 5, "telco": 4, "shop": 5}
    matched = match(channel, "f", 1, "t", list("edcba"), names, 1)
    assert matched.ids == ["b", "c", "d"]
    assert str(matched) == "4 with 'bank', 3 with 'telco', 4 with 'shop'"
    rows = NumberedRows.of(np.arange(3), matched.ids)
    ask_all(channel, names, Align(epoch=1, table="t", rows=rows), Done)
    assert set(channel.meeting.began.values()) == {3}


def test_ids_that_nobody_shares_are_an_error_with_the_counts() -> None:
    channel = participants(bank="ab", telco="cd")
    with pytest.raises(UsageError, match=r"shared by all participants \(2 with 'bank', 1 with 'telco'\)"):
        match(channel, "f", 1, "t", list("abc"), ["bank", "telco"], 1)


def test_an_answer_to_another_question_is_blamed_on_its_participant() -> None:
    channel = participants(bank="ab", telco="ab")
    with (
        pytest.raises(RefusedError, match="'bank' ") as caught,
        patch.object(Answering, "call", lambda *_: MatchReply(own=b"", twice=b"")),
    ):
        match(channel, "f", 1, "t", list("ab"), ["bank", "telco"], 1)
    assert caught.value.party == "bank"


def test_of_several_refusals_the_first_by_name_is_raised_after_all_calls() -> None:
    channel = participants(bank="a", shop="a", telco="a")
    channel.refusing = ["telco", "shop"]
    message = Align(epoch=1, table="t", rows=NumberedRows.of(np.arange(1), ("a",)))
    with pytest.raises(RefusedError, match="'shop'"):
        ask_all(channel, sorted(channel.ids), message, Done)
    assert channel.meeting.began[Align] == 3
