"""A whole federation of processes on this machine, with a bundled data set, for trying it out."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from revfrf.errors import RevFRFError, StorageError, UsageError
from revfrf.io.files import write_text
from revfrf.io.party_data import csv_text
from revfrf.names import CC, CS, KGC, PARTICIPANT, REQUESTER, Protocol
from revfrf.node.api import Status
from revfrf.node.control import CONTROL, ask, is_running, process_of
from revfrf.node.home import CONFIG, Home, look
from revfrf.node.invitations import create_federation, invite, join_federation
from revfrf.roles.kgc import KeyCentreRecord

ROWS, TEST, REQUEST = "rows.csv", "test.csv", "request.csv"
REQUESTER_NAME = "clinic"
_TRAINED, _ASKED = 400, 20
START_SECONDS, STOP_SECONDS = 120.0, 20.0
# Below those of outgoing connections: else a party that dials CS while it is down could occupy its port.
PORTS = range(10_000, 32_768)
_SERVERS = {"kgc": KGC, "cs": CS, "cc": CC}  # by their directories; all others' have their names


def make(
    directory: Path, parties: int, key_bits: int, allow_insecure: bool, protocol: Protocol = "paper"
) -> None:
    """Create a federation of hospitals with the columns of the breast-cancer data, whole or not at all.

    Only the paper protocol has keys of `key_bits`.
    """
    if not 2 <= parties <= 30:
        raise UsageError(f"--parties {parties}: give a number from 2 to 30, the number of columns")
    place = directory.expanduser().absolute()
    new = place.with_name(f".{place.name}.unfinished")
    try:
        if place.exists() and any(place.iterdir()):
            raise UsageError(f"{directory} has other files in it; pass another directory with -d")
        shutil.rmtree(new, ignore_errors=True)  # left by an interrupted run
        try:
            names = [f"hospital-{number}" for number in range(1, parties + 1)]
            bits = key_bits if protocol == "paper" else None
            _make(new, names, allow_insecure, protocol=protocol, key_bits=bits)
            new.replace(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"{directory}: cannot be created: {error.strerror}") from None


def _make(directory: Path, names: list[str], allow_insecure: bool, **keys: Any) -> None:
    coordinator, insecure = f"127.0.0.1:{free_port()}", allow_insecure or None
    create_federation(directory / "kgc", "hospitals", coordinator, allow_insecure=insecure, **keys)
    roles = {"cs": CS, "cc": CC, REQUESTER_NAME: REQUESTER} | dict.fromkeys(names, PARTICIPANT)
    with closing(Home.open(directory / "kgc")) as centre:
        for home, role in roles.items():
            token = invite(centre, role, _SERVERS.get(home, home)).text()
            join_federation(directory / home, token, allow_insecure=allow_insecure)
    _write_files(directory, names)


def free_port(ports: Sequence[int] = PORTS) -> int:
    """Return a free port."""
    for port in random.sample(ports, len(ports)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise UsageError(f"none of the ports {ports[0]} to {ports[-1]} is free")


def _write_files(directory: Path, names: list[str]) -> None:
    """Hospitals have some columns of all patients, CS the outcome of most, the clinic whole rows of a few."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    ids = [f"patient-{number:03}" for number in range(len(data.target))]
    outcome = [str(data.target_names[place]) for place in data.target]
    columns = {str(name): data.data[:, place].tolist() for place, name in enumerate(data.feature_names)}
    for number, name in enumerate(names):
        own = {column: columns[column] for column in list(columns)[number :: len(names)]}
        write_text(directory / name / ROWS, csv_text(ids, own))
    cs, last = directory / "cs", _TRAINED + _ASKED
    write_text(cs / ROWS, csv_text(ids[:_TRAINED], {"label": outcome[:_TRAINED]}))
    write_text(cs / TEST, csv_text(ids[last:], {"label": outcome[last:]}))
    asked = {name: values[_TRAINED:last] for name, values in columns.items()}
    write_text(directory / REQUESTER_NAME / REQUEST, csv_text(ids[_TRAINED:last], asked))


