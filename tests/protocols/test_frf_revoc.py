"""FRF-Revoc: the forest without the leaver, bit for bit; what is gone; and who tries to cheat."""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from revfrf import federation as federation_module
from revfrf.certificate import RevocationCertificate
from revfrf.crypto.dtpkc import h_enc_ref, ho_enc, par_h_dec2
from revfrf.crypto.encoding import MISSING
from revfrf.crypto.keys import Ciphertext, WeakKey
from revfrf.crypto.packing import Comparison, mask_comparisons, read_slots, undo_coins
from revfrf.crypto.secret import SecretInt
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import StrongShare, strong_half, strong_open
from revfrf.crypto.strong import set_up as new_set_up
from revfrf.errors import (
    AbsentError,
    ProtocolError,
    RefusedError,
    RejectedError,
    RevFRFError,
    UsageError,
)
from revfrf.federation import Federation
from revfrf.forest.nodes import Node
from revfrf.forest.randomness import candidate_limit
from revfrf.messages import testing
from revfrf.messages.base import PATHS, TREES, Done, Message, number, of_number
from revfrf.messages.enrolment import Admission, Dealt, Enrolment, EpochCertificate
from revfrf.messages.prediction import MaskedComparisons, PredictReply, PredictRequest, ShareRequest
from revfrf.messages.revocation import (
    Certified,
    Destroy,
    Level,
    Rekey,
    Rekeyed,
    Report,
    RevocationReport,
    RevocationRequest,
)
from revfrf.messages.training import LevelRequest, OpenForest
from revfrf.model_check import check_federation
from revfrf.moduli import new_keys_like
from revfrf.names import CC, CS, KGC, REQUESTER
from revfrf.protocols.epoch import certificate_digest, erased_keys
from revfrf.protocols.frf_revoc import Doomed, doomed, sign_report, sign_revocation
from revfrf.protocols.identity import Identity
from revfrf.protocols.request import sign_request
from revfrf.roles import coordinator as coordinator_module
from revfrf.roles.requester import Requester
from revfrf.storage.memory import StoredSplit
from revfrf.transport.base import Answering
from revfrf.transport.memory import MemoryChannel
from tests.federations import (
    Case,
    Codes,
    digest_of,
    grown_splits,
    ignore,
    leaf_paths,
    moduli,
    no_search_for_primes,
    participants,
    random_case,
    set_up,
    train,
    with_rules,
)

CASE = random_case(61)
LEVELS: tuple[Level, ...] = (1, 2)
NO_DIGEST = "0" * 64
changed = msgspec.structs.replace
SEARCHED = new_keys_like


@pytest.fixture(scope="module", autouse=True)
def _prepared_moduli() -> Iterator[None]:
    with no_search_for_primes():
        yield


def without(case: Case, leavers: Sequence[str]) -> Case:
    for party in leavers:
        case = case.without(party)
    return case


def leave(federation: Federation, leavers: Sequence[str], level: Level = 1) -> RevocationCertificate:
    return federation.revoke(leavers, level, (), ignore)


def answers(federation: Federation, codes: Codes, voting: Any = "soft") -> NDArray[np.float64]:
    return federation.ask(codes, None, voting, False, lambda _: None).votes


def check_same(federation: Federation, case: Case, *, ask: bool = False) -> None:
    """The forest is the one of this case: structure, cuts, where rows end, votes."""
    fresh = train(case)
    assert digest_of(federation) == digest_of(fresh)
    check_federation(federation, case.n_classes or 2)
    assert grown_splits(federation) == grown_splits(fresh)
    np.testing.assert_array_equal(leaf_paths(federation), leaf_paths(fresh))
    for voting in ("hard", "soft"):
        votes = federation.votes(case.codes, case.n_rows, voting)
        assert votes.tobytes() == fresh.votes(case.codes, case.n_rows, voting).tobytes()
    check_rows_are_in_their_leaves(federation, case)
    if ask:
        some = {party: table[:, :6] for party, table in case.codes.items()}
        assert answers(federation, some).tobytes() == federation.votes(some, 6, "soft").tobytes()


def check_rows_are_in_their_leaves(federation: Federation, case: Case) -> None:
    """By the owners' own cuts."""
    splits, store, targets = (
        grown_splits(federation),
        federation.coordinator.store,
        federation.coordinator.targets,
    )
    ends = leaf_paths(federation)
    for tree, row in np.ndindex(*ends.shape):
        if not targets.repeats[tree, row] * targets.weights[row]:
            assert ends[tree, row] == 0
            continue
        path = 1
        while (tree, path) in splits:
            owner, column = splits[tree, path].feature.rsplit("/x", 1)
            path = 2 * path + int(case.codes[owner][int(column)][row] > splits[tree, path].threshold)
        assert ends[tree, row] == path
        assert (tree, path) in store.leaves


