"""Small files: read without surprises, written whole or not at all, and checked for who may use them.

Functions raise OSError where the system does; `reading` and `writing` make of it an error of this package.
"""

import errno
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from revfrf.errors import RevFRFError, StorageError, UsageError

PathLike = str | os.PathLike[str]
PRIVATE, PUBLIC = 0o600, 0o644
UNREADABLE = ("missing", "not-regular", "too-large", "io")
"""Kinds of errors that `reading` makes."""


class UnfitFileError(OSError):
    """No regular file, or one of more bytes than such a file may have."""

    def __init__(self, reason: str, kind: str = "not-regular") -> None:
        super().__init__(reason)
        self.kind = kind


# -- reading ----------------------------------------------------------------------------------------


@contextmanager
def reading(path: PathLike, failure: type[RevFRFError], remedy: str) -> Iterator[None]:
    """Raise `failure`, of a kind in UNREADABLE, for whatever is wrong with the file that is read."""
    try:
        yield
    except RevFRFError:
        raise
    except FileNotFoundError:
        raise failure(f"{path} does not exist; {remedy}", kind="missing") from None
    except UnfitFileError as error:
        raise failure(f"{path} is {error}; {remedy}", kind=error.kind) from None
    except (OSError, ValueError) as error:
        raise failure(f"{path} cannot be read: {why(error)}", kind="io") from None


@contextmanager
def opened(path: PathLike) -> Iterator[BinaryIO]:
    """A regular file, for reading. Raises OSError."""
    # Not blocking: a pipe in place of the file must not make us wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def all_of(file: BinaryIO, limit: int) -> bytes:
    """What is in an open file. Raises OSError for more than `limit` bytes."""
    size = os.fstat(file.fileno()).st_size
    data = file.read(size + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise UnfitFileError(f"larger than {limit} bytes", "too-large")
    if len(data) > size:
        raise OSError("it grows while it is read; try again")
    return data


def content(path: PathLike, limit: int) -> bytes:
    """What is in a regular file of at most `limit` bytes. Raises OSError."""
    with opened(path) as file:
        return all_of(file, limit)


# -- writing ----------------------------------------------------------------------------------------


@contextmanager
def writing(path: PathLike, failure: type[RevFRFError]) -> Iterator[None]:
    """Raise `failure` for a file that cannot be written; its kinds are `exists` and `io`."""
    try:
        yield
    except RevFRFError:
        raise
    except FileExistsError:
        raise failure(f"{path} exists and is not overwritten; give another path", kind="exists") from None
    except (OSError, ValueError) as error:
        raise failure(f"{path}: cannot be written: {why(error)}", kind="io") from None


def create(path: PathLike, data: bytes, mode: int = PRIVATE) -> None:
    """A new file, on disk when this returns; after an error all is as it was before. Raises OSError.

    The file system must have hard links: a link fails if the name is taken, as a renaming would not.
    """
    target, linked = Path(path), False
    try:
        with _written_beside(target, data, mode) as temporary:
            os.link(temporary, target, follow_symlinks=False)
            linked = True
        sync_directory(target.parent)
    except BaseException:
        if linked:
            with suppress(OSError):
                target.unlink()
        raise


def replace(path: PathLike, data: bytes, mode: int | None = None) -> None:
    """A file that appears whole, in place of one that may be there, or not at all. Raises OSError.

    With `mode`, a link at its place is replaced, too. Without, a link stays one, a file keeps its mode, and
    the umask decides who may read a new file.
    """
    target = Path(path)
    if mode is None:
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
    if target.exists() and not target.is_file():
        raise UnfitFileError("not a regular file")
    with _written_beside(target, data, mode) as temporary:
        temporary.replace(target)
    with suppress(OSError):  # it is there, and whole; a directory that cannot be read cannot be synced
        sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Have the names in it on disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_place(path: PathLike) -> None:
    """Raise UsageError if `write_text` could write no file there: to be asked before work begins."""
    place = Path(path)
    with writing(path, UsageError):
        if place.exists() and not place.is_file():
            raise OSError("not a file; give the path of one")
        if not place.parent.is_dir():
            raise OSError(f"there is no directory {place.parent}; make it first")
        if not os.access(place.parent, os.W_OK | os.X_OK):
            raise OSError(f"no permission to write in {place.parent}")


def write_text(path: PathLike, text: str) -> None:
    """Write a file in UTF-8, whole or not at all; one that is there is replaced. Raises UsageError."""
    check_place(path)
    with writing(path, UsageError):
        replace(path, text.encode())


@contextmanager
def _written_beside(target: Path, data: bytes, mode: int | None) -> Iterator[Path]:
    """A new file in the directory of another one, on disk. It is removed, unless it has been renamed."""
    path = target.parent / f".revfrf-{secrets.token_hex(16)}.tmp"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666 if mode is None else PRIVATE)
        with os.fdopen(descriptor, "wb"):
            if mode is not None:
                os.fchmod(descriptor, mode)  # the umask may have taken bits away
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


# -- who may use them -------------------------------------------------------------------------------


def check_private(path: PathLike, status: os.stat_result, failure: type[RevFRFError]) -> None:
    """Raise `failure`, of kind `mode`, for a file that others than its owner could read or change."""
    if status.st_mode & 0o077:
        mode, command = stat.S_IMODE(status.st_mode), f"chmod 600 {shlex.quote(str(path))}"
        raise failure(
            f"{path} is open to others than its owner (mode {mode:04o}); run: {command}", kind="mode"
        )


def check_own(path: PathLike, status: os.stat_result, failure: type[RevFRFError]) -> None:
    """Raise `failure`, of kind `owner`, for a file that neither this user nor root has made."""
    if status.st_uid not in (0, os.geteuid()):
        raise failure(f"{path} belongs to another user; run this as that user", kind="owner")


def check_writable_by_owner_alone(path: Path) -> None:
    """Raise StorageError for a file that others could change, or a directory in which they could."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise StorageError(
            f"{path}: it belongs to another user; run this as that user, or have it given to you by chown",
            kind="owner",
        )
    if status.st_mode & 0o022:
        mode = "700" if path.is_dir() else "600"
        raise StorageError(
            f"{path}: others can write to it; run: chmod {mode} {shlex.quote(str(path))}", kind="mode"
        )


def why(error: OSError | ValueError) -> str:
    """What the system says; a ValueError is a path that is none, such as one with a null byte."""
    return str(getattr(error, "strerror", None) or error)
