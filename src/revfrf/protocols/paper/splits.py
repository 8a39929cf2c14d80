"""Splits as they travel: an owner encrypts its thresholds and signs their places; CS checks both."""

import hashlib
import struct
from collections.abc import Sequence

from revfrf.crypto.batch import Context, SignedBatch, open_batch, sign_batch
from revfrf.crypto.dtpkc.dtpkc import ho_enc
from revfrf.crypto.dtpkc.keys import Ciphertext, Parameters
from revfrf.crypto.signing import VerifyKey
from revfrf.forest.nodes import Node
from revfrf.messages.base import array
from revfrf.messages.fle_expan import LevelReply
from revfrf.messages.frf_revoc import Rekeyed
from revfrf.protocols.common.identity import Identity


def split_context(federation: str, epoch: int, forest: bytes) -> Context:
    """Return the context that all signed splits of a forest share."""
    return ("split", federation, epoch, forest)


def split_statement(node: Node, ciphertext: bytes) -> bytes:
    """Return what the owner of a split signs: its place (tree, path), and the digest of its ciphertext."""
    return struct.pack(">QQ", *node) + hashlib.sha256(ciphertext).digest()


def encrypt_splits(
    identity: Identity, forest: bytes, nodes: Sequence[Node], thresholds: Sequence[int], n_jobs: int
) -> tuple[bytes, bytes]:
    """An owner: return HoEnc of its thresholds (at least one), and one signature over all of them."""
    key = identity.weak.public
    ciphertexts = [c.to_bytes(key.parameters) for c in ho_enc(key, thresholds, n_jobs=n_jobs)]
    context = split_context(identity.federation, identity.epoch, forest)
    statements = [split_statement(node, c) for node, c in zip(nodes, ciphertexts, strict=True)]
    return b"".join(ciphertexts), sign_batch(identity.signing_key, context, statements)


def open_splits(
    p: Parameters, owner: VerifyKey, context: Context, nodes: Sequence[Node], reply: LevelReply | Rekeyed
) -> tuple[list[bytes], SignedBatch]:
    """CS: the ciphertexts of these nodes, checked: valid elements, and signed by the owner for their places.

    Raises RejectedError for anything else.
    """
    ciphertexts = array(reply.ciphertexts, f"V{p.ciphertext_bytes}", len(nodes)).tolist()
    for ciphertext in ciphertexts:
        Ciphertext.from_bytes(p, ciphertext)
    statements = [split_statement(node, c) for node, c in zip(nodes, ciphertexts, strict=True)]
    return ciphertexts, open_batch(owner, reply.signature, context, statements)
