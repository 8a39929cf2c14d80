"""Frames: a message comes back whole or not at all, and no link makes its receiver keep too much."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError
from revfrf.transport import frames as module
from revfrf.transport.frames import MAX_FRAME, PIECE, Assembly, Frame, Kind, frames, refusal

LIMIT = 1000
changed = msgspec.structs.replace


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 7)


def in_pieces(data: bytes, call: int = 1, sender: str = "bank", kind: Kind = "call") -> list[Frame]:
    return list(frames(kind, sender, "CS", call, data))


def put(assembly: Assembly, pieces: list[Frame], limit: int = LIMIT) -> list[bytes]:
    """Every message that comes out."""
    return [data for piece in pieces if (data := assembly.add(piece, limit)) is not None]


def held(assembly: Assembly) -> int:
    return sum(len(part.data) for part in assembly._parts.values())


# -- whole --------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_a_message_of_any_length_comes_back(data: bytes) -> None:
    assembly, pieces = Assembly(), in_pieces(data)
    assert [len(piece.piece) for piece in pieces[:-1]] == [7] * (len(pieces) - 1)
    assert put(assembly, [Frame.decode(piece.encode()) for piece in pieces]) == [data]
    assert held(assembly) == 0
    assert assembly.lost() == []


def test_a_message_of_nothing_is_one_frame() -> None:
    [frame] = in_pieces(b"")
    assert Assembly().add(frame, 0) == b""


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=8), st.randoms())
def test_messages_share_a_link(messages: list[bytes], rng: random.Random) -> None:
    waiting, assembly = [in_pieces(data, call) for call, data in enumerate(messages)], Assembly()
    found = {}
    while any(waiting):
        pieces = rng.choice([pieces for pieces in waiting if pieces])
        piece = pieces.pop(0)
        for data in put(assembly, [piece]):
            found[piece.call] = data
    assert found == dict(enumerate(messages))


def test_numbers_are_of_their_sender_kind_and_recipient() -> None:
    assembly, data = Assembly(), b"0123456789"
    first, second = in_pieces(data)
    others = [changed(second, sender="telco"), changed(second, kind="reply"), changed(second, recipient="x")]
    assert put(assembly, [first, *others, changed(second, call=2), second]) == [data]


# -- or not at all ------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=100), st.integers(0, 2**32))
def test_a_bad_link_loses_a_message_or_delivers_it_whole(data: bytes, seed: int) -> None:
    """Pieces are dropped, doubled and moved."""
    rng, pieces = random.Random(seed), in_pieces(data)
    arriving = [piece for piece in pieces for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))]
    for _ in range(rng.choice([0, 0, 1, 3])):
        if arriving:
            arriving.insert(rng.randrange(len(arriving)), arriving.pop(rng.randrange(len(arriving))))
    assert set(put(Assembly(), arriving)) <= {data}


@given(st.binary(min_size=8, max_size=100), st.integers(0, 2**32))
def test_pieces_that_lie_about_their_place_lose_the_message(data: bytes, seed: int) -> None:
    rng, pieces = random.Random(seed), in_pieces(data)
    place = rng.randrange(len(pieces))
    honest = pieces[place]
    lie: dict[str, Any] = rng.choice(
        [
            {"offset": rng.randrange(200)},
            {"size": rng.randrange(200)},
            {"size": honest.offset + len(honest.piece)},
            {"piece": honest.piece[:-1]},
        ]
    )
    lying = changed(honest, **lie)
    pieces[place] = lying
    found = put(Assembly(), pieces)
    whole = lying.offset == 0 and lying.size == len(lying.piece)  # then it is a message of its own
    assert set(found) <= ({data, lying.piece} if whole else {data})
    if lying != honest and not whole:
        assert found == []


def test_who_loses_a_message_says_so_once() -> None:
    assembly, pieces = Assembly(), in_pieces(bytes(30))
    assert put(assembly, [pieces[0], pieces[2]]) == []
    assert assembly.lost() == [pieces[0].key]
    assert assembly.lost() == []
    assert put(assembly, pieces[1:]) == []  # nothing is made of the rest
    assert assembly.lost() == []


# -- bounded ------------------------------------------------------------------------------------------


def test_nothing_is_kept_of_a_message_that_is_too_long() -> None:
    assembly = Assembly()
    for claimed in (LIMIT + 1, 2**40):
        with pytest.raises(FormatError) as caught:
            assembly.add(Frame("call", "bank", "CS", 1, claimed, 0, b"x"), LIMIT)
        assert caught.value.kind == "too-large"
        assert assembly._parts == {}
    first, second = in_pieces(bytes(10))
    assembly.add(first, LIMIT)
    with pytest.raises(FormatError):
        assembly.add(changed(second, size=LIMIT + 1), LIMIT)
    assert assembly._parts == {}


def test_what_a_piece_claims_takes_no_memory() -> None:
    assembly = Assembly()
    assembly.add(Frame("call", "bank", "CS", 1, 2**39, 0, b"x"), 2**40)
    assert held(assembly) == 1


@given(st.integers(0, 2**32))
def test_one_sender_is_kept_no_more_of_than_one_message_may_have(seed: int) -> None:
    rng, assembly = random.Random(seed), Assembly()
    begun: set[tuple[str, int]] = set()
    for _ in range(300):
        call, size = rng.randrange(100), rng.randrange(8, LIMIT)
        offset = rng.choice([0, 0, 7, 14])
        sender = rng.choice(["bank", "telco"])
        assembly.add(
            Frame("call", sender, "CS", call, size, offset, bytes(7)), rng.choice([LIMIT, 2 * LIMIT])
        )
        begun.add((sender, call))
        assert held(assembly) <= 2 * 2 * LIMIT
        assert len(assembly._parts) <= 65
    assert begun


def test_too_much_at_once_loses_the_oldest_and_says_so() -> None:
    assembly = Assembly()
    long, other = in_pieces(bytes(LIMIT), 1), in_pieces(bytes(LIMIT), 2)
    put(assembly, long[:-1])
    put(assembly, other[:3])
    assert assembly.lost() == [long[0].key]
    assert put(assembly, [*long[-1:], *other[3:]]) == [bytes(LIMIT)]


def test_a_short_message_does_not_push_out_a_long_one() -> None:
    """What is accepted of one kind bounds that kind."""
    assembly, long = Assembly(), in_pieces(bytes(LIMIT - 20), kind="reply")
    put(assembly, long[:-1])
    assert put(assembly, in_pieces(bytes(10), 2), limit=20) == [bytes(10)]
    assert put(assembly, long[-1:]) == [bytes(LIMIT - 20)]


def test_nobody_pushes_out_the_message_of_another_by_its_length() -> None:
    assembly, ours = Assembly(), in_pieces(bytes(LIMIT), sender="KGC")
    put(assembly, ours[:-1])
    for call in range(10):
        put(assembly, in_pieces(bytes(LIMIT), call)[:-1])
    assert put(assembly, ours[-1:]) == [bytes(LIMIT)]


def test_no_more_than_so_many_messages_are_begun() -> None:
    assembly = Assembly()
    for call in range(1000):
        assembly.add(Frame("call", f"party {call}", "CS", call, 100, 0, b"x"), LIMIT)
    assert len(assembly._parts) == 64
    assert len(assembly.lost()) == 1000 - 64


# -- noise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x91" * 5000,
        b"\x97\xa4ping" + b"\x91" * 5000,
        Frame("ping", "a", "b", 0).encode() + b"\0",
        msgspec.msgpack.encode(["shout", "a", "b", 0, 0, 0, b""]),
        msgspec.msgpack.encode(["call", "", "b", 0, 0, 0, b""]),
        msgspec.msgpack.encode(["call", "a", "b" * 201, 0, 0, 0, b""]),
        msgspec.msgpack.encode(["call", "a", "b", -1, 0, 0, b""]),
        msgspec.msgpack.encode(["call", "a", "b", 2**63, 0, 0, b""]),
        msgspec.msgpack.encode(["call", "a", "b", 1, 2**40 + 1, 0, b""]),
        msgspec.msgpack.encode(["call", "a", "b", 1, 0, -1, b""]),
        msgspec.msgpack.encode(["call", "a", "b", 1, 0, 0, "text"]),
        msgspec.msgpack.encode(["call", "a", "b", 1, 0, 0, bytes(PIECE + 1)]),
        msgspec.msgpack.encode(["call", "a", "b", 1, 0, 0, b"", "more"]),
        msgspec.msgpack.encode({"kind": "call"}),
        b"\x97\xa4call\xa2\xff\xff\xa1b\0\0\0\xc4\0",
        bytes(MAX_FRAME + 1),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        Frame.decode(data)


def test_the_longest_frame_fits() -> None:
    longest = Frame("refusal", "\N{GRINNING FACE}" * 200, "\N{GRINNING FACE}" * 200, 2**63 - 1, 2**40, 2**40)
    assert len(changed(longest, piece=bytes(PIECE)).encode()) <= MAX_FRAME


@pytest.mark.parametrize("said", [b"", b"\xff", b"a\x1b[31m", b"two\nlines", "ü".encode()[:1]])
def test_what_a_refusal_says_is_printed_only_if_it_can_be(said: bytes) -> None:
    assert refusal(said) == "rejected"


def test_what_a_refusal_says_is_cut_off() -> None:
    assert refusal(b"policy") == "policy"
    assert len(refusal(b"x" * 10_000)) == 200
