"""A federation of the shares protocol, as its processes have it: nobody searches for a modulus."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from revfrf.errors import AbsentError
from revfrf.messages.base import Done
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.node import kgc as module
from revfrf.testing.recorders import until
from tests.node.founding import OWNERS, found_federation
from tests.node.in_process import Federation


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Federation]:
    """One that runs, and is not set up."""
    for search in ("fresh_setup", "fresh_setup_like"):
        monkeypatch.setattr(module, search, lambda *_: pytest.fail("a search for a modulus"))
    found_federation(tmp_path, protocol="shares")
    with closing(Federation(tmp_path)) as running:
        yield running


@pytest.mark.parametrize("level", [1, 2])
def test_federation_is_set_up_and_one_leaves(federation: Federation, level: RevocationLevel) -> None:
    federation.set_up()
    first = federation.epoch
    assert (first.epoch, first.forest_protocol, first.dtpkc) == (1, "shares", None)
    federation.leave("h2", level)
    federation.kgc.work()
    assert (federation.epoch.epoch, federation.epoch.revoked) == (2, ("h2",))
    assert federation.epoch.notes_key == first.notes_key
    receipts = federation.kgc.role.state.receipts
    assert [receipt.party for receipt in receipts or ()] == (["CS", "CC", "h0", "h1"] if level == 2 else [])


def test_whoever_is_away_keeps_nobody_from_leaving(federation: Federation) -> None:
    """The epoch begins at once; it is announced until all know it."""
    federation.set_up()
    federation.leave("h2", 2)
    federation.shut("h1")
    until(lambda: "h1" not in federation.services["CS"].endpoint.present())
    with pytest.raises(AbsentError, match="'h1'"):
        federation.kgc.work()
    assert (federation.epoch.epoch, federation.epoch.revoked) == (2, ("h2",))
    federation.open("h1")
    federation.kgc.work()
    assert federation.kgc.role.lifecycle_state().announced


def test_restarted_parties_go_on_in_the_same_epoch_with_the_same_keys(federation: Federation) -> None:
    federation.set_up()
    epoch, state = federation.epoch, federation.kgc.role.state
    federation.close()
    with closing(Federation(federation.directory)) as again:
        assert (again.epoch, again.kgc.role.state) == (epoch, state)
        assert again.kgc.role.keys is not None
        assert again.kgc.role.keys.notes.verify_key.raw == epoch.notes_key
        again.leave("h2", 2)
        again.kgc.work()
        assert (again.epoch.epoch, again.epoch.notes_key) == (2, epoch.notes_key)
        assert again.kgc.role.lifecycle_state().announced


def test_requester_is_admitted(federation: Federation) -> None:
    federation.set_up()
    clinic = federation.open("clinic")
    clinic.endpoint.call("KGC", AdmissionRequest(), Done)
    admission = federation.kgc.role.state.admitted["clinic"]
    assert (admission.epoch, admission.member.h) == (1, None)
    assert set(federation.epoch.participants) == set(OWNERS)
