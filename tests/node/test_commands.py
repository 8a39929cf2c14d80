"""What the commands of a federation say, and how they end, where somebody has something wrong."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner

from revfrf.cli.app import app
from revfrf.cli.exits import INTERRUPTED, NO_ANSWER, WRONG_USAGE
from revfrf.errors import StorageError, UsageError
from revfrf.node import sandbox
from revfrf.node.api import Predictions
from revfrf.node.control import CONTROL, process_of
from revfrf.node.home import CONFIG, Home, has_left, look
from revfrf.node.invitations import create_federation
from tests.node.conftest import Known
from tests.node.federation import LONG, Begin, Running, command
from tests.node.founding import N_ASKED, configure, port_of_own

pytestmark = pytest.mark.timeout(900)  # on a slow machine


def run(*arguments: str | Path, code: int = 0, given: str | None = None) -> str:
    """What a command says; all of it if it fails, which is one line and no stack trace."""
    done = CliRunner().invoke(app, [*map(str, arguments)], input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    if code:
        assert done.stderr.startswith("revfrf: ")
        assert done.stderr.count("\n") == 1
        return done.stderr
    return done.stdout


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a key centre in it, whose name a shell would take apart."""
    where = tmp_path / "a b"
    where.mkdir()
    monkeypatch.chdir(where)
    create_federation("kgc", "loans", "127.0.0.1:1", key_bits=256, allow_insecure=True)
    return where


def token(role: str, name: str = "") -> str:
    return run("kgc", "invite", role, *([name] if name else [])).strip()


# -- founding, inviting, joining --------------------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_a_name_that_another_has_in_other_letters_is_refused() -> None:
    token("participant", "Bank")
    assert "'bank' is too similar to 'Bank'" in run("kgc", "invite", "participant", "bank", code=WRONG_USAGE)
    assert "'BANK' is too similar to 'Bank'" in run("kgc", "invite", "requester", "BANK", code=WRONG_USAGE)
    token("participant", "Bank")  # again, for a new certificate
    assert run("kgc", "uninvite", "Bank") == "Invitation for Bank cancelled.\n"
    token("CS", "CS")  # a server may be called as its role


@pytest.mark.usefixtures("place")
def test_an_invitation_as_json_has_the_token_or_the_file_it_is_in() -> None:
    answer = json.loads(run("kgc", "invite", "participant", "bank", "--json"))
    assert (answer["role"], answer["name"]) == ("participant", "bank")
    assert json.loads(run("join", answer["token"], "--json")) == {
        "directory": "bank",
        "role": "participant",
        "name": "bank",
        "renewed": False,
    }
    assert json.loads(run("kgc", "invite", "CS", "--out", "cs.token", "--json")) == {"file": "cs.token"}
    assert stat.S_IMODE(Path("cs.token").stat().st_mode) == 0o600
    assert "not overwritten" in run("kgc", "invite", "CS", "--out", "cs.token", code=WRONG_USAGE)
    assert json.loads(run("kgc", "uninvite", "bank", "--json")) == {"name": "bank"}
    assert json.loads(run("kgc", "init", "f", "--coordinator", "cs:1", "-d", "other", "--json")) == {
        "directory": "other",
        "federation": "f",
    }


@pytest.mark.usefixtures("place")
def test_the_protocol_is_chosen_with_the_federation() -> None:
    start = ("kgc", "init", "f", "--coordinator", "cs:1", "-d")
    for directory, flags, chosen in (("a", [], "paper"), ("b", ["--protocol", "shares"], "shares")):
        run(*start, directory, *flags)
        with closing(Home.open(directory)) as home:
            assert home.config.keys.protocol == chosen
    wrong = run(*start, "c", "--protocol", "shares", "--key-bits", "2048", code=WRONG_USAGE)
    assert '--key-bits: only protocol "paper" has such keys' in wrong
    assert '"shares" or "paper"' in run(*start, "c", "--protocol", "plain", code=WRONG_USAGE)
    assert not Path("c").exists()


