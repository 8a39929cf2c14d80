"""What the pages on federations say: their commands run, and their tables are those of the code."""

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from typer.testing import CliRunner

from revfrf.cli import exits, kgc
from revfrf.cli.app import app
from revfrf.messages.registry import MESSAGES
from revfrf.names import Role
from revfrf.node import config
from revfrf.node.control import is_running
from revfrf.node.toml_source import toml_text
from tests.messages.test_messages import FULL
from tests.node.federation import LONG
from tests.node.founding import port_of_own

ROOT = Path(__file__).parents[2]
FEDERATION = (ROOT / "docs" / "federation.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
LEAKAGE = (ROOT / "docs" / "leakage.md").read_text()
TOY = ["--allow-insecure"]

pytestmark = pytest.mark.timeout(900)  # on a slow machine


def commands(page: str) -> list[list[str]]:
    """The console blocks of a page, without comments."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [[line.split("#")[0].strip() for line in block.splitlines()] for block in blocks]


FIRST, *BY_HAND = commands(FEDERATION)
UNIT = (ROOT / "deploy" / "revfrf@.service").read_text()
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def rows(page: str, n_columns: int, heading: str) -> list[list[str]]:
    """The rows of a table, by the first cells of its heading."""
    _, found, rest = page.partition(heading)
    assert found
    lines = rest.split("\n\n")[0].splitlines()[1:]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {len(row) for row in table} == {n_columns}
    return table


def revfrf(line: str, *more: str) -> str:
    """Run a command as printed, with redirections; what it has said."""
    words = shlex.split(line)
    assert words.pop(0) == "revfrf"
    files = {mark: words[words.index(mark) + 1] for mark in "<>" if mark in words}
    words = words[: min((words.index(mark) for mark in files), default=len(words))]
    given = Path(files["<"]).read_text() if "<" in files else None
    done = CliRunner().invoke(app, [*words, *more], input=given)
    assert done.exit_code == 0, (line, done.output)
    if ">" in files:
        Path(files[">"]).write_text(done.stdout)
    return done.stdout


def soon(line: str) -> str:
    """Run a command until it succeeds."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        try:
            return revfrf(line)
        except AssertionError:
            time.sleep(0.3)
    return revfrf(line)


# -- commands ---------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_federation_runs_as_printed_with_toy_keys(place: Path) -> None:
    """`pip install .` is test_readme's; all others run here, on small keys."""
    install, up, train, test, predict, revoke, export, verify, down = FIRST
    assert (install, up, down) == ("pip install .", "revfrf up --detach", "revfrf down")
    try:
        command = [sys.executable, "-m", *up.split(), "--parties", "3", "--key-bits", "256", *TOY]
        started = subprocess.run(command, capture_output=True, text=True, timeout=2 * LONG, check=True)
        assert "All are connected" in started.stdout
        assert "nodes" in revfrf(train)
        accuracy = re.search(r"accuracy\s+([\d.]+)", revfrf(test))
        assert accuracy is not None
        assert float(accuracy[1]) > 0.85
        answers = revfrf(predict).splitlines()
        assert len(answers) == 1 + 20
        assert "KGC has the request" in revfrf(revoke)
        soon(export)
        assert "hospital-1" in revfrf(verify)
        assert json.loads((place / "left.json").read_text())
    finally:
        ended = revfrf(down)
    assert re.search(r"Stopped \d+ processes", ended)


@pytest.fixture
def serving() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(LONG)


def write_tables() -> None:
    """The files that the page names, as the page makes them."""
    [program] = re.findall(r"```python\n(.*?)```", FEDERATION, re.DOTALL)
    subprocess.run([sys.executable, "-c", program], check=True)


def connected() -> list[str]:
    """Who is connected to CS."""
    names: list[str] = json.loads(revfrf("revfrf status -d cs --json"))["connected"]
    return names


def watched() -> set[str]:
    """The fields of `status` that the page on operations says to watch."""
    cells = [row[0] for row in rows(OPERATIONS, 2, "| field | worry if |\n")]
    fields = {name for cell in cells for name in re.findall(r"^`(\w+)`", cell)}
    assert len(fields) >= 6
    return fields


def test_the_federation_by_hand_runs_as_printed_with_toy_keys(
    place: Path, serving: list[subprocess.Popen[bytes]]
) -> None:
    write_tables()
    port = port_of_own()
    found, join, use, by_another_way = BY_HAND
    for line in [*found, *join]:
        words = line.replace(":8470", f":{port}").removesuffix(" &")
        if words.startswith("revfrf serve"):
            with (place / f"{len(serving)}.log").open("wb") as log:
                serving.append(subprocess.Popen([sys.executable, "-m", *shlex.split(words)], stderr=log))
        elif words.startswith("revfrf kgc init"):
            revfrf(words, "--key-bits", "256", *TOY)
        else:
            revfrf(words, *(TOY if words.startswith("revfrf join") else []))
    assert len(serving) == 5
    until = time.monotonic() + LONG
    while not is_running(place / "cs" / "control") or len(connected()) < 4:
        assert time.monotonic() < until
        time.sleep(0.1)
    [revoke] = [line for line in use if line.startswith("revfrf revoke")]
    instead = [each for line in use for each in (by_another_way if line == revoke else [line])]
    said = {line.split()[1]: revfrf(line) for line in instead}
    assert watched() <= json.loads(revfrf("revfrf status -d cs --json")).keys()
    assert re.search(r"shared\s+60", said["match"])
    assert "bank: 1 columns, 90 rows; 60 rows shared with CS" in said["match"]
    assert re.search(r"rows\s+60", said["train"])
    assert re.search(r"accuracy\s+(1.0|0\.[6-9])", said["test"])
    answers = [line.split(",")[:2] for line in (place / "answers.csv").read_text().splitlines()]
    assert answers == [["id", "prediction"], ["x", "paid"], ["y", "late"]]
    while "bank" not in json.loads(revfrf("revfrf status -d cs --json"))["left"]:
        assert time.monotonic() < until + LONG
        time.sleep(0.1)


def test_the_readme_shows_commands_of_the_first_federation() -> None:
    _, shown, _ = commands((ROOT / "README.md").read_text())
    assert shown == [line for line in FIRST if line in shown]
    assert len(shown) == 5


def test_commands_in_the_units_are_commands() -> None:
    [start] = re.findall(r"^ExecStart=(.*)", UNIT, re.MULTILINE)
    words = start.replace("%i", "bank").split()
    assert words[0].endswith("/revfrf")
    entry, arguments = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])", DOCKERFILE, re.MULTILINE)
    assert json.loads(entry) == ["revfrf"]
    for given in (words[1:], json.loads(arguments)):
        done = CliRunner().invoke(app, given)
        assert done.exit_code == exits.WRONG_USAGE
        assert "not a party directory" in done.output  # it was understood: there is just no party


