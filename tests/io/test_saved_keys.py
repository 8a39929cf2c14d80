"""Keys in files: they come back as they were, or not at all."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from revfrf.crypto.dtpkc.keys import WeakKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.crypto.signing import SigningKey
from revfrf.errors import InsecureKeyError, KeyFileError
from revfrf.io.keyfile import SecretKey, load_key, save_key
from tests.conftest import World, all_that_an_error_shows, world_of


def keys(world: World) -> list[SecretKey]:
    return [world.alice, world.cs_share, world.cc_share, SigningKey.generate()]


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_every_kind_of_key_comes_back_from_its_file(
    tmp_path: Path, toy: World, passphrase: str | None
) -> None:
    for number, key in enumerate(keys(toy)):
        path = tmp_path / f"{number}.key"
        save_key(path, key, passphrase=passphrase)
        loaded = load_key(path, type(key), passphrase=passphrase, allow_insecure=True)
        assert loaded.to_fields() == key.to_fields()
        assert path.stat().st_mode & 0o777 == 0o600
        assert ("fields" in path.read_text()) == (passphrase is None)


def test_a_real_key_needs_no_switch(tmp_path: Path) -> None:
    world = world_of(3072)
    save_key(tmp_path / "weak.key", world.alice)
    save_key(tmp_path / "share.key", world.cs_share)
    assert load_key(tmp_path / "weak.key", WeakKey).public == world.alice.public
    assert load_key(tmp_path / "share.key", StrongShare).server == "CS"


def test_an_insecure_key_is_not_loaded_by_accident(tmp_path: Path, toy: World) -> None:
    for name, key in (("weak.key", toy.alice), ("share.key", toy.cs_share)):
        save_key(tmp_path / name, key)
        with pytest.raises(InsecureKeyError, match="256-bit keys protect nothing"):
            load_key(tmp_path / name, type(key))


def test_one_kind_of_key_is_not_taken_for_another(tmp_path: Path, toy: World) -> None:
    path = tmp_path / "weak.key"
    save_key(path, toy.alice)
    for other in (StrongShare, SigningKey):
        with pytest.raises(KeyFileError) as caught:
            load_key(path, other, allow_insecure=True)
        assert caught.value.kind == "wrong-kind"


@pytest.mark.parametrize("number", range(4))
def test_any_damage_to_a_field_is_refused_without_showing_the_key(
    tmp_path: Path, toy: World, number: int
) -> None:
    key = keys(toy)[number]
    path = tmp_path / "good.key"
    save_key(path, key)
    good: dict[str, Any] = json.loads(path.read_text())
    fields = good["fields"]
    damages: list[dict[str, str]] = [fields | {"more": "1"}]
    for name, value in fields.items():
        damages += [{k: v for k, v in fields.items() if k != name}]
        damages += [fields | {name: bad} for bad in ("", "zz", "-1", "0", "0" + value, value.upper() + "_")]
    for attempt, damage in enumerate(damages):
        broken = tmp_path / f"{attempt}.key"
        broken.write_text(json.dumps(good | {"fields": damage}, indent=2) + "\n")
        broken.chmod(0o600)
        shown = all_that_an_error_shows(partial(load_key, broken, type(key), allow_insecure=True))
        assert "'kind': 'malformed'" in shown, damage
        secret = fields.get("sk") or fields.get("value") or fields["seed"]
        assert secret[:16] not in shown


def test_a_key_file_is_never_overwritten(tmp_path: Path, toy: World) -> None:
    path = tmp_path / "weak.key"
    save_key(path, toy.alice)
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="exists"):
        save_key(path, toy.bob)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["weak.key"]


def test_no_error_shows_the_passphrase(tmp_path: Path, toy: World) -> None:
    words = "correct horse battery"
    save_key(tmp_path / "weak.key", toy.alice, passphrase=words)
    save_key(tmp_path / "plain.key", toy.alice)
    calls: list[Callable[[], object]] = [
        partial(save_key, tmp_path / "weak.key", toy.bob, passphrase=words),
        partial(save_key, tmp_path / "no" / "weak.key", toy.bob, passphrase=words),
        partial(load_key, tmp_path / "weak.key", WeakKey, passphrase=words + "!"),
        partial(load_key, tmp_path / "weak.key", StrongShare, passphrase=words),
        partial(load_key, tmp_path / "weak.key", WeakKey, passphrase=words),  # insecure, without the switch
        partial(load_key, tmp_path / "plain.key", WeakKey, passphrase=words),
        partial(load_key, tmp_path / "missing.key", WeakKey, passphrase=words),
        partial(save_key, "null\0byte", toy.bob, passphrase=words),
        partial(save_key, "null\0byte", toy.bob),
        partial(save_key, str(tmp_path / "\ud800"), toy.bob),
        partial(load_key, "null\0byte", WeakKey, passphrase=words),
        partial(load_key, tmp_path / "weak.key", dict, passphrase=words),  # type: ignore[type-var]
        partial(load_key, tmp_path / "weak.key", WeakKey, words),  # type: ignore[call-arg]
    ]
    for call in calls:
        shown = all_that_an_error_shows(call, Exception)
        assert "correct horse" not in shown
        assert f"{toy.bob.sk.reveal():x}"[:16] not in shown


@pytest.mark.parametrize("path", ["null\0byte", "\ud800"])
def test_a_path_that_cannot_be_is_an_io_error(toy: World, path: str) -> None:
    for call in (partial(save_key, path, toy.alice), partial(load_key, path, WeakKey)):
        with pytest.raises(KeyFileError) as caught:
            call()
        assert caught.value.kind == "io"


def test_a_key_file_of_another_user_is_refused(
    tmp_path: Path, toy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weak.key"
    save_key(path, toy.alice)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid == 0:  # root's files are trusted by everybody; give this one away
        os.chown(path, 12345, -1)
    with pytest.raises(KeyFileError, match="another user") as caught:
        load_key(path, WeakKey, allow_insecure=True)
    assert caught.value.kind == "owner"
