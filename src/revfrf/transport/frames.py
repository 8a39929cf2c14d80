"""Frames: messages of any length in pieces, over links that carry some of them, in some order.

A piece names the message it belongs to and its place in it. The first one says how long the message is, and
nothing is kept of a message that is too long for its receiver. Pieces out of order or missing lose the
message; pieces that come twice are ignored. Losing it is all that a bad link can do.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from revfrf.errors import FormatError
from revfrf.messages.base import MIB, Name

Kind = Literal["call", "reply", "refusal", "absence", "ping"]

PIECE = MIB
MAX_FRAME = PIECE + 4096
_UNFINISHED = 64
"""Messages of one link that may be on their way at once."""

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

    def encode(self) -> bytes:
        """The bytes of it."""
        return _encoder.encode(self)

    @staticmethod
    def decode(data: bytes) -> "Frame":
        """The frame in these bytes. Raises FormatError."""
        if len(data) > MAX_FRAME:
            raise FormatError(f"a frame of {len(data):,} bytes", kind="too-large")
        try:
            return _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
            raise FormatError("not a frame") from None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)

Key = tuple[str, str, str, int]


def frames(kind: Kind, sender: str, recipient: str, call: int, data: bytes = b"") -> Iterator[Frame]:
    """A message in pieces."""
    view = memoryview(data)
    for offset in range(0, max(1, len(data)), PIECE):
        piece = bytes(view[offset : offset + PIECE])
        yield Frame(kind, sender, recipient, call, len(data), offset, piece)


class Assembly:
    """Messages that are on their way over one link: together never longer than one may be."""

    def __init__(self) -> None:
        self._parts: dict[Key, bytearray] = {}

    def add(self, frame: Frame, limit: int) -> bytes | None:
        """The message that this piece completes, if it does. Raises FormatError for one above the limit."""
        key = (frame.kind, frame.sender, frame.recipient, frame.call)
        if frame.size > limit:
            self._parts.pop(key, None)
            raise FormatError(f"a message of {frame.size:,} bytes; {limit:,} are accepted", kind="too-large")
        if frame.offset == 0 and frame.size == len(frame.piece):
            return frame.piece
        parts = self._parts.setdefault(key, bytearray()) if frame.offset == 0 else self._parts.get(key)
        if parts is None or frame.offset < len(parts):
            return None
        if frame.offset > len(parts) or len(parts) + len(frame.piece) > frame.size or not frame.piece:
            del self._parts[key]
            return None
        parts += frame.piece
        if len(parts) == frame.size:
            return bytes(self._parts.pop(key))
        self._make_room(limit)
        return None

    def _make_room(self, limit: int) -> None:
        """The oldest messages are lost first."""
        held = sum(map(len, self._parts.values()))
        while held > limit or len(self._parts) > _UNFINISHED:
            held -= len(self._parts.pop(next(iter(self._parts))))
