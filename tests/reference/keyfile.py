"""Key files, version 1: their bytes, and the keys in them.

    {"format": "revfrf-key", "version": 1, "kind": ..., "protection": null, "fields": {...}}
    {"format": "revfrf-key", "version": 1, "kind": ..., "protection": {"kdf": "scrypt", ...}, "sealed": hex}

written with two spaces of indentation, in ASCII, with a newline at the end. `sealed` is ChaCha20-Poly1305
over the fields, written in the same way, under the key that scrypt gives for the passphrase; the other
members, again so written, are its associated data.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, TypeAlias

from tests.reference import chacha
from tests.reference.dtpkc import Parameters, RefusedError, check_base

Document: TypeAlias = dict[str, Any]
Fields: TypeAlias = dict[str, str]

HEADER = ["format", "version", "kind", "protection"]
PROTECTION = ["kdf", "n", "r", "p", "salt", "cipher", "nonce"]
PARAMETERS = ["n", "g0", "exponent_bits"]
KEYS = {
    "weak-key": [*PARAMETERS, "sk"],
    "strong-share": [*PARAMETERS, "server", "value"],
    "signing-key": ["seed"],
}
MOST_WORK = {"n": 2**20, "r": 8, "p": 4}


# -- Writing ----------------------------------------------------------------------------------------


def dump(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def plain(kind: str, fields: Fields) -> Document:
    return {"format": "revfrf-key", "version": 1, "kind": kind, "protection": None, "fields": fields}


def protection(salt: bytes, nonce: bytes, n: int = 16, p: int = 1) -> Document:
    scrypt = {"kdf": "scrypt", "n": n, "r": 8, "p": p, "salt": salt.hex()}
    return {**scrypt, "cipher": "chacha20-poly1305", "nonce": nonce.hex()}


def protected(kind: str, content: bytes, passphrase: str, how: Document) -> Document:
    """`content` is honestly the `dump` of the fields."""
    header = {"format": "revfrf-key", "version": 1, "kind": kind, "protection": how}
    sealed = chacha.seal(derived(passphrase, how), bytes.fromhex(how["nonce"]), content, dump(header))
    return {**header, "sealed": sealed.hex()}


def derived(passphrase: str, how: Document) -> bytes:
    """scrypt of the passphrase, its accents composed."""
    text = unicodedata.normalize("NFC", passphrase).encode("utf-8")
    salt, n, r, p = bytes.fromhex(how["salt"]), how["n"], how["r"], how["p"]
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=2**31 - 1, dklen=32)


# -- Reading ----------------------------------------------------------------------------------------


def check(holds: bool, kind: str = "malformed") -> None:
    if not holds:
        raise RefusedError(kind)


def parse(data: bytes) -> Document:
    try:
        document = json.loads(data.decode("utf-8"))
    except ValueError:
        raise RefusedError("malformed") from None
    check(isinstance(document, dict))
    return dict(document)


def read(data: bytes, kind: str, passphrase: str | None) -> Fields:
    """The fields of a file of this kind."""
    document = parse(data)
    check(document.get("format") == "revfrf-key" and type(document.get("version")) is int)
    check(document["version"] == 1, "version")  # the form of other versions is not known
    check(isinstance(document.get("kind"), str))
    check(document["kind"] == kind, "wrong-kind")
    check(dump(document) == data)
    last = "fields" if document.get("protection") is None else "sealed"
    check(list(document) == [*HEADER, last])
    if last == "sealed":
        return read_protected(document, passphrase)
    check_fields(document["fields"])
    check(passphrase is None, "not-protected")
    return dict(document["fields"])


def read_protected(document: Document, passphrase: str | None) -> Fields:
    how, sealed = document["protection"], document["sealed"]
    check_protection(how)
    check_hex(sealed)
    if passphrase is None:
        raise RefusedError("passphrase-needed")
    header = {name: document[name] for name in HEADER}
    nonce, box = bytes.fromhex(how["nonce"]), bytes.fromhex(sealed)
    content = chacha.unseal(derived(passphrase, how), nonce, box, dump(header))
    if content is None:
        raise RefusedError("passphrase-wrong")
    fields = parse(content)
    check_fields(fields)
    check(dump(fields) == content)
    return fields


def check_protection(how: object) -> None:
    check(isinstance(how, dict) and list(how) == PROTECTION)
    assert isinstance(how, dict)
    check(how["kdf"] == "scrypt" and how["cipher"] == "chacha20-poly1305")
    check(all(type(how[name]) is int and how[name] > 0 for name in MOST_WORK))
    check(all(how[name] <= most for name, most in MOST_WORK.items()), "too-large")
    check(how["n"] in [2**i for i in range(1, 21)] and how["r"] == 8)
    check_hex(how["salt"], 16)
    check_hex(how["nonce"], 12)


def check_hex(text: object, size: int | None = None) -> None:
    """Lower-case hex of `size` bytes."""
    check(isinstance(text, str) and re.fullmatch("([0-9a-f]{2})*", text) is not None)
    check(size is None or len(str(text)) == 2 * size)


def check_fields(fields: object) -> None:
    check(isinstance(fields, dict) and all(isinstance(value, str) for value in fields.values()))


# -- Keys -------------------------------------------------------------------------------------------


def load(data: bytes, kind: str, passphrase: str | None, allow_insecure: bool) -> Fields:
    """The fields of a file that holds a key."""
    fields = read(data, kind, passphrase)
    check(sorted(fields) == sorted(KEYS[kind]))
    if kind == "signing-key":
        check_hex(fields["seed"], 32)
        return fields
    params = parameters(fields, allow_insecure)
    if kind == "weak-key":
        check(0 < number(fields["sk"]) < 2**params.exponent_bits and number(fields["sk"]) % 2 == 0)
    else:
        check(params.n <= number(fields["value"]) < params.n2 and fields["server"] in ("CS", "CC"))
    return fields


def parameters(fields: Fields, allow_insecure: bool) -> Parameters:
    n, g0, exponent_bits = (number(fields[name]) for name in PARAMETERS)
    size = n.bit_length()
    check(size >= 64 and size % 16 == 0 and n % 2 == 1 and 16 <= exponent_bits <= size)
    check(allow_insecure or (size >= 2048 and exponent_bits >= 256), "insecure-key")
    params = Parameters(n, g0, exponent_bits)
    try:
        check_base(params, g0)
    except RefusedError:
        raise RefusedError("malformed") from None
    return params


def number(text: str) -> int:
    """Lower-case hex, no zeros in front."""
    check(re.fullmatch("0|[1-9a-f][0-9a-f]*", text) is not None)
    return int(text, 16)
