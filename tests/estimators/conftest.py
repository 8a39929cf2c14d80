"""Forests in directories, trained once and copied for every test."""

import shutil
from pathlib import Path

import pytest

from revfrf.testing.federations import prepared_keys
from tests.estimators.directories import LEVELS, PARTIES, X, Y, opened
from tests.estimators.toys import classifier


@pytest.fixture(scope="session")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Closed directories: a forest, one of another federation, and the first after the bank has left."""
    made = {name: tmp_path_factory.mktemp("made") / name for name in ("first", "other", "left 1", "left 2")}
    with prepared_keys():
        for name in ("first", "other"):
            classifier(6, parties=PARTIES, directory=made[name]).fit(X, Y).close()
        for level in LEVELS:
            name = f"left {level}"
            shutil.copytree(made["first"], made[name])
            model = opened(made[name])
            model.revoke("bank", level)
            model.close()
    return made


@pytest.fixture
def directory(made_before: dict[str, Path], tmp_path: Path) -> Path:
    """A closed forest, for one test alone."""
    return Path(shutil.copytree(made_before["first"], tmp_path / "forest"))
