"""Key files on disk: for the owner alone, all or nothing, never over another file."""

import errno
import os
import resource
import shlex
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from revfrf.crypto.sealing import MAX_SIZE
from revfrf.errors import KeyFileError
from revfrf.io.keyfile import read_key_file, write_key_file
from tests.conftest import all_that_an_error_shows

DATA = b'{"secret": "5ec4e7"}\n'


def kind_of(call: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(KeyFileError) as caught:
        call(*arguments)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.kind


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


# --- writing ------------------------------------------------------------------------------------------


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    for name, data in (("a", DATA), ("b", b""), ("c", b"x" * MAX_SIZE)):
        write_key_file(tmp_path / name, data)
        assert read_key_file(str(tmp_path / name)) == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_mode_is_0600_whatever_the_umask(tmp_path: Path, umask: Callable[[int], int], mask: int) -> None:
    umask(mask)
    write_key_file(tmp_path / "key", DATA)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key_file(tmp_path / "key") == DATA


def test_file_is_never_open_to_others_while_it_is_written(
    tmp_path: Path, umask: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    umask(0)
    modes = []
    write = os.write

    def watched_write(descriptor: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    fchmod: list[int] = []
    monkeypatch.setattr(
        os, "fchmod", lambda descriptor, _: fchmod.append(os.fstat(descriptor).st_mode & 0o777)
    )
    monkeypatch.setattr(os, "write", watched_write)
    write_key_file(tmp_path / "key", DATA)
    assert fchmod == [0o600]
    assert modes == [0o600]


def test_existing_file_is_not_touched(tmp_path: Path) -> None:
    target = tmp_path / "key"
    target.write_bytes(b"precious")
    before = target.stat()
    assert kind_of(write_key_file, target, DATA) == "exists"
    assert target.read_bytes() == b"precious"
    assert (target.stat().st_mtime_ns, target.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("dangling", [True, False])
def test_symlink_at_the_destination_is_not_followed(tmp_path: Path, dangling: bool) -> None:
    victim = tmp_path / "victim"
    if not dangling:
        victim.write_bytes(b"precious")
    (tmp_path / "key").symlink_to(victim)
    assert kind_of(write_key_file, tmp_path / "key", DATA) == "exists"
    assert victim.exists() != dangling
    assert dangling or victim.read_bytes() == b"precious"
    assert (tmp_path / "key").is_symlink()


def test_directory_at_the_destination_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    assert kind_of(write_key_file, tmp_path / "key", DATA) == "exists"
    assert list(tmp_path.iterdir()) == [tmp_path / "key"]


@pytest.mark.parametrize("step", ["open", "fchmod", "write", "fsync", "link"])
def test_full_disk_at_any_step_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(errno.ENOSPC))
        with pytest.raises(KeyFileError, match="No space left on device") as caught:
            write_key_file(tmp_path / "key", DATA)
    assert caught.value.kind == "io"
    assert str(tmp_path / "key") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_directory_that_cannot_be_synced_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail_on_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_on_directories)
        assert kind_of(write_key_file, tmp_path / "key", DATA) == "io"
    assert list(tmp_path.iterdir()) == []


def test_disk_that_fills_up_half_way_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    steps = iter([True, True, False])

    def write_a_little(descriptor: int, data: bytes) -> int:
        if next(steps):
            return write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_a_little)
        assert kind_of(write_key_file, tmp_path / "key", DATA) == "io"
    assert list(tmp_path.iterdir()) == []


def test_limit_of_the_kernel_on_file_size_leaves_nothing_behind(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) - 1, hard))
    try:
        kind = kind_of(write_key_file, tmp_path / "key", DATA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kind == "io"
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1]))
    write_key_file(tmp_path / "key", DATA)
    assert read_key_file(tmp_path / "key") == DATA


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
def test_interruption_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_key_file(tmp_path / "key", DATA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
def test_killed_process_leaves_nothing_under_the_final_name(tmp_path: Path, step: str) -> None:
    program = (
        "import os, signal, sys; from revfrf.io.keyfile import write_key_file\n"
        f"os.{step} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_key_file(sys.argv[1], b'data')"
    )
    result = subprocess.run([sys.executable, "-c", program, str(tmp_path / "key")], check=False)
    assert result.returncode == -9
    assert not (tmp_path / "key").exists()


def test_data_is_on_disk_before_it_gets_its_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        events.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def watched_link(*arguments: Any, **options: Any) -> None:
        events.append("link")
        link(*arguments, **options)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    write_key_file(tmp_path / "key", DATA)
    assert events == ["file", "link", "directory"]


def test_of_many_writers_of_one_name_one_wins_whole(tmp_path: Path) -> None:
    outcomes: list[bytes | str] = []
    start = threading.Barrier(8)

    def write(data: bytes) -> None:
        start.wait()
        try:
            write_key_file(tmp_path / "key", data)
            outcomes.append(data)
        except KeyFileError as error:
            outcomes.append(error.kind)

    threads = [threading.Thread(target=write, args=(bytes([65 + i]) * 10000,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("exists") == 7
    assert read_key_file(tmp_path / "key") in outcomes
    assert list(tmp_path.iterdir()) == [tmp_path / "key"]


def test_file_that_would_not_be_read_is_not_written(tmp_path: Path) -> None:
    assert kind_of(write_key_file, tmp_path / "key", b"x" * (MAX_SIZE + 1)) == "too-large"
    assert list(tmp_path.iterdir()) == []


def test_missing_directory_is_named(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "key"
    with pytest.raises(KeyFileError, match="No such file or directory") as caught:
        write_key_file(target, DATA)
    assert caught.value.kind == "io"
    assert str(target) in str(caught.value)


def test_long_name_is_possible(tmp_path: Path) -> None:
    write_key_file(tmp_path / ("k" * 255), DATA)
    assert read_key_file(tmp_path / ("k" * 255)) == DATA
    assert kind_of(write_key_file, tmp_path / ("k" * 256), DATA) == "io"


def test_relative_path_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_key_file("key", DATA)
    assert read_key_file("key") == DATA


def test_no_descriptor_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    write_key_file(tmp_path / "key", DATA)
    kind_of(write_key_file, tmp_path / "key", DATA)
    read_key_file(tmp_path / "key")
    kind_of(read_key_file, tmp_path)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    kind_of(write_key_file, tmp_path / "other", DATA)
    assert descriptors() == before


def test_errors_of_writing_do_not_show_the_data(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    calls = [(tmp_path / "key", DATA), (tmp_path / "no" / "key", DATA), (tmp_path / "large", DATA * MAX_SIZE)]
    for path, data in calls:
        text = all_that_an_error_shows(partial(write_key_file, path, data))
        assert "secret.py" in text
        assert "5ec4e7" not in text


# --- reading ------------------------------------------------------------------------------------------


def test_every_mode_that_lets_others_in_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "a key"
    write_key_file(target, DATA)
    accepted = []
    for mode in range(0o600, 0o1000):
        target.chmod(mode)
        try:
            assert read_key_file(target) == DATA
            accepted.append(mode)
        except KeyFileError as error:
            problem = error
        if mode & 0o077:
            assert problem.kind == "mode"
            assert f"(mode {mode:04o})" in str(problem)
            assert str(problem).endswith(f"run: chmod 600 {shlex.quote(str(target))}")
    assert accepted == [0o600, 0o700]


def test_read_only_file_of_the_owner_is_fine(tmp_path: Path) -> None:
    write_key_file(tmp_path / "key", DATA)
    (tmp_path / "key").chmod(0o400)
    assert read_key_file(tmp_path / "key") == DATA


def test_missing_file_is_missing(tmp_path: Path) -> None:
    assert kind_of(read_key_file, tmp_path / "key") == "missing"
    (tmp_path / "key").symlink_to(tmp_path / "nowhere")
    assert kind_of(read_key_file, tmp_path / "key") == "missing"


def test_symlink_is_read_and_its_target_checked(tmp_path: Path) -> None:
    write_key_file(tmp_path / "key", DATA)
    (tmp_path / "link").symlink_to(tmp_path / "key")
    assert read_key_file(tmp_path / "link") == DATA
    (tmp_path / "key").chmod(0o640)
    assert kind_of(read_key_file, tmp_path / "link") == "mode"


@pytest.mark.timeout(60)
def test_pipe_or_directory_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert kind_of(read_key_file, tmp_path / "pipe") == "not-regular"
    assert kind_of(read_key_file, tmp_path) == "not-regular"
    assert kind_of(read_key_file, "/dev/zero") == "not-regular"


def test_large_file_is_refused_before_reading(tmp_path: Path) -> None:
    target = tmp_path / "key"
    target.touch(0o600)
    os.truncate(target, 2**40)  # no disk is used: the file is sparse; no memory could hold it
    assert kind_of(read_key_file, target) == "too-large"


def test_file_that_grows_after_the_check_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "key"
    write_key_file(target, DATA)
    small = target.stat()
    os.truncate(target, MAX_SIZE + 1)
    monkeypatch.setattr(os, "fstat", lambda _: small)
    assert kind_of(read_key_file, target) == "io"


def test_failing_read_names_the_file_and_the_reason() -> None:
    memory = (
        f"/proc/{os.getpid()}/mem"  # a regular file of its owner's alone, whose first page has no content
    )
    with pytest.raises(KeyFileError, match=f"{memory} cannot be read: Input/output error") as caught:
        read_key_file(memory)
    assert caught.value.kind == "io"


def test_path_through_a_file_is_an_io_error(tmp_path: Path) -> None:
    write_key_file(tmp_path / "key", DATA)
    assert kind_of(read_key_file, tmp_path / "key" / "key") == "io"
    assert kind_of(write_key_file, tmp_path / "key" / "key", DATA) == "io"
