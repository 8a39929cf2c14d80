"""Signatures: they hold for one key, one domain and one list of fields."""

from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.canonical import canonical
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import FormatError, SignatureError
from tests.conftest import all_that_an_error_shows
from tests.reference import ed25519

SEED = bytes(range(1, 33))
KEY = SigningKey.from_bytes(SEED)


@given(st.binary(min_size=32, max_size=32), st.text(min_size=1), st.lists(st.integers() | st.text()))
def test_what_a_key_signs_its_verify_key_accepts(seed: bytes, domain: str, fields: list[int | str]) -> None:
    key = SigningKey.from_bytes(seed)
    signature = key.sign(domain, *fields)
    key.verify_key.verify(signature, domain, *fields)
    with pytest.raises(SignatureError):
        key.verify_key.verify(signature, domain, *fields, None)
    with pytest.raises(SignatureError):
        key.verify_key.verify(signature, domain + "'", *fields)


def test_signature_is_plain_ed25519_over_the_canonical_bytes() -> None:
    signature = KEY.sign("domain", 1, "x")
    Ed25519PublicKey.from_public_bytes(KEY.verify_key.raw).verify(signature, canonical("domain", 1, "x"))
    assert len(signature) == 64
    assert KEY.verify_key.raw.hex() == "79b5562e8fe654f94078b112e8a98ba7901f853ae695bed7e0e3910bad049664"


@pytest.mark.parametrize("signature", [None, b"", b"\0" * 63, b"\0" * 65, b"\0" * 64, "0" * 64, 0, [], False])
def test_absent_or_misshapen_signature_is_rejected(signature: Any) -> None:
    with pytest.raises(SignatureError) as caught:
        KEY.verify_key.verify(signature, "domain", 1)
    assert caught.value.kind == "signature"
    assert caught.value.peer_message == "rejected"


def test_generated_keys_differ() -> None:
    assert len({SigningKey.generate().export() for _ in range(8)}) == 8


@pytest.mark.parametrize("seed", [b"", SEED[:31], SEED + b"\0", SEED.hex(), None])
def test_signing_key_of_another_shape_is_refused_without_showing_it(seed: Any) -> None:
    text = all_that_an_error_shows(partial(SigningKey.from_bytes, seed))
    assert "a signing key is 32 bytes" in text
    assert not any(part in text for part in (SEED[:31].hex(), repr(SEED[:31])[2:-1]))


def test_verify_key_is_a_value_that_prints_its_fingerprint() -> None:
    twin = VerifyKey(bytes(KEY.verify_key.raw))
    assert twin == KEY.verify_key
    assert {twin: "found"}[KEY.verify_key] == "found"
    assert twin != SigningKey.generate().verify_key
    assert repr(twin) == f"VerifyKey({twin.fingerprint})"
    assert str(twin) == twin.fingerprint == "aaeb147e760c7543bc54db3abfacc2cc"


@pytest.mark.parametrize("raw", [b"", b"\1" * 31, b"\1" * 33, "1" * 32, None, bytearray(32)])
def test_verify_key_of_another_length_or_type_is_refused(raw: Any) -> None:
    with pytest.raises(FormatError) as caught:
        VerifyKey(raw)
    assert caught.value.kind == "length"


def test_verify_key_must_be_a_point_of_the_curve() -> None:
    accepted = 0
    for y in range(2, 66):
        raw = y.to_bytes(32, "little")
        if ed25519.decode(raw) is None:
            with pytest.raises(FormatError) as caught:
                VerifyKey(raw)
            assert caught.value.kind == "malformed"
        else:
            accepted += 1
            assert VerifyKey(raw).raw == raw
    assert 16 < accepted < 48


def test_what_has_no_canonical_bytes_has_no_signature() -> None:
    nested: Any = ()
    for _ in range(5000):
        nested = (nested,)
    fields: list[Any] = ["\ud800", 1.5, [1], nested]
    for field in fields:
        with pytest.raises(SignatureError):
            KEY.verify_key.verify(KEY.sign("domain", 1), "domain", field)
