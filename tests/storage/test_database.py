"""A party's database: for its owner alone, one process at a time, step by whole step, whatever breaks."""

import os
import random
import resource
import shlex
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from revfrf.errors import StorageError
from revfrf.storage.database import VERSION, Database

HIDDEN = "0123456789abcdef-this-is-a-private-key"
TABLES = ("facts", "splits", "batches", "leaves", "cuts", "requests", "quotas")
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "party.db"


def put(database: Database, *names: int, size: int = 100) -> None:
    """Rows with these names, in one step."""
    database.put("leaves", [(0, name, bytes([name % 251]) * size) for name in names])


def names(database: Database) -> list[int]:
    return sorted(path for _, path, _ in database.rows("leaves"))


def made(path: Path, n_rows: int = 200) -> Path:
    """A closed database of some pages."""
    database = Database(path, create=True)
    put(database, *range(n_rows))
    database.put("facts", [("identity", HIDDEN.encode())])
    database.put("quotas", [("clinic", 7)])
    database.close()
    return path


def refusal(call: Callable[[], object]) -> StorageError:
    """The error of what is refused: ours, whose words and causes show no secret."""
    with pytest.raises(StorageError) as caught:
        call()
    report = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    context: BaseException | None = caught.value
    while context is not None:
        report += repr(context.args)
        context = context.__context__
    assert HIDDEN not in report
    return caught.value


def refused(call: Callable[[], object]) -> str:
    return refusal(call).kind


def everything(path: Path) -> list[list[tuple[Any, ...]]]:
    """All rows of a database that is opened for it."""
    database = Database(path)
    try:
        return [database.rows(table) for table in TABLES]
    finally:
        database.close()


def wrong_with(path: Path) -> StorageError | None:
    """What is said when all of a database is read."""
    try:
        everything(path)
    except StorageError as error:
        return error
    return None


# -- whose it is ------------------------------------------------------------------------------------


@pytest.fixture
def _open_mask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_mask")
def test_every_file_is_its_owners_alone_whatever_the_mask(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 1)
    files = list(path.parent.iterdir())
    assert {file.name for file in files} == {"party.db", "party.db-wal"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    database.close()
    assert list(path.parent.iterdir()) == [path]
    again = Database(path)
    put(again, 2)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    again.close()


def test_file_that_is_there_is_not_overwritten(path: Path) -> None:
    path.write_bytes(b"something else")
    assert refused(lambda: Database(path, create=True)) == "exists"
    assert path.read_bytes() == b"something else"
    path.unlink()
    made(path)
    before = path.read_bytes()
    assert refused(lambda: Database(path, create=True)) == "exists"
    assert path.read_bytes() == before


def test_link_to_nowhere_is_not_followed(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    path.symlink_to(elsewhere)
    assert refused(lambda: Database(path, create=True)) == "exists"
    assert refused(lambda: Database(path)) == "malformed"
    assert not elsewhere.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o601, 0o610, 0o666])
@pytest.mark.parametrize("name", ["party.db", "the bank's party.db"])
def test_file_that_is_open_to_others_is_refused_and_the_remedy_works(
    tmp_path: Path, mode: int, name: str
) -> None:
    path = made(tmp_path / name)
    path.chmod(mode)
    error = refusal(lambda: Database(path))
    assert error.kind == "mode"
    remedy = str(error).partition("run: ")[2]
    assert shlex.split(remedy) == ["chmod", "600", str(path)]
    subprocess.run(shlex.split(remedy), check=True)
    assert len(everything(path)[3]) == 200


# -- what is no database of ours --------------------------------------------------------------------