@pytest.mark.usefixtures("place")
def test_a_second_join_renews_and_says_so_and_takes_no_flag_that_it_would_drop() -> None:
    assert "Next: check" in run("join", token("participant", "bank"))
    second = token("participant", "bank")
    refused = run("join", second, "--allow-insecure", code=WRONG_USAGE)
    assert "leave --allow-insecure out" in refused
    with closing(Home.open("bank")) as bank:
        assert not bank.allow_insecure
        before = bank.tls().passport.serial
    assert "is renewed" in run("join", "-", "-d", "bank", given=second)
    with closing(Home.open("bank")) as bank:
        assert bank.tls().passport.serial > before


@pytest.mark.usefixtures("place")
def test_a_token_that_was_used_here_changes_nothing() -> None:
    first = token("participant", "bank")
    run("join", first)
    run("join", second := token("participant", "bank"))
    before = {file.name: file.read_bytes() for file in Path("bank").iterdir()}
    for old in (first, second):
        said = run("join", old, code=WRONG_USAGE)
        assert "bank has already used this token, or a newer one; ask KGC for a new token" in said
    assert {file.name: file.read_bytes() for file in Path("bank").iterdir()} == before


def test_nobody_is_invited_whose_token_cannot_be_written(place: Path) -> None:
    (place / "there").write_text("mine")
    (place / "link").symlink_to("nowhere")
    for out, message in (("there", "not overwritten"), ("link", "not overwritten"), ("no/t", "no directory")):
        assert message in run("kgc", "invite", "participant", "ghost", "--out", out, code=WRONG_USAGE)
    assert (place / "there").read_text() == "mine"
    assert "invited: none" in run("kgc", "uninvite", "ghost", code=WRONG_USAGE)


@pytest.mark.usefixtures("place")
def test_the_file_of_a_token_is_not_taken_for_a_token() -> None:
    run("kgc", "invite", "participant", "bank", "--out", "the bank.token")
    said = run("join", "the bank.token", "-d", "bank", code=WRONG_USAGE)
    assert "revfrf join - < 'the bank.token'" in said
    assert not Path("bank").exists()


@pytest.mark.usefixtures("place")
def test_a_question_is_no_output() -> None:
    run("join", token("participant", "bank"))
    done = CliRunner().invoke(app, ["revoke", "-d", "bank", "--json"], input="n\n")
    assert (done.exit_code, done.stdout.strip()) == (1, "n")  # what was typed
    assert "Leave the forest for good?" in done.stderr


def test_a_requester_is_told_to_ask_and_not_to_serve(place: Path) -> None:
    said = run("join", token("requester", "shop"), "-d", place / "shop")
    assert f"revfrf predict --encrypted ROWS.csv -d '{place}/shop'" in said
    assert "serve" not in said
    assert "add --encrypted, or pass another" in run("predict", "t.csv", "-d", "shop", code=WRONG_USAGE)
    said = run("status", "-d", "shop", code=WRONG_USAGE)
    assert "predict --encrypted ROWS -d shop" in said


def test_no_name_in_the_log_makes_a_party_one_that_has_left(place: Path) -> None:
    run("join", token("participant", "bank"))
    with closing(Home.open("bank")) as bank:
        bank.audit.append("ShareRequest", sender="expelled")
    assert not has_left(place / "bank")
    assert "start it, and retry" in run("status", "-d", "bank", code=WRONG_USAGE)


# -- the wrong directory ----------------------------------------------------------------------------


def test_a_directory_that_is_none_is_named_as_such(place: Path) -> None:
    (place / "empty").mkdir()
    for line in (["status"], ["train"], ["serve"], ["kgc", "invite", "CS"], ["revoke", "--yes"]):
        assert "it does not exist" in run(*line, "-d", "nowhere", code=WRONG_USAGE)
        assert "no revfrf.toml" in run(*line, "-d", "empty", code=WRONG_USAGE)
    assert "pass one with -d" in run("status", code=WRONG_USAGE)


