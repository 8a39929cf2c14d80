"""Saved forests: what is in the file, what is not, and what a damaged one does."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.crypto.keys import Ciphertext
from revfrf.errors import ModelFileError, RefusedError, UsageError
from revfrf.federation import Federation
from revfrf.model_file import SavedForest, read
from revfrf.protocols.fle_expan import split_context, split_statement

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
        assert identity.weak is not None
        assert identity.signing is not None
        numbers = [identity.weak.sk.reveal()] + ([identity.share.value.reveal()] if identity.share else [])
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
    cuts = {cut for role in model.federation_.participants.values() for _, cut in role.store.cuts.values()}
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
        signature = split.batch.signature(split.position)
        signature.verify(cs.plan.verify_keys[split.owner], context, split_statement(node, split.ciphertext))


def test_keys_come_back_and_open_their_splits(model: RevocableForestClassifier, path: Path) -> None:
    model.save(path, private_keys=True)
    loaded = RevocableForestClassifier.load(path).federation_
    for name, role in loaded.participants.items():
        before = model.federation_.participants[name].identity
        assert role.identity.weak is not None
        assert before.weak is not None
        assert role.identity.weak.public == before.weak.public
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
        cs.open(cs.plan.rules, cs.plan.seed, 150)


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


def change(path: Path, edit: Callable[[SavedForest], SavedForest]) -> None:
    head, _, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(head + b"\n" + msgspec.msgpack.encode(edit(read(path))))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "malformed": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "malformed ": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "malformed  ": lambda path: path.write_text("something else"),
    "malformed   ": lambda path: change(
        path, lambda f: msgspec.structs.replace(f, leaf_sums=f.leaf_sums[:-8])
    ),
    "malformed    ": lambda path: change(path, lambda f: msgspec.structs.replace(f, cuts={})),
    "version": lambda path: path.write_bytes(path.read_bytes().replace(b"version 1", b"version 2", 1)),
    "digest": lambda path: change(
        path, lambda f: msgspec.structs.replace(f, leaf_sums=b"\7" + f.leaf_sums[1:])
    ),
    "wrong-kind": lambda path: change(
        path,
        lambda f: msgspec.structs.replace(
            f, estimator=msgspec.structs.replace(f.estimator, kind="RevocableForestRegressor")
        ),
    ),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_by_kind(model: RevocableForestClassifier, path: Path, kind: str) -> None:
    model.save(path)
    DAMAGE[kind](path)
    with pytest.raises(ModelFileError) as caught:
        RevocableForestClassifier.load(path)
    assert caught.value.kind == kind.strip()


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
