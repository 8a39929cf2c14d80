"""Stolen and withdrawn tokens, requests to leave at the wrong moment, and names and directories that lie."""

import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from time import sleep
from typing import Any, cast

import numpy as np
import pytest

from revfrf.embedded import moduli
from revfrf.embedded.moduli import cached_setup, fresh_setup_like
from revfrf.errors import (
    AbsentError,
    LetterError,
    PassportError,
    ProtocolError,
    RefusedError,
    RejectedError,
    StorageError,
    UsageError,
)
from revfrf.lifecycle import check_somebody_stays
from revfrf.messages.alignment import Align, NumberedRows
from revfrf.messages.base import Done, Message
from revfrf.messages.events import CertifiedInputs, EventReport, Report
from revfrf.messages.frf_predict import ForestQuery
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.messages.key_setup import AdmissionRequest
from revfrf.node import api
from revfrf.node.config import with_overrides
from revfrf.node.home import AUDIT, Home, Pins
from revfrf.node.invitations import Invited, create_federation, invite, join_federation, uninvite
from revfrf.node.members import ParticipantService
from revfrf.parallel import side_by_side
from revfrf.protocols.certificate import sign_revocation
from revfrf.protocols.frf_revoc import next_epoch
from revfrf.testing.recorders import Recorder, until
from revfrf.transport.calls import Endpoint
from revfrf.transport.frames import Frame
from revfrf.transport.grpc import Dialler, Server
from revfrf.transport.join_token import Authority
from revfrf.transport.passport import PartyId
from tests.federations import modulus
from tests.node.founding import OWNERS, SERVING
from tests.node.in_process import Federation
from tests.transport.asking import digests
from tests.transport.federation import one_time_keys
from tests.transport.links import LIMITS, SOON, Known, invited_by, known, nothing, place
from tests.transport.parties import authority

LOOK_ALIKES = [" eve", "eve ", ".", "..", "...", "ｈ0", "h⁰", "ﬁrm", "e\u0301ve", "ＣＳ"]
RESERVED = ["cs", "Kgc", "cC", "REQUESTER"]
INPUTS = CertifiedInputs(bytes(32), bytes(32), bytes(32), bytes(32), n_rows=1, features=())
REPORT = EventReport(
    report=Report(
        epoch=bytes(32),
        forest=bytes(16),
        inputs_before=INPUTS,
        inputs_after=INPUTS,
        digest_before=bytes(32),
        digest_after=bytes(32),
        destroyed=1,
        rebuilt=1,
        kept=1,
        waits_for=(),
        signature=bytes(64),
    )
)
MEETING = 0.3
"""Seconds that one thread waits for another that a lock keeps away."""


@pytest.fixture
def copy(founded: Path, tmp_path: Path) -> Path:
    """A federation that is not set up."""
    return Path(shutil.copytree(founded, tmp_path / "federation"))


@pytest.fixture
def centre(copy: Path) -> Iterator[Home]:
    """KGC's directory."""
    with closing(Home.open(copy / "KGC")) as home:
        yield home


