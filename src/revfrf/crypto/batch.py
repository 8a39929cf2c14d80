"""One signature for many statements, each of which can later be shown alone.

The signer hashes the statements into a tree (as in RFC 6962) and signs its root. Whoever receives all of
them checks that one signature and derives, for each statement, a signature of its own: the signature of the
root and the hashes beside its way to the root. A statement that is later destroyed takes its own signature
with it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from revfrf.crypto.canonical import Field, canonical
from revfrf.crypto.signing import SigningKey, VerifyKey

Statement = tuple[Field, ...]

_DOMAIN = "revfrf batch v1"
_LEAF, _INNER = b"\0", b"\1"


@dataclass(frozen=True, slots=True)
class BatchSignature:
    """The signature of one statement out of a batch."""

    root: bytes  # the Ed25519 signature of the root
    count: int
    position: int
    path: tuple[bytes, ...]

    def verify(self, key: VerifyKey, context: Statement, statement: Statement) -> None:
        """Return only if `key` has signed this statement in this context; else raise SignatureError."""
        node, position, width = _leaf(statement), self.position, self.count
        for sibling in self.path:
            if position % 2:
                node = _inner(sibling, node)
            elif position + 1 < width:
                node = _inner(node, sibling)
            position, width = position // 2, (width + 1) // 2
        key.verify(self.root, _DOMAIN, context, self.count, node)


def sign_batch(key: SigningKey, context: Statement, statements: Sequence[Statement]) -> bytes:
    """One signature over all statements, in their order, in a context that they share."""
    (root,) = _levels(statements)[-1]
    return key.sign(_DOMAIN, context, len(statements), root)


def open_batch(
    key: VerifyKey, signature: bytes, context: Statement, statements: Sequence[Statement]
) -> list[BatchSignature]:
    """Check the signature of a batch, and return each statement's own. Raises SignatureError."""
    levels = _levels(statements)
    key.verify(signature, _DOMAIN, context, len(statements), levels[-1][0])
    return [
        BatchSignature(signature, len(statements), position, _path(levels, position))
        for position in range(len(statements))
    ]


def _levels(statements: Sequence[Statement]) -> list[list[bytes]]:
    """The hash tree from its leaves to its root; a node without a sibling moves up as it is."""
    levels = [[_leaf(statement) for statement in statements]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_inner(*pair) for pair in zip(below[::2], below[1::2], strict=False)]
        levels.append(above + below[len(above) * 2 :])
    return levels


def _path(levels: list[list[bytes]], position: int) -> tuple[bytes, ...]:
    """The hashes beside the way from a leaf to the root; empty bytes where there is none."""
    path = []
    for level in levels[:-1]:
        sibling = position ^ 1
        path.append(level[sibling] if sibling < len(level) else b"")
        position //= 2
    return tuple(path)


def _leaf(statement: Statement) -> bytes:
    return hashlib.sha256(_LEAF + canonical("statement", *statement)).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_INNER + left + right).digest()
