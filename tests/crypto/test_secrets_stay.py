"""Secrets never show: not in repr, str, logs, pickles, copies, or the tracebacks of our own errors."""

import copy
import dataclasses
import io
import logging
import pickle
from collections.abc import Callable
from functools import partial

import pytest

from revfrf.crypto.dtpkc.dtpkc import ho_enc, par_h_dec1, par_h_dec2
from revfrf.crypto.dtpkc.keys import Ciphertext, WeakKey
from revfrf.crypto.dtpkc.packing import Comparison, Mask, Pack, mask_comparisons, read_packs
from revfrf.crypto.dtpkc.possession import prove_possession
from revfrf.crypto.dtpkc.primes import SafePrimes
from revfrf.crypto.dtpkc.strong import StrongShare, root_half, root_open, strong_half, strong_open
from revfrf.crypto.secret import Secret, SecretInt
from revfrf.crypto.signing import SigningKey
from revfrf.errors import SecretError, UsageError
from tests.conftest import World, all_that_an_error_shows

SEED = bytes(range(1, 33))


def spellings(number: int) -> list[str]:
    """How a number might show, shortened as printers do."""
    return [f"{number:d}"[:24], f"{number:x}"[:20], f"{number:X}"[:20]]


SECRETS: dict[str, Callable[[World], tuple[Secret, int]]] = {
    "SecretInt": lambda _: (SecretInt(2**90 + 12345), 2**90 + 12345),
    "WeakKey": lambda world: (world.alice, world.alice.sk.reveal()),
    "StrongShare": lambda world: (world.cs_share, world.cs_share.value.reveal()),
    "SafePrimes": lambda _: (SafePrimes(4294967087, 4294965887), 4294967087),
    "Mask": lambda _: (Mask(True, 2**63 + 98765, 7), 2**63 + 98765),
    "SigningKey": lambda _: (SigningKey.from_bytes(SEED), int.from_bytes(SEED, "big")),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_do_not_print(toy: World, name: str) -> None:
    secret, number = SECRETS[name](toy)
    stream = io.StringIO()
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.warning("%s %r", secret, secret)
    shown = f"{secret!r} {secret!s} {secret} {[secret]} {secret:>5} {(secret,)} {stream.getvalue()}"
    assert "secret" in shown
    assert not [text for text in spellings(number) if text in shown]


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_do_not_pickle_or_copy(toy: World, name: str) -> None:
    secret, _ = SECRETS[name](toy)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(SecretError, match="cannot be pickled"):
            pickle.dumps(secret, protocol)
    for wrapped in ([secret], {"key": secret}, toy):
        with pytest.raises(SecretError):
            pickle.dumps(wrapped)
    with pytest.raises(SecretError):
        copy.copy(secret)
    with pytest.raises(SecretError):
        copy.deepcopy(secret)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_frozen(toy: World, name: str) -> None:
    secret, _ = SECRETS[name](toy)
    if dataclasses.is_dataclass(secret):
        field = dataclasses.fields(secret)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(secret, field, None)
    else:
        with pytest.raises(AttributeError):
            secret.anything = 1  # type: ignore[attr-defined]


def encrypted(world: World) -> Ciphertext:
    return ho_enc(world.alice.public, [5])[0]


def hostile(world: World) -> Ciphertext:
    return Ciphertext(encrypted(world).c, 1)


# fmt: off
FAILURES: dict[str, Callable[[World], object]] = {
    "hostile ciphertext to ParHDec1": lambda w: par_h_dec1(w.alice, [hostile(w)]),
    "hostile ciphertext to ParHDec2": lambda w: par_h_dec2(w.alice, [hostile(w)]),
    "wrong key": lambda w: par_h_dec2(w.bob, [encrypted(w)]),
    "tampered share": lambda w: par_h_dec2(w.alice, [encrypted(w)], [4]),
    "tampered half": lambda w: strong_open(w.cc_share, [encrypted(w).c], [4]),
    "tampered compressed half": lambda w: root_open(w.cc_share, [encrypted(w).c], [4]),
    "hostile C to the strong half": lambda w: strong_half(w.cs_share, [0]),
    "hostile C to the compressed half": lambda w: root_half(w.cs_share, [w.parameters.n]),
    "hostile comparison": lambda w: mask_comparisons(
        w.cs_share, w.cs.public, [Comparison(encrypted(w), hostile(w))]
    ),
    "hostile pack": lambda w: read_packs(w.cc_share, [Pack(encrypted(w).c, 4, 1)]),
    "an odd weak key": lambda w: WeakKey(w.parameters, SecretInt(w.alice.sk.reveal() + 1)),
    "a share too large": lambda w: StrongShare(
        w.parameters, "CS", SecretInt(w.cs_share.value.reveal() + w.parameters.n_squared)
    ),
    "an owner that has no canonical bytes": lambda w: prove_possession(w.alice, "\ud800"),
}
# fmt: on


@pytest.mark.parametrize("case", FAILURES)
def test_tracebacks_of_our_errors_show_no_key_even_with_locals(toy: World, case: str) -> None:
    shown = all_that_an_error_shows(partial(FAILURES[case], toy))
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


def test_a_failed_decryption_does_not_show_what_would_have_opened_the_original(toy: World) -> None:
    """On a tampered C, G^sk is still the root of the honest one."""
    honest = encrypted(toy)
    tampered = [Ciphertext(honest.c * 4 % toy.parameters.n_squared, honest.g)]
    shown = all_that_an_error_shows(partial(par_h_dec2, toy.alice, tampered))
    root = pow(honest.g, toy.alice.sk.reveal(), toy.parameters.n)
    assert not [text for text in spellings(root) if text in shown]


def test_a_secret_is_exported_only_by_an_explicit_call() -> None:
    assert SecretInt(7).reveal() == 7
    assert not isinstance(SecretInt(7), int)
    with pytest.raises(TypeError):
        int(SecretInt(7))  # type: ignore[call-overload]


def test_secret_errors_are_usage_errors() -> None:
    assert issubclass(SecretError, UsageError)
