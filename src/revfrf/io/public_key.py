"""Public keys in files that people read, mail and compare::

    revfrf verify key v1
    key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a
    fingerprint: dd832a8481991e9ec1946977a91c313e

Each key has exactly one such text, the one that `save_verify_key` writes; any other is refused. The
fingerprint is what `VerifyKey.fingerprint` says, for comparing over the telephone.
"""

import re
from contextlib import suppress

from revfrf.crypto.signing import KEY_BYTES, VerifyKey
from revfrf.errors import FormatError, KeyFileError
from revfrf.io.files import PUBLIC, PathLike, content, create, reading, writing

FORMAT = "revfrf verify key v1"
MAX_SIZE = 64 * 1024
_ANY_VERSION = b"revfrf verify key v"
_FORM = re.compile(rb"%s\nkey: ([0-9a-f]{%d})\n.*\n" % (FORMAT.encode(), 2 * KEY_BYTES))


def save_verify_key(path: PathLike, key: VerifyKey) -> None:
    """Write a public key to a new file that everybody may read.

    A file that holds this very key stays as it is; any other is not overwritten. Raises KeyFileError; its
    kinds are `exists` and `io`.
    """
    try:
        with writing(path, KeyFileError):
            create(path, _text(key), PUBLIC)
    except KeyFileError as error:
        with suppress(KeyFileError):
            if error.kind == "exists" and load_verify_key(path) == key:
                return
        raise


def load_verify_key(path: PathLike) -> VerifyKey:
    """Return the public key in this file.

    Raises KeyFileError; its kinds are `missing`, `not-regular`, `too-large` and `io` for the file, and
    `malformed` and `version` for its content.
    """
    with reading(path, KeyFileError, "give the path of a public key"):
        data = content(path, MAX_SIZE)
    if data.startswith(_ANY_VERSION) and data.partition(b"\n")[0].rstrip() != FORMAT.encode():
        raise KeyFileError(
            f"{path}: a public key of another version; this RevFRF reads {FORMAT!r}", kind="version"
        )
    parts = _FORM.fullmatch(data)
    if parts is None:
        raise _malformed(path, f"it is not a {FORMAT!r}")
    try:
        found = VerifyKey(bytes.fromhex(parts[1].decode()))
    except FormatError:
        raise _malformed(path, "its hex digits are not a key") from None
    if _text(found) != data:
        raise _malformed(path, "its fingerprint is not that of its key")
    return found


def _text(key: VerifyKey) -> bytes:
    return f"{FORMAT}\nkey: {key.raw.hex()}\nfingerprint: {key.fingerprint}\n".encode("ascii")


def _malformed(path: PathLike, what: str) -> KeyFileError:
    return KeyFileError(f"{path} is not a public key: {what}; ask for it again", kind="malformed")