@pytest.mark.parametrize(
    ("command", "belongs"),
    [
        (["train"], "CS"),
        (["test", "t.csv"], "CS"),
        (["predict", "t.csv"], "CS"),
        (["history"], "CS"),
        (["audit"], "CS"),
        (["export", "c.json"], "CS"),
        (["export", "c.json", "--forest"], "CS"),
        (["report", "r.html"], "CS"),
        (["kgc", "invite", "CS"], "KGC"),
        (["kgc", "uninvite", "bank"], "KGC"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
@pytest.mark.usefixtures("place")
def test_a_command_of_another_role_says_whose_it_is(command: list[str], belongs: str) -> None:
    run("join", token("participant", "bank"))
    said = run(*command, "-d", "bank", code=WRONG_USAGE)
    assert f"is for {belongs}, and bank is the directory of participant 'bank'" in said


@pytest.mark.usefixtures("place")
def test_a_party_that_does_not_run_is_to_be_started() -> None:
    run("join", token("CS"), "-d", "the cs")
    said = run("train", "-d", "the cs", code=WRONG_USAGE)
    assert "start it, and retry: revfrf serve -d 'the cs'" in said


def test_a_configuration_that_others_can_change_is_refused(place: Path) -> None:
    (place / "kgc" / CONFIG).chmod(0o666)
    assert "others can write to it" in run("serve", "-d", "kgc", code=WRONG_USAGE)
    (place / "kgc" / CONFIG).chmod(0o600)
    (place / "kgc").chmod(0o777)
    assert "chmod 700" in run("kgc", "invite", "CS", code=WRONG_USAGE)


def test_a_directory_of_another_user_is_not_to_be_changed_in_mode(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revfrf.storage.directory.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match="belongs to another user") as caught:
        look(place / "kgc")
    assert "chmod" not in str(caught.value)


# -- files ------------------------------------------------------------------------------------------


def test_where_answers_go_is_checked_before_anybody_is_asked(place: Path) -> None:
    """Nobody could be asked here: no process runs."""
    run("join", token("CS"), "-d", "cs")
    run("join", token("participant", "bank"))
    Path("rows.csv").write_text("id\na\n")
    for line in (
        ["predict", "rows.csv", "-d", "cs", "--out"],
        ["export", "-d", "cs"],
        ["export", "-d", "cs", "--forest"],
        ["report", "-d", "cs"],
        ["revoke", "--yes", "-d", "bank", "--out"],
        ["demo", "--page"],
    ):
        assert "there is no directory nowhere" in run(*line, "nowhere/file", code=WRONG_USAGE)
        assert "not a file" in run(*line, place, code=WRONG_USAGE)
    said = run("predict", "rows.csv", "-d", "cs", "--out", "rows.csv", code=WRONG_USAGE)
    assert "would replace the rows" in said


@pytest.mark.usefixtures("place")
def test_wrong_requests_to_leave_are_named() -> None:
    for content in (b"hello", b"\xff\xfe", b"abc"):
        Path("wrong").write_bytes(content)
        said = run("kgc", "accept", "wrong", code=WRONG_USAGE)
        assert "wrong: not a request to leave, as `revfrf revoke --out` writes it" in said
    assert "nowhere does not exist" in run("kgc", "accept", "nowhere", code=WRONG_USAGE)


FLAGS = {
    "kgc init f --coordinator cs:1 -d new --key-bits 256": "or, to try it, --allow-insecure",
    "kgc invite CS foo": "leave 'foo' out",
    "kgc invite participant": "needs a name",
    "kgc invite bank": "give CS, CC, participant or requester",
    "serve -d kgc --workers many": "--workers many: give a number of cores",
    "serve -d kgc --workers 4x": "--workers 4x: give a number of cores",
    "serve -d kgc --workers=": "--workers : give a number of cores",
    "serve -d kgc --workers 0": "--workers: must be",
    "serve -d kgc --data a.csv": "--data: only participant and CS",
    "predict t.csv --partial -d kgc": "--partial: only with --encrypted",
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("given", FLAGS)
def test_a_wrong_flag_or_argument_is_named(given: str) -> None:
    assert FLAGS[given] in run(*given.split(), code=WRONG_USAGE)


@pytest.mark.usefixtures("place")
def test_a_table_that_does_not_fit_has_its_flag_named() -> None:
    run("join", token("participant", "bank"))
    run("join", token("CS"), "-d", "cs")
    for directory, content, remedy in (
        ("bank", None, "rows.csv: there is no such file; put the table there, give --data FILE, or set"),
        ("bank", "customer,x\na,1\n", "its columns are 'customer', 'x'; give the id column with --id"),
        ("cs", "id,y\na,1\n", "'label'; its columns are 'id', 'y'; give the label column with --target"),
    ):
        if content is not None:
            Path(directory, "rows.csv").write_text(content)
        assert remedy in command(Path(), "serve", "-d", directory, code=WRONG_USAGE)


@pytest.mark.usefixtures("place")
def test_numbers_are_no_classes_unless_that_is_said_by_file_or_flag() -> None:
    run("join", token("CS"), "-d", "cs")
    rows = "".join(f"r{number},{number / 7}\n" for number in range(150))
    Path("cs/rows.csv").write_text(f"id,label\n{rows}")
    serve = partial(command, Path(), "serve", "-d", "cs", code=WRONG_USAGE)
    assert "give --task numbers" in serve()
    assert 'must be "classes" or "numbers"' in run("serve", "-d", "cs", "--task", "number", code=WRONG_USAGE)
    Path("cs/rows.csv").write_text("id,label\na,paid\n")
    assert "'paid' is not a number" in serve("--task", "numbers")


# -- with processes ---------------------------------------------------------------------------------


@pytest.fixture
def federation(begin: Begin, trained: Known) -> Running:
    return begin(trained.directory)


def test_output_of_a_running_federation(federation: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(federation.directory)
    Path("answers").write_text("old, and longer than the new one")
    done = CliRunner().invoke(app, ["predict", "CS/test.csv", "-d", "CS", "--out", "answers"])
    missing = "1 of 44 ids are not held by all participants"  # h0 has no p104
    assert (done.stdout, done.stderr) == ("", f"written to answers\n{missing}\n")
    ids = [line.partition(",")[0] for line in Path("answers").read_text().splitlines()[1:]]
    run("predict", "CS/test.csv", "-d", "CS", "--out", "answers", "--json")
    assert json.loads(Path("answers").read_text())["ids"] == ids
    assert json.loads(run("report", "r.html", "-d", "CS", "--json")) == {"file": "r.html"}
    assert json.loads(run("export", "f.json", "--forest", "-d", "CS", "--json")) == {"file": "f.json"}
    assert json.loads(run("export", "c.json", "-d", "CS", "--json")) == {"file": "c.json"}
    verified = json.loads(run("verify", "c.json", "--kgc-key", "h0/kgc.pub", "--json"))
    assert verified["event"] == "creation"
    said = run("export", "d.json", "--number", "1", "-d", "CS", code=WRONG_USAGE)
    assert "event certificate 1: there are 1, numbered from 0" in said
    accuracy = run("test", "CS/test.csv", "-d", "CS").split("accuracy")[1].strip()
    assert len(accuracy) == len("0.1234")
    refused = federation.command("revoke", "-d", "h2", code=WRONG_USAGE)
    assert "cannot ask for confirmation" in refused.splitlines()[-1]


def test_what_the_forest_was_trained_on_is_counted_and_labels_are_its_classes(
    federation: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(federation.directory)
    assert json.loads(run("test", "CS/test.csv", "-d", "CS", "--json"))["trained_on"] == 0
    tested = json.loads(run("test", "CS/rows.csv", "-d", "CS", "--json"))
    assert tested["trained_on"] == tested["rows"] > 0
    Path("odd.csv").write_text("id,label\np080,yes\np081,Yes\np082,NO\n")
    said = run("test", "odd.csv", "-d", "CS", code=WRONG_USAGE)
    assert "odd.csv: 'NO', 'Yes' are not classes of the forest; they are 'no', 'yes'" in said


def test_a_forest_that_was_grown_before_is_not_said_to_be_new(
    federation: Running, trained: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(federation.directory)
    done = CliRunner().invoke(app, ["train", "-d", "CS"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("The forest is already trained.\n")
    assert "classes  " in done.stdout
    federation.stop("CS")
    configure(federation.directory / "CS" / CONFIG, n_estimators=5, task="numbers")
    federation.start("CS")
    done = CliRunner().invoke(app, ["train", "-d", "CS", "--json"])
    said = json.loads(done.stdout)
    assert (said["forest"]["digest"], said["existed"], said["forest"]["classes"]) == (trained.digest, True, 2)
    assert said["changed"] == ["[forest]", "task"]
    assert done.stderr.count("since the first `train`; a federation has one forest\n") == 2


def test_answers_call_the_ids_as_the_rows_do(federation: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(federation.directory)
    for file, flags, heading in (
        ("CS/test.csv", ["-d", "CS"], "prediction"),
        ("clinic/rows.csv", ["-d", "clinic", "--encrypted"], "prediction,probability,coverage"),
    ):
        said = run("predict", file, *flags)
        assert said.startswith(f"id,{heading}\n")
        for name, shown in (("customer", "customer"), ("prediction", "id")):
            Path("renamed.csv").write_text(Path(file).read_text().replace("id,", f"{name},", 1))
            renamed = run("predict", "renamed.csv", "--id-column", name, *flags)
            assert renamed == said.replace("id,", f"{shown},", 1)
        refused = run("predict", "renamed.csv", *flags, code=WRONG_USAGE)
        assert "there is no column 'id'" in refused
        assert "give the id column with --id-column" in refused
    refused = run("test", "renamed.csv", "-d", "CS", code=WRONG_USAGE)
    assert "same names as in CS's own table" in refused


def test_a_request_before_there_is_a_forest_is_refused_for_just_that_reason(
    begin: Begin, founded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = begin(founded)
    monkeypatch.chdir(federation.directory)
    ask = ["predict", "--encrypted", "clinic/rows.csv", "-d", "clinic"]
    told = "has refused: the forest is not ready\n"
    assert run(*ask, code=NO_ANSWER) == f"revfrf: 'KGC' {told}"  # nothing is set up
    run("match", "-d", "CS")
    assert run(*ask, code=NO_ANSWER) == f"revfrf: 'CS' {told}"


def test_an_answer_of_few_trees_is_none_unless_that_is_asked_for(
    federation: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(federation.directory)
    federation.stop("h1")
    ask = ["predict", "--encrypted", "clinic/rows.csv", "-d", "clinic"]
    assert "ask for a partial answer" in run(*ask, code=NO_ANSWER)
    done = CliRunner().invoke(app, [*ask, "--partial"])
    assert done.stdout.count("\n") == 1 + N_ASKED
    assert done.stderr == "h1 offline: the lowest coverage is 50.0%\n"
    few = run(*ask, "--partial", "--min-coverage", "0.6", code=NO_ANSWER)
    assert "h1 offline: coverage below 60% for" in few
    assert "(lowest 50.0%)" in few


@pytest.mark.parametrize(("flags", "code"), [([], NO_ANSWER), (["--min-coverage", "0.3"], 0)])
def test_half_of_the_trees_must_have_voted_by_default(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], code: int
) -> None:
    answer = Predictions("id", ("a", "b"), (1.0, 2.0), coverage=(1.0, 0.4), offline=("h1",))
    monkeypatch.setattr("revfrf.cli.predict.ask_party", lambda *_, **__: answer)
    done = CliRunner().invoke(app, ["predict", "rows.csv", "--encrypted", "--partial", *flags])
    assert (done.exit_code, done.stdout.count("\n")) == (code, 0 if code else 3)
    assert "40.0%" in done.stderr


@contextmanager
def leaving(federation: Running) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """`revfrf revoke` at h2, which waits, and what it says; nothing begins without h0."""
    federation.stop("h0")
    revoke = [sys.executable, "-m", "revfrf", "revoke", "--yes", "-d", "h2"]
    with subprocess.Popen(revoke, cwd=federation.directory, stderr=subprocess.PIPE, text=True) as asking:
        assert asking.stderr is not None
        assert "Waiting until CS no longer accepts this party" in asking.stderr.readline()
        assert "the request remains valid" in asking.stderr.readline()
        yield asking, asking.stderr


def test_waiting_can_be_interrupted_and_the_request_stands(federation: Running) -> None:
    with leaving(federation) as (asking, said):
        asking.send_signal(signal.SIGINT)
        assert asking.wait(LONG) == INTERRUPTED
        assert "Traceback" not in said.read()
    assert federation.status("h2").epoch == 1
    federation.start("h0", wait=False)
    assert federation.ended("h2") == 0
    assert has_left(federation.directory / "h2")


def test_a_process_that_dies_while_it_leaves_is_no_proof(federation: Running) -> None:
    with leaving(federation) as (asking, said):
        federation.kill("h2")
        assert asking.wait(LONG) == NO_ANSWER
        assert "ended before CS refused it" in said.read()


def test_not_waiting_returns_before_the_leaver_is_out(federation: Running) -> None:
    federation.stop("h0")
    said = federation.command("revoke", "--yes", "--no-wait", "-d", "h2")
    assert said.startswith("KGC has the request.\n")
    assert federation.status("h2").name == "h2"


# -- a federation for trying out --------------------------------------------------------------------


TOY = ["--key-bits", "256", "--allow-insecure"]


def test_a_federation_that_was_interrupted_as_it_was_made_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    tried = tmp_path / "federation"
    with monkeypatch.context() as patched:
        patched.setattr(sandbox, "_write_files", interrupted)
        said = run("up", "-d", tried, "--parties", "2", *TOY, code=INTERRUPTED)
    assert "interrupted" in said
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".federation.unfinished" / "kgc").mkdir(parents=True)  # as by SIGKILL
    sandbox.make(tried, 2, 256, allow_insecure=True)
    assert [path.name for path in tmp_path.iterdir()] == ["federation"]
    assert sandbox.staying(tried) == ["hospital-1", "hospital-2"]


def test_a_federation_is_not_at_a_port_that_a_system_gives_to_whoever_dials() -> None:
    """While CS does not run, its parties dial it, and each dialling takes some such port."""
    assert 10_000 <= sandbox.free_port() < 32_768
    port = port_of_own()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UsageError, match="is free"):
        sandbox.free_port([port])
    assert sandbox.free_port([port]) == port


def test_a_federation_that_is_there_is_not_another_one(tmp_path: Path) -> None:
    sandbox.make(tmp_path / "f", 2, 256, allow_insecure=True)
    for flag, value, there in (("--parties", "3", "2"), ("--key-bits", "2048", "256")):
        said = run("up", "-d", tmp_path / "f", flag, value, code=WRONG_USAGE)
        assert f"{flag} {value}: {tmp_path}/f was created with {there}; leave {flag} out" in said
    sandbox.check(tmp_path / "f", 2, 256)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="has other files in it"):
        sandbox.make(tmp_path / "full", 2, 256, allow_insecure=True)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "mine"
    assert "not a federation of `revfrf up`" in run("down", "-d", tmp_path / "full", code=WRONG_USAGE)


def heed_hangups() -> None:
    """As in a terminal, also if these tests run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, None], ids=["hangup", "term", "down"])
def test_whoever_ends_a_federation_in_the_foreground_ends_all_of_it(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    """By a signal to `revfrf up`, or by `revfrf down`."""
    sandbox.make(tmp_path / "f", 2, 256, allow_insecure=True)
    shown = [sys.executable, "-m", "revfrf", "up", "-d", "f"]
    with subprocess.Popen(
        shown,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_hangups,
    ) as up:
        assert up.stdout is not None
        assert up.stderr is not None
        assert "All are connected" in up.stdout.readline()
        names = ("kgc", "cs", "cc", "hospital-1", "hospital-2")
        sockets = [tmp_path / "f" / name / CONTROL for name in names]
        processes = [process_of(socket) for socket in sockets]
        assert all(processes)
        if number is None:
            run("down", "-d", tmp_path / "f")
        else:
            up.send_signal(number)
        assert up.wait(LONG) == 0
        assert up.stderr.read().endswith("stopping …\n" if number else "all processes have stopped\n")
    assert [process_of(socket) for socket in sockets] == [None] * 5
    assert not any(sandbox._is_alive(process) for process in processes if process)


@pytest.mark.slow
def test_who_has_left_is_neither_started_nor_suggested(tmp_path: Path) -> None:
    """By command lines of their own, as somebody would type them."""
    typed = partial(command, tmp_path)
    try:
        said = typed("up", "--detach", "--parties", "3", *TOY)
        assert "In another terminal" not in said
        assert "revfrf revoke -d federation/hospital-1 --yes\n" in said
        typed("train", "-d", "federation/cs")
        typed("revoke", "-d", "federation/hospital-1", "--yes", "--level", "1")
        typed("export", "left.json", "-d", "federation/cs")
        assert json.loads(typed("down", "--json"))["ended"] == 5
        started = json.loads(typed("up", "--detach", "--json"))
        assert started["started"] == ["kgc", "cs", "cc", "hospital-2", "hospital-3"]
        assert started["hospitals"] == ["hospital-2", "hospital-3"]
        assert "hospital-1" not in typed("up", "--detach")
    finally:
        typed("down")
    assert not (tmp_path / "federation" / "hospital-1" / CONTROL).exists()
