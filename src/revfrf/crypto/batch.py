"""One signature for many statements, each of which can later be shown alone.

The signer hashes the statements into a tree (as in RFC 6962) and signs its root. Whoever receives all of them
checks that one signature. From then on each statement has a signature of its own: that of the root, and the
hashes beside the statement's way to the root. Ed25519 alone would take a quarter of a millisecond for every
split of a forest; this takes some microseconds.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from revfrf.crypto.canonical import Field
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import SignatureError

Context = tuple[Field, ...]
"""What all statements of a batch share: what they are about, and for whom."""

_DOMAIN = "revfrf batch v1"
_LEAF, _INNER = b"\0", b"\1"
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class BatchSignature:
    """The signature of one statement out of a batch."""

    root: bytes  # the Ed25519 signature of the root
    count: int
    position: int
    path: tuple[bytes, ...]  # empty bytes where a node has no sibling

    def verify(self, key: VerifyKey, context: Context, statement: bytes) -> None:
        """Return only if `key` has signed this statement in this context; else raise SignatureError."""
        node, position, width = _leaf(statement), self.position, self.count
        if not 0 <= position < width or len(self.path) != (width - 1).bit_length():
            raise SignatureError("a position or a path that no batch of this size has")
        for sibling in self.path:
            if len(sibling) != (_HASH_BYTES if position ^ 1 < width else 0):
                raise SignatureError("a path that does not fit its position")
            if sibling:
                node = _inner(sibling, node) if position % 2 else _inner(node, sibling)
            position, width = position // 2, -(-width // 2)
        key.verify(self.root, _DOMAIN, context, self.count, node)


@dataclass(frozen=True, slots=True)
class SignedBatch:
    """A batch whose signature has been checked: that of its root, and its hash tree, leaves first."""

    root: bytes
    levels: list[list[bytes]]

    @classmethod
    def of(cls, root: bytes, leaves: list[bytes]) -> "SignedBatch":
        """The batch with these leaves of the hash tree."""
        return cls(root, _levels(leaves))

    def verify(self, key: VerifyKey, context: Context) -> None:
        """Return only if `key` has signed this batch in this context; else raise SignatureError."""
        key.verify(self.root, _DOMAIN, context, len(self.levels[0]), self.levels[-1][0])

    def holds(self, position: int, statement: bytes) -> None:
        """Return only if this statement stands at this position; else raise SignatureError."""
        if not 0 <= position < len(self.levels[0]) or self.levels[0][position] != _leaf(statement):
            raise SignatureError("another statement, or none, stands at this position of the batch")

    def signature(self, position: int) -> BatchSignature:
        """The signature of the statement at this position."""
        path, at = [], position
        for level in self.levels[:-1]:
            path.append(level[at ^ 1] if at ^ 1 < len(level) else b"")
            at //= 2
        return BatchSignature(self.root, len(self.levels[0]), position, tuple(path))


def sign_batch(key: SigningKey, context: Context, statements: Sequence[bytes]) -> bytes:
    """One signature over all statements (at least one), in their order, in a context that they share."""
    (root,) = _levels(_leaves(statements))[-1]
    return key.sign(_DOMAIN, context, len(statements), root)


def open_batch(
    key: VerifyKey, signature: bytes | None, context: Context, statements: Sequence[bytes]
) -> SignedBatch:
    """Check the signature of a batch. Raises SignatureError."""
    batch = SignedBatch.of(signature or b"", _leaves(statements))
    batch.verify(key, context)
    return batch


def _leaves(statements: Sequence[bytes]) -> list[bytes]:
    return [_leaf(statement) for statement in statements]


def _levels(leaves: list[bytes]) -> list[list[bytes]]:
    """The hash tree; a node without a sibling moves up as it is."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_inner(*pair) for pair in zip(below[::2], below[1::2], strict=False)]
        levels.append(above + below[len(above) * 2 :])
    return levels


def _leaf(statement: bytes) -> bytes:
    return hashlib.sha256(_LEAF + statement).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_INNER + left + right).digest()
