"""Messages to bytes and back: a version byte, then MessagePack with the type's name.

Decoding is strict: of another version, too long, of another type, with a field missing, unknown or of the
wrong type or size, a message is refused before anything is made of it.
"""

from functools import lru_cache
from typing import Any

import msgspec

from revfrf.errors import FormatError, UsageError
from revfrf.messages.base import Message
from revfrf.transport.base import Reply

VERSION = 1

_encoder = msgspec.msgpack.Encoder()


class _Tag(msgspec.Struct):
    type: str


_tag = msgspec.msgpack.Decoder(_Tag)


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    data = bytearray([VERSION])
    _encoder.encode_into(message, data, 1)
    if len(data) > message.max_bytes:
        raise UsageError(
            f"a {type(message).__name__} of {len(data):,} bytes is above the limit of {message.max_bytes:,}; "
            "use fewer trees or rows at a time"
        )
    return bytes(data)


def decode(data: bytes, *expected: type[Reply]) -> Reply:
    """The message in these bytes, which must be of one of the expected types. Raises FormatError."""
    limits = {kind.__name__: kind.max_bytes for kind in expected}
    if len(data) > max(limits.values()):
        raise FormatError(f"a message of {len(data):,} bytes where no more can come", kind="too-large")
    if not data or data[0] != VERSION:
        raise FormatError(f"not a message of version {VERSION}", kind="version")
    body = memoryview(data)[1:]
    try:
        name = _tag.decode(body).type  # skips all other fields without making anything of them
        if len(data) > limits.get(name, len(data)):
            raise FormatError(f"a {name} of {len(data):,} bytes", kind="too-large")
        message: Reply = _decoder(expected).decode(body)
    except msgspec.ValidationError as error:
        raise FormatError(f"not a valid message: {error}", kind="malformed") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        raise FormatError("not a message") from None
    return message


@lru_cache
def _decoder(expected: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Any]:
    union: Any = expected[0]
    for kind in expected[1:]:
        union |= kind
    return msgspec.msgpack.Decoder(union)
