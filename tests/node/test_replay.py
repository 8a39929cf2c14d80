"""Replays: whatever was said once, said again over a fresh link of who has said it, changes nothing."""

import shutil
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from revfrf.errors import FormatError, RefusedError
from revfrf.messages.base import Done, Message
from revfrf.messages.bins import BinsRequest
from revfrf.messages.registry import MESSAGES, calls_between
from revfrf.names import PARTICIPANT, REQUESTER, SERVERS
from revfrf.node import api
from revfrf.node.coordinator import CoordinatorService
from revfrf.node.requester import RequesterService
from revfrf.node.service import Service
from revfrf.storage.sqlite import _TABLES
from revfrf.testing.recorders import until
from revfrf.transport.calls import Endpoint
from revfrf.transport.codec import decode
from revfrf.transport.connections import Link
from revfrf.transport.frames import Frame
from tests.node.in_process import Federation

SEALED = "sealed"
"""What a frame holds that CS has passed on."""

NUMBERS = count(2**62)


@dataclass(frozen=True)
class Call:
    """A message as it came to a role."""

    sender: str
    recipient: str
    message: Message


class Recorded(Federation):
    """A federation of which every frame and every message is written down."""

    def __init__(self, directory: Path) -> None:
        self.frames: list[Frame] = []
        self.calls: list[Call] = []
        super().__init__(directory)
        self.clinic = cast(RequesterService, self.open("clinic"))
        self.cs = cast(CoordinatorService, self.services["CS"])

    def open(self, name: str) -> Service:
        service = super().open(name)
        endpoint, received, answer = service.endpoint, service.endpoint.received, service.endpoint._answer

        def tapped(link: Link, data: bytes) -> None:
            self.frames.append(Frame.decode(data))
            received(link, data)

        def answered(sender: str, message: Message) -> Message:
            self.calls.append(Call(sender, name, message))
            return answer(sender, message)

        endpoint.received, endpoint._answer = tapped, answered  # type: ignore[method-assign]
        return service

    def reconnect(self) -> None:
        """Everybody but CS has a fresh link, as after a short failure of the network."""
        for name, service in self.services.items():
            if name != "CS":
                self.link(service.endpoint, service.home)

    def said(self) -> list[Frame | Call]:
        """Every frame of a call as it was, and every message that came sealed; they are said only once."""
        calls = [frame for frame in self.frames if frame.kind == "call"]
        said: list[Frame | Call] = [*calls, *filter(is_far, self.calls)]
        self.frames.clear()
        self.calls.clear()
        return said

    def ask(self) -> tuple[Any, Any]:
        """A test, a prediction, and encrypted requests of two."""
        rows = str(self.directory / "clinic" / "rows.csv")
        tested = self.cs.command(api.Test(str(self.directory / "CS" / "test.csv")))
        asking = (self.clinic, self.services["h0"])
        return tested, [who.command(api.PredictEncrypted(rows)).prediction for who in asking]

    def state(self) -> dict[str, Any]:
        """All that the parties have written down, but for their logs, and the forest.

        Besides that, participants hold some tables to be tested on, the last few that CS has named.
        """
        state: dict[str, Any] = {"forest": self.cs.role.digest(), "ready": self.cs.role.ready}
        for name, service in self.services.items():
            database = service.home.store.tables
            state[name] = {table: sorted(database.rows(table)) for table in _TABLES}
            state[f"book of {name}"] = dict(service.home.store.book.known)
            growth = getattr(service.role, "growth", None)
            state[f"growth of {name}"] = growth and (growth.rules, dict(growth.index), len(growth.proposals))
        return state


def is_far(said: Frame | Call) -> bool:
    """Whether CS has passed it on."""
    return "CS" not in (said.sender, said.recipient)


@dataclass(frozen=True)
class Replayed:
    """What has come of it, by type of message."""

    refused: set[str]
    answered: set[str]
    ignored: set[str]
    changed: dict[str, set[str]]


