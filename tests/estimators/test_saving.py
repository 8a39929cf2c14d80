"""Saved forests: what is in the file, what is not, and what a damaged one does."""

import stat
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from sklearn.datasets import load_diabetes, load_iris

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.crypto.dtpkc.arithmetic import inverse
from revfrf.crypto.dtpkc.dtpkc import open_with_root, par_h_dec1
from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.embedded.federation import Federation
from revfrf.errors import ModelFileError, UsageError
from revfrf.estimators._file import SavedForest, SavedStore, encode, read
from tests.storage.tampering import fields

TOY: dict[str, Any] = {
    "protocol": "paper",
    "key_bits": 256,
    "allow_insecure_keys": True,
    "random_state": 0,
    "n_estimators": 5,
}


def flowers() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["colour"] = pd.Categorical(np.where(y == 1, "blue", "white"))
    X.iloc[::7, 0] = np.nan
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def model() -> RevocableForestClassifier:
    return RevocableForestClassifier(parties={"a": [0, 4], "b": [1, 2, 3]}, **TOY).fit(*flowers())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forest.revfrf"


def secrets_of(federation: Federation) -> list[bytes]:
    """Every secret number and seed of a federation, as bytes and as hex digits."""
    roles = [federation.coordinator, federation.compute, *federation.participants.values()]
    found = []
    for identity in (role.identity for role in roles):
        assert identity.keys is not None
        assert identity.signing is not None
        share = identity.keys.share
        numbers = [identity.weak.sk.reveal()] + ([share.value.reveal()] if share else [])
        found += [f"{n:x}".encode() for n in numbers]
        found += [n.to_bytes(-(-n.bit_length() // 8), "big") for n in numbers]
        found += [identity.signing.export(), identity.signing.export().hex().encode()]
    assert federation.kgc.keys is not None
    for key in federation.kgc.keys.export().values():
        found += [key, key.hex().encode()]
    found.append(federation.seed)
    return found + [party.secret for party in federation.participants.values()]


@pytest.mark.parametrize("private_keys", [False, True])
def test_a_loaded_classifier_answers_as_before(
    model: RevocableForestClassifier, path: Path, private_keys: bool
) -> None:
    X, _ = flowers()
    model.save(path, private_keys=private_keys)
    loaded = RevocableForestClassifier.load(path)
    assert loaded.digest_ == model.digest_
    assert loaded.n_nodes_ == model.n_nodes_
    assert loaded.parties_ == model.parties_
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.get_params() == model.get_params()
    assert loaded.feature_names_in_.tolist() == list(X.columns)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert repr(loaded).endswith("INSECURE")


def test_a_loaded_regressor_answers_as_before(path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    model = RevocableForestRegressor(**TOY).fit(X, y)
    model.save(path)
    assert np.array_equal(RevocableForestRegressor.load(path).predict(X), model.predict(X))


@pytest.mark.parametrize("labels", [[0, 1], [True, False], [0.5, 1.5], ["no", "yes"], [-(2**40), 2**40]])
def test_labels_of_every_kind_come_back(path: Path, labels: list[Any]) -> None:
    X, y = np.arange(40.0)[:, None], np.array(labels)[np.arange(40) // 20]
    if y.dtype.kind == "f":
        y = y * 2  # scikit-learn takes fractions for a regression
    model = RevocableForestClassifier(**TOY).fit(X, y)
    model.save(path)
    loaded = RevocableForestClassifier.load(path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(X).tolist() == model.predict(X).tolist()


def test_private_keys_are_in_the_file_only_when_asked_for(
    model: RevocableForestClassifier, path: Path
) -> None:
    hidden = secrets_of(model.federation_)
    model.save(path)
    without = path.read_bytes()
    assert [secret for secret in hidden if secret in without] == []
    model.save(path, private_keys=True)
    assert sum(secret in path.read_bytes() for secret in hidden) >= len(hidden) // 2


def test_training_rows_and_labels_are_not_in_the_file(path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    model = RevocableForestRegressor(**TOY, decimals=15).fit(X, y)  # numbers that occur nowhere by chance
    model.save(path, private_keys=True)
    data = path.read_bytes()
    cuts = {
        cut for role in model.federation_.participants.values() for _, cut in role.store.own_splits.values()
    }
    codes = [
        code for role in model.federation_.participants.values() for code in role.tables["training"].flat
    ]
    unused = [int(code) for code in codes if int(code) not in cuts]
    assert len(unused) > 300
    orders: tuple[Literal["little", "big"], ...] = ("little", "big")
    hidden = [*unused, *model.targets_.values.tolist()]
    assert not [x for x in hidden for order in orders if x.to_bytes(8, order, signed=True) in data]


def test_keys_come_back_and_open_their_splits(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    loaded = RevocableForestClassifier.load(path).federation_
    for name, role in loaded.participants.items():
        before = model.federation_.participants[name].identity
        assert role.identity.weak.public == before.weak.public
        splits = [(node, s) for node, s in loaded.coordinator.store.splits.items() if s.owner == name]
        encrypted = [Ciphertext.from_bytes(loaded.parameters, split.ciphertext) for _, split in splits]
        roots = [inverse(z, loaded.parameters.n) for z in par_h_dec1(role.identity.weak, encrypted)]
        pairs = zip(encrypted, roots, strict=True)
        opened = [open_with_root(loaded.parameters, c.c, root) for c, root in pairs]
        assert opened == [role.store.own_splits[node][1] for node, _ in splits]
        assert role.secret == model.federation_.participants[name].secret
    assert loaded.seed == model.federation_.seed


def test_a_forest_loaded_without_keys_cannot_save_them(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path)
    with pytest.raises(UsageError, match="without its private keys"):
        RevocableForestClassifier.load(path).save(path, private_keys=True)


def test_a_loaded_forest_grows_no_more(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    cs = RevocableForestClassifier.load(path).federation_.coordinator
    with pytest.raises(UsageError, match="no row counts"):
        cs.create(cs.plan.rules, cs.plan.seed, cs.targets)


def test_the_file_is_for_its_owner_alone_and_replaced_whole(
    model: RevocableForestClassifier, path: Path
) -> None:
    path.write_text("older")
    path.chmod(0o644)
    model.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert RevocableForestClassifier.load(path).digest_ == model.digest_


def test_private_keys_that_others_can_read_are_refused(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    path.chmod(0o640)
    with pytest.raises(ModelFileError, match="chmod 600") as caught:
        RevocableForestClassifier.load(path)
    assert caught.value.kind == "mode"


def change(path: Path, edit: Callable[[SavedForest], SavedForest]) -> None:
    path.write_bytes(encode(edit(read(path))))
    path.chmod(0o600)


Edit = Callable[[SavedForest], SavedForest]


def store(name: str, edit: Callable[[SavedStore], SavedStore]) -> Edit:
    """Change one party's store."""
    return lambda f: replace(f, stores=tuple(edit(s) if s.name == name else s for s in f.stores))


def fact(party: str, name: str, edit: Callable[[Any], Any]) -> Edit:
    """Change a fact of a party."""

    def edited(known: SavedStore) -> SavedStore:
        facts = dict(known.facts)
        facts[name] = msgspec.msgpack.encode(edit(msgspec.msgpack.decode(facts[name])))
        return replace(known, facts=tuple(facts.items()))

    return store(party, edited)


def rows(party: str, table: str, edit: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Edit:
    """Change every row of a party's table."""
    return store(party, lambda s: replace(s, **{table: tuple(map(edit, getattr(s, table)))}))


def cell(party: str, table: str, column: int, value: Callable[[Any], Any]) -> Edit:
    """Change one column of a party's table."""
    return rows(party, table, lambda row: (*row[:column], value(row[column]), *row[column + 1 :]))


def estimator(**values: Any) -> Edit:
    return fact("CS", "estimator", lambda known: known | values)


def scale(**values: Any) -> Edit:
    return fact("CS", "targets", fields(scale=lambda known: known | values))


def rules(**values: Any) -> Edit:
    """Other rules, for all who know them."""
    changed = fields(rules=lambda known: known | values)
    of_cs = fact("CS", "forest", fields(opening=changed))
    others = [fact(party, "forest", changed) for party in ("CC", "a", "b")]
    return lambda f: reduce(lambda forest, edit: edit(forest), others, of_cs(f))


unsigned = fields(certificate=fields(signature=lambda _: bytes(64)))

FORGERIES: dict[str, Edit] = {  # test_directory_tampering has more that the same checks find
    "no parties": lambda f: replace(f, stores=()),
    "no CC": lambda f: replace(f, stores=tuple(s for s in f.stores if s.name != "CC")),
    "no participant": lambda f: replace(f, stores=tuple(s for s in f.stores if s.name != "b")),
    "too few sums": cell("CS", "leaves", 2, lambda sums: sums[:-8]),
    "no thresholds": store("a", lambda s: replace(s, own_splits=())),
    "a leaf less": store("CS", lambda s: replace(s, leaves=s.leaves[1:])),
    "leaves without weight": cell("CS", "leaves", 2, lambda sums: bytes(len(sums))),
    "other sums": store(
        "CS", lambda s: replace(s, leaves=((*s.leaves[0][:2], b"\7" + bytes(23)), *s.leaves[1:]))
    ),
    "no trees": rules(n_trees=0),
    "more trees": rules(n_trees=2**31),
    "deeper trees": rules(max_depth=63),
    "lower trees": rules(max_depth=1),
    "other classes": scale(labels=["a", "b"], class_weights=[1.0, 1.0]),
    "training rows": fact(
        "CS",
        "targets",
        lambda known: known | {"numbers": bytes(8), "values": bytes(8), "weights": b"\1" + bytes(7)},
    ),
    "no classes": scale(labels=[], class_weights=[]),
    "weights without end": scale(max_total_weight=np.inf),
    "labels of gigabytes": estimator(label_type="<U130000000"),
    "other owners": cell("CS", "splits", 4, lambda owner: "b" if owner == "a" else "a"),
    "an unsigned epoch certificate": lambda f: fact("CS", "identity", unsigned)(
        fact("a", "identity", unsigned)(f)
    ),
    "another federation": fact("CS", "forest", fields(opening=fields(federation=lambda _: "another"))),
    "another policy": fact("CC", "policy", lambda _: "all"),
    "no policy": store("CC", lambda s: replace(s, facts=tuple(f for f in s.facts if f[0] != "policy"))),
    "another digest": lambda f: replace(f, digest="0" * 64),
    "private keys or none": lambda f: replace(f, private_keys=not f.private_keys),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("private_keys", [False, True])
def test_a_forest_that_nobody_can_have_saved_is_refused(
    model: RevocableForestClassifier, path: Path, name: str, private_keys: bool
) -> None:
    model.save(path, private_keys=private_keys)
    change(path, FORGERIES[name])
    with pytest.raises(ModelFileError):
        RevocableForestClassifier.load(path)


def test_keys_of_somebody_else_are_refused(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    [theirs] = [dict(s.facts)["identity"] for s in read(path).stores if s.name == "b"]
    change(path, fact("a", "identity", fields(keys=lambda _: msgspec.msgpack.decode(theirs)["keys"])))
    with pytest.raises(ModelFileError):
        RevocableForestClassifier.load(path)


def test_no_damaged_byte_goes_unnoticed(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(good), 300):
        bad = bytearray(good)
        bad[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(ModelFileError):
            RevocableForestClassifier.load(path)


def test_keys_are_not_printed(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    forest = read(path)
    assert repr(forest) == "<SavedForest>"
    assert {repr(store) for store in forest.stores} == {"<SavedStore>"}


DAMAGE: dict[str, Callable[[Path], object]] = {
    "malformed": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "malformed ": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "malformed  ": lambda path: path.write_text("something else"),
    "version": lambda path: path.write_bytes(path.read_bytes().replace(b"version 1", b"version 2", 1)),
    "digest": lambda path: change(path, FORGERIES["another digest"]),
    "wrong-kind": lambda path: change(path, estimator(kind="RevocableForestRegressor")),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_by_kind(model: RevocableForestClassifier, path: Path, kind: str) -> None:
    model.save(path)
    DAMAGE[kind](path)
    with pytest.raises(ModelFileError) as caught:
        RevocableForestClassifier.load(path)
    assert caught.value.kind == kind.strip()


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", ".", "x" * 300, "a\0b"])
def test_what_is_no_file_is_not_read(place: str) -> None:
    with pytest.raises(ModelFileError):
        RevocableForestClassifier.load(place)


@pytest.mark.parametrize("place", ["", "/", "/proc/no/such/file"])
def test_what_cannot_be_written_is_said(model: RevocableForestClassifier, place: str) -> None:
    with pytest.raises(ModelFileError, match="cannot be written"):
        model.save(place)


@pytest.mark.parametrize("columns", [range(2), {0, 1}, np.array([0, 1])])
def test_parties_of_every_kind_are_saved(path: Path, columns: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) // 20
    model = RevocableForestClassifier(parties={"a": columns, "b": [2]}, **TOY).fit(X, y)
    model.save(path)
    assert np.array_equal(RevocableForestClassifier.load(path).predict(X), model.predict(X))


def test_unfitted_forests_are_not_saved(path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        RevocableForestClassifier().save(path)


def test_a_parameter_that_is_no_plain_value_is_named(path: Path) -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20) // 10
    model = RevocableForestClassifier(**TOY | {"random_state": np.random.RandomState(0)}).fit(X, y)
    model.save(path)
    assert RevocableForestClassifier.load(path).random_state is None
    model.set_params(parties=object())
    with pytest.raises(ModelFileError, match="'parties' cannot be saved"):
        model.save(path)
