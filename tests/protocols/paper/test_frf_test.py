"""FRF-Test with a lying CS or a lying owner."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf.crypto.encoding import missing
from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError
from revfrf.forest.nodes import Node, Nodes
from revfrf.messages import frf_test as messages
from revfrf.messages.alignment import Drop
from revfrf.messages.base import Message
from revfrf.names import CC, CS, KGC
from revfrf.protocols.paper import frf_test
from revfrf.protocols.paper.fle_expan import write_nodes
from revfrf.testing.federations import Codes, random_case, set_up, train, with_rules
from revfrf.testing.peers import LyingChannel, changing
from revfrf.testing.refusals import refusal_kind, refused
from tests.federations import in_numbers

MISSING = missing(64)

CASE = random_case(21, rules=with_rules(candidate_limit=2**64 - 1))


@pytest.fixture(scope="module")
def federation() -> Federation:
    return train(CASE)


@pytest.fixture
def owner(federation: Federation) -> str:
    """Whoever owns the root of tree 0."""
    return federation.coordinator.store.splits[0, 1].owner


def request(federation: Federation, nodes: list[Node], **changes: Any) -> messages.TestRequest:
    rows = [np.array([0, 3, 9], np.uint32)] * len(nodes)
    message = messages.TestRequest(
        epoch=1,
        forest=federation.coordinator.plan.forest,
        table="training",
        nodes=write_nodes(Nodes.of([tree for tree, _ in nodes], [path for _, path in nodes], rows)),
    )
    return msgspec.structs.replace(message, **changes)


def ask(federation: Federation, owner: str, message: Message, sender: str = CS) -> bytes:
    return federation.network.channel(sender).call(owner, message, messages.TestReply).bits


def refusal(federation: Federation, owner: str, message: Message, sender: str = CS) -> str:
    """The kind of the owner's refusal, which changes nothing."""
    store = federation.participants[owner].store
    return refusal_kind(
        lambda: ask(federation, owner, message, sender), by=owner, unchanged=lambda: dict(store.own_splits)
    )


# -- a lying CS -------------------------------------------------------------------------------------


def test_owner_answers_with_a_bit_a_row(federation: Federation, owner: str) -> None:
    column, cut = federation.participants[owner].store.own_splits[0, 1]
    codes = CASE.codes[owner][column]
    (byte,) = ask(federation, owner, request(federation, [(0, 1)]))
    assert byte >> 5 == sum(int(codes[row] > cut) << place for place, row in ((2, 0), (1, 3), (0, 9)))
    assert byte % 32 == 0


def test_unknown_node_is_refused(federation: Federation, owner: str) -> None:
    leaf = next(iter(federation.coordinator.store.leaves))
    for node in (leaf, (0, 2**62), (99, 1), (0, 0)):
        assert refusal(federation, owner, request(federation, [node])) == "node"


def test_node_of_another_owner_is_refused(federation: Federation) -> None:
    for node, split in federation.coordinator.store.splits.items():
        for other in federation.participants:
            if other != split.owner:
                assert refusal(federation, other, request(federation, [node])) == "node"


def test_one_foreign_node_spoils_the_request(federation: Federation, owner: str) -> None:
    splits = federation.coordinator.store.splits
    foreign = next(node for node, split in splits.items() if split.owner != owner)
    assert refusal(federation, owner, request(federation, [(0, 1), foreign])) == "node"


def test_node_twice_is_refused(federation: Federation, owner: str) -> None:
    assert refusal(federation, owner, request(federation, [(0, 1), (0, 1)])) == "node"


@pytest.mark.parametrize("table", ["test", "Training", "../training"])
def test_unknown_table_is_refused(federation: Federation, owner: str, table: str) -> None:
    assert refusal(federation, owner, request(federation, [(0, 1)], table=table)) == "forest"


