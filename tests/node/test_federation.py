"""A federation of separate processes does what one process does, and refuses what it should."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from revfrf import RevocableForestClassifier
from revfrf.errors import RevFRFError
from revfrf.forest.seeds import master_seed, participant_secret
from revfrf.node import api
from revfrf.node.control import CONTROL, process_of
from revfrf.node.home import CONFIG
from tests.node.conftest import Known
from tests.node.federation import LONG, Begin, Running, all_but, by_itself, copied, move, running
from tests.node.founding import (
    MISSING,
    N_ASKED,
    N_TRAINED,
    OWNERS,
    SERVING,
    columns,
    configure,
    ids,
    labels,
    port_of_own,
    write_rows,
)
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine

ROWS = N_TRAINED - 3


@pytest.mark.slow
def test_a_federation_by_its_command_line_from_training_to_a_certificate(
    founded: Path, trained: Known, never_with_h2: Known, tmp_path: Path
) -> None:
    with running(copied(founded, tmp_path / "federation"), by_itself) as federation:
        command = federation.command
        grown = json.loads(command("train", "-d", "CS", "--json"))
        assert (grown["existed"], grown["changed"]) == (False, [])
        assert "random_state in [forest] replaces this party's secret" in federation.log("h0")
        assert participant_secret(master_seed(10), "h0").hex() not in federation.log("h0")
        forest = grown["forest"]
        assert (forest["digest"], forest["rows"], forest["not_shared"]) == (trained.digest, ROWS, 3)
        tested = json.loads(command("test", "CS/test.csv", "-d", "CS", "--json"))
        assert (tested["rows"], tested["not_shared"]) == (43, 1)
        assert tested["accuracy"] > 0.5
        predicted = json.loads(command("predict", "CS/test.csv", "-d", "CS", "--json"))
        assert len(predicted["prediction"]) == 43
        for name in ("clinic", "h0"):
            asked = command("predict", "--encrypted", "clinic/rows.csv", "-d", name, "--json")
            assert msgspec.json.decode(asked, type=api.Predictions) == trained.answers
        assert "it has left" in command("revoke", "-d", "h2", "--yes", "--level", "2")
        command("export", "certificate.json", "-d", "CS")  # at once: it waits
        command("verify", "certificate.json", "--kgc-key", "h0/kgc.pub")
        assert federation.wait_until_ready(2) == never_with_h2.digest
        assert federation.ended("h2") == 0
        federation.until(federation.all_signed, "all have signed")
        command("export", "certificate.json", "-d", "CS")
        creation, entry = json.loads(command("history", "-d", "CS", "--json"))
        assert (creation["event"], entry["leavers"]) == ("creation", ["h2"])
        assert entry["salted_digest_before"] == creation["salted_digest"]
        verified = json.loads(command("verify", "certificate.json", "--kgc-key", "h0/kgc.pub", "--json"))
        assert entry.items() <= verified.items()
        assert "h2" in command("status", "-d", "CS")
        said = command("predict", "--encrypted", "clinic/rows.csv", "-d", "h2", code=2)
        assert "`revfrf serve` is not running" in said
        assert "'h2' has left the forest" in said
        assert "cannot be audited" in command("audit", "-d", "CS", code=2)
        federation.stop()
        assert entry["salted_digest"] == federation.salted(never_with_h2.digest).hex()


def test_the_same_random_state_grows_the_forest_of_the_library(trained: Known) -> None:
    """On the shared rows, in the order of their ids."""
    missing = MISSING["h0"] + MISSING["h1"]
    rows = [place for place, name in enumerate(ids()[:N_TRAINED]) if name not in missing]
    model = RevocableForestClassifier(
        4,
        max_depth=5,
        max_features=0.5,
        n_candidates=8,
        parties={owner: [3 * i, 3 * i + 1, 3 * i + 2] for i, owner in enumerate(OWNERS)},
        protocol="paper",
        key_bits=256,
        allow_insecure_keys=True,
        random_state=10,
    )
    table = {name: values for owned in columns().values() for name, values in owned.items()}
    X = pd.DataFrame(table).iloc[rows]
    assert model.fit(X, np.array(labels())[rows]).digest_ == trained.digest


def test_a_requester_without_a_process_is_told_who_refuses(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, start=False)
    configure(federation.directory / "h0" / CONFIG, accepts=["nobody"])
    configure(federation.directory / "clinic" / CONFIG, heartbeat=1)  # so long CS is dialled in vain
    federation.start()
    said = federation.command("predict", "--encrypted", "clinic/rows.csv", "-d", "clinic", code=3)
    assert "'h0' has refused" in said
    federation.stop("CS")
    said = federation.command("predict", "--encrypted", "clinic/rows.csv", "-d", "clinic", code=3)
    assert "does not answer" in said
    assert said.count("\n") == 1  # and gRPC is silent


@pytest.mark.parametrize("level", quick([1, 2], [2]))
def test_a_forest_that_a_participant_has_left_is_the_one_without_it(
    begin: Begin, trained: Known, never_with_h2: Known, level: api.RevocationLevel
) -> None:
    federation = begin(trained.directory)
    federation.ask("h2", api.Revoke(level))
    assert federation.wait_until_ready(2) == never_with_h2.digest
    assert federation.ended("h2") == 0
    assert federation.log("h2").count("CS no longer accepts this party: it has left") == 1
    assert "WARNING refused" not in federation.log("h0")
    federation.start("clinic")
    assert federation.predict() == never_with_h2.answers
    federation.stop()
    federation.start("h2", "CS", wait=False)
    assert federation.ended("h2") == 0


def test_whoever_leaves_while_the_forest_grows_is_not_in_it(
    begin: Begin, founded: Path, never_with_h2: Known
) -> None:
    federation = begin(founded, *all_but("h0"))
    asking = federation.killed_at("LevelRequest of CS: handled", "h0", federation.train, 2)
    federation.ask("h2", api.Revoke(2))
    federation.start("h0", wait=False)
    assert federation.wait_until_ready(2) == never_with_h2.digest
    federation.until(lambda: asking.done, "the operator who has asked for the forest is answered")


def test_the_last_participant_cannot_leave(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory)
    federation.ask("h2", api.Revoke(1))
    federation.wait_until_ready(2)
    federation.until(lambda: federation.status("h1").epoch == 2, "h1 is in epoch 2")
    federation.ask("h1", api.Revoke(1))
    federation.wait_until_ready(3)
    with pytest.raises(RevFRFError, match="the last participant cannot leave"):
        federation.ask("h0", api.Revoke(1))
    assert federation.status().epoch == 3


def test_two_who_leave_at_once_have_both_left(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory)
    federation.ask("h1", api.Revoke(1))
    with suppress(RevFRFError):  # KGC may have begun an epoch already
        federation.ask("h2", api.Revoke(2))

    def is_whole() -> bool:
        """Without all who have left; KGC may begin another epoch as soon as one has ended."""
        left = {
            name for entry in federation.ask("CS", api.History())[1:] for name in entry.get("leavers", ())
        }
        return "h1" in left and federation.is_ready() and {*federation.status().left} == left

    federation.until(is_whole, "the forest is whole")


def test_owners_decide_whose_requests_they_answer_and_how_many(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, start=False)
    configure(federation.directory / "h1" / CONFIG, max_rows=2 * N_ASKED)  # it was asked about as many before
    federation.start(*SERVING, "clinic")
    assert federation.predict() == trained.answers
    with pytest.raises(RevFRFError, match="'h1' has refused") as caught:
        federation.predict()
    assert caught.value.kind == "refused"
    assert federation.predict("h0") == trained.answers


def test_everything_is_as_it_was_after_all_processes_are_started_again(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory)
    federation.stop()
    federation.start(*SERVING, "clinic")
    assert federation.train().digest == federation.digest() == trained.digest
    assert federation.predict() == trained.answers
    assert [federation.status(name).problem for name in SERVING] == [""] * len(SERVING)


# -- rows -------------------------------------------------------------------------------------------


def test_a_participant_with_an_id_twice_does_not_start(begin: Begin, founded: Path) -> None:
    federation = begin(founded, start=False)
    file = federation.directory / "h0" / "rows.csv"
    file.write_text(file.read_text() + "p001,1,2,3\n")
    federation.start("h0", wait=False)
    assert federation.ended("h0") == 2
    assert "rows.csv" in federation.log("h0")
    assert "p001" in federation.log("h0")


def test_a_coordinator_with_an_id_twice_does_not_start_until_it_has_its_forest(
    begin: Begin, founded: Path, trained: Known
) -> None:
    for directory, code in ((founded, 2), (trained.directory, None)):
        federation = begin(directory, start=False)
        file = federation.directory / "CS" / "rows.csv"
        file.write_text(file.read_text() + "p001,yes\n")
        federation.start("CS", wait=code is None)
        if code is None:
            assert federation.digest() == trained.digest
        else:
            assert federation.ended("CS") == code
            assert "rows.csv" in federation.log("CS")
            assert "p001" in federation.log("CS")


def test_whom_the_training_waits_for_is_said(begin: Begin, founded: Path, trained: Known) -> None:
    federation = begin(founded, *all_but("h1"))
    command = [sys.executable, "-m", "revfrf", "train", "-d", "CS"]
    with subprocess.Popen(
        command, cwd=federation.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        federation.until(lambda: "waiting for 'h1'" in federation.status().problem, "it waits for h1")
        assert federation.status().forest_state == "waiting"
        federation.start("h1")
        out, err = asking.communicate(timeout=LONG)
    assert trained.digest in out
    assert err.startswith("waiting for 'h1'\n")
    assert federation.status().problem == ""


def test_ids_that_nobody_shares_are_an_error_that_names_the_party_and_can_be_mended(
    begin: Begin, founded: Path, trained: Known
) -> None:
    federation = begin(founded)
    federation.stop("h1")
    strange = federation.directory / "h1" / "rows.csv"
    shutil.copy(strange, federation.directory / "kept.csv")
    strange.write_text(strange.read_text().replace("\np", "\nq"))
    federation.start("h1")
    with pytest.raises(RevFRFError, match=r"no row is shared .*, 0 with 'h1'") as caught:
        federation.train()
    assert re.search(
        r"CS's are those of .*/CS/rows.csv, column 'id': 'p\d+', 'p\d+' and 58 more$", str(caught.value)
    )
    assert federation.status().forest_state == "none"
    assert "'h1'" in (federation.status().stopped or "")
    federation.stop("h1")
    shutil.copy(federation.directory / "kept.csv", strange)
    federation.start("h1")
    assert federation.train().digest == trained.digest


def test_files_that_change_after_the_training_change_no_forest(
    begin: Begin, trained: Known, never_with_h2: Known
) -> None:
    federation = begin(trained.directory, start=False)
    other = {name: [value + 1 for value in values] for name, values in columns()["h0"].items()}
    write_rows(federation.directory / "h0" / "rows.csv", [x for x in ids() if x not in MISSING["h0"]], other)
    swapped = {"label": ["no" if label == "yes" else "yes" for label in labels()]}
    write_rows(federation.directory / "CS" / "rows.csv", ids()[:N_TRAINED], swapped)
    federation.start()
    assert federation.digest() == trained.digest
    federation.ask("h2", api.Revoke(1))
    assert federation.wait_until_ready(2) == never_with_h2.digest


def test_a_file_without_the_columns_that_were_trained_on_is_refused(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, start=False)
    write_rows(federation.directory / "h0" / "rows.csv", ids(), {"other": [1.0] * len(ids())})
    federation.start("h0", wait=False)
    assert federation.ended("h0") == 2
    assert "rows.csv" in federation.log("h0")


# -- old copies -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(trained: Known, zygote: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation that h2 has left, with new keys."""
    directory = copied(trained.directory, tmp_path_factory.mktemp("left") / "federation")
    with running(directory, zygote) as federation:  # type: ignore[arg-type]
        federation.ask("h2", api.Revoke(2))
        federation.wait_until_ready(2)
        federation.ended("h2")
        federation.stop()
    return directory


