"""A whole federation of separate processes on this machine, on a bundled data set, for trying out."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from revfrf.datafile import write_answers
from revfrf.errors import RevFRFError, UsageError
from revfrf.node.control import ask, runs
from revfrf.node.home import CONTROL, Home, found, invite, join_federation
from revfrf.protocols.epoch import CC, CS, KGC, PARTICIPANT, REQUESTER

ROWS, TEST, REQUEST = "rows.csv", "test.csv", "request.csv"
REQUESTER_NAME = "clinic"
_TRAINED, _ASKED = 400, 20
_STARTING = 120.0
_PIDS = "processes"


def make(directory: Path, parties: int, key_bits: int, allow_insecure: bool) -> None:
    """Found a federation of hospitals with the columns of the breast-cancer data, and write their files."""
    if not 2 <= parties <= 30:
        raise UsageError(f"--parties {parties}: the data have 30 columns; give a number from 2 to 30")
    found(
        directory / "kgc",
        "hospitals",
        f"127.0.0.1:{_free_port()}",
        key_bits=key_bits,
        allow_insecure=allow_insecure or None,
    )
    names = [f"hospital-{number}" for number in range(1, parties + 1)]
    members = [("cs", CS, CS), ("cc", CC, CC), (REQUESTER_NAME, REQUESTER, REQUESTER_NAME)]
    members += [(name, PARTICIPANT, name) for name in names]
    centre = Home.open(directory / "kgc")
    try:
        for home, role, name in members:
            token = invite(centre, role, name).text()
            join_federation(directory / home, token, allow_insecure=allow_insecure)
    finally:
        centre.close()
    _write_files(directory, names)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_files(directory: Path, names: list[str]) -> None:
    """A hospital has some columns of all patients, CS the outcome of most, the clinic whole rows of a few."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    ids = [f"patient-{number:03}" for number in range(len(data.target))]
    outcome = [str(data.target_names[place]) for place in data.target]
    columns = {str(name): data.data[:, place].tolist() for place, name in enumerate(data.feature_names)}
    for number, name in enumerate(names):
        own = {column: columns[column] for column in list(columns)[number :: len(names)]}
        write_answers(directory / name / ROWS, ids, own)
    cs, last = directory / "cs", _TRAINED + _ASKED
    write_answers(cs / ROWS, ids[:_TRAINED], {"label": outcome[:_TRAINED]})
    write_answers(cs / TEST, ids[last:], {"label": outcome[last:]})
    asked = {name: values[_TRAINED:last] for name, values in columns.items()}
    write_answers(directory / REQUESTER_NAME / REQUEST, ids[_TRAINED:last], asked)


def homes(directory: Path) -> list[str]:
    """The parties that have a process: all but the requester."""
    made = [path.parent.name for path in sorted(directory.glob("*/revfrf.toml"))]
    return [name for name in made if name != REQUESTER_NAME]


def start(directory: Path, tell: Callable[[str], None]) -> list[subprocess.Popen[bytes]]:
    """Start a process for every party that has none; return when all are connected. Raises RevFRFError."""
    processes = []
    for name in homes(directory):
        if runs(directory / name / CONTROL):
            continue
        workers = "1" if name.startswith("hospital") else "-1"
        command = [sys.executable, "-m", "revfrf", "serve", "-d", str(directory / name), "--workers", workers]
        with (directory / f"{name}.log").open("ab") as log:
            processes.append(
                subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )
        tell(f"{name} started")
    known = [*_pids(directory), *(process.pid for process in processes)]
    (directory / _PIDS).write_text("".join(f"{pid}\n" for pid in known))
    try:
        _wait(directory, processes)
    except BaseException:
        stop(directory)
        raise
    return processes


def _wait(directory: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    expected = {{"kgc": KGC, "cc": CC}.get(name, name) for name in homes(directory)} - {"cs"}
    until = time.monotonic() + _STARTING
    while time.monotonic() < until:
        if any(process.poll() for process in processes):
            raise RevFRFError(f"a party has ended at once; look at {directory}/*.log", kind="absent")
        with suppress(RevFRFError):
            status = ask(directory / "cs" / CONTROL, "status", {})
            if expected <= {*status["connected"], *status["left"]}:
                return
        time.sleep(0.1)
    raise RevFRFError(f"not all parties have connected; look at {directory}/*.log", kind="absent")


def stop(directory: Path) -> int:
    """End the processes that `start` has started; how many there were."""
    if not homes(directory):
        raise UsageError(f"{directory}: there is no federation; `revfrf up` makes one")
    pids = _pids(directory)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 20
    while any(map(_is_ours, pids)) and time.monotonic() < until:
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.05)
    for pid in filter(_is_ours, pids):
        os.kill(pid, signal.SIGKILL)
    (directory / _PIDS).unlink(missing_ok=True)
    return len(pids)


def _pids(directory: Path) -> list[int]:
    """The processes that were started here, and still run."""
    file = directory / _PIDS
    return [pid for pid in map(int, file.read_text().split()) if _is_ours(pid)] if file.exists() else []


def _is_ours(pid: int) -> bool:
    """Whether this is still a process of a party."""
    try:
        return b"revfrf\0serve\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
