"""Directories with a database missing, exchanged, or from before a revocation are never opened."""

import shutil
from pathlib import Path

import pytest

from revfrf import RevocableForestRegressor
from revfrf.errors import StorageError
from revfrf.messages.frf_revoc import RevocationLevel
from tests.estimators.directories import (
    LEVELS,
    NUMBERS,
    PARTIES,
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


def test_database_that_others_can_read_is_refused_with_a_remedy(directory: Path) -> None:
    for file in directory.iterdir():
        file.chmod(0o640)
        with pytest.raises(StorageError, match="chmod 600") as caught:
            opened(directory)
        assert caught.value.kind == "mode"
        file.chmod(0o600)
    assert opened_after_all(directory) == ""


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
    model.close()


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
def test_database_from_before_a_revocation_is_refused(
    made_before: dict[str, Path], tmp_path: Path, party: str, level: RevocationLevel
) -> None:
    place = Path(shutil.copytree(made_before[f"left {level}"], tmp_path / "forest"))
    assert opened_after_all(place) == ""
    shutil.copy(file_of(made_before["first"], party), file_of(place, party))
    assert refused(lambda: opened(place)) in ("malformed", "missing")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("party", ["kgc", "cs", "cc", "telco", "shop"])
def test_database_from_before_is_refused_even_if_the_leaver_had_no_node(
    tmp_path: Path, party: str, level: RevocationLevel
) -> None:
    """Nothing of the forest has changed but its epoch and its keys."""
    rows = X.copy()
    rows[:, PARTIES["bank"]] = 7
    classifier(3, parties=PARTIES, directory=tmp_path / "first").fit(rows, Y).close()
    place = Path(shutil.copytree(tmp_path / "first", tmp_path / "left"))
    model = opened(place)
    assert model.revoke("bank", level).report.destroyed == 0
    model.close()
    assert opened_after_all(place) == ""
    shutil.copy(file_of(tmp_path / "first", party), file_of(place, party))
    assert refused(lambda: opened(place)) in ("malformed", "missing")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("parties", [["kgc"], ["kgc", "cc"], ["kgc", "cs"], ["kgc", "cs", "cc"]], ids=str)
def test_leaver_does_not_come_back_with_its_old_database(
    made_before: dict[str, Path], tmp_path: Path, parties: list[str], level: RevocationLevel
) -> None:
    """Not even with some of the servers as they were, as long as a participant knows better."""
    place = Path(shutil.copytree(made_before[f"left {level}"], tmp_path / "forest"))
    for party in parties:
        shutil.copy(file_of(made_before["first"], party), file_of(place, party))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    assert refused(lambda: opened(place)) in ("malformed", "missing")


def test_database_of_a_leaver_that_is_put_back_is_removed_again(
    made_before: dict[str, Path], tmp_path: Path
) -> None:
    place = Path(shutil.copytree(made_before["left 1"], tmp_path / "forest"))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    model = opened(place)
    assert set(model.parties_) == {"telco", "shop"}
    model.close()
    assert not (place / old.name).exists()
