"""A CS that cheats with the keys that are offered for letters: no letter is sealed to a wrong one."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from revfrf.crypto.signing import SigningKey
from revfrf.errors import AbsentError, LetterError, PassportError, RefusedError
from revfrf.testing.recorders import until
from revfrf.transport.codec import encode
from revfrf.transport.frames import Frame, frames
from revfrf.transport.join_token import Authority, join
from revfrf.transport.letters import _CALL, _OFFER, OneTimeKeys, Place, Sealing, _Offer
from revfrf.transport.passport import Passport
from tests.transport.asking import CERTIFICATE
from tests.transport.links import SOON, Known, RawLink, cs_with, endpoint_of, invited_by, known, place
from tests.transport.parties import ADDRESS, DAY, NOW, VERIFY_KEY, authority
from tests.transport.writing import ACCEPTED, BANK, reading, writing

# -- keys -------------------------------------------------------------------------------------------------


def unknown(keys: OneTimeKeys, caller: str, key: bytes) -> bool:
    with pytest.raises(LetterError) as caught:
        keys.take(caller, key)
    return caught.value.kind == "unknown"


def test_of_one_caller_the_newest_keys_count_and_others_are_not_touched() -> None:
    keys = OneTimeKeys()
    theirs = keys.make("telco")
    made = [keys.make("bank") for _ in range(10_000)]
    assert len(keys._offered["bank"]) == 64
    assert unknown(keys, "bank", made[-65])
    keys.take("bank", made[-64])
    keys.take("telco", theirs)


def test_of_many_callers_the_last_count() -> None:
    keys = OneTimeKeys()
    lost = keys.make("party 0")
    for number in range(1, 10_000):
        keys.make(f"party {number}")
    assert len(keys._offered) == 1024
    assert unknown(keys, "party 0", lost)
    keys.take("KGC", keys.make("KGC"))


def test_who_asks_again_is_not_forgotten_before_those_who_do_not() -> None:
    keys = OneTimeKeys()
    first = keys.make("KGC")
    for number in range(3000):
        keys.make(f"party {number}")
        if number % 1000 == 0:
            keys.make("KGC")
    assert keys.take("KGC", first).public_key().public_bytes_raw() == first


# -- offers -------------------------------------------------------------------------------------------


def changed(data: bytes, **parts: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.structs.replace(msgspec.msgpack.decode(data, type=_Offer), **parts))


def expired() -> Known:
    signing = SigningKey.generate()
    token = authority().invite(BANK, ADDRESS, VERIFY_KEY, 1, days=2, now=NOW - 10 * DAY)
    tls = join(token, signing.verify_key.raw, NOW - 9 * DAY)
    return Known(tls, signing, Sealing(tls, signing))


def own_key() -> bytes:
    return X25519PrivateKey.generate().public_key().public_bytes_raw()


def with_own_key(here: Place, signer: Known, what: str = _OFFER) -> bytes:
    """CS's key under bank's certificates."""
    key = own_key()
    signature = signer.signing.sign(what, *here, key)
    return changed(known("bank").sealing.offer(here), key=key, signature=signature)


OFFERS: dict[str, Callable[[Place], bytes]] = {
    "to another caller": lambda here: known("bank").sealing.offer(("CC", *here[1:])),
    "for another number": lambda here: known("bank").sealing.offer((*here[:2], here[2] + 1)),
    "of before": lambda here: known("bank").sealing.offer((*here[:2], here[2] - 1)),
    "of telco as telco": lambda here: known("telco").sealing.offer(("KGC", "telco", here[2])),
    "of telco for bank": lambda here: known("telco").sealing.offer(here),
    "of CS for bank": lambda here: known("CS").sealing.offer(here),
    "of KGC for bank": lambda here: known("KGC").sealing.offer(here),
    "with the key of CS": lambda here: with_own_key(here, known("CS")),
    "with another key": lambda here: changed(known("bank").sealing.offer(here), key=own_key()),
    "with another signature": lambda here: changed(known("bank").sealing.offer(here), signature=bytes(64)),
    "with a signature for calls": lambda here: with_own_key(here, known("bank"), _CALL),
    "with another chain": lambda here: changed(
        known("bank").sealing.offer(here), chain=known("CS").tls.chain_pem
    ),
    "reflected": lambda here: known("bank").sealing.offer((here[1], here[0], here[2])),
    "with names of the same letters": lambda here: known("bank").sealing.offer(("KG", "Cbank", here[2])),
    "of a foreign bank": lambda here: invited_by(Authority.new("breast cancer"), BANK).sealing.offer(here),
    "of the expired": lambda here: expired().sealing.offer(here),
    "noise": lambda _: b"noise",
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("bad", OFFERS)
def test_nothing_is_sealed_to_an_offer_that_is_not_for_this_letter(bad: str) -> None:
    with writing() as kgc:
        kgc.offers(OFFERS[bad](place(kgc.hello)))
        kgc.refuses()


def test_nothing_is_sealed_for_who_is_not_admitted() -> None:
    def admit(passport: Passport) -> None:
        if passport.who == BANK:
            raise PassportError(f"{passport.who} has left", kind="revoked")

    with writing(admit=admit) as kgc:
        kgc.offers(known("bank").sealing.offer(place(kgc.hello)))
        assert kgc.refuses().kind == "revoked"


def test_an_offer_that_comes_from_cs_itself_does_not_count() -> None:
    """In a frame of CS's own; the call waits for bank's."""
    with writing() as kgc:
        offer = known("CS").sealing.offer(place(kgc.hello))
        kgc.cs.say(*frames("reply", "CS", "KGC", kgc.hello.call, offer))
        asked = kgc.letter()
        read = known("bank").sealing.open(place(asked), asked.piece)
        answer = known("bank").sealing.answer(place(asked), read, ACCEPTED)
        kgc.cs.say(*frames("reply", "bank", "KGC", asked.call, answer))
        assert kgc.waiting.result(timeout=SOON).epoch == CERTIFICATE.epoch


def test_who_gets_no_offer_is_told_that_it_is_refused_or_that_nobody_is_there() -> None:
    for kind, error in (("refusal", RefusedError), ("absence", AbsentError)):
        with writing() as kgc:
            kgc.cs.say(Frame(kind, "bank", "KGC", kgc.hello.call))  # type: ignore[arg-type]
            with pytest.raises(error):
                kgc.waiting.result(timeout=SOON)
            assert [frame.kind for frame in kgc.cs.heard()] == ["hello"]


def test_an_offer_that_is_too_long_is_refused_and_ends_no_link() -> None:
    with writing() as kgc:
        kgc.cs.say(Frame("reply", "bank", "KGC", kgc.hello.call, Sealing.OVERHEAD + 1, 0, b"x"))
        with pytest.raises(RefusedError):
            kgc.waiting.result(timeout=SOON)
        assert kgc.endpoint.present() == {"CS"}


# -- hellos -------------------------------------------------------------------------------------------


def gets_through(cs: RawLink, number: int) -> bool:
    """Whether KGC has an offer of bank for its hello, and then an answer to its letter."""
    here, there = ("KGC", "bank", number), ("KGC", "bank", number + 1)

    def back(call: int) -> list[Frame]:
        return [frame for frame in cs.frames if (frame.recipient, frame.call) == ("KGC", call)]

    cs.say(Frame("hello", *here))
    offer = known("KGC").sealing.offered(here, back(number)[0].piece)
    sealed, awaited = known("KGC").sealing.seal(there, offer, encode(CERTIFICATE))
    cs.say(*frames("call", *there, sealed))
    until(lambda: back(number + 1))
    [answer] = back(number + 1)
    return answer.kind == "reply" and awaited.open(answer.piece) == ACCEPTED


@pytest.mark.parametrize("names", [1, 10_000])
def test_ten_thousand_hellos_leave_little_and_keep_no_other_caller_out(names: int) -> None:
    with reading(sealing=known("bank").restarted()) as bank:
        cs = bank.cs
        assert gets_through(cs, 20_000)
        for number in range(10_000):
            cs.say(Frame("hello", f"party {number % names}", "bank", number))
            cs.frames.clear()
        offered = bank.endpoint.sealing._keys._offered
        assert len(offered) <= 1024
        assert max(map(len, offered.values())) <= 64
        assert bank.endpoint._load._sizes == {}
        assert gets_through(cs, 30_000)
        assert bank.endpoint.present() == {"CS"}


def test_a_hello_has_nothing_to_say() -> None:
    """From beyond CS it is refused; no link ends by it."""
    with reading() as bank:
        bank.cs.say(Frame("hello", "KGC", "bank", 1, 1, 0, b"x"))
        bank.cs.say(Frame("hello", "KGC", "bank", 2, 2**40, 0, b"x"))
        bank.cs.say(Frame("hello", "KGC", "bank", 3, 0, 0, b"more than it says"))
        kinds = {frame.call: frame.kind for frame in bank.cs.heard(3)}
        assert kinds == {1: "refusal", 2: "refusal", 3: "absence"}
        bank.cs.say(Frame("hello", "KGC", "bank", 4, 0, 7, b""))
        assert gets_through(bank.cs, 10)
        assert not bank.cs.closed


@pytest.mark.parametrize("body", [b"", b"x"], ids=len)
def test_neighbours_have_no_hellos_for_each_other(body: bytes) -> None:
    with reading() as bank:
        bank.cs.say(Frame("hello", "CS", "bank", 1, len(body), 0, body))
        assert bank.cs.closed
        assert bank.cs.frames == []
    cs = endpoint_of("CS")
    for recipient in ("CS", "telco", "CC", "clinic", "nobody"):
        link = RawLink(cs, "bank")
        telco = RawLink(cs, "telco")
        link.say(Frame("hello", "bank", recipient, 1, len(body), 0, body))
        assert link.closed
        assert link.frames == telco.frames == []


def test_nobody_but_cs_passes_hellos_on_and_nobody_sends_them_for_others() -> None:
    with reading() as bank:
        bank.cs.say(Frame("hello", "KGC", "telco", 1))
        assert bank.cs.closed
    _, [kgc, link] = cs_with("KGC", "bank")
    link.say(Frame("hello", "telco", "KGC", 1))
    assert link.closed
    assert kgc.frames == []
