"""Forests in directories, trained once and copied for every test."""

import shutil
from pathlib import Path

import pytest

from revfrf.testing.federations import prepared_keys
from tests.estimators.directories import LEVELS, PARTIES, X, Y, opened
from tests.estimators.toys import classifier
from tests.storage.databases import closed_at_the_end

__all__ = ["closed_at_the_end"]


@pytest.fixture(scope="session")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Closed directories: two forests, one in which the bank has no node, and what the bank has left."""
    left = [f"{name} left {level}" for name in ("first", "idle") for level in LEVELS]
    names = ["first", "other", "idle", *left]
    made = {name: tmp_path_factory.mktemp("made") / name for name in names}
    idle = X.copy()
    idle[:, PARTIES["bank"]] = 7
    with prepared_keys():
        for name in ("first", "other", "idle"):
            rows = idle if name == "idle" else X
            classifier(6, parties=PARTIES, directory=made[name]).fit(rows, Y).close()
        for name in left:
            shutil.copytree(made[name.split()[0]], made[name])
            model = opened(made[name])
            certificate = model.revoke("bank", int(name[-1]))
            assert (certificate.core.report.destroyed == 0) == name.startswith("idle")
            model.close()
    return made


@pytest.fixture
def directory(made_before: dict[str, Path], tmp_path: Path) -> Path:
    """A closed forest, for one test alone."""
    return Path(shutil.copytree(made_before["first"], tmp_path / "forest"))
