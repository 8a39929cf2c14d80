"""Nodes are destroyed and encrypted anew for CS alone; nothing is answered until the forest is whole."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from revfrf.crypto.dtpkc.dtpkc import par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.embedded.federation import Federation
from revfrf.errors import AbsentError, RefusedError, RejectedError, RevFRFError
from revfrf.forest.nodes import Node
from revfrf.messages.base import Message
from revfrf.messages.fle_expan import LevelRequest
from revfrf.messages.frf_revoc import Destroy, Rekey, Rekeyed, RevocationLevel, RevocationReport
from revfrf.messages.key_setup import EpochCertificate, KeyDeal
from revfrf.names import CC, CS, KGC
from revfrf.testing.federations import ignore, set_up, train
from revfrf.testing.peers import FaultyPeer, failing, replaced
from revfrf.testing.refusals import refusal_kind
from tests.federations import digest_of
from tests.protocols.frf_revoc.leaving import (
    CASE,
    LEVELS,
    answers,
    begin_epoch,
    changed,
    check_same,
    destroying,
    leave,
    nodes_in,
    refused,
    rekeying,
    request_of,
    send,
    state,
)

# -- nodes destroyed and encrypted anew -------------------------------------------------------------


Naming = Callable[..., Message]


@pytest.fixture
def later() -> Federation:
    """A federation in its second epoch: before that, owners destroy nothing."""
    federation = train(CASE)
    leave(federation, ["shop"])
    return federation


@pytest.mark.parametrize("naming", [destroying, rekeying])
def test_nothing_is_destroyed_or_encrypted_anew_before_somebody_has_left(
    federation: Federation, naming: Naming
) -> None:
    before = state(federation)
    nodes = list(federation.participants["telco"].store.own_splits)
    assert refused(federation, "telco", naming(federation, nodes), CS) == "order"
    assert state(federation) == before


@pytest.mark.parametrize("naming", [destroying, rekeying])
@pytest.mark.parametrize("sender", [KGC, CC, "bank", "telco", "shop", "mallory"])
def test_owner_destroys_and_encrypts_for_the_coordinator_alone(
    federation: Federation, naming: Naming, sender: str
) -> None:
    before = state(federation)
    nodes = list(federation.participants["telco"].store.own_splits)
    call = lambda: send(federation, "telco", naming(federation, nodes), sender, Message)  # noqa: E731
    assert refusal_kind(call) == "sender"
    assert state(federation) == before


@pytest.mark.parametrize("naming", [destroying, rekeying])
def test_nodes_that_are_not_the_owners_change_nothing(later: Federation, naming: Naming) -> None:
    federation = later
    before = state(federation)
    own = list(federation.participants["telco"].store.own_splits)
    others = list(federation.participants["bank"].store.own_splits)
    leaf = next(iter(federation.coordinator.store.leaves))
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
            send(federation, "telco", naming(federation, [n for n in nodes if n not in own]), CS)
        else:
            assert refused(federation, "telco", naming(federation, nodes), CS) == "node"
    lengths: tuple[dict[str, Any], ...] = (
        {"trees": bytes(4)},
        {"paths": bytes(8)},
        {"trees": bytes(3)},
        {"paths": b""},
    )
    for fields in lengths:
        message = naming(federation, own[:2], **fields)
        assert refused(federation, "telco", message, CS) == "length"
    elsewhere: tuple[tuple[dict[str, Any], str], ...] = (
        ({"epoch": 1}, "epoch"),
        ({"epoch": 3}, "epoch"),
        ({"forest": bytes(16)}, "forest"),
    )
    for fields, kind in elsewhere:
        message = naming(federation, own, **fields)
        assert refused(federation, "telco", message, CS) == kind
    assert state(federation) == before


def test_destroyed_node_is_gone_however_often_it_is_destroyed(later: Federation) -> None:
    federation = later
    owner = federation.participants["telco"]
    node = next(iter(owner.store.own_splits))
    rest = dict(owner.store.own_splits)
    del rest[node]
    for _ in range(2):
        send(federation, "telco", destroying(federation, [node]), CS)
        assert owner.store.own_splits == rest
    assert refused(federation, "telco", rekeying(federation, [node]), CS) == "node"


@pytest.mark.parametrize("level", LEVELS)
def test_replayed_destruction_takes_nothing_that_has_grown_since(
    federation: Federation, level: RevocationLevel
) -> None:
    said: list[tuple[str, Destroy]] = []
    for name in ("telco", "shop"):

        def listen(_: str, message: Message, name: str = name) -> Message:
            if isinstance(message, Destroy):
                said.append((name, message))
            return message

        federation.network.roles[name] = FaultyPeer(federation.participants[name], on_request=listen)
    leave(federation, ["bank"], level)
    before = state(federation)
    grown = {name: federation.participants[name].store.own_splits.keys() for name, _ in said}
    assert grown.keys() == {"telco", "shop"}
    assert any(grown[name] & set(nodes_in(message)) for name, message in said)
    for name, message in tuple(said):
        assert refused(federation, name, message, CS) == "order"
    assert state(federation) == before
    check_same(federation, CASE.without("bank"), ask=True)


def test_splits_encrypted_anew_are_the_same_cuts_in_other_ciphertexts(later: Federation) -> None:
    federation = later
    owner = federation.participants["telco"]
    nodes = list(owner.store.own_splits)
    replies = [send(federation, "telco", rekeying(federation, nodes), CS, Rekeyed) for _ in range(2)]
    assert replies[0].ciphertexts != replies[1].ciphertexts
    p, width = federation.parameters, federation.parameters.ciphertext_bytes
    for blob in (reply.ciphertexts for reply in replies):
        found = [Ciphertext.from_bytes(p, blob[at : at + width]) for at in range(0, len(blob), width)]
        opened = par_h_dec2(owner.identity.weak, found, n_jobs=1)
        assert opened == [owner.store.own_splits[node][1] for node in nodes]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (lambda _: {"signature": bytes(64)}, "signature"),
        (lambda r: {"ciphertexts": r.ciphertexts[:-1]}, "length"),
        (lambda _: {"ciphertexts": b""}, "length"),
        (lambda r: {"ciphertexts": r.ciphertexts[96:] + r.ciphertexts[:96]}, "signature"),
        (lambda r: {"ciphertexts": bytes(len(r.ciphertexts))}, "out-of-range"),
    ],
    ids=["unsigned", "shorter", "none", "in another order", "no ciphertexts"],
)
def test_coordinator_takes_no_splits_that_their_owner_has_not_signed(
    federation: Federation, fields: Callable[[Rekeyed], dict[str, Any]], kind: str
) -> None:
    def lie(_: Message, reply: Message) -> Message:
        return changed(reply, **fields(reply)) if isinstance(reply, Rekeyed) else reply

    federation.network.roles["telco"] = FaultyPeer(federation.participants["telco"], on_reply=lie)
    with pytest.raises(RejectedError) as caught:
        leave(federation, ["shop"], 2)
    assert caught.value.kind == kind
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
        if isinstance(message, Rekey | Destroy | RevocationReport):
            attempt()
        return message

    for name in (KGC, *left.codes):
        honest = federation.network.roles[name]
        federation.network.roles[name] = FaultyPeer(honest, on_request=attempt_first)
    federation.revoke(["bank"], level, (), attempt)
    assert attempts > 4
    check_same(federation, left, ask=True)


def test_request_between_the_new_epoch_and_the_rebuilding_is_refused(federation: Federation) -> None:
    send(federation, KGC, request_of(federation), "bank")
    begin_epoch(federation)
    assert not federation.coordinator.ready
    for rows in (CASE.codes, CASE.without("bank").codes):
        with pytest.raises(RevFRFError):
            answers(federation, {party: table[:, :2] for party, table in rows.items()})


def test_coordinator_rebuilds_only_after_somebody_has_left(federation: Federation) -> None:
    with pytest.raises(RejectedError) as caught:
        federation.coordinator.revoke((), ignore)
    assert caught.value.kind == "order"


@pytest.mark.parametrize("answered", [False, True], ids=["unheard", "heard"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lost", [KeyDeal, EpochCertificate, Destroy, LevelRequest, Rekey, RevocationReport])
def test_interrupted_revocation_goes_on_where_it_stopped(
    federation: Federation, lost: type[Message], level: RevocationLevel, answered: bool
) -> None:
    """Whether the message was lost or its answer: no certificate with holes, and in the end all is well."""
    if level == 1 and lost in (KeyDeal, Rekey):
        pytest.skip("no such message at level 1")
    name = KGC if lost is RevocationReport else "telco"
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
    federation.resume((), ignore)
    assert not federation.leaving
    [certificate] = federation.coordinator.certificates
    certificate.verify(federation.coordinator.identity.kgc)
    assert certificate.report.digest_after == digest_of(federation)
    check_same(federation, CASE.without("bank"), ask=True)


def as_often_as(times: Iterator[int], action: Callable[..., None]) -> Callable[..., None]:
    """Raises StopIteration after so many times."""

    def limited(*arguments: object) -> None:
        next(times)
        action(*arguments)

    return limited


@pytest.mark.parametrize(("leaver", "level"), [("bank", 1), ("bank", 2), ("telco", 1)])
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
        report = leave(federation, [leaver], level).report
        assert report.destroyed + report.kept == unfinished
        assert report.rebuilt + report.kept == store.n_nodes
        check_same(federation, CASE.without(leaver), ask=True)
    assert kept > CASE.rules.max_depth


@pytest.mark.parametrize("level", LEVELS)
def test_coordinator_that_is_absent_keeps_nobody_from_asking_to_leave(
    federation: Federation, level: RevocationLevel
) -> None:
    cs = federation.network.roles.pop(CS)
    with pytest.raises(AbsentError):
        leave(federation, ["bank"], level)
    assert "bank" in {*federation.kgc.state.leaving, *federation.kgc.current.revoked}
    federation.network.roles[CS] = cs
    federation.resume((), ignore)
    check_same(federation, CASE.without("bank"), ask=True)
