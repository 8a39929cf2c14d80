"""One byte encoding of plain values, for everything that is signed or hashed.

Every value is a tag byte, the length of its payload in 8 big-endian bytes, and the payload, so that two
different inputs never give the same bytes: fields cannot run into each other, `1`, `True` and `"1"` differ,
and so do a tuple and its members.

=======  ===  =================================================================
None     `n`  empty
bool     `o`  one byte, 0 or 1
int      `i`  two's complement, big-endian, bit_length // 8 + 1 bytes
str      `s`  UTF-8
bytes    `b`  themselves
tuple    `t`  the encodings of its members
=======  ===  =================================================================

What is hashed or signed is the tuple of a domain, a str that says what the bytes are for, and the fields.
"""

import hashlib
from typing import TypeAlias

from revfrf.errors import UsageError

Field: TypeAlias = "int | str | bytes | bool | tuple[Field, ...] | None"


def canonical(domain: str, *fields: Field) -> bytes:
    """Return the bytes for `fields` in `domain`: equal exactly when both are equal.

    Only the types of `Field` themselves are accepted, not subclasses: the caller converts an enum or a numpy
    number, because only the caller knows what it means. Floats are never signed.
    """
    if type(domain) is not str or not domain:
        raise UsageError("a domain is a non-empty str that names what is signed or hashed")
    return _encode((domain, *fields))


def digest(domain: str, *fields: Field) -> bytes:
    """SHA-256 of `canonical(domain, *fields)`."""
    return hashlib.sha256(canonical(domain, *fields)).digest()


def fingerprint(domain: str, *fields: Field) -> str:
    """128 bits of `digest` in hex: a name that people can compare."""
    return digest(domain, *fields).hex()[:32]


def _encode(field: Field) -> bytes:
    if field is None:
        return _framed(b"n", b"")
    if type(field) is bool:
        return _framed(b"o", b"\1" if field else b"\0")
    if type(field) is int:
        return _framed(b"i", field.to_bytes(field.bit_length() // 8 + 1, "big", signed=True))
    if type(field) is str:
        try:
            return _framed(b"s", field.encode())
        except UnicodeEncodeError:
            raise UsageError("a str with lone surrogates has no canonical encoding") from None
    if type(field) is bytes:
        return _framed(b"b", field)
    if type(field) is tuple:
        try:
            return _framed(b"t", b"".join(map(_encode, field)))
        except RecursionError:
            raise UsageError("tuples nested this deep have no canonical encoding") from None
    raise UsageError(
        f"{type(field).__name__} has no canonical encoding; use int, str, bytes, bool, None or tuples of them"
    )


def _framed(tag: bytes, payload: bytes) -> bytes:
    return tag + len(payload).to_bytes(8, "big") + payload
