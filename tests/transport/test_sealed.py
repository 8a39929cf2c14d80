"""Sealed messages: good for one reader, one writer, one place, one call. CS, who carries them, has none."""

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from revfrf.crypto.canonical import digest
from revfrf.errors import FormatError, PassportError, RejectedError, SecretError, SignatureError
from revfrf.transport.sealed import _SEALED, _SUITE, Header, Sealing, _Letter
from revfrf.transport.tls import Authority, Who
from tests.transport.links import Known, invited_by, known
from tests.transport.parties import NOW

KGC, BANK, TELCO, CS = known("KGC"), known("bank"), known("telco"), known("CS")
HEADER: Header = ("call", "KGC", "bank", 17)
SECRET = b"the strong share"
SEALED = KGC.sealing.seal(HEADER, BANK.passport, SECRET)


def refused(reader: Known, sealed: bytes, header: Header = HEADER) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        reader.sealing.open(header, sealed)
    assert caught.value.peer_message == "rejected"
    return caught.value


def letter(header: Header = HEADER, reader: Known = BANK, **parts: Any) -> bytes:
    """What CS, or anybody, can seal: HPKE needs no key of the writer."""
    honest = _Letter(KGC.tls.chain_pem, KGC.signing.sign(_SEALED, *header, SECRET), SECRET)
    plain = msgspec.msgpack.encode(msgspec.structs.replace(honest, **parts))
    return seal_raw(plain, header, reader)


def seal_raw(plain: bytes, header: Header = HEADER, reader: Known = BANK) -> bytes:
    key = X25519PublicKey.from_public_bytes(reader.passport.seal_key)
    return _SUITE.encrypt(plain, key, digest(_SEALED, *header))


@given(st.binary(max_size=300))
def test_the_recipient_opens_what_was_sealed_for_it(data: bytes) -> None:
    passport, opened = BANK.sealing.open(HEADER, KGC.sealing.seal(HEADER, BANK.passport, data))
    assert (passport, opened) == (KGC.passport, data)


def test_sealing_adds_no_more_than_is_allowed_for() -> None:
    long = invited_by(Authority.new("\N{GRINNING FACE}" * 100), Who("participant", "\N{GRINNING FACE}" * 100))
    for writer in (KGC, long):
        sealed = writer.sealing.seal(HEADER, writer.passport, bytes(5000))
        assert len(sealed) <= 5000 + Sealing.OVERHEAD


def test_nobody_else_opens_it() -> None:
    for other in (TELCO, CS, KGC, invited_by(Authority.new("breast cancer"), BANK.who)):
        assert isinstance(refused(other, SEALED), FormatError)


def test_it_shows_neither_what_it_says_nor_who_has_written_it() -> None:
    assert SECRET not in SEALED
    assert KGC.passport.verify_key not in SEALED
    assert KGC.sealing.seal(HEADER, BANK.passport, SECRET) != SEALED
    assert SECRET.decode() not in repr(KGC.sealing)
    with pytest.raises(SecretError):
        KGC.sealing.__reduce_ex__(4)


@pytest.mark.parametrize(
    "header",
    [
        ("reply", "KGC", "bank", 17),
        ("call", "CS", "bank", 17),
        ("call", "bank", "KGC", 17),
        ("call", "KGC", "telco", 17),
        ("call", "KGC", "bank", 18),
        ("call", "KG", "Cbank", 17),
    ],
    ids=str,
)
def test_it_is_good_for_one_place(header: Header) -> None:
    """Another kind, sender, recipient or number; a reflection."""
    refused(BANK, SEALED, header)


@pytest.mark.parametrize(
    "header",
    [("reply", "KGC", "bank", 17), ("call", "KGC", "telco", 17), ("call", "KGC", "bank", 18)],
    ids=str,
)
def test_what_was_signed_for_one_place_cannot_be_sealed_for_another(header: Header) -> None:
    """By somebody who has been told what the letter says."""
    signature = KGC.signing.sign(_SEALED, *HEADER, SECRET)
    assert isinstance(refused(BANK, letter(header, signature=signature), header), SignatureError)


def test_cs_seals_in_nobodys_name_but_its_own() -> None:
    mine = CS.signing.sign(_SEALED, *HEADER, SECRET)
    assert isinstance(refused(BANK, letter(signature=mine)), SignatureError)
    assert isinstance(refused(BANK, letter(signature=bytes(64))), SignatureError)
    assert isinstance(refused(BANK, letter(data=b"another share")), SignatureError)
    passport, _ = BANK.sealing.open(HEADER, letter(chain=CS.tls.chain_pem, signature=mine))
    assert passport.who == Who("CS", "CS")  # which is not whom the header names: `calls` looks at that


def test_the_recipient_learns_nothing_by_which_it_could_write_as_the_sender() -> None:
    """It opens the letter, and passes it on to another, who is not the one it was written to."""
    header: Header = ("call", "KGC", "telco", 17)
    passed_on = letter(header, TELCO, signature=KGC.signing.sign(_SEALED, *HEADER, SECRET))
    assert isinstance(refused(TELCO, passed_on, header), SignatureError)


def test_letters_of_a_foreign_authority_are_refused() -> None:
    foreign = invited_by(Authority.new("breast cancer"), KGC.who)
    sealed = foreign.sealing.seal(HEADER, BANK.passport, SECRET)
    assert refused(BANK, sealed).kind == "authority"


def test_letters_of_the_expired_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    later = NOW.replace(year=NOW.year + 2)
    monkeypatch.setattr("revfrf.transport.passport.moment", lambda _: later)
    assert refused(BANK, SEALED).kind == "expired"


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\x91" * 3000,
        msgspec.msgpack.encode([KGC.tls.chain_pem, bytes(64)]),
        msgspec.msgpack.encode([KGC.tls.chain_pem, bytes(63), b""]),
        msgspec.msgpack.encode([bytes(8193), bytes(64), b""]),
        msgspec.msgpack.encode(["text", bytes(64), b""]),
        msgspec.msgpack.encode([b"no certificates", bytes(64), b""]),
        msgspec.msgpack.encode([KGC.tls.ca_pem, bytes(64), b""]),
        msgspec.msgpack.encode([KGC.tls.chain_pem, bytes(64), b"", b"more"]),
        b"\x93\xa2\xff\xff\xc0\xc0",
    ],
)
def test_what_is_no_letter_is_refused(plain: bytes) -> None:
    assert isinstance(refused(BANK, seal_raw(plain)), FormatError | PassportError)


@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes) -> None:
    refused(BANK, data)
    refused(BANK, SEALED[:32] + data)
    refused(BANK, data + b"x" + SEALED)


@given(st.binary(max_size=300))
def test_noise_in_a_seal_is_refused(plain: bytes) -> None:
    refused(BANK, seal_raw(plain))


@given(st.integers(0, 2**32))
def test_every_bit_counts(seed: int) -> None:
    rng, data = random.Random(seed), bytearray(SEALED)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    refused(BANK, bytes(data))
    refused(BANK, SEALED[: rng.randrange(len(SEALED))])


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31), b"\xff" * 32])
def test_points_of_low_order_open_nothing(point: bytes) -> None:
    refused(BANK, point + SEALED[32:])


def test_a_passport_says_for_whom_to_seal() -> None:
    """A key that nobody has is not replaced by another."""
    elsewhere = replace(BANK.passport, seal_key=TELCO.passport.seal_key)
    sealed = KGC.sealing.seal(HEADER, elsewhere, SECRET)
    refused(BANK, sealed)
    assert TELCO.sealing.open(HEADER, sealed)[1] == SECRET
