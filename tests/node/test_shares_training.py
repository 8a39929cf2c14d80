"""A federation of processes with the shares protocol, from training to a certificate, with kills."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from revfrf.errors import RevFRFError
from revfrf.forest.targets import TargetsRecord
from revfrf.io.public_key import load_verify_key
from revfrf.messages.alignment import NumberedRows
from revfrf.node import api
from revfrf.node.home import CONFIG, Home
from revfrf.node.training_job import Training
from revfrf.protocols.certificate import EventCertificate
from tests.node.conftest import Known, of_library
from tests.node.federation import Begin, by_itself, copied, running
from tests.node.founding import (
    MISSING,
    N_TRAINED,
    OWNERS,
    columns,
    configure,
    found_federation,
    ids,
)

pytestmark = pytest.mark.timeout(900)  # on a slow machine


def test_a_federation_by_its_command_line_from_init_to_a_certificate(
    tmp_path: Path, grown: str, without_h2: str
) -> None:
    directory = tmp_path / "federation"
    found_federation(directory, protocol="shares")
    with running(copied(directory, tmp_path / "running"), by_itself) as federation:
        command = federation.command
        forest = json.loads(command("train", "-d", "CS", "--json"))["forest"]
        assert (forest["digest"], forest["rows"], forest["not_shared"]) == (grown, N_TRAINED - 3, 3)
        tested = json.loads(command("test", "CS/test.csv", "-d", "CS", "--json"))
        assert (tested["rows"], tested["not_shared"]) == (43, 1)
        assert tested["accuracy"] > 0.5
        predicted = json.loads(command("predict", "CS/test.csv", "-d", "CS", "--json"))
        assert set(predicted["prediction"]) == {"yes", "no"}
        status = json.loads(command("status", "-d", "CS", "--json"))
        assert (status["forest_state"], status["epoch"]) == ("ready", 1)
        assert "h0" in command("status", "-d", "h0")
        command("export", "--forest", "forest.json", "-d", "CS")
        structure = json.loads((federation.directory / "forest.json").read_text())
        assert structure["digest"] == grown
        assert structure["rules"]["cuts"] == {"type": "books"}
        assert len(structure["splits"]) + len(structure["leaves"]) == forest["nodes"]
        assert {feature.split("/")[0] for _, _, feature, _ in structure["splits"]} <= {*OWNERS}
        assert "it has left" in command("revoke", "-d", "h2", "--yes", "--level", "2")
        command("export", "certificate.json", "-d", "CS")  # at once: it waits
        verified = json.loads(command("verify", "certificate.json", "--kgc-key", "h0/kgc.pub", "--json"))
        assert federation.wait_until_ready(2) == without_h2
        assert federation.ended("h2") == 0
        creation, entry = json.loads(command("history", "-d", "CS", "--json"))
        assert (creation["event"], entry["leavers"]) == ("creation", ["h2"])
        assert (creation["salted_digest"], entry["salted_digest"]) == (
            entry["salted_digest_before"],
            verified["salted_digest"],
        )
        audited = json.loads(command("audit", "-d", "CS", "--kgc-key", "h0/kgc.pub", "--json"))
        assert (audited["holds"], audited["digest"]) == (True, without_h2)
        command("report", "page.html", "-d", "CS")
        assert without_h2 in (federation.directory / "page.html").read_text()
        said = command("predict", "--encrypted", "clinic/rows.csv", "-d", "clinic", code=2)
        assert "encrypted requests need protocol='paper'" in said
        federation.stop()


@pytest.mark.parametrize("level", [1, 2])
def test_a_forest_that_a_participant_has_left_is_the_library_s_without_it(
    begin: Begin, shares: Known, without_h2: str, level: api.RevocationLevel
) -> None:
    federation = begin(shares.directory)
    before = federation.test()
    federation.ask("h2", api.Revoke(level))
    assert federation.wait_until_ready(2) == without_h2
    assert federation.ended("h2") == 0
    after = federation.test()
    assert (after.rows, before.rows) == (43, 43)
    certificate = EventCertificate.from_json(federation.ask("CS", api.Export()).encode())
    certificate.verify(load_verify_key(federation.directory / "h0" / "kgc.pub"))
    assert (certificate.level, certificate.leavers) == (level, ("h2",))
    federation.until(lambda: federation.status("h1").epoch == 2, "h1 is in epoch 2")
    federation.ask("h1", api.Revoke(level))
    assert federation.wait_until_ready(3) == of_library("h2", "h1").digest_
    federation.stop()


def test_predictions_are_those_of_the_library(begin: Begin, shares: Known) -> None:
    federation = begin(shares.directory)
    found = federation.ask("CS", api.Predict(str(federation.directory / "CS" / "test.csv")))
    table = pd.DataFrame(
        {name: values for owned in columns().values() for name, values in owned.items()}, index=ids()
    )
    assert list(found.prediction) == of_library().predict(table.loc[list(found.ids)]).tolist()
    assert len(found.ids) == 43


def test_encrypted_requests_are_refused_with_the_reason(begin: Begin, shares: Known) -> None:
    federation = begin(shares.directory)
    federation.start("clinic")
    for name in ("clinic", "h0"):
        with pytest.raises(RevFRFError, match="encrypted requests need protocol='paper'"):
            federation.predict(name)
    assert federation.status().problem == ""


@pytest.mark.parametrize(
    ("name", "step", "number"),
    [
        ("CS", "BinsRequest to h1: answered", 1),
        ("CS", "commit of party.db: before", 8),
        ("h1", "BinsRequest of CS: not handled", 1),
        ("h1", "BinsRequest of CS: handled, not answered", 1),
    ],
    ids=["CS without bins", "CS before a commit", "an owner without a book", "an owner with one"],
)
def test_training_goes_on_when_a_party_was_killed(
    begin: Begin, shares_founded: Path, grown: str, name: str, step: str, number: int
) -> None:
    federation = begin(shares_founded, start=False)
    others = [other for other in ("CS", "KGC", "CC", *OWNERS) if other != name]
    federation.start(*others)
    federation.killed_at(step, name, federation.train, number)
    federation.start(name, wait=False)
    federation.wait_until_connected()
    federation.until(lambda: trained(federation.train), "the forest is trained")
    assert federation.wait_until_ready(1) == grown


def trained(train: Callable[[], object]) -> bool:
    """Whether the operator's command has succeeded; somebody may still be away."""
    try:
        train()
    except RevFRFError:
        return False
    return True


