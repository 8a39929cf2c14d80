from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.batch import BatchSignature, Context, SignedBatch, open_batch, sign_batch
from revfrf.crypto.signing import SigningKey
from revfrf.errors import RevFRFError, SignatureError

KEY = SigningKey.generate()
CONTEXT: Context = ("split", "federation", 1, bytes(16))
SIZES = [*range(1, 21), 31, 32, 33, 100]


def statements_of(count: int) -> list[bytes]:
    return [f"statement {number}".encode() for number in range(count)]


def batch_of(count: int) -> SignedBatch:
    statements = statements_of(count)
    return open_batch(KEY.verify_key, sign_batch(KEY, CONTEXT, statements), CONTEXT, statements)


def refused(signature: BatchSignature, statement: bytes, context: Context = CONTEXT) -> None:
    with pytest.raises(SignatureError):
        signature.verify(KEY.verify_key, context, statement)


@pytest.mark.parametrize("count", SIZES)
def test_every_statement_has_a_signature_of_its_own(count: int) -> None:
    batch = batch_of(count)
    for position, statement in enumerate(statements_of(count)):
        signature = batch.signature(position)
        signature.verify(KEY.verify_key, CONTEXT, statement)
        assert (signature.count, signature.position) == (count, position)
        assert len(signature.path) == (count - 1).bit_length()


@pytest.mark.parametrize("count", SIZES[:20])
def test_signature_holds_for_no_other_statement_of_the_batch(count: int) -> None:
    batch, statements = batch_of(count), statements_of(count)
    for position in range(count):
        for other in range(count):
            if other != position:
                refused(batch.signature(position), statements[other])
        refused(batch.signature(position), statements[position] + b"\0")
        refused(batch.signature(position), b"")


@pytest.mark.parametrize("count", SIZES[:20])
def test_signature_holds_at_no_other_position(count: int) -> None:
    batch, statements = batch_of(count), statements_of(count)
    for position in range(count):
        for other in [*range(2 * count + 2), -1, position + 2**32]:
            if other != position:
                refused(replace(batch.signature(position), position=other), statements[position])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 9, 12, 20])
def test_signature_holds_with_no_other_path(count: int) -> None:
    batch, statements = batch_of(count), statements_of(count)
    for position in range(count):
        good = batch.signature(position)
        for step, sibling in enumerate(good.path):
            before, after = good.path[:step], good.path[step + 1 :]
            refused(replace(good, path=(*before, *after)), statements[position])
            refused(replace(good, path=(*before, bytes(32), *after)), statements[position])
            if sibling:
                refused(replace(good, path=(*before, b"", *after)), statements[position])
                refused(replace(good, path=(*before, sibling[::-1], *after)), statements[position])
        refused(replace(good, path=(*good.path, b"")), statements[position])
        refused(replace(good, path=(b"", *good.path)), statements[position])
        refused(replace(good, path=(*good.path, bytes(32))), statements[position])


def test_lone_statement_cannot_be_moved_to_where_another_stands() -> None:
    """The third of three has no sibling below: its path may not be shortened to that of a pair."""
    signature = batch_of(3).signature(2)
    assert signature.path[0] == b""
    refused(replace(signature, position=1, path=signature.path[1:]), statements_of(3)[2])


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_signature_holds_for_no_other_count_root_context_or_key(count: int) -> None:
    batch, statements = batch_of(count), statements_of(count)
    for position in range(count):
        good, statement = batch.signature(position), statements[position]
        for other in (0, count - 1, count + 1, -count):
            refused(replace(good, count=other), statement)
        refused(replace(good, root=bytes(64)), statement)
        refused(replace(good, root=b""), statement)
        for context in ((), CONTEXT[:-1], (*CONTEXT, 1), ("split", "federation", 2, bytes(16)), (CONTEXT,)):
            refused(good, statement, context)
        with pytest.raises(SignatureError):
            good.verify(SigningKey.generate().verify_key, CONTEXT, statement)


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_inner_node_is_no_statement(count: int) -> None:
    """Both children's hashes, shown as if they were a statement one level up."""
    batch = batch_of(count)
    below = batch.levels[0]
    forged = BatchSignature(batch.root, count, 0, batch.signature(0).path[1:])
    refused(forged, b"\1" + below[0] + below[1])
    refused(forged, below[0] + below[1])


@given(st.lists(st.binary(max_size=4), min_size=2, max_size=12, unique=True))
def test_reordered_or_changed_batch_is_refused(statements: list[bytes]) -> None:
    signature = sign_batch(KEY, CONTEXT, statements)
    open_batch(KEY.verify_key, signature, CONTEXT, statements)
    others = [
        statements[::-1],
        statements[1:] + statements[:1],
        statements[:-1],
        [*statements, statements[-1]],
        [*statements[:-1], statements[-1] + b"\0"],
    ]
    for other in others:
        if other != statements:
            with pytest.raises(SignatureError):
                open_batch(KEY.verify_key, signature, CONTEXT, other)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_last_statement_twice_is_another_batch(count: int) -> None:
    """A tree that doubles a lone node would give both the same root."""
    statements = statements_of(count)
    signature = sign_batch(KEY, CONTEXT, statements)
    with pytest.raises(SignatureError):
        open_batch(KEY.verify_key, signature, CONTEXT, [*statements, statements[-1]])


@pytest.mark.parametrize("signature", [None, b"", bytes(64), bytes(63)])
def test_absent_or_malformed_signature_is_refused(signature: bytes | None) -> None:
    with pytest.raises(SignatureError):
        open_batch(KEY.verify_key, signature, CONTEXT, statements_of(3))


def test_batch_in_another_context_is_refused() -> None:
    statements = statements_of(4)
    signature = sign_batch(KEY, CONTEXT, statements)
    for context in ((), ("split",), (*CONTEXT, None), ("leaf", *CONTEXT[1:])):
        with pytest.raises(RevFRFError):
            open_batch(KEY.verify_key, signature, context, statements)
