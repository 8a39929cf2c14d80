"""A party's database is its owner's alone, and no foreign or damaged file is taken for one."""

import os
import random
import shlex
import socket
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from revfrf.storage.sqlite import VERSION, Database
from tests.storage.databases import HIDDEN, PAGE, everything, made, put, refusal, refused, wrong_with

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


CHANGES = {
    "a number": "UPDATE quotas SET n_rows = n_rows + 1",
    "a name": "UPDATE quotas SET requester = 'hospital'",
    "text that is none": "UPDATE quotas SET requester = CAST(x'ff00fe' AS TEXT)",
    "a number as text": "UPDATE facts SET name = 'number'",
    "a byte": "UPDATE leaves SET sums = x'00' WHERE path = 3",
    "a place": "UPDATE leaves SET path = 10000 WHERE path = 3",
    "nothing": "UPDATE leaves SET sums = NULL WHERE path = 3",
    "the checksum": "UPDATE leaves SET checksum = x'00' WHERE path = 3",
    "no checksum": "UPDATE leaves SET checksum = NULL WHERE path = 3",
    "the checksum of another": "UPDATE leaves SET checksum = "
    "(SELECT checksum FROM leaves WHERE path = 4) WHERE path = 3",
    "a row without a checksum": "INSERT INTO leaves (tree, path, sums) VALUES (5, 5, x'')",
    "a row of another table": "INSERT INTO own_splits SELECT 0, 1, 7, 7, checksum FROM quotas",
}


@pytest.mark.parametrize("what", CHANGES)
def test_rows_that_are_not_as_they_were_written_are_damage(path: Path, what: str) -> None:
    made(path)
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(CHANGES[what]).rowcount
    connection.close()
    assert refused(lambda: everything(path)) == "malformed"
