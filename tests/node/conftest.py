"""Federations of processes: founded once, trained once, copied for every test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from revfrf import RevocableForestClassifier
from revfrf.node.api import Predictions
from tests.node.federation import Running, Zygote, copied, running
from tests.node.founding import MISSING, N_TRAINED, OWNERS, columns, found_federation, ids, labels, without


@dataclass(frozen=True)
class Known:
    """A federation on disk, and what its forest is and answers, if the protocol has encrypted requests."""

    directory: Path
    digest: str
    answers: Predictions | None


def of_library(*leavers: str) -> RevocableForestClassifier:
    """The forest of the same rows and rules in one process, which these have left."""
    missing = MISSING["h0"] + MISSING["h1"]
    rows = [place for place, name in enumerate(ids()[:N_TRAINED]) if name not in missing]
    table = {name: values for owned in columns().values() for name, values in owned.items()}
    model = RevocableForestClassifier(
        4,
        max_depth=5,
        max_features=0.5,
        parties={owner: [3 * i, 3 * i + 1, 3 * i + 2] for i, owner in enumerate(OWNERS)},
        random_state=10,
    )
    model.fit(pd.DataFrame(table).iloc[rows], np.array(labels())[rows])
    for leaver in leavers:
        model.revoke(leaver, 1)
    return model


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    yield found
    found.close()


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories in which nothing has happened yet."""
    directory = tmp_path_factory.mktemp("founded") / "federation"
    found_federation(directory)
    return directory


def _trained(directory: Path, zygote: Zygote) -> Known:
    with running(directory, zygote) as federation:
        digest = federation.train().digest
        federation.start("clinic")
        answers = federation.predict()
        federation.stop()
    return Known(directory, digest, answers)


@pytest.fixture(scope="session")
def trained(founded: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """With a forest of all three owners."""
    return _trained(copied(founded, tmp_path_factory.mktemp("trained") / "federation"), zygote)


@pytest.fixture(scope="session")
def never_with_h2(founded: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """With a forest of two owners, and the same secrets; the third one was never in the federation."""
    directory = copied(founded, tmp_path_factory.mktemp("without") / "federation")
    without(directory, "h2")
    (directory / "h2").rename(directory.parent / "h2")
    return _trained(directory, zygote)


@pytest.fixture(scope="session")
def shares_founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories in which nothing has happened yet."""
    directory = tmp_path_factory.mktemp("founded") / "federation"
    found_federation(directory, protocol="shares")
    return directory


@pytest.fixture(scope="session")
def shares(shares_founded: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """With a forest of all three owners, who have all signed."""
    directory = copied(shares_founded, tmp_path_factory.mktemp("trained") / "federation")
    with running(directory, zygote) as federation:
        digest = federation.train().digest
        federation.until(federation.all_signed, "all have signed")
        federation.stop()
    return Known(directory, digest, None)


@pytest.fixture(scope="session")
def grown() -> str:
    return of_library().digest_


@pytest.fixture(scope="session")
def without_h2() -> str:
    return of_library("h2").digest_


@pytest.fixture
def begin(tmp_path: Path, zygote: Zygote) -> Iterator[Callable[..., Running]]:
    """Start a copy of a federation, with these processes or all."""
    begun: list[Running] = []

    def begin(source: Path, *names: str, start: bool = True) -> Running:
        directory = copied(source, tmp_path / f"federation {len(begun)}")
        begun.append(Running(directory, zygote))
        if start:
            begun[-1].start(*names)
        return begun[-1]

    yield begin
    for federation in begun:
        federation.end()
