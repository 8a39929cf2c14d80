"""The container of a key file: one byte form, nothing tolerated, nothing shown."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto import sealing
from revfrf.crypto.sealing import MAX_SIZE, seal, unseal
from revfrf.errors import KeyFileError, UsageError
from tests.conftest import all_that_an_error_shows

WORDS = "Korrekt Pferd Batterie"
FIELDS = {"secret": "5ec4e7deadbeef", "public": "00ff0c0ffee00ff0", "note": 'ünïcode \u2028 \\ "'}
PUBLIC = b'"public": "00ff0c0ffee00ff0"'
PROTECTION = ["kdf", "n", "r", "p", "salt", "cipher", "nonce"]
NAMES = st.text(max_size=12)
KINDS = {
    "malformed",
    "version",
    "wrong-kind",
    "too-large",
    "passphrase-needed",
    "passphrase-wrong",
    "not-protected",
}


def quick_seal(kind: str, fields: dict[str, str], passphrase: str | None, cost: int = 2) -> bytes:
    """`seal` without the wait that protects a passphrase."""
    with mock.patch.object(sealing, "_COST", cost):
        return seal(kind, fields, passphrase)


@pytest.fixture
def fixed_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_random", lambda size: bytes(range(size)))


def kind_of(data: bytes, kind: str = "test", words: str | None = None) -> str:
    with pytest.raises(KeyFileError) as caught:
        unseal(data, kind, words)
    return caught.value.kind


def edited(data: bytes, edit: Callable[[dict[str, Any]], object]) -> bytes:
    """The file after a change by somebody who knows the format well."""
    document = json.loads(data)
    edit(document)
    return (json.dumps(document, indent=2) + "\n").encode()


# --- round trip ---------------------------------------------------------------------------------------


@given(NAMES, st.dictionaries(NAMES, NAMES), st.none() | st.text(min_size=1))
def test_what_is_sealed_can_be_unsealed(kind: str, fields: dict[str, str], words: str | None) -> None:
    assert unseal(quick_seal(kind, fields, words), kind, words) == fields


def test_default_cost_is_128_mebibytes_and_opens() -> None:
    data = seal("test", FIELDS, WORDS)
    assert json.loads(data)["protection"]["n"] == 2**17
    assert unseal(data, "test", WORDS) == FIELDS


def test_file_is_json_for_people() -> None:
    assert json.loads(seal("test", FIELDS, None)) == {
        "format": "revfrf-key",
        "version": 1,
        "kind": "test",
        "protection": None,
        "fields": FIELDS,
    }
    document = json.loads(quick_seal("test", FIELDS, WORDS))
    assert list(document) == ["format", "version", "kind", "protection", "sealed"]
    assert list(document["protection"]) == PROTECTION


def test_protected_file_shows_nothing_of_its_fields() -> None:
    data = quick_seal("test", FIELDS, WORDS)
    for name, value in FIELDS.items():
        assert name.encode() not in data
        assert value.encode() not in data
        assert value.encode().hex().encode() not in data


def test_salt_and_nonce_are_fresh_each_time() -> None:
    protections = [json.loads(quick_seal("test", FIELDS, WORDS))["protection"] for _ in range(8)]
    assert len({protection["salt"] for protection in protections}) == 8
    assert len({protection["nonce"] for protection in protections}) == 8


def test_accents_of_a_passphrase_may_be_typed_either_way() -> None:
    assert unseal(quick_seal("test", FIELDS, "caf\u00e9"), "test", "cafe\u0301") == FIELDS
    assert unseal(quick_seal("test", FIELDS, "\udcff"), "test", "\udcff") == FIELDS


@pytest.mark.usefixtures("fixed_randomness")
def test_sealed_bytes_follow_the_published_construction() -> None:
    data = quick_seal("test", {"a": "b"}, WORDS, cost=2**10)
    head = {
        "format": "revfrf-key",
        "version": 1,
        "kind": "test",
        "protection": {
            "kdf": "scrypt",
            "n": 2**10,
            "r": 8,
            "p": 1,
            "salt": bytes(range(16)).hex(),
            "cipher": "chacha20-poly1305",
            "nonce": bytes(range(12)).hex(),
        },
    }
    key = hashlib.scrypt(WORDS.encode(), salt=bytes(range(16)), n=2**10, r=8, p=1, dklen=32)
    associated = json.dumps(head, indent=2).encode() + b"\n"
    sealed = ChaCha20Poly1305(key).encrypt(bytes(range(12)), b'{\n  "a": "b"\n}\n', associated)
    assert data == json.dumps(head | {"sealed": sealed.hex()}, indent=2).encode() + b"\n"


def test_files_written_by_version_1_open_for_ever() -> None:
    assert unseal(OLD_PLAIN, "test", None) == {"a": "b"}
    assert unseal(OLD_SEALED, "test", WORDS) == {"a": "b"}


# --- tampering ----------------------------------------------------------------------------------------


def changes(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        yield data[:at]
        yield data[:at] + data[at + 1 :]
        yield data[:at] + b" " + data[at:]
        yield data[:at] + b"0" + data[at:]
    yield data + b"\n"
    yield b"\xef\xbb\xbf" + data
    yield data.replace(b"\n", b"\r\n")
    yield data.decode().encode("utf-16")


def test_every_changed_byte_of_a_protected_file_is_detected() -> None:
    data = quick_seal("test", FIELDS, WORDS)
    kinds = {kind_of(changed, words=WORDS) for changed in changes(data)}
    assert kinds == {"malformed", "version", "wrong-kind", "too-large", "passphrase-wrong"}


def test_changed_plain_file_is_refused_or_differs_in_its_fields_alone() -> None:
    data = seal("test", FIELDS, None)
    refused = 0
    for changed in changes(data):
        try:
            fields = unseal(changed, "test", None)
        except KeyFileError:
            refused += 1
        else:
            assert fields != FIELDS
    assert refused > len(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [("salt", "00" * 16), ("nonce", "00" * 12), ("n", 4), ("p", 2)],
)
def test_header_of_a_protected_file_cannot_be_swapped(name: str, value: object) -> None:
    data = edited(
        quick_seal("test", FIELDS, WORDS), lambda document: document["protection"].update({name: value})
    )
    assert kind_of(data, words=WORDS) == "passphrase-wrong"


def test_protected_file_cannot_pose_as_another_kind() -> None:
    data = edited(quick_seal("test", FIELDS, WORDS), lambda document: document.update(kind="other"))
    assert kind_of(data, kind="other", words=WORDS) == "passphrase-wrong"


def test_protection_cannot_be_stripped() -> None:
    def strip(document: dict[str, Any]) -> None:
        document["protection"] = None
        document["fields"] = {"sealed": document.pop("sealed")}

    assert kind_of(edited(quick_seal("test", FIELDS, WORDS), strip), words=WORDS) == "not-protected"


# --- strict parsing -----------------------------------------------------------------------------------

PLAIN_EDITS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("malformed", lambda d: d.update(extra=1)),
    ("malformed", lambda d: d.update(sealed="00")),
    ("malformed", lambda d: d.pop("format")),
    ("malformed", lambda d: d.pop("version")),
    ("malformed", lambda d: d.pop("kind")),
    ("malformed", lambda d: d.pop("protection")),
    ("malformed", lambda d: d.pop("fields")),
    ("malformed", lambda d: d.update(format="revfrf")),
    ("malformed", lambda d: d.update(format=None)),
    ("malformed", lambda d: d.update(version="1")),
    ("malformed", lambda d: d.update(version=True)),
    ("malformed", lambda d: d.update(version=1.0)),
    ("malformed", lambda d: d.update(version=None)),
    ("version", lambda d: d.update(version=0)),
    ("version", lambda d: d.update(version=2)),
    ("version", lambda d: d.update({name: 2 for name in d if name != "format"})),
    ("version", lambda d: d.update(version=10**4000)),
    ("malformed", lambda d: d.update(kind=1)),
    ("malformed", lambda d: d.update(kind=None)),
    ("wrong-kind", lambda d: d.update(kind="other")),
    ("wrong-kind", lambda d: d.update(kind="")),
    ("malformed", lambda d: d.update(protection={})),
    ("malformed", lambda d: d.update(protection=False)),
    ("malformed", lambda d: d.update(protection=[])),
    ("malformed", lambda d: d.update(fields=None)),
    ("malformed", lambda d: d.update(fields=[])),
    ("malformed", lambda d: d.update(fields="a")),
    ("malformed", lambda d: d["fields"].update(a=1)),
    ("malformed", lambda d: d["fields"].update(a=None)),
    ("malformed", lambda d: d["fields"].update(a=["b"])),
    ("malformed", lambda d: d["fields"].update(a={"b": "c"})),
    ("malformed", lambda d: d.update(kind=d.pop("kind"))),
]

SEALED_EDITS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("malformed", lambda d: d.update(extra=1)),
    ("malformed", lambda d: d.update(fields={})),
    ("malformed", lambda d: d.pop("sealed")),
    ("malformed", lambda d: d.update(sealed=None)),
    ("malformed", lambda d: d.update(sealed=1)),
    ("malformed", lambda d: d.update(sealed="0")),
    ("malformed", lambda d: d.update(sealed="xy")),
    ("malformed", lambda d: d.update(sealed=d["sealed"].upper() + "AB")),
    ("malformed", lambda d: d.update(sealed=d["sealed"] + " ")),
    ("passphrase-wrong", lambda d: d.update(sealed="")),
    ("passphrase-wrong", lambda d: d.update(sealed="00" * 15)),
    ("passphrase-wrong", lambda d: d.update(sealed=d["sealed"] + "00")),
    ("malformed", lambda d: d["protection"].update(extra=1)),
    *[("malformed", lambda d, name=name: d["protection"].pop(name)) for name in PROTECTION],
    ("malformed", lambda d: d["protection"].update(kdf="pbkdf2")),
    ("malformed", lambda d: d["protection"].update(cipher="none")),
    ("malformed", lambda d: d["protection"].update(salt="")),
    ("malformed", lambda d: d["protection"].update(salt=None)),
    ("malformed", lambda d: d["protection"].update(nonce="00" * 11)),
    ("malformed", lambda d: d["protection"].update(nonce="00" * 24)),
    *[("malformed", lambda d, n=n: d["protection"].update(n=n)) for n in (-4, 0, 1, 3, 2**17 - 1)],
    *[("malformed", lambda d, n=n: d["protection"].update(n=n)) for n in (2.0, "2", True, None)],
    *[("malformed", lambda d, r=r: d["protection"].update(r=r)) for r in (-8, 0, 1, 7, 8.0, "8")],
    *[("malformed", lambda d, p=p: d["protection"].update(p=p)) for p in (-1, 0, 1.0, True)],
    *[("too-large", lambda d, n=n: d["protection"].update(n=n)) for n in (2**20 + 1, 2**21, 2**64, 10**4000)],
    ("too-large", lambda d: d["protection"].update(r=9)),
    ("too-large", lambda d: d["protection"].update(p=5)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "edit"), PLAIN_EDITS)
def test_plain_file_of_another_shape_is_refused(kind: str, edit: Callable[[dict[str, Any]], object]) -> None:
    assert kind_of(edited(seal("test", FIELDS, None), edit)) == kind


@pytest.mark.parametrize(("kind", "edit"), SEALED_EDITS)
def test_protected_file_of_another_shape_is_refused(
    kind: str, edit: Callable[[dict[str, Any]], object]
) -> None:
    assert kind_of(edited(quick_seal("test", FIELDS, WORDS), edit), words=WORDS) == kind


@pytest.mark.parametrize("n", [2**20 + 1, 2**30, 2**63])
def test_vast_cost_is_refused_before_any_work(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = edited(quick_seal("test", FIELDS, WORDS), lambda document: document["protection"].update(n=n))

    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("scrypt was called")

    monkeypatch.setattr(sealing, "Scrypt", no_work)
    assert kind_of(data, words=WORDS) == "too-large"


def test_doubled_json_key_is_refused() -> None:
    data = seal("test", {"a": "b"}, None)
    for line in (b'"kind": "test"', b'"version": 1', b'"a": "b"', b'"protection": null'):
        assert line in data
        assert kind_of(data.replace(line, line + b", " + line)) == "malformed"
        assert kind_of(data.replace(line, line + b",\n  " + line)) == "malformed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"null",
        b"[]",
        b"1",
        b'"revfrf-key"',
        b"{}",
        b"\xff\xfe",
        b"[" * 60000,
        b'{"a":' * 10000,
        b"9" * 9999,
    ],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_no_key_file_is_malformed(data: bytes) -> None:
    assert kind_of(data) == "malformed"
    assert kind_of(data, words=WORDS) == "malformed"


def test_deeply_nested_fields_are_malformed() -> None:
    plain = seal("test", {"a": "b"}, None)
    for depth in (100, 300, 900, 5000):
        assert kind_of(plain.replace(b'"b"', b"[" * depth + b"]" * depth)) == "malformed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.fixed_dictionaries({}, optional={
    "format": st.just("revfrf-key") | json_values,
    "version": st.just(1) | json_values,
    "kind": st.just("test") | json_values,
    "protection": st.none() | json_values | st.fixed_dictionaries({
        "kdf": st.just("scrypt"),
        "n": st.integers(-4, 4) | json_values,
        "r": st.just(8) | json_values,
        "p": st.just(1) | json_values,
        "salt": st.just("00" * 16) | json_values,
        "cipher": st.just("chacha20-poly1305"),
        "nonce": st.just("00" * 12) | json_values,
    }),
    "fields": st.dictionaries(st.text(), st.text()) | json_values,
    "sealed": st.just("00" * 32) | json_values,
}), st.sampled_from([None, WORDS]))  # fmt: skip
def test_any_document_opens_or_is_a_key_file_error(document: dict[str, Any], words: str | None) -> None:
    data = (json.dumps(document, indent=2) + "\n").encode()
    try:
        fields = unseal(data, "test", words)
    except KeyFileError as error:
        outcome = error.kind
    else:
        outcome = "open" if fields == document["fields"] else "other fields"
    assert outcome in KINDS | {"open"}


@given(st.binary())
def test_any_bytes_are_malformed(data: bytes) -> None:
    assert kind_of(data) == "malformed"


def test_size_is_checked_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_parsing(_: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(json, "loads", no_parsing)
    assert kind_of(b"{" * (MAX_SIZE + 1)) == "too-large"


def test_nothing_is_sealed_that_would_not_open() -> None:
    room = MAX_SIZE - len(seal("test", {"a": ""}, None))
    assert unseal(seal("test", {"a": "b" * room}, None), "test", None) == {"a": "b" * room}
    for words in (None, WORDS):
        with pytest.raises(KeyFileError) as caught:
            quick_seal("test", {"a": "b" * (room + 1)}, words)
        assert caught.value.kind == "too-large"


# --- passphrases --------------------------------------------------------------------------------------


def test_protected_file_needs_its_passphrase() -> None:
    data = quick_seal("test", FIELDS, WORDS)
    assert kind_of(data) == "passphrase-needed"
    for wrong in (WORDS + " ", WORDS.lower(), "x", "\ud800"):
        assert kind_of(data, words=wrong) == "passphrase-wrong"


def test_passphrase_for_a_plain_file_is_refused() -> None:
    assert kind_of(seal("test", FIELDS, None), words=WORDS) == "not-protected"


@pytest.mark.parametrize("words", ["", b"bytes", 1, False])
def test_empty_or_odd_passphrase_is_the_callers_mistake(words: Any) -> None:
    with pytest.raises(UsageError, match="passphrase"):
        seal("test", FIELDS, words)
    for data in (seal("test", FIELDS, None), quick_seal("test", FIELDS, WORDS)):
        with pytest.raises(UsageError, match="passphrase"):
            unseal(data, "test", words)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("test", {"a": 5150}), ("test", {5150: "a"}), (b"test", {"a": "b"}), ("test", {"a": b"5150"})],
)
def test_fields_that_are_not_strings_are_the_callers_mistake(kind: Any, fields: Any) -> None:
    with pytest.raises(UsageError, match="must be strings") as caught:
        seal(kind, fields, None)
    assert "5150" not in str(caught.value)


def test_lack_of_memory_is_a_key_file_error(monkeypatch: pytest.MonkeyPatch) -> None:
    data = quick_seal("test", FIELDS, WORDS)

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(sealing, "Scrypt", no_memory)
    assert kind_of(data, words=WORDS) == "too-large"


# --- nothing shows ------------------------------------------------------------------------------------


def broken(data: bytes) -> list[bytes]:
    return [
        data[:-1],
        data[:-3],
        data + b" ",
        data.replace(b'"version": 1', b'"version": 2'),
        data.replace(b'"kind": "test"', b'"kind": "other"'),
        data.replace(PUBLIC, b'"public": 7'),
        data.replace(PUBLIC, PUBLIC + b", " + PUBLIC),
        data.replace(b"revfrf-key", b"else"),
        data.replace(b"\n", b"\n" + b" " * MAX_SIZE),
    ]


def assert_no_secret_in(text: str) -> None:
    assert "secret.py" in text
    for secret in (WORDS, FIELDS["secret"], FIELDS["note"], "ünïcode", "\\u00fcn"):
        assert secret not in text


@pytest.mark.parametrize("words", [None, WORDS])
def test_errors_of_a_plain_file_show_no_field(words: str | None) -> None:
    for data in broken(seal("test", FIELDS, None)):
        assert_no_secret_in(all_that_an_error_shows(partial(unseal, data, "test", words)))


def test_given_passphrase_is_not_shown_when_the_file_has_none() -> None:
    assert_no_secret_in(all_that_an_error_shows(partial(unseal, seal("test", FIELDS, None), "test", WORDS)))


def test_errors_of_a_protected_file_show_no_passphrase() -> None:
    data = quick_seal("test", FIELDS, "another")
    for changed in [data, *broken(data)]:
        assert_no_secret_in(all_that_an_error_shows(partial(unseal, changed, "test", WORDS)))


def test_errors_of_sealing_show_neither() -> None:
    odd: Any = FIELDS | {"a": 1}
    large = FIELDS | {"a": "b" * MAX_SIZE}
    for fields in (odd, large):
        for words in (None, WORDS):
            assert_no_secret_in(all_that_an_error_shows(partial(seal, "test", fields, words)))


OLD_PLAIN = b"""{
  "format": "revfrf-key",
  "version": 1,
  "kind": "test",
  "protection": null,
  "fields": {
    "a": "b"
  }
}
"""
OLD_SEALED = b"""{
  "format": "revfrf-key",
  "version": 1,
  "kind": "test",
  "protection": {
    "kdf": "scrypt",
    "n": 1024,
    "r": 8,
    "p": 1,
    "salt": "000102030405060708090a0b0c0d0e0f",
    "cipher": "chacha20-poly1305",
    "nonce": "000102030405060708090a0b"
  },
  "sealed": "41309e6b9caddc35d55bd27c59db75677b17c3269a1008f3fa741f5ab76f1a"
}
"""
