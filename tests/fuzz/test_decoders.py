"""What comes from outside parses, or is refused by one typed error. `decoders` tries the same for longer."""

import random
import sys
import tempfile
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import decoders
from tests.fuzz.decoders import DECODERS, mutated

pytestmark = pytest.mark.filterwarnings("ignore:Parsed a serial number")
MOMENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", autouse=True)
def _own_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("fuzz")))
        decoders._scratch.cache_clear()
        yield
        decoders._scratch.cache_clear()


@cache
def valid(name: str) -> list[bytes]:
    return DECODERS[name].valid()


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_valid_parses(name: str) -> None:
    """Otherwise the tests below would only see refusals."""
    assert all(DECODERS[name].feed(data) for data in valid(name))


@pytest.mark.parametrize("name", DECODERS)
@MOMENT
@given(data=st.binary(max_size=300))
def test_noise_parses_or_is_refused(name: str, data: bytes) -> None:
    assert DECODERS[name].feed(data) in (True, False)


@pytest.mark.parametrize("name", DECODERS)
@MOMENT
@given(seed=st.integers(0, 2**64))
def test_what_is_almost_valid_parses_or_is_refused(name: str, seed: int) -> None:
    rng = random.Random(seed)
    assert DECODERS[name].feed(mutated(rng.choice(valid(name)), rng)) in (True, False)


def test_the_command_feeds_one_decoder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decoders, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["decoders", "--seconds", "0", "frame", "codec"])
    decoders.main()
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["frame", "codec"]


def test_the_command_names_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["decoders", "nothing"])
    with pytest.raises(SystemExit):
        decoders.main()
    assert "codec frame offer letter reply" in capsys.readouterr().err


def test_what_fails_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A decoder that raises anything else has a bug, and these are the bytes."""

    def broken(_: bytes) -> object:
        raise ZeroDivisionError

    monkeypatch.setitem(decoders.DECODERS, "broken", decoders.Decoder(broken, lambda: [b"valid"]))
    with pytest.raises(ZeroDivisionError):
        decoders._at_random("broken", 1)
    assert "broken: b" in capsys.readouterr().err
