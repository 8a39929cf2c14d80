"""The container of a key file: named strings to bytes and back, no I/O.

A file is JSON that a person can read, and comes in two shapes (version 1)::

    {"format": "revfrf-key", "version": 1, "kind": ..., "protection": null, "fields": {...}}
    {"format": "revfrf-key", "version": 1, "kind": ..., "protection": {"kdf": "scrypt", ...}, "sealed": hex}

In the second, `sealed` is ChaCha20-Poly1305 over the fields, under a key that scrypt derives from the
passphrase; all the rest of the file is its associated data. Each content has exactly one byte form, the one
that `seal` writes: anything else (another order, spaces, a key twice) is refused.
"""

import json
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from revfrf.crypto.secret import hides_locals
from revfrf.errors import KeyFileError, UsageError

FORMAT = "revfrf-key"
VERSION = 1
MAX_SIZE = 64 * 1024  # bytes of a key file, checked before it is parsed

_COST = 2**17  # scrypt's n: 128 MiB and some tenths of a second
_MAX_COST = 2**20  # 1 GiB: what a file may ask of its reader
_BLOCK = 8  # scrypt's r
_MAX_PARALLEL = 4  # scrypt's p
_SALT_BYTES = 16
_NONCE_BYTES = 12


@dataclass(frozen=True)
class _Protection:
    """How the fields are sealed: all that a reader needs besides the passphrase."""

    n: int
    r: int
    p: int
    salt: bytes
    nonce: bytes

    def header(self) -> dict[str, object]:
        return {
            "kdf": "scrypt",
            "n": self.n,
            "r": self.r,
            "p": self.p,
            "salt": self.salt.hex(),
            "cipher": "chacha20-poly1305",
            "nonce": self.nonce.hex(),
        }

    def cipher(self, passphrase: str) -> ChaCha20Poly1305:
        # Keyboards differ in how they compose an accent; the passphrase is the same.
        text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
        try:
            return ChaCha20Poly1305(Scrypt(self.salt, 32, n=self.n, r=self.r, p=self.p).derive(text))
        except MemoryError:
            need = 128 * self.n * self.r // 2**20
            raise KeyFileError(
                f"the passphrase needs {need} MiB of memory; free some", kind="too-large"
            ) from None


@hides_locals
def seal(kind: str, fields: Mapping[str, str], passphrase: str | None) -> bytes:
    """The bytes of a key file of `kind` that holds `fields`, protected if there is a passphrase.

    Raises UsageError for an empty passphrase or fields that are not strings, and KeyFileError (`too-large`)
    for what `unseal` would refuse for its size. No error shows a field's value or the passphrase.
    """
    _check_passphrase(passphrase)
    fields = dict(fields)
    if not isinstance(kind, str) or not _are_strings(fields):
        raise UsageError("the kind, and the names and values of the fields of a key file, must be strings")
    if passphrase is None:
        data = _dump(_header(kind, None) | {"fields": fields})
    else:
        protection = _Protection(_COST, _BLOCK, 1, _random(_SALT_BYTES), _random(_NONCE_BYTES))
        header = _header(kind, protection)
        sealed = protection.cipher(passphrase).encrypt(protection.nonce, _dump(fields), _dump(header))
        data = _dump(header | {"sealed": sealed.hex()})
    if len(data) > MAX_SIZE:
        raise KeyFileError(f"these fields do not fit into a key file of {MAX_SIZE} bytes", kind="too-large")
    return data


