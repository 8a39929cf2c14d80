"""Sealed messages: good for one reader, one writer, one place, once. CS, who carries them, has none."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from revfrf.errors import FormatError, LetterError, PassportError, RejectedError, SecretError, SignatureError
from revfrf.transport.join_token import Authority
from revfrf.transport.letters import (
    _CALL,
    _REPLY,
    Awaited,
    Letter,
    Place,
    Sealing,
    _Call,
    _Offer,
    _Reply,
    _sealed,
)
from revfrf.transport.passport import PartyId
from tests.transport.links import Known, invited_by, known, offer_of
from tests.transport.parties import NOW, authority

KGC, BANK, TELCO, CS = known("KGC"), known("bank"), known("telco"), known("CS")
PLACE: Place = ("KGC", "bank", 17)
ELSEWHERE: list[Place] = [
    ("CS", "bank", 17),
    ("bank", "KGC", 17),
    ("KGC", "telco", 17),
    ("KGC", "bank", 18),
    ("KG", "Cbank", 17),
]
"""Another caller, recipient or number; a reflection."""

SECRET, ANSWER = b"the strong share", b"it fits the other one"
LOW_ORDER = [
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]
FOREIGN = Authority.new("breast cancer")


def refused(act: Callable[..., object], *arguments: object) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        act(*arguments)
    assert caught.value.peer_message == "rejected"
    return caught.value


def written(place: Place = PLACE, data: bytes = SECRET) -> tuple[bytes, Awaited]:
    """A letter of KGC to a fresh key of bank."""
    offer = KGC.sealing.offered(PLACE, BANK.sealing.offer(PLACE))
    return KGC.sealing.seal(place, offer, data)


def unread(sealed: bytes, reader: Known = BANK, place: Place = PLACE) -> RejectedError:
    return refused(reader.sealing.open, place, sealed)


# -- letters and their answers ------------------------------------------------------------------------


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_recipient_opens_what_was_sealed_for_it_and_the_sender_the_answer(
    data: bytes, answer: bytes
) -> None:
    sealed, awaited = written(data=data)
    letter = BANK.sealing.open(PLACE, sealed)
    assert (letter.sender, letter.data) == (KGC.passport, data)
    assert awaited.open(BANK.sealing.answer(PLACE, letter, answer)) == answer


def test_sealing_adds_no_more_than_is_allowed_for() -> None:
    long = invited_by(
        Authority.new("\N{GRINNING FACE}" * 100), PartyId("participant", "\N{GRINNING FACE}" * 100)
    )
    for party in (KGC, long):
        place = (party.who.name, party.who.name, 2**63 - 1)
        offer = party.sealing.offer(place)
        sealed, _ = party.sealing.seal(place, party.sealing.offered(place, offer), bytes(5000))
        answer = party.sealing.answer(place, party.sealing.open(place, sealed), bytes(5000))
        assert max(len(offer), len(sealed) - 5000, len(answer) - 5000) <= Sealing.OVERHEAD


def test_nobody_else_opens_it() -> None:
    sealed, _ = written()
    for other in (TELCO, CS, KGC, invited_by(FOREIGN, BANK.who)):
        error = unread(sealed, other)
        assert (type(error), error.kind) == (LetterError, "unknown")
    assert BANK.sealing.open(PLACE, sealed).data == SECRET


def test_it_shows_neither_what_it_says_nor_who_has_written_it() -> None:
    sealed, awaited = written()
    for hidden in (SECRET, KGC.passport.verify_key, KGC.tls.chain_pem[100:200]):
        assert hidden not in sealed
    assert written()[0] != sealed
    assert ANSWER not in BANK.sealing.answer(PLACE, BANK.sealing.open(PLACE, sealed), ANSWER)
    for secret in (KGC.sealing, KGC.sealing._keys, awaited):
        assert SECRET.decode() not in repr(secret)
        with pytest.raises(SecretError):
            secret.__reduce_ex__(4)


@pytest.mark.parametrize("place", ELSEWHERE, ids=str)
def test_a_letter_is_good_for_one_place(place: Place) -> None:
    unread(written()[0], place=place)


@pytest.mark.parametrize("place", ELSEWHERE, ids=str)
def test_an_answer_is_good_for_one_place(place: Place) -> None:
    sealed, awaited = written()
    letter = BANK.sealing.open(PLACE, sealed)
    refused(awaited.open, BANK.sealing.answer(place, letter, ANSWER))
    assert awaited.open(BANK.sealing.answer(PLACE, letter, ANSWER)) == ANSWER


def test_an_answer_to_another_letter_is_refused() -> None:
    """Of the same caller to the same party, whatever numbers CS gives it."""
    (first, _), (_, awaited) = written(), written()
    answer = BANK.sealing.answer(PLACE, BANK.sealing.open(PLACE, first), ANSWER)
    assert isinstance(refused(awaited.open, answer), FormatError)


@pytest.mark.parametrize("writer", [TELCO, CS, KGC, invited_by(FOREIGN, BANK.who)])
def test_an_answer_of_somebody_else_is_refused(writer: Known) -> None:
    """Even of somebody who was told the letter, and has its key for the answer."""
    sealed, awaited = written()
    letter = BANK.sealing.open(PLACE, sealed)
    assert isinstance(refused(awaited.open, writer.sealing.answer(PLACE, letter, ANSWER)), SignatureError)


def test_a_letter_is_no_answer_and_an_answer_no_letter() -> None:
    sealed, awaited = written()
    letter = BANK.sealing.open(PLACE, sealed)
    signature = BANK.signing.sign(_CALL, *PLACE, letter.key, ANSWER)
    plain = msgspec.msgpack.encode(_Reply(signature, ANSWER))
    refused(awaited.open, _sealed(plain, letter.key, _CALL, PLACE))
    refused(awaited.open, _sealed(plain, letter.key, _REPLY, PLACE))


# -- forged letters -----------------------------------------------------------------------------------


def forged(place: Place = PLACE, reader: Known = BANK, signed: Place | None = None, **parts: Any) -> bytes:
    """What CS, or anybody, can seal: HPKE needs no key of the writer."""
    key = reader.sealing._keys.make(place[0])
    reply = X25519PrivateKey.generate().public_key().public_bytes_raw()
    signature = KGC.signing.sign(_CALL, *(signed or place), key, reply, SECRET)
    honest = _Call(KGC.tls.chain_pem, reply, signature, SECRET)
    return around(msgspec.msgpack.encode(msgspec.structs.replace(honest, **parts)), place, key)


def around(plain: bytes, place: Place = PLACE, key: bytes | None = None) -> bytes:
    """These bytes, sealed for bank."""
    key = key or BANK.sealing._keys.make(place[0])
    return key + _sealed(plain, key, _CALL, place)


def test_what_is_forged_below_would_be_read_without_the_forgery() -> None:
    assert BANK.sealing.open(PLACE, forged()).data == SECRET


@pytest.mark.parametrize("place", [place for place in ELSEWHERE if place[1] == "bank"], ids=str)
def test_what_was_signed_for_one_place_cannot_be_sealed_for_another(place: Place) -> None:
    """By somebody who has been told what the letter says."""
    assert isinstance(unread(forged(place, signed=PLACE), place=place), SignatureError)


def test_what_was_signed_for_one_key_cannot_be_sealed_to_another() -> None:
    key, reply = BANK.sealing._keys.make("KGC"), BANK.sealing._keys.make("KGC")
    signature = KGC.signing.sign(_CALL, *PLACE, key, reply, SECRET)
    assert isinstance(unread(forged(signature=signature, key=reply)), SignatureError)
    assert isinstance(unread(forged(key=key)), SignatureError)


def test_cs_seals_in_nobodys_name_but_its_own() -> None:
    assert isinstance(unread(forged(signature=bytes(64))), SignatureError)
    assert isinstance(unread(forged(data=b"another share")), SignatureError)
    assert isinstance(unread(forged(chain=CS.tls.chain_pem)), SignatureError)
    sealed, _ = CS.sealing.seal(PLACE, offer_of(BANK, "KGC"), SECRET)
    assert BANK.sealing.open(PLACE, sealed).sender.who == CS.who  # whom `calls` compares with the place


def test_the_recipient_learns_nothing_by_which_it_could_write_as_the_sender() -> None:
    """It opens the letter, and passes it on to another, who is not the one it was written to."""
    place: Place = ("KGC", "telco", 17)
    assert isinstance(unread(forged(place, TELCO, signed=PLACE), TELCO, place), SignatureError)


def test_letters_and_offers_of_the_expired_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, offer = written()[0], BANK.sealing.offer(PLACE)
    monkeypatch.setattr("revfrf.transport.passport.moment", lambda _: NOW.replace(year=NOW.year + 2))
    assert unread(sealed).kind == "expired"
    assert refused(KGC.sealing.offered, PLACE, offer).kind == "expired"


# -- keys that are good for once ----------------------------------------------------------------------


def test_a_key_opens_one_letter() -> None:
    sealed, _ = written()
    BANK.sealing.open(PLACE, sealed)
    for _ in range(3):
        error = unread(sealed)
        assert (type(error), error.kind) == (LetterError, "spent")


def test_a_key_is_spent_by_a_letter_that_does_not_open() -> None:
    """There is no second guess."""
    sealed, _ = written()
    assert isinstance(unread(sealed[:-1] + bytes([sealed[-1] ^ 1])), FormatError)
    assert unread(sealed).kind == "spent"


def test_a_key_is_good_for_the_caller_to_whom_it_was_offered() -> None:
    offer = TELCO.sealing.offered(("telco", "KGC", 1), KGC.sealing.offer(("telco", "KGC", 1)))
    sealed, _ = BANK.sealing.seal(("bank", "KGC", 1), offer, SECRET)
    assert unread(sealed, KGC, ("bank", "KGC", 1)).kind == "unknown"


# -- points of low order ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda point: point[:2].hex())
def test_points_of_low_order_open_nothing(point: bytes) -> None:
    sealed, awaited = written()
    assert unread(point + sealed[32:]).kind == "unknown"
    assert isinstance(unread(sealed[:32] + point + sealed[64:]), FormatError)
    sealed, awaited = written()
    answer = BANK.sealing.answer(PLACE, BANK.sealing.open(PLACE, sealed), ANSWER)
    assert isinstance(refused(awaited.open, point + answer[32:]), FormatError)


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda point: point[:2].hex())
def test_nothing_is_sealed_to_a_point_of_low_order_whoever_offers_it(point: bytes) -> None:
    """Everybody could read it: a letter to such an offer, or the answer to a letter with such a key."""
    refused(KGC.sealing.seal, PLACE, Letter(BANK.passport, point), SECRET)
    refused(BANK.sealing.answer, PLACE, Letter(KGC.passport, point), ANSWER)


# -- noise --------------------------------------------------------------------------------------------

CHAIN, KEY = KGC.tls.chain_pem, KGC.passport.verify_key


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\x91" * 3000,
        msgspec.msgpack.encode([CHAIN, KEY, bytes(64)]),
        msgspec.msgpack.encode([CHAIN, KEY, bytes(63), b""]),
        msgspec.msgpack.encode([CHAIN, KEY[:31], bytes(64), b""]),
        msgspec.msgpack.encode([CHAIN, KEY + b"x", bytes(64), b""]),
        msgspec.msgpack.encode([bytes(8193), KEY, bytes(64), b""]),
        msgspec.msgpack.encode(["text", KEY, bytes(64), b""]),
        msgspec.msgpack.encode([b"no certificates", KEY, bytes(64), b""]),
        msgspec.msgpack.encode([KGC.tls.ca_pem, KEY, bytes(64), b""]),
        msgspec.msgpack.encode([CHAIN, KEY, bytes(64), b"", b"more"]),
        b"\x94\xa2\xff\xff\xc0\xc0\xc0",
    ],
)
def test_what_is_no_letter_is_refused(plain: bytes) -> None:
    assert isinstance(unread(around(plain)), FormatError | PassportError)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x91" * 3000,
        msgspec.msgpack.encode([CHAIN, KEY]),
        msgspec.msgpack.encode([CHAIN, KEY[:31], bytes(64)]),
        msgspec.msgpack.encode([CHAIN, KEY, bytes(65)]),
        msgspec.msgpack.encode([bytes(8193), KEY, bytes(64)]),
        msgspec.msgpack.encode([b"no certificates", KEY, bytes(64)]),
        msgspec.msgpack.encode([CHAIN, KEY, bytes(64), b"more"]),
    ],
)
def test_what_is_no_offer_is_refused(data: bytes) -> None:
    assert isinstance(refused(KGC.sealing.offered, PLACE, data), FormatError | PassportError)


@given(st.integers(0, 2**32))
def test_every_bit_counts(seed: int) -> None:
    rng = random.Random(seed)

    def changed(data: bytes) -> bytes:
        other = bytearray(data)
        other[rng.randrange(len(other))] ^= 1 << rng.randrange(8)
        return bytes(other) if rng.random() < 0.7 else data[: rng.randrange(len(data))]

    sealed, awaited = written()
    unread(changed(sealed))
    answer = BANK.sealing.answer(
        PLACE, Letter(KGC.passport, awaited._key.public_key().public_bytes_raw()), ANSWER
    )
    refused(awaited.open, changed(answer))
    assert awaited.open(answer) == ANSWER
    offer = msgspec.msgpack.decode(BANK.sealing.offer(PLACE), type=_Offer)
    for part in ("key", "signature"):
        other = msgspec.structs.replace(offer, **{part: changed(getattr(offer, part))})
        refused(KGC.sealing.offered, PLACE, msgspec.msgpack.encode(other))


def test_a_welcome_is_for_one_key_of_tls() -> None:
    """Whoever sits in between has certificates of its own for the guest's name: what CS has signed for it the
    guest does not take.
    """
    between, nonce = invited_by(authority(), BANK.who, serial=2), bytes(32)
    assert BANK.sealing.welcomed(nonce, *CS.sealing.welcome(nonce, BANK.passport)) == CS.passport
    for wrong in (between.passport, TELCO.passport):
        with pytest.raises(SignatureError):
            BANK.sealing.welcomed(nonce, *CS.sealing.welcome(nonce, wrong))
    with pytest.raises(SignatureError):
        BANK.sealing.welcomed(b"1" * 32, *CS.sealing.welcome(nonce, BANK.passport))