def test_missing_file_is_said_and_not_made(path: Path) -> None:
    assert refused(lambda: Database(path)) == "missing"
    assert refused(lambda: Database(path / "below")) == "missing"
    assert refused(lambda: Database(path / "below", create=True)) == "missing"
    assert list(path.parent.iterdir()) == []


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def plug(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    path.chmod(0o600)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a link to a database": lambda path: path.symlink_to(made(path.with_name("other.db"))),
    "a directory": lambda path: path.mkdir(mode=0o700),
    "a pipe": pipe,
    "a socket": plug,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    NO_FILES[kind](Path(path.name))  # a short name: those of sockets are limited
    assert refused(lambda: Database(path)) == "malformed"


def test_file_where_a_directory_should_be_is_an_error_of_the_file_system(path: Path) -> None:
    path.write_bytes(b"")
    for create in (False, True):
        assert refused(lambda create=create: Database(path / "below", create=create)) == "io"  # type: ignore[misc]


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE passwords (name TEXT, word TEXT)")
        connection.execute("INSERT INTO passwords VALUES (?, ?)", ("me", HIDDEN))
    connection.close()


OTHERS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "a word": lambda path: path.write_bytes(b"hello"),
    "a text": lambda path: path.write_text(HIDDEN * 1000),
    "zeros": lambda path: path.write_bytes(bytes(3 * PAGE)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(3 * PAGE)),
    "a header and no more": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "a header and noise": lambda path: path.write_bytes(
        b"SQLite format 3\0" + random.Random(2).randbytes(3 * PAGE)
    ),
    "a database of another program": foreign,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_file_of_another_program_is_refused_and_left_as_it_was(path: Path, kind: str) -> None:
    OTHERS[kind](path)
    path.chmod(0o600)
    before = path.read_bytes()
    assert refused(lambda: Database(path)) == ("malformed" if before else "missing")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("version", [0, VERSION + 1, 2**31 - 1])
def test_database_of_another_version_is_refused_and_left_as_it_was(path: Path, version: int) -> None:
    made(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    error = refusal(lambda: Database(path))
    assert error.kind == "version"
    assert f"version {VERSION}" in str(error)
    assert path.read_bytes() == before


# -- what is damaged --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 99, 100, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE, 5 * PAGE + 77])
def test_truncated_database_is_found_damaged(path: Path, length: int) -> None:
    data = made(path).read_bytes()
    assert len(data) > 6 * PAGE
    path.write_bytes(data[:length])
    assert refused(lambda: Database(path)) == ("malformed" if length > 1 else "missing")


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x0a", None], ids=repr)
def test_overwritten_page_is_found_damaged(path: Path, filler: bytes | None) -> None:
    """Pages that hold something; of a table without rows, zeros are not its page either."""
    data = made(path).read_bytes()
    for page in range(len(data) // PAGE):
        bad = bytearray(data)
        bad[page * PAGE : (page + 1) * PAGE] = (
            random.Random(page).randbytes(PAGE) if filler is None else filler * PAGE
        )
        path.write_bytes(bad)
        assert refused(lambda: everything(path)) == "malformed"


def test_no_damage_raises_anything_but_a_storage_error(path: Path) -> None:
    """Some bytes mean nothing, and some no less than others; but what SQLite finds wrong is said as ours."""
    data, rng, kinds = made(path).read_bytes(), random.Random(7), set()
    for _ in range(250):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 1, 4, 30])):
            at = rng.choice([rng.randrange(len(data)), rng.randrange(100), rng.randrange(PAGE)])
            bad[at] = rng.choice([0, 255, bad[at] ^ (1 << rng.randrange(8))])
        path.write_bytes(bad)
        error = wrong_with(path)
        if error is not None:
            assert HIDDEN not in str(error)
            kinds.add(error.kind)
        for file in path.parent.glob("party.db-*"):
            file.unlink()
    assert "malformed" in kinds
    assert kinds <= {"malformed", "missing", "version"}


def test_damage_that_shows_only_when_it_is_read_is_said_as_ours(path: Path) -> None:
    """The file changes under an open database, whose pages are not all in memory."""
    made(path, 20_000)
    database = Database(path)
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(bytes(path.stat().st_size - PAGE))
    assert refused(lambda: database.rows("leaves")) == "malformed"
    database.close()


