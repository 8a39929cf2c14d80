"""Federations of processes: founded once, trained once, copied for every test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from revfrf.node.api import Predictions
from tests.node.federation import Running, Zygote, copied, running
from tests.node.founding import found_federation, without


@dataclass(frozen=True)
class Known:
    """A federation on disk, and what its forest is and answers."""

    directory: Path
    digest: str
    answers: Predictions


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