# -- the forest without the leaver ------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Forests of all kinds, with ties, missing values, rows without weight, and columns of one value."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    n_rows, spread = draw(st.integers(4, 40)), draw(st.sampled_from([1, 2, 5, 10**6]))
    missing = draw(st.sampled_from([0.0, 0.3]))
    names = rng.sample(["bank", "telco", "shop", "Ämter", "a b"], draw(st.integers(2, 5)))
    codes = {}
    for name in names:
        columns = []
        for _ in range(rng.randint(1, 3)):
            width = rng.choice([0, spread])
            column = [rng.randint(-width, width) for _ in range(n_rows)]
            columns.append([MISSING if rng.random() < missing else x for x in column])
        codes[name] = np.array(columns, dtype=np.int64)
    n_classes = draw(st.sampled_from([0, 2, 3]))
    y = [rng.gauss(0, 9) if not n_classes else float(rng.randrange(n_classes)) for _ in range(n_rows)]
    weights: list[float] | None = None
    if draw(st.booleans()):
        weights = [rng.choice([0.0, 1.0, 2.0, 0.37]) for _ in range(n_rows - 1)] + [1.0]
    rules = with_rules(
        n_trees=draw(st.integers(1, 4)),
        max_depth=draw(st.integers(1, 6)),
        candidate_limit=candidate_limit(draw(st.sampled_from([1e-9, 0.2, 0.6, 1.0]))),
        min_samples_split=draw(st.sampled_from([2, 7])),
        min_samples_leaf=draw(st.sampled_from([1, 2, max(1, n_rows // 3), n_rows])),
        bootstrap=draw(st.booleans()),
        method=draw(st.sampled_from(["quantile", "uniform"])),
        n_candidates=draw(st.sampled_from([1, 3, 9])),
        n_sampled=draw(st.sampled_from([2, 8, 64])),
    )
    return Case(codes, y, n_classes, rules, weights, seed=rng.randbytes(8))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.data())
def test_whoever_leaves_in_whatever_order_the_forest_is_the_one_without_them(
    case: Case, data: st.DataObject
) -> None:
    """Groups of leavers, one after the other, at any level, until one participant is left."""
    federation, order = train(case), data.draw(st.permutations(sorted(case.codes)))
    while len(order) > 1:
        group = order[: data.draw(st.integers(1, len(order) - 1))]
        before = federation.coordinator.digest(())
        level = data.draw(st.sampled_from(LEVELS))
        certificate = leave(federation, group, level)
        case, order = without(case, group), order[len(group) :]
        check_same(federation, case)
        certificate.verify(federation.coordinator.identity.kgc)
        report = certificate.report
        assert (report.digest_before, report.digest_after) == (before, digest_of(federation))
        store = federation.coordinator.store
        assert report.kept + report.rebuilt == len(store.splits) + len(store.leaves)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("leaver", CASE.codes)
@pytest.mark.parametrize("n_classes", [0, 3])
def test_encrypted_answers_are_those_of_the_forest_without_the_leaver(
    leaver: str, level: Level, n_classes: int
) -> None:
    case = replace(CASE, n_classes=n_classes)
    federation, left = train(case), case.without(leaver)
    leave(federation, [leaver], level)
    check_same(federation, left, ask=True)
    some = {party: table[:, :6] for party, table in left.codes.items()}
    assert answers(federation, some).tobytes() == answers(train(left), some).tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_owner_consents_although_its_nodes_have_moved_to_other_levels(level: Level) -> None:
    """It was asked before, and has as many nodes as then."""
    case = replace(CASE, n_classes=0)
    federation, left = train(case), case.without("bank")
    answers(federation, {party: table[:, :2] for party, table in case.codes.items()})
    store = federation.participants["shop"].store
    before = len(store.cuts)
    leave(federation, ["bank"], level)
    assert len(store.cuts) == before
    check_same(federation, left, ask=True)


@pytest.mark.parametrize("level", LEVELS)
def test_several_who_leave_together_leave_what_they_leave_one_after_the_other(level: Level) -> None:
    wide = random_case(62)
    codes = wide.codes | {f"{name} 2": -table for name, table in wide.codes.items()}
    case = replace(wide, codes=codes)
    together = train(case)
    leave(together, ["bank", "telco", "shop 2"], level)
    for order in list(permutations(["bank", "telco", "shop 2"]))[::2]:
        alone = train(case)
        for party in order:
            leave(alone, [party], level)
        assert digest_of(alone) == digest_of(together)
        assert alone.coordinator.certificate.epoch == 4
        assert together.coordinator.certificate.epoch == 2
    check_same(together, without(case, ["bank", "telco", "shop 2"]), ask=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("stays", CASE.codes)
def test_everyone_but_one_may_leave(stays: str, level: Level) -> None:
    federation, leavers = train(CASE), [party for party in CASE.codes if party != stays]
    leave(federation, leavers, level)
    check_same(federation, without(CASE, leavers), ask=True)


@pytest.mark.parametrize("leavers", [["bank"], ["bank", "telco", "shop"]], ids=["last one", "all of them"])
def test_last_participant_is_told_that_it_cannot_leave(leavers: list[str]) -> None:
    federation = train(CASE)
    if len(leavers) == 1:
        leave(federation, ["telco", "shop"])
    with pytest.raises(UsageError, match="the last participant cannot leave"):
        leave(federation, leavers)
    assert set(federation.participants) == set(leavers)


def test_forest_goes_on_if_the_last_participant_was_refused() -> None:
    federation = train(CASE)
    before = federation.votes(CASE.codes, CASE.n_rows, "hard")
    with pytest.raises(UsageError):
        leave(federation, list(CASE.codes))
    np.testing.assert_array_equal(federation.votes(CASE.codes, CASE.n_rows, "hard"), before)
    leave(federation, ["bank"])
    check_same(federation, CASE.without("bank"))


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_that_alone_could_split_leaves_leaves_behind(level: Level) -> None:
    """Columns of one value cannot take its place: every tree becomes its root."""
    codes = {name: np.zeros_like(table) for name, table in CASE.codes.items()} | {"bank": CASE.codes["bank"]}
    case = replace(CASE, codes=codes, rules=with_rules(candidate_limit=candidate_limit(1.0)))
    federation = train(case)
    assert len(federation.coordinator.store.splits) > 4
    leave(federation, ["bank"], level)
    store = federation.coordinator.store
    assert not store.splits
    assert sorted(store.leaves) == [(tree, 1) for tree in range(4)]
    check_same(federation, case.without("bank"), ask=True)


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_without_a_split_takes_nothing_along(level: Level) -> None:
    case = replace(CASE, codes=CASE.codes | {"shop": np.full((1, 60), 7)})
    federation = train(case)
    before = digest_of(federation)
    certificate = leave(federation, ["shop"], level)
    report = certificate.report
    assert (report.destroyed, report.rebuilt, report.digest_after) == (0, 0, before)
    check_same(federation, case.without("shop"), ask=True)


@pytest.mark.parametrize("n_classes", [0, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_chain_to_the_deepest_level_is_cut_where_the_leaver_stands(level: Level, n_classes: int) -> None:
    """Paths of more than 53 bits: every cut takes the lowest row off, and the rest goes right."""
    n_rows = 60
    chain = -(2 ** np.arange(n_rows + 1)[:0:-1])
    upper, lower = chain.copy(), chain.copy()
    upper[56:], lower[:56] = chain[56], chain[56]
    codes = {"bank": np.array([upper]), "telco": np.array([lower]), "shop": np.array([np.minimum(lower, -9)])}
    y = [float(i % 2) for i in range(n_rows)]
    rules = with_rules(
        n_trees=2,
        max_depth=62,
        bootstrap=False,
        method="uniform",
        n_candidates=1,
        n_sampled=64,
        candidate_limit=candidate_limit(1.0),
    )
    case = Case(codes, y, n_classes, rules)
    federation = train(case)
    owned = [node for node, split in federation.coordinator.store.splits.items() if split.owner != "bank"]
    assert max(path for _, path in owned) > 2**56
    for number_of_leavers, party in enumerate(["telco", "shop"], 1):
        leave(federation, [party], level)
        check_same(federation, without(case, ["telco", "shop"][:number_of_leavers]))


# -- what is gone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("leavers", [["bank"], ["telco"], ["bank", "shop"]], ids=" and ".join)
def test_coordinator_keeps_nothing_of_the_leaver_and_of_destroyed_nodes(
    leavers: list[str], level: Level
) -> None:
    federation = train(CASE)
    store = federation.coordinator.store
    old, going = dict(store.splits), doomed(store, leavers)
    certificate = leave(federation, leavers, level)
    assert certificate.report.destroyed == len(going.nodes)
    assert not [split for split in store.splits.values() if split.owner in leavers]
    dead = {old[node].ciphertext for node in going.nodes & old.keys()}
    kept_batches = {split.batch.root for split in store.splits.values()}
    assert not dead & {split.ciphertext for split in store.splits.values()}
    of_leavers = {split.batch.root for split in old.values() if split.owner in leavers}
    assert not of_leavers & kept_batches
    owned = {name: set(owner.store.cuts) for name, owner in participants(federation).items()}
    assert set().union(*owned.values()) == set(store.splits)
    assert sum(map(len, owned.values())) == len(store.splits)
    assert all(store.splits[node].owner == name for name, nodes in owned.items() for node in nodes)
    for node in old.keys() - going.nodes:
        same = store.splits[node].ciphertext == old[node].ciphertext
        assert same == (level == 1)


@pytest.mark.parametrize("level", LEVELS)
def test_every_split_is_signed_for_the_epoch_in_which_it_was_encrypted(level: Level) -> None:
    federation = train(CASE)
    kept = set(federation.coordinator.store.splits)
    kept -= doomed(federation.coordinator.store, ["bank"]).nodes
    leave(federation, ["bank"], level)
    epochs = {node: split.epoch for node, split in federation.coordinator.store.splits.items()}
    assert {epochs[node] for node in kept} <= {level}
    assert {epoch for node, epoch in epochs.items() if node not in kept} == {2}
    check_federation(federation, 3)


def test_destroyed_are_exactly_the_nodes_at_and_below_the_leavers_splits() -> None:
    store = train(CASE).coordinator.store
    for leavers in (["bank"], ["telco", "shop"], []):
        roots = {node for node, split in store.splits.items() if split.owner in leavers}
        below = set()
        for tree, path in [*store.splits, *store.leaves]:
            above = [(tree, path >> shift) for shift in range(path.bit_length())]
            if roots & set(above):
                below.add((tree, path))
        going = doomed(store, leavers)
        assert going.nodes == below
        assert set(going.tops) <= roots
        assert not [node for node in going.tops if (node[0], node[1] // 2) in going.nodes]


# -- requests to leave ------------------------------------------------------------------------------


@pytest.fixture
def federation() -> Federation:
    return train(CASE)


def refusal(call: Callable[[], object]) -> str:
    """The kind of the other side's refusal, of which whoever asked is told nothing."""
    with pytest.raises(RefusedError) as caught:
        call()
    assert str(caught.value).endswith(": rejected")
    assert isinstance(caught.value.__cause__, RejectedError)
    return caught.value.__cause__.kind


def send(
    federation: Federation, recipient: str, message: Message, sender: str, reply: type[Any] = Done
) -> Any:
    return federation.network.channel(sender).call(recipient, message, reply)


def refused(federation: Federation, recipient: str, message: Message, sender: str) -> str:
    """The kind of the refusal of this message."""
    return refusal(lambda: send(federation, recipient, message, sender, Message))


def request_of(federation: Federation, party: str = "bank", level: Level = 1) -> RevocationRequest:
    return federation.participants[party].leave(level)


def resigned(members: Federation, signer: str, /, **changes: Any) -> RevocationRequest:
    """A request signed by this party, who pretends that some of its identity is otherwise."""
    identity = members.network.roles[signer].identity  # type: ignore[attr-defined]
    forest = changes.pop("forest", members.coordinator.plan.forest)
    pretended = replace(identity, **changes)
    return sign_revocation(pretended, forest, 1)


def test_request_is_taken_once(federation: Federation) -> None:
    request = request_of(federation)
    send(federation, KGC, request, "bank")
    assert refused(federation, KGC, request, "bank") == "replay"
    assert federation.kgc.state.leaving == {"bank": request}


def test_request_is_not_taken_again_after_the_leaver_has_left(federation: Federation) -> None:
    request, other = request_of(federation), request_of(federation)
    federation.network.roles["keeps"] = federation.participants["bank"]
    send(federation, KGC, request, "bank")
    leave(federation, ["bank"])
    assert refused(federation, KGC, request, "bank") == "replay"
    assert refused(federation, KGC, other, "bank") == "epoch"
    for old in (request, other):
        assert refused(federation, CS, old, "bank") == "epoch"
    late = resigned(federation, "keeps", certificate=federation.kgc.current)
    for server in (KGC, CS):
        assert refused(federation, server, late, "bank") == "member"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("server", [KGC, CS])
@pytest.mark.parametrize(
    "fields",
    [
        {"signature": bytes(64)},
        {"level": 2},
        {"time": 0},
        {"nonce": bytes(16)},
        {"party": "telco"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_changed_request_is_refused(federation: Federation, server: str, fields: dict[str, Any]) -> None:
    request = changed(request_of(federation), **fields)
    assert refused(federation, server, request, request.party) == "signature"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("server", [KGC, CS])
@pytest.mark.parametrize("signer", ["telco", "shop", CS, CC])
def test_nobody_signs_for_another(federation: Federation, server: str, signer: str) -> None:
    """Not even if the message seems to come from the leaver."""
    request = resigned(federation, signer, name="bank")
    assert refused(federation, server, request, "bank") == "signature"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("server", [KGC, CS])
@pytest.mark.parametrize("sender", ["telco", CS, CC, KGC, "mallory"])
def test_request_is_taken_from_the_leaver_alone(federation: Federation, server: str, sender: str) -> None:
    request = request_of(federation)
    assert refused(federation, server, request, sender) == "sender"
    assert not federation.kgc.state.leaving


@pytest.mark.parametrize("server", [KGC, CS])
def test_request_to_leave_another_federation_is_refused(federation: Federation, server: str) -> None:
    request = resigned(federation, "bank", federation="another")
    assert refused(federation, server, request, "bank") == "epoch"


def test_request_to_leave_another_forest_is_refused_or_never_certified(federation: Federation) -> None:
    """CS refuses it; KGC, who knows of no forest, certifies nothing that it was not meant for."""
    request = resigned(federation, "bank", forest=bytes(16))
    assert refused(federation, CS, request, "bank") == "forest"
    send(federation, KGC, request, "bank")
    federation.kgc.revoke(None)
    with pytest.raises(RevFRFError):
        federation.coordinator.revoke((), ignore)
    assert not federation.coordinator.ready


@pytest.mark.parametrize("server", [KGC, CS])
@pytest.mark.parametrize("epoch", [0, 2, 2**32 - 1])
def test_request_of_another_epoch_is_refused(federation: Federation, server: str, epoch: int) -> None:
    certificate = changed(federation.kgc.current, epoch=epoch)
    request = resigned(federation, "bank", certificate=certificate)
    assert request.epoch == epoch
    assert refused(federation, server, request, "bank") == "epoch"


@pytest.mark.parametrize("server", [KGC, CS])
@pytest.mark.parametrize("party", [CS, CC, "clinic"])
def test_servers_and_requesters_cannot_leave(federation: Federation, server: str, party: str) -> None:
    federation.enrol_requester("clinic")
    request = resigned(federation, party, certificate=federation.kgc.current)
    assert refused(federation, server, request, party) == "member"


def test_nobody_leaves_before_there_is_a_forest() -> None:
    with pytest.raises(RejectedError) as caught:
        set_up(CASE).participants["bank"].leave(1)
    assert caught.value.kind == "forest"


def test_epoch_begins_only_if_somebody_asks_and_with_keys_that_fit_the_level(federation: Federation) -> None:
    with pytest.raises(UsageError, match="nobody has asked"):
        federation.kgc.revoke(None)
    send(federation, KGC, request_of(federation, level=2), "bank")
    with pytest.raises(UsageError, match="level 2 needs"):
        federation.kgc.revoke(None)
    federation.kgc.stay(["bank"])
    send(federation, KGC, request_of(federation, level=1), "bank")
    with pytest.raises(UsageError, match="level 1 none"):
        federation.kgc.revoke(moduli()[0])
    assert federation.kgc.current.epoch == 1


def test_who_asks_again_is_told_the_same_and_only_a_higher_level_counts(federation: Federation) -> None:
    first = request_of(federation, level=1)
    send(federation, KGC, first, "bank")
    send(federation, KGC, request_of(federation, level=1), "bank")
    assert federation.kgc.state.leaving == {"bank": first}
    higher = request_of(federation, level=2)
    send(federation, KGC, higher, "bank")
    send(federation, KGC, request_of(federation, level=1), "bank")
    assert federation.kgc.state.leaving == {"bank": higher}


def test_highest_level_that_anybody_asks_for_is_everybodys(federation: Federation) -> None:
    for party, level in zip(("bank", "shop"), LEVELS, strict=True):
        send(federation, KGC, request_of(federation, party, level), party)
    with pytest.raises(UsageError, match="level 2 needs"):
        federation.kgc.revoke(None)


# -- the old epoch ----------------------------------------------------------------------------------


Sent = tuple[str, str, Message]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """Every message that anybody sends: sender, recipient, message."""
    sent: list[Sent] = []
    call = MemoryChannel.call

    def record(self: MemoryChannel, recipient: str, request: Message, reply_type: Any) -> Any:
        sent.append((self.sender, recipient, request))
        return call(self, recipient, request, reply_type)

    monkeypatch.setattr(MemoryChannel, "call", record)
    return sent


def state(federation: Federation) -> Any:
    """What a refused message must not change."""
    roles = federation.with_policies
    owners = federation.participants.items()
    return (
        digest_of(federation),
        {name: dict(owner.store.cuts) for name, owner in owners},
        {
            name: (role.identity.certificate, role.identity.keys, role.identity.dealt)
            for name, role in roles.items()
        },
        {name: (dict(role.book.known), dict(role.book.rows)) for name, role in roles.items()},
        dict(federation.kgc.state.leaving),
        len(federation.kgc.state.certificates),
    )


OLD = {
    Dealt,
    EpochCertificate,
    Admission,
    OpenForest,
    LevelRequest,
    testing.TestRequest,
    PredictRequest,
    MaskedComparisons,
    ShareRequest,
    RevocationRequest,
    Destroy,
    RevocationReport,
}


@pytest.mark.parametrize("level", LEVELS)
def test_every_message_of_an_old_epoch_is_refused_by_every_role(recorded: list[Sent], level: Level) -> None:
    """Of the first epoch, and of the revocation that began the second, after a third has begun."""
    wide = replace(CASE, codes=CASE.codes | {"casino": -CASE.codes["shop"]})
    federation = train(wide)
    for left, leaver in ((wide, "casino"), (wide.without("casino"), "bank")):
        some = {party: table[:, :3] for party, table in left.codes.items()}
        federation.votes(left.codes, left.n_rows, "hard")
        for requester in (None, "telco"):
            federation.ask(some, requester, "hard", False, lambda _: None)
        leave(federation, [leaver], level)
    current, here = federation.kgc.current, federation.network.roles
    now = (current.epoch, certificate_digest(current))
    old = [(s, r, m) for s, r, m in recorded if r in here and not _is_of(*now, m)]
    assert {type(m) for _, _, m in old} >= OLD | ({Rekey} if level == 2 else set())
    before = state(federation)
    for sender, recipient, message in old:
        if recipient == "requester" or isinstance(message, PredictReply):
            continue
        refused(federation, recipient, message, sender)
    assert state(federation) == before
    check_same(federation, without(wide, ["casino", "bank"]), ask=True)


def _is_of(epoch: int, epoch_digest: bytes, message: Message) -> bool:
    """Whether it belongs to the current epoch; its report, told again, has the same answer."""
    if isinstance(message, RevocationReport):
        return message.report.epoch == epoch_digest
    return getattr(message, "epoch", 0) == epoch and not isinstance(message, Dealt)


@pytest.mark.parametrize("level", LEVELS)
def test_old_admissions_are_worth_nothing(federation: Federation, level: Level) -> None:
    """Of the leaver, of a participant who stays, and of a requester who belongs to nobody."""
    parties = ("bank", "telco", "clinic")
    for name in parties:
        federation.enrol_requester(name)
    old = {name: federation.requesters[name] for name in parties}
    admissions = {name: old[name].identity.admission for name in parties}
    leave(federation, ["bank"], level)
    rows = {party: table[:, :2] for party, table in CASE.without("bank").codes.items()}
    forest, current = federation.coordinator.plan.forest, federation.kgc.current
    for name in parties:
        with pytest.raises(RevFRFError):
            old[name].ask(rows, "hard")
        identity = replace(old[name].identity, admission=admissions[name])
        request = sign_request(identity, forest, 1, "hard", False, b"")
        message = PredictRequest(request=request, rows=b"")
        assert refused(federation, CS, message, name) == "epoch"
        admission = admissions[name]
        assert admission is not None
        moved = changed(admission, epoch=current.epoch)
        forged = sign_request(replace(identity, admission=moved), forest, 1, "hard", False, b"")
        message = PredictRequest(request=forged, rows=b"")
        kind = refused(federation, CS, message, name)
        assert kind == ("member" if name == "bank" else "signature")
    for name in ("telco", "clinic"):
        answer = federation.ask(rows, name, "hard", False, lambda _: None)
        assert answer.votes.tobytes() == federation.votes(rows, 2, "hard").tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_whoever_has_left_is_admitted_no_more(federation: Federation, level: Level) -> None:
    leaver = federation.participants["bank"]
    leave(federation, ["bank"], level)
    roles = set(federation.network.roles)
    for call in (federation.enrol_requester, federation.requester):
        with pytest.raises(UsageError, match="'bank'"):
            call("bank")
    assert set(federation.network.roles) == roles
    assert "bank" not in federation.kgc.state.admitted
    federation.network.roles["bank"] = leaver
    with pytest.raises(UsageError, match="revoked"):
        federation.kgc.admit(federation.parameters, "bank")


@pytest.mark.parametrize("level", LEVELS)
def test_messages_of_whoever_has_left_are_refused(federation: Federation, level: Level) -> None:
    cut = next(iter(federation.participants["telco"].store.cuts))
    leave(federation, ["bank"], level)
    plan = federation.coordinator.plan
    before = state(federation)
    for message in (destroying(federation, [cut]), rekeying(federation, [cut])):
        assert refused(federation, "telco", message, "bank") == "sender"
    report = Report(bytes(32), plan.forest, NO_DIGEST, NO_DIGEST, 0, 0, 0, bytes(64))
    assert refused(federation, KGC, RevocationReport(report=report), "bank") == "sender"
    assert state(federation) == before


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_that_refuses_to_go_stays_in_its_own_epoch_alone(federation: Federation, level: Level) -> None:
    """It takes no certificate that does not name it, and nobody else's share opens anything for it."""
    leaver = federation.participants["bank"]
    leave(federation, ["bank"], level)
    federation.network.roles["bank"] = leaver
    assert refused(federation, "bank", federation.kgc.current, KGC) in ("member", "epoch", "order")
    assert leaver.identity.epoch == 1


# -- nodes destroyed and encrypted anew -------------------------------------------------------------


def nodes_in_bytes(nodes: Sequence[Node]) -> dict[str, bytes]:
    trees, paths = [tree for tree, _ in nodes], [path for _, path in nodes]
    return {"trees": np.array(trees, TREES).tobytes(), "paths": np.array(paths, PATHS).tobytes()}


NO_NODES = Destroy(epoch=0, forest=bytes(16), trees=b"", paths=b"")
NO_SPLITS = Rekey(epoch=0, forest=bytes(16), trees=b"", paths=b"")


def destroying(federation: Federation, nodes: Sequence[Node], **fields: Any) -> Destroy:
    plan = federation.coordinator.plan
    return changed(
        NO_NODES, **({"epoch": plan.epoch, "forest": plan.forest} | nodes_in_bytes(nodes) | fields)
    )


def rekeying(federation: Federation, nodes: Sequence[Node], **fields: Any) -> Rekey:
    plan = federation.coordinator.plan
    return changed(
        NO_SPLITS, **({"epoch": plan.epoch, "forest": plan.forest} | nodes_in_bytes(nodes) | fields)
    )


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
    nodes = list(federation.participants["telco"].store.cuts)
    assert refused(federation, "telco", naming(federation, nodes), CS) == "order"
    assert state(federation) == before


@pytest.mark.parametrize("naming", [destroying, rekeying])
@pytest.mark.parametrize("sender", [KGC, CC, "bank", "telco", "shop", "mallory"])
def test_owner_destroys_and_encrypts_for_the_coordinator_alone(
    federation: Federation, naming: Naming, sender: str
) -> None:
    before = state(federation)
    nodes = list(federation.participants["telco"].store.cuts)
    call = lambda: send(federation, "telco", naming(federation, nodes), sender, Message)  # noqa: E731
    assert refusal(call) == "sender"
    assert state(federation) == before


@pytest.mark.parametrize("naming", [destroying, rekeying])
def test_nodes_that_are_not_the_owners_change_nothing(later: Federation, naming: Naming) -> None:
    federation = later
    before = state(federation)
    own = list(federation.participants["telco"].store.cuts)
    others = list(federation.participants["bank"].store.cuts)
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
    node = next(iter(owner.store.cuts))
    rest = dict(owner.store.cuts)
    del rest[node]
    for _ in range(2):
        send(federation, "telco", destroying(federation, [node]), CS)
        assert owner.store.cuts == rest
    assert refused(federation, "telco", rekeying(federation, [node]), CS) == "node"


def test_splits_encrypted_anew_are_the_same_cuts_in_other_ciphertexts(later: Federation) -> None:
    federation = later
    owner = federation.participants["telco"]
    nodes = list(owner.store.cuts)
    replies = [send(federation, "telco", rekeying(federation, nodes), CS, Rekeyed) for _ in range(2)]
    assert replies[0].ciphertexts != replies[1].ciphertexts
    p, width = federation.parameters, federation.parameters.ciphertext_bytes
    for blob in (reply.ciphertexts for reply in replies):
        found = [Ciphertext.from_bytes(p, blob[at : at + width]) for at in range(0, len(blob), width)]
        opened = par_h_dec2(owner.identity.weak, found, n_jobs=1)
        assert opened == [owner.store.cuts[node][1] for node in nodes]


@dataclass
class Meddling:
    """A role whose answers pass through `change`, or that does something before it answers."""

    honest: Answering
    change: Callable[[str, Message, Message], Message]
    before: Callable[[Message], None] = lambda _: None

    def handle(self, sender: str, message: Message) -> Message:
        self.before(message)
        return self.change(sender, message, self.honest.handle(sender, message))


def as_is(_sender: str, _message: Message, reply: Message) -> Message:
    return reply


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
    def lie(_sender: str, _message: Message, reply: Message) -> Message:
        return changed(reply, **fields(reply)) if isinstance(reply, Rekeyed) else reply

    federation.network.roles["telco"] = Meddling(federation.participants["telco"], lie)
    with pytest.raises(RejectedError) as caught:
        leave(federation, ["shop"], 2)
    assert caught.value.kind == kind
    assert not federation.coordinator.ready


# -- nothing is answered in between -----------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_no_request_is_answered_until_the_forest_is_whole(federation: Federation, level: Level) -> None:
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

    def at_rekeying(message: Message) -> None:
        if isinstance(message, Rekey | Destroy):
            attempt()

    for name in left.codes:
        federation.network.roles[name] = Meddling(federation.participants[name], as_is, at_rekeying)
    federation.network.roles[KGC] = Meddling(
        federation.kgc, as_is, lambda message: attempt() if isinstance(message, RevocationReport) else None
    )
    federation.revoke(["bank"], level, (), attempt)
    assert attempts > 4
    check_same(federation, left, ask=True)


def test_request_between_the_new_epoch_and_the_rebuilding_is_refused(federation: Federation) -> None:
    send(federation, KGC, request_of(federation), "bank")
    federation.kgc.revoke(None)
    assert not federation.coordinator.ready
    for rows in (CASE.codes, CASE.without("bank").codes):
        with pytest.raises(RevFRFError):
            answers(federation, {party: table[:, :2] for party, table in rows.items()})


def test_coordinator_rebuilds_only_after_somebody_has_left(federation: Federation) -> None:
    with pytest.raises(RejectedError) as caught:
        federation.coordinator.revoke((), ignore)
    assert caught.value.kind == "order"


def gone(message_type: type[Message]) -> Callable[[Message], None]:
    """Somebody who is gone when this message comes."""

    def lose(message: Message) -> None:
        if isinstance(message, message_type):
            raise AbsentError("somebody", "is gone")

    return lose


@pytest.mark.parametrize("answered", [False, True], ids=["unheard", "heard"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("lost", [Dealt, EpochCertificate, Destroy, LevelRequest, Rekey, RevocationReport])
def test_interrupted_revocation_goes_on_where_it_stopped(
    federation: Federation, lost: type[Message], level: Level, answered: bool
) -> None:
    """Whether the message was lost or its answer: no certificate with holes, and in the end all is well."""
    if level == 1 and lost in (Dealt, Rekey):
        pytest.skip("no such message at level 1")
    name = KGC if lost is RevocationReport else "telco"
    there, lose = federation.network.roles[name], gone(lost)

    def lose_answer(_sender: str, message: Message, reply: Message) -> Message:
        lose(message)
        return reply

    meddling = Meddling(there, lose_answer) if answered else Meddling(there, as_is, lose)
    federation.network.roles[name] = meddling
    with pytest.raises(RefusedError):
        leave(federation, ["bank"], level)
    begun = federation.kgc.current.epoch == 2
    assert begun == (lost is not Dealt)
    assert federation.leaving
    assert federation.coordinator.ready != begun
    federation.network.roles[name] = there
    if not begun:
        check_same(federation, CASE, ask=True)
    federation.resume((), ignore)
    assert not federation.leaving
    [certificate] = federation.coordinator.certificates
    certificate.verify(federation.coordinator.identity.kgc)
    assert certificate.report.digest_after == digest_of(federation)
    check_same(federation, CASE.without("bank"), ask=True)


def test_coordinator_is_the_first_to_hear_of_an_epoch(federation: Federation) -> None:
    """Whoever is absent then: nothing is answered any more with what the leaver left behind."""
    del federation.network.roles[CC]
    with pytest.raises(AbsentError):
        leave(federation, ["bank"])
    assert federation.kgc.current.epoch == 2
    assert not federation.coordinator.ready
    with pytest.raises(RevFRFError):
        federation.votes(CASE.codes, CASE.n_rows, "hard")


@pytest.mark.parametrize("level", LEVELS)
def test_coordinator_that_is_absent_keeps_nobody_from_asking_to_leave(
    federation: Federation, level: Level
) -> None:
    cs = federation.network.roles.pop(CS)
    with pytest.raises(AbsentError):
        leave(federation, ["bank"], level)
    assert "bank" in {*federation.kgc.state.leaving, *federation.kgc.current.revoked}
    federation.network.roles[CS] = cs
    federation.resume((), ignore)
    check_same(federation, CASE.without("bank"), ask=True)


def test_last_participant_stays_and_the_forest_goes_on(federation: Federation) -> None:
    for party in ("bank", "shop"):
        leave(federation, [party])
    with pytest.raises(UsageError, match="the last participant cannot leave"):
        leave(federation, ["telco"])
    assert not federation.leaving
    check_same(federation, without(CASE, ["bank", "shop"]), ask=True)


def test_impostor_gets_no_admission_in_a_later_epoch(federation: Federation) -> None:
    """A name stays with who had it first: another key under it is not signed, let alone sent."""
    federation.enrol_requester("clinic")
    leave(federation, ["bank"])
    kgc = federation.coordinator.identity.kgc
    impostor = Identity("clinic", REQUESTER, kgc, SigningKey.generate(), True)
    federation.network.roles["clinic"] = Requester(impostor, federation.network.channel("clinic"))
    with pytest.raises(ProtocolError, match="the name of another"):
        federation.kgc.admit(federation.parameters, "clinic")
    assert impostor.admission is None


def test_requesters_forget_their_keys_at_level_2(federation: Federation) -> None:
    clinic = federation.enrol_requester("clinic")
    before = clinic.identity.weak
    leave(federation, ["bank"], 1)
    assert clinic.identity.weak is before
    leave(federation, ["shop"], 2)
    assert (clinic.identity.keys, clinic.identity.dealt, clinic.identity.admission) == (None, None, None)
    federation.enrol_requester("clinic")
    assert clinic.identity.weak.parameters == federation.parameters != before.parameters


# -- reports ----------------------------------------------------------------------------------------


def begun(federation: Federation) -> Report:
    """The new epoch has begun; a report as CS would sign it."""
    send(federation, KGC, request_of(federation), "bank")
    federation.kgc.revoke(None)
    epoch, forest = certificate_digest(federation.kgc.current), federation.coordinator.plan.forest
    unsigned = Report(epoch, forest, NO_DIGEST, NO_DIGEST, 1, 2, 3, bytes(64))
    return sign_report(federation.coordinator.identity, unsigned)


def reported(federation: Federation, report: Report, sender: str = CS) -> Certified:
    reply: Certified = send(federation, KGC, RevocationReport(report=report), sender, Certified)
    return reply


def test_request_that_comes_while_another_leaves_is_kept_until_that_has_ended(federation: Federation) -> None:
    """A revocation that takes long, or that CS does not end, keeps nobody from asking."""
    report = begun(federation)
    send(federation, KGC, request_of(federation, "shop"), "shop")
    with pytest.raises(ProtocolError, match="has not ended"):
        federation.kgc.revoke(None)
    assert set(federation.kgc.state.leaving) == {"shop"}
    reported(federation, report)
    assert set(federation.kgc.state.leaving) == {"shop"}
    assert federation.kgc.revoke(None).revoked == ("bank", "shop")


def test_revocation_is_certified_once(federation: Federation) -> None:
    report = begun(federation)
    certified = RevocationCertificate.from_json(reported(federation, report).certificate)
    assert certified.report == report
    again = RevocationCertificate.from_json(reported(federation, report).certificate)
    assert again == certified
    other = sign_report(federation.coordinator.identity, changed(report, kept=report.kept + 1))
    assert refusal(lambda: reported(federation, other)) == "order"


def test_report_before_anybody_has_left_is_refused(federation: Federation) -> None:
    epoch, forest = certificate_digest(federation.kgc.current), federation.coordinator.plan.forest
    unsigned = Report(epoch, forest, NO_DIGEST, NO_DIGEST, 0, 0, 0, bytes(64))
    report = sign_report(federation.coordinator.identity, unsigned)
    assert refusal(lambda: reported(federation, report)) == "order"


@pytest.mark.parametrize("sender", [CC, KGC, "bank", "telco", "mallory"])
def test_report_is_taken_from_the_coordinator_alone(federation: Federation, sender: str) -> None:
    report = begun(federation)
    assert refusal(lambda: reported(federation, report, sender)) == "sender"


@pytest.mark.parametrize("fields", [{"epoch": bytes(32)}, {"forest": bytes(16)}], ids=["epoch", "forest"])
def test_report_of_another_epoch_or_forest_is_refused(federation: Federation, fields: dict[str, Any]) -> None:
    report = sign_report(federation.coordinator.identity, changed(begun(federation), **fields))
    assert refusal(lambda: reported(federation, report)) == "order"


@pytest.mark.parametrize(
    "fields",
    [
        {"signature": bytes(64)},
        {"digest_before": "1" * 64},
        {"digest_after": "1" * 64},
        {"destroyed": 9},
        {"rebuilt": 9},
        {"kept": 9},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_report_that_the_coordinator_has_not_signed_is_refused(
    federation: Federation, fields: dict[str, Any]
) -> None:
    report = changed(begun(federation), **fields)
    assert refusal(lambda: reported(federation, report)) == "order"


@pytest.mark.parametrize("signer", ["telco", CC])
def test_report_that_another_has_signed_is_refused(federation: Federation, signer: str) -> None:
    report = begun(federation)
    identity = federation.network.roles[signer].identity  # type: ignore[attr-defined]
    assert refusal(lambda: reported(federation, sign_report(identity, report))) == "order"


def test_audit_finds_a_coordinator_that_reports_without_rebuilding(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate holds, for it signs what it likes; training without the leaver shows the lie."""
    monkeypatch.setattr(coordinator_module, "destroy", lambda *_: Doomed(frozenset(), []))
    certificate = leave(federation, ["bank"])
    certificate.verify(federation.coordinator.identity.kgc)
    assert certificate.report.digest_after != digest_of(train(CASE.without("bank")))


def test_audit_finds_a_coordinator_that_forges_the_digest_of_the_forest_it_keeps(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = digest_of(train(CASE.without("bank")))
    monkeypatch.setattr(coordinator_module, "destroy", lambda *_: Doomed(frozenset(), []))
    monkeypatch.setattr(
        coordinator_module,
        "sign_report",
        lambda identity, report: sign_report(identity, changed(report, digest_after=honest)),
    )
    certificate = leave(federation, ["bank"])
    assert certificate.report.digest_after == honest
    assert digest_of(federation) != honest


# -- copies of the old forest -----------------------------------------------------------------------


@dataclass
class Copy:
    """What somebody took along from CS's disk, and both servers' shares of that time."""

    splits: dict[Node, StoredSplit]
    cuts: dict[Node, int]
    cs: WeakKey
    cs_share: StrongShare
    cc_share: StrongShare
    leaver: WeakKey

    def ciphertext(self, node: Node) -> Ciphertext:
        return Ciphertext.from_bytes(self.cs.parameters, self.splits[node].ciphertext)


def copied(federation: Federation) -> Copy:
    cs, cc, bank = federation.coordinator, federation.compute, federation.participants["bank"]
    own = {node: cut for node, (_, cut) in list(bank.store.cuts.items())[:4]}
    splits = dict(cs.store.splits)
    identities = (cs.identity.weak, cs.identity.share, cc.identity.share, bank.identity.weak)
    return Copy(splits, own, *identities)


def compared(cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, x: int, s: Ciphertext) -> bool | None:
    """Whether x ≤ s, as CS and CC find it together; None if CC reads nothing."""
    [known] = ho_enc(cs.public, [x], n_jobs=1)
    packs, coins = mask_comparisons(cs_share, cs.public, [Comparison(known, s)], n_jobs=1)
    [bit] = read_slots(cc_share, packs, n_jobs=1)
    return None if bit is None else undo_coins([bit], coins)[0]


def check_compares(
    copy: Copy, cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, refresh: bool = False
) -> None:
    for node, cut in copy.cuts.items():
        split = copy.ciphertext(node)
        if refresh:
            [split] = h_enc_ref(cs.parameters, SecretInt(12345), [split], n_jobs=1)
        for x in (cut - 1, cut, cut + 1):
            assert compared(cs_share, cc_share, cs, x, split) == (x <= cut)


def test_level_1_leaves_the_shares_so_that_a_copy_of_the_old_forest_still_compares(
    federation: Federation,
) -> None:
    """What level 1 does not promise."""
    copy = copied(federation)
    leave(federation, ["bank"], 1)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    check_compares(copy, cs.share, cc.share, cs.weak)
    for node, cut in copy.cuts.items():
        c = copy.ciphertext(node).c
        halves = strong_half(cs.share, [c], n_jobs=1)
        assert strong_open(cc.share, [c], halves, n_jobs=1) == [cut]


def compares_nothing(
    cs_share: StrongShare, cc_share: StrongShare, cs: WeakKey, x: int, s: Ciphertext
) -> bool:
    """Whether a comparison fails, or CC reads nothing."""
    try:
        return compared(cs_share, cc_share, cs, x, s) is None
    except RevFRFError:
        return True


def opened_by(first: StrongShare, second: StrongShare, ciphertext: Ciphertext) -> int | None:
    try:
        halves = strong_half(first, [ciphertext.c], n_jobs=1)
        [opened] = strong_open(second, [ciphertext.c], halves, n_jobs=1)
    except RevFRFError:
        return None
    return opened


def test_level_2_leaves_no_share_that_opens_or_compares_a_copy_of_the_old_forest(
    federation: Federation,
) -> None:
    """Not even with the leaver's own key and the other owners'."""
    copy = copied(federation)
    check_compares(copy, copy.cs_share, copy.cc_share, copy.cs)
    leave(federation, ["bank"], 2)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    for node, cut in copy.cuts.items():
        old = copy.ciphertext(node)
        for first, second, weak in (
            (cs.share, cc.share, cs.weak),
            (copy.cs_share, cc.share, copy.cs),
            (cs.share, copy.cc_share, cs.weak),
        ):
            assert compares_nothing(first, second, weak, cut, old)
            opened = opened_by(first, second, old)
            assert opened is None or abs(opened) > 2**128  # a random number below N
        for owner in federation.participants.values():
            with pytest.raises(RevFRFError):
                par_h_dec2(owner.identity.weak, [old], n_jobs=1)
        assert par_h_dec2(copy.leaver, [old], n_jobs=1) == [cut]  # its own cut it can always read


def test_splits_refreshed_as_in_the_paper_still_compare_under_the_old_shares_alone(
    federation: Federation,
) -> None:
    """HEncRef changes the weak key that opens a split, and the strong shares do not care."""
    copy = copied(federation)
    check_compares(copy, copy.cs_share, copy.cc_share, copy.cs, refresh=True)
    for node in copy.cuts:
        [refreshed] = h_enc_ref(copy.cs.parameters, SecretInt(9), [copy.ciphertext(node)], n_jobs=1)
        with pytest.raises(RevFRFError):
            par_h_dec2(copy.leaver, [refreshed], n_jobs=1)
    leave(federation, ["bank"], 2)
    cs, cc = federation.coordinator.identity, federation.compute.identity
    for node, cut in copy.cuts.items():
        [refreshed] = h_enc_ref(copy.cs.parameters, SecretInt(9), [copy.ciphertext(node)], n_jobs=1)
        assert compares_nothing(cs.share, cc.share, cs.weak, cut, refreshed)


def keys_in_memory(n: int) -> list[Any]:
    """Every weak key and strong share under this modulus that anything in this process still holds."""
    gc.collect()
    held = [thing for thing in gc.get_objects() if isinstance(thing, WeakKey | StrongShare)]
    return [thing for thing in held if thing.parameters.n == n]


def fresh_federation(level: Level) -> tuple[Federation, int]:
    """One whose shares no cache holds, after the bank has left; and its first modulus."""
    case = CASE
    columns = {party: owner.columns for party, owner in participants(train(case)).items()}
    dealt = new_set_up(256, allow_insecure=True, n_jobs=1)
    federation = Federation(columns, dealt=dealt, seed=case.seed)
    n = dealt.parameters.n
    del dealt
    train(case, federation)
    some = {party: table[:, :2] for party, table in case.codes.items()}
    federation.ask(some, "telco", "hard", False, lambda _: None)
    assert len(keys_in_memory(n)) == 7
    leave(federation, ["bank"], level)
    return federation, n


def test_level_2_erases_every_key_and_share_of_the_old_epoch() -> None:
    """Of everybody who stays, wherever a reference could be left; the leaver's go with it."""
    federation, n = fresh_federation(2)
    assert keys_in_memory(n) == []
    assert len(keys_in_memory(federation.parameters.n)) >= 6


def test_level_1_keeps_the_keys_of_those_who_stay() -> None:
    federation, n = fresh_federation(1)
    assert len(keys_in_memory(n)) == 6
    assert federation.parameters.n == n


@pytest.mark.parametrize("level", LEVELS)
def test_all_keys_are_new_at_level_2_and_none_at_level_1(federation: Federation, level: Level) -> None:
    before = federation.kgc.current
    certificate = leave(federation, ["bank"], level)
    after = federation.kgc.current
    old = {member.name: member for member in before.members}
    assert {member.name for member in after.members} == {CS, CC, "telco", "shop"}
    for member in after.members:
        assert (member.h == old[member.name].h) == (level == 1)
        assert (member.role, member.verify_key) == (old[member.name].role, old[member.name].verify_key)
    assert (after.n == before.n) == (after.g0 == before.g0) == (level == 1)
    assert (after.epoch, after.revoked) == (2, ("bank",))
    assert federation.parameters.n == of_number(after.n)
    roles = {CS: federation.coordinator, CC: federation.compute, **federation.participants}
    for name, role in roles.items():
        identity = role.identity
        assert identity.keys is not None
        assert identity.dealt is None
        assert identity.certificate == after
        assert identity.keys.epoch == level
        assert identity.weak.parameters.n == of_number(after.n)
        [member] = [member for member in after.members if member.name == name]
        assert number(identity.weak.public.h) == member.h
        if name in (CS, CC):
            assert identity.share.parameters.n == of_number(after.n)
    receipts = {receipt.party: receipt for receipt in certificate.receipts}
    assert set(receipts) == (set(roles) if level == 2 else set())
    for name, receipt in receipts.items():
        assert (receipt.epoch, receipt.keys) == (1, erased_keys(before.n, old[name]))
        assert receipt.entered == certificate_digest(after)


def test_receipts_of_a_later_epoch_name_the_keys_that_were_used_until_then(federation: Federation) -> None:
    """Of level 1 there are none, and the next at level 2 are for the keys of the first epoch."""
    n, members = federation.kgc.current.n, federation.kgc.current.members
    first = {member.name: member for member in members}
    leave(federation, ["bank"], 1)
    certificate = leave(federation, ["shop"], 2)
    assert {receipt.party: receipt.keys for receipt in certificate.receipts} == {
        name: erased_keys(n, first[name]) for name in (CS, CC, "telco")
    }
    assert {receipt.epoch for receipt in certificate.receipts} == {2}


def test_new_modulus_is_searched_for(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation_module, "new_keys_like", SEARCHED)
    before = federation.parameters
    leave(federation, ["bank"], 2)
    assert federation.parameters.n not in {before.n, *(dealt.parameters.n for dealt in moduli())}
    assert federation.parameters.exponent_bits == before.exponent_bits
    check_same(federation, CASE.without("bank"), ask=True)


def test_keys_for_the_next_epoch_are_worth_nothing_before_it_begins(federation: Federation) -> None:
    """Who was dealt new keys, however often, goes on with the old ones."""
    p, telco = moduli()[0].parameters, federation.participants["telco"]
    dealt = Dealt(
        federation=federation.kgc.current.federation,
        epoch=2,
        number=100,
        n=number(p.n),
        g0=number(p.g0),
        exponent_bits=p.exponent_bits,
        share=None,
    )
    old = telco.identity.weak
    for wrong in ({"epoch": 1}, {"epoch": 3}, {"federation": "another"}):
        message = changed(dealt, **wrong)
        assert refused(federation, "telco", message, KGC) == "order"
    send(federation, "telco", dealt, KGC, Enrolment)
    assert telco.identity.weak is old
    first = telco.identity.dealt
    assert refused(federation, "telco", dealt, KGC) == "order"
    send(federation, "telco", changed(dealt, number=101), KGC, Enrolment)
    assert telco.identity.dealt is not first
    assert telco.identity.weak is old
    assert answers(federation, {party: table[:, :2] for party, table in CASE.codes.items()}).shape == (2, 3)


def test_signing_key_of_another_key_centre_begins_no_epoch(federation: Federation) -> None:
    send(federation, KGC, request_of(federation), "bank")
    federation.kgc.signing = SigningKey.generate()
    assert refusal(lambda: federation.kgc.revoke(None)) == "signature"
    assert {owner.identity.epoch for owner in federation.participants.values()} == {1}
