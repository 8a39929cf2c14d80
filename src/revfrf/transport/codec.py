"""Messages to bytes and back: a version byte, then MessagePack with the type's name.

Decoding is strict. A message is refused before anything is made of it if its version or type is not the
expected one, if it is too long, or if a field is missing, unknown, or of the wrong type or size.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from revfrf.errors import FormatError, ProtocolError, UsageError
from revfrf.messages.base import Message
from revfrf.messages.registry import calls_between
from revfrf.transport.base import Reply

VERSION = 1
_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class _Tag(msgspec.Struct):
    type: str


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    data = bytes([VERSION]) + msgspec.msgpack.encode(message)
    if len(data) > message.max_bytes:
        raise UsageError(
            f"a {type(message).__name__} of {len(data):,} bytes is above the limit of {message.max_bytes:,}; "
            "use fewer trees or rows at a time"
        )
    return data


def decode(data: bytes, *expected: type[Reply]) -> Reply:
    """Return the message in these bytes, which must be of one of the expected types. Raises FormatError."""
    name = _type_name(data, expected)
    kind = next((kind for kind in expected if kind.__name__ == name), None)
    if kind is None:
        raise FormatError(f"a {name!r} was not expected", kind="malformed")
    if len(data) > kind.max_bytes:
        raise FormatError(f"a {name} of {len(data):,} bytes", kind="too-large")
    return _unpacked(data, kind)


def decode_call(data: bytes, sender: str, recipient: str) -> Message:
    """Return what one role asks of another. Raises ProtocolError if it may not, FormatError for noise."""
    allowed = calls_between(sender, recipient)
    name = _type_name(data, allowed) if allowed else "message"
    if name not in [kind.__name__ for kind in allowed]:
        raise ProtocolError(f"{sender} may not send a {name!r} to {recipient}", kind="sender")
    return decode(data, *allowed)


def _type_name(data: bytes, expected: Sequence[type[Message]]) -> str:
    """Return the name of a message's type without decoding the rest. Raises FormatError if it is too long."""
    longest = max(kind.max_bytes for kind in expected)
    if len(data) > longest:
        raise FormatError(f"a message of {len(data):,} bytes; {longest:,} are allowed", kind="too-large")
    if not data or data[0] != VERSION:
        raise FormatError(f"not a message of version {VERSION}", kind="version")
    return _unpacked(data, _Tag).type


def _unpacked(data: bytes, kind: type[_Kind]) -> _Kind:
    """What comes after the version. Raises FormatError for whatever the decoder does not like."""
    try:
        return msgspec.msgpack.decode(memoryview(data)[1:], type=kind)
    except msgspec.ValidationError as error:
        raise FormatError(f"not a valid message: {error}", kind="malformed") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        raise FormatError("not a message") from None
