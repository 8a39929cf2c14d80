"""Forests in directories are those in memory, opened as they were, even if their training was interrupted."""

import shutil
import stat
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import RefusedError, StorageError
from revfrf.messages.base import number
from revfrf.protocols.sides import TRAINING
from revfrf.roles.coordinator import Coordinator
from revfrf.storage import sqlite
from tests.estimators.directories import (
    NUMBERS,
    PARTIES,
    ROWS,
    X,
    Y,
    again,
    file_of,
    in_memory,
    opened,
    same_answers,
)
from tests.estimators.toys import classifier, people, regressor
from tests.quick import quick

pytestmark = pytest.mark.usefixtures("prepared_moduli")

# -- the same forest --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "target"), [(classifier, Y), (regressor, NUMBERS)], ids=["classifier", "regressor"]
)
@pytest.mark.parametrize("n_jobs", quick([1, 2], [2]))
def test_forest_in_a_directory_is_the_one_in_memory(
    tmp_path: Path, make: Callable[..., Any], target: Any, n_jobs: int
) -> None:
    kept = make(6, parties=PARTIES, directory=tmp_path / "new" / "forest", n_jobs=n_jobs).fit(X, target)
    memory = make(6, parties=PARTIES).fit(X, target)
    same_answers(kept, memory)
    for _ in range(2):
        kept = again(kept)
        same_answers(kept, memory)


FORESTS: dict[str, Callable[..., Any]] = {
    "soft votes": lambda **d: classifier(5, voting="soft", **d).fit(X, Y),
    "class weights": lambda **d: classifier(5, class_weight={0: 1, 1: 3, 2: 0.5}, **d).fit(X, Y),
    "balanced classes": lambda **d: classifier(5, class_weight="balanced", **d).fit(X, Y),
    "row weights": lambda **d: classifier(5, **d).fit(X, Y, np.arange(len(X)) % 4),
    "weighted numbers": lambda **d: regressor(5, **d).fit(X, NUMBERS, np.arange(len(X)) % 3 / 7),
    "no bootstrap": lambda **d: classifier(5, bootstrap=False, max_features=0.5, **d).fit(X, Y),
    "names of classes": lambda **d: classifier(5, **d).fit(X, np.array(["no", "yes", "maybe"])[Y]),
    "two truths": lambda **d: classifier(5, **d).fit(X, Y > 0),
    "objects": lambda **d: classifier(5, **d).fit(X, np.array(["no", "yes", "maybe"], dtype=object)[Y]),
    "missing values": lambda **d: classifier(5, **d).fit(np.where(X > 1.2, np.nan, X), Y),
    "decimals by column": lambda **d: classifier(5, decimals={0: 1, 4: 0}, **d).fit(X, Y),
    "evenly spaced": lambda **d: regressor(5, candidates="uniform", n_candidates=9, **d).fit(X, NUMBERS),
    "one leaf": lambda **d: regressor(3, **d).fit(X, np.full(len(X), 7.25)),
    "stumps of all trees": lambda **d: classifier(9, max_depth=1, **d).fit(X, Y),
    "no limit of depth": lambda **d: regressor(3, max_depth=None, min_samples_leaf=1, **d).fit(X, NUMBERS),
}


@pytest.mark.parametrize(
    "name",
    quick(
        FORESTS, ["soft votes", "row weights", "weighted numbers", "objects", "missing values", "one leaf"]
    ),
)
def test_forest_of_any_kind_is_opened_as_it_was(tmp_path: Path, name: str) -> None:
    kept = again(FORESTS[name](parties=PARTIES, directory=tmp_path))
    memory = FORESTS[name](parties=PARTIES)
    same_answers(kept, memory)
    for party in ("telco", "bank"):
        kept.revoke(party, 1)
        memory.revoke(party, 1)
        same_answers(kept, memory, encrypted=None)


def test_tables_with_categories_and_missing_values_are_read_as_before(tmp_path: Path) -> None:
    rows = people()
    labels = np.where(rows["b"].astype(str) == "red", "yes", np.where(rows["c"] > 4, "no", "perhaps"))
    parties = {"bank": ["a", "c"], "telco": ["b"]}
    memory = classifier(7, parties=parties).fit(rows, labels)
    kept = again(classifier(7, parties=parties, directory=tmp_path).fit(rows, labels))
    asked = rows.head(20).assign(b=["violet", *rows["b"].head(19)], c=[None, *rows["c"].head(19)])
    same_answers(kept, memory, asked, asked.head(4))
    assert kept.feature_names_in_.tolist() == ["a", "b", "c"]
    for model in (kept, memory):
        model.revoke("telco")
    kept = again(kept)
    same_answers(kept, memory, asked.drop(columns="b"), asked.head(4))
    assert kept.predict(asked).tolist() == memory.predict(asked.drop(columns="b")).tolist()


def test_one_party_a_column_and_names_of_any_kind_are_kept(tmp_path: Path) -> None:
    named = {"Ämter & Söhne": [0], "a b": [1], "..x": [2], "x" * 100: [3], "'; --": [4]}
    for i, parties in enumerate((None, named)):
        kept = again(classifier(4, parties=parties, directory=tmp_path / str(i)).fit(X, Y))
        same_answers(kept, classifier(4, parties=parties).fit(X, Y))
        kept.revoke(next(iter(kept.parties_)), 1)
        assert len(again(kept).parties_) == 4
        kept.close()