@pytest.mark.parametrize(
    "step",
    [
        "EpochCertificate of KGC: handled",
        "EventReport to KGC: not sent",
        "EventReport to KGC: answered",
        "EventNotice to h0: not sent",
        "EventNotice to h0: answered",
    ],
)
def test_leaving_goes_on_when_the_coordinator_was_killed(
    begin: Begin, shares: Known, without_h2: str, step: str
) -> None:
    federation = begin(shares.directory)
    federation.killed_at(step, "CS", lambda: federation.ask("h2", api.Revoke(2)))
    federation.start("CS", wait=False)
    assert federation.wait_until_ready(2) == without_h2
    federation.until(federation.all_signed, "all have signed")
    assert [entry.get("leavers") for entry in federation.ask("CS", api.History())] == [None, ["h2"]]
    assert federation.ask("CS", api.AuditForest()).holds


def test_whoever_leaves_before_all_bins_have_arrived_is_not_in_the_forest(
    begin: Begin, shares_founded: Path, without_h2: str
) -> None:
    """The others have drawn their books in an epoch that has ended since; they draw no others."""
    federation = begin(shares_founded, "CS", "KGC", "CC", "h0", "h2")
    federation.killed_at("BinsRequest of CS: handled", "h1", federation.train)
    federation.ask("h2", api.Revoke(1))
    federation.start("h1", wait=False)
    assert federation.wait_until_ready(2) == without_h2


def test_cs_and_every_owner_have_written_down_the_same_numbers_of_the_same_ids(shares: Known) -> None:
    """CS counts the shared rows from 0 in the order of their ids, and remembers which number is next."""
    missing = MISSING["h0"] + MISSING["h1"]
    shared = [name for name in sorted(ids()[:N_TRAINED]) if name not in missing]
    with closing(Home.open(shares.directory / "CS")) as home:
        record = home.store.expect("training", Training)
        targets = home.store.expect("targets", TargetsRecord).targets()
    rows = record.expect_rows()
    numbers, names = rows.read(len(rows))
    assert (numbers.tolist(), names) == ([*range(len(shared))], shared)
    assert record.next_number == len(shared)
    assert targets.numbers.tolist() == numbers.tolist()
    for owner in OWNERS:
        with closing(Home.open(shares.directory / owner)) as home:
            own = NumberedRows(home.store.expect("numbers", bytes), home.store.expect("ids", str))
        assert own == rows


def test_rows_of_an_owner_are_the_same_after_a_restart(begin: Begin, shares: Known, grown: str) -> None:
    federation = begin(shares.directory)
    score = federation.test()
    federation.stop()
    configure(federation.directory / "h0" / CONFIG, random_state=11)  # too late to matter
    federation.start()
    assert federation.train().digest == grown
    assert federation.test() == score
