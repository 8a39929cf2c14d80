"""Signed statements: structs whose last field is a signature over all others, in their order."""

from typing import Any, TypeVar

import msgspec

from revfrf.crypto.canonical import Field
from revfrf.crypto.signing import SigningKey, VerifyKey

Statement = TypeVar("Statement", bound=msgspec.Struct)


def sign(key: SigningKey, domain: str, unsigned: Statement, *context: Field) -> Statement:
    """Return the statement with its signature, over the context first."""
    signature = key.sign(domain, *context, *signed_fields(unsigned))
    return msgspec.structs.replace(unsigned, signature=signature)


def verify(key: VerifyKey, domain: str, statement: Any, *context: Field) -> None:
    """Raise SignatureError unless this key has signed the statement in this context."""
    key.verify(statement.signature, domain, *context, *signed_fields(statement))


def signed_fields(statement: msgspec.Struct) -> tuple[Field, ...]:
    """Return what is signed: everything but the signature."""
    fields: tuple[Field, ...] = _plain(statement)[:-1]
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
