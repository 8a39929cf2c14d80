"""Secrets never show: not in repr, str, logs, pickles, copies, or the tracebacks of our own errors."""

import copy
import dataclasses
import io
import logging
import pickle
from collections.abc import Callable

import pytest

from revfrf.crypto.dtpkc import Ciphertext, WeakKey, ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.packing import Comparison, Mask, Pack, mask_comparisons, read_packs
from revfrf.crypto.possession import prove_possession
from revfrf.crypto.primes import SafePrimes
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import StrongShare, root_half, root_open, strong_half, strong_open
from revfrf.errors import SecretError, UsageError
from tests.conftest import World, all_that_an_error_shows, public

SEED = bytes(range(32))


def spellings(number: int) -> list[str]:
    """How a number might show, shortened as printers do."""
    return [f"{number:d}"[:24], f"{number:x}"[:20], f"{number:X}"[:20]]


def secrets_of(world: World) -> dict[str, tuple[Secret, list[str]]]:
    mask = Mask.generate()
    return {
        "SecretInt": (SecretInt(2**90 + 12345), spellings(2**90 + 12345)),
        "WeakKey": (world.alice, spellings(world.alice.sk.reveal())),
        "StrongShare": (world.cs_share, spellings(world.cs_share.value.reveal())),
        "SafePrimes": (SafePrimes(4294967087, 4294965887), ["4294967087", "4294965887"]),
        "Mask": (mask, spellings(mask.r)),
        "SigningKey": (SigningKey.from_bytes(SEED), [SEED.hex()[:16], repr(SEED)[2:20]]),
    }


NAMES = ["SecretInt", "WeakKey", "StrongShare", "SafePrimes", "Mask", "SigningKey"]


@pytest.mark.parametrize("name", NAMES)
def test_secrets_do_not_print(toy: World, name: str) -> None:
    secret, digits = secrets_of(toy)[name]
    stream = io.StringIO()
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.warning("%s %r", secret, secret)
    shown = f"{secret!r} {secret!s} {secret} {[secret]} {secret:>5} {(secret,)} {stream.getvalue()}"
    assert "secret" in shown
    assert not [text for text in digits if text in shown]


@pytest.mark.parametrize("name", NAMES)
def test_secrets_do_not_pickle_or_copy(toy: World, name: str) -> None:
    secret, _ = secrets_of(toy)[name]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(SecretError, match="cannot be pickled"):
            pickle.dumps(secret, protocol)
    for wrapped in ([secret], {"key": secret}, toy.dealt):
        with pytest.raises(SecretError):
            pickle.dumps(wrapped)
    with pytest.raises(SecretError):
        copy.copy(secret)
    with pytest.raises(SecretError):
        copy.deepcopy(secret)


@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_frozen(toy: World, name: str) -> None:
    secret, _ = secrets_of(toy)[name]
    if dataclasses.is_dataclass(secret):
        field = dataclasses.fields(secret)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(secret, field, None)
    else:
        with pytest.raises(AttributeError):
            secret.anything = 1  # type: ignore[attr-defined]


def failures(world: World) -> dict[str, Callable[[], object]]:
    """Our own errors, each raised while a secret is in use."""
    p = world.parameters
    [x] = ho_enc(public(world.alice), [5])
    bad = Ciphertext(x.c, 1)
    return {
        "hostile ciphertext to ParHDec1": lambda: par_h_dec1(world.alice, [bad]),
        "hostile ciphertext to ParHDec2": lambda: par_h_dec2(world.alice, [bad]),
        "wrong key": lambda: par_h_dec2(world.bob, [x]),
        "tampered share": lambda: par_h_dec2(world.alice, [x], [4]),
        "tampered half": lambda: strong_open(world.cc_share, [x.c], [4]),
        "tampered compressed half": lambda: root_open(world.cc_share, [x.c], [4]),
        "hostile C to the strong half": lambda: strong_half(world.cs_share, [0]),
        "hostile C to the compressed half": lambda: root_half(world.cs_share, [p.n]),
        "hostile comparison": lambda: mask_comparisons(
            world.cs_share, public(world.cs), [Comparison(x, bad)]
        ),
        "hostile pack": lambda: read_packs(world.cc_share, [Pack(x.c, 4, 1)]),
        "an odd weak key": lambda: WeakKey(p, SecretInt(world.alice.sk.reveal() + 1)),
        "a share too large": lambda: StrongShare(
            p, "CS", SecretInt(world.cs_share.value.reveal() + p.n_squared)
        ),
        "an owner that has no canonical bytes": lambda: prove_possession(world.alice, "\ud800"),
    }


CASES = [
    "hostile ciphertext to ParHDec1", "hostile ciphertext to ParHDec2", "wrong key", "tampered share",
    "tampered half", "tampered compressed half", "hostile C to the strong half",
    "hostile C to the compressed half", "hostile comparison", "hostile pack", "an odd weak key",
    "a share too large", "an owner that has no canonical bytes",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_tracebacks_of_our_errors_show_no_key_even_with_locals(toy: World, case: str) -> None:
    shown = all_that_an_error_shows(failures(toy)[case])
    keys = [
        toy.alice.sk.reveal(),
        toy.alice.sk.reveal() + 1,
        toy.bob.sk.reveal(),
        toy.cs.sk.reveal(),
        toy.cs_share.value.reveal(),
        toy.cs_share.value.reveal() + toy.parameters.n_squared,
        toy.cc_share.value.reveal(),
        toy.cs_share.root_exponent.reveal(),
        toy.cc_share.root_exponent.reveal(),
    ]
    assert not [key for key in keys if any(text in shown for text in spellings(key))]


def test_every_case_is_listed(toy: World) -> None:
    assert list(failures(toy)) == CASES
    assert list(secrets_of(toy)) == NAMES


def test_a_secret_is_exported_only_by_an_explicit_call() -> None:
    assert SecretInt(7).reveal() == 7
    assert not isinstance(SecretInt(7), int)
    with pytest.raises(TypeError):
        int(SecretInt(7))  # type: ignore[call-overload]


def test_secret_errors_are_usage_errors() -> None:
    assert issubclass(SecretError, UsageError)
