"""Frames: messages of any length in pieces, so that several of them can share a link.

A piece names the message it belongs to, how long that is, and its place in it. Nothing is kept of a message
that is too long for its receiver. A piece that is not the next one, or disagrees about the length, loses the
message: that is all that a CS can do that cheats with what it passes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from revfrf.errors import FormatError, RejectedError
from revfrf.messages.base import MIB, Name

Kind = Literal["hello", "call", "reply", "refusal", "absence", "ping"]
"""`hello` asks the party at the far end for a key to seal a call to."""

Key = tuple[Kind, str, str, int]
"""The message that a frame is a piece of: its kind, sender, recipient, and the number of the call."""

PIECE = MIB
MAX_FRAME = PIECE + 4096
_UNFINISHED = 64  # messages of one link that may be on their way at once

_Size = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A piece of a message: of a call, numbered by its sender, or of what comes back with its number."""

    kind: Kind
    sender: Name
    recipient: Name
    call: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    size: _Size = 0
    offset: _Size = 0
    piece: Annotated[bytes, msgspec.Meta(max_length=PIECE)] = b""

    @property
    def key(self) -> Key:
        return self.kind, self.sender, self.recipient, self.call

    @property
    def asks(self) -> bool:
        """Whether something has to come back."""
        return self.kind in ("hello", "call")

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decode(data: bytes) -> "Frame":
        """The frame in these bytes. Raises FormatError."""
        if len(data) > MAX_FRAME:
            raise FormatError(f"a frame of {len(data):,} bytes", kind="too-large")
        try:
            return msgspec.msgpack.decode(data, type=Frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
            raise FormatError("not a frame") from None


def frames(kind: Kind, sender: str, recipient: str, call: int, data: bytes = b"") -> Iterator[Frame]:
    """A message in pieces."""
    view = memoryview(data)
    for offset in range(0, max(1, len(data)), PIECE):
        piece = bytes(view[offset : offset + PIECE])
        yield Frame(kind, sender, recipient, call, len(data), offset, piece)


@dataclass
class _Part:
    """The beginning of a message."""

    size: int
    limit: int
    data: bytearray = field(default_factory=bytearray)


class Assembly:
    """Messages that are on their way over one link: each sender's together never longer than one may be."""

    def __init__(self) -> None:
        self._parts: dict[Key, _Part] = {}
        self._lost: list[Key] = []

    def add(self, frame: Frame, limit: int) -> bytes | None:
        """The message that this piece completes, if it does. Raises FormatError for one above the limit."""
        key = frame.key
        if frame.size > limit:
            self._parts.pop(key, None)
            raise FormatError(f"a message of {frame.size:,} bytes; {limit:,} are accepted", kind="too-large")
        if frame.offset == 0:
            self._parts[key] = _Part(frame.size, limit)
        part = self._parts.get(key)
        if part is None:
            return None  # its beginning is lost
        end = frame.offset + len(frame.piece)
        if (frame.size, frame.offset) != (part.size, len(part.data)) or end > part.size:
            self._lose(key)
            return None
        part.data += frame.piece
        if end == part.size:
            return bytes(self._parts.pop(key).data)
        self._make_room(frame.sender)
        return None

    def lost(self) -> list[Key]:
        """The messages that have begun, and have got lost since this was asked last."""
        lost, self._lost = self._lost, []
        return lost

    def _lose(self, key: Key) -> int:
        self._lost.append(key)
        return len(self._parts.pop(key).data)

    def _make_room(self, sender: str) -> None:
        """The oldest messages are lost first."""
        while len(self._parts) > _UNFINISHED:
            self._lose(next(iter(self._parts)))
        own = {key: part for key, part in self._parts.items() if key[1] == sender}
        allowed = max((part.limit for part in own.values()), default=0)
        held = sum(len(part.data) for part in own.values())
        for key in own:
            if held <= allowed:
                break
            held -= self._lose(key)


def refusal(data: bytes) -> str:
    """What a peer says about its refusal, if that is printable."""
    text = data[:200].decode(errors="ignore")
    return text if text and text.isprintable() else RejectedError.peer_message
