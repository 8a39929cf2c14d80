"""Parties die by SIGKILL at every step of their work: it goes on, and ends as if nothing had happened."""

import signal
from itertools import product
from pathlib import Path

import pytest

from revfrf.errors import RevFRFError
from revfrf.node import api
from tests.node.conftest import Known
from tests.node.federation import Asking, Begin, all_but
from tests.node.founding import SERVING
from tests.node.killing import Killing, check_whole, later_and_later, leave, request, train
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine

MORTAL = ("CS", "KGC", "CC", "h0", "h2")
STEPS = {"CS": 80, "KGC": 40, "CC": 22, "h0": 50, "h1": 56, "h2": 56}
"""About how many steps a party has when nobody dies."""


def killing(begin: Begin, source: Path, **lives: list[int]) -> Killing:
    return Killing(begin(source, start=False), lives)


@pytest.mark.parametrize("party", quick(MORTAL, ["CS"]))
def test_a_party_killed_again_and_again_from_the_set_up_on_delays_a_forest_and_changes_nothing(
    begin: Begin, founded: Path, trained: Known, party: str
) -> None:
    doomed = killing(begin, founded, **{party: later_and_later(1, 7, STEPS[party])})
    train(doomed)
    check_whole(doomed, trained, 1)
    assert doomed.federation.kills >= 4


@pytest.mark.parametrize(("party", "level"), quick(product(MORTAL, (1, 2)), [("KGC", 2), ("h2", 1)]))
def test_a_party_killed_again_and_again_while_h2_leaves_delays_it_and_changes_nothing(
    begin: Begin, trained: Known, never_with_h2: Known, party: str, level: api.RevocationLevel
) -> None:
    lives = [1, 2, 3, 4, 5] if party == "h2" else later_and_later(level, 5, STEPS[party] // 2)
    doomed = killing(begin, trained.directory, **{party: lives})
    leave(doomed, level)
    check_whole(doomed, never_with_h2, 2)
    assert doomed.federation.kills >= 3


@pytest.mark.parametrize(
    ("party", "kills"), quick([("CS", 2), ("KGC", 1), ("CC", 2), ("h1", 2)], [("CC", 2)])
)
def test_a_request_under_way_when_a_party_is_killed_names_somebody_and_can_be_asked_again(
    begin: Begin, trained: Known, party: str, kills: int
) -> None:
    doomed = killing(begin, trained.directory, **{party: [3, 6, 9]})
    request(doomed, trained)
    check_whole(doomed, trained, 1)
    assert doomed.federation.kills >= kills


def test_a_requester_killed_before_or_after_cs_has_answered_can_ask_again(
    begin: Begin, trained: Known
) -> None:
    federation = begin(trained.directory)
    for step in ("PredictRequest to CS: not sent", "PredictRequest to CS: answered"):
        asking = federation.killed_at(step, "clinic", federation.predict)
        with pytest.raises(RevFRFError, match="clinic"):
            asking.outcome()
        federation.start("clinic")
        assert federation.predict() == trained.answers
        federation.stop("clinic")


def test_a_requester_killed_while_its_request_is_under_way_can_ask_again(
    begin: Begin, trained: Known
) -> None:
    federation = begin(trained.directory, start=False)
    federation.start("CS", counted=True, wait=False)
    federation.start(*all_but("CS"), "clinic")
    federation.kill("CC", signal.SIGSTOP)
    asking = Asking(federation.predict)
    steps = federation.directory / "CS.steps"
    federation.until(lambda: "MaskedComparisons to CC: not sent" in steps.read_text(), "CS compares")
    federation.kill("clinic")
    federation.kill("CC", signal.SIGCONT)
    with pytest.raises(RevFRFError, match="clinic"):
        asking.outcome()
    federation.start("clinic")
    assert federation.predict() == trained.answers


@pytest.mark.parametrize("seed", quick([0, 1], [1]))
def test_all_parties_killed_at_once_go_on_together(
    begin: Begin, founded: Path, trained: Known, seed: int
) -> None:
    lives = {party: later_and_later(seed, 3, STEPS[party]) for party in SERVING}
    doomed = killing(begin, founded, **lives)
    train(doomed)
    check_whole(doomed, trained, 1)
    assert doomed.federation.kills >= 8


# -- longer -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("party", SERVING)
def test_a_party_killed_at_any_step_from_the_set_up_on_changes_nothing(
    begin: Begin, founded: Path, trained: Known, party: str
) -> None:
    for step in range(1, STEPS[party] + 1):
        doomed = killing(begin, founded, **{party: [step]})
        train(doomed)
        check_whole(doomed, trained, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("party", SERVING)
def test_a_party_killed_at_any_step_while_another_leaves_changes_nothing(
    begin: Begin, trained: Known, never_with_h2: Known, party: str, level: api.RevocationLevel
) -> None:
    for step in range(1, STEPS[party] + 1):
        doomed = killing(begin, trained.directory, **{party: [step]})
        leave(doomed, level)
        check_whole(doomed, never_with_h2, 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_parties_killed_at_random_for_a_long_time_change_nothing(
    begin: Begin, founded: Path, trained: Known, never_with_h2: Known, level: api.RevocationLevel
) -> None:
    for seed in range(20):
        lives = {party: later_and_later(seed, 3, STEPS[party]) for party in SERVING}
        doomed = killing(begin, trained.directory if level else founded, **lives)
        if level:
            leave(doomed, level)
        else:
            train(doomed)
        check_whole(doomed, never_with_h2 if level else trained, 2 if level else 1)
