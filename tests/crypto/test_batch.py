"""Batches: one signature holds for exactly these statements, in this order, in this context."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.batch import Context, SignedBatch, open_batch, sign_batch
from revfrf.crypto.signing import SigningKey
from revfrf.errors import SignatureError

KEY = SigningKey.generate()
CONTEXT: Context = ("split", "federation", 1, bytes(16))
SIZES = [1, 2, 3, 5, 8, 13, 33]


def statements_of(count: int) -> list[bytes]:
    return [f"statement {number}".encode() for number in range(count)]


def batch_of(count: int) -> SignedBatch:
    statements = statements_of(count)
    return open_batch(KEY.verify_key, sign_batch(KEY, CONTEXT, statements), CONTEXT, statements)


def refused(signature: bytes | None, statements: list[bytes], context: Context = CONTEXT) -> None:
    with pytest.raises(SignatureError):
        open_batch(KEY.verify_key, signature, context, statements)


def tree_head(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it is written there: recursively."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree_head(leaves[:k]) + tree_head(leaves[k:])).digest()


@pytest.mark.parametrize("count", SIZES)
def test_what_is_signed_is_the_number_of_statements_and_the_tree_head_of_rfc_6962(count: int) -> None:
    signature = sign_batch(KEY, CONTEXT, statements_of(count))
    assert signature == KEY.sign("revfrf batch v1", CONTEXT, count, tree_head(statements_of(count)))


@pytest.mark.parametrize("count", SIZES)
def test_batch_holds_each_statement_at_its_own_position_only(count: int) -> None:
    batch, statements = batch_of(count), statements_of(count)
    for position, statement in enumerate(statements):
        batch.holds(position, statement)
        others = [other for other in statements if other != statement]
        for wrong in [*others, statement + b"\0", b"", b"\0" + statement]:
            with pytest.raises(SignatureError):
                batch.holds(position, wrong)
    for outside in (-1, count, count + 2**32):
        with pytest.raises(SignatureError):
            batch.holds(outside, statements[-1])


@given(st.lists(st.binary(max_size=4), min_size=2, max_size=12, unique=True))
def test_reordered_or_changed_batch_is_refused(statements: list[bytes]) -> None:
    signature = sign_batch(KEY, CONTEXT, statements)
    open_batch(KEY.verify_key, signature, CONTEXT, statements)
    refused(signature, statements[::-1])
    refused(signature, statements[1:] + statements[:1])
    refused(signature, statements[:-1])
    refused(signature, [*statements, statements[-1]])
    refused(signature, [*statements[:-1], statements[-1] + b"\0"])


def test_batch_without_statements_is_refused() -> None:
    refused(batch_of(1).signature, [])


@pytest.mark.parametrize("count", [2, 4, 8])
def test_inner_nodes_do_not_pass_for_statements(count: int) -> None:
    """Both children's hashes, shown as if they were a statement one level up."""
    batch = batch_of(count)
    pairs = list(zip(batch.leaves[::2], batch.leaves[1::2], strict=True))
    for tag in (b"", b"\1"):
        refused(batch.signature, [tag + left + right for left, right in pairs])


@pytest.mark.parametrize("signature", [None, b"", bytes(64), bytes(63)])
def test_absent_or_malformed_signature_is_refused(signature: bytes | None) -> None:
    refused(signature, statements_of(3))


@pytest.mark.parametrize(
    "context",
    [
        (),
        CONTEXT[:-1],
        (*CONTEXT, None),
        ("leaf", *CONTEXT[1:]),
        ("split", "federation", 2, bytes(16)),
        (CONTEXT,),
    ],
)
def test_batch_in_another_context_is_refused(context: Context) -> None:
    refused(sign_batch(KEY, CONTEXT, statements_of(4)), statements_of(4), context)


def test_batch_of_another_signer_is_refused() -> None:
    with pytest.raises(SignatureError):
        batch_of(4).verify(SigningKey.generate().verify_key, CONTEXT)
