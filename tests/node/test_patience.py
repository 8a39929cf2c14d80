"""What has begun outlasts a party that dies and comes back. What cannot begin says so at once."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from revfrf.errors import RevFRFError
from revfrf.node import api
from revfrf.node.home import CONFIG
from tests.node.conftest import Known
from tests.node.federation import Asking, Begin, Running, all_but
from tests.node.founding import SERVING, configure
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine


# -- tests and requests -----------------------------------------------------------------------------


DEATHS = [
    ("h1", "MatchRequest of CS: not handled", "CS"),
    ("h1", "Align of CS: handled", "CS"),
    ("h1", "TestRequest of CS: not handled", "CS"),
    ("h1", "ShareRequest of CS: not handled", "clinic"),
    ("CC", "MaskedComparisons of CS: handled", "clinic"),
    ("CS", "MaskedComparisons to CC: answered", "clinic"),
]


@pytest.mark.parametrize(("party", "step", "who"), quick(DEATHS, [DEATHS[1], DEATHS[4]]))
def test_a_test_or_request_outlasts_a_party_that_dies_and_comes_back(
    begin: Begin, trained: Known, party: str, step: str, who: str
) -> None:
    federation = begin(trained.directory, *SERVING, "clinic")
    ask: Callable[[], object] = federation.predict if who == "clinic" else federation.test
    expected = trained.answers if who == "clinic" else federation.test()
    asking = federation.killed_at(step, party, ask)
    federation.start(party, wait=False)
    assert asking.outcome() == expected


@pytest.mark.parametrize("who", ["CS", "clinic"])
def test_a_party_that_does_not_come_back_is_named_when_patience_is_over(
    begin: Begin, trained: Known, who: str
) -> None:
    federation = begin(trained.directory, start=False)
    configure(federation.directory / who / CONFIG, patience=4)
    federation.start(*SERVING, "clinic")
    step, ask = ("ShareRequest", federation.predict) if who == "clinic" else ("TestRequest", federation.test)
    asking = federation.killed_at(step, "h1", ask)
    began = time.monotonic()
    with pytest.raises(RevFRFError, match="'h1'") as caught:
        asking.outcome()
    assert caught.value.kind == "absent"
    assert 2 < time.monotonic() - began < 60


@pytest.mark.parametrize("who", ["CS", "clinic"])
def test_a_party_that_is_away_from_the_beginning_is_named_at_once(
    begin: Begin, trained: Known, who: str
) -> None:
    federation = begin(trained.directory, *SERVING, "clinic")
    federation.stop("h1")
    federation.until(lambda: "h1" not in federation.status().connected, "CS has noticed")
    began = time.monotonic()
    with pytest.raises(RevFRFError, match="'h1' is"):
        federation.predict() if who == "clinic" else federation.test()
    assert time.monotonic() - began < 20  # and not as long as patience, which is 30 seconds


# -- setting up -------------------------------------------------------------------------------------


def test_a_key_centre_killed_while_it_tells_of_the_first_epoch_delays_training_and_no_more(
    begin: Begin, founded: Path, trained: Known
) -> None:
    federation = begin(founded, *all_but("KGC"))
    training = federation.killed_at("EpochCertificate to CS: answered", "KGC", federation.train)
    federation.start("KGC", wait=False)
    assert training.outcome().digest == trained.digest


@pytest.mark.parametrize("level", quick([1, 2], [2]))
def test_who_leaves_before_all_know_of_the_forest_is_not_waited_for(
    begin: Begin, founded: Path, never_with_h2: Known, level: api.RevocationLevel
) -> None:
    federation = begin(founded, *all_but("CS"))
    federation.killed_at("OpenForest to h2: answered", "CS", federation.train)
    kept = federation.ask("h2", api.Revoke(level, send=False)).request
    federation.stop("h2")
    federation.ask("KGC", api.Accept(kept))
    federation.start("CS", wait=False)
    assert federation.wait_until_ready(2) == never_with_h2.digest
    [left] = federation.ask("CS", api.History())
    assert (left["leavers"], left["nodes_destroyed"], left["nodes_kept"]) == (["h2"], 0, 0)
    federation.start("clinic")
    assert federation.predict() == never_with_h2.answers


@pytest.mark.parametrize("level", quick([1, 2], [1]))
def test_training_goes_on_without_who_leaves_meanwhile(
    begin: Begin, founded: Path, trained: Known, never_with_h2: Known, level: api.RevocationLevel
) -> None:
    federation = begin(founded, *all_but("h1"))
    training = federation.killed_at("LevelRequest of CS: not handled", "h1", federation.train, 2)
    federation.ask("h2", api.Revoke(level))
    federation.start("h1", wait=False)
    assert training.outcome().digest in (trained.digest, never_with_h2.digest)
    assert federation.wait_until_ready(2) == never_with_h2.digest


# -- rows -------------------------------------------------------------------------------------------


def rename_ids(federation: Running, party: str, keep: int) -> str:
    """Give all rows but the first few ids that nobody else has; what the file was."""
    file = federation.directory / party / "rows.csv"
    text = file.read_text()
    head, *rows = text.splitlines()
    file.write_text("\n".join([head, *rows[:keep], *(f"x{row}" for row in rows[keep:])]) + "\n")
    return text


def test_few_common_ids_stop_the_training_before_anything_is_settled(
    begin: Begin, founded: Path, trained: Known
) -> None:
    federation = begin(founded, start=False)
    right = rename_ids(federation, "h0", 40)
    federation.start()
    with pytest.raises(RevFRFError, match=r"rows are shared \(\d+ with 'h0', .*--min-common") as caught:
        federation.train()
    assert caught.value.kind == "usage"
    assert federation.status().forest_state == "none"
    (federation.directory / "h0" / "rows.csv").write_text(right)
    federation.stop("h0")
    federation.start("h0")
    assert federation.train().digest == trained.digest


def test_few_common_ids_will_do_if_that_is_said(begin: Begin, founded: Path) -> None:
    federation = begin(founded, start=False)
    rename_ids(federation, "h0", 40)
    federation.start()
    assert 0 < federation.ask("CS", api.Train(min_common=0.0)).forest.rows <= 40


def test_matching_counts_rows_and_settles_nothing(begin: Begin, founded: Path, trained: Known) -> None:
    federation = begin(founded)
    found = federation.ask("CS", api.Match())
    assert federation.status().forest_state == "none"
    assert [rows.party for rows in found.participants] == ["h0", "h1", "h2"]
    assert min(rows.shared for rows in found.participants) >= found.shared == federation.train().rows
    assert found.shared + found.not_shared == found.rows
    assert federation.digest() == trained.digest
    with pytest.raises(RevFRFError, match="has fixed the training rows"):
        federation.ask("CS", api.Match())


def test_labels_are_settled_with_their_rows(begin: Begin, founded: Path, trained: Known) -> None:
    federation = begin(founded, *all_but("CS"))
    training = federation.killed_at("Align to h0: not sent", "CS", federation.train)
    file = federation.directory / "CS" / "rows.csv"
    head, *rows = file.read_text().splitlines()
    file.write_text("\n".join([head, *(f"{row.rpartition(',')[0]},perhaps" for row in rows)]) + "\n")
    federation.start("CS", wait=False)
    assert federation.wait_until_ready(1) == trained.digest
    assert training.done


# -- turns ------------------------------------------------------------------------------------------


def test_a_command_never_waits_in_silence_for_another(begin: Begin, founded: Path) -> None:
    federation = begin(founded, *all_but("h2"))
    first = Asking(federation.train)
    federation.until(lambda: federation.status().forest_state == "waiting", "training waits")
    with pytest.raises(RevFRFError, match="the forest is not ready"):
        federation.test()
    said: list[api.Progress] = []
    second = Asking(lambda: federation.ask("CS", api.Train(), said.append).forest)
    waiting = api.Progress("waiting for 'h2'", waiting=True)
    federation.until(lambda: waiting in said, "the second one is told, too")
    federation.start("h2", wait=False)
    assert first.outcome().digest == second.outcome().digest
