"""The canonical bytes of what is hashed or signed.

Each value is a tag byte, the length of its payload in 8 bytes, big-endian, and the payload.
"""

from typing import TypeAlias

Field: TypeAlias = "int | str | bytes | bool | tuple[Field, ...] | None"


def canonical(domain: str, *fields: Field) -> bytes:
    """The tuple of the domain and its fields."""
    return canonical_field((domain, *fields))


def canonical_field(field: Field) -> bytes:
    match field:
        case None:
            return framed("n", b"")
        case bool():  # before int, of which Python's bool is a kind
            return framed("o", b"\x01" if field else b"\x00")
        case int():
            return framed("i", twos_complement(field))
        case str():
            return framed("s", field.encode("utf-8"))
        case bytes():
            return framed("b", field)
        case tuple():
            return framed("t", b"".join(map(canonical_field, field)))


def framed(tag: str, payload: bytes) -> bytes:
    return tag.encode() + len(payload).to_bytes(8, "big") + payload


def twos_complement(number: int) -> bytes:
    """The fewest bytes, big-endian, whose top bit is free for the sign of ±number."""
    size = 1
    while abs(number) >= 1 << (8 * size - 1):
        size += 1
    return (number % (1 << (8 * size))).to_bytes(size, "big")