def test_the_unit_is_hardened_and_ends_no_party_that_has_left() -> None:
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=on-failure", "LimitCORE=0"):
        assert f"\n{line}\n" in UNIT
    assert "MemoryDenyWriteExecute=" not in UNIT  # Numba compiles
    assert "USER revfrf" in DOCKERFILE
    assert "--only-binary :all:" in DOCKERFILE


# -- tables -----------------------------------------------------------------------------------------


def test_the_page_has_every_key_of_a_configuration_with_its_role_and_default() -> None:
    expected = {}
    for section, struct in config._SECTIONS.items():
        for info in msgspec.structs.fields(struct):
            roles = {*config._roles(section)} & {*config._roles(section, info.name)}
            value = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
            default = "" if value in (msgspec.NODEFAULT, None) else f"`{toml_text(value)}`"
            who = "all" if roles == {*get_args(Role)} else roles
            expected[f"`[{section}]` `{info.name}`"] = (who, default)
    shown = {
        key: ("all" if who == "all" else set(who.split(", ")), default)
        for key, who, default, _ in rows(FEDERATION, 4, "| key | who | default | what |\n")
    }
    assert shown == expected


def test_the_page_has_every_command() -> None:
    groups = {"": app, "kgc ": kgc.app}
    every = {
        f"{before}{command.name or getattr(command.callback, '__name__', None)}"
        for before, group in groups.items()
        for command in group.registered_commands
    }
    table = rows(FEDERATION, 3, "| command | where | what |\n")
    named = {name for row in table for name in re.findall(r"`([^`]+)`", row[0])}
    assert named - {"predict --encrypted"} == every


def test_the_page_has_the_exit_codes() -> None:
    codes = [row[0] for row in rows(FEDERATION, 2, "| exit code | |\n")]
    own = (exits.NOT_VERIFIED, exits.WRONG_USAGE, exits.NO_ANSWER, exits.INTERNAL_ERROR)
    signals = (exits.INTERRUPTED, exits.BROKEN_PIPE, exits.TERMINATED)
    assert codes == ["0", *map(str, own + signals)]


def test_the_page_on_leakage_has_all_that_messages_say_they_disclose() -> None:
    told = {kind.__name__: list(FULL[kind].discloses()) for kind in MESSAGES}
    shown = {
        kind.strip("`"): counted.split("; ")
        for kind, counted in rows(LEAKAGE, 2, "| message | counted as |\n")
    }
    assert shown == {kind: counted for kind, counted in told.items() if counted}
