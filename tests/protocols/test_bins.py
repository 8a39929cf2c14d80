"""Lying or broken parties while bins travel: what they send is refused, and nothing of it is kept."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError, RefusedError
from revfrf.forest.books import bins_of
from revfrf.messages.base import Message
from revfrf.messages.bins import (
    COLUMNS,
    BinsReply,
    BinsRequest,
    FeatureLine,
    SaltedLine,
    column_numbers,
)
from revfrf.names import CS, PARTICIPANT
from revfrf.protocols import bins as protocol
from revfrf.protocols.bins import bins_digest, rows_digest
from revfrf.protocols.common.signed import sign
from revfrf.roles.participant import Participant
from revfrf.testing.federations import ignore, random_case, set_up, targets_of, train, with_books
from revfrf.testing.peers import FaultyPeer, Hook, changing, failing, replaced, unchanged
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refusal_kind, refused
from revfrf.transport.codec import decode_call, encode

CASE = random_case(11, rules=with_books(n_trees=2, max_depth=3))
DIGEST = train(CASE).coordinator.digest()
PARTY, N_ROWS = "bank", 60
ALL_ROWS = rows_digest(np.arange(N_ROWS))


def u2(*numbers: int) -> bytes:
    return np.array(numbers, COLUMNS).tobytes()


@dataclass
class Opened:
    """A federation whose forest is open, before CS has asked for bins."""

    federation: Federation
    party: Participant

    @property
    def forest(self) -> bytes:
        return self.federation.coordinator.plan.forest

    def request(self, **changes: Any) -> BinsRequest:
        """An honest question about both columns, with changes."""
        fields: dict[str, Any] = {
            "epoch": 1,
            "forest": self.forest,
            "table": "training",
            "rows": ALL_ROWS,
            "columns": u2(0, 1),
            "offset": 0,
        }
        return BinsRequest(**fields | changes)

    def ask(self, **changes: Any) -> BinsReply:
        return self.federation.network.channel(CS).call(PARTY, self.request(**changes), BinsReply)

    def books(self) -> list[bytes]:
        return [msgspec.msgpack.encode(book) for book in self.party.store.books]

    def grow(self) -> None:
        self.federation.resume(ignore)

    def stored(self) -> tuple[list[str], list[str], int]:
        """What CS has of this party, by feature, and what is still arriving, and how many trees."""
        store = self.federation.coordinator.store
        mine = [feature for feature in store.bins if feature.startswith(f"{PARTY}/")]
        return mine, [name for name in store.arriving if name == PARTY], len(store.trees)


@pytest.fixture
def opened() -> Opened:
    federation = set_up(CASE)
    for name, table in CASE.codes.items():
        federation.participants[name].hold("training", table)
    federation.coordinator.create(CASE.rules, federation.seed, targets_of(CASE))
    federation.coordinator.open()
    return Opened(federation, federation.participants[PARTY])


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Seven bytes of bins in a reply: pieces end within columns, and one has the end of one and a begin."""
    monkeypatch.setattr(protocol, "PIECE", 7)
    return 7


# -- a lying owner ----------------------------------------------------------------------------------


def lying(opened: Opened, on_reply: Hook, *kinds: str) -> None:
    """What this owner replies is refused, CS says who sent it, and nothing is kept but what others sent."""
    liar = FaultyPeer(opened.party, on_reply=on_reply)
    nothing: tuple[list[str], list[str], int] = ([], [], 0)
    with replaced(opened.federation.network, PARTY, liar), refused(*kinds, by=PARTY):
        opened.grow()
    assert opened.stored() == nothing
    opened.grow()
    assert opened.federation.coordinator.digest() == DIGEST


def resigned(opened: Opened, number: int, key: SigningKey | None = None, **changes: Any) -> Hook:
    """Change what the owner signs of one column, and sign it again: for another forest, if one is given."""
    identity = opened.party.identity
    federation = changes.pop("of_federation", identity.federation)
    forest = changes.pop("of_forest", opened.forest)

    def change(reply: BinsReply) -> tuple[SaltedLine, ...]:
        lines = list(reply.lines)
        line = msgspec.structs.replace(lines[number].line, **changes)
        line = sign(key or identity.signing_key, "revfrf feature v1", line, federation, forest)
        lines[number] = msgspec.structs.replace(lines[number], line=line)
        return tuple(lines)

    return changing(BinsReply, lines=change)