def exists(directory: Path) -> bool:
    """Return whether a federation was created there."""
    return (directory / "kgc" / CONFIG).exists()


def check(directory: Path, parties: int | None, key_bits: int | None) -> None:
    """Raise UsageError if the existing federation has another number of hospitals or bits."""
    there = {"--parties": len(_hospitals(directory)), "--key-bits": look(directory / "kgc").keys.key_bits}
    for flag, asked in (("--parties", parties), ("--key-bits", key_bits)):
        if asked not in (None, there[flag]):
            what = f"{flag} {asked}: {directory} was created with {there[flag]}"
            raise UsageError(f"{what}; leave {flag} out, or pass another directory with -d")


def _hospitals(directory: Path) -> list[str]:
    names = [path.parent.name for path in directory.glob(f"hospital-*/{CONFIG}")]
    return sorted(names, key=lambda name: int(name.rpartition("-")[2]))


def staying(directory: Path) -> list[str]:
    """Return the hospitals that have not left, as KGC knows."""
    kgc = directory / "kgc"
    if is_running(kgc / CONTROL):
        left = ask(kgc / CONTROL, Status()).left
    else:
        with closing(Home.open(kgc)) as home:
            certificates = home.store.expect("state", KeyCentreRecord).certificates
        left = certificates[-1].revoked if certificates else ()
    return [name for name in _hospitals(directory) if name not in left]


def start(directory: Path, on_started: Callable[[str], None]) -> list[str]:
    """Start all who do not run and have not left, wait until all are connected, and return the started."""
    names = [*_SERVERS, *staying(directory)]
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            if not is_running(directory / name / CONTROL):
                processes[name] = _serve(directory, name)
                on_started(f"{name} started")
        _wait(directory, {_SERVERS.get(name, name) for name in names} - {CS}, processes)
    except BaseException:
        _end([process.pid for process in processes.values() if process.poll() is None])
        raise
    return list(processes)


def _serve(directory: Path, name: str) -> subprocess.Popen[bytes]:
    workers = "1" if name.startswith("hospital") else "-1"
    command = [sys.executable, "-m", "revfrf", "serve", "-d", str(directory / name), "--workers", workers]
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _wait(directory: Path, expected: set[str], processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until all of them are connected to CS, or have just left."""
    until = time.monotonic() + START_SECONDS
    missing = expected
    while time.monotonic() < until:
        for name, process in processes.items():
            if process.poll():
                log = directory / f"{name}.log"
                last = next(filter(None, reversed(log.read_text(errors="replace").split("\n"))), "")
                raise RevFRFError(f"{name} has stopped; {log} ends with: {last}", kind="absent")
        try:
            status = ask(directory / "cs" / CONTROL, Status())
        except StorageError:
            raise
        except RevFRFError:  # it has not started yet
            status = None
        missing = expected - {*status.connected, *status.left} if status else missing
        if not missing:
            return
        time.sleep(0.1)
    late = f"{', '.join(sorted(missing))}: not connected after {START_SECONDS:.0f} seconds"
    raise RevFRFError(f"{late}; look at {directory}/*.log", kind="absent")


def running(directory: Path) -> list[int]:
    """Return the numbers of the processes that run there."""
    return [process for process in map(process_of, directory.glob(f"*/{CONTROL}")) if process]


def stop(directory: Path) -> int:
    """Stop the processes that run there, and return their number."""
    if not exists(directory):
        raise UsageError(f"{directory} is not a federation of `revfrf up`; pass its directory with -d")
    processes = running(directory)
    _end(processes)
    return len(processes)


def _end(processes: Collection[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while any(map(_is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    for process in filter(_is_alive, processes):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _is_alive(process: int) -> bool:
    """Return whether a process runs. One that has ended but was not reaped has no command line."""
    with suppress(OSError):
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    return False
