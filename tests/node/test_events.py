"""Events in real processes of the shares protocol: nobody waits for those who are away; audits of CS."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from revfrf.cli.app import app
from revfrf.crypto.signing import SigningKey
from revfrf.io.public_key import load_verify_key, save_verify_key
from revfrf.node import api
from revfrf.node.home import DATABASE
from revfrf.protocols.certificate import EventCertificate
from tests.node.conftest import Known, of_library
from tests.node.federation import Begin, Running, all_but
from tests.node.killing import Killing, check_whole, later_and_later, leave
from tests.storage.tampering import edit, edit_data, fields, recompute_checksums, with_byte

pytestmark = pytest.mark.timeout(900)  # on a slow machine


def last_certificate(federation: Running) -> EventCertificate:
    """CS's last event certificate, which holds."""
    certificate = EventCertificate.from_json(federation.ask("CS", api.Export()).encode())
    certificate.verify(load_verify_key(federation.directory / "h0" / "kgc.pub"))
    return certificate


def check_all_signed(federation: Running) -> None:
    """In the end everybody has signed, and the audit holds."""
    federation.until(federation.all_signed, "all have signed")
    assert last_certificate(federation).unsigned == {}
    found = federation.ask("CS", api.AuditForest())
    assert (found.holds, found.digest, found.missing_receipts) == (True, federation.digest(), ())


# -- who is away ------------------------------------------------------------------------------------


def test_everybody_countersigns_the_creation(begin: Begin, shares: Known) -> None:
    federation = begin(shares.directory)
    check_all_signed(federation)
    [entry] = federation.ask("CS", api.History())
    assert (entry["event"], entry["receipts"]) == ("creation", {"used cuts": ["h0", "h1", "h2"]})


@pytest.mark.parametrize("level", [1, 2])
def test_a_participant_that_is_away_delays_no_leaving_and_signs_when_it_is_back(
    begin: Begin, shares: Known, without_h2: str, level: api.RevocationLevel
) -> None:
    """Also if KGC and CS were killed in between."""
    federation = begin(shares.directory, *all_but("h1"))
    federation.ask("h2", api.Revoke(level))
    assert federation.wait_until_ready(2) == without_h2
    assert federation.ended("h2") == 0
    federation.until(lambda: federation.missing_receipts() == ["h1"], "all others have signed")
    before = last_certificate(federation)
    audited = federation.ask("CS", api.AuditForest())
    assert (audited.holds, audited.missing_receipts) == (True, ("h1",))
    federation.kill("KGC")
    federation.kill("CS")
    federation.start("CS", "KGC", "h1", wait=False)
    federation.wait_until_connected()
    federation.until(lambda: federation.status("h1").epoch == 2, "h1 enters the epoch")
    check_all_signed(federation)
    after = last_certificate(federation)
    assert after.core == before.core
    assert set(after.receipts) > set(before.receipts)
    federation.stop()


def test_a_participant_that_has_missed_two_epochs_enters_both_and_signs(begin: Begin, shares: Known) -> None:
    federation = begin(shares.directory, *all_but("h1"))
    for epoch, leaver in ((2, "h2"), (3, "h0")):
        federation.ask(leaver, api.Revoke(2))
        digest = federation.wait_until_ready(epoch)
        assert federation.ended(leaver) == 0
    assert digest == of_library("h2", "h0").digest_
    assert federation.missing_receipts() == ["h1"]
    federation.start("h1")
    federation.until(lambda: federation.status("h1").epoch == 3, "h1 is in the last epoch")
    federation.until(federation.all_signed, "h1 has signed")
    assert federation.ask("CS", api.History())[1]["missing_receipts"] == ["h1"]  # it was not there
    federation.stop()


def test_cc_that_is_away_delays_no_leaving_and_signs_when_it_is_back(
    begin: Begin, shares: Known, without_h2: str
) -> None:
    federation = begin(shares.directory, *all_but("CC"))
    federation.ask("h2", api.Revoke(2))
    assert federation.wait_until_ready(2) == without_h2
    federation.until(lambda: federation.missing_receipts() == ["CC"], "all others have signed")
    federation.start("CC", wait=False)
    check_all_signed(federation)