@pytest.mark.parametrize(
    "data",
    [
        lambda _: b"",
        lambda reply: reply.data + b"\0",
        lambda reply: reply.data * 2,
    ],
    ids=["none", "one more", "twice as many"],
)
def test_bins_of_another_length_are_refused(opened: Opened, data: Callable[[BinsReply], bytes]) -> None:
    lying(opened, changing(BinsReply, data=data), "length")


def test_owner_that_sends_fewer_bins_is_asked_for_the_rest(opened: Opened) -> None:
    half = FaultyPeer(opened.party, on_reply=changing(BinsReply, data=lambda reply: reply.data[:50]))
    with replaced(opened.federation.network, PARTY, half), recording() as sent:
        opened.grow()
    asked = [each.plain["offset"] for each in sent if each.type == "BinsRequest" and each.recipient == PARTY]
    assert asked == [0, 50, 100]
    assert opened.federation.coordinator.digest() == DIGEST


def test_bin_above_the_number_of_cuts_is_refused(opened: Opened) -> None:
    salt, data = bytes(32), bytes([200] * N_ROWS)
    change = resigned(opened, 1, bins=bins_digest(salt, data))

    def beyond(request: Any, reply: Any) -> Message:
        made = change(request, reply)
        if not isinstance(reply, BinsReply):
            return made
        assert isinstance(made, BinsReply)
        lines = (made.lines[0], msgspec.structs.replace(made.lines[1], salt=salt))
        return BinsReply(lines=lines, data=reply.data[:N_ROWS] + data)

    lying(opened, beyond, "out-of-range")


@pytest.mark.parametrize("signer", ["a stranger", "telco"])
def test_columns_signed_by_somebody_else_are_refused(opened: Opened, signer: str) -> None:
    others = {name: party.identity.signing_key for name, party in opened.federation.participants.items()}
    lying(opened, resigned(opened, 0, others.get(signer, SigningKey.generate())), "signature")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"of_forest": bytes(16)}, "signature"),
        ({"of_federation": "another"}, "signature"),
        ({"epoch": 2}, "epoch"),
        ({"rows": rows_digest(np.arange(1, N_ROWS + 1))}, "epoch"),
        ({"bins": bytes(32)}, "forest"),
        ({"ring": 32}, "schema"),
        ({"decimals": 3}, "schema"),
        ({"published": bytes(32)}, "schema"),
        ({"feature": "telco/x0"}, "schema"),
        ({"feature": f"{PARTY}/x1"}, "schema"),
    ],
    ids=str,
)
def test_columns_signed_for_something_else_are_refused(
    opened: Opened, changes: dict[str, Any], kind: str
) -> None:
    lying(opened, resigned(opened, 0, **changes), kind)


@pytest.mark.parametrize("field", [f for f in FeatureLine.__struct_fields__ if f not in ("feature", "rows")])
def test_line_that_was_changed_after_it_was_signed_is_refused(opened: Opened, field: str) -> None:
    others: dict[str, Any] = {"ring": 32, "decimals": 3, "n_cuts": 254, "epoch": 0, "generation": 1}
    others |= {"epsilon": 1, "forget": True}

    def change(reply: BinsReply) -> tuple[SaltedLine, ...]:
        first, *rest = reply.lines
        value = others[field] if field in others else bytes(len(getattr(first.line, field)))
        line = msgspec.structs.replace(first.line, **{field: value})
        return (msgspec.structs.replace(first, line=line), *rest)

    published = field in ("ring", "decimals", "published")  # which CS knows from the schema
    lying(opened, changing(BinsReply, lines=change), "schema" if published else "signature")


@pytest.mark.parametrize("place", [0, N_ROWS - 1, N_ROWS, 2 * N_ROWS - 1])
def test_other_bins_than_were_signed_are_refused(opened: Opened, place: int) -> None:
    def flip(reply: BinsReply) -> bytes:
        data = bytearray(reply.data)
        data[place] ^= 1 if data[place] else 2  # stays within the cuts
        return bytes(data)

    lying(opened, changing(BinsReply, data=flip), "forest", "out-of-range")


