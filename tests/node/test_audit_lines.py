"""What a party does by itself stands in its audit log: a line each, without what is secret."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from revfrf.errors import RevFRFError, StorageError, UsageError
from revfrf.names import PARTICIPANT, SERVERS
from revfrf.node import api
from revfrf.node.audit_log import verify_log
from revfrf.node.control import CONTROL, ask
from revfrf.node.home import AUDIT, Home
from revfrf.node.invitations import Invited, invite, join_federation, uninvite
from revfrf.node.roles import run_offline
from revfrf.transport.join_token import Token
from tests.node.conftest import Known
from tests.node.federation import Begin, copied
from tests.node.founding import N_ASKED

pytestmark = pytest.mark.timeout(900)  # on a slow machine

Result = TypeVar("Result")


def lines(home: Path) -> list[tuple[str, dict[str, Any]]]:
    """Events and facts of a log that holds."""
    role = home.name if home.name in SERVERS else PARTICIPANT
    verify_log(home / AUDIT, who=("toys", role, home.name))
    found = map(json.loads, (home / AUDIT).read_text().splitlines())
    return [(line["event"], line["facts"]) for line in found]


def alone(home: Path, request: api.Request[Result]) -> Result:
    return run_offline(home, request, api.no_progress)


@pytest.fixture
def kgc(founded: Path, tmp_path: Path) -> Path:
    """KGC's directory in a federation that is not set up, and does not run."""
    return copied(founded, tmp_path / "federation") / "KGC"


# -- KGC ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [True, False])
def test_invitations_given_and_taken_back_leave_a_line_each_without_the_token(
    begin: Begin, founded: Path, runs: bool
) -> None:
    federation = begin(founded, "CS", "KGC", start=runs)
    home = federation.directory / "KGC"

    def command(request: api.Request[Result]) -> Result:
        return ask(home / CONTROL, request) if runs else alone(home, request)

    before, invitation = lines(home), api.Invite("participant", "eve", days=9)
    first, second = (Token.parse(command(invitation)) for _ in range(2))
    command(api.Uninvite("eve"))
    who = {"role": "participant", "name": "eve", "first": first.serial}
    assert lines(home)[len(before) :] == [
        ("invited", who | {"serial": first.serial}),
        ("invited", who | {"serial": second.serial}),
        ("uninvited", {"name": "eve"}),
    ]


def test_an_invitation_that_is_refused_leaves_no_line(kgc: Path) -> None:
    before = lines(kgc)
    for request in (api.Invite("participant", "H0"), api.Uninvite("eve")):
        with pytest.raises(UsageError):
            alone(kgc, request)
    assert lines(kgc) == before


@pytest.mark.parametrize(
    "act", [lambda home: invite(home, "participant", "eve"), lambda home: uninvite(home, "h0")]
)
def test_nobody_is_invited_or_uninvited_without_a_line(
    kgc: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Home], object]
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    def invited() -> dict[str, Invited]:
        with closing(Home.open(kgc)) as home:
            return home.store.expect("invited", dict[str, Invited])

    before, written = invited(), lines(kgc)
    with closing(Home.open(kgc)) as home, monkeypatch.context() as patch:
        patch.setattr("revfrf.node.audit_log.os.write", full)
        with pytest.raises(StorageError, match="disk is full"):
            act(home)
    assert (invited(), lines(kgc)) == (before, written)


def test_a_request_to_leave_that_kgc_is_brought_leaves_one_line(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, "CS", "KGC", "h2")  # without the others no epoch begins
    before = lines(federation.directory / "KGC")
    request = federation.ask("h2", api.Revoke(2, send=False)).request
    federation.ask("KGC", api.Accept(request))
    with pytest.raises(RevFRFError, match="not a request to leave"):
        federation.ask("KGC", api.Accept(request[:-2]))
    federation.stop("KGC")
    assert lines(federation.directory / "KGC")[len(before) :] == [
        ("accepted a request to leave", {"party": "h2", "level": 2, "epoch": 1}),
        ("stopped", {}),
    ]


# -- the others ---------------------------------------------------------------------------------------


def test_a_new_certificate_leaves_a_line_with_its_number_alone(kgc: Path) -> None:
    own = kgc.parent / "h0"
    with closing(Home.open(kgc)) as centre:
        token = invite(centre, "participant", "h0")
    join_federation(own, token.text())
    with pytest.raises(UsageError, match="ask KGC for a new token"):
        join_federation(own, token.text())
    assert lines(own) == [("TLS certificate renewed", {"serial": token.serial})]


def test_tests_and_requests_leave_a_line_each_with_the_number_of_rows(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory)
    before = lines(federation.directory / "CS")
    file = str(federation.directory / "CS" / "test.csv")
    rows = {"rows": federation.test().rows}
    federation.ask("CS", api.Predict(file))
    assert lines(federation.directory / "CS")[len(before) :] == [("tested", rows), ("predicted", rows)]
    federation.predict("h1")
    asked = [facts for event, facts in lines(federation.directory / "h1") if event == "asked"]
    assert asked == [{"rows": N_ASKED}]
