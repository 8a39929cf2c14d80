"""Files of public keys: what is written is read back, and nothing else is."""

import stat
from pathlib import Path

import pytest

from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import KeyFileError
from revfrf.io.public_key import MAX_SIZE, load_verify_key, save_verify_key

KEY = VerifyKey(bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
TEXT = (
    b"revfrf verify key v1\n"
    b"key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n"
    b"fingerprint: dd832a8481991e9ec1946977a91c313e\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kgc.pub"


def kind_of_loading(path: Path | str) -> str:
    with pytest.raises(KeyFileError) as caught:
        load_verify_key(path)
    assert str(path) in str(caught.value)
    return caught.value.kind


def kind_of_saving(path: Path | str, key: VerifyKey = KEY) -> str:
    with pytest.raises(KeyFileError) as caught:
        save_verify_key(path, key)
    return caught.value.kind


def test_file_is_the_text_that_is_promised_and_everybody_may_read_it(path: Path) -> None:
    save_verify_key(path, KEY)
    assert path.read_bytes() == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert load_verify_key(path) == KEY


def test_same_key_again_is_fine_and_another_is_not_written_over_it(path: Path) -> None:
    save_verify_key(path, KEY)
    before = path.stat().st_mtime_ns
    save_verify_key(path, KEY)
    assert kind_of_saving(path, SigningKey.generate().verify_key) == "exists"
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (TEXT, before)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"precious", b"", TEXT + b"more"])
def test_other_file_is_not_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert kind_of_saving(path) == "exists"
    assert path.read_bytes() == content


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    assert kind_of_saving(tmp_path) == "exists"
    assert kind_of_saving(tmp_path / "absent" / "key") == "io"
    assert kind_of_saving("a\0b") == "io"


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    assert kind_of_loading(tmp_path / "absent") == "missing"
    assert kind_of_loading(tmp_path) == "not-regular"
    assert kind_of_loading("a\0b") == "io"
    (tmp_path / "large").write_bytes(TEXT + b"\n" * MAX_SIZE)
    assert kind_of_loading(tmp_path / "large") == "too-large"
    (tmp_path / "file").write_bytes(TEXT)
    assert kind_of_loading(tmp_path / "file" / "below") == "io"


@pytest.mark.parametrize("first", ["revfrf verify key v2", "revfrf verify key v10", "revfrf verify key v"])
def test_other_version_is_named_as_such(path: Path, first: str) -> None:
    path.write_bytes(TEXT.replace(b"revfrf verify key v1", first.encode()))
    assert kind_of_loading(path) == "version"


MALFORMED = {
    "empty": b"",
    "no newline at the end": TEXT[:-1],
    "one more line": TEXT + b"\n",
    "capitals": TEXT.replace(b"d75a", b"D75A"),
    "spaces": TEXT.replace(b"key: ", b"key:  "),
    "space among the digits": TEXT.replace(b"d75a98", b"d75a 8"),
    "no hex": TEXT.replace(b"d75a", b"zzzz"),
    "no ASCII": TEXT.replace(b"d75a", "éé".encode()),
    "no key of the curve": TEXT.replace(KEY.raw.hex().encode(), b"02" + 31 * b"00"),
    "small order": TEXT.replace(KEY.raw.hex().encode(), b"01" + 31 * b"00"),
    "other fingerprint": TEXT.replace(b"dd83", b"dd84"),
    "line ends of other systems": TEXT.replace(b"\n", b"\r\n"),
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_was_not_written_like_this_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert kind_of_loading(path) == "malformed"


def test_no_changed_bit_goes_unnoticed(path: Path) -> None:
    for position in range(len(TEXT)):
        changed = bytearray(TEXT)
        changed[position] ^= 1
        path.write_bytes(changed)
        assert kind_of_loading(path) in ("malformed", "version")
