"""One signature for many statements, each of which can later be checked by its hash alone.

The signer hashes the statements into a tree (as in RFC 6962) and signs its root together with their number.
The receiver checks that one signature and keeps the leaves of the tree. Ed25519 alone would take a quarter of
a millisecond for every split of a forest; this takes some microseconds.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from revfrf.crypto.canonical import Field
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import SignatureError

Context = tuple[Field, ...]
"""The part that all statements of a batch share: their subject and their recipient."""

_DOMAIN = "revfrf batch v1"
_LEAF, _INNER = b"\0", b"\1"


@dataclass(frozen=True, slots=True)
class SignedBatch:
    """The signature of a batch, and the hashes of its statements in their order."""

    signature: bytes
    leaves: tuple[bytes, ...]

    def verify(self, key: VerifyKey, context: Context) -> None:
        """Raise SignatureError unless `key` has signed this batch in this context."""
        if not self.leaves:
            raise SignatureError("a batch without statements")
        key.verify(self.signature, _DOMAIN, context, len(self.leaves), _root(self.leaves))

    def holds(self, position: int, statement: bytes) -> None:
        """Raise SignatureError unless this statement is at this position."""
        if not 0 <= position < len(self.leaves) or self.leaves[position] != _leaf(statement):
            raise SignatureError("this position of the batch holds another statement, or none")


def sign_batch(key: SigningKey, context: Context, statements: Sequence[bytes]) -> bytes:
    """Return one signature over all statements (at least one), in their order, in a context they share."""
    return key.sign(_DOMAIN, context, len(statements), _root([_leaf(s) for s in statements]))


def open_batch(
    key: VerifyKey, signature: bytes | None, context: Context, statements: Sequence[bytes]
) -> SignedBatch:
    """Return the batch of these statements. Raises SignatureError unless the signature is right."""
    batch = SignedBatch(signature or b"", tuple(_leaf(s) for s in statements))
    batch.verify(key, context)
    return batch


def _root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the hash tree; a node without a sibling moves up unchanged."""
    level = list(leaves)
    while len(level) > 1:
        pairs = [left + right for left, right in zip(level[::2], level[1::2], strict=False)]
        level = [hashlib.sha256(_INNER + pair).digest() for pair in pairs] + level[len(pairs) * 2 :]
    return level[0]


def _leaf(statement: bytes) -> bytes:
    return hashlib.sha256(_LEAF + statement).digest()
