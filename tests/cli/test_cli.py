"""The command line: what it says, and its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import revfrf
from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.cli import console, exits
from revfrf.cli.app import app
from revfrf.cli.console import progress
from revfrf.crypto.signing import SigningKey
from revfrf.io.public_key import save_verify_key
from revfrf.node.api import Progress
from revfrf.node.audit_log import AuditLog
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.paper.fle_expan import fle_expan
from revfrf.storage.memory import CoordinatorStore

TOY: dict[str, Any] = {
    "protocol": "paper",
    "key_bits": 256,
    "allow_insecure_keys": True,
    "random_state": 1,
    "max_depth": 4,
}
PARTIES = {"bank": ["a", "colour"], "telco": ["b", "n"], "shop": ["c"], "post": ["d", "true"]}
ROOT = Path(__file__).parents[2]
changed = msgspec.structs.replace


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str | Path) -> Ran:
    """The command line in this process; whatever is raised but an exit is a stack trace for users."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="revfrf")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def process(*arguments: str | Path, cwd: Path) -> Ran:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "revfrf", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def one_line(ran: Ran) -> str:
    """The one line on standard error."""
    assert ran.err.startswith("revfrf: ")
    assert ran.err.endswith("\n")
    assert ran.err.count("\n") == 1
    assert ran.err[:-1].isprintable()
    return ran.err


def check_failure(ran: Ran, code: int, message: str) -> None:
    """It has failed with this code, and one line that has this text."""
    assert (ran.code, ran.out) == (code, "")
    assert message in one_line(ran)


def rows(n_rows: int = 90) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    X = pd.DataFrame(draw.normal(size=(n_rows, 4)), columns=list("abcd"))
    X.iloc[::9, 0] = np.nan
    X["n"] = draw.integers(0, 50, n_rows)
    X["true"] = draw.normal(size=n_rows) > 0
    X["colour"] = pd.Categorical(draw.choice(["red", "NA", "blue"], n_rows))
    X.loc[3, "colour"] = np.nan
    return X


def answers(X: pd.DataFrame) -> Any:
    return np.where(X["b"] + X["c"] + X["true"] > 0, "yes", "no")


def csv(path: Path, X: pd.DataFrame, y: Any) -> Path:
    X.assign(y=y).to_csv(path, index=False)
    return path


def lost_keys(directory: Path) -> Path:
    save_verify_key(directory / "other.pub", SigningKey.generate().verify_key)
    return directory / "other.pub"


@dataclass(frozen=True)
class Place:
    """A directory with a forest that "telco" left, then "shop", and everything that was saved meanwhile."""

    at: Path

    @property
    def key(self) -> list[str | Path]:
        return ["--kgc-key", self.at / "kgc.pub"]

    def certificate(self, name: str = "telco.json") -> EventCertificate:
        return EventCertificate.load(self.at / name)

    def retrain(self, *more: str | Path, **files: str | Path) -> Ran:
        """Retrain from these files, from the right ones unless said otherwise."""
        used: dict[str, str | Path] = {"certificate": "telco.json", "model": "after", "data": "rows.csv"}
        used = {name: self.at / path for name, path in (used | files).items() if name != "target"}
        target = files.get("target", "y")
        options = ["--retrain", used["model"], "--data", used["data"], "--target", target]
        return run("verify", used["certificate"], *self.key, *options, *more)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    at = tmp_path_factory.mktemp("place")
    X = rows()
    model = RevocableForestClassifier(
        5, parties=PARTIES, class_weight={"yes": 2, "no": 1}, max_features=0.7, **TOY
    ).fit(X, answers(X))
    save_verify_key(at / "kgc.pub", model.kgc_key_)
    model.save(at / "before", private_keys=True)
    model.certificates_[0].save(at / "created.json")
    model.revoke("telco").save(at / "telco.json")
    model.save(at / "after", private_keys=True)
    model.save(at / "without keys")
    model.revoke("shop", level=1).save(at / "shop.json")
    model.save(at / "late", private_keys=True)
    csv(at / "rows.csv", X, answers(X))
    return Place(at)


# -- the program ------------------------------------------------------------------------------------


