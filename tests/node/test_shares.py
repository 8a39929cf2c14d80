"""A federation of the shares protocol, as its processes have it: nobody searches for a modulus."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from revfrf.errors import ProtocolError, RefusedError
from revfrf.messages.base import Done, Message
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import AdmissionRequest, EpochAccepted
from revfrf.node import kgc as module
from revfrf.node.members import ParticipantService
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
    assert federation.epoch.erases == (level == 2)
    assert federation.kgc.role.behind == set()


def test_whoever_is_away_keeps_nobody_from_leaving(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch begins at once, and is announced; whoever is away is told when it is back."""
    federation.set_up()
    federation.leave("h2", 2)
    federation.shut("h1")
    until(lambda: "h1" not in federation.services["CS"].endpoint.present())
    federation.kgc.work()
    assert (federation.epoch.epoch, federation.epoch.revoked) == (2, ("h2",))
    assert federation.kgc.role.lifecycle_state().announced
    assert federation.kgc.role.behind == {"h1"}
    federation.open("h1")
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    federation.kgc.work()
    assert federation.kgc.role.behind == set()
    identity = cast(ParticipantService, federation.services["h1"]).role.identity
    assert identity.certificate == federation.epoch


def test_cs_must_accept_a_new_epoch_before_it_is_announced(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would go on answering for those who have left."""

    def refuse(*_: object) -> Message:
        raise ProtocolError("not now")

    federation.set_up()
    federation.leave("h2", 1)
    with monkeypatch.context() as patched:
        patched.setattr(federation.services["CS"].role, "handle", refuse)
        with pytest.raises(RefusedError, match="'CS'"):
            federation.kgc.work()
    assert not federation.kgc.role.lifecycle_state().announced
    federation.kgc.work()
    assert federation.kgc.role.lifecycle_state().announced
    assert federation.kgc.role.behind == set()


def test_whoever_lies_about_its_epoch_keeps_nobody_from_leaving(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.set_up()
    federation.leave("h2", 2)
    monkeypatch.setattr(federation.services["h1"].role, "handle", lambda *_: EpochAccepted(epoch=7))
    federation.kgc.work()
    assert (federation.epoch.epoch, federation.kgc.role.behind) == (2, {"h1"})
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