@hides_locals
def unseal(data: bytes, kind: str, passphrase: str | None) -> dict[str, str]:
    """The fields of a key file of `kind`.

    Raises KeyFileError; its kinds are `too-large` (the file, or the work that it asks for), `malformed`,
    `version`, `wrong-kind`, `passphrase-needed`, `passphrase-wrong` (or the file was changed) and
    `not-protected` (a passphrase is given, the file has none). No error shows a field's value or the
    passphrase.
    """
    _check_passphrase(passphrase)
    if len(data) > MAX_SIZE:
        raise KeyFileError(
            f"a key file has at most {MAX_SIZE} bytes, this one {len(data)}; is it a key file?",
            kind="too-large",
        )
    document = _load(data)
    _check_header(document, kind)
    if document["protection"] is None:
        fields = _parse_fields(document.get("fields"))
        _check_form(data, _header(kind, None) | {"fields": fields})
        if passphrase is not None:
            raise KeyFileError("this key file has no passphrase; open it without one", kind="not-protected")
    else:
        protection = _parse_protection(document["protection"])
        sealed = _parse_hex(document.get("sealed"))
        header = _header(kind, protection)
        _check_form(data, header | {"sealed": sealed.hex()})
        if passphrase is None:
            raise KeyFileError("this key file is protected; give its passphrase", kind="passphrase-needed")
        try:
            plain = protection.cipher(passphrase).decrypt(protection.nonce, sealed, _dump(header))
        except InvalidTag:
            raise KeyFileError(
                "the passphrase is wrong, or the key file was changed; try again or restore it",
                kind="passphrase-wrong",
            ) from None
        fields = _parse_fields(_load(plain))
        _check_form(plain, fields)
    return fields


def _check_passphrase(passphrase: str | None) -> None:
    if passphrase is not None and not isinstance(passphrase, str):
        raise UsageError("a passphrase is a str, or None for no protection")
    if passphrase is not None and not passphrase:
        raise UsageError("an empty passphrase protects nothing; give one, or None for no protection")


def _check_header(document: dict[str, Any], kind: str) -> None:
    if document.get("format") != FORMAT:
        raise malformed(f"it does not say format {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int:
        raise malformed("it has no version")
    if version != VERSION:
        raise KeyFileError(
            f"this key file is not of version {VERSION}; use the RevFRF that wrote it", kind="version"
        )
    found = document.get("kind")
    if not isinstance(found, str) or "protection" not in document:
        raise malformed("its header is incomplete")
    if found != kind:
        raise KeyFileError(
            f"this is a key file of kind {found[:40]!r}; give one of kind {kind!r}", kind="wrong-kind"
        )


def _parse_protection(protection: object) -> _Protection:
    if not isinstance(protection, dict):
        raise malformed("its protection is not understood")
    n, r, p = (protection.get(name) for name in "nrp")
    if not (type(n) is int and type(r) is int and type(p) is int):
        raise malformed("its scrypt parameters are not integers")
    if n > _MAX_COST or r > _BLOCK or p > _MAX_PARALLEL:
        raise KeyFileError(
            f"this key file asks for more work than n={_MAX_COST}, r={_BLOCK}, p={_MAX_PARALLEL}; "
            "restore it from a copy",
            kind="too-large",
        )
    if n < 2 or n & (n - 1) or r != _BLOCK or p < 1:
        raise malformed("its scrypt parameters are not valid")
    salt, nonce = _parse_hex(protection.get("salt")), _parse_hex(protection.get("nonce"))
    if len(salt) != _SALT_BYTES or len(nonce) != _NONCE_BYTES:
        raise malformed("its salt or nonce has another length")
    return _Protection(n, r, p, salt, nonce)


def _check_form(data: bytes, document: Mapping[str, object]) -> None:
    """What was understood, written again, must be what was read: nothing unknown, doubled or left out."""
    if _dump(document) != data:
        raise malformed("it is not as RevFRF writes it")


def _parse_fields(fields: object) -> dict[str, str]:
    if not _are_strings(fields):
        raise malformed("its fields are not strings")
    return fields


def _parse_hex(text: object) -> bytes:
    try:
        return bytes.fromhex(text if isinstance(text, str) else "?")
    except ValueError:
        raise malformed("a hex string is missing or broken") from None


def _load(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise malformed("it is not a JSON object")
    return document


def _dump(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def _header(kind: str, protection: _Protection | None) -> dict[str, object]:
    header = None if protection is None else protection.header()
    return {"format": FORMAT, "version": VERSION, "kind": kind, "protection": header}


def _are_strings(fields: object) -> TypeGuard[dict[str, str]]:
    return isinstance(fields, dict) and all(isinstance(x, str) for pair in fields.items() for x in pair)


def malformed(what: str) -> KeyFileError:
    """The error for a file whose content cannot be what RevFRF wrote."""
    return KeyFileError(f"this key file is damaged: {what}; restore it from a copy", kind="malformed")


def _random(size: int) -> bytes:
    """All randomness of this module, in one place, so that tests can fix it."""
    return secrets.token_bytes(size)
