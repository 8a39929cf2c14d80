"""A federation of real processes in a directory: founded once, copied for every test, started and killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar, cast

from revfrf.errors import RevFRFError
from revfrf.node import api
from revfrf.node.control import CONTROL, ask
from revfrf.node.home import CONFIG, Home
from revfrf.protocols.events import salted_digest
from revfrf.protocols.sides import ForestRecord
from revfrf.testing.recorders import until
from tests.node.founding import SERVING, configure, port_of_own

Result = TypeVar("Result")
ROOT = Path(__file__).parents[2]
LONG = 120.0
"""Seconds that anything may take on a slow machine. Whatever happens ends the wait for it."""

NO_PLAN = {"steps": None, "dies": ("", 0), "limit": 0}
"""How a process is to die, and how large its files may be: it lives, and they may be of any size."""

# -- processes --------------------------------------------------------------------------------------


@dataclass
class Forked:
    """A party forked from the zygote."""

    zygote: "Zygote"
    pid: int

    def poll(self) -> int | None:
        return cast(int | None, self.zygote.asked({"pid": self.pid}))


class Zygote:
    """See `tests.node.zygote`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.node.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def asked(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        return json.loads(self._process.stdout.readline())

    def __call__(self, directory: Path, name: str, **plan: Any) -> Forked:
        return Forked(self, self.asked({"directory": str(directory), "name": name, **plan}))

    def close(self) -> None:
        self._process.communicate()


def by_itself(directory: Path, name: str, **plan: Any) -> subprocess.Popen[bytes]:
    """A party as an operator starts it."""
    assert plan == NO_PLAN
    with (directory / f"{name}.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "revfrf", "serve", "-d", name],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def command(directory: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints that can ask nobody; if it is to fail, what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "revfrf", *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * LONG,
    )
    assert done.returncode == code, (done, logs(directory))
    return done.stderr if code else done.stdout


def logs(directory: Path) -> str:
    """The last of what everybody has to say."""
    return "\n".join(
        f"=== {file.name}\n{file.read_text()[-6000:]}" for file in sorted(directory.glob("*.log"))
    )


Process = Forked | subprocess.Popen[bytes]
Spawning = Callable[..., Process]


@dataclass
class Running:
    """A federation whose processes can be started, asked, stopped, killed and put to sleep."""

    directory: Path
    spawn: Spawning
    processes: dict[str, Process] = field(default_factory=dict)
    kills: int = 0

    # -- one process

    def start(
        self,
        *names: str,
        dies: tuple[str, int] = ("", 0),
        counted: bool = False,
        limit: int = 0,
        wait: bool = True,
    ) -> None:
        """Start these, or all; with `dies`, to be killed at the n-th step whose name has this text."""
        for name in names or SERVING:
            if name not in (*SERVING, "clinic") or not (self.directory / name).exists():
                continue
            steps = f"{name}.steps" if counted or dies[1] else None
            self.processes[name] = self.spawn(self.directory, name, steps=steps, dies=dies, limit=limit)
        if wait:
            self.wait_until_connected()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.processes[name].pid, number)
        if number == signal.SIGKILL:
            assert self.ended(name) == -signal.SIGKILL
            self.kills += 1

    def ended(self, name: str) -> int:
        """How this one has ended."""
        self.until(lambda: self.processes[name].poll() is not None, f"{name} ends")
        code = self.processes.pop(name).poll()
        assert code is not None
        return code

    def stop(self, *names: str) -> None:
        """Stop these, or all, by SIGTERM, and see that they end as they should."""
        doomed = list(names or self.processes)
        for name in doomed:
            self.kill(name, signal.SIGTERM)
        codes = {name: self.ended(name) for name in doomed}
        assert set(codes.values()) <= {0}, (codes, self.logs())

    def end(self) -> None:
        """Whatever still runs is killed."""
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                while process.poll() is None:
                    time.sleep(0.01)
        self.processes.clear()

    # -- asking

    def ask(
        self, name: str, request: api.Request[Result], on_progress: api.OnProgress = api.no_progress
    ) -> Result:
        return ask(self.directory / name / CONTROL, request, on_progress)

    def command(self, *arguments: str, code: int = 0) -> str:
        """See `command`."""
        return command(self.directory, *arguments, code=code)

    def status(self, name: str = "CS") -> api.PartyStatus:
        return self.ask(name, api.Status())

    def train(self) -> api.ForestSummary:
        return self.ask("CS", api.Train()).forest

    def test(self) -> api.TestScore:
        return self.ask("CS", api.Test(str(self.directory / "CS" / "test.csv")))

    def predict(self, name: str = "clinic") -> api.Predictions:
        """By an encrypted request."""
        return self.ask(name, api.PredictEncrypted(str(self.directory / "clinic" / "rows.csv")))

    def killed_at(self, step: str, name: str, action: Callable[[], Any], number: int = 1) -> "Asking":
        """Start a party, again if it runs, ask for something, and wait until it is killed at a step."""
        if name in self.processes:
            self.stop(name)
        self.start(name, dies=(step, number))
        asking = Asking(action)
        assert self.ended(name) == -signal.SIGKILL
        return asking

    # -- waiting

    def until(self, done: Callable[[], bool], what: str, seconds: float = LONG) -> None:
        try:
            until(done, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def wait_until_connected(self) -> None:
        """Until everybody who runs has a link to CS, and CS has that very link."""

        def done() -> bool:
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended\n{self.logs()}"
            return self.all_connected()

        if "CS" in self.processes:
            self.until(done, "all are connected")

    def all_connected(self) -> bool:
        """As both ends of every link have it: of somebody who was killed, CS may still have the old one."""
        others = self.processes.keys() - {"CS"}
        for name in others:
            status = self.quiet_status(name)
            if status is None or status.connected != ("CS",):
                return False
        hub = self.quiet_status()
        return hub is not None and others <= {*hub.connected}

    def wait_until_ready(self, epoch: int) -> str:
        """Until CS has a whole forest in this epoch; its digest."""
        self.until(lambda: self.is_ready(epoch), f"a forest in epoch {epoch}")
        return self.digest()

    def is_ready(self, epoch: int | None = None) -> bool:
        """Whether CS has a whole forest, in this epoch."""
        status = self.quiet_status()
        return status is not None and status.forest_state == "ready" and epoch in (None, status.epoch)

    def digest(self) -> str:
        """The digest of CS's forest."""
        forest = self.status().forest
        assert forest is not None
        return forest.digest

    def salted(self, digest: str) -> bytes:
        """A forest's digest as CS would have it certified now. Nothing may run in its directory."""
        with closing(Home.open(self.directory / "CS")) as home:
            return salted_digest(home.store.expect("forest", ForestRecord).salt, digest)

    def missing_receipts(self) -> list[str]:
        """Who has not countersigned the last event yet."""
        missing: list[str] = self.ask("CS", api.History())[-1]["missing_receipts"]
        return missing

    def all_signed(self) -> bool:
        """Whether everybody has countersigned the last event."""
        return self.missing_receipts() == []

    def quiet_status(self, name: str = "CS") -> api.PartyStatus | None:
        """None if it does not run now."""
        try:
            return self.status(name)
        except RevFRFError:
            return None

    def wait_for_log(self, name: str, text: str) -> None:
        self.until(lambda: text in self.log(name), f"{name} logs {text!r}")

    def log(self, name: str) -> str:
        file = self.directory / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def logs(self) -> str:
        """See `logs`."""
        return logs(self.directory)


Begin = Callable[..., Running]
"""See `conftest.begin`."""


def all_but(name: str) -> tuple[str, ...]:
    return tuple(other for other in SERVING if other != name)


class Asking:
    """A command that is under way while the test does other things."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: RevFRFError | None = None
        self._action = action
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._action()
        except RevFRFError as error:
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def outcome(self) -> Any:
        """What it has answered, or raised."""
        self._thread.join(LONG)
        assert self.done, "no answer"
        if self.error is not None:
            raise self.error
        return self.result


def copied(source: Path, target: Path) -> Path:
    """A copy of a federation that does not run, at a port of its own."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.log.old", "*.steps", "control"))
    for log in target.glob("*.log"):
        log.unlink()
    move(target, port_of_own())
    return target


def move(directory: Path, port: int, *names: str) -> None:
    """Have these, or all, dial this port, or listen there."""
    for file in directory.glob(f"*/{CONFIG}"):
        if not names or file.parent.name in names:
            key = "listen" if file.parent.name == "CS" else "coordinator"
            configure(file, **{key: f"127.0.0.1:{port}"})


@contextmanager
def running(directory: Path, spawn: Spawning, *names: str) -> Iterator[Running]:
    """A federation with these processes, or all, until the end of a test."""
    federation = Running(directory, spawn)
    try:
        federation.start(*names)
        yield federation
    finally:
        federation.end()
