"""What is erased is gone: no trace of it in the raw bytes of any file, while what lives is there."""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revfrf import RevocableForestClassifier
from revfrf.crypto.batch import SignedBatch
from revfrf.embedded import moduli
from revfrf.forest.nodes import Node
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.sides import TRAINING
from revfrf.storage.memory import (
    CoordinatorStore,
    KnownRequest,
    ParticipantStore,
    Rebuilding,
    Store,
    StoredSplit,
)
from revfrf.storage.sqlite import Database
from tests.conftest import world_of
from tests.estimators.toys import classifier
from tests.storage.traces import Files, all_there, raw, traces, where, windows

REBUILDING = Rebuilding(0, 0)

pytestmark = pytest.mark.usefixtures("prepared_moduli")


def test_search_finds_what_is_there_and_nothing_else() -> None:
    rng = random.Random(1)
    data, other = rng.randbytes(50_000), rng.randbytes(50_000)
    things = [data[at : at + size] for at in (0, 1, 777, 40_000) for size in (8, 16, 17, 1000)]
    assert traces(data, things) == things
    assert traces(other, things) == []
    long = rng.randbytes(3000)
    assert traces(other[:99] + long[2984:] + other[99:], [long]) == [long]
    assert traces(bytes(1000), [bytes(100), bytes(99) + b"\1"]) == []
    key = b"583155efcfe8e6e66e5cc5a9ea7bc5c"
    assert traces(other + key + other, [key]) == [key]


# -- stores -----------------------------------------------------------------------------------------


def some_of(rng: random.Random, nodes: Sequence[Node]) -> list[Node]:
    """Nodes that go together: a tree, a place in all trees, or here and there one."""
    share = rng.choice([0.05, 0.4, 0.95])
    tree, place = rng.randrange(8), rng.randrange(300)
    return rng.choice(
        [
            [node for node in nodes if rng.random() < share],
            [node for node in nodes if node[0] == tree],
            [node for node in nodes if place < node[1] < place + 100],
        ]
    )


def nodes_of(rng: random.Random, count: int) -> list[Node]:
    return sorted({(rng.randrange(8), rng.randrange(1, 300)) for _ in range(count)})


@pytest.mark.parametrize("size", [96, 384, 1152], ids="{}-byte ciphertexts".format)
@pytest.mark.parametrize("seed", range(2))
def test_coordinator_keeps_no_trace_of_destroyed_splits(path: Path, seed: int, size: int) -> None:
    """Pages are split, merged and used again, and what lived on them has moved; with real keys, splits are
    longer than a page takes.
    """
    rng = random.Random(100 * size + seed)
    store, dead = CoordinatorStore(Database(path, create=True)), set[bytes]()
    for _ in range(6):
        nodes, before = nodes_of(rng, rng.randrange(1, 300)), parts_of(store)
        batch = SignedBatch(rng.randbytes(64), tuple(rng.randbytes(32) for _ in nodes))
        splits = {
            node: StoredSplit("bank/x0", 1, "bank", rng.randbytes(30), rng.randbytes(size), 1, batch, i)
            for i, node in enumerate(nodes)
        }
        store.commit(splits, {})
        before |= parts_of(store)
        store.destroy(some_of(rng, list(store.splits)))
        store.scrub()
        dead = (dead | before) - parts_of(store)
        files = raw(path.parent)
        assert where(files, dead) == {}
        assert all_there({"party.db": files["party.db"]}, parts_of(store))
    store.close()
    assert where(raw(path.parent), dead) == {}


def parts_of(store: CoordinatorStore) -> set[bytes]:
    """Ciphertexts, directions, signatures."""
    splits = store.splits.values()
    return {part for split in splits for part in (split.ciphertext, split.directions, split.batch.signature)}


