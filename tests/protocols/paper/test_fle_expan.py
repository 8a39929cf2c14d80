"""Lying or broken parties while a forest grows: what they send is refused, and nothing of it is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.crypto.batch import sign_batch
from revfrf.crypto.dtpkc.dtpkc import par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Federation
from revfrf.errors import ElementError, FormatError, ProtocolError, RefusedError, RejectedError, RevFRFError
from revfrf.forest.nodes import Node, Nodes
from revfrf.messages.base import FEATURES, PATHS, SIZES, TREES, Message
from revfrf.messages.fle_expan import LevelReply, LevelRequest
from revfrf.names import CS
from revfrf.protocols.paper.fle_expan import write_nodes
from revfrf.protocols.paper.sides import PaperOwner
from revfrf.protocols.paper.splits import split_context, split_statement
from revfrf.roles.participant import Participant
from revfrf.testing.federations import random_case, set_up, targets_of, train, with_rules
from revfrf.testing.peers import FaultyPeer, failing
from revfrf.testing.refusals import refusal, refused
from revfrf.transport.base import Reply

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
        assert isinstance(self.party.side, PaperOwner)
        growth = self.party.side.growth
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
        return refusal(lambda: self.ask(request, sender), by=PARTY, unchanged=self.state)


@pytest.fixture
def opened() -> Opened:
    federation = set_up(CASE)
    for name, table in CASE.codes.items():
        federation.participants[name].hold("training", table)
    federation.coordinator.create(CASE.rules, federation.seed, targets_of(CASE))
    federation.coordinator.open()
    return Opened(federation, federation.participants[PARTY], federation.coordinator.plan.forest)


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
        pytest.param(some_nodes(b"\0\0\x3a"), id="row out of range"),
        pytest.param(some_nodes(b"\0\0\xbc\0"), id="row not in its shortest form"),
        pytest.param(some_nodes(b"\0\0"), id="too few rows"),
        pytest.param(some_nodes(b"\0\0\0\0"), id="too many rows"),
        pytest.param(some_nodes(b"\0\0\0", (2**32 - 1,)), id="more rows than bytes"),
        pytest.param(some_nodes(b"\0\0\0", trees=u4(0, 1)), id="more trees than sizes"),
        pytest.param(some_nodes(b"\0\0\0", paths=u8(1)[:7]), id="a broken path"),
        pytest.param(some_nodes(b"\0\0\0", trees=u4(2)), id="unknown tree"),
        pytest.param(some_nodes(b"\0\0\0", paths=u8(0)), id="path zero"),
        pytest.param(some_nodes(b"\0\0\0", paths=u8(8)), id="path below the deepest split"),
        pytest.param(some_nodes(b"\0\0\0", paths=u8(2**63)), id="path far too long"),
        pytest.param(some_nodes(b"\0\0\0\0\0\0", (3, 3), trees=u4(0, 0)), id="node twice"),
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
        pytest.param(u4(0, 1, 0, 2), u2(0, 0, 1, 1), id="unknown node"),
        pytest.param(u4(0, 1, 0, 2**32 - 1), u2(0, 0, 1, 1), id="node far away"),
        pytest.param(u4(0, 1, 0, 1), u2(0, 0, 2, 2), id="unknown feature"),
        pytest.param(u4(0, 1, 0, 1), u2(0, 0, 1, 65535), id="feature far away"),
        pytest.param(u4(1, 0, 0, 1), u2(0, 0, 1, 1), id="nodes out of order"),
        pytest.param(u4(0, 1, 0, 1), u2(1, 1, 0, 0), id="features out of order"),
        pytest.param(u4(0, 0, 1), u2(0, 0, 0), id="a question twice"),
        pytest.param(u4(0, 1, 0, 1), u2(0, 0, 1), id="a question without a feature"),
        pytest.param(u4(0, 1, 0, 1)[:-1], u2(0, 0, 1, 1), id="a broken question"),
        pytest.param(u4(0, 0), u2(0, 1), id="rows of a node about which nothing is asked"),
        pytest.param(b"", b"", id="rows without any question"),
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


def test_replayed_round_is_refused(opened: Opened) -> None:
    opened.ask(opened.request(4))
    for number in (4, 3, 0):
        assert opened.refuses(opened.request(number)).kind == "order"


def test_second_forest_is_refused(opened: Opened) -> None:
    cs = opened.federation.coordinator
    cs.create(CASE.rules, opened.federation.seed, cs.targets)
    with pytest.raises(RefusedError):
        cs.open()


@pytest.mark.parametrize(
    ("trees", "paths", "features", "cuts"),
    [
        pytest.param(u4(0), u8(2), u2(0), b"\0", id="a node never asked about"),
        pytest.param(u4(7), u8(1), u2(0), b"\0", id="an unknown tree"),
        pytest.param(u4(0), u8(1), u2(2), b"\0", id="an unknown feature"),
        pytest.param(u4(0), u8(1), u2(0), b"\7", id="one cut too high"),
        pytest.param(u4(0), u8(1), u2(0), b"\xff", id="a cut far too high"),
        pytest.param(u4(0, 0), u8(1, 1), u2(0, 1), b"\0\0", id="two splits of one node"),
        pytest.param(u4(0, 0), u8(1, 1), u2(0, 0), b"\0\1", id="one split twice"),
        pytest.param(u4(0, 1), u8(1, 1), u2(0, 0), b"\0\7", id="one good and one bad"),
        pytest.param(u4(0), u8(1, 1), u2(0), b"\0", id="paths too many"),
        pytest.param(u4(0), u8(1), u2(0, 0), b"\0", id="features too many"),
        pytest.param(u4(0), u8(1), u2(0), b"", id="a cut too few"),
        pytest.param(b"", u8(1), u2(0), b"\0", id="no tree"),
        pytest.param(u4(0)[:3], u8(1), u2(0), b"\0", id="a broken tree"),
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
    """CS's channel, on which one participant's replies are not what it sent."""

    federation: Federation
    tamper: Tamper
    before: tuple[Any, ...] | None = None

    def call(self, recipient: str, request: Message, reply_type: type[Reply]) -> Reply:
        reply = self.federation.network.channel(CS).call(recipient, request, reply_type)
        if recipient == PARTY and isinstance(request, LevelRequest):
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


def is_caught(tamper: Tamper, federation: Federation | None = None) -> RejectedError:
    """Train with a liar. CS stops, and keeps nothing of what it was told in that round."""
    federation = federation or set_up(CASE)
    lying = Lying(federation, tamper)
    federation.coordinator.channel = lying
    with pytest.raises(RejectedError) as caught:
        train(CASE, federation)
    assert lying.before is not None
    assert lying.stored() == lying.before
    return caught.value


def test_untouched_replies_grow_the_forest() -> None:
    federation = set_up(CASE)
    federation.coordinator.channel = Lying(federation, lambda _, reply: reply)
    assert train(CASE, federation).coordinator.digest() == train(CASE).coordinator.digest()


MALFORMED: dict[str, Callable[[LevelReply], dict[str, Any]]] = {
    "too few bins": lambda r: {"bins": r.bins[:-1]},
    "too many bins": lambda r: {"bins": r.bins + b"\0"},
    "no bins": lambda _: {"bins": b""},
    "a bin far too high": lambda r: {"bins": b"\xff" + r.bins[1:]},
    "a bin one above the number of cuts": lambda r: {"bins": bytes([r.n_cuts[0] + 1]) + r.bins[1:]},
    "one cut too many": lambda r: {"n_cuts": b"\x08" + r.n_cuts[1:]},
    "far too many cuts": lambda r: {"n_cuts": b"\xff" + r.n_cuts[1:]},
    "bins for a feature without cuts": lambda r: {"n_cuts": b"\0" + r.n_cuts[1:]},
    "a feature unanswered": lambda r: {"n_cuts": r.n_cuts[:-1]},
    "an answer to no question": lambda r: {"n_cuts": r.n_cuts + b"\0"},
    "no answers": lambda _: {"n_cuts": b"", "bins": b""},
    "another round": lambda _: {"round": 1},
    "a round far away": lambda _: {"round": 2**32 - 1},
    "ciphertexts of splits that did not win": lambda _: {"ciphertexts": bytes(96)},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_answers_are_refused(name: str) -> None:
    caught = is_caught(lambda _, reply: msgspec.structs.replace(reply, **MALFORMED[name](reply)))
    assert isinstance(caught, FormatError | ProtocolError)


def with_splits(change: Callable[[list[bytes]], list[bytes]]) -> Tamper:
    """Change the ciphertexts of the splits that won, where some did."""

    def tamper(_: LevelRequest, reply: LevelReply) -> LevelReply:
        parts = [reply.ciphertexts[at : at + 96] for at in range(0, len(reply.ciphertexts), 96)]
        return msgspec.structs.replace(reply, ciphertexts=b"".join(change(parts))) if parts else reply

    return tamper


CIPHERTEXTS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], type[RejectedError]]] = {
    "too few": (lambda parts: parts[:-1], FormatError),
    "too many": (lambda parts: [*parts, parts[0]], FormatError),
    "too short": (lambda parts: [parts[0][:-1], *parts[1:]], FormatError),
    "too long": (lambda parts: [parts[0] + b"\0", *parts[1:]], FormatError),
    "zeros": (lambda parts: [bytes(96), *parts[1:]], ElementError),
    "C and G too large": (lambda parts: [b"\xff" * 96, *parts[1:]], ElementError),
    "in another order": (lambda parts: [*parts[1:], parts[0]] if parts[1:] else [bytes(96)], RejectedError),
}


@pytest.mark.parametrize("name", CIPHERTEXTS)
def test_ciphertexts_that_nobody_made_are_refused(name: str) -> None:
    change, error = CIPHERTEXTS[name]
    assert isinstance(is_caught(with_splits(change)), error)


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
    own, other = federation.participants[PARTY], federation.participants["telco"]

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

    assert is_caught(where_splits_are(resign), federation=federation).kind == "signature"


def test_replayed_reply_of_an_older_round_is_refused() -> None:
    older: list[LevelReply] = []

    def replay(_: LevelRequest, reply: LevelReply) -> LevelReply:
        older.append(reply)
        return older[0]

    assert is_caught(replay).kind == "order"


def test_participant_that_refuses_stops_the_growth() -> None:
    federation = set_up(CASE)
    refusing = failing(ProtocolError("no more"), LevelRequest, after=1)
    federation.network.roles[PARTY] = FaultyPeer(federation.participants[PARTY], on_request=refusing)
    with refused(by=PARTY):
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
    for name, party in federation.participants.items():
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
        federation.train(codes, CASE.rules, targets_of(CASE), lambda _: None)
    assert caught.value.kind == "schema"