def test_rows_outside_the_table_are_refused(federation: Federation, owner: str) -> None:
    """Fewer rows than were trained on: what counts is the table asked about."""
    party = federation.participants[owner]
    party.hold("small", CASE.codes[owner][:, :9])
    assert refusal(federation, owner, request(federation, [(0, 1)], table="small")) == "malformed"
    party.hold("small", CASE.codes[owner][:, :10])
    assert ask(federation, owner, request(federation, [(0, 1)], table="small"))
    party.drop("small")


def test_another_epoch_or_forest_is_refused(federation: Federation, owner: str) -> None:
    assert refusal(federation, owner, request(federation, [(0, 1)], epoch=2)) == "epoch"
    assert refusal(federation, owner, request(federation, [(0, 1)], forest=bytes(16))) == "forest"


@pytest.mark.parametrize("sender", [CC, KGC, "shop", "nobody"])
def test_question_of_anybody_but_the_coordinator_is_refused(
    federation: Federation, owner: str, sender: str
) -> None:
    assert refusal(federation, owner, request(federation, [(0, 1)]), sender) == "sender"


def test_question_before_there_is_a_forest_is_refused(federation: Federation) -> None:
    fresh = set_up(CASE)
    assert refusal(fresh, "bank", request(federation, [(0, 1)])) == "forest"


# -- a lying owner ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bits", [lambda reply: reply.bits[:-1], lambda reply: reply.bits + b"\0"], ids=["too few", "too many"]
)
def test_wrong_number_of_bits_is_refused(bits: Callable[[messages.TestReply], bytes]) -> None:
    federation = train(CASE)
    lie = changing(messages.TestReply, bits=bits)
    federation.coordinator.channel = LyingChannel(federation.coordinator.channel, on_reply=lie)
    with refused("length"):
        federation.votes(CASE.codes, CASE.n_rows, "hard")
    assert all(set(p.tables) == {"training"} for p in federation.participants.values())


# -- honest runs ------------------------------------------------------------------------------------


def test_every_row_gets_one_vote_of_every_tree(federation: Federation) -> None:
    votes = federation.votes(CASE.codes, CASE.n_rows, "hard")
    assert votes.totals.sum(axis=1).tolist() == votes.n_voted.tolist() == [CASE.rules.n_trees] * CASE.n_rows


def test_table_is_forgotten_after_the_test(federation: Federation) -> None:
    federation.votes(CASE.codes, CASE.n_rows, "soft")
    assert all(set(p.tables) == {"training"} for p in federation.participants.values())


@pytest.mark.parametrize(("epoch", "known"), [(0, True), (1, False), (2, True)])
def test_table_is_forgotten_in_this_epoch_alone(federation: Federation, epoch: int, known: bool) -> None:
    shop, drop = federation.participants["shop"], Drop(epoch=epoch, table="some")
    shop.hold("some", CASE.codes["shop"])
    with pytest.raises(ProtocolError, match="epoch") if known else nullcontext():
        shop.handle(CS, drop)
    assert ("some" in shop.tables) == known
    shop.drop("some")


@pytest.mark.parametrize("at_once", [1, 40, 100, 2**24])
def test_votes_do_not_depend_on_how_many_rows_walk_together(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    whole = federation.votes(CASE.codes, CASE.n_rows, "hard")
    monkeypatch.setattr(frf_test, "_AT_ONCE", at_once)
    assert in_numbers(federation.votes(CASE.codes, CASE.n_rows, "hard")) == in_numbers(whole)


def test_no_rows_get_no_votes(federation: Federation) -> None:
    nothing: Codes = {party: table[:, :0] for party, table in CASE.codes.items()}
    assert federation.votes(nothing, 0, "hard").totals.shape == (0, 3)


def test_row_of_missing_values_always_goes_left(federation: Federation) -> None:
    missing: Codes = {party: np.full((len(table), 1), MISSING) for party, table in CASE.codes.items()}
    votes = federation.votes(missing, 1, "hard").totals[0]
    store, expected = federation.coordinator.store, np.zeros(3, np.int64)
    for tree in range(CASE.rules.n_trees):
        path = 1
        while (tree, path) in store.splits:
            path *= 2
        expected[int(np.argmax(store.leaves[tree, path]))] += 1
    assert votes.tolist() == expected.tolist()