@pytest.fixture(scope="module")
def begun(founded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation in its first epoch; mallory had a token that was withdrawn before, and has used it."""
    directory = Path(shutil.copytree(founded, tmp_path_factory.mktemp("begun") / "federation"))
    with closing(Home.open(directory / "KGC")) as centre:
        token = invite(centre, "participant", "mallory")
        uninvite(centre, "mallory")
    join_federation(directory / "mallory", token.text(), allow_insecure=True)
    with closing(Federation(directory)) as federation:
        federation.set_up()
    return directory


@pytest.fixture
def federation(begun: Path, tmp_path: Path) -> Iterator[Federation]:
    """A federation in its first epoch that runs."""
    with closing(Federation(Path(shutil.copytree(begun, tmp_path / "begun")))) as running:
        yield running


@pytest.fixture
def new_federation(copy: Path) -> Iterator[Federation]:
    """A federation that runs, and is not set up."""
    with closing(Federation(copy)) as running:
        yield running


def then(function: Callable[..., Any], more: Callable[[], object]) -> Callable[..., Any]:
    """The same function; something else happens before it ends."""

    def longer(*arguments: Any) -> Any:
        result = function(*arguments)
        more()
        return result

    return longer


def meeting() -> Callable[[], None]:
    """A place where a thread waits for another one, if it comes soon."""
    barrier = Barrier(2)

    def wait() -> None:
        with suppress(BrokenBarrierError):
            barrier.wait(MEETING)

    return wait


def invited_names(home: Home) -> set[str]:
    return set(home.store.expect("invited", dict[str, Invited]))


# -- tokens -------------------------------------------------------------------------------------------


def test_a_stolen_renewal_token_of_cc_gets_no_share_and_cc_itself_renews(federation: Federation) -> None:
    kgc, cs, thief_dir = federation.kgc, federation.services["CS"], federation.directory / "thief"
    join_federation(thief_dir, invite(kgc.home, "CC", "CC").text(), allow_insecure=True)
    home, role = Home.open(thief_dir), Recorder(nothing)
    thief = federation.stranger(home, role)
    federation.shut("CC")
    with pytest.raises(PassportError, match="is not the member of that name"):
        kgc.admit(home.tls().passport)
    with pytest.raises(PassportError, match="is not the member of that name"):
        federation.link(thief, home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cs.endpoint, "_admit", lambda _: None)  # CS is in league with the thief
        federation.link(thief, home)
    federation.leave("h2")
    with pytest.raises(PassportError, match="is not the member of that name"):
        kgc.work()
    assert (role.calls, federation.epoch.epoch) == ([], 1)
    home.close()
    join_federation(federation.directory / "CC", invite(kgc.home, "CC", "CC").text())
    federation.open("CC")
    kgc.work()
    assert (federation.epoch.epoch, federation.members()) == (2, ["CC", "CS", "h0", "h1"])
    assert federation.services["CC"].certificate == federation.epoch


def test_a_withdrawn_token_is_refused_by_kgc_and_the_next_one_of_that_name_is_not(
    copy: Path, new_federation: Federation
) -> None:
    kgc = new_federation.kgc
    withdrawn = invite(kgc.home, "participant", "eve")
    uninvite(kgc.home, "eve")
    passports = []
    for name, token in (("thief", withdrawn), ("eve", invite(kgc.home, "participant", "eve"))):
        join_federation(copy / name, token.text(), allow_insecure=True)
        with closing(Home.open(copy / name)) as home:
            passports.append(home.tls().passport)
    with pytest.raises(PassportError, match="'eve' is not invited"):
        kgc.admit(passports[0])
    kgc.admit(passports[1])


@pytest.mark.parametrize("name", ["mallory", "clinic"])
def test_whose_token_was_withdrawn_does_not_become_a_requester(federation: Federation, name: str) -> None:
    if name == "clinic":
        uninvite(federation.kgc.home, name)
    role = Recorder(nothing)
    with closing(Home.open(federation.directory / name)) as home:
        endpoint = federation.stranger(home, role)
        federation.link(endpoint, home)
        with pytest.raises(RefusedError):
            endpoint.call("KGC", AdmissionRequest(), Done)
    assert (role.calls, federation.kgc.role.state.admitted) == ([], {})


def remembers_a_share(federation: Federation) -> bool:
    """Whether KGC has the set-up of the current epoch, or its process keeps it for later forests."""
    kept = {made.parameters.n for made in moduli._made.values()}
    return federation.kgc._setup is not None or modulus(federation.epoch) in kept


def test_kgc_has_no_share_of_an_epoch_that_has_begun(
    new_federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if not everybody could be told of it."""
    new_federation.set_up()
    assert not remembers_a_share(new_federation)
    new_federation.leave("h2")
    role = new_federation.services["h0"].role
    monkeypatch.setattr(role, "epoch_began", lambda: 1 / 0)
    with pytest.raises(RefusedError, match="'h0'"):
        new_federation.kgc.work()
    assert (new_federation.epoch.epoch, new_federation.kgc.role.lifecycle_state().announced) == (2, False)
    assert not remembers_a_share(new_federation)


def test_while_somebody_is_away_nothing_is_searched_dealt_or_written(federation: Federation) -> None:
    federation.leave("h2")
    federation.shut("h1")
    until(lambda: "h1" not in federation.services["CS"].endpoint.present())
    deals = federation.kgc.role.state.deals
    for _ in range(3):
        with pytest.raises(AbsentError, match="'h1'"):
            federation.kgc.work()
    assert (federation.kgc.role.state.deals, federation.kgc._setup) == (deals, None)
    assert federation.epoch.epoch == 1


def test_a_requester_that_does_not_answer_its_admission_is_admitted_once_at_a_time(
    federation: Federation,
) -> None:
    """It lets KGC wait, and asks again: KGC waits for it once."""
    called, go_on = Event(), Event()

    def stall(_: str, message: Message) -> Message:
        called.set()
        go_on.wait(2 * SOON)
        raise ProtocolError(f"no answer to a {type(message).__name__}")

    with closing(Home.open(federation.directory / "clinic")) as home:
        endpoint = federation.stranger(home, Recorder(stall))
        federation.link(endpoint, home)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(endpoint.call, "KGC", AdmissionRequest(), Done)
            assert called.wait(SOON)
            for _ in range(20):
                with pytest.raises(RefusedError):
                    endpoint.call("KGC", AdmissionRequest(), Done)
            go_on.set()
            assert isinstance(first.exception(SOON), RefusedError)
    assert federation.kgc.role.state.admitted == {}
    assert "admitted" not in (federation.directory / "KGC" / AUDIT).read_text()


def test_a_question_that_costs_nothing_fills_no_audit_log(federation: Federation) -> None:
    federation.open("clinic").endpoint.call("KGC", AdmissionRequest(), Done)
    assert list(federation.kgc.role.state.admitted) == ["clinic"]
    query, cs = ForestQuery(admission=federation.kgc.role.state.admitted["clinic"]), federation.services["CS"]
    lines = len((federation.directory / "CS" / AUDIT).read_text().splitlines())
    for _ in range(50):
        for sender in ("clinic", "h0"):
            cs._log_answer(sender, query)
    assert len((federation.directory / "CS" / AUDIT).read_text().splitlines()) == lines + 2


def test_requests_to_leave_that_are_only_repeated_fill_no_audit_log(federation: Federation) -> None:
    identity, kgc = cast(ParticipantService, federation.services["h0"]).role.identity, federation.kgc
    lines = len((federation.directory / "KGC" / AUDIT).read_text().splitlines())
    levels: tuple[RevocationLevel, ...] = (1, 1, 1, 1, 2, 2, 2, 2)
    for level in levels:
        kgc.answer("h0", sign_revocation(identity, bytes(16), level))
    assert len((federation.directory / "KGC" / AUDIT).read_text().splitlines()) == lines + 2
    assert kgc.role.state.leaving["h0"].level == 2


def test_a_participant_holds_no_more_tables_than_a_few_however_many_cs_names(federation: Federation) -> None:
    role = cast(ParticipantService, federation.services["h2"]).role
    rows = NumberedRows.of(np.arange(2), ("p000", "p001"))
    for number in range(50):
        role.handle("CS", Align(epoch=1, table=f"test {number}", rows=rows))
    held = [f"test {number}" for number in range(46, 50)]
    assert list(role.tables) == list(role.numbers) == held


def test_cs_lets_in_no_requester_whom_its_policy_refuses(federation: Federation) -> None:
    cs = federation.services["CS"]
    cs.config = with_overrides(cs.config, refuses=("clinic",))
    with (
        closing(Home.open(federation.directory / "clinic")) as home,
        pytest.raises(PassportError, match="refused by our policy"),
    ):
        federation.link(federation.stranger(home, Recorder(nothing)), home)
    assert "clinic" not in cs.endpoint.present()


def test_no_serial_number_is_given_twice(copy: Path, centre: Home) -> None:
    given = sorted(known.serial for known in centre.store.expect("invited", dict[str, Invited]).values())
    for name in ("eve", "eve", "mallory", "clinic"):
        given.append(invite(centre, "requester", name).serial)
        uninvite(centre, name)
    centre.close()
    with closing(Home.open(copy / "KGC")) as again:
        given.append(invite(again, "participant", "eve").serial)
    assert given == sorted(set(given))


def test_invitations_at_once_have_serial_numbers_of_their_own_and_none_is_lost(
    centre: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Authority, "invite", then(Authority.invite, meeting()))
    with ThreadPoolExecutor(2) as pool:
        tokens = list(pool.map(lambda name: invite(centre, "requester", name), ("r1", "r2")))
    assert tokens[0].serial != tokens[1].serial
    assert invited_names(centre) >= {"r1", "r2"}


# -- whoever says that it is CS -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "thief", [known("eve"), invited_by(authority(), PartyId("CS", "CS"))], ids=["eve", "CS"]
)
def test_whoever_welcomes_with_another_passport_is_not_taken_for_cs(copy: Path, thief: Known) -> None:
    home, bank = Home.open(copy / "h0"), known("bank")
    pins = Pins(home.store)
    pins.admit(known("CS").passport)
    bad = invited_by(authority(), PartyId("CS", "CS"), 1)
    victim = Endpoint(bank.who, Recorder(nothing), bank.sealing, LIMITS, admit=pins.admit)
    server = Server(Endpoint(bad.who, digests, thief.sealing, LIMITS), bad.tls, "127.0.0.1:0")
    dialler = Dialler(victim, bank.tls, f"127.0.0.1:{server.port}")
    try:
        until(lambda: dialler.problem or victim.present())
        assert "is not the coordinator that we know" in dialler.problem
        assert (victim.present(), victim.meetings()) == (set(), {})
    finally:
        dialler.close()
        server.close()
        home.close()


