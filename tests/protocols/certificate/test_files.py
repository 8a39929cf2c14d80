"""Files of event certificates: what is written is read, byte for byte, and nothing else."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import CertificateError
from revfrf.protocols import certificate as certificate_module
from revfrf.protocols.certificate import FORMAT, MAX_SIZE, EventCertificate
from revfrf.testing.refusals import refused
from tests.protocols.happened import KINDS, OF_PAPER, Happened, completed, happened

any_kind = pytest.mark.parametrize("kind", [*KINDS, *OF_PAPER])


@pytest.fixture(params=["creation", "level 2", "paper, level 1"])
def some_event(request: pytest.FixtureRequest) -> Happened:
    return happened(request.param)


@any_kind
def test_certificate_comes_back_from_a_file_and_needs_nothing_but_a_key(kind: str, tmp_path: Path) -> None:
    event = happened(kind)
    for path in (tmp_path / "certificate.json", str(tmp_path / "again.json")):
        event.certificate.save(path)
        read = EventCertificate.load(path)
        assert read == event.certificate
        assert read.to_json() == Path(path).read_bytes()
        read.verify(VerifyKey(event.key.raw))


def test_certificate_with_a_completion_comes_back_too() -> None:
    certificate = completed().certificate
    assert EventCertificate.from_json(certificate.to_json()) == certificate


@any_kind
def test_file_is_json_that_people_can_read(kind: str) -> None:
    text = happened(kind).certificate.to_json().decode("utf-8")
    assert text.endswith("}\n")
    assert json.loads(text)["core"]["format"] == FORMAT
    assert max(map(len, text.splitlines())) < 1000


# -- one event has one text -------------------------------------------------------------------------


def repeated(text: str) -> str:
    """Programs that take the first of two values of one name read another certificate."""
    fake = text.replace('"kind": "', '"kind": "creation",\n    "kind": "', 1)
    assert json.loads(fake) == json.loads(text)
    return fake


def reordered(text: str) -> str:
    content = json.loads(text)
    return json.dumps({"receipts": content["receipts"], "core": content["core"]}, indent=2) + "\n"


FORMS: dict[str, Callable[[str], str]] = {
    "one line": lambda text: json.dumps(json.loads(text)),
    "compact": lambda text: json.dumps(json.loads(text), separators=(",", ":")),
    "wider": lambda text: json.dumps(json.loads(text), indent=8),
    "sorted": lambda text: json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n",
    "another order": reordered,
    "a key twice": repeated,
    "no newline at the end": lambda text: text[:-1],
    "space before it": lambda text: " " + text,
    "space after it": lambda text: text + " ",
    "a byte order mark": lambda text: "\ufeff" + text,
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "an escaped letter": lambda text: text.replace("revfrf", "\\u0072evfrf", 1),
    "an escaped slash": lambda text: text.replace("bank/x0", "bank\\/x0"),
    "a number as it need not be": lambda text: text.replace('"epoch": 1,', '"epoch": 1.0,', 1),
    "base64 without its end": lambda text: text.replace('=",', '",', 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_same_content_in_another_form_is_refused(form: str) -> None:
    """Else a text could show a reader something else than was verified."""
    text = happened("creation").certificate.to_json().decode()
    other = FORMS[form](text)
    assert other != text
    with refused("malformed"):
        EventCertificate.from_json(other.encode())


@pytest.mark.parametrize("sign", ["\x00", "\x07", "\n", "\x1b[31m"], ids=ascii)
def test_control_characters_are_in_no_text_as_they_are(sign: str) -> None:
    """They would change what a terminal shows of it."""
    text = happened("level 1").certificate.to_json().decode()
    for place in ("casino", "embedded", "revfrf"):
        with refused("malformed"):
            EventCertificate.from_json(text.replace(place, place + sign, 1).encode())


# -- what is no certificate -------------------------------------------------------------------------


def load_kind(path: Path | str) -> str:
    with pytest.raises(CertificateError) as caught:
        EventCertificate.load(path)
    assert str(path) in str(caught.value)
    return caught.value.kind


def test_file_that_cannot_be_read_or_written_is_named(some_event: Happened, tmp_path: Path) -> None:
    """`io.test_files` has all reasons."""
    assert load_kind(tmp_path / "nothing.json") == "missing"
    with refused("io"):
        some_event.certificate.save(tmp_path)


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "empty object": b"{}",
    "text": b"hello",
    "zeros": bytes(1000),
    "not UTF-8": b'{"core": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "deep object": b'{"core":' * 50_000,
    "random": random.Random(0).randbytes(5000),
    "long number": b'{"receipts": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_no_certificate(name: str, tmp_path: Path) -> None:
    path = tmp_path / "garbage.json"
    path.write_bytes(GARBAGE[name])
    assert load_kind(path) == "malformed"


def test_truncated_or_extended_certificate_is_none(some_event: Happened) -> None:
    data = some_event.certificate.to_json()
    cut = [data[:end] for end in range(0, len(data), 29)]
    for other in (*cut, data + b"x", data + b"{}", data + data):
        with refused("malformed"):
            EventCertificate.from_json(other)


@pytest.mark.parametrize(
    "part", [(), ("core",), ("core", "report"), ("core", "epoch_after"), ("receipts", 0)]
)
def test_unknown_and_missing_fields_are_refused(part: tuple[Any, ...]) -> None:
    content = json.loads(happened("level 2").certificate.to_json())

    def inside(whole: Any) -> Any:
        for key in part:
            whole = whole[key]
        return whole

    for name in (*inside(content), "more"):
        other = json.loads(json.dumps(content))
        inside(other).pop(name, None)
        if name == "more":
            inside(other)[name] = 1
        with refused("malformed"):
            EventCertificate.from_json(json.dumps(other, indent=2).encode() + b"\n")


def test_huge_file_is_not_read_to_its_end(
    some_event: Happened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_SIZE <= 2**29
    monkeypatch.setattr(certificate_module, "MAX_SIZE", 10_000)
    path = tmp_path / "huge.json"
    path.write_bytes(some_event.certificate.to_json() + b" " * 10_000)
    assert load_kind(path) == "too-large"
