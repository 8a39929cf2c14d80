"""Keys for tests. Moduli of real size come from fixed primes, so that no test waits for a search."""

import json
import secrets
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

from revfrf.crypto.dtpkc import Parameters, PublicKey, WeakKey
from revfrf.crypto.primes import SafePrimes
from revfrf.crypto.strong import SetUp, StrongShare, _deal_from, set_up
from revfrf.errors import RevFRFError

settings.register_profile("revfrf", deadline=None)
settings.load_profile("revfrf")

PRIMES = Path(__file__).parent / "vectors" / "primes.json"


@dataclass(frozen=True)
class World:
    """One federation's keys: the dealt shares, the coordinator, and two parties."""

    dealt: SetUp
    cs: WeakKey
    alice: WeakKey
    bob: WeakKey

    @property
    def parameters(self) -> Parameters:
        return self.dealt.parameters

    @property
    def cs_share(self) -> StrongShare:
        return self.dealt.cs_share

    @property
    def cc_share(self) -> StrongShare:
        return self.dealt.cc_share


def deal(bits: int) -> SetUp:
    """A set-up of this size: from the fixed primes where there are some, else a fresh toy."""
    pairs = json.loads(PRIMES.read_text())["pairs"]
    if str(bits) not in pairs:
        return set_up(bits, allow_insecure=True)
    pair = pairs[str(bits)]
    primes = SafePrimes(int(pair["p"], 16), int(pair["q"], 16))
    return _deal_from(secrets.randbelow, primes, bits // 2, allow_insecure=True)


@lru_cache
def world_of(bits: int) -> World:
    dealt = deal(bits)
    return World(dealt, *(WeakKey.generate(dealt.parameters) for _ in range(3)))


@lru_cache
def public(key: WeakKey) -> PublicKey:
    return key.public


def all_that_an_error_shows(call: Callable[[], object]) -> str:
    """Everything a crash reporter could collect: message, locals of our frames, causes and contexts."""
    with pytest.raises(RevFRFError) as caught:
        call()
    error = caught.value
    assert error.__traceback__ is not None
    ours = error.__traceback__.tb_next  # without this very frame, which holds `call`
    report = traceback.TracebackException(type(error), error, ours, capture_locals=True)
    return "".join(report.format()) + repr(error) + repr(vars(error))


@pytest.fixture(scope="session")
def toy() -> World:
    """256 bits: protects nothing, compares one pair a ciphertext."""
    return world_of(256)


@pytest.fixture(scope="session", params=[160, 256, 512, 1024], ids="{}-bit".format)
def world(request: pytest.FixtureRequest) -> World:
    """Every size that is quick enough for laws."""
    return world_of(request.param)