@pytest.mark.parametrize("seed", range(3))
def test_participant_keeps_no_trace_of_cuts_it_has_forgotten(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    store, dead = ParticipantStore(Database(path, create=True)), set[bytes]()
    for level in range(10):
        before = cuts_of(store)
        nodes = nodes_of(rng, rng.randrange(1, 900))
        store.commit({node: (rng.randrange(9), rng.randrange(2**62, 2**63)) for node in nodes}, level)
        before |= cuts_of(store)
        store.forget(some_of(rng, list(store.own_splits)))
        dead = (dead | before) - cuts_of(store)
        files = raw(path.parent)
        assert where(files, dead) == {}
        assert all_there({"party.db": files["party.db"]}, cuts_of(store))
    store.close()
    assert where(raw(path.parent), dead) == {}


def cuts_of(store: ParticipantStore) -> set[bytes]:
    """Those cuts that SQLite writes in eight bytes."""
    return {cut.to_bytes(8, "big", signed=True) for _, cut in store.own_splits.values() if abs(cut) > 2**47}


def test_no_trace_is_left_of_facts_and_requests_that_were_replaced(path: Path) -> None:
    rng = random.Random(5)
    store, dead = Store(Database(path, create=True)), set[bytes]()
    for epoch in range(8):
        facts = {f"fact {i}": rng.randbytes(rng.choice([30, 900, 9000])) for i in range(6)}
        requests = {rng.randbytes(16): rng.randbytes(32) for _ in range(40)}
        with store.transaction():
            store.book.clear()
            store.write(**facts)
        store.scrub()
        for request, digest in requests.items():
            store.book.enter(request, KnownRequest(digest, 0), "clinic", epoch)
        live = {*facts.values(), *requests, *requests.values()}
        files = raw(path.parent)
        assert where(files, dead) == {}
        assert all_there(files, live)
        dead |= live


# -- forests ----------------------------------------------------------------------------------------


@dataclass
class Known:
    """What the files of a forest hold at a time, that may be dead later."""

    ciphertexts: set[bytes] = field(default_factory=set)
    directions: set[bytes] = field(default_factory=set)
    signatures: set[bytes] = field(default_factory=set)
    keys: set[bytes] = field(default_factory=set)
    cuts: dict[str, set[bytes]] = field(default_factory=dict)

    @property
    def things(self) -> dict[str, set[bytes]]:
        """All of them, by what they are; cuts are looked for in their owner's file only."""
        return {
            "ciphertexts": self.ciphertexts,
            "directions": self.directions,
            "signatures": self.signatures,
            "keys": self.keys,
        }


def known(model: Any) -> Known:
    federation = model.federation_
    splits = federation.coordinator.store.splits.values()
    identities = [federation.coordinator.identity, federation.compute.identity]
    identities += [owner.identity for owner in federation.participants.values()]
    return Known(
        {split.ciphertext for split in splits},
        {split.directions for split in splits if len(split.directions) >= 16 and windows(split.directions)},
        {split.batch.signature for split in splits},
        {key for identity in identities for key in keys_of(identity)},
        {name: cuts_of(owner.store) for name, owner in federation.participants.items()},
    )


def keys_of(identity: Identity) -> list[bytes]:
    """As they are written down."""
    assert identity.keys is not None
    record = identity.keys.record()
    return [record.sk] if record.share is None else [record.sk, record.share]


def add(dead: Known, before: Known, after: Known) -> None:
    """What was there before, and is not there now."""
    for what, things in dead.things.items():
        things |= before.things[what]
        things -= after.things[what]
    for name, cuts in after.cuts.items():
        dead.cuts[name] = (dead.cuts.get(name, set()) | before.cuts[name]) - cuts


def check_gone(files: Files, dead: Known) -> None:
    found = {what: where(files, things) for what, things in dead.things.items()}
    assert {what: places for what, places in found.items() if places} == {}
    for name, cuts in dead.cuts.items():
        assert where(of_party(files, name), cuts) == {}


def check_there(files: Files, live: Known) -> None:
    for things in live.things.values():
        assert all_there(files, things)
    for name, cuts in live.cuts.items():
        assert all_there(of_party(files, name), cuts)


def of_party(files: Files, name: str) -> Files:
    return {file: data for file, data in files.items() if file.startswith(f"participant-{name}-")}


def leaver_of(model: Any, name: str) -> list[bytes]:
    """What nobody but this participant knows."""
    owner = model.federation_.participants[name]
    rows = owner.tables[TRAINING].astype("<i8").tobytes()
    return [owner.secret, owner.identity.signing_key.export(), *keys_of(owner.identity), rows]


def grown(
    directory: Path, n_parties: int, *, n_rows: int = 400, seed: int = 0, **parameters: Any
) -> RevocableForestClassifier:
    """A forest of one-column parties; cuts of 17 decimals are numbers that occur nowhere by chance."""
    X = np.random.default_rng(seed).normal(size=(n_rows, n_parties))
    Y = (X[:, 0] + X[:, 2] * X[:, 1] > 0).astype(np.int64)
    defaults = {"max_depth": 8, "min_samples_leaf": 1, "decimals": 17, "random_state": seed}
    parties = {f"p{i}": [i] for i in range(n_parties)}
    return classifier(parties=parties, directory=directory, **(defaults | parameters)).fit(X, Y)


def check_leaving(
    directory: Path, model: Any, order: Sequence[tuple[str, RevocationLevel]], *, reopened: bool = False
) -> None:
    """One leaves after the other; after each, what lives is there, and what has died so far is not.

    A "+" joins the names of those who leave together.
    """
    dead, of_leavers = Known(), list[bytes]()
    files = raw(directory)
    check_there(files, known(model))
    for names, level in order:
        leavers = names.split("+")
        if reopened:
            model.close()
            model = RevocableForestClassifier.open(directory)
        before, own = known(model), [secret for name in leavers for secret in leaver_of(model, name)]
        assert all_there(files, own)
        model.revoke(leavers, level=level)
        for name in leavers:
            dead.cuts.pop(name, None)
        after = known(model)
        add(dead, before, after)
        of_leavers += own
        if level == 2:
            assert before.ciphertexts | before.signatures | before.keys <= (
                dead.ciphertexts | dead.signatures | dead.keys
            )
        files = raw(directory)
        check_there(files, after)
        check_gone(files, dead)
        assert not any(of_party(files, name) for name in leavers)
        assert where(files, of_leavers) == {}
    model.close()
    assert len(dead.ciphertexts) > 100
    assert len(dead.directions) > 5
    files = raw(directory)
    assert {name.rpartition(".")[2] for name in files} == {"db"}
    check_there(files, after)
    check_gone(files, dead)
    assert where(files, of_leavers) == {}


def test_no_trace_is_left_of_what_big_leavers_take_along(tmp_path: Path) -> None:
    """Most nodes go, and the forest is grown again over their places."""
    model = grown(tmp_path, 4, n_estimators=20)
    check_leaving(tmp_path, model, [("p0", 1), ("p1", 1), ("p2", 2)])


def test_no_trace_is_left_of_what_small_leavers_take_along(tmp_path: Path) -> None:
    """Some nodes go, here and there, and most pages stay as they are."""
    model = grown(tmp_path, 12, n_estimators=24, seed=1)
    check_leaving(tmp_path, model, [("p3", 1), ("p7", 1), ("p9", 1), ("p11", 2)])


def test_no_trace_is_left_of_longer_ciphertexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(moduli._made, (1024, True), world_of(1024))
    model = grown(tmp_path, 12, n_estimators=16, key_bits=1024)
    assert {len(ciphertext) for ciphertext in known(model).ciphertexts} == {384}
    check_leaving(tmp_path, model, [("p1", 1), ("p3", 1)])


def test_no_trace_is_left_after_the_forest_was_opened_again(tmp_path: Path) -> None:
    model = grown(tmp_path, 6, n_estimators=20, n_rows=200)
    check_leaving(tmp_path, model, [("p1", 1), ("p2", 2), ("p3", 1)], reopened=True)


def test_several_who_leave_together_leave_no_trace(tmp_path: Path) -> None:
    check_leaving(tmp_path, grown(tmp_path, 6, n_estimators=60, n_rows=200), [("p1+p4", 2)])


def test_requester_that_is_admitted_anew_keeps_no_key_of_an_older_epoch(tmp_path: Path) -> None:
    model = grown(tmp_path, 4, n_estimators=5, n_rows=60)
    X = np.zeros((2, 4))
    model.enrol_requester("insurer")
    for requester in ("insurer", None, "p2"):
        model.predict_encrypted(X, requester)
    requesters = model.federation_.requesters
    old = [key for name in ("insurer", "requester") for key in keys_of(requesters[name].identity)]
    assert all_there(raw(tmp_path), old)
    model.revoke("p1", level=2)
    for requester in ("insurer", None, "p2"):
        model.predict_encrypted(X, requester)
    assert where(raw(tmp_path), old) == {}
    model.close()
    assert where(raw(tmp_path), old) == {}


# -- crashes ----------------------------------------------------------------------------------------


class CrashError(BaseException):
    pass


def crashed_at(prepared: Path, image: Path, number: int) -> tuple[bool, Known, list[bytes]]:
    """Leave at level 2, and end before this scrub; `image` is what is on the disk then.

    Returns whether there was such a scrub, and what was known before, of all and of the leaver.
    """
    working = image.with_name(f"{image.name} working")
    shutil.copytree(prepared, working)
    model: Any = RevocableForestClassifier.open(working)
    before, own, n_scrubs, scrub = known(model), leaver_of(model, "p1"), 0, Database.scrub

    def crashing(database: Database) -> None:
        nonlocal n_scrubs
        n_scrubs += 1
        if n_scrubs == number:
            shutil.copytree(working, image)
            raise CrashError
        scrub(database)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "scrub", crashing)
        with suppress(CrashError):
            model.revoke("p1", level=2)
    model.close()
    return image.exists(), before, own


def test_crash_before_any_erasure_leaves_no_trace_once_the_forest_is_opened_again(tmp_path: Path) -> None:
    """The revocation has ended then, and said so in its certificate; nobody has closed anything yet."""
    prepared = tmp_path / "prepared"
    grown(prepared, 4, n_estimators=8, n_rows=120).close()
    number, left = 0, {}
    while True:
        number += 1
        image = tmp_path / f"image {number}"
        crashed, before, own = crashed_at(prepared, image, number)
        if not crashed:
            break
        model: Any = RevocableForestClassifier.open(image)
        assert [certificate.leavers for certificate in model.certificates_] == [(), ("p1",)]
        dead = Known()
        add(dead, before, known(model))
        files = raw(image)
        found = {what: where(files, things) for what, things in dead.things.items()}
        found |= {name: where(of_party(files, name), cuts) for name, cuts in dead.cuts.items()}
        found["of the leaver"] = where(files, own)
        if any(found.values()):
            left[number] = {what: places for what, places in found.items() if places}
        model.close()
        check_gone(raw(image), dead)
    assert number > 6
    assert left == {}
