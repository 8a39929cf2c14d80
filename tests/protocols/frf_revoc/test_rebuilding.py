"""Nodes are destroyed and encrypted anew for CS alone; nothing is answered until the forest is whole."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from revfrf.crypto.dtpkc.dtpkc import par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, RefusedError, RevFRFError
from revfrf.forest.nodes import Node
from revfrf.messages.base import Message
from revfrf.messages.events import EventReport
from revfrf.messages.fle_expan import LevelRequest
from revfrf.messages.frf_revoc import Destroy, Rekey, Rekeyed, RevocationLevel
from revfrf.messages.key_setup import EpochCertificate, KeyDeal
from revfrf.names import CS, KGC
from revfrf.protocols.events import salted_digest
from revfrf.testing.federations import ignore, set_up, train
from revfrf.testing.peers import FaultyPeer, changing, failing, offline, replaced
from revfrf.testing.recorders import recording
from revfrf.testing.refusals import refusal_kind
from tests.protocols.frf_revoc.leaving import (
    CASE,
    LEVELS,
    answers,
    check_same,
    destroying,
    leave,
    nodes_in,
    refused,
    rekeying,
    send,
    state,
)
from tests.quick import quick

# -- nodes destroyed and encrypted anew -------------------------------------------------------------


Naming = Callable[..., Message]


@pytest.fixture
def later() -> Federation:
    """A federation in its second epoch: before that, owners destroy nothing."""
    federation = train(CASE)
    leave(federation, ["shop"])
    return federation


@pytest.mark.parametrize("naming", [destroying, rekeying])
def test_owner_destroys_and_encrypts_only_after_somebody_has_left(
    federation: Federation, naming: Naming
) -> None:
    before = state(federation)
    nodes = list(federation.participants["telco"].store.own_splits)
    assert refused(federation, "telco", naming(federation, nodes), CS) == "order"
    assert state(federation) == before


@pytest.mark.parametrize("naming", [destroying, rekeying])
def test_nodes_that_are_not_the_owners_change_nothing(later: Federation, naming: Naming) -> None:
    before = state(later)
    own, others = (list(later.participants[name].store.own_splits) for name in ("telco", "bank"))
    leaf = next(iter(later.coordinator.store.leaves))
    wrong: dict[str, Sequence[Node]] = {
        "another's": [*own, others[0]],
        "a leaf": [leaf],
        "no tree": [(99, 1)],
        "no path": [(0, 0)],
        "none": [],
        "twice": [own[0], own[0]],
    }
    for what, nodes in wrong.items():
        if naming is destroying and what in ("another's", "a leaf"):
            send(later, "telco", naming(later, [n for n in nodes if n not in own]), CS)
        else:
            assert refused(later, "telco", naming(later, nodes), CS) == "node"
    elsewhere: list[tuple[str, str, Any]] = [
        ("length", "trees", bytes(4)),
        ("length", "paths", bytes(8)),
        ("length", "trees", bytes(3)),
        ("length", "paths", b""),
        ("epoch", "epoch", 1),
        ("epoch", "epoch", 3),
        ("forest", "forest", bytes(16)),
    ]
    for kind, field, value in elsewhere:
        assert refused(later, "telco", naming(later, own[:2], **{field: value}), CS) == kind
    assert state(later) == before


def test_destroyed_node_is_gone_however_often_it_is_destroyed(later: Federation) -> None:
    store = later.participants["telco"].store
    node, *_ = store.own_splits
    rest = {other: split for other, split in store.own_splits.items() if other != node}
    for _ in range(2):
        send(later, "telco", destroying(later, [node]), CS)
        assert store.own_splits == rest
    assert refused(later, "telco", rekeying(later, [node]), CS) == "node"


@pytest.mark.parametrize("level", LEVELS)
def test_replayed_destruction_takes_nothing_that_has_grown_since(
    federation: Federation, level: RevocationLevel
) -> None:
    with recording(federation.network) as sent:
        leave(federation, ["bank"], level)
    messages = [(each.recipient, each.message) for each in sent]
    said = [(name, message) for name, message in messages if isinstance(message, Destroy)]
    before = state(federation)
    grown = {name: federation.participants[name].store.own_splits.keys() for name, _ in said}
    assert grown.keys() == {"telco", "shop"}
    assert any(grown[name] & set(nodes_in(message)) for name, message in said)
    for name, message in said:
        assert refused(federation, name, message, CS) == "order"
    assert state(federation) == before
    check_same(federation, CASE.without("bank"), ask=True)


def test_splits_encrypted_anew_are_the_same_cuts_in_other_ciphertexts(later: Federation) -> None:
    owner = later.participants["telco"]
    nodes = list(owner.store.own_splits)
    blobs = [send(later, "telco", rekeying(later, nodes), CS, Rekeyed).ciphertexts for _ in range(2)]
    assert blobs[0] != blobs[1]
    p, width = later.parameters, later.parameters.ciphertext_bytes
    for blob in blobs:
        found = [Ciphertext.from_bytes(p, blob[at : at + width]) for at in range(0, len(blob), width)]
        opened = par_h_dec2(owner.identity.weak, found, n_jobs=1)
        assert opened == [owner.store.own_splits[node][1] for node in nodes]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"signature": bytes(64)}, "signature"),
        ({"ciphertexts": lambda reply: reply.ciphertexts[:-1]}, "length"),
        ({"ciphertexts": b""}, "length"),
        ({"ciphertexts": lambda reply: reply.ciphertexts[96:] + reply.ciphertexts[:96]}, "signature"),
        ({"ciphertexts": lambda reply: bytes(len(reply.ciphertexts))}, "out-of-range"),
    ],
    ids=["unsigned", "shorter", "none", "in another order", "no ciphertexts"],
)
def test_coordinator_takes_no_splits_that_their_owner_has_not_signed(
    federation: Federation, fields: dict[str, Any], kind: str
) -> None:
    liar = FaultyPeer(federation.participants["telco"], on_reply=changing(Rekeyed, **fields))
    with replaced(federation.network, "telco", liar):
        assert refusal_kind(lambda: leave(federation, ["shop"], 2)) == kind
    assert not federation.coordinator.ready


# -- nothing is answered in between -----------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_no_request_is_answered_until_the_forest_is_whole(
    federation: Federation, level: RevocationLevel
) -> None:
    left = CASE.without("bank")
    rows = {party: table[:, :2] for party, table in left.codes.items()}
    attempts, admitted = 0, federation.enrol_requester("clinic")

    def attempt(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        with pytest.raises(RevFRFError):
            answers(federation, rows)
        with pytest.raises(RevFRFError):
            admitted.ask(rows, "hard")
        assert not federation.coordinator.ready

    def attempt_first(_: str, message: Message) -> Message:
        if isinstance(message, Rekey | Destroy | EventReport):
            attempt()
        return message

    for name in (KGC, *left.codes):
        honest = federation.network.roles[name]
        federation.network.roles[name] = FaultyPeer(honest, on_request=attempt_first)
    federation.revoke(["bank"], level, attempt)
    assert attempts > 4
    check_same(federation, left, ask=True)


def test_coordinator_rebuilds_only_after_somebody_has_left(federation: Federation) -> None:
    assert refusal_kind(lambda: federation.coordinator.revoke(ignore)) == "order"


@pytest.mark.parametrize("answered", [False, True], ids=["unheard", "heard"])
@pytest.mark.parametrize("level", quick(LEVELS, [2]))
@pytest.mark.parametrize("lost", [KeyDeal, EpochCertificate, Destroy, LevelRequest, Rekey, EventReport])
def test_interrupted_revocation_goes_on_where_it_stopped(
    federation: Federation, lost: type[Message], level: RevocationLevel, answered: bool
) -> None:
    """Whether the message was lost or its answer: no certificate with holes, and in the end all is well."""
    if level == 1 and lost in (KeyDeal, Rekey):
        pytest.skip("no such message at level 1")
    name = KGC if lost is EventReport else "telco"
    there, lose = federation.network.roles[name], failing(AbsentError("somebody", "is gone"), lost)

    def lose_reply(request: Message, reply: Message) -> Message:
        lose("", request)
        return reply

    faulty = FaultyPeer(there, on_reply=lose_reply) if answered else FaultyPeer(there, on_request=lose)
    with replaced(federation.network, name, faulty), pytest.raises(RefusedError):
        leave(federation, ["bank"], level)
    begun = federation.kgc.current.epoch == 2
    assert begun == (lost is not KeyDeal)
    assert federation.leaving
    assert federation.coordinator.ready != begun
    if not begun:
        check_same(federation, CASE, ask=True)
    federation.resume(ignore)
    assert not federation.leaving
    _, certificate = federation.coordinator.certificates
    certificate.verify(federation.coordinator.identity.kgc)
    cs = federation.coordinator
    assert certificate.digest_after == salted_digest(cs.record.salt, cs.digest())
    check_same(federation, CASE.without("bank"), ask=True)


def as_often_as(times: Iterator[int], action: Callable[..., None]) -> Callable[..., None]:
    """Raises StopIteration after so many times."""

    def limited(*arguments: object) -> None:
        next(times)
        action(*arguments)

    return limited


@pytest.mark.parametrize(("leaver", "level"), quick([("bank", 1), ("bank", 2), ("telco", 1)], [("bank", 2)]))
def test_leaving_while_the_forest_still_grows_gives_the_forest_without_the_leaver(
    leaver: str, level: RevocationLevel
) -> None:
    """CS ends before it has written down a level that the participants have answered, whichever it is."""
    for kept in count():
        federation = set_up(CASE)
        store, commits = federation.coordinator.store, iter(range(kept))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "commit", as_often_as(commits, store.commit))
            with suppress(StopIteration):
                train(CASE, federation)
                break
        unfinished = store.n_nodes
        report = leave(federation, [leaver], level).core.report
        assert report.destroyed + report.kept == unfinished
        assert report.rebuilt + report.kept == store.n_nodes
        check_same(federation, CASE.without(leaver), ask=True)
    assert kept > CASE.rules.max_depth


@pytest.mark.parametrize("level", LEVELS)
def test_coordinator_that_is_absent_keeps_nobody_from_asking_to_leave(
    federation: Federation, level: RevocationLevel
) -> None:
    with offline(federation.network, CS), pytest.raises(AbsentError):
        leave(federation, ["bank"], level)
    assert "bank" in {*federation.kgc.state.leaving, *federation.kgc.current.revoked}
    federation.resume(ignore)
    check_same(federation, CASE.without("bank"), ask=True)