class Replay:
    """Says again what was said before, one after the other, and looks whether anything has changed."""

    def __init__(self, federation: Recorded, said: Sequence[Frame | Call]) -> None:
        self.federation = federation
        self.outcomes: defaultdict[str, set[str]] = defaultdict(set)
        self.changed: defaultdict[str, set[str]] = defaultdict(set)
        federation.reconnect()
        federation.frames.clear()  # of the old links, some were owed answers that do not come
        for each in said:
            self._again(each)

    def result(self) -> Replayed:
        refused = {what for what, kinds in self.outcomes.items() if "refusal" in kinds}
        answered = {what for what, kinds in self.outcomes.items() if "reply" in kinds}
        ignored = {what for what, kinds in self.outcomes.items() if kinds == {"silence"}}
        return Replayed(refused, answered, ignored, dict(self.changed))

    def _again(self, said: Frame | Call) -> None:
        here = self.federation.services.keys()
        if isinstance(said, Frame) and is_far(said) and said.recipient in here:
            self._letter(said)
            self._letter(msgspec.structs.replace(said, call=next(NUMBERS)))
        elif not {said.sender, said.recipient} <= here:
            self.outcomes["of who has left"].add("silence")
        elif isinstance(said, Call):
            self._message(said)
        else:
            self._frame(msgspec.structs.replace(said, call=next(NUMBERS)))

    def _frame(self, frame: Frame) -> None:
        """The very bytes, but for the number of the call."""
        before = self.federation.state()
        self._send(frame.sender, frame.recipient, frame)
        until(lambda: self._back(frame))
        self._note(type(decode(frame.piece, *MESSAGES)).__name__, self._back(frame)[0].kind, before)

    def _letter(self, frame: Frame) -> None:
        """The very bytes, by CS, who has passed them on before. Their recipient has dealt with them when it
        answers what comes later, and nothing waits.
        """
        before = self.federation.state()
        hello = Frame("hello", frame.sender, frame.recipient, next(NUMBERS))
        self._send("CS", frame.recipient, frame)
        self._send("CS", frame.recipient, hello)
        load = self._endpoint(frame.recipient)._load
        until(lambda: self._back(hello) and frame.sender not in load._sizes)
        back = self._back(frame)
        self._note(SEALED, back[0].kind if back else "silence", before)

    def _endpoint(self, name: str) -> Endpoint:
        return self.federation.services[name].endpoint

    def _send(self, by: str, to: str, frame: Frame) -> None:
        self._endpoint(by)._links[to if by == "CS" else "CS"].send(frame.encode())

    def _back(self, frame: Frame) -> list[Frame]:
        """What has come back."""
        frames = list(self.federation.frames)
        return [back for back in frames if (back.call, back.recipient) == (frame.call, frame.sender)]

    def _message(self, call: Call) -> None:
        """The same message, sealed anew."""
        before, kind = self.federation.state(), "reply"
        try:
            self._endpoint(call.sender).call(call.recipient, call.message, Done)
        except RefusedError:
            kind = "refusal"
        except FormatError:
            pass  # a reply of another type
        self._note(type(call.message).__name__, kind, before)

    def _note(self, what: str, kind: str, before: dict[str, Any]) -> None:
        self.outcomes[what].add(kind)
        after = self.federation.state()
        changes = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if changes:
            self.changed[what] |= changes


@dataclass(frozen=True)
class Life:
    """Which types of messages were said, what came of their replays, and the answers before and after."""

    kinds: set[type[Message]]
    replays: tuple[Replayed, Replayed]
    before: Any
    after: Any


@pytest.fixture(scope="module")
def life(founded: Path, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Replays when h2 has asked to leave, and KGC has not done anything yet; and again when it has left."""
    directory = Path(shutil.copytree(founded, tmp_path_factory.mktemp("replay") / "federation"))
    with closing(Recorded(directory)) as federation:
        federation.cs.command(api.Train())
        federation.ask()
        federation.services["h2"].command(api.Revoke(2))
        kinds = {type(call.message) for call in federation.calls}
        said = federation.said()
        first = Replay(federation, said).result()
        federation.said()  # what was a replay
        federation.kgc.work()
        federation.shut("h2")
        federation.cs.work()
        before = federation.ask()
        kinds |= {type(call.message) for call in federation.calls}
        said += federation.said()
        second = Replay(federation, said).result()
        return Life(kinds, (first, second), before, federation.ask())


def test_every_message_that_anybody_may_send_was_said(life: Life) -> None:
    roles = (*SERVERS, PARTICIPANT, REQUESTER)
    allowed = {kind for a, b in product(roles, roles) for kind in calls_between(a, b)}
    assert life.kinds == allowed - {BinsRequest}  # which the shares protocol has


@pytest.mark.parametrize("after", [0, 1], ids=["training", "leaving"])
def test_a_replay_changes_nothing(life: Life, after: int) -> None:
    assert life.replays[after].changed == {}


def test_after_all_replays_the_answers_are_the_same(life: Life) -> None:
    assert life.before == life.after


ONCE = {"KeyDeal", "LevelRequest", "PredictRequest", "MaskedComparisons", "ShareRequest"}
"""What is good for once."""

AGAIN = {"SetUpRequest", "EpochCertificate", "AdmissionRequest", "Admission", "ForestQuery"}
"""What may be said as often as one likes in its epoch, besides what only reads."""

READS = {"SchemaRequest", "MatchRequest", "TestRequest"}
TABLES = {"Align", "Drop"}
"""A table comes and goes again."""


def test_after_training_replays_are_refused_or_answered_as_before(life: Life) -> None:
    first, _ = life.replays
    assert first.refused == ONCE | {"RevocationRequest"}
    assert first.answered == AGAIN | READS | TABLES | {"OpenForest", "EventReport"}


def test_after_leaving_nothing_is_answered_but_what_the_new_epoch_has_said(life: Life) -> None:
    """Of the old one everything is refused; and of the new one what would take cuts that have grown since.

    An epoch certificate of the old one is answered with the current epoch.
    """
    _, second = life.replays
    of_the_old = {"OpenForest", "Admission", "ForestQuery", "EventReport"}
    assert second.refused == ONCE | READS | TABLES | of_the_old | {"Destroy"}
    again = AGAIN | (READS - {"SchemaRequest"}) | TABLES
    assert second.answered == again | {"Rekey", "EventReport", "EventNotice"}


def test_letters_are_good_for_once(life: Life) -> None:
    """As they were, and with another number; also those of one who has left."""
    assert [SEALED in outcome.ignored for outcome in life.replays] == [True, True]