def test_text_that_is_none_is_damage(path: Path) -> None:
    made(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE quotas SET requester = CAST(x'ff00fe' AS TEXT)")
    connection.close()
    assert refused(lambda: everything(path)) == "malformed"


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
    second.close()


def test_database_that_was_only_opened_is_in_use_too(path: Path) -> None:
    made(path)
    database = Database(path)
    assert refused(lambda: Database(path)) == "in-use"
    database.close()


HOLDER = """
import sys
from revfrf.storage.database import Database
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
        database = Database(path)
        assert names(database) == [1]
        database.close()


def test_process_that_was_killed_leaves_what_it_has_committed_and_no_lock(path: Path) -> None:
    with holding(path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert path.with_name("party.db-wal").stat().st_size
        database = Database(path)
        assert names(database) == [1]
        database.close()


# -- whole steps ------------------------------------------------------------------------------------


class OurOwnError(Exception):
    pass


def check_refuses_everything(database: Database) -> None:
    for call in (
        lambda: put(database, 77),
        lambda: database.change("DELETE FROM leaves"),
        lambda: names(database),
        lambda: database.transaction().__enter__(),
        lambda: database.scrub(),
        lambda: database.check(),
    ):
        assert refused(call) == "closed"


@pytest.mark.parametrize("error", [OurOwnError, KeyError, KeyboardInterrupt, SystemExit, MemoryError])
def test_step_that_fails_half_way_has_not_happened_and_nothing_happens_after_it(
    path: Path, error: type[BaseException]
) -> None:
    database = Database(path, create=True)
    put(database, 1)
    with pytest.raises(error), database.transaction():  # noqa: PT012
        put(database, 2)
        database.put("leaves", [(0, 3, b"")])
        assert names(database) == [1, 2, 3]
        raise error("half-way")
    check_refuses_everything(database)
    database.close()
    again = Database(path)
    assert names(again) == [1]
    put(again, 4)
    assert names(again) == [1, 4]
    again.close()


def test_rows_of_a_step_are_all_written_or_none(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 5)

    def rows() -> Iterator[tuple[int, int, bytes]]:
        yield 0, 6, b""
        raise OurOwnError

    with pytest.raises(OurOwnError):
        database.put("leaves", rows())
    check_refuses_everything(database)
    again = Database(path)
    assert names(again) == [5]
    statement = "INSERT INTO leaves (tree, path) VALUES (0, ?)"
    assert isinstance(refusal(lambda: again.change(statement, [(8,), (9,), (5,)])), StorageError)
    check_refuses_everything(again)
    third = Database(path)
    assert names(third) == [5]
    third.close()


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("INSERT INTO facts VALUES (?, ?, ?)", ("name", HIDDEN, b"")),
        ("INSERT INTO facts VALUES (?, ?, ?)", (None, HIDDEN.encode(), b"")),
        ("INSERT INTO facts VALUES (?, ?, ?)", (HIDDEN, 5, b"")),
        ("INSERT INTO facts VALUES (?)", (HIDDEN,)),
        ("INSERT INTO facts VALUES (?, ?)", (HIDDEN,)),
        ("INSERT INTO secrets VALUES (?)", (HIDDEN,)),
        ("INSERT INTO facts VALUES (?, ?, ?)", ("name", {HIDDEN}, b"")),
        ("no SQL", ()),
    ],
)
def test_values_that_are_refused_are_not_printed(path: Path, statement: str, row: tuple[Any, ...]) -> None:
    database = Database(path, create=True)
    refusal(lambda: database.change(statement, [row]))
    check_refuses_everything(database)


def test_steps_within_a_step_are_one(path: Path) -> None:
    database = Database(path, create=True)
    with database.transaction():
        put(database, 1)
        with database.transaction():
            put(database, 2)
            with database.transaction():
                put(database, 3)
        put(database, 4)
    assert names(database) == [1, 2, 3, 4]
    with pytest.raises(OurOwnError), database.transaction():  # noqa: PT012
        with database.transaction():
            put(database, 5)
        put(database, 6)
        raise OurOwnError
    again = Database(path)
    assert names(again) == [1, 2, 3, 4]
    with pytest.raises(OurOwnError), again.transaction():  # noqa: PT012
        put(again, 7)
        with again.transaction():
            raise OurOwnError
    third = Database(path)
    assert names(third) == [1, 2, 3, 4]
    third.close()


def test_step_is_on_disk_before_the_next_begins(path: Path) -> None:
    """A copy of the files is what a crash leaves: every finished step, and nothing of the open one."""
    database = Database(path, create=True)
    for name in range(1, 6):
        put(database, name)
        with database.transaction():
            put(database, 10 + name)
            put(database, 20 + name)
            copy = copied(path, f"copy {name}")
        opened = Database(copy)
        done = [*range(1, name + 1), *range(11, 10 + name), *range(21, 20 + name)]
        assert names(opened) == done
        opened.close()
    database.close()


def copied(path: Path, name: str) -> Path:
    """The files of a database as they are now."""
    copy = path.parent / name / path.name
    copy.parent.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copy.parent / file.name)
    return copy


@pytest.mark.parametrize("damage", ["cut off", "noise", "a bit"])
def test_torn_log_leaves_the_state_after_a_whole_step(path: Path, damage: str) -> None:
    """Every step writes three rows and a number; of its pages none counts without the others."""
    database = Database(path, create=True)
    for step in range(40):
        with database.transaction():
            put(database, *(1000 * k + step for k in range(3)), size=600)
            database.put("quotas", [("steps", step + 1)])
    rng, found = random.Random(damage), set()
    for attempt in range(25):
        copy = copied(path, f"copy {attempt}")
        log = copy.with_name("party.db-wal")
        data = bytearray(log.read_bytes())
        at = rng.randrange(len(data))
        if damage == "cut off":
            del data[at:]
        elif damage == "noise":
            data[at:] = rng.randbytes(len(data) - at)
        else:
            data[at] ^= 1 << rng.randrange(8)
        log.write_bytes(data)
        error = wrong_with(copy)
        if error is not None:
            assert error.kind in ("malformed", "missing")  # not even the tables had been written
            continue
        opened = Database(copy)
        n_steps = dict(opened.rows("quotas")).get("steps", 0)
        assert names(opened) == sorted(1000 * k + step for k in range(3) for step in range(n_steps))
        found.add(n_steps)
        opened.close()
    assert len(found) > 5
    database.close()


def test_log_that_is_gone_is_an_older_state_or_none_but_never_half_a_step(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 1, 2)
    database.scrub()
    put(database, 3, 4)
    copy = copied(path, "copy")
    database.close()
    copy.with_name("party.db-wal").unlink()
    opened = Database(copy)
    assert names(opened) == [1, 2]
    opened.close()


def test_log_that_is_unlinked_under_an_open_database_is_no_error_of_sqlite(path: Path) -> None:
    database = Database(path, create=True)
    put(database, 1)
    path.with_name("party.db-wal").unlink()
    try:
        put(database, 2)
        database.scrub()
        assert names(database) == [1, 2]
    except StorageError:
        pass
    database.close()
    opened = Database(path)
    assert names(opened) in ([], [1], [1, 2])
    opened.close()


def test_log_of_another_database_raises_nothing_but_a_storage_error(path: Path) -> None:
    made(path)
    other = Database(path.with_name("other.db"), create=True)
    for name in range(50):
        put(other, name)
    shutil.copy(path.with_name("other.db-wal"), path.with_name("party.db-wal"))
    other.close()
    assert HIDDEN not in str(wrong_with(path))


def test_closed_database_refuses_everything_and_closes_again(path: Path) -> None:
    database = Database(path, create=True)
    database.close()
    database.close()
    check_refuses_everything(database)


ROWS: list[tuple[Any, ...]] = [
    ("facts", "größe", b""),
    ("facts", "", bytes(10_000)),
    ("leaves", 0, 2**63 - 1, b"x"),
    ("leaves", -(2**63), 0, b""),
    ("quotas", "nul\0nul", 0),
    ("batches", 7, b"root", b"leaves"),
    ("requests", b"", b"\xff"),
    ("cuts", 1, 2, 3, -4),
    ("splits", 1, 2, "bank/x", 3, "bank", b"turns", b"c", 4, 5, 6),
]


def test_rows_are_read_as_they_were_written_and_the_later_counts(path: Path) -> None:
    database = Database(path, create=True)
    for table, *row in ROWS:
        database.put(table, [row, row])
    for _ in range(2):
        for table in TABLES:
            expected = sorted(tuple(row) for other, *row in ROWS if other == table)
            assert sorted(database.rows(table)) == expected
        database.close()
        database = Database(path)
    assert database.rows("leaves", "path = ?", (0,)) == [(-(2**63), 0, b"")]
    database.put("quotas", [("nul\0nul", 9)])
    assert database.rows("quotas") == [("nul\0nul", 9)]
    database.close()


@pytest.mark.parametrize("row", [(0, 2**63, b""), (-(2**63) - 1, 0, b"")])
def test_numbers_that_do_not_fit_are_refused(path: Path, row: tuple[Any, ...]) -> None:
    database = Database(path, create=True)
    assert refused(lambda: database.put("leaves", [row])) == "io"
    check_refuses_everything(database)


CHANGES = {
    "a number": "UPDATE quotas SET n_rows = n_rows + 1",
    "a name": "UPDATE quotas SET requester = 'hospital'",
    "a number as text": "UPDATE facts SET name = 'number'",
    "a byte": "UPDATE leaves SET sums = x'00' WHERE path = 3",
    "a place": "UPDATE leaves SET path = 10000 WHERE path = 3",
    "nothing": "UPDATE leaves SET sums = NULL WHERE path = 3",
    "the seal": "UPDATE leaves SET seal = x'00' WHERE path = 3",
    "no seal": "UPDATE leaves SET seal = NULL WHERE path = 3",
    "the seal of another": "UPDATE leaves SET seal = (SELECT seal FROM leaves WHERE path = 4) WHERE path = 3",
    "a row without a seal": "INSERT INTO leaves (tree, path, sums) VALUES (5, 5, x'')",
    "a row of another table": "INSERT INTO cuts SELECT 0, 1, 7, 7, seal FROM quotas",
}


@pytest.mark.parametrize("what", CHANGES)
def test_rows_that_are_not_as_they_were_written_are_damage(path: Path, what: str) -> None:
    made(path)
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(CHANGES[what]).rowcount
    connection.close()
    assert refused(lambda: everything(path)) == "malformed"


# -- disks ------------------------------------------------------------------------------------------


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
    assert "make room" in str(caught.value)
    assert len(done) > 100
    check_refuses_everything(database)
    again = Database(path)
    assert names(again) == done
    put(again, 5000)
    assert names(again) == [*done, 5000]
    again.close()


WRITER = """
import resource, sys
from revfrf.errors import StorageError
from revfrf.storage.database import Database
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
    database.close()


@pytest.mark.parametrize("size", [0, 5 * PAGE])
def test_disk_that_takes_no_new_database_is_said(path: Path, size: int) -> None:
    code = """
import resource, sys
from revfrf.errors import StorageError
from revfrf.storage.database import Database
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
from revfrf.storage.database import Database
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
    again = Database(path)
    assert names(again) == expected
    again.close()


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
    again = Database(path)
    assert names(again) == [1]
    again.close()


# -- what is deleted --------------------------------------------------------------------------------


def test_scrub_empties_the_log_and_loses_nothing(path: Path) -> None:
    database = Database(path, create=True)
    put(database, *range(500))
    before = names(database)
    database.scrub()
    assert path.with_name("party.db-wal").stat().st_size == 0
    assert names(database) == before
    copy = copied(path, "copy")
    database.close()
    opened = Database(copy)
    assert names(opened) == before
    opened.close()


def test_settings_that_erasure_and_crashes_depend_on_are_set(path: Path) -> None:
    for create in (True, False):
        database = Database(path, create=create)
        settings = {
            name: database._value(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "secure_delete", "locking_mode", "temp_store")
        }
        assert settings == {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "locking_mode": "exclusive",
            "temp_store": 2,
        }
        database.close()
