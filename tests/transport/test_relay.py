"""What CS passes on: nobody can use it against another."""

import pytest

from revfrf.errors import ProtocolError
from revfrf.messages.base import MIB, Done
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.testing.recorders import until
from revfrf.transport.connections import Connection
from revfrf.transport.frames import Frame
from revfrf.transport.letters import Sealing
from revfrf.transport.relay import fate_of
from tests.transport.links import InMemory, UnusedLink, raw_link


def lines() -> tuple[Connection, Connection]:
    """Those of KGC and of a requester."""
    return Connection(UnusedLink("KGC")), Connection(UnusedLink("clinic"))


def test_an_answer_that_nobody_is_owed_goes_nowhere() -> None:
    kgc, clinic = lines()
    answer = Frame("reply", "KGC", "clinic", 7)
    assert fate_of(kgc, clinic, answer) == "ignore"
    assert fate_of(clinic, kgc, Frame("call", "clinic", "KGC", 7)) == "pass on"
    assert fate_of(clinic, kgc, Frame("reply", "clinic", "KGC", 7)) == "ignore"
    assert fate_of(kgc, clinic, answer) == "pass on"
    assert fate_of(kgc, clinic, answer) == "ignore"


def test_nobody_asks_with_more_than_its_role_has_to_say_nor_answers_at_length() -> None:
    kgc, clinic = lines()
    with pytest.raises(ProtocolError, match="sent"):
        fate_of(clinic, kgc, Frame("call", "clinic", "KGC", 1, 1025 + Sealing.OVERHEAD))
    with pytest.raises(ProtocolError, match="sent"):
        fate_of(clinic, kgc, Frame("hello", "clinic", "KGC", 1, 1))
    assert fate_of(kgc, clinic, Frame("call", "KGC", "clinic", 1, 64 * MIB)) == "pass on"
    with pytest.raises(ProtocolError, match="answered with"):
        fate_of(clinic, kgc, Frame("reply", "clinic", "KGC", 1, 2 * MIB))
    with pytest.raises(ProtocolError, match="may not write to"):
        fate_of(clinic, Connection(UnusedLink("bank")), Frame("call", "clinic", "bank", 1))


def test_pieces_follow_the_first_one_alone() -> None:
    kgc, clinic = lines()
    assert fate_of(kgc, clinic, Frame("call", "KGC", "clinic", 3, 9, 4, b"piece")) == "ignore"
    assert fate_of(kgc, clinic, Frame("call", "KGC", "clinic", 3, 9, 0, b"four")) == "pass on"
    assert fate_of(kgc, clinic, Frame("call", "KGC", "clinic", 3, 9, 4, b"piece")) == "pass on"
    assert fate_of(kgc, None, Frame("call", "KGC", "clinic", 4, 9, 0, b"four")) == "absence"
    assert fate_of(kgc, None, Frame("call", "KGC", "clinic", 4, 9, 4, b"piece")) == "ignore"


def test_who_asks_too_much_at_once_is_refused_and_the_others_are_not() -> None:
    network = InMemory()
    asked = []

    def never(data: bytes) -> list[bytes]:
        asked.append(Frame.decode(data))
        return []

    network.add("KGC", lambda *_: Done())
    network.links["KGC"].other._faults = never  # KGC hears nothing
    evil = raw_link(network.cs, "bank")
    evil.say(*(Frame("hello", "bank", "KGC", number) for number in range(100)))
    until(lambda: len(asked) == 64)
    refused = evil.heard(36, kind="refusal")
    assert [frame.call for frame in refused] == list(range(64, 100))
    assert not evil.closed
    assert "KGC" in network.cs.present()
    network.links["KGC"].other._faults = lambda data: [data]
    clinic = network.add("clinic")
    assert clinic.call("KGC", AdmissionRequest(), Done) == Done()
    network.cut("KGC")
    assert len(evil.heard(64, kind="absence")) == 64