def test_other_salt_than_was_signed_is_refused(opened: Opened) -> None:
    def other(reply: BinsReply) -> tuple[SaltedLine, ...]:
        first, second = reply.lines
        return (first, msgspec.structs.replace(second, salt=bytes(32)))

    lying(opened, changing(BinsReply, lines=other), "forest")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (lambda _: (), "length"),
        (lambda reply: reply.lines[:1], "length"),
        (lambda reply: (*reply.lines, reply.lines[0]), "length"),
        (lambda reply: (reply.lines[0], reply.lines[0]), "schema"),
        (lambda reply: reply.lines[::-1], "schema"),
    ],
    ids=["none", "one missing", "one more", "one twice", "out of order"],
)
def test_lines_that_are_not_one_for_each_column_are_refused(
    opened: Opened, lines: Callable[[BinsReply], Any], kind: str
) -> None:
    lying(opened, changing(BinsReply, lines=lines), kind)


@pytest.mark.usefixtures("small_pieces")
def test_lines_in_a_later_reply_are_refused(opened: Opened) -> None:
    kept: list[tuple[SaltedLine, ...]] = []

    def again(reply: BinsReply) -> tuple[SaltedLine, ...]:
        kept.append(reply.lines or kept[0])
        return kept[-1]

    lying(opened, changing(BinsReply, lines=again), "length")
    assert len(kept) == 2


def test_lines_with_rows_to_test_on_are_refused(opened: Opened) -> None:
    opened.grow()
    books = opened.party.store.books
    lines = tuple(SaltedLine(book.line, book.salt) for book in books)
    liar = FaultyPeer(opened.party, on_reply=changing(BinsReply, lines=lines))
    with replaced(opened.federation.network, PARTY, liar), refused("length", by=PARTY):
        opened.federation.votes(CASE.codes, CASE.n_rows, "hard")


# -- transfers that are cut off ---------------------------------------------------------------------


def test_transfer_that_is_cut_off_goes_on_at_the_byte_where_it_was(opened: Opened, small_pieces: int) -> None:
    ended = failing(ProtocolError("not now", kind="order"), BinsReply, after=5)
    with recording() as sent:
        with (
            replaced(opened.federation.network, PARTY, FaultyPeer(opened.party, on_reply=ended)),
            pytest.raises(RefusedError, match="'bank'"),
        ):
            opened.grow()
        arrived = opened.federation.coordinator.store.arriving[PARTY]
        assert (len(arrived.data), len(arrived.lines)) == (5 * small_pieces, 2)
        assert opened.stored()[0] == []
        opened.grow()
    replies = [each.plain for each in sent if each.type == "BinsReply" and each.sender == PARTY]
    assert sum(len(reply["data"]) for reply in replies) == 2 * N_ROWS
    assert [len(reply["lines"]) for reply in replies] == [2] + [0] * (len(replies) - 1)
    assert opened.federation.coordinator.store.arriving == {}
    assert opened.federation.coordinator.digest() == DIGEST


def test_transfer_that_proves_wrong_begins_again(opened: Opened, small_pieces: int) -> None:
    """What arrived before is not kept: nobody knows which part of it is wrong."""

    def flip(request: Any, reply: Any) -> Message:
        if not isinstance(reply, BinsReply) or request.offset != small_pieces:
            return unchanged(request, reply)
        return msgspec.structs.replace(reply, data=bytes([reply.data[0] ^ 1]) + reply.data[1:])

    lying(opened, flip, "forest", "out-of-range")


# -- a lying CS -------------------------------------------------------------------------------------


def test_owner_sends_the_bins_of_its_books_and_keeps_these_to_itself(opened: Opened) -> None:
    reply, books = opened.ask(), opened.party.store.books
    expected = [bins_of(codes, book.cuts) for codes, book in zip(CASE.codes[PARTY], books, strict=True)]
    assert reply.data == b"".join(bins.tobytes() for bins in expected)
    assert [line.line.feature for line in reply.lines] == ["bank/x0", "bank/x1"]
    assert len({line.salt for line in reply.lines}) == 2
    assert not any(book.thresholds[i : i + 16] in reply.data for book in books for i in (0, 8, 16))


