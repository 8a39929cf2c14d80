"""Reads and writes the vectors' own JSON: integers and bytes as hex, typed fields with their types."""

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TOPICS = ("ciphertexts", "decryption", "possession", "comparison", "numbers", "signatures")
TEXT = ("parameters", "owner", "value", "domain")
BYTES = ("bytes", "verify_key", "signature")


class Vector(NamedTuple):
    """One vector with its numbers decoded: `expected` is None exactly when `error` names a kind."""

    id: str
    operation: str
    parameters: dict[str, int]
    inputs: dict[str, Any]
    expected: dict[str, Any] | None
    error: str | None


def load(topic: str) -> list[Vector]:
    """The vectors of one file; `parameters` is the set itself, and no longer among the inputs."""
    content = json.loads((HERE / f"{topic}.json").read_text())
    sets = {name: decode(values) for name, values in content["parameters"].items()}
    vectors = []
    for raw in content["vectors"]:
        inputs, expected = decode(raw["inputs"]), raw.get("expected")
        vectors.append(
            Vector(
                id=raw["id"],
                operation=raw["operation"],
                parameters=sets[inputs.pop("parameters")],
                inputs=inputs,
                expected=None if expected is None else decode(expected),
                error=raw.get("error"),
            )
        )
    return vectors


def decode(values: dict[str, Any]) -> dict[str, Any]:
    """Which member is text or bytes follows from its name; all others are integers or lists of them."""
    return {name: _decode(name, value) for name, value in values.items()}


def _decode(name: str, value: Any) -> Any:
    if name in TEXT:
        return value
    if name in BYTES:
        return bytes.fromhex(value)
    if name == "fields":
        return decode_field(value)
    return [int(item, 16) for item in value] if isinstance(value, list) else int(value, 16)


def decode_field(field: Any) -> Any:
    """null, booleans and lists (tuples) are themselves; the others say what they are."""
    match field:
        case list():
            return tuple(map(decode_field, field))
        case {"int": number}:
            return int(number, 16)
        case {"bytes": data}:
            return bytes.fromhex(data)
        case {"str": text}:
            return text
        case _:
            return field


def encode(value: object, name: str = "") -> object:
    """Integers and bytes as hex; lists and objects member by member."""
    match value:
        case tuple() if name == "fields":
            return encode_field(value)
        case int():
            return format(value, "x")
        case bytes():
            return value.hex()
        case list():
            return [encode(item) for item in value]
        case dict():
            return {name: encode(item, name) for name, item in value.items()}
        case _:
            return value


def encode_field(field: object) -> object:
    match field:
        case tuple():
            return list(map(encode_field, field))
        case None | bool():
            return field
        case _:
            return {type(field).__name__: encode(field)}
