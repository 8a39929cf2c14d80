"""Directories of forests: where they may be, one opener at a time, and no part missing, exchanged or old."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import RefusedError, StorageError, UsageError
from revfrf.estimators import _base
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols.common.request import RequestPolicy
from tests.estimators.directories import (
    LEVELS,
    NUMBERS,
    PARTIES,
    ROWS,
    X,
    Y,
    file_of,
    in_memory,
    opened,
    opened_after_all,
    refused,
    same_answers,
)
from tests.estimators.toys import classifier, regressor

pytestmark = pytest.mark.usefixtures("prepared_moduli")

# -- where a forest may be kept ---------------------------------------------------------------------


@pytest.mark.parametrize("content", ["a file", ".hidden", None])
def test_directory_that_is_not_empty_is_refused_before_any_work(
    directory: Path, tmp_path: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = directory if content is None else tmp_path / "place"
    if content is not None:
        place.mkdir()
        (place / content).write_text("mine")
    before = {file: file.stat().st_mtime_ns for file in place.iterdir()}
    bytes_before = {file: file.read_bytes() for file in before}
    monkeypatch.setattr(_base, "cached_setup", lambda *_: pytest.fail("keys were searched for"))
    model = classifier(parties=PARTIES, directory=place)
    with pytest.raises(UsageError, match="is not empty; `open` the forest in it"):
        model.fit(X, Y)
    assert {file: file.stat().st_mtime_ns for file in place.iterdir()} == before
    assert {file: file.read_bytes() for file in bytes_before} == bytes_before
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        with pytest.raises(StorageError):
            classifier(directory=place).fit(X, Y)
        assert refused(lambda place=place: opened(place)) == "wrong-kind"  # type: ignore[misc]
    assert file.read_text() == "mine"


@pytest.mark.parametrize("value", [5, b"bytes", ["list"], True])
def test_directory_is_a_path(value: Any) -> None:
    with pytest.raises(ValueError, match="directory"):
        classifier(directory=value).fit(X, Y)


def test_second_fit_into_a_directory_is_refused_and_the_first_forest_stays(tmp_path: Path) -> None:
    model: Any = classifier(6, parties=PARTIES, directory=tmp_path / "d").fit(X, Y)
    digest = model.digest_
    for attempt in (model, clone(model)):
        with pytest.raises(UsageError, match="is not empty"):
            attempt.fit(X, -Y)
    assert model.digest_ == digest
    model.revoke("telco", 1)
    model.set_params(directory=tmp_path / "e").fit(X, Y)
    assert model.digest_ == digest
    assert opened_after_all(tmp_path / "e") == "in-use"


def test_forest_that_is_fitted_elsewhere_lets_go_of_its_directory_when_closed(tmp_path: Path) -> None:
    model = classifier(3, parties=PARTIES, directory=tmp_path / "d").fit(X, Y)
    first = model.federation_
    model.set_params(directory=None).fit(X, Y)
    model.close()
    first.stores.close()
    assert opened_after_all(tmp_path / "d") == ""


def test_path_may_be_of_any_kind_and_is_a_parameter_like_others(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    for place in (directory, str(directory), directory.name, Path(directory.name)):
        model: Any = RevocableForestClassifier.open(place)
        assert Path(model.directory).samefile(directory)
        parameters = model.get_params()
        assert parameters["n_estimators"] == 6
        assert parameters["parties"] == PARTIES
        copy = clone(model)
        assert copy.get_params() == parameters
        assert not hasattr(copy, "federation_")
        fresh = copy.set_params(directory=None).fit(X, Y)
        assert fresh.digest_ == model.digest_
        model.close()


def test_directory_is_found_when_the_process_has_gone_elsewhere(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths are meant from where the process was: the leaver's database is removed there."""
    monkeypatch.chdir(directory.parent)
    model: Any = RevocableForestClassifier.open(directory.name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    model.revoke("bank")
    assert list(directory.glob("*bank*")) == []
    model.enrol_requester("insurer")
    model.close()
    assert list(elsewhere.iterdir()) == []
    assert len(list(directory.glob("*insurer*"))) == 1
    assert opened_after_all(directory) == ""


def test_directory_with_anything_else_in_it_is_opened_all_the_same(directory: Path) -> None:
    (directory / "notes.txt").write_text("mine")
    model = opened(directory)
    model.revoke("bank")
    model.close()
    assert (directory / "notes.txt").read_text() == "mine"


def test_copy_of_a_directory_is_a_forest_of_its_own(directory: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(directory, tmp_path / "far" / "away"))
    shutil.move(directory, tmp_path / "moved")
    first, second = opened(copy), opened(tmp_path / "moved")
    assert Path(first.directory) == copy
    first.revoke("bank", 1)
    assert first.digest_ != second.digest_
    same_answers(second, in_memory())


# -- one at a time ----------------------------------------------------------------------------------


def test_close_does_nothing_without_a_forest_or_without_a_directory(directory: Path) -> None:
    classifier(directory=directory).close()
    model = in_memory()
    model.close()
    same_answers(model, in_memory())
    model.revoke("bank", 1)


def test_closed_forest_changes_nothing_any_more(directory: Path) -> None:
    model = opened(directory)
    model.close()
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    for call, values in (
        (model.predict_encrypted, (ROWS,)),
        (model.enrol_requester, ("insurer",)),
        (model.set_policy, ("bank", RequestPolicy(max_rows=1))),
        (model.revoke, ("bank", 1)),
        (model.revoke, ("bank", 2)),
    ):
        with pytest.raises((StorageError, RefusedError)):
            call(*values)
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before
    model = opened(directory)
    same_answers(model, in_memory())


# -- parts that are missing, exchanged or old -------------------------------------------------------


def test_forest_of_another_class_is_refused(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds a RevocableForestClassifier, not a Revoc") as caught:
        RevocableForestRegressor.open(directory)
    assert caught.value.kind == "wrong-kind"
    regressor(2, parties=PARTIES, directory=tmp_path / "numbers").fit(X, NUMBERS).close()
    assert refused(lambda: opened(tmp_path / "numbers")) == "wrong-kind"
    assert opened_after_all(directory) == ""


def test_directory_that_is_not_there_or_empty_is_missing(tmp_path: Path) -> None:
    assert refused(lambda: opened(tmp_path / "nowhere")) == "missing"
    assert not (tmp_path / "nowhere").exists()
    assert refused(lambda: opened(tmp_path)) == "missing"
    assert list(tmp_path.iterdir()) == []


PARTS = ["kgc", "cs", "cc", "bank", "telco", "shop"]


@pytest.mark.parametrize("party", PARTS)
def test_directory_without_one_of_its_databases_is_refused_until_it_is_back(
    directory: Path, tmp_path: Path, party: str
) -> None:
    file = file_of(directory, party)
    file.rename(tmp_path / "away")
    assert refused(lambda: opened(directory)) == "missing"
    assert not file.exists()
    (tmp_path / "away").rename(file)
    model = opened(directory)
    same_answers(model, in_memory())


def test_directory_without_a_requesters_database_is_refused(directory: Path) -> None:
    model = opened(directory)
    model.enrol_requester("insurer")
    model.close()
    file_of(directory, "insurer").unlink()
    assert refused(lambda: opened(directory)) == "missing"


@pytest.mark.parametrize(
    ("one", "other"), [("bank", "telco"), ("bank", "shop"), ("cs", "cc"), ("cc", "shop"), ("kgc", "cc")]
)
def test_databases_that_have_changed_places_are_refused(directory: Path, one: str, other: str) -> None:
    first, second = file_of(directory, one), file_of(directory, other)
    between = directory / "between"
    first.rename(between)
    second.rename(first)
    between.rename(second)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


@pytest.mark.parametrize("party", PARTS)
def test_database_of_another_federation_is_refused(
    directory: Path, made_before: dict[str, Path], party: str
) -> None:
    shutil.copy(file_of(made_before["other"], party), file_of(directory, party))
    assert refused(lambda: opened(directory)) == "malformed"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("party", ["kgc", "cs", "cc", "telco", "shop"])
@pytest.mark.parametrize("forest", ["first", "idle"])
def test_database_from_before_a_revocation_is_refused(
    made_before: dict[str, Path], tmp_path: Path, forest: str, party: str, level: RevocationLevel
) -> None:
    """Even if the leaver had no node, and nothing has changed but the epoch and the keys."""
    place = Path(shutil.copytree(made_before[f"{forest} left {level}"], tmp_path / "forest"))
    assert opened_after_all(place) == ""
    shutil.copy(file_of(made_before[forest], party), file_of(place, party))
    assert refused(lambda: opened(place)) in ("malformed", "missing")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("parties", [["kgc"], ["kgc", "cc"], ["kgc", "cs"], ["kgc", "cs", "cc"]], ids=str)
def test_leaver_does_not_come_back_with_its_old_database(
    made_before: dict[str, Path], tmp_path: Path, parties: list[str], level: RevocationLevel
) -> None:
    """Not even with some of the servers as they were, as long as a participant knows better."""
    place = Path(shutil.copytree(made_before[f"first left {level}"], tmp_path / "forest"))
    for party in parties:
        shutil.copy(file_of(made_before["first"], party), file_of(place, party))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    assert refused(lambda: opened(place)) in ("malformed", "missing")


def test_database_of_a_leaver_that_is_put_back_is_removed_again(
    made_before: dict[str, Path], tmp_path: Path
) -> None:
    place = Path(shutil.copytree(made_before["first left 1"], tmp_path / "forest"))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    model = opened(place)
    assert set(model.parties_) == {"telco", "shop"}
    model.close()
    assert not (place / old.name).exists()
