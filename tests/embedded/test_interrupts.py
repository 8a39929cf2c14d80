"""Ctrl-C: a revocation that was begun can be ended as if nothing had happened; training leaves nothing."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from types import FrameType
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols.events import salted_digest
from revfrf.testing.federations import ignore, prepared_keys, random_case, train
from revfrf.testing.recorders import until

CASE = random_case(5)
WATCHED = (
    "storage/memory.py",
    "roles/coordinator.py",
    "roles/party.py",
    "roles/kgc.py",
    "roles/participant.py",
    "protocols/key_setup.py",
    "protocols/frf_revoc.py",
    "protocols/events.py",
    "embedded/federation.py",
    "lifecycle.py",
)

Line = tuple[str, int]


@pytest.fixture(autouse=True)
def prepared_moduli() -> Iterator[None]:
    with prepared_keys():
        yield


@contextmanager
def tracing(seen: Callable[[Line], None]) -> Iterator[None]:
    """Call `seen` before every line of the watched modules; what it raises is raised there."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.endswith(WATCHED) or "/revfrf/" not in file:
            return None
        if event == "line":
            seen((file, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_of(level: RevocationLevel) -> Counter[Line]:
    """How often each line runs in an undisturbed revocation."""
    federation, found = train(CASE), Counter[Line]()
    with tracing(lambda line: found.update([line])):
        federation.revoke(["bank"], level, ignore)
    return found


def interrupted(level: RevocationLevel, line: Line, time: int) -> Federation:
    """A revocation into which Ctrl-C comes, before this line runs for the n-th time."""
    federation, count = train(CASE), 0

    def seen(here: Line) -> None:
        nonlocal count
        count += here == line
        if here == line and count == time:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), tracing(seen):  # a line may run less often with other keys
        federation.revoke(["bank"], level, ignore)
    return federation


def check_ends_well(level: RevocationLevel, line: Line, time: int, grown: str, expected: str) -> None:
    federation = interrupted(level, line, time)
    before = federation.coordinator.digest() if federation.coordinator.ready else None
    if federation.leaving:
        federation.resume(ignore)
    elif "bank" in federation.participants:  # KGC had not taken its request, or it was taken back
        federation.revoke(["bank"], level, ignore)
    assert not federation.leaving
    assert federation.coordinator.ready
    assert federation.coordinator.digest() == expected
    first, certificate = federation.coordinator.certificates
    certificate.verify(federation.coordinator.identity.kgc)
    assert certificate.digest_after == salted_digest(federation.coordinator.record.salt, expected)
    assert certificate.core.report.digest_before == first.digest_after
    assert before in (None, grown, expected)
    codes = CASE.without("bank").codes
    assert federation.votes(codes, CASE.n_rows, "hard").n_voted.sum() == CASE.n_rows * CASE.rules.n_trees


def check_some(level: RevocationLevel, every: int) -> None:
    """Before the first and the last time of each line; of these, every so many."""
    grown, expected = (train(case).coordinator.digest() for case in (CASE, CASE.without("bank")))
    places = [(line, time) for line, n in sorted(lines_of(level).items()) for time in sorted({1, n})]
    assert len(places) > 300
    for line, time in places[::every]:
        try:
            check_ends_well(level, line, time, grown, expected)
        except Exception as error:
            raise AssertionError(f"{line[0].rpartition('/revfrf/')[2]}:{line[1]}, time {time}") from error


@pytest.mark.parametrize("level", [1, 2])
def test_revocation_that_is_interrupted_at_some_lines_ends_well(level: RevocationLevel) -> None:
    check_some(level, 61)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_revocation_that_is_interrupted_at_any_line_ends_well(level: RevocationLevel) -> None:
    check_some(level, 1)


def test_interrupted_search_for_primes_ends_the_process_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from revfrf import RevocableForestClassifier\n"
        "forest = RevocableForestClassifier(protocol='paper', key_bits=6144, n_jobs=2,\n"
        "directory=sys.argv[1])\n"
        "forest.fit([[i] for i in range(20)], [0, 1] * 10)"
    )
    begun = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "forest")], stderr=subprocess.PIPE, text=True
    )
    with begun:
        until((tmp_path / "forest").exists)
        sleep(0.5)  # the search takes minutes
        begun.send_signal(signal.SIGINT)
        _, errors = begun.communicate(timeout=60)
    assert begun.returncode == -signal.SIGINT
    assert "safe_primes" in errors
    assert errors.endswith("KeyboardInterrupt\n")
    assert list(tmp_path.iterdir()) == []
