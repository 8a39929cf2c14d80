"""Disks that are full and files that are damaged end a process with a word, and lose nothing."""

import signal
from pathlib import Path

import pytest

from revfrf.errors import RevFRFError
from revfrf.node.control import CONTROL, is_running
from revfrf.node.home import AUDIT, CONFIG, DATABASE
from tests.node.conftest import Known
from tests.node.federation import Asking, Begin, all_but
from tests.node.founding import SERVING
from tests.quick import quick

pytestmark = pytest.mark.timeout(900)  # on a slow machine

ROOM = 24_000
"""Bytes of the longest file on a disk that is full after a few commits."""


@pytest.mark.parametrize("party", quick(["CS", "h0", "KGC", "CC"], ["CS"]))
def test_a_full_disk_ends_a_party_and_with_more_room_the_work_goes_on(
    begin: Begin, founded: Path, trained: Known, party: str
) -> None:
    federation = begin(founded, start=False)

    def alive(name: str) -> bool:
        return federation.processes[name].poll() is None

    federation.start(*all_but(party), wait=False)
    federation.start(party, limit=ROOM, wait=False)
    control = federation.directory / "CS" / CONTROL
    federation.until(lambda: is_running(control) or not alive("CS"), "CS begins")
    asking = Asking(federation.train)
    assert federation.ended(party) == 2
    said = federation.log(party)
    assert "the disk is full" in said or "check the disk" in said
    assert str(federation.directory / party) in said
    federation.start(party)
    federation.until(lambda: asking.done, "an answer")
    if federation.status().forest_state == "none":
        federation.train()
    assert federation.wait_until_ready(1) == trained.digest
    federation.stop()


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = next(at for at in range(len(data) // 2, len(data)) if all(data[at : at + 8]))  # not free space
    data[middle : middle + 64] = bytes(byte ^ 0x55 for byte in data[middle : middle + 64])
    path.write_bytes(data)


DAMAGED = [
    *((party, DATABASE) for party in ("CS", "KGC", "CC", "h0")),
    *((party, file) for party in ("CS", "h0") for file in (AUDIT, CONFIG)),
]


@pytest.mark.parametrize(("party", "file"), quick(DAMAGED, [("CS", DATABASE), ("CS", AUDIT), ("h0", CONFIG)]))
def test_a_damaged_file_is_named_and_a_mended_one_goes_on(
    begin: Begin, trained: Known, party: str, file: str
) -> None:
    federation = begin(trained.directory, start=False)
    path = federation.directory / party / file
    whole = path.read_bytes()
    _damage(path)
    federation.start(party, wait=False)
    assert federation.ended(party) != 0
    assert file in federation.log(party)
    assert "Traceback" not in federation.log(party)
    path.write_bytes(whole)
    federation.start(*SERVING, "clinic")
    assert federation.predict() == trained.answers


def test_a_log_whose_last_line_was_torn_is_repaired_and_says_so(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, start=False)
    path = federation.directory / "h0" / AUDIT
    path.write_bytes(path.read_bytes()[:-7])
    federation.start(*SERVING, "clinic")
    assert federation.predict() == trained.answers
    assert '"event":"log repaired"' in path.read_text()


def test_a_log_that_is_taken_away_under_a_party_ends_it(begin: Begin, trained: Known) -> None:
    federation = begin(trained.directory, *SERVING, "clinic")
    (federation.directory / "h0" / AUDIT).rename(federation.directory / "elsewhere")
    with pytest.raises(RevFRFError, match="h0"):
        federation.predict()
    assert federation.ended("h0") == 2
    (federation.directory / "elsewhere").rename(federation.directory / "h0" / AUDIT)
    federation.start("h0")
    assert federation.predict() == trained.answers
    federation.kill("h0", signal.SIGTERM)
    assert federation.ended("h0") == 0
