"""A directory that is restored from a copy of its epoch is noticed, or as good as before, or it is lost."""

import shutil
import signal
from pathlib import Path

import pytest

from revfrf.errors import RevFRFError
from revfrf.node import api
from revfrf.node.control import CONTROL
from tests.node.conftest import Known
from tests.node.federation import Asking, Begin, Running, all_but
from tests.node.founding import SERVING
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine


def with_copy(begin: Begin, founded: Path, party: str, step: tuple[str, int]) -> Running:
    """A federation with a whole forest, which does not run, and a copy of this party from this step on."""
    federation = begin(founded, start=False)
    federation.start(*all_but(party), wait=False)
    federation.start(party, dies=step, wait=False)
    federation.until(lambda: bool(federation.quiet_status()), "CS runs")
    training = Asking(federation.train)
    assert federation.ended(party) == -signal.SIGKILL
    sockets = shutil.ignore_patterns(CONTROL)
    shutil.copytree(federation.directory / party, copy_of(federation, party), ignore=sockets)
    federation.start(party)
    if party == "CS":
        training = Asking(federation.train)
    training.outcome()
    federation.stop()
    return federation


def copy_of(federation: Running, party: str) -> Path:
    return federation.directory / f"copy of {party}"


def swap(federation: Running, party: str) -> None:
    """The party has its copy, and the copy is what it was."""
    here, there = federation.directory / party, copy_of(federation, party)
    aside = federation.directory / "aside"
    for source, target in ((here, aside), (there, here), (aside, there)):
        source.rename(target)


COPIES = [("h0", ("LevelRequest of CS: not handled", 3)), ("CC", ("OpenForest of CS: not handled", 1))]


@pytest.mark.parametrize(
    ("party", "step"),
    quick(COPIES, COPIES[:1]),
)
def test_a_party_that_has_forgotten_the_forest_is_named_and_comes_back_with_the_right_copy(
    begin: Begin, founded: Path, trained: Known, party: str, step: tuple[str, int]
) -> None:
    federation = with_copy(begin, founded, party, step)
    swap(federation, party)
    federation.start(*SERVING, "clinic")
    with pytest.raises(RevFRFError, match=f"'{party}' has refused") as caught:
        federation.predict()
    assert caught.value.kind == "refused"
    federation.stop()
    swap(federation, party)
    federation.start(*SERVING, "clinic")
    assert federation.digest() == trained.digest
    assert federation.predict() == trained.answers


@pytest.mark.slow
def test_a_coordinator_from_the_middle_of_the_training_ends_with_the_same_forest(
    begin: Begin, founded: Path, trained: Known
) -> None:
    federation = with_copy(begin, founded, "CS", ("LevelRequest to h1: answered", 2))
    swap(federation, "CS")
    federation.start(*SERVING, "clinic")
    assert federation.wait_until_ready(1) == trained.digest
    assert federation.predict() == trained.answers


@pytest.mark.parametrize("level", quick([1, 2], [2]))
def test_a_party_whose_disk_is_lost_leaves_by_a_request_that_it_has_kept(
    begin: Begin, trained: Known, never_with_h2: Known, level: api.RevocationLevel
) -> None:
    federation = begin(trained.directory)
    kept = federation.ask("h2", api.Revoke(level, send=False)).request
    assert federation.status("KGC").epoch == 1  # it is a request that nobody has
    federation.kill("h2")
    shutil.rmtree(federation.directory / "h2")
    federation.ask("KGC", api.Accept(kept))
    assert federation.wait_until_ready(2) == never_with_h2.digest
    federation.start("clinic")
    assert federation.predict() == never_with_h2.answers
