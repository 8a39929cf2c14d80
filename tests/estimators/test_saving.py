"""Saved forests: what is in the file, what is not, and what a damaged one does."""

import dataclasses
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from revfrf.errors import ModelFileError, RefusedError, UsageError
from revfrf.estimators._file_format import SavedCuts, SavedForest, encode, read
from revfrf.protocols.paper.splits import split_context, split_statement

TOY: dict[str, Any] = {"key_bits": 256, "allow_insecure_keys": True, "random_state": 0, "n_estimators": 5}


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
    assert federation.kgc.signing is not None
    found += [federation.kgc.signing.export().hex().encode(), federation.seed]
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
    model = RevocableForestRegressor(**TOY).fit(X, y)
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
    assert not [code for code in unused if code.to_bytes(8, "little", signed=True) in data]
    assert not [
        value for value in model.targets_.values.tolist() if value.to_bytes(8, "little", signed=True) in data
    ]


def test_splits_come_back_with_their_owners_signatures(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path)
    cs = RevocableForestClassifier.load(path).federation_.coordinator
    context = split_context(cs.plan.federation, cs.plan.epoch, cs.plan.forest)
    assert cs.store.splits
    for node, split in cs.store.splits.items():
        Ciphertext.from_bytes(cs.plan.parameters, split.ciphertext)
        split.batch.verify(cs.plan.verify_keys[split.owner], context)
        split.batch.holds(split.position, split_statement(node, split.ciphertext))


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
    with pytest.raises(RefusedError):
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


def test_a_full_disk_leaves_the_older_file_as_it_was(
    model: RevocableForestClassifier, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("older")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        model.save(path)
    assert path.read_text() == "older"
    assert list(path.parent.iterdir()) == [path]


Batches = tuple[tuple[int, bytes, tuple[bytes, ...]], ...]


def change(path: Path, edit: Callable[[SavedForest], SavedForest]) -> None:
    path.write_bytes(encode(edit(read(path))))


def with_splits(**fields: Any) -> Callable[[SavedForest], SavedForest]:
    return lambda f: replace(f, splits=replace(f.splits, **fields))


def with_estimator(**fields: Any) -> Callable[[SavedForest], SavedForest]:
    return lambda f: replace(f, estimator=replace(f.estimator, **fields))


def with_rules(**fields: Any) -> Callable[[SavedForest], SavedForest]:
    return lambda f: replace(
        f, rules=dataclasses.replace(f.rules, **fields), forest=replace(f.forest, **fields)
    )


def in_another_column(f: SavedForest) -> SavedForest:
    return replace(f, cuts={p: replace(c, columns=b"\xff" * len(c.columns)) for p, c in f.cuts.items()})


def without_a_leaf(f: SavedForest) -> SavedForest:
    return replace(f, leaf_trees=f.leaf_trees[4:], leaf_paths=f.leaf_paths[8:], leaf_sums=f.leaf_sums[24:])


def unsigned(batches: Batches) -> Batches:
    return tuple((epoch, bytes(64), leaves) for epoch, _, leaves in batches)


FORGERIES: dict[str, Callable[[SavedForest], SavedForest]] = {
    "too few sums": lambda f: replace(f, leaf_sums=f.leaf_sums[:-8]),
    "no cuts": lambda f: replace(f, cuts={}),
    "cuts of nobody": lambda f: replace(f, cuts=dict.fromkeys(f.cuts, SavedCuts(b"", b"", b"", b""))),
    "a column that is not there": in_another_column,
    "a leaf less": without_a_leaf,
    "leaves without weight": lambda f: replace(f, leaf_sums=bytes(len(f.leaf_sums))),
    "other sums": lambda f: replace(f, leaf_sums=b"\7" + f.leaf_sums[1:]),
    "no trees": with_rules(n_trees=0),
    "more trees": with_rules(n_trees=2**31),
    "deeper trees": with_rules(max_depth=63),
    "lower trees": with_rules(max_depth=1),
    "other classes": with_estimator(n_classes=2),
    "no classes": with_estimator(n_classes=0),
    "many classes": with_estimator(n_classes=2**40),
    "labels of gigabytes": with_estimator(label_type="<U130000000"),
    "labels of no type": with_estimator(label_type="i4,("),
    "columns of nobody": with_estimator(owned={"a": (), "b": ()}),
    "a column that nobody ever had": with_estimator(n_features=6, feature_names=tuple("abcdef")),
    "columns twice": with_estimator(owned={"a": (0, 1), "b": (1, 2, 3)}),
    "unknown parameters": with_estimator(parameters={"trees": 5}),
    "ciphertexts that are none": lambda f: with_splits(ciphertexts=bytes(len(f.splits.ciphertexts)))(f),
    "other positions": lambda f: with_splits(positions=bytes(len(f.splits.positions)))(f),
    "unsigned batches": lambda f: replace(f, batches=unsigned(f.batches)),
    "batches of another epoch": lambda f: replace(f, batches=tuple((2, *batch) for _, *batch in f.batches)),
    "an unsigned certificate": lambda f: replace(f, certificate=replace(f.certificate, signature=bytes(64))),
    "another federation": lambda f: replace(f, forest=replace(f.forest, federation="another")),
    "another digest": lambda f: replace(f, digest="0" * 64),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("private_keys", [False, True])
def test_a_forest_that_nobody_can_have_saved_is_refused(
    model: RevocableForestClassifier, path: Path, name: str, private_keys: bool
) -> None:
    model.save(path, private_keys=private_keys)
    change(path, FORGERIES[name])
    path.chmod(0o600)
    with pytest.raises(ModelFileError):
        RevocableForestClassifier.load(path)


def test_keys_of_somebody_else_are_refused(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    change(path, lambda f: replace(f, keys=f.keys and {**f.keys, "a": f.keys["b"]}))
    path.chmod(0o600)
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
    assert forest.keys is not None
    assert repr(forest.keys["a"]) == "<SavedKeys>"


DAMAGE: dict[str, Callable[[Path], object]] = {
    "malformed": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "malformed ": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "malformed  ": lambda path: path.write_text("something else"),
    "version": lambda path: path.write_bytes(path.read_bytes().replace(b"version 1", b"version 2", 1)),
    "digest": lambda path: change(path, FORGERIES["another digest"]),
    "wrong-kind": lambda path: change(path, with_estimator(kind="RevocableForestRegressor")),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_by_kind(model: RevocableForestClassifier, path: Path, kind: str) -> None:
    model.save(path)
    DAMAGE[kind](path)
    with pytest.raises(ModelFileError) as caught:
        RevocableForestClassifier.load(path)
    assert caught.value.kind == kind.strip()


def test_a_planted_link_does_not_say_where_a_forest_goes(
    model: RevocableForestClassifier, tmp_path: Path
) -> None:
    other, path = tmp_path / "other", tmp_path / "forest"
    other.write_text("mine")
    path.symlink_to(other)
    model.save(path)
    assert other.read_text() == "mine"
    assert RevocableForestClassifier.load(path).digest_ == model.digest_


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