def test_owner_asked_again_resends_the_same_lines_and_salts(opened: Opened) -> None:
    first = opened.ask()
    assert opened.ask() == first
    assert opened.ask(columns=u2(1)) == BinsReply(lines=first.lines[1:], data=first.data[N_ROWS:])
    opened.federation.participants[PARTY].resume(opened.federation.coordinator.opening)  # as after a restart
    assert opened.ask() == first


@pytest.mark.parametrize("offset", [1, N_ROWS - 1, N_ROWS, N_ROWS + 1, 2 * N_ROWS - 1])
def test_owner_goes_on_from_any_byte(opened: Opened, offset: int) -> None:
    assert opened.ask(offset=offset) == BinsReply(lines=(), data=opened.ask().data[offset:])


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": u2(2)},
        {"columns": u2(0, 1, 65535)},
        {"columns": u2(0, 0)},
        {"columns": u2(1, 0)},
        {"columns": u2(0)[:1]},
        {"columns": b""},
        {"offset": 2 * N_ROWS},
        {"offset": 2**63 - 1},
        {"columns": u2(1), "offset": N_ROWS},
        {"forest": bytes(16)},
        {"epoch": 0},
        {"epoch": 2},
        {"table": "another"},
        {"rows": b""},
        {"rows": bytes(32)},
        {"rows": rows_digest(np.arange(N_ROWS - 1))},
        {"rows": rows_digest(np.arange(N_ROWS + 1))},
        {"rows": rows_digest(np.arange(1, N_ROWS + 1))},
    ],
    ids=lambda changes: str(changes)[:60],
)
@pytest.mark.parametrize("drawn", [False, True], ids=["before there are books", "later"])
def test_question_that_no_forest_asks_is_refused(
    opened: Opened, changes: dict[str, Any], drawn: bool
) -> None:
    if drawn:
        opened.ask()
    books = opened.books()
    with refused(by=PARTY):
        opened.ask(**changes)
    assert opened.books() == books or (not drawn and "rows" not in changes)


def test_owner_whose_rows_have_other_numbers_than_its_books_are_for_is_refused(opened: Opened) -> None:
    opened.ask()
    numbers = np.arange(1, N_ROWS + 1)
    opened.party.hold("training", CASE.codes[PARTY], numbers)
    with refused("schema", by=PARTY, unchanged=opened.books):
        opened.ask(rows=rows_digest(numbers))


def test_rows_to_test_on_have_no_bins_before_there_is_a_book(opened: Opened) -> None:
    opened.party.hold("test", CASE.codes[PARTY][:, :5])
    five = rows_digest(np.arange(5))
    with refused("order", by=PARTY):
        opened.ask(table="test", rows=five)
    opened.ask()
    assert len(opened.ask(table="test", rows=five).data) == 10
    with refused("schema", by=PARTY):
        opened.ask(table="test")  # which is another number of rows


def test_only_members_of_the_federation_are_answered_and_only_about_an_open_forest() -> None:
    federation = set_up(CASE)
    request = BinsRequest(epoch=1, forest=bytes(16), table="training", rows=ALL_ROWS, columns=u2(0), offset=0)
    with refused(by=PARTY):
        federation.network.channel(CS).call(PARTY, request, BinsReply)


def test_question_with_too_many_bytes_or_runs_for_rows_is_refused_before_it_takes_memory(
    opened: Opened,
) -> None:
    plain = msgspec.msgpack.decode(encode(opened.request())[1:])
    floods: list[object] = [bytes(2**26), bytes(33), [[number, 1] for number in range(2**19)]]
    for flood in floods:
        data = encode(opened.request())[:1] + msgspec.msgpack.encode(plain | {"rows": flood})
        tracemalloc.start()
        kind = refusal_kind(lambda data=data: decode_call(data, CS, PARTICIPANT))  # type: ignore[misc]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kind == ("malformed" if flood == bytes(33) else "too-large")
        assert peak < 2**18


# -- how columns are written ---------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=4))
def test_columns_are_those_that_exist_in_order_or_refused(numbers: list[int]) -> None:
    if numbers == sorted(set(numbers)) and all(number < 5 for number in numbers):
        assert column_numbers(u2(*numbers), 5).tolist() == numbers
    else:
        assert refusal_kind(lambda: column_numbers(u2(*numbers), 5)) == "malformed"