@pytest.mark.parametrize("party", quick(["CS", "CC", "KGC", "h0"], ["CC", "h0"]))
def test_a_directory_from_before_the_last_epoch_is_noticed_and_answers_nothing(
    begin: Begin, trained: Known, left: Path, party: str
) -> None:
    federation = begin(left, start=False)
    shutil.rmtree(federation.directory / party)
    shutil.copytree(trained.directory / party, federation.directory / party)
    move(federation.directory, port_of_own())
    federation.start("CS", "KGC", "CC", "h0", "h1", "clinic")
    with pytest.raises(RevFRFError) as caught:
        federation.predict()
    assert caught.value.kind == "refused"
    assert "its log says why" in str(caught.value)
    if party in ("CS", "h0"):
        with pytest.raises(RevFRFError, match="'h0' has refused"):
            federation.test()
    assert "old copy" in federation.logs()


# -- processes --------------------------------------------------------------------------------------


def test_a_directory_has_one_process_and_an_address_one_coordinator(begin: Begin, founded: Path) -> None:
    federation = begin(founded, "CS")
    first = federation.processes.pop("CS")
    federation.start("CS", wait=False)
    assert federation.ended("CS") == 2
    assert "`revfrf serve` or another command is running there" in federation.log("CS")
    federation.processes["CS"] = first
    assert federation.status().role == "CS"
    assert process_of(federation.directory / "CS" / CONTROL) == first.pid
    second = copied(founded, federation.directory.parent / "second")
    shutil.copy(federation.directory / "CS" / CONFIG, second / "CS" / CONFIG)
    other = Running(second, federation.spawn)
    other.start("CS", wait=False)
    assert other.ended("CS") == 2
    assert "the port is in use" in other.log("CS")


def test_the_socket_of_a_dead_process_is_no_process(begin: Begin, founded: Path) -> None:
    federation = begin(founded, "CS")
    federation.kill("CS")
    assert (federation.directory / "CS" / CONTROL).exists()
    assert process_of(federation.directory / "CS" / CONTROL) is None
    with pytest.raises(RevFRFError, match="`revfrf serve` is not running"):
        federation.status()
    federation.start("CS")
    assert federation.status().role == "CS"
