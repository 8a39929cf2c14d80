"""Lying or broken parties while a forest grows: what they send is refused, and nothing of it is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.crypto.batch import sign_batch
from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import FormatError, ProtocolError, RefusedError, RejectedError, RevFRFError
from revfrf.forest.nodes import Node, Nodes
from revfrf.messages.base import FEATURES, PATHS, SIZES, TREES, Message
from revfrf.messages.fle_expan import LevelReply, LevelRequest
from revfrf.names import CC, CS, KGC
from revfrf.protocols.paper.node_rows import write_nodes
from revfrf.protocols.paper.splits import split_context, split_statement
from revfrf.roles.participant import Participant
from revfrf.testing.federations import random_case, set_up, targets_of, toy_keys, train, with_rules
from revfrf.transport.base import Reply
from tests.federations import digest_of, participant, participants

CASE = random_case(11, rules=with_rules(n_trees=2, max_depth=3, candidate_limit=2**64 - 1))
PARTY = "bank"


def u4(*values: int) -> bytes:
    return np.array(values, TREES).tobytes()


def u8(*values: int) -> bytes:
    return np.array(values, PATHS).tobytes()


def u2(*values: int) -> bytes:
    return np.array(values, FEATURES).tobytes()


# -- a lying CS -------------------------------------------------------------------------------------


@dataclass
class Opened:
    """A federation whose forest is open, at the moment when CS asks the first question, or any later."""

    federation: Federation
    party: Participant
    forest: bytes

    def request(self, number: int = 0, **changes: Any) -> LevelRequest:
        """An honest question about both features at both roots, with changes."""
        roots = Nodes.roots([np.arange(20, dtype=np.uint32), np.arange(5, 60, dtype=np.uint32)])
        fields: dict[str, Any] = {
            "epoch": 1,
            "forest": self.forest,
            "round": number,
            "won_trees": b"",
            "won_paths": b"",
            "won_features": b"",
            "won_cuts": b"",
            "nodes": write_nodes(roots),
            "asked_nodes": u4(0, 1, 0, 1),
            "asked_features": u2(0, 0, 1, 1),
        }
        return LevelRequest(**fields | changes)

    def won(self, trees: bytes, paths: bytes, features: bytes, cuts: bytes, number: int = 1) -> LevelRequest:
        """Only splits that won, and no questions."""
        return self.request(
            number,
            won_trees=trees,
            won_paths=paths,
            won_features=features,
            won_cuts=cuts,
            nodes=write_nodes(Nodes.of([], [], [])),
            asked_nodes=b"",
            asked_features=b"",
        )

    def ask(self, request: Message, sender: str = CS) -> LevelReply:
        return self.federation.network.channel(sender).call(PARTY, request, LevelReply)

    def state(self) -> tuple[Any, ...]:
        """All that a participant remembers of a forest."""
        growth = self.party.growth
        assert growth is not None
        proposals = [
            (positions.tolist(), p.thresholds.tobytes(), p.n_cuts.tolist(), p.bins.tolist())
            for positions, p in growth.proposals
        ]
        return (
            dict(self.party.store.own_splits),
            self.party.store.round,
            dict(growth.index),
            proposals,
            growth.rules,
        )

    def refuses(self, request: Message, sender: str = CS) -> RevFRFError:
        """Why the request is refused; it leaves no trace, and CS is told nothing but that."""
        before = self.state()
        with pytest.raises(RefusedError) as caught:
            self.ask(request, sender)
        assert str(caught.value) == f"'{PARTY}' has refused: rejected"
        assert self.state() == before
        cause = caught.value.__cause__
        assert isinstance(cause, RejectedError)
        return cause


@pytest.fixture
def opened() -> Opened:
    federation = set_up(CASE)
    for name, table in CASE.codes.items():
        federation.participants[name].hold("training", table)
    federation.coordinator.create(CASE.rules, federation.seed, targets_of(CASE, federation.seed))
    federation.coordinator.open()
    return Opened(federation, participant(federation, PARTY), federation.coordinator.plan.forest)


def test_honest_request_is_answered(opened: Opened) -> None:
    reply = opened.ask(opened.request())
    assert (reply.round, reply.ciphertexts, reply.signature) == (0, b"", None)
    assert len(reply.n_cuts) == 4
    assert len(reply.bins) == 2 * (20 + 55)
    assert max(reply.n_cuts) <= CASE.rules.n_candidates


def test_honest_win_is_encrypted_signed_and_stored(opened: Opened) -> None:
    opened.ask(opened.request())
    reply = opened.ask(opened.won(u4(1, 0), u8(1, 1), u2(0, 1), b"\2\0"))
    key = opened.party.identity.weak
    assert key is not None
    width = 3 * key.parameters.key_bits // 8
    parts = [reply.ciphertexts[:width], reply.ciphertexts[width:]]
    plain = par_h_dec2(key, [Ciphertext.from_bytes(key.parameters, part) for part in parts], n_jobs=1)
    assert opened.party.store.own_splits == {(1, 1): (0, plain[0]), (0, 1): (1, plain[1])}


def some_nodes(rows: bytes, sizes: tuple[int, ...] = (3,), **changes: bytes) -> dict[str, bytes]:
    fields = {
        "trees": u4(*range(len(sizes))),
        "paths": u8(*[1] * len(sizes)),
        "sizes": np.array(sizes, SIZES).tobytes(),
        "rows": rows,
    }
    return fields | changes


@pytest.mark.parametrize(
    "nodes",
    [
        some_nodes(b"\0\0\x3a"),
        some_nodes(b"\0\0\xbc\0"),
        some_nodes(b"\0\0"),
        some_nodes(b"\0\0\0\0"),
        some_nodes(b"\0\0\0", (2**32 - 1,)),
        some_nodes(b"\0\0\0", trees=u4(0, 1)),
        some_nodes(b"\0\0\0", paths=u8(1)[:7]),
        some_nodes(b"\0\0\0", trees=u4(2)),
        some_nodes(b"\0\0\0", paths=u8(0)),
        some_nodes(b"\0\0\0", paths=u8(8)),
        some_nodes(b"\0\0\0", paths=u8(2**63)),
        some_nodes(b"\0\0\0\0\0\0", (3, 3), trees=u4(0, 0)),
    ],
    ids=[
        "row out of range",
        "row not in its shortest form",
        "too few rows",
        "too many rows",
        "more rows than bytes",
        "more trees than sizes",
        "a broken path",
        "unknown tree",
        "path zero",
        "path below the deepest split",
        "path far too long",
        "node twice",
    ],
)
def test_malformed_nodes_are_refused(opened: Opened, nodes: dict[str, bytes]) -> None:
    asked = len(nodes["sizes"]) // 4
    request = msgspec.convert(
        msgspec.to_builtins(opened.request(), builtin_types=(bytes,))
        | {"nodes": nodes, "asked_nodes": u4(*range(asked)), "asked_features": u2(*[0] * asked)},
        LevelRequest,
    )
    assert isinstance(opened.refuses(request), FormatError | ProtocolError)


def test_node_without_rows_is_refused(opened: Opened) -> None:
    empty = Nodes.of([0], [1], [np.empty(0, np.uint32)])
    opened.refuses(opened.request(nodes=write_nodes(empty), asked_nodes=u4(0), asked_features=u2(0)))


@pytest.mark.parametrize(
    ("asked_nodes", "asked_features"),
    [
        (u4(0, 1, 0, 2), u2(0, 0, 1, 1)),
        (u4(0, 1, 0, 2**32 - 1), u2(0, 0, 1, 1)),
        (u4(0, 1, 0, 1), u2(0, 0, 2, 2)),
        (u4(0, 1, 0, 1), u2(0, 0, 1, 65535)),
        (u4(1, 0, 0, 1), u2(0, 0, 1, 1)),
        (u4(0, 1, 0, 1), u2(1, 1, 0, 0)),
        (u4(0, 0, 1), u2(0, 0, 0)),
        (u4(0, 1, 0, 1), u2(0, 0, 1)),
        (u4(0, 1, 0, 1)[:-1], u2(0, 0, 1, 1)),
        (u4(0, 0), u2(0, 1)),
        (b"", b""),
    ],
    ids=[
        "unknown node",
        "node far away",
        "unknown feature",
        "feature far away",
        "nodes out of order",
        "features out of order",
        "a question twice",
        "a question without a feature",
        "a broken question",
        "rows of a node about which nothing is asked",
        "rows without any question",
    ],
)
def test_questions_that_no_honest_coordinator_asks_are_refused(
    opened: Opened, asked_nodes: bytes, asked_features: bytes
) -> None:
    opened.refuses(opened.request(asked_nodes=asked_nodes, asked_features=asked_features))


@pytest.mark.parametrize("epoch", [0, 2, 2**32 - 1])
def test_request_of_another_epoch_is_refused(opened: Opened, epoch: int) -> None:
    assert opened.refuses(opened.request(epoch=epoch)).kind == "epoch"


def test_request_for_another_forest_is_refused(opened: Opened) -> None:
    assert opened.refuses(opened.request(forest=bytes(16))).kind == "forest"


@pytest.mark.parametrize("sender", [CC, KGC, "telco", PARTY, "", "cs"])
def test_request_of_anybody_but_the_coordinator_is_refused(opened: Opened, sender: str) -> None:
    assert opened.refuses(opened.request(), sender).kind == "sender"


def test_replayed_round_is_refused(opened: Opened) -> None:
    opened.ask(opened.request(4))
    for number in (4, 3, 0):
        assert opened.refuses(opened.request(number)).kind == "order"


def test_message_that_a_participant_does_not_answer_is_refused(opened: Opened) -> None:
    reply = LevelReply(round=0, ciphertexts=b"", signature=None, n_cuts=b"", bins=b"")
    assert opened.refuses(reply).kind == "sender"


def test_second_forest_is_refused(opened: Opened) -> None:
    cs = opened.federation.coordinator
    cs.create(CASE.rules, opened.federation.seed, cs.targets)
    with pytest.raises(RefusedError):
        cs.open()


@pytest.mark.parametrize(
    ("trees", "paths", "features", "cuts"),
    [
        (u4(0), u8(2), u2(0), b"\0"),
        (u4(7), u8(1), u2(0), b"\0"),
        (u4(0), u8(1), u2(2), b"\0"),
        (u4(0), u8(1), u2(0), b"\7"),
        (u4(0), u8(1), u2(0), b"\xff"),
        (u4(0, 0), u8(1, 1), u2(0, 1), b"\0\0"),
        (u4(0, 0), u8(1, 1), u2(0, 0), b"\0\1"),
        (u4(0, 1), u8(1, 1), u2(0, 0), b"\0\7"),
        (u4(0), u8(1, 1), u2(0), b"\0"),
        (u4(0), u8(1), u2(0, 0), b"\0"),
        (u4(0), u8(1), u2(0), b""),
        (b"", u8(1), u2(0), b"\0"),
        (u4(0)[:3], u8(1), u2(0), b"\0"),
    ],
    ids=[
        "a node never asked about",
        "an unknown tree",
        "an unknown feature",
        "one cut too high",
        "a cut far too high",
        "two splits of one node",
        "one split twice",
        "one good and one bad",
        "paths too many",
        "features too many",
        "a cut too few",
        "no tree",
        "a broken tree",
    ],
)
def test_split_that_was_no_candidate_is_neither_encrypted_nor_stored(
    opened: Opened, trees: bytes, paths: bytes, features: bytes, cuts: bytes
) -> None:
    opened.ask(opened.request())
    opened.refuses(opened.won(trees, paths, features, cuts))
    assert opened.party.store.own_splits == {}


def test_split_at_a_node_where_the_feature_was_not_asked_is_refused(opened: Opened) -> None:
    opened.ask(opened.request(asked_nodes=u4(0, 1), asked_features=u2(0, 1)))
    assert opened.refuses(opened.won(u4(1), u8(1), u2(0), b"\0")).kind == "node"
    assert opened.ask(opened.won(u4(1), u8(1), u2(1), b"\0")).ciphertexts


def test_split_before_any_question_is_refused(opened: Opened) -> None:
    assert opened.refuses(opened.won(u4(0), u8(1), u2(0), b"\0", number=0)).kind == "node"


def test_split_of_an_older_round_is_refused(opened: Opened) -> None:
    opened.ask(opened.request(0))
    only_first = Nodes.of([0], [2], [np.arange(5, dtype=np.uint32)])
    opened.ask(opened.request(1, nodes=write_nodes(only_first), asked_nodes=u4(0), asked_features=u2(0)))
    assert opened.refuses(opened.won(u4(0), u8(1), u2(0), b"\0", number=2)).kind == "node"


def test_split_is_won_once(opened: Opened) -> None:
    opened.ask(opened.request(0))
    opened.ask(opened.request(1, won_trees=u4(0), won_paths=u8(1), won_features=u2(0), won_cuts=b"\0"))
    for feature in (0, 1):
        assert opened.refuses(opened.won(u4(0), u8(1), u2(feature), b"\1", number=2)).kind == "node"


def test_bad_questions_undo_a_good_win(opened: Opened) -> None:
    """The two halves of a request are taken together or not at all."""
    opened.ask(opened.request(0))
    won = {"won_trees": u4(0), "won_paths": u8(1), "won_features": u2(0), "won_cuts": b"\0"}
    opened.refuses(opened.request(1, **won, asked_features=u2(9, 9, 9, 9)))
    assert opened.party.store.own_splits == {}
    opened.ask(opened.request(1, **won))
    assert set(opened.party.store.own_splits) == {(0, 1)}


# -- a lying participant ----------------------------------------------------------------------------

Tamper = Callable[[LevelRequest, LevelReply], LevelReply]


@dataclass
class Lying:
    """CS's channel, on which one participant's replies from some round on are not what it sent."""

    federation: Federation
    tamper: Tamper
    from_round: int
    before: tuple[Any, ...] | None = None

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        reply = self.federation.network.channel(CS).call(recipient, request, reply_type)
        if recipient == PARTY and isinstance(request, LevelRequest) and request.round >= self.from_round:
            assert isinstance(reply, LevelReply)
            changed = self.tamper(request, reply)
            if changed != reply:
                self.before = self.before or self.stored()
                assert isinstance(changed, reply_type)
                return changed
        return reply

    def stored(self) -> tuple[Any, ...]:
        store = self.federation.coordinator.store
        return dict(store.splits), dict(store.leaves), store.round


def is_caught(tamper: Tamper, from_round: int = 0) -> RejectedError:
    """Train with a liar. CS stops, and keeps nothing of what it was told at that round."""
    federation = set_up(CASE)
    lying = Lying(federation, tamper, from_round)
    federation.coordinator.channel = lying
    with pytest.raises(RejectedError) as caught:
        train(CASE, federation)
    assert lying.before is not None
    assert lying.stored() == lying.before
    return caught.value


def changed(**fields: Any) -> Tamper:
    return lambda _, reply: msgspec.structs.replace(reply, **fields)


def test_untouched_replies_grow_the_forest() -> None:
    federation = set_up(CASE)
    federation.coordinator.channel = Lying(federation, lambda _, reply: reply, 0)
    assert digest_of(train(CASE, federation)) == digest_of(train(CASE))


@pytest.mark.parametrize(
    "tamper",
    [
        lambda _, reply: msgspec.structs.replace(reply, bins=reply.bins[:-1]),
        lambda _, reply: msgspec.structs.replace(reply, bins=reply.bins + b"\0"),
        changed(bins=b""),
        lambda _, reply: msgspec.structs.replace(reply, bins=b"\xff" + reply.bins[1:]),
        lambda _, reply: msgspec.structs.replace(reply, bins=bytes([reply.n_cuts[0] + 1]) + reply.bins[1:]),
        lambda _, reply: msgspec.structs.replace(reply, n_cuts=b"\x08" + reply.n_cuts[1:]),
        lambda _, reply: msgspec.structs.replace(reply, n_cuts=b"\xff" + reply.n_cuts[1:]),
        lambda _, reply: msgspec.structs.replace(reply, n_cuts=b"\0" + reply.n_cuts[1:]),
        lambda _, reply: msgspec.structs.replace(reply, n_cuts=reply.n_cuts[:-1]),
        lambda _, reply: msgspec.structs.replace(reply, n_cuts=reply.n_cuts + b"\0"),
        changed(n_cuts=b"", bins=b""),
        changed(round=1),
        changed(round=2**32 - 1),
        changed(ciphertexts=bytes(96)),
    ],
    ids=[
        "too few bins",
        "too many bins",
        "no bins",
        "a bin far too high",
        "a bin one above the number of cuts",
        "one cut too many",
        "far too many cuts",
        "bins for a feature without cuts",
        "a feature unanswered",
        "an answer to no question",
        "no answers",
        "another round",
        "a round far away",
        "ciphertexts of splits that did not win",
    ],
)
def test_malformed_answers_are_refused(tamper: Tamper) -> None:
    assert isinstance(is_caught(tamper), FormatError | ProtocolError)


def with_splits(change: Callable[[list[bytes]], list[bytes]]) -> Tamper:
    """Change the ciphertexts of the splits that won, where some did."""

    def tamper(_: LevelRequest, reply: LevelReply) -> LevelReply:
        parts = [reply.ciphertexts[at : at + 96] for at in range(0, len(reply.ciphertexts), 96)]
        return msgspec.structs.replace(reply, ciphertexts=b"".join(change(parts))) if parts else reply

    return tamper


def n() -> int:
    return toy_keys().parameters.n


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda parts: parts[:-1], "FormatError"),
        (lambda parts: [*parts, parts[0]], "FormatError"),
        (lambda parts: [parts[0][:-1], *parts[1:]], "FormatError"),
        (lambda parts: [parts[0] + b"\0", *parts[1:]], "FormatError"),
        (lambda parts: [bytes(96), *parts[1:]], "ElementError"),
        (lambda parts: [b"\xff" * 96, *parts[1:]], "ElementError"),
        (lambda parts: [(n() * n()).to_bytes(64, "big") + parts[0][64:], *parts[1:]], "ElementError"),
        (lambda parts: [parts[0][:64] + n().to_bytes(32, "big"), *parts[1:]], "ElementError"),
        (lambda parts: [parts[0][:64] + (1).to_bytes(32, "big"), *parts[1:]], "ElementError"),
        (lambda parts: [parts[0][:64] + (n() - 1).to_bytes(32, "big"), *parts[1:]], "ElementError"),
        (lambda parts: [n().to_bytes(64, "big") + parts[0][64:], *parts[1:]], "ElementError"),
        (lambda parts: [*parts[1:], parts[0]] if len(parts) > 1 else [bytes(96)], "RejectedError"),
    ],
    ids=[
        "too few",
        "too many",
        "too short",
        "too long",
        "zeros",
        "C and G too large",
        "C is N²",
        "G is N",
        "G is 1",
        "G is -1",
        "C shares a factor with N",
        "in another order",
    ],
)
def test_ciphertexts_that_nobody_made_are_refused(
    change: Callable[[list[bytes]], list[bytes]], error: str
) -> None:
    caught = is_caught(with_splits(change))
    assert error in [kind.__name__ for kind in type(caught).__mro__]


def where_splits_are(change: Callable[[LevelRequest, LevelReply], dict[str, Any]]) -> Tamper:
    """Change a reply to a request that names splits that won."""

    def tamper(request: LevelRequest, reply: LevelReply) -> LevelReply:
        return msgspec.structs.replace(reply, **change(request, reply)) if request.won_cuts else reply

    return tamper


@pytest.mark.parametrize(
    "signature",
    [None, bytes(64), b"\xff" * 64, SigningKey.generate().sign("revfrf batch v1")],
    ids=["absent", "zeros", "ones", "of another key"],
)
def test_missing_or_forged_signature_is_refused(signature: bytes | None) -> None:
    caught = is_caught(where_splits_are(lambda *_: {"signature": signature}))
    assert caught.kind == "signature"


def won_nodes(request: LevelRequest) -> list[Node]:
    trees, paths = np.frombuffer(request.won_trees, TREES), np.frombuffer(request.won_paths, PATHS)
    return list(zip(trees.tolist(), paths.tolist(), strict=True))


@pytest.mark.parametrize("field", ["federation", "epoch", "forest", "tree", "path", "signer", "ciphertext"])
def test_signature_for_something_else_is_refused(field: str) -> None:
    """The liar signs with its own key, but for another federation, forest, node, …"""
    federation = set_up(CASE)
    own, other = participant(federation, PARTY), participant(federation, "telco")

    def resign(request: LevelRequest, reply: LevelReply) -> dict[str, Any]:
        plan = federation.coordinator.plan
        context = {"federation": plan.federation, "epoch": plan.epoch, "forest": plan.forest}
        if field in context:
            context[field] = {"federation": "other", "epoch": 2, "forest": bytes(16)}[field]
        width = len(reply.ciphertexts) // len(request.won_cuts)
        statements = []
        for number, (tree, path) in enumerate(won_nodes(request)):
            ciphertext = reply.ciphertexts[number * width : (number + 1) * width]
            node = (tree + (field == "tree"), path + (field == "path"))
            signed = ciphertext[::-1] if field == "ciphertext" else ciphertext
            statements.append(split_statement(node, signed))
        key = (other if field == "signer" else own).identity.signing_key
        return {"signature": sign_batch(key, split_context(**context), statements)}  # type: ignore[arg-type]

    lying = Lying(federation, where_splits_are(resign), 0)
    federation.coordinator.channel = lying
    with pytest.raises(RejectedError) as caught:
        train(CASE, federation)
    assert caught.value.kind == "signature"
    assert lying.stored() == lying.before


def test_ciphertexts_of_another_owner_are_refused() -> None:
    """A reply that another participant made and signed, for the very same nodes."""
    federation = set_up(CASE)
    other = participant(federation, "telco")

    def steal(request: LevelRequest, _: LevelReply) -> dict[str, Any]:
        key, plan = other.identity.weak, federation.coordinator.plan
        assert key is not None
        nodes = won_nodes(request)
        ciphertexts = [c.to_bytes(key.parameters) for c in ho_enc(key.public, [7] * len(nodes), n_jobs=1)]
        statements = [split_statement(node, c) for node, c in zip(nodes, ciphertexts, strict=True)]
        context = split_context(plan.federation, plan.epoch, plan.forest)
        signature = sign_batch(other.identity.signing_key, context, statements)
        return {"ciphertexts": b"".join(ciphertexts), "signature": signature}

    lying = Lying(federation, where_splits_are(steal), 0)
    federation.coordinator.channel = lying
    with pytest.raises(RejectedError) as caught:
        train(CASE, federation)
    assert caught.value.kind == "signature"
    assert lying.stored() == lying.before


def test_replayed_reply_of_an_older_round_is_refused() -> None:
    older: list[LevelReply] = []

    def replay(_: LevelRequest, reply: LevelReply) -> LevelReply:
        older.append(reply)
        return older[0]

    assert is_caught(replay).kind == "order"


def test_participant_that_refuses_stops_the_growth() -> None:
    federation = set_up(CASE)

    class Refusing:
        def handle(self, sender: str, message: Message) -> Message:
            if isinstance(message, LevelRequest) and message.round > 0:
                raise ProtocolError("no more")
            return participant(federation, PARTY).handle(sender, message)

    federation.network.roles[PARTY] = Refusing()
    with pytest.raises(RefusedError, match=r"^'bank' has refused: rejected$"):
        train(CASE, federation)
    assert federation.coordinator.store.splits == {}


# -- what is stored ---------------------------------------------------------------------------------


def test_every_stored_split_carries_its_owner_s_signature() -> None:
    federation = train(CASE)
    plan, store = federation.coordinator.plan, federation.coordinator.store
    context = split_context(plan.federation, plan.epoch, plan.forest)
    for node, split in store.splits.items():
        split.batch.verify(plan.verify_keys[split.owner], context)
        split.batch.holds(split.position, split_statement(node, split.ciphertext))
    assert len(store.splits) > 4


def test_every_stored_ciphertext_opens_to_its_owner_s_cut() -> None:
    federation = train(CASE)
    for name, party in participants(federation).items():
        key = party.identity.weak
        assert key is not None
        own = {n: s for n, s in federation.coordinator.store.splits.items() if s.owner == name}
        ciphertexts = [Ciphertext.from_bytes(key.parameters, split.ciphertext) for split in own.values()]
        cuts = par_h_dec2(key, ciphertexts, n_jobs=1)
        assert party.store.own_splits.keys() == own.keys()
        assert [party.store.own_splits[node][1] for node in own] == cuts


@pytest.mark.parametrize("rows", [59, 61, 0])
def test_participant_with_other_rows_than_the_labels_is_refused(rows: int) -> None:
    federation = set_up(CASE)
    codes = CASE.codes | {PARTY: np.zeros((2, rows), np.int64)}
    with pytest.raises(ProtocolError) as caught:
        federation.train(codes, CASE.rules, targets_of(CASE, federation.seed), lambda _: None)
    assert caught.value.kind == "schema"
