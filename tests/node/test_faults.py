"""A federation's life over links that drop, double, delay and reorder frames: the same as over good ones."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from revfrf.errors import RejectedError, RevFRFError
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.node import api
from revfrf.node.coordinator import CoordinatorService
from revfrf.node.members import ParticipantService
from revfrf.node.requester import RequesterService
from revfrf.testing.recorders import until
from revfrf.transport.connections import Timeouts
from tests.node.in_process import Federation
from tests.transport.links import LIMITS, SOON, Faults, Unreliable, faithful

pytestmark = pytest.mark.timeout(600)  # on a slow machine

PATIENCE = Timeouts(heartbeat=2.0, call=2.0)
"""Whoever does not hear of a frame that was dropped waits so long for its answer."""

AGAIN = 0.05


@contextmanager
def alive(federation: Federation, limits: Timeouts) -> Iterator[None]:
    """KGC and CS go on with their work, and whoever has lost its link to CS dials again."""
    over = Event()

    def dial() -> None:
        cs = federation.services["CS"].endpoint
        while not over.wait(AGAIN):
            for name, service in federation.services.items():
                if name != "CS" and not (name in cs.present() and service.endpoint.present()):
                    with suppress(RejectedError):  # it has left
                        federation.link(service.endpoint, service.home)

    working = [federation.services[name] for name in ("KGC", "CS")]
    threads = [Thread(target=dial), *(Thread(target=service.loop.run) for service in working)]
    for service in federation.services.values():
        service.endpoint.limits = limits
    for thread in threads:
        thread.start()
    yield
    over.set()
    for service in working:
        service.stop()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)


def insist(ask: Callable[[], Any], failures: list[RevFRFError]) -> Any:
    """Ask, as an operator would, until there is an answer."""
    end = time.monotonic() + SOON
    while True:
        try:
            return ask()
        except RevFRFError as error:
            failures.append(error)
            assert time.monotonic() < end, failures
            time.sleep(AGAIN)


def life(
    directory: Path, faults: Callable[[], Faults], limits: Timeouts, failures: list[RevFRFError]
) -> list[Any]:
    """Training, a test, a request, h2 leaves, a request, h1 leaves, a test: what comes of each."""
    federation = Federation(directory, faults)
    cs, clinic = federation.services["CS"], federation.open("clinic")
    assert isinstance(cs, CoordinatorService)
    assert isinstance(clinic, RequesterService)
    tests, rows = str(directory / "CS" / "test.csv"), str(directory / "clinic" / "rows.csv")

    def leave(name: str, level: RevocationLevel, epoch: int) -> str:
        leaver = federation.services[name]
        assert isinstance(leaver, ParticipantService)
        insist(lambda: cs.job.epoch == epoch or leaver.command(api.Revoke(level)), failures)
        until(lambda: cs.job.epoch == epoch and cs.role.ready)
        return cs.role.digest()

    def test() -> Any:
        return insist(lambda: cs.command(api.Test(tests)), failures)

    def request() -> Any:
        return insist(lambda: clinic.command(api.PredictEncrypted(rows)), failures)

    with alive(federation, limits):
        found = [insist(lambda: cs.command(api.Train()), failures).forest.digest, test(), request()]
        found += [leave("h2", 1, 2), request(), leave("h1", 2, 3), test()]
    federation.close()
    return found


@pytest.fixture(scope="module")
def undisturbed(founded: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    directory = Path(shutil.copytree(founded, tmp_path_factory.mktemp("good") / "federation"))
    failures: list[RevFRFError] = []
    found = life(directory, lambda: faithful, LIMITS, failures)
    assert failures == []
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))])
def test_a_whole_life_over_bad_links_is_the_same_as_over_good_ones(
    founded: Path, tmp_path: Path, undisturbed: list[Any], seed: int
) -> None:
    chances, seeds, failures = iter(range(15)), count(1000 * seed), list[RevFRFError]()
    directory = Path(shutil.copytree(founded, tmp_path / "federation"))
    bad_links = lambda: Unreliable(next(seeds), 100, chances)  # noqa: E731
    assert life(directory, bad_links, PATIENCE, failures) == undisturbed
    assert next(chances, 15) > 5  # faults
    assert {error.kind for error in failures} <= {"absent", "refused"}