def test_version_and_help(tmp_path: Path) -> None:
    assert process("--version", cwd=tmp_path) == Ran(0, f"revfrf {revfrf.__version__}\n", "")
    for arguments in (["--help"], ["verify", "--help"], ["verify-log", "-h"]):
        ran = run(*arguments)
        assert ran.code == 0
        assert "  revfrf " in ran.out.partition("Example")[2]
        assert "Exit codes: 0" in ran.out
    assert "Sample weights given" in run("verify", "--help").out


def commands(group: typer.Typer = app, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands, with the groups that they are in."""
    own = [(*before, c.name or c.callback.__name__) for c in group.registered_commands if c.callback]
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        own += commands(inner.typer_instance, (*before, str(inner.name)))
    return own


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_an_example_of_itself(command: Sequence[str]) -> None:
    said = run(*command, "--help")
    assert said.code == 0
    assert f"  revfrf {' '.join(command)}" in said.out.partition("Example")[2]


def test_commands_are_listed_as_they_are_used() -> None:
    listed = run("--help").out.partition("Commands:")[2]
    found = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert found[:7] == ["kgc", "join", "serve", "match", "train", "test", "predict"]
    assert set(found) == {command[0] for command in commands()}
    assert "..." not in listed  # no line is cut off


def test_sigterm_ends_a_command_in_order_with_143(tmp_path: Path) -> None:
    """While it waits for an answer."""
    command, question = [sys.executable, "-m", "revfrf", "revoke", "-d", "bank"], "Leave the forest for good?"
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as asking:
        assert asking.stderr is not None
        assert asking.stderr.read(len(question)) == question
        asking.send_signal(signal.SIGTERM)
        assert asking.wait(60) == exits.TERMINATED == 143
        assert asking.stderr.read().replace(" ", "") == "[y/N]:revfrf:interrupted\n"


def test_without_a_terminal_what_is_going_on_is_said_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("revfrf.cli.console.REPEAT_SECONDS", 0.01)
    with progress(quiet=False) as on_progress:
        time.sleep(0.1)
        assert capfd.readouterr().err == ""  # nothing is known yet
        on_progress(Progress("growing", "7 trees", done=0.5))
        time.sleep(0.3)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) > 1
    assert set(lines) == {"growing: 7 trees (0 s)"}
    with progress(quiet=True) as on_progress:
        on_progress(Progress("growing"))
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_only_where_a_party_may_run_its_work_is_said_to_go_on(
    monkeypatch: pytest.MonkeyPatch, place: Place, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("revfrf.cli.console.ask", interrupted)
    monkeypatch.setattr("revfrf.cli.console.is_running", lambda _: True)
    monkeypatch.setattr(EventCertificate, "load", interrupted)
    assert "continues what it has begun" in run("status", "-d", tmp_path).err
    monkeypatch.setattr("revfrf.cli.console.is_running", lambda _: False)
    monkeypatch.setattr("revfrf.node.roles.run_offline", interrupted)
    assert run("status", "-d", tmp_path).err == "revfrf: interrupted\n"
    ran = run("verify", place.at / "telco.json", *place.key)
    assert (ran.code, ran.err) == (130, "revfrf: interrupted\n")


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_what_cannot_be_printed_is_not_taken_for_what_does_not_hold(place: Place, form: list[str]) -> None:
    command = [sys.executable, "-m", "revfrf", "verify", "telco.json", "--kgc-key", "kgc.pub", *form]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=place.at, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "output cannot be written: No space left" in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, cwd=place.at, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_what_does_not_hold_is_1_even_if_nobody_can_be_told(place: Place, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "revfrf", "verify", "telco.json", "--kgc-key", str(lost_keys(tmp_path))]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, cwd=place.at, stderr=full).returncode == 1


def test_a_fault_of_the_program_has_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    def faulty(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(EventCertificate, "load", faulty)
    ran = run("verify", place.at / "telco.json", *place.key)
    assert (ran.code, ran.out) == (70, "")
    assert "ZeroDivisionError: a fault" in ran.err


def test_a_warning_is_one_line_without_a_place_in_the_source(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    def warned(path: Path) -> EventCertificate:
        warnings.warn("column 'colour': all missing", stacklevel=1)
        return EventCertificate.from_json(Path(path).read_bytes())

    monkeypatch.setattr(EventCertificate, "load", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ran = run("verify", place.at / "telco.json", *place.key)
    assert (ran.code, ran.err) == (0, "revfrf: column 'colour': all missing\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["verify"],
        ["verify", "c.json"],
        ["verify", "c.json", "d.json", "--kgc-key", "k"],
        ["verify", "c.json", "--kgc-key"],
        ["verify", "c.json", "--kgc-key", "k", "--force"],
        ["verify", "c.json", "--kgc-key", "k", "--retrain", "m", "--data", "d"],
        ["verify", "c.json", "--kgc-key", "k", "--target", "y"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(arguments: Sequence[str]) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    if arguments:
        assert any(said in one_line(ran) for said in (" --help`", "--retrain"))
        ran = run(arguments[0], "--json", *arguments[1:])
        assert (ran.code, ran.json["kind"]) == (2, "usage")
        assert ran.json["reason"] in one_line(ran)
    else:
        assert "Usage: revfrf" in ran.err


def test_a_question_in_an_error_keeps_its_mark() -> None:
    check_failure(run("statu"), 2, "Did you mean 'status'? See `revfrf --help`")


def test_entry_point_is_the_program() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"revfrf": "revfrf.cli.app:app"}


def test_verifying_and_asking_who_runs_loads_nothing_of_forests() -> None:
    heavy = "grpc", "numba", "numpy", "sklearn"
    code = f"import sys, revfrf.cli.app; print(*sys.modules.keys() & {set(heavy)})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


# -- verify -----------------------------------------------------------------------------------------


def test_certificate_that_holds(place: Place) -> None:
    ran = process("verify", "telco.json", "--kgc-key", "kgc.pub", cwd=place.at)
    assert (ran.code, ran.err) == (0, "")
    certificate = place.certificate()
    report = certificate.core.report
    lines = dict(line.rstrip().split("  ", 1) for line in ran.out.splitlines()[1:])
    said = {name: value.strip() for name, value in lines.items()}
    assert ran.out.startswith("The event certificate is valid.\n")
    assert (said["event"], said["leavers"]) == ("leaving", "telco")
    assert said["level"] == "2"
    assert said["asked"].endswith(" UTC")
    digests = place.certificate("created.json").digest_after.hex(), certificate.digest_after.hex()
    assert (said["salted digest before"], said["salted digest"]) == digests
    numbers = [said[f"nodes {what}"] for what in ("destroyed", "rebuilt", "kept")]
    assert list(map(int, numbers)) == [report.destroyed, report.rebuilt, report.kept]
    kind, signed = said["receipts"].split(": ")
    assert (kind, sorted(signed.split(", "))) == ("erasure", ["CC", "CS", "bank", "post", "shop"])
    assert said["missing receipts"] == "none"


def test_certificate_of_level_1_needs_no_receipts_of_the_paper_protocol(place: Place) -> None:
    ran = run("verify", place.at / "shop.json", *place.key, "--json")
    assert (ran.code, ran.err, ran.json["holds"]) == (0, "", True)
    assert (ran.json["leavers"], ran.json["level"], ran.json["receipts"]) == (["shop"], 1, {})
    assert ran.json["missing_receipts"] == []


def test_certificate_of_a_creation_has_no_leavers(place: Place) -> None:
    ran = run("verify", place.at / "created.json", *place.key, "--json")
    assert (ran.code, ran.json["event"], ran.json["epoch"], ran.json["rows"]) == (0, "creation", 1, 90)
    assert not {"leavers", "level", "nodes_destroyed"} & ran.json.keys()


def test_certificate_says_whose_receipt_is_missing_and_holds_without_it(place: Place, tmp_path: Path) -> None:
    whole = place.certificate()
    receipts = tuple(receipt for receipt in whole.receipts if receipt.party != "post")
    changed(whole, receipts=receipts).save(tmp_path / "c.json")
    ran = run("verify", tmp_path / "c.json", *place.key, "--json")
    assert (ran.code, ran.json["holds"], ran.json["missing_receipts"]) == (0, True, ["post"])


def test_tampering_is_1_and_is_named(place: Place, tmp_path: Path) -> None:
    """`tests.protocols.test_certificate` has tamperings of all kinds."""
    right = place.certificate()
    report = changed(right.core.report, digest_after=bytes(32))
    changed(right, core=changed(right.core, report=report)).save(tmp_path / "c.json")
    message = "the coordinator has not signed this report"
    check_failure(run("verify", tmp_path / "c.json", *place.key), 1, message)
    ran = run("verify", tmp_path / "c.json", *place.key, "--json")
    assert (ran.code, ran.json["holds"], ran.json["kind"]) == (1, False, "report")
    assert message in ran.json["reason"]


def test_key_of_another_key_centre_is_1(place: Place, tmp_path: Path) -> None:
    ran = run("verify", place.at / "telco.json", "--kgc-key", lost_keys(tmp_path))
    check_failure(ran, 1, "was not certified by this key centre")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("missing", None, "missing"),
        ("garbage", b"\xff\0\x1b[2J\n", "malformed"),
        ("unknown field", b'{"a\\n\\u001b[2J": 1}', "malformed"),
    ],
)
def test_unreadable_certificate_is_2(
    place: Place, tmp_path: Path, name: str, content: bytes | None, kind: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    ran = run("verify", tmp_path / name, *place.key, "--json")
    assert (ran.code, ran.json["holds"], ran.json["kind"]) == (2, None, kind)
    assert one_line(ran)


@pytest.mark.parametrize(
    ("key", "message"),
    [(b"garbage", "not a public key"), (None, "does not exist"), (b"", "not a public key")],
)
def test_unreadable_key_is_2(place: Place, tmp_path: Path, key: bytes | None, message: str) -> None:
    if key is not None:
        (tmp_path / "new\nline").write_bytes(key)
    check_failure(run("verify", place.at / "telco.json", "--kgc-key", tmp_path / "new\nline"), 2, message)


def test_numbers_are_printed_with_four_digits_and_nothing_as_none() -> None:
    values: list[Any] = [2 / 3, 1.0, 0.0, 1.23456e-7, 7, "", []]
    shown = "0.6667 1.0000 0.0000 1.23e-07 7 none none"
    assert [console._shown(value) for value in values] == shown.split()
    assert console._shown(["a\x1b[2J\n", "[red]é"]) == "a\\x1b[2J, [red]é"  # which does nothing to a terminal


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with closing(AuditLog(tmp_path / "audit.log", ("loans", "participant", "bank"))) as log:
        log.append("started")
        log.append("asked to leave", level=2)
    return tmp_path / "audit.log"


def test_audit_log_that_holds_is_0_and_says_its_head(log: Path) -> None:
    ran = run("verify-log", str(log), "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["holds"], found["lines"]) == (0, True, 2)
    assert run("verify-log", str(log), "--head", found["head"]).code == 0


def test_audit_log_that_was_changed_or_cut_is_1(log: Path) -> None:
    head = json.loads(run("verify-log", str(log), "--json").out)["head"]
    first, second = log.read_text().splitlines(keepends=True)
    log.write_text(first)
    assert run("verify-log", str(log)).code == 0  # nothing shows it but the head
    assert run("verify-log", str(log), "--head", head).code == 1
    log.write_text(first.replace("started", "stopped") + second)
    check_failure(run("verify-log", str(log)), 1, "line 1")


# -- retraining -------------------------------------------------------------------------------------


def test_forest_saved_after_the_event_is_equal(place: Place) -> None:
    ran = place.retrain("--json")
    assert (ran.code, ran.err) == (0, "")
    certified = place.certificate().digest_after.hex()
    assert ran.json["holds"] is ran.json["same_targets"] is True
    assert ran.json["digest_certified"] == ran.json["digest_trained"] == certified
    assert (ran.json["leavers"], ran.json["stayed"]) == (["telco"], ["bank", "shop", "post"])
    assert (ran.json["rows"], ran.json["ignored"]) == (90, ["b", "n"])


@pytest.mark.parametrize(
    ("certificate", "model", "stayed"),
    [("created.json", "before", ["bank", "telco", "shop", "post"]), ("shop.json", "late", ["bank", "post"])],
)
def test_each_certificate_is_of_the_forest_of_those_who_were_there(
    place: Place, certificate: str, model: str, stayed: list[str]
) -> None:
    ran = place.retrain("--json", certificate=certificate, model=model)
    assert (ran.code, ran.json["stayed"]) == (0, stayed)


@pytest.mark.parametrize("certificate", ["created.json", "telco.json", "shop.json"])
@pytest.mark.parametrize("model", ["before", "after", "late"])
def test_forest_saved_before_the_event_or_after_the_next_has_not_its_salt(
    place: Place, certificate: str, model: str
) -> None:
    saved_after = {"before": "created.json", "after": "telco.json", "late": "shop.json"}[model]
    ran = place.retrain(certificate=certificate, model=model)
    if certificate == saved_after:
        assert ran.code == 0
    else:
        check_failure(ran, 2, "not a forest that was saved after this event, and before the next one")


def test_columns_of_leavers_are_not_needed_and_the_order_of_columns_is_not_either(
    place: Place, tmp_path: Path
) -> None:
    X = rows()
    table = X.assign(y=answers(X))[["y", "true", "d", "colour", "c", "a"]]
    table.to_csv(tmp_path / "t.csv", index=False)
    assert place.retrain(data=tmp_path / "t.csv").code == 0


def test_equal_by_a_parquet_file(place: Place) -> None:
    rows().assign(y=answers(rows())).to_parquet(place.at / "rows.parquet")
    ran = place.retrain("--json", data="rows.parquet")
    assert (ran.code, ran.json["holds"]) == (0, True), ran.err


def test_changed_values_are_1(place: Place, tmp_path: Path) -> None:
    X = rows()
    X["c"] = X["c"].sample(frac=1, random_state=0).to_numpy()
    ran = place.retrain("--json", data=csv(tmp_path / "t.csv", X, answers(rows())))
    assert ran.code == 1
    assert (ran.json["holds"], ran.json["same_targets"]) == (False, True)
    assert ran.json["digest_certified"] != ran.json["digest_trained"]
    assert one_line(ran).endswith("than certified\n")


@pytest.mark.parametrize("change", ["label", "row less", "rows in another order", "one class"])
def test_changed_rows_are_1_and_it_says_so(place: Place, tmp_path: Path, change: str) -> None:
    X, y = rows(), answers(rows())
    if change == "label":
        y[:5] = np.where(y[:5] == "yes", "no", "yes")
    elif change == "one class":
        y[:] = "yes"
    else:
        order = np.arange(89) if change == "row less" else np.random.default_rng(0).permutation(90)
        X, y = X.iloc[order], y[order]
    ran = place.retrain(data=csv(tmp_path / "t.csv", X, y))
    assert ran.code == 1
    assert ran.out.startswith("The digests are different.\n")
    assert "is it the table that the forest was trained on" in one_line(ran)


def saved(tmp_path: Path, model: Any = None, X: Any = None, y: Any = None, **fit: Any) -> Place:
    """Another forest, that "telco" left."""
    model = RevocableForestClassifier(5, parties=PARTIES, **TOY) if model is None else model
    X = rows() if X is None else X
    y = answers(X) if y is None else y
    model.fit(X, y, **fit)
    model.revoke("telco", level=1).save(tmp_path / "telco.json")
    model.save(tmp_path / "after", private_keys=True)
    save_verify_key(tmp_path / "kgc.pub", model.kgc_key_)
    csv(tmp_path / "rows.csv", pd.DataFrame(X), y)
    return Place(tmp_path)


def test_coordinator_that_makes_leaves_of_what_it_should_rebuild_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lazily(channel: Any, plan: Any, counted: Any, store: CoordinatorStore, *more: Any) -> None:
        rules = changed(plan.rules, max_depth=1) if store.rebuilding else plan.rules
        fle_expan(channel, replace(plan, rules=rules), counted, store, *more)

    monkeypatch.setattr("revfrf.protocols.paper.sides.fle_expan", lazily)
    place = saved(tmp_path)
    assert run("verify", tmp_path / "telco.json", *place.key).code == 0
    ran = place.retrain("--json")
    assert (ran.code, ran.json["same_targets"]) == (1, True)


def test_sample_weights_come_out_different_and_it_says_so(tmp_path: Path) -> None:
    ran = saved(tmp_path, sample_weight=np.arange(90) % 3 + 1.0).retrain()
    assert ran.code == 1
    assert "without sample weights?" in one_line(ran)


@pytest.mark.parametrize("names", [True, False])
def test_numbers_as_targets(tmp_path: Path, names: bool) -> None:
    X = np.random.default_rng(0).normal(size=(80, 4))
    y = X[:, 0] * 3 + X[:, 3] ** 2
    parties = {"bank": [0], "telco": [1, 3], "shop": [2]}
    table = pd.DataFrame(X, columns=list("abcd")) if names else X
    place = saved(tmp_path, RevocableForestRegressor(5, parties=parties, **TOY), table, y)
    ran = place.retrain("--json")
    assert (ran.code, ran.json["ignored"]) == (0, ["b", "d"] if names else ["1", "3"])
    table = pd.DataFrame(X, columns=list("abcd"))
    csv(tmp_path / "less.csv", table[["a", "c"]], y)
    assert place.retrain(data="less.csv").code == 0
    for wrong in (y + 1, y * 2, -y):
        ran = place.retrain("--json", data=csv(tmp_path / "t.csv", table, wrong))
        assert (ran.code, ran.json["same_targets"]) == (1, False)
    y[4] = np.nan
    check_failure(place.retrain(data=csv(tmp_path / "t.csv", table, y)), 2, "column 'y'")


@pytest.mark.parametrize("labels", [[True, False], [-1.0, 2.0], ["1", "0"]], ids=str)
def test_labels_of_every_type(tmp_path: Path, labels: list[Any]) -> None:
    y = np.array(labels)[(answers(rows()) == "yes").astype(int)]
    assert saved(tmp_path, y=y).retrain().code == 0


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3, 1: 1.5}], ids=str)
def test_class_weights_are_in_the_file(tmp_path: Path, class_weight: Any) -> None:
    model = RevocableForestClassifier(3, parties=PARTIES, class_weight=class_weight, **TOY)
    assert saved(tmp_path, model, y=(answers(rows()) == "yes").astype(int)).retrain().code == 0


WRONG_TABLES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no such target": (lambda X: X.drop(columns="y"), "there is no column 'y'"),
    "no such column": (lambda X: X.drop(columns=["c", "d"]), "the table has no column 'c', 'd'"),
    "unknown label": (lambda X: X.replace({"y": {"yes": "maybe"}}), "'maybe' is not a label of this forest"),
    "missing label": (lambda X: X.replace({"y": {"yes": None}}), "'' is not a label of this forest"),
    "text": (lambda X: X.assign(c="1_0"), "line 2, column 'c': '1_0' is not a number"),
    "infinite": (lambda X: X.assign(c=np.inf), "column 'c'"),
    "too large": (lambda X: X.assign(c=1e300), "column 'c'"),
    "categories": (lambda X: X.assign(colour="green"), "no value is among its categories"),
    "no rows": (lambda X: X[:0], "there are no rows"),
    "names twice": (lambda X: X.rename(columns={"b": "a"}), "two columns are called 'a'"),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_table_that_does_not_fit_is_2(place: Place, tmp_path: Path, name: str) -> None:
    change, message = WRONG_TABLES[name]
    X = rows()
    change(X.assign(y=answers(X))).to_csv(tmp_path / "t.csv", index=False)
    check_failure(place.retrain(data=tmp_path / "t.csv"), 2, message)


def test_unnamed_columns_that_do_not_fit_are_2(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = RevocableForestRegressor(3, parties={"bank": [0], "telco": [1], "shop": [2]}, **TOY)
    place = saved(tmp_path, model, X, X[:, 0])
    ran = place.retrain(data=csv(tmp_path / "t.csv", pd.DataFrame(X[:, :1]), X[:, 0]))
    check_failure(ran, 2, "trained on 3 columns without names, and those who stayed own 2 of them")


def test_target_that_is_a_column_of_the_forest_is_2(place: Place) -> None:
    check_failure(place.retrain(target="c"), 2, "the target 'c' is one of the columns")


@pytest.mark.parametrize("which", ["certificate", "model", "data"])
def test_missing_files_and_directories_are_2(place: Place, tmp_path: Path, which: str) -> None:
    for path in (tmp_path / "absent", tmp_path):
        check_failure(place.retrain(**{which: path}), 2, str(path))


def test_forest_that_cannot_be_retrained_is_2(place: Place, tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"garbage")
    open_to_all = tmp_path / "open"
    open_to_all.write_bytes((place.at / "after").read_bytes())
    open_to_all.chmod(0o644)
    saved(tmp_path)
    for model, message in (
        ("without keys", "saved without private keys"),
        (tmp_path / "garbage", "not a saved forest"),
        (tmp_path / "after", "not a forest that was saved after this event"),
        (open_to_all, "chmod 600"),
    ):
        check_failure(place.retrain(model=model), 2, message)