def test_parties_are_in_the_order_in_which_they_were_given(directory: Path) -> None:
    model = opened(directory)
    assert list(model.parties_) == list(PARTIES)
    model.revoke("telco", 1)
    model = again(model)
    assert list(model.parties_) == ["bank", "shop"]


def test_directory_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "new" / "forest"
    model = classifier(2, parties=PARTIES, directory=place).fit(X, Y)
    model.predict_encrypted(ROWS)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    model.close()
    names = sorted(file.name.split("-")[0] for file in place.iterdir())
    assert names == ["cc.db", "cs.db", "kgc.db", *["participant"] * 3, "requester.db"]


def test_each_party_keeps_its_own_secrets_and_nobody_elses(tmp_path: Path) -> None:
    model = classifier(4, parties=PARTIES, directory=tmp_path, decimals=15).fit(X, Y)
    federation = model.federation_
    assert federation.kgc.keys is not None
    of: dict[str, list[bytes]] = {"kgc": [*federation.kgc.keys.export().values()]}
    for name, role in (("cs", federation.coordinator), ("cc", federation.compute)):
        of[name] = [number(key.reveal()) for key in (role.identity.share.value, role.identity.weak.sk)]
    for name, owner in federation.participants.items():
        cuts = [
            cut.to_bytes(8, "big", signed=True)
            for _, cut in owner.store.own_splits.values()
            if abs(cut) > 2**47
        ]
        rows = owner.tables[TRAINING].astype("<i8").tobytes()
        of[name] = [owner.secret, number(owner.identity.weak.sk.reveal()), rows, *cuts]
    model.close()
    for name, secrets in of.items():
        data = file_of(tmp_path, name).read_bytes()
        assert [secret for secret in secrets if secret[:40] not in data] == []
        for other, theirs in of.items():
            if other != name:
                assert [secret for secret in theirs if secret[:40] in data] == []


# -- what goes wrong in training --------------------------------------------------------------------


class OurOwnError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "level"),
    quick(product([OurOwnError, KeyboardInterrupt], [0, 1, 3]), [(OurOwnError, 0), (KeyboardInterrupt, 3)]),
)
def test_training_that_was_interrupted_is_ended_by_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], level: int
) -> None:
    """The failing fit has closed its databases."""
    n_levels, grow = 0, Coordinator.grow

    def failing(*_: Any) -> None:
        nonlocal n_levels
        n_levels += 1
        if n_levels > level:
            raise error

    model = classifier(6, parties=PARTIES, directory=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Coordinator, "grow", lambda cs, _: grow(cs, failing))
        with pytest.raises(error):
            model.fit(X, Y)
    assert not hasattr(model, "federation_")
    finished = opened(tmp_path)
    same_answers(finished, in_memory())
    finished = again(finished)
    same_answers(finished, in_memory(), encrypted=None)


def test_training_that_has_not_begun_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash; a fit that fails then leaves nothing behind."""
    place, image = tmp_path / "place", tmp_path / "image"

    def failing(*_: Any) -> None:
        shutil.copytree(place, image)
        raise OurOwnError

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "train", failing)
        with pytest.raises(OurOwnError):
            classifier(6, parties=PARTIES, directory=place).fit(X, Y)
    for _ in range(2):
        with pytest.raises(StorageError, match="training had not begun; remove the directory") as caught:
            opened(image)
        assert caught.value.kind == "missing"
    assert not place.exists()
    classifier(2, parties=PARTIES, directory=place).fit(X, Y).close()


def test_training_goes_on_when_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "_PRAGMAS", (*sqlite._PRAGMAS, "max_page_count = 17"))
        with pytest.raises((StorageError, RefusedError)) as caught:
            classifier(20, parties=PARTIES, directory=tmp_path).fit(X, Y)
        problem = caught.value if isinstance(caught.value, StorageError) else caught.value.__cause__
        assert isinstance(problem, StorageError)
        assert problem.kind == "full"
    model = opened(tmp_path)
    same_answers(model, classifier(20, parties=PARTIES).fit(X, Y))


@pytest.mark.parametrize(
    "fit",
    [
        lambda place: classifier(directory=place, parties={"a": [0]}).fit(X, Y),
        lambda place: classifier(directory=place).fit(X, Y[:-1]),
        lambda place: classifier(directory=place, key_bits=256, allow_insecure_keys=False).fit(X, Y),
        lambda place: classifier(directory=place, decimals=18).fit(X * 1000, Y),
        lambda place: regressor(directory=place, max_features=77).fit(X, NUMBERS),
    ],
    ids=["a column of nobody", "too few labels", "short keys", "too large numbers", "features"],
)
def test_fit_that_cannot_be_done_leaves_the_directory_empty(
    tmp_path: Path, fit: Callable[[Path], object]
) -> None:
    """So that another attempt may use it."""
    with pytest.raises(ValueError, match=r"."):
        fit(tmp_path)
    assert list(tmp_path.iterdir()) == []
