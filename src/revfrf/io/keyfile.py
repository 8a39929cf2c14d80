"""Key files on disk: mode 0600, never overwritten, never half-written.

What their bytes look like is the business of `revfrf.crypto.sealing`.
"""

import os
from collections.abc import Mapping
from typing import ClassVar, Protocol, Self, TypeVar

from revfrf.crypto.sealing import MAX_SIZE, malformed, seal, unseal
from revfrf.crypto.secret import hides_locals
from revfrf.errors import InsecureKeyError, KeyFileError, RevFRFError, UsageError
from revfrf.io.files import all_of, check_own, check_private, create, opened, reading, writing


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
    if len(data) > MAX_SIZE:
        raise KeyFileError(f"{path}: a key file has at most {MAX_SIZE} bytes", kind="too-large")
    with writing(path, KeyFileError):
        create(path, data)


@hides_locals
def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a key file that nobody but its owner can use.

    Raises KeyFileError; its kinds are `missing`, `not-regular`, `mode`, `owner`, `too-large` and `io`.
    """
    with reading(path, KeyFileError, "give the path of a key file"), opened(path) as file:
        status = os.fstat(file.fileno())
        check_private(path, status, KeyFileError)
        check_own(path, status, KeyFileError)
        return all_of(file, MAX_SIZE)