# -- letters that CS has kept -------------------------------------------------------------------------


def test_with_the_directories_of_all_nobody_reads_the_letters_of_the_set_up(
    new_federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has kept what passed CS, and gets hold of everything later; the keys are in no file."""
    cs, passed = new_federation.services["CS"].endpoint, list[Frame]()
    received = cs.received

    def keep(link: Any, data: bytes) -> None:
        passed.append(Frame.decode(data))
        received(link, data)

    monkeypatch.setattr(cs, "received", keep)
    with one_time_keys() as made:
        new_federation.set_up()
    new_federation.close()
    letters = [frame for frame in passed if frame.kind == "call" and frame.recipient not in ("CS", "KGC")]
    assert {letter.recipient for letter in letters} == {"CC", *OWNERS}
    assert {letter.piece[:32] for letter in letters} <= {key.public_key().public_bytes_raw() for key in made}
    for name in SERVING:
        with closing(Home.open(new_federation.directory / name)) as home:
            sealing, files = home.sealing(), files_of(home)
            assert home.signing().export() in files
            for letter in letters:
                with pytest.raises(LetterError):
                    sealing.open(place(letter), letter.piece)
            for key in made:
                raw = key.private_bytes_raw()
                assert not any(text in files for text in (raw, raw.hex().encode(), b64encode(raw)))


def files_of(home: Home) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.path.rglob("*")) if path.is_file())


# -- leaving ------------------------------------------------------------------------------------------


def test_who_asks_to_leave_again_and_again_keeps_nobody_from_leaving(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = partial(federation.leave, "h2")
    monkeypatch.setattr("revfrf.node.kgc.fresh_setup_like", then(fresh_setup_like, again))
    monkeypatch.setattr("revfrf.roles.kgc.next_epoch", then(next_epoch, again))
    federation.leave("h0")
    federation.leave("h2")
    federation.kgc.work()
    assert (federation.epoch.epoch, federation.epoch.revoked) == (2, ("h0", "h2"))
    assert len(federation.kgc.role.state.nonces) == 2


def test_a_higher_level_counts_also_while_the_epoch_of_the_lower_one_begins(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    kgc, before = federation.kgc, federation.epoch
    federation.leave("h2", 1)
    with monkeypatch.context() as patch:
        patch.setattr("revfrf.roles.kgc.next_epoch", then(next_epoch, lambda: federation.leave("h2", 2)))
        with pytest.raises(ProtocolError, match="begin again"):
            kgc.work()
    federation.leave("h2", 1)
    assert kgc.role.state.leaving["h2"].level == 2
    kgc.work()
    assert (federation.epoch.epoch, federation.epoch.revoked) == (2, ("h2",))
    assert federation.epoch.dtpkc != before.dtpkc


def test_lie_of_cs_that_a_party_has_left_erases_nothing(federation: Federation) -> None:
    """Only a party that has asked to leave erases what it has of the forest."""
    service = cast(ParticipantService, federation.services["h0"])
    secret, keys = service.role.secret, service.role.identity.keys
    service.on_expelled()
    assert (service.role.secret, service.role.identity.keys) == (secret, keys)
    assert keys is not None
    service.home.store.write(asked_to_leave=True)
    service.on_expelled()
    assert service.role.secret != secret
    assert service.role.identity.keys is None


def test_of_the_last_two_who_ask_at_once_one_is_refused_and_the_other_leaves(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    kgc = federation.kgc
    federation.leave("h2", 1)

    def leaves(name: str) -> bool:
        try:
            federation.leave(name, 1)
        except RefusedError:
            return False
        return True

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr("revfrf.roles.kgc.check_somebody_stays", then(check_somebody_stays, meeting()))
        left = dict(zip(("h0", "h1"), pool.map(leaves, ("h0", "h1")), strict=True))
    assert sorted(left.values()) == [False, True]
    kgc.work()
    assert federation.epoch.epoch == 2
    assert federation.members() == ["CC", "CS", *(name for name in left if not left[name])]


@pytest.fixture
def leaver(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> ParticipantService:
    """Who asks as its operator would have it; of the forest it needs only the name."""
    service = cast(ParticipantService, federation.services["h2"])
    monkeypatch.setattr(service.role, "leave", partial(sign_revocation, service.role.identity, bytes(16)))
    return service


@pytest.mark.parametrize("level", [1, 2])
def test_whoever_leaves_asks_kgc_alone_and_cs_learns_it_by_the_epoch(
    federation: Federation, leaver: ParticipantService, level: RevocationLevel
) -> None:
    cs = federation.services["CS"]
    leaver.command(api.Revoke(level))
    federation.kgc.work()
    assert cs.status(api.Status()).left == ("h2",)
    events = [json.loads(line)["event"] for line in (cs.home.path / AUDIT).read_text().splitlines()]
    assert events[-1] == "EpochCertificate"
    assert "RevocationRequest" not in events


def test_whoever_gets_no_answer_is_told_that_kgc_may_have_the_request_and_may_ask_again(
    federation: Federation, leaver: ParticipantService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link breaks when KGC has the request."""
    call, kgc = leaver.endpoint.call, federation.kgc

    def broken(*given: Any) -> Any:
        call(*given)
        raise AbsentError("KGC", "is not connected")

    with monkeypatch.context() as patch:
        patch.setattr(leaver.endpoint, "call", broken)
        with pytest.raises(AbsentError, match="KGC may have the request anyway: retry"):
            leaver.command(api.Revoke(2))
    taken = kgc.role.state.leaving
    assert set(taken) == {"h2"}
    assert leaver.command(api.Revoke(2)) == api.Departure("h2", 2, asked_in_epoch=1)
    assert kgc.role.state.leaving == taken
    assert len(kgc.role.state.nonces) == 1


# -- invitations that are withdrawn during the set-up -------------------------------------------------


@pytest.mark.parametrize("when", ["fresh_setup", "side_by_side"])
def test_who_is_uninvited_during_the_set_up_is_out(
    new_federation: Federation, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Before keys are dealt, or after: it begins again, without it."""
    places: dict[str, tuple[str, Callable[..., Any]]] = {
        "fresh_setup": ("revfrf.node.kgc", cached_setup),
        "side_by_side": ("revfrf.protocols.key_setup", side_by_side),
    }
    module, function = places[when]
    slow = then(function, lambda: uninvite(new_federation.kgc.home, "h2"))
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.{when}", slow)
        with pytest.raises(RejectedError, match=r"not invited|begin again"):
            new_federation.set_up()
    assert new_federation.kgc.certificate is None
    new_federation.set_up()
    assert new_federation.members() == ["CC", "CS", "h0", "h1"]


def test_a_report_and_a_request_to_leave_do_not_wait_for_each_other(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes the locks that the other has, in the same order."""
    kgc = federation.kgc
    with ThreadPoolExecutor(1) as pool:
        other: list[Any] = []

        def certify(*_: Any) -> Any:
            other.append(pool.submit(federation.leave, "h0"))
            sleep(MEETING)
            kgc.role._update()
            raise ProtocolError("not now")

        monkeypatch.setattr(kgc.role, "_certify", certify)
        with pytest.raises(ProtocolError, match="not now"):
            kgc.answer("CS", REPORT)
        other[0].result(SOON)
    assert set(kgc.role.state.leaving) == {"h0"}


# -- directories and names ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_can_write_to_is_refused(centre: Home, copy: Path, mode: int) -> None:
    renewal, token = invite(centre, "participant", "h0"), invite(centre, "participant", "eve")
    (copy / "eve").mkdir()
    for name in ("h0", "eve"):
        (copy / name).chmod(mode)
    attempts: list[Callable[[], object]] = [
        lambda: Home.open(copy / "h0"),
        lambda: join_federation(copy / "h0", renewal.text()),
        lambda: join_federation(copy / "eve", token.text(), allow_insecure=True),
        lambda: create_federation(copy / "eve", "f", "127.0.0.1:1", key_bits=256, allow_insecure=True),
    ]
    for attempt in attempts:
        with pytest.raises(StorageError, match="others can write to it; run: chmod 700") as caught:
            attempt()
        assert caught.value.kind == "mode"
    assert list((copy / "eve").iterdir()) == []
    (copy / "h0").chmod(0o700)
    assert join_federation(copy / "h0", renewal.text()).name == "h0"


def test_a_directory_of_another_user_is_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: -1)
    with pytest.raises(StorageError, match="it belongs to another user"):
        Home.open(copy / "h0")


@pytest.mark.parametrize("name", [*LOOK_ALIKES, *RESERVED])
@pytest.mark.parametrize("role", ["participant", "requester"])
def test_names_that_look_like_others_are_not_invited(centre: Home, role: str, name: str) -> None:
    before = invited_names(centre)
    with pytest.raises(UsageError, match=r"NFKC|reserved names"):
        invite(centre, role, name)
    assert invited_names(centre) == before
