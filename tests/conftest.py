"""Keys for tests. Moduli of real size come from fixed primes, so that no test waits for a search."""

import json
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

from revfrf.crypto.dtpkc.keys import Parameters, WeakKey
from revfrf.crypto.dtpkc.primes import SafePrimes, safe_primes
from revfrf.crypto.dtpkc.strong import SetUp, _deal
from revfrf.errors import RevFRFError
from revfrf.testing.federations import prepared_keys
from tests.quick import quick

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell's background jobs ignore it, and so do children

settings.register_profile("same", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("new", deadline=None, max_examples=300)
settings.load_profile("same")  # inputs nobody has tried before are for `make test-all`

PRIMES = Path(__file__).parent / "vectors" / "primes.json"


@dataclass(frozen=True)
class World(SetUp):
    """One federation's keys: the dealt shares, a prime, the coordinator, and two parties."""

    p: int
    cs: WeakKey
    alice: WeakKey
    bob: WeakKey


@lru_cache
def world_of(bits: int) -> World:
    """Keys of this size: from the fixed primes where there are some, else from fresh ones."""
    pairs = json.loads(PRIMES.read_text())["pairs"]
    if str(bits) in pairs:
        primes = SafePrimes(*(int(pairs[str(bits)][name], 16) for name in "pq"))
    else:
        primes = safe_primes(bits // 2)
    dealt = _deal(primes, bits // 2, allow_insecure=True)
    keys = (WeakKey.generate(dealt.parameters) for _ in range(3))
    return World(dealt.parameters, dealt.cs_share, dealt.cc_share, primes.p, *keys)


def all_that_an_error_shows(call: Callable[[], object], kind: type[Exception] = RevFRFError) -> str:
    """Everything a crash reporter could collect: message, locals of our frames, causes and contexts."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert error.__traceback__ is not None
    ours = error.__traceback__.tb_next  # without this very frame, which holds `call`
    report = traceback.TracebackException(type(error), error, ours, capture_locals=True)
    return "".join(report.format()) + repr(error) + repr(vars(error))


@pytest.fixture
def drawn_exponents(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that every secret exponent is added to when it is drawn."""
    drawn: list[int] = []
    draw = Parameters.random_exponent

    def record(parameters: Parameters) -> int:
        drawn.append(draw(parameters))
        return drawn[-1]

    monkeypatch.setattr(Parameters, "random_exponent", record)
    return drawn


@pytest.fixture(scope="module")
def prepared_moduli() -> Iterator[None]:
    """Keys of later epochs without a search."""
    with prepared_keys():
        yield


@pytest.fixture(scope="session")
def toy() -> World:
    """256 bits: protects nothing, compares one pair a ciphertext."""
    return world_of(256)


@pytest.fixture(
    scope="session",
    params=quick([160, 256, 512, 1024], [160, 256]),
    ids="{}-bit".format,
)
def world(request: pytest.FixtureRequest) -> World:
    """Every size that is quick enough for laws."""
    return world_of(request.param)
