"""Leaving a small federation: what parties say then, and what has to hold when they have left."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.embedded.federation import Federation
from revfrf.estimators._restore import check_federation
from revfrf.forest.nodes import Node
from revfrf.forest.voting import Votes
from revfrf.messages.base import PATHS, TREES, Done, Message, array
from revfrf.messages.frf_revoc import Destroy, Rekey, RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.protocols.certificate import EventCertificate
from revfrf.testing.federations import Case, Codes, ignore, random_case, train
from revfrf.testing.refusals import refusal_kind
from tests.federations import counted, grown_splits, in_numbers, leaf_paths

CASE = random_case(61)
LEVELS: tuple[RevocationLevel, ...] = (1, 2)
changed = msgspec.structs.replace


def without(case: Case, leavers: Sequence[str]) -> Case:
    for party in leavers:
        case = case.without(party)
    return case


def begin_epoch(federation: Federation, setup: SetUp | None = None) -> EpochCertificate:
    """KGC begins the epoch without those who have asked to leave, and all members enter it."""
    certificate = federation.kgc.begin_epoch(setup)
    federation.kgc.announce()
    return certificate


def leave(federation: Federation, leavers: Sequence[str], level: RevocationLevel = 1) -> EventCertificate:
    return federation.revoke(leavers, level, ignore)


def answers(federation: Federation, codes: Codes, voting: Any = "soft") -> Votes:
    return federation.ask(codes, None, voting, False, lambda _: None).votes


# -- the forest of those who stay -------------------------------------------------------------------


def check_same(federation: Federation, case: Case, *, ask: bool = False) -> None:
    """The forest is the one of this case: structure, cuts, where rows end, votes."""
    fresh = train(case)
    assert federation.coordinator.digest() == fresh.coordinator.digest()
    check_federation(federation, training_rows=True)
    assert grown_splits(federation) == grown_splits(fresh)
    np.testing.assert_array_equal(leaf_paths(federation), leaf_paths(fresh))
    for voting in ("hard", "soft"):
        votes = federation.votes(case.codes, case.n_rows, voting)
        assert in_numbers(votes) == in_numbers(fresh.votes(case.codes, case.n_rows, voting))
    check_rows_are_in_their_leaves(federation, case)
    if ask:
        some = {party: table[:, :6] for party, table in case.codes.items()}
        assert in_numbers(answers(federation, some)) == in_numbers(federation.votes(some, 6, "soft"))


def check_rows_are_in_their_leaves(federation: Federation, case: Case) -> None:
    """By the owners' own cuts."""
    splits, store = grown_splits(federation), federation.coordinator.store
    ends, counts = leaf_paths(federation), counted(federation).counts
    for tree, row in np.ndindex(*ends.shape):
        if not counts[tree, row]:
            assert ends[tree, row] == 0
            continue
        path = 1
        while (tree, path) in splits:
            owner, column = splits[tree, path].feature.rsplit("/x", 1)
            path = 2 * path + int(case.codes[owner][int(column)][row] > splits[tree, path].threshold)
        assert ends[tree, row] == path
        assert (tree, path) in store.leaves


# -- messages ---------------------------------------------------------------------------------------


def send(
    federation: Federation, recipient: str, message: Message, sender: str, reply: type[Any] = Done
) -> Any:
    return federation.network.channel(sender).call(recipient, message, reply)


def refused(federation: Federation, recipient: str, message: Message, sender: str) -> str:
    """The kind of the refusal of this message."""
    return refusal_kind(lambda: send(federation, recipient, message, sender, Message))


def request_of(federation: Federation, party: str = "bank", level: RevocationLevel = 1) -> RevocationRequest:
    return federation.participants[party].leave(level)


def nodes_in_bytes(nodes: Sequence[Node]) -> dict[str, bytes]:
    trees, paths = [tree for tree, _ in nodes], [path for _, path in nodes]
    return {"trees": np.array(trees, TREES).tobytes(), "paths": np.array(paths, PATHS).tobytes()}


def nodes_in(message: Destroy | Rekey) -> list[Node]:
    trees, paths = array(message.trees, TREES), array(message.paths, PATHS)
    return list(zip(trees.tolist(), paths.tolist(), strict=True))


NO_NODES = Destroy(epoch=0, forest=bytes(16), round=0, trees=b"", paths=b"")
NO_SPLITS = Rekey(epoch=0, forest=bytes(16), trees=b"", paths=b"")


def destroying(federation: Federation, nodes: Sequence[Node], **fields: Any) -> Destroy:
    plan, store = federation.coordinator.plan, federation.coordinator.store
    known = {"epoch": plan.epoch, "forest": plan.forest, "round": store.round}
    return changed(NO_NODES, **(known | nodes_in_bytes(nodes) | fields))


def rekeying(federation: Federation, nodes: Sequence[Node], **fields: Any) -> Rekey:
    plan = federation.coordinator.plan
    return changed(
        NO_SPLITS, **({"epoch": plan.epoch, "forest": plan.forest} | nodes_in_bytes(nodes) | fields)
    )


def state(federation: Federation) -> Any:
    """What a refused message must not change."""
    roles = federation.with_policies
    owners = federation.participants.items()
    return (
        federation.coordinator.digest(),
        {name: dict(owner.store.own_splits) for name, owner in owners},
        {
            name: (role.identity.certificate, role.identity.keys, role.identity.pending_keys)
            for name, role in roles.items()
        },
        {name: (dict(role.book.known), dict(role.book.rows)) for name, role in roles.items()},
        dict(federation.kgc.state.leaving),
        len(federation.kgc.state.certificates),
    )
