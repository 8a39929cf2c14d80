"""Key files on disk: mode 0600, never overwritten, never half-written.

What their bytes look like is the business of `revfrf.crypto.sealing`.
"""

import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeVar

from revfrf.crypto.sealing import MAX_SIZE, malformed, seal, unseal
from revfrf.crypto.secret import hides_locals
from revfrf.errors import InsecureKeyError, KeyFileError, RevFRFError, UsageError

_MODE = 0o600


class SecretKey(Protocol):
    """What a key file can hold: `WeakKey`, `StrongShare`, `SigningKey`."""

    kind: ClassVar[str]

    def to_fields(self) -> dict[str, str]: ...

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], allow_insecure: bool) -> Self: ...


Key = TypeVar("Key", bound=SecretKey)


@hides_locals
def save_key(path: str | os.PathLike[str], key: SecretKey, *, passphrase: str | None = None) -> None:
    """Write a new key file, sealed if there is a passphrase. Raises as `seal` and `write_key_file` do."""
    if not hasattr(key, "from_fields") or not hasattr(key, "kind"):
        raise UsageError(f"a key file holds a WeakKey, StrongShare or SigningKey, not a {type(key).__name__}")
    write_key_file(path, seal(key.kind, key.to_fields(), passphrase))


@hides_locals
def load_key(
    path: str | os.PathLike[str],
    key_type: type[Key],
    *,
    passphrase: str | None = None,
    allow_insecure: bool = False,
) -> Key:
    """The key of this type in this file.

    Raises KeyFileError as `read_key_file` and `unseal` do, and InsecureKeyError for a key that protects
    nothing, unless `allow_insecure`. No error shows the key.
    """
    fields = unseal(read_key_file(path), key_type.kind, passphrase)
    try:
        key = key_type.from_fields(fields, allow_insecure)
    except InsecureKeyError:
        raise
    except (KeyError, ValueError, RevFRFError):
        raise malformed("its fields do not make a key") from None
    if key.to_fields() != fields:
        raise malformed("its fields are not as RevFRF writes them")
    return key


@hides_locals
def write_key_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Create `path` with `data`, for its owner alone, on disk when this returns.

    All or nothing: after an error `path` is as it was before. Raises KeyFileError; its kinds are `exists`,
    `too-large` and `io`. The file system must have hard links.
    """
    target = Path(path)
    try:
        _create(target, data)
    except FileExistsError:
        raise KeyFileError(
            f"{target} exists and is not overwritten; give another path", kind="exists"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: no path at all, such as one with a null byte
        raise KeyFileError(f"{target} cannot be written: {_why(error)}", kind="io") from None


@hides_locals
def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a key file that nobody but its owner can use.

    Raises KeyFileError; its kinds are `missing`, `not-regular`, `mode`, `owner`, `too-large` and `io`.
    """
    target = Path(path)
    try:
        return _read(target)
    except FileNotFoundError:
        raise KeyFileError(f"{target} does not exist; give the path of a key file", kind="missing") from None
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{target} cannot be read: {_why(error)}", kind="io") from None


def _why(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)


def _create(target: Path, data: bytes) -> None:
    """Write a temporary file and give it the final name by a link, which fails if the name is taken."""
    _check_size(target, len(data))
    temporary = target.parent / f".revfrf-{secrets.token_hex(16)}.tmp"
    linked = False
    try:
        _write_new(temporary, data)
        os.link(temporary, target, follow_symlinks=False)
        linked = True
        temporary.unlink()
        _sync_directory(target.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        if linked:
            with suppress(OSError):
                target.unlink()
        raise


def _write_new(path: Path, data: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, _MODE)
    try:
        os.fchmod(descriptor, _MODE)  # the umask may have taken bits away
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    # Not blocking: a pipe in place of the file must not make us wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check_status(path, os.fstat(descriptor))
        data = b""
        while part := os.read(descriptor, MAX_SIZE + 1 - len(data)):
            data += part
    finally:
        os.close(descriptor)
    _check_size(path, len(data))  # again: it may have grown meanwhile
    return data


def _check_status(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"{path} is not a regular file; give the path of a key file", kind="not-regular")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        command = f"chmod 600 {shlex.quote(str(path))}"
        raise KeyFileError(
            f"{path} is open to others than its owner (mode {mode:04o}); run: {command}", kind="mode"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path} belongs to another user; give a key file of your own", kind="owner")
    _check_size(path, status.st_size)


def _check_size(path: Path, size: int) -> None:
    if size > MAX_SIZE:
        raise KeyFileError(f"{path}: a key file has at most {MAX_SIZE} bytes; is this one?", kind="too-large")
