"""A database is open in one process at a time, whose threads take turns."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from revfrf.storage.sqlite import Database
from tests.storage.databases import OurOwnError, names, names_in, put, refusal, refused

# -- one process at a time --------------------------------------------------------------------------


def test_second_opener_of_the_same_process_is_refused_until_the_first_has_closed(path: Path) -> None:
    first = Database(path, create=True)
    for _ in range(2):
        error = refusal(lambda: Database(path))
        assert error.kind == "in-use"
        assert "in use by another process" in str(error)
    put(first, 1)
    assert refused(lambda: Database(path)) == "in-use"
    first.close()
    second = Database(path)
    assert names(second) == [1]
    assert refused(lambda: Database(path)) == "in-use"


HOLDER = """
import sys
from revfrf.storage.sqlite import Database
database = Database(sys.argv[1], create=True)
database.put("leaves", [(0, 1, b"")])
print("open", flush=True)
sys.stdin.readline()
database.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has made this database, and holds it open."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert said_by(child) == "open"
            yield child
        finally:
            child.kill()


def said_by(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_second_process_is_refused_until_the_first_has_closed(path: Path) -> None:
    with holding(path) as child:
        assert refused(lambda: Database(path)) == "in-use"
        assert child.stdin is not None
        child.stdin.write("close\n")
        child.stdin.flush()
        assert said_by(child) == "closed"
        assert names_in(path) == [1]


def test_process_that_was_killed_leaves_what_it_has_committed_and_no_lock(path: Path) -> None:
    with holding(path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert path.with_name("party.db-wal").stat().st_size
        assert names_in(path) == [1]


# -- threads ----------------------------------------------------------------------------------------


def test_threads_write_one_after_the_other(path: Path) -> None:
    """Every step writes two rows with a pause between them: nobody sees one without the other."""
    database = Database(path, create=True)
    odd: list[int] = []
    begun = threading.Barrier(8)

    def work(number: int) -> None:
        begun.wait()
        for step in range(12):
            name = 1000 * number + step
            with database.transaction():
                put(database, name)
                if len(names(database)) % 2 == 0:
                    odd.append(name)
                put(database, name + 500)
            if len(names(database)) % 2:
                odd.append(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert odd == []
    expected = sorted(1000 * n + s + k for n in range(8) for s in range(12) for k in (0, 500))
    assert names(database) == expected
    database.close()
    assert names_in(path) == expected


def test_step_that_fails_in_one_thread_fails_those_that_wait(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 1)
    inside, go_on = threading.Event(), threading.Event()

    def failing() -> None:
        with database.transaction():
            put(database, 2)
            inside.set()
            go_on.wait()
            raise OurOwnError

    def waiting(name: int) -> str:
        inside.wait()
        return refused(lambda: put(database, name))

    with ThreadPoolExecutor(4) as pool:
        failed = pool.submit(failing)
        others = [pool.submit(waiting, name) for name in (3, 4)]
        inside.wait()
        go_on.set()
        assert isinstance(failed.exception(), OurOwnError)
        assert [other.result() for other in others] == ["closed", "closed"]
    assert names_in(path) == [1]
