"""Forests on disk, made once for a file of tests and copied for every kill."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from revfrf.names import CC, CS
from revfrf.testing.federations import prepared_keys
from tests.crashes.forests import POLICY, REGRESSION, THREE, Before, Small, before_of
from tests.killing import in_process, some_place


@pytest.fixture(scope="module", autouse=True)
def _prepared_moduli() -> Iterator[None]:
    """And everything compiled that children need."""
    with prepared_keys():
        for forest in (THREE, REGRESSION):
            model = forest.estimator().fit(forest.rows(), forest.target)
            model.revoke("bank", 2)
            model.predict_encrypted(forest.rows()[:1])
        yield


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Where directories are; in memory if there is such a place: nobody cuts the power here."""
    memory = Path("/dev/shm")  # noqa: S108
    usable = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**28
    with tempfile.TemporaryDirectory(dir=memory if usable else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def prepared(place: Path) -> Callable[[Small], Before]:
    """A forest on disk, with a policy, and a requester from outside whom everybody knows."""

    @lru_cache
    def prepare(forest: Small) -> Before:
        directory = some_place(place)

        def work() -> Before:
            model = forest.estimator(directory).fit(forest.rows(), forest.target)
            model.enrol_requester("clinic")
            model.predict_encrypted(forest.rows()[:1], "telco")
            for party in (CS, CC, *forest.parties):
                model.set_policy(party, POLICY)
            before = before_of(forest, directory, model.federation_)
            model.close()
            return before

        return in_process(work)

    return prepare
