"""Stores on disk: the same as in memory after whatever steps, and still the same when opened again."""

import copy
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from revfrf.crypto.batch import SignedBatch
from revfrf.crypto.signing import SigningKey
from revfrf.errors import StorageError
from revfrf.forest.nodes import Node
from revfrf.forest.targets import TargetsRecord, class_targets
from revfrf.forest.tree import BARE, LEAF, Forest, Tree
from revfrf.messages.bins import FeatureLine
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.protocols.common.request import RequestPolicy
from revfrf.storage.directory import Directory
from revfrf.storage.memory import (
    CoordinatorStore,
    KnownRequest,
    OwnSplit,
    ParticipantStore,
    Rebuilding,
    RequestBook,
    Store,
    StoredBins,
    StoredSplit,
)
from revfrf.storage.sqlite import Database
from tests.conftest import all_that_an_error_shows
from tests.storage.databases import HIDDEN, OurOwnError
from tests.storage.tampering import by_hand, recompute_checksums

Kind = TypeVar("Kind", bound=Store)

ANSWERED = 2**32
"""The depth of a request from before the store was opened: deeper than any tree."""

SEQUENCES = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**32)
DEPTHS = (0, 1, 2, 31, 53, 62)


@contextmanager
def somewhere() -> Iterator[Path]:
    """A place for a database, a new one for every example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "party.db"


def created(kind: type[Kind], path: Path) -> Kind:
    return kind(Database(path, create=True))


def again(store: Kind) -> Kind:
    """The store, closed and opened again."""
    store.close()
    return type(store)(Database(str(store)))


def unchanged_by_a_failing_step(store: Kind, step: Callable[[], object]) -> Kind:
    """A step that fails at its end; the store refuses everything then, and is opened again."""
    with pytest.raises(OurOwnError), store.transaction():  # noqa: PT012
        step()
        raise OurOwnError
    with pytest.raises(StorageError):
        store.write(anything=1)
    return again(store)


# -- what there is to be remembered -----------------------------------------------------------------

TEXTS = ["bank/x0", "Ämter/größe", "a b/c d", "", "nul\0nul", "\U0001f33b/q", "x" * 5000, "'; --"]
NODES: list[Node] = [
    (tree, path) for tree in (0, 1, 2**31 - 1) for path in (1, 2, 3, 6, 7, 2**31, 2**53 + 1, 2**63 - 1)
]
INTEGERS = [0, 1, -1, 7, 2**31, -(2**40), 2**62, -(2**62), 2**63 - 1, -(2**63)]


def random_batch(rng: random.Random) -> SignedBatch:
    return SignedBatch(rng.randbytes(64), tuple(rng.randbytes(32) for _ in range(rng.randint(1, 7))))


def random_splits(rng: random.Random) -> dict[Node, StoredSplit]:
    """Splits of some batches, each in one of them."""
    batches = [random_batch(rng) for _ in range(3)]
    nodes, epoch = rng.sample(NODES, rng.randint(0, 6)), rng.randint(1, 2**31)
    return {
        node: StoredSplit(
            feature=rng.choice(TEXTS),
            cut=rng.randint(0, 254),
            owner=rng.choice(TEXTS),
            directions=rng.randbytes(rng.choice([0, 1, 13, 5000])),
            ciphertext=rng.randbytes(rng.choice([0, 96, 1152])),
            epoch=epoch,
            batch=rng.choice(batches),
            position=rng.randint(0, 6),
        )
        for node in nodes
    }


def random_leaves(rng: random.Random) -> dict[Node, tuple[int, ...]]:
    width = rng.choice([1, 2, 3, 700])
    nodes = rng.sample(NODES, rng.randint(0, 6))
    return {node: tuple(rng.choice(INTEGERS) for _ in range(width)) for node in nodes}


def random_own(rng: random.Random) -> dict[Node, OwnSplit]:
    nodes = rng.sample(NODES, rng.randint(0, 8))
    return {node: (rng.randint(0, 2**16), rng.choice(INTEGERS)) for node in nodes}


def random_nodes(rng: random.Random) -> frozenset[Node]:
    return frozenset(rng.sample(NODES, rng.randint(0, 12)))


def random_rebuilding(rng: random.Random) -> Rebuilding:
    return Rebuilding(rng.randint(0, 10**9), rng.randint(0, 10**9))


# -- the same steps on disk and in memory -----------------------------------------------------------

STEPS = {
    CoordinatorStore: [
        "commit",
        "commit",
        "commit",
        "destroy",
        "begin_rebuilding",
        "finish",
        "trees",
        "bins",
    ],
    ParticipantStore: ["commit", "commit", "commit", "forget"],
}
Step = Callable[[Any], None]


def step_of(kind: type[Store], name: str, rng: random.Random) -> Step:
    """One step, to be done to both stores."""
    if name == "together":
        parts = [step_of(kind, rng.choice([n for n in STEPS[kind] if n != "forget"]), rng) for _ in range(3)]
        return lambda store: together(store, parts)
    splits, own, leaves, nodes = random_splits(rng), random_own(rng), random_leaves(rng), random_nodes(rng)
    rebuilding, number = random_rebuilding(rng), rng.randint(0, 2**32)
    steps: dict[str, Step] = {
        "commit": lambda store: store.commit(splits, leaves),
        "destroy": lambda store: store.destroy(nodes),
        "begin_rebuilding": lambda store: store.begin_rebuilding(rebuilding),
        "trees": lambda store: store.replace_forest(random_forest(number)),
        "bins": lambda store: store.add_bins(random_bins(number)),
        "forget": lambda store: store.forget(nodes),
        "finish": lambda store: store.finish(),
        "scrub": lambda store: store.scrub(),
    }
    if kind is ParticipantStore:
        steps["commit"] = lambda store: store.commit(own, number)
    return steps[name]


def random_forest(number: int) -> Forest:
    """A forest of two features whose trees have a split or none."""
    split = Tree(
        np.array([number % 2, LEAF, LEAF]), np.array([3, 0, 0], np.uint8), np.arange(4).reshape(2, 2)
    )
    leaf = Tree(np.array([LEAF]), np.zeros(1, np.uint8), np.array([[number, 1]]))
    return Forest(["bank/x0", "telco/x0"], [split, BARE, leaf][: 1 + number % 3])


def random_bins(number: int) -> dict[str, StoredBins]:
    """The bins of one of three features, one of which no forest here has."""
    name = ("bank/x0", "shop/x0", "telco/x0")[number % 3]
    line = FeatureLine(
        name, 1, 0, 32, 0, bytes(32), bytes(32), 4, None, False, number.to_bytes(32, "big"), bytes(64)
    )
    return {name: StoredBins(line, bytes(32), np.arange(number % 7, dtype=np.uint8) % 5)}


def together(store: Store, parts: list[Step]) -> None:
    with store.transaction():
        for part in parts:
            part(store)


def content(store: Any) -> list[Any]:
    """All that a store remembers, but for its facts."""
    if isinstance(store, CoordinatorStore):
        trees = {number: tree.to_bytes() for number, tree in store.trees.items()}
        bins = {name: (held.line, held.salt, held.bins.tolist()) for name, held in sorted(store.bins.items())}
        known = [store.splits, store.leaves, store.round, store.rebuilding, store.n_nodes]
        return [*known, trees, bins]
    own = store.own_splits
    counts = [store.trees_at(depth) for depth in DEPTHS]
    assert counts == [len({tree for tree, node in own if node.bit_length() == d + 1}) for d in DEPTHS]
    return [own, store.round, counts]


@pytest.mark.parametrize("kind", STEPS)
@SEQUENCES
@given(st.data(), SEEDS)
def test_store_remembers_on_disk_what_it_remembers_in_memory(
    kind: Any, data: st.DataObject, seed: int
) -> None:
    names = data.draw(
        st.lists(st.sampled_from([*STEPS[kind], "scrub", "together", "fail", "open"]), max_size=16)
    )
    rng = random.Random(seed)
    with somewhere() as path:
        memory, store = kind(), created(kind, path)
        assert content(store) == content(memory)
        for name in [*names, "open"]:
            step = step_of(kind, "together" if name in ("fail", "open") else name, rng)
            if name == "fail":
                store = unchanged_by_a_failing_step(store, partial(step, store))
            elif name == "open":
                store = again(store)
            else:
                step(store)
                step(memory)
            assert content(store) == content(memory)
        store.close()


def test_signatures_stay_as_long_as_a_split_of_theirs(path: Path) -> None:
    rng = random.Random(1)
    store, batches = created(CoordinatorStore, path), [random_batch(rng) for _ in range(3)]
    split = StoredSplit("bank/x0", 0, "bank", b"", b"", 1, batches[0], 0)
    nodes: list[Node] = [(0, 1), (0, 2), (0, 3)]
    splits = {
        node: split._replace(batch=batch)
        for node, batch in zip(nodes, [*batches[:2], batches[1]], strict=True)
    }
    store.commit(splits, {})

    def roots() -> set[bytes]:
        return {root for _, root, _ in store.tables.rows("batches")}

    store.scrub()
    assert roots() == {batches[0].signature, batches[1].signature}
    store.destroy([(0, 1), (0, 3)])
    store.scrub()
    assert roots() == {batches[1].signature}
    store.commit({(0, 2): split._replace(batch=batches[2])}, {})
    store.scrub()
    assert roots() == {batches[2].signature}
    store = again(store)
    assert store.splits[0, 2].batch == batches[2]
    store.destroy([(0, 2)])
    store.scrub()
    assert roots() == set()


def test_split_of_a_batch_shares_it_with_the_others_when_opened_again(path: Path) -> None:
    """Its signature is checked once a batch."""
    rng = random.Random(2)
    store, batch = created(CoordinatorStore, path), random_batch(rng)
    split = StoredSplit("bank/x0", 0, "bank", b"", b"", 1, batch, 0)
    store.commit({(0, 1): split, (0, 2): split._replace(position=1)}, {})
    store = again(store)
    assert store.splits[0, 1].batch is store.splits[0, 2].batch
    assert store.splits[0, 1].batch == batch


DAMAGE = {
    "a split without its signature": "DELETE FROM batches",
    "sums that are no numbers": "UPDATE leaves SET sums = x'0102030405'",
    "a round that is none": "UPDATE facts SET value = x'a1' WHERE name = 'round'",
    "a round of another kind": "UPDATE facts SET value = x'c0' WHERE name = 'round'",
    "a revocation that is none": "INSERT INTO facts (name, value) VALUES ('rebuilding', x'80')",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_coordinators_store_that_cannot_be_is_refused(path: Path, what: str) -> None:
    rng = random.Random(3)
    store, batch = created(CoordinatorStore, path), random_batch(rng)
    split = StoredSplit("bank/x0", 0, "bank", b"", b"", 1, batch, 0)
    store.commit({(0, 1): split}, {(0, 2): (1, 2), (0, 3): (3, 4)})
    store.close()
    by_hand(path, DAMAGE[what])
    recompute_checksums(path)
    database = Database(path)
    with pytest.raises(StorageError) as caught:
        CoordinatorStore(database)
    assert caught.value.kind == "malformed"


# -- the book of requests ---------------------------------------------------------------------------

REQUESTERS = ["clinic", "Ärztin", "requester", "'; --"]
BOOK_STEPS = ["new", "new", "new", "next depth", "next depth", "clear", "fail", "open"]


def check_books(book: RequestBook, memory: RequestBook) -> None:
    assert book.known == memory.known
    assert dict(book.rows) == dict(memory.rows)
    assert book.rows["nobody"] == 0
    del book.rows["nobody"]


@SEQUENCES
@given(st.lists(st.sampled_from(BOOK_STEPS), max_size=24), SEEDS)
def test_book_is_on_disk_what_it_is_in_memory(names: list[str], seed: int) -> None:
    """But of a request from before an opening nobody knows how far it had come: it counts as answered."""
    rng = random.Random(seed)
    with somewhere() as path:
        memory, store = RequestBook(), created(Store, path)
        for name in [*names, "open"]:
            if name == "open":
                store = again(store)
                memory.known = {r: KnownRequest(known.digest, ANSWERED) for r, known in memory.known.items()}
            elif name == "fail":
                store = failed(store, rng)
                memory.known = {r: KnownRequest(known.digest, ANSWERED) for r, known in memory.known.items()}
            elif name == "clear":
                store.book.clear()
                memory.clear()
            elif name == "new":
                entry = (rng.randbytes(16), KnownRequest(rng.randbytes(32), rng.randint(0, 62)))
                requester = rng.choice(REQUESTERS)
                n_rows = memory.rows[requester] + rng.choice([1, 7, 2**32])
                store.book.enter(*entry, requester, n_rows)
                memory.enter(*entry, requester, n_rows)
            elif memory.known:
                request, known = rng.choice(list(memory.known.items()))
                requester = rng.choice(list(memory.rows))
                deeper = KnownRequest(known.digest, known.depth + 1)
                store.book.enter(request, deeper, requester, memory.rows[requester])
                memory.enter(request, deeper, requester, memory.rows[requester])
            check_books(store.book, memory)
        store.close()


def failed(store: Store, rng: random.Random) -> Store:
    """After a step that has failed, in which a request came, or all were forgotten."""
    if rng.random() < 0.5:
        return unchanged_by_a_failing_step(store, store.book.clear)
    known = KnownRequest(rng.randbytes(32), 0)
    return unchanged_by_a_failing_step(store, lambda: store.book.enter(rng.randbytes(16), known, "clinic", 5))


def test_request_counts_only_when_it_is_written_down(path: Path) -> None:
    store = created(Store, path)
    store.close()
    with pytest.raises(StorageError):
        store.book.enter(b"request", KnownRequest(b"digest", 0), "clinic", 4)
    assert not store.book.known
    assert not store.book.rows


@pytest.mark.parametrize("kind", STEPS)
def test_nothing_counts_that_is_not_written_down(path: Path, kind: Any) -> None:
    store, rng = created(kind, path), random.Random(4)
    step_of(kind, "commit", rng)(store)
    before = copy.deepcopy(content(store))
    store.close()
    for name in set(STEPS[kind]):
        with pytest.raises(StorageError):
            step_of(kind, name, rng)(store)
    assert content(store) == before


# -- facts ------------------------------------------------------------------------------------------


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    numbers: tuple[int, ...]


FACTS: list[tuple[Any, Any]] = [
    (5, int),
    (-(2**63), int),
    (0.1, float),
    ("Größe \U0001f33b", str),
    (b"", bytes),
    (bytes(100_000), bytes),
    ((1, 2, 3), tuple[int, ...]),
    ({"a": "b"}, dict[str, str]),
    (frozenset([b"x"]), frozenset[bytes]),
    (Thing("it", (1, 2)), Thing),
    (False, bool),
]


@pytest.mark.parametrize(("value", "kind"), FACTS, ids=str)
def test_fact_is_read_as_it_was_written(path: Path, value: Any, kind: Any) -> None:
    store = created(Store, path)
    store.write(fact=value)
    for _ in range(2):
        found = store.read("fact", kind)
        assert found == value
        assert type(found) is type(value)
        assert store.expect("fact", kind) == value
        store = again(store)


def test_newer_fact_takes_the_place_of_the_older(path: Path) -> None:
    store = created(Store, path)
    store.write(one=1, two=2)
    store.write(two="two", three=3)
    for _ in range(2):
        assert (store.read("one", int), store.read("two", str), store.read("three", int)) == (1, "two", 3)
        assert len(store.tables.rows("facts")) == 3
        store = again(store)


def test_fact_that_was_never_written_is_none_and_missing_where_it_must_be(path: Path) -> None:
    store = created(Store, path)
    assert store.read("identity", Thing) is None
    with pytest.raises(StorageError, match="has no 'identity'") as caught:
        store.expect("identity", Thing)
    assert caught.value.kind == "malformed"
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (HIDDEN, int),
        (HIDDEN, bytes),
        ([HIDDEN], tuple[int, ...]),
        ({"sk": HIDDEN}, dict[str, int]),
        ({"name": HIDDEN}, Thing),
        ({"name": "it", "numbers": [1], "more": HIDDEN}, Thing),
        ({"name": "it", "numbers": [HIDDEN]}, Thing),
    ],
    ids=str,
)
def test_fact_of_another_type_is_damage_that_is_not_printed(path: Path, value: Any, kind: Any) -> None:
    store = created(Store, path)
    store.write(fact=value)
    for read in (store.read, store.expect):
        with pytest.raises(StorageError, match="its 'fact' cannot be read") as caught:
            read("fact", kind)
        assert caught.value.kind == "malformed"
        assert caught.value.__suppress_context__
        assert HIDDEN not in f"{caught.value!r} {caught.value.__context__!r}"
    assert store.read("fact", object) is not None  # and it is only that fact


@pytest.mark.parametrize(
    "value", [b"", b"\xc1", b"\x91", b"\x81\xa1", b"\xa2\xff\xff", b"\x91" * 100_000, b"\x01\x01"], ids=len
)
def test_bytes_that_are_no_fact_are_damage(path: Path, value: bytes) -> None:
    store = created(Store, path)
    store.tables.put("facts", [("fact", value)])
    for kind in (int, str, Thing, list[Any], object):
        with pytest.raises(StorageError) as caught:
            store.read("fact", kind)
        assert caught.value.kind == "malformed"


def test_facts_that_cannot_be_written_change_nothing(path: Path) -> None:
    store = created(Store, path)
    store.write(one=1)
    with pytest.raises(TypeError):
        store.write(one=2, two=object())
    assert store.read("one", int) == 1
    store.write(two=2)
    store = again(store)
    assert (store.read("one", int), store.read("two", int)) == (1, 2)


def test_records_of_what_parties_are_come_back(path: Path) -> None:
    store = created(Store, path)
    kgc, signing = SigningKey.generate(), SigningKey.generate()
    identity = Identity("bank", "participant", kgc.verify_key, signing, allow_insecure=True)
    classes, weights = np.array([0, 2, 1]), np.array([1.0, 0.0, 0.3])
    targets = class_targets(np.array([3, 5, 2**63 - 1]), classes, ("a", "b", "c"), weights)
    policy = RequestPolicy(accepts=["b", "a"], refuses=["c"], max_rows=5)
    store.write(identity=identity, targets=targets, policy=policy, open=RequestPolicy())
    store = again(store)
    found = store.expect("identity", IdentityRecord).identity(True)
    assert found.record() == identity.record()
    assert found.signing_key.export() == signing.export()
    same = store.expect("targets", TargetsRecord).targets()
    assert same.record() == targets.record()
    assert same.numbers.tolist() == [3, 5, 2**63 - 1]
    assert store.expect("policy", RequestPolicy) == policy
    assert store.expect("open", RequestPolicy) == RequestPolicy()


def test_crash_reporter_that_prints_local_variables_sees_no_key(path: Path) -> None:
    """Neither when keys cannot be written, nor when they cannot be read."""
    store, signing = created(Store, path), SigningKey.generate()
    identity = Identity("bank", "participant", SigningKey.generate().verify_key, signing, allow_insecure=True)
    store.write(identity=identity)
    seed = repr(signing.export())[2:-1]
    shown = all_that_an_error_shows(lambda: store.expect("identity", RequestPolicy))
    store.close()
    shown += all_that_an_error_shows(lambda: store.write(identity=identity))
    assert "identity" in shown
    assert seed not in shown


# -- a directory ------------------------------------------------------------------------------------


def test_parties_of_any_name_have_databases_of_their_own(tmp_path: Path) -> None:
    names = ["bank", "Bank", "bänk", "b nk", "b-nk", "b.nk", "..", ".", "x" * 100, "x" * 99, "nul", "*", "cs"]
    stores = Directory(tmp_path / "d", new=True)
    for number, name in enumerate(names):
        stores.store(ParticipantStore, "participant", name).write(number=number)
        stores.store(Store, "requester", name).write(number=-number)
    stores.store(CoordinatorStore, "CS", "CS").write(number=1000)
    files = [file.name for file in (tmp_path / "d").iterdir() if file.suffix == ".db"]
    assert len({name.lower() for name in files}) == 2 * len(names) + 1
    assert all(name.isascii() and len(name) < 120 for name in files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["d"]
    stores.close()
    opened = Directory(tmp_path / "d", new=False)
    for number, name in enumerate(names):
        assert opened.store(ParticipantStore, "participant", name, create=False).read("number", int) == number
        assert opened.store(Store, "requester", name, create=False).read("number", int) == -number
    assert opened.store(CoordinatorStore, "CS", "CS", create=False).read("number", int) == 1000


@pytest.mark.parametrize("opened", [True, False])
def test_discarded_store_is_gone_with_its_log(tmp_path: Path, opened: bool) -> None:
    stores = Directory(tmp_path, new=True)
    for name in ("bank", "telco"):
        stores.store(ParticipantStore, "participant", name).write(secret=HIDDEN)
    if not opened:
        stores.close()
        stores = Directory(tmp_path, new=False)
    stores.discard("participant", "bank")
    stores.discard("participant", "bank")  # there is none
    assert {file.name.split("-")[1] for file in tmp_path.iterdir()} == {"telco"}
    assert stores.store(ParticipantStore, "participant", "telco", create=False).read("secret", str) == HIDDEN
    stores.close()
    with pytest.raises(StorageError):
        Directory(tmp_path, new=False).store(ParticipantStore, "participant", "bank", create=False)
