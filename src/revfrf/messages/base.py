"""What all messages have in common.

Messages are frozen and strictly decoded (`transport.codec`). Whole arrays travel as bytes, little-endian,
one after the other; their readers use `array`, which checks the length. Numbers of
thousands of bits are big-endian bytes. `protocol` says for which protocol a message is, `max_bytes` how
long it may be, and `discloses` what its receiver learns, for `leakage_`.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.errors import FormatError

MIB = 2**20

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Number = Annotated[bytes, msgspec.Meta(min_length=1, max_length=8192)]

TREES, PATHS, SIZES, QUESTIONS, FEATURES, CUTS = "<u4", "<u8", "<u4", "<u4", "<u2", "u1"  # types of arrays


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag=True):
    """What all messages have in common."""

    protocol: ClassVar[str]
    max_bytes: ClassVar[int] = MIB

    def discloses(self) -> dict[str, int]:
        """What the receiver learns from this message, counted."""
        return {}


def once(what: str) -> Callable[[Message], dict[str, int]]:
    """The `discloses` of a message by which its receiver learns one thing."""
    return lambda _: {what: 1}


def counting(**fields: str) -> Callable[[Message], dict[str, int]]:
    """The `discloses` of a message by which its receiver learns as many things as these fields are long."""
    return lambda message: {what: len(getattr(message, name)) for name, what in fields.items()}


class Done(Message, frozen=True):
    """The answer that says nothing but "accepted"."""

    protocol = "key set-up"
    max_bytes = 1024


def array(data: bytes, dtype: str, length: int | None = None) -> NDArray[Any]:
    """The array in these bytes. Raises FormatError for any other length than the expected one."""
    width = np.dtype(dtype).itemsize
    if len(data) % width or (length is not None and len(data) != length * width):
        raise FormatError(f"{len(data)} bytes do not hold {length} numbers of {width} bytes", kind="length")
    return np.frombuffer(data, dtype=dtype)


def number(value: int) -> bytes:
    """A number of any size as big-endian bytes."""
    return value.to_bytes(max(1, -(-value.bit_length() // 8)), "big")


def of_number(data: bytes) -> int:
    """The inverse of `number`; refuses what it would not have written."""
    value = int.from_bytes(data, "big")
    if number(value) != data:
        raise FormatError("a number with leading zeros")
    return value
