"""Small files: whole or not at all, nothing that makes us wait, and who may use them."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import pytest

from revfrf.errors import ConfigError, StorageError, UsageError
from revfrf.io.files import (
    PRIVATE,
    PUBLIC,
    UNREADABLE,
    UnfitFileError,
    all_of,
    check_own,
    check_place,
    check_private,
    check_writable_by_owner_alone,
    content,
    create,
    opened,
    reading,
    replace,
    write_text,
    writing,
)

OLD, NEW = b"old, and longer than what comes", b"new"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


# -- reading ----------------------------------------------------------------------------------------


def test_a_file_is_read_up_to_its_limit(path: Path) -> None:
    for data in (b"", b"x", bytes(2**20 + 1)):
        path.write_bytes(data)
        assert content(path, len(data)) == data
        with pytest.raises(UnfitFileError, match="larger"):
            content(path, len(data) - 1)


def test_a_file_that_grows_while_it_is_read_is_too_large(path: Path) -> None:
    path.write_bytes(b"abc")
    with opened(path) as file:
        small = os.fstat(file.fileno())
        path.write_bytes(b"abcdef")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fstat", lambda _: small)
            with pytest.raises(UnfitFileError, match="larger"):
                all_of(file, 3)


MAKE: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["pipe", "directory", "device"])
def test_what_is_no_regular_file_is_refused_without_waiting(path: Path, what: str) -> None:
    MAKE[what](path)
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(UnfitFileError, match="not a regular"):
        content(path, 10)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_every_fault_of_reading_has_its_kind_and_names_the_path(path: Path) -> None:
    def kind(error: BaseException) -> str:
        with pytest.raises(ConfigError) as caught, reading(path, ConfigError, "give another"):
            raise error
        assert str(path) in str(caught.value)
        return caught.value.kind

    unfit = UnfitFileError("x"), UnfitFileError("x", "too-large")
    faults = (FileNotFoundError(2, "no"), *unfit, PermissionError(13, "no"))
    assert tuple(map(kind, faults)) == UNREADABLE
    assert kind(ValueError("embedded null byte")) == "io"


def test_an_error_of_ours_passes_as_it_is() -> None:
    for translating in (reading("x", UsageError, "y"), writing("x", UsageError)):
        with pytest.raises(ConfigError, match=r"^mine$"), translating:
            raise ConfigError("mine")


# -- writing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, PRIVATE, PUBLIC])
def test_who_may_read_a_new_file(tmp_path: Path, mode: int | None) -> None:
    before = os.umask(0o027)
    try:
        replace(tmp_path / "a", NEW, mode)
        if mode is not None:
            create(tmp_path / "b", NEW, mode)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o640 if mode is None else mode}


@pytest.mark.parametrize("mode", [None, PRIVATE])
def test_a_link_stays_a_link_but_a_private_file_takes_its_place(path: Path, mode: int | None) -> None:
    """A planted link decides neither where secrets go nor what they overwrite."""
    link = path.with_name("link")
    path.write_bytes(OLD)
    link.symlink_to(path)
    replace(link, NEW, mode)
    assert link.read_bytes() == NEW
    assert (path.read_bytes(), link.is_symlink()) == ((NEW, True) if mode is None else (OLD, False))
    assert set(path.parent.iterdir()) == {path, link}


def test_a_file_that_is_replaced_keeps_its_mode(path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    replace(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    replace(path, NEW, PRIVATE)
    assert stat.S_IMODE(path.stat().st_mode) == PRIVATE


@pytest.mark.parametrize(
    ("what", "mode"),
    [*product(("pipe", "directory", "device"), (None, PRIVATE)), ("loop", None)],
)
def test_nothing_but_a_file_is_replaced(path: Path, what: str, mode: int | None) -> None:
    MAKE[what](path)
    before = path.lstat().st_mode
    with pytest.raises(UsageError, match="cannot be written"), writing(path, UsageError):
        replace(path, NEW, mode)
    assert path.lstat().st_mode == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_there_counts_as_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that may be written to but not be read cannot be synced."""

    def unreadable(directory: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, str(directory))

    monkeypatch.setattr("revfrf.io.files.sync_directory", unreadable)
    replace(path, NEW)
    assert path.read_bytes() == NEW


STEPS: list[tuple[Callable[[Path, bytes], None], str]] = [
    *((replace, step) for step in ("open", "write", "fsync", "replace")),
    *((create, step) for step in ("open", "fchmod", "write", "fsync", "link")),
]


@pytest.mark.parametrize(("act", "step"), STEPS)
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_a_failure_all_is_as_it_was(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Path, bytes], None],
    step: str,
    error: type[BaseException],
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error(errno.ENOSPC, "No space left on device")

    if act is replace:
        path.write_bytes(OLD)
    before = list(path.parent.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(error):
            act(path, NEW)
    assert list(path.parent.iterdir()) == before
    assert act is create or path.read_bytes() == OLD


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_killed_process_leaves_the_old_file(path: Path, step: str) -> None:
    path.write_bytes(OLD)
    program = (
        "import os, signal, sys; from revfrf.io.files import replace\n"
        f"os.{step} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "replace(sys.argv[1], b'new')"
    )
    result = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert result.returncode == -9
    assert path.read_bytes() == OLD


def test_a_name_that_is_taken_is_told(path: Path) -> None:
    path.write_bytes(OLD)
    with (
        pytest.raises(UsageError, match="exists and is not overwritten") as caught,
        writing(path, UsageError),
    ):
        create(path, NEW)
    assert caught.value.kind == "exists"
    assert path.read_bytes() == OLD


def test_a_full_disk_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="file: cannot be written: No space left on device"):
        write_text(path, "text")
    with pytest.raises(UsageError, match="cannot be written"):
        write_text(path, "\ud800")
    assert not path.exists()


def test_where_no_file_can_be_is_known_before_the_work(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "not a file"),
        (tmp_path / "no" / "a.csv", "there is no directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(UsageError, match=f"cannot be written: {message}"):
            check_place(path)
    check_place(tmp_path / "new.csv")
    assert list(tmp_path.iterdir()) == []


# -- who may use them -------------------------------------------------------------------------------


def test_a_file_that_others_could_use_is_not_private(path: Path) -> None:
    path.touch(PRIVATE)
    check_private(path, path.stat(), StorageError)
    for mode in (0o604, 0o640, 0o601, 0o622):
        path.chmod(mode)
        with pytest.raises(StorageError) as caught:
            check_private(path, path.stat(), StorageError)
        assert caught.value.kind == "mode"


def test_a_file_of_another_user_is_not_ones_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    check_own(path, path.stat(), StorageError)
    check_writable_by_owner_alone(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)  # root's own files are anybody's to trust
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StorageError) as caught:
        check_own(path, path.stat(), StorageError)
    assert caught.value.kind == "owner"
    with pytest.raises(StorageError) as caught:
        check_writable_by_owner_alone(path)
    assert caught.value.kind == "owner"


def test_what_others_can_write_to_is_refused(path: Path) -> None:
    path.touch(PRIVATE)
    for place, remedy in ((path, "chmod 600"), (path.parent, "chmod 700")):
        mode = stat.S_IMODE(place.stat().st_mode)
        for more in (0o020, 0o002):
            place.chmod(mode | more)
            with pytest.raises(StorageError, match=remedy) as caught:
                check_writable_by_owner_alone(place)
            assert caught.value.kind == "mode"
        place.chmod(mode)
        check_writable_by_owner_alone(place)
