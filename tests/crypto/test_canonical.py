"""The canonical encoding: injective, strict, and the same for ever."""

import hashlib
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from revfrf.crypto.canonical import Field, canonical, digest
from revfrf.errors import UsageError

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.binary(max_size=8)
fields = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12)
messages = st.tuples(st.text(min_size=1, max_size=8), st.lists(fields, max_size=4).map(tuple))


def parse(data: bytes) -> tuple[Any, bytes]:
    """Read one value back; written from the module's docstring, to show that nothing is lost."""
    tag, size, rest = data[:1], int.from_bytes(data[1:9], "big"), data[9:]
    payload, rest = rest[:size], rest[size:]
    assert len(payload) == size
    match tag:
        case b"n":
            return None, rest
        case b"o":
            return payload != b"\0", rest
        case b"i":
            return int.from_bytes(payload, "big", signed=True), rest
        case b"s":
            return payload.decode(), rest
        case b"b":
            return payload, rest
        case b"t":
            members = []
            while payload:
                member, payload = parse(payload)
                members.append(member)
            return tuple(members), rest
    raise AssertionError(tag)


@given(messages)
@example(("d", (-1, 255, 256, -128, -129, 2**64, -(2**64), 2**3072)))
def test_every_field_can_be_read_back_with_its_type(message: tuple[str, tuple[Field, ...]]) -> None:
    domain, values = message
    read, rest = parse(canonical(domain, *values))
    assert rest == b""
    assert repr(read) == repr((domain, *values))  # repr tells True from 1, which == does not


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        [1],
        {"a": 1},
        Decimal(1),
        bytearray(b"a"),
        memoryview(b"a"),
        np.int64(1),
        np.float64(1),
        np.str_("a"),
        np.bytes_(b"a"),
        Colour.RED,
        Point(1),
        object(),
        "\ud800",
    ],
    ids=lambda x: type(x).__name__,
)
def test_any_other_value_is_refused_at_any_depth(value: Any) -> None:
    for refused in (value, (value,), (1, ((value,),))):
        with pytest.raises(UsageError, match="canonical encoding"):
            canonical("d", refused)


@pytest.mark.parametrize("domain", ["", b"d", None, 1, "\ud800"])
def test_domain_must_be_a_name(domain: Any) -> None:
    with pytest.raises(UsageError):
        canonical(domain, 1)


def test_refusals_do_not_show_the_value() -> None:
    with pytest.raises(UsageError) as caught:
        canonical("d", [271828])  # type: ignore[arg-type]
    assert "271828" not in str(caught.value)


def test_encoding_and_digest_never_change() -> None:
    expected = (
        "74 0000000000000047"
        "73 0000000000000004 74657374"
        "69 0000000000000001 ff"
        "6f 0000000000000001 01"
        "74 000000000000001d 6e 0000000000000000 62 0000000000000002 00ff 73 0000000000000000"
    )
    expected_bytes = bytes.fromhex(expected)
    fields: tuple[Field, ...] = (-1, True, (None, b"\x00\xff", ""))
    assert canonical("test", *fields) == expected_bytes
    assert digest("test", *fields) == hashlib.sha256(expected_bytes).digest()