# -- kills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("party", "level"), [("CS", 2), ("KGC", 1)])
def test_a_party_killed_again_and_again_while_h2_leaves_loses_no_receipt(
    begin: Begin, shares: Known, without_h2: str, party: str, level: api.RevocationLevel
) -> None:
    doomed = Killing(begin(shares.directory, start=False), {party: later_and_later(level, 5, 30)})
    leave(doomed, level)
    check_whole(doomed, Known(shares.directory, without_h2, None), 2)
    assert doomed.federation.kills >= 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("party", ["CS", "KGC", "CC", "h0", "h2"])
def test_a_party_killed_at_any_step_while_another_leaves_loses_no_receipt(
    begin: Begin, shares: Known, without_h2: str, party: str, level: api.RevocationLevel
) -> None:
    for step in range(1, 60 if party == "CS" else 30):
        doomed = Killing(begin(shares.directory, start=False), {party: [step]})
        leave(doomed, level)
        check_whole(doomed, Known(shares.directory, without_h2, None), 2)


# -- audits of a copy -------------------------------------------------------------------------------


@pytest.fixture
def copy(shares: Known, tmp_path: Path) -> Path:
    """A copy of CS's directory, in which nothing runs."""
    return Path(shutil.copytree(shares.directory / "CS", tmp_path / "copy"))


def audited(directory: Path, *more: object) -> tuple[int, Any]:
    """The exit code of an audit, and what it prints."""
    done = CliRunner().invoke(app, ["audit", "-d", str(directory), "--json", *map(str, more)])
    return done.exit_code, msgspec.json.decode(done.stdout or "null")


def test_a_copy_of_cs_s_directory_is_audited_where_nothing_runs(copy: Path, shares: Known) -> None:
    code, found = audited(copy, "--kgc-key", shares.directory / "h0" / "kgc.pub")
    assert (code, found["holds"], found["problems"]) == (0, True, {})
    assert (found["digest"], found["missing_receipts"]) == (shares.digest, [])
    shown = CliRunner().invoke(app, ["audit", "-d", str(copy)])
    assert (shown.exit_code, shown.output.splitlines()[0]) == (
        0,
        "The forest is the one that its inputs define.",
    )


def test_a_key_of_another_key_centre_is_1(copy: Path, tmp_path: Path) -> None:
    save_verify_key(tmp_path / "other.pub", SigningKey.generate().verify_key)
    code, found = audited(copy, "--kgc-key", tmp_path / "other.pub")
    assert (code, [*found["problems"]]) == (1, ["event certificates"])


TAMPERED: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "a sum in a leaf": (
        lambda file: edit_data(file, "trees", lambda data: with_byte(data, len(data) - 8)),
        {"forest"},
    ),
    "a feature that there is not": (
        lambda file: edit_data(file, "trees", lambda data: with_byte(data, 12, 64)),
        {"bins", "used cuts", "forest"},
    ),
    "a label": (
        lambda file: edit(file, "targets", fields(values=lambda values: values[8:] + values[:8])),
        {"inputs", "forest"},
    ),
    "bins": (
        lambda file: edit_data(file, "bins", lambda data: data[1:] + data[:1]),
        {"bins", "used cuts", "forest"},
    ),
    "the seed": (lambda file: edit(file, "forest", fields(seed=with_byte)), {"inputs", "forest"}),
    "the events": (lambda file: edit(file, "certificates", lambda _: []), set()),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_copy_that_was_changed_by_hand_does_not_hold_although_its_checksums_do(
    copy: Path, what: str
) -> None:
    change, expected = TAMPERED[what]
    change(copy / DATABASE)
    assert audited(copy)[0] == 2  # its checksums are wrong
    recompute_checksums(copy / DATABASE)
    code, found = audited(copy)
    if expected:
        assert (code, found["holds"], found["problems"].keys()) == (1, False, expected)
    else:
        assert (code, found["kind"]) == (2, "usage")  # nothing is certified


def test_what_cannot_be_audited_is_2(shares: Known, trained: Known, tmp_path: Path) -> None:
    paper = Path(shutil.copytree(trained.directory / "CS", tmp_path / "paper"))
    owner = Path(shutil.copytree(shares.directory / "h0", tmp_path / "h0"))
    for directory, reason in (
        (paper, "cannot be audited"),
        (owner, "`audit` is for CS"),
        (tmp_path, "no revfrf.toml"),
    ):
        code, found = audited(directory)
        assert (code, reason in found["reason"]) == (2, True), found
