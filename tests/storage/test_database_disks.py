"""Disks and directories that take no more: what was committed stays, and the error says so."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database
from tests.storage.databases import (
    HIDDEN,
    PAGE,
    check_refuses_everything,
    everything,
    made,
    names,
    put,
    refused,
)


def test_full_database_keeps_what_was_committed_and_says_what_to_do(path: Path) -> None:
    database = Database(path, create=True)
    put(database, *range(100))
    pages = database._value("PRAGMA page_count") + 3
    database._connection.execute(f"PRAGMA max_page_count = {pages}")
    done = list(range(100))
    with pytest.raises(StorageError) as caught:  # noqa: PT012
        for name in range(100, 1000, 2):
            put(database, name, name + 1, size=600)
            done += [name, name + 1]
    assert caught.value.kind == "full"
    assert "free some space" in str(caught.value)
    assert len(done) > 100
    check_refuses_everything(database)
    again = Database(path)
    assert names(again) == done
    put(again, 5000)
    assert names(again) == [*done, 5000]


WRITER = """
import resource, sys
from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database
database = Database(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
done = 0
try:
    for name in range(10_000):
        database.put("leaves", [(1, name, bytes(500)), (1, name + 10_000, b"")])
        done += 1
        if name % 9 == 8 and sys.argv[3] == "scrub":
            database.scrub()
except StorageError as error:
    print(done, error.kind)
"""


@pytest.mark.parametrize("scrubbed", ["scrub", "no scrub"])
@pytest.mark.parametrize("pages", [9, 40])
def test_disk_that_takes_no_more_keeps_what_was_committed(path: Path, pages: int, scrubbed: str) -> None:
    """Whether it is the log that cannot grow, or the file when the log is written back."""
    made(path, 20)
    limit = pages * PAGE if scrubbed == "no scrub" else max(path.stat().st_size, 14 * PAGE)
    command = [sys.executable, "-c", WRITER, str(path), str(limit), scrubbed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert HIDDEN not in done.stdout + done.stderr
    steps, kind = done.stdout.split()
    assert kind in ("full", "io")
    database = Database(path)
    written = sorted(path for _, path, _ in database.rows("leaves", "tree = 1"))
    assert written == [n + k for k in (0, 10_000) for n in range(int(steps))]
    assert len(database.rows("leaves", "tree = 0")) == 20
    put(database, 777)


@pytest.mark.parametrize("size", [0, 5 * PAGE])
def test_disk_that_takes_no_new_database_is_said(path: Path, size: int) -> None:
    code = """
import resource, sys
from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    Database(sys.argv[1], create=True)
except StorageError as error:
    print(error.kind)
"""
    command = [sys.executable, "-c", code, str(path), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("full", "io")


def test_process_that_may_open_no_more_files_is_told_so(path: Path) -> None:
    made(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        kinds = [refused(lambda: Database(path)), refused(lambda: Database(f"{path} 2", create=True))]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert kinds == ["io", "io"]
    assert len(everything(path)[3]) == 200


READER = """
import os, sys
from revfrf.errors import StorageError
from revfrf.storage.sqlite import Database
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
for name, create in (("new.db", True), ("party.db", False)):
    try:
        Database(f"{sys.argv[1]}/{name}", create=create)
        print("opened")
    except StorageError as error:
        print(error.kind)
"""
NOBODY = 65534


def test_directory_that_takes_no_files_is_an_error_of_the_file_system() -> None:
    """Neither a new database nor the log of an old one can be made in it. Root may write anywhere: nobody
    tries it.
    """
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = made(directory / "party.db")
        if root:
            os.chown(path, NOBODY, NOBODY)
        directory.chmod(0o555)
        try:
            command = [sys.executable, "-c", READER, name, str(NOBODY)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        finally:
            directory.chmod(0o700)
        assert done.stdout.split() == ["io", "io"]
        if root:
            os.chown(path, 0, 0)
        assert len(everything(path)[3]) == 200
