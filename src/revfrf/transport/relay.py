"""What CS passes on between KGC and the others: calls of those who may make them, and answers that are owed.

Nobody waits for another here: a party that asks too much is refused, which the others do not notice.
"""

from typing import Literal

from revfrf.errors import ProtocolError
from revfrf.messages.base import MIB
from revfrf.messages.registry import longest_call
from revfrf.names import KGC
from revfrf.transport.connections import Connection
from revfrf.transport.frames import Frame
from revfrf.transport.letters import Sealing

_ANSWER = MIB + Sealing.OVERHEAD
"""Bytes of an answer: all that KGC and the others say to each other in answers are short."""

Fate = Literal["pass on", "ignore", "absence", "refusal"]
"""What becomes of a frame; the last two are reported to its sender."""


def fate_of(line: Connection, onward: Connection | None, frame: Frame) -> Fate:
    """What CS does with a frame from `line` for the party at `onward`. Raises ProtocolError to end `line`."""
    if KGC not in (frame.sender, frame.recipient):
        raise ProtocolError(f"{frame.sender!r} may not write to {frame.recipient!r}", kind="sender")
    if not frame.asks:
        return _fate_of_answer(line, onward, frame)
    if onward is None:
        return "absence" if frame.offset == 0 else "ignore"
    longest = longest_call(line.link.who.role, onward.link.who.role) + Sealing.OVERHEAD
    if frame.size > (0 if frame.kind == "hello" else longest):
        raise ProtocolError(f"{frame.sender!r} sent a call of {frame.size:,} bytes", kind="too-large")
    if frame.offset:
        return "pass on" if onward.owes(frame.sender, frame.call) else "ignore"
    return "pass on" if onward.owe(frame.sender, frame.call) else "refusal"


def _fate_of_answer(line: Connection, onward: Connection | None, frame: Frame) -> Fate:
    if not line.owes(frame.recipient, frame.call):
        return "ignore"  # nobody has asked
    if frame.size > _ANSWER:
        raise ProtocolError(f"{frame.sender!r} answered with {frame.size:,} bytes", kind="too-large")
    if frame.offset + len(frame.piece) >= frame.size:
        line.settle(frame.recipient, frame.call)
    return "ignore" if onward is None else "pass on"
