"""How parties authenticate each other beyond TLS: letters that CS passes on, and CS when it is dialled.

What CS passes on between KGC and the others is signed by its sender, and sealed for its recipient by HPKE
(RFC 9180), together with who writes to whom, and in which call: a letter is good for one place, and an answer
for one question.

Nothing is sealed to a key that lasts. A writer asks first; the recipient makes a key for this
one letter, signs it, and forgets it when the letter is open. The letter brings the key for its answer along.
Both are in memory alone: someone who has kept letters, and gets a party's directory later, can read none.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Annotated, ClassVar, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from revfrf.crypto.canonical import digest
from revfrf.crypto.secret import Secret, hides_locals
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import FormatError, LetterError
from revfrf.messages.base import Signature
from revfrf.transport.join_token import TlsIdentity
from revfrf.transport.passport import MAX_CHAIN, Passport, read_passport

Place = tuple[str, str, int]
"""Who calls whom, and the number of the call."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_KEY_BYTES = 32
_OFFER, _CALL, _REPLY = "revfrf one-time key v1", "revfrf sealed call v1", "revfrf sealed reply v1"
_WELCOME = "revfrf welcome v1"

_OFFERED, _CALLERS = 64, 1024  # keys that wait for letters: the limit per caller, and of callers

_Chain = Annotated[bytes, msgspec.Meta(max_length=MAX_CHAIN)]
_Key = Annotated[bytes, msgspec.Meta(min_length=_KEY_BYTES, max_length=_KEY_BYTES)]
_Part = TypeVar("_Part", "_Offer", "_Call", "_Reply")


class _Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    chain: _Chain
    key: _Key
    signature: Signature


class _Call(_Offer, frozen=True):
    data: bytes


class _Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    signature: Signature
    data: bytes


@dataclass(frozen=True)
class Letter:
    """What somebody has written to us, and the key to which what we write back is sealed."""

    sender: Passport
    key: bytes
    data: bytes = b""


class OneTimeKeys(Secret):
    """The keys that were offered, by caller. Each opens one letter; the oldest go first if there are many."""

    def __init__(self) -> None:
        self._offered: dict[str, dict[bytes, X25519PrivateKey | None]] = {}
        self._lock = Lock()

    def make(self, caller: str) -> bytes:
        """A new key for a letter of this caller."""
        key = X25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw()
        with self._lock:
            offered = self._offered[caller] = self._offered.pop(caller, {})
            offered[public] = key
            if len(offered) > _OFFERED:
                del offered[next(iter(offered))]
            if len(self._offered) > _CALLERS:
                del self._offered[next(iter(self._offered))]
        return public

    def take(self, caller: str, public: bytes) -> X25519PrivateKey:
        """The private half, which is forgotten. Raises LetterError."""
        with self._lock:
            offered = self._offered.get(caller, {})
            if public not in offered:
                raise LetterError(f"{caller!r} used a key that was never offered", kind="unknown")
            key, offered[public] = offered[public], None
        if key is None:
            raise LetterError(f"{caller!r} used a one-time key twice", kind="spent")
        return key


class Sealing(Secret):
    """What a party needs to write and to read sealed messages."""

    OVERHEAD: ClassVar[int] = MAX_CHAIN + 1024

    def __init__(self, tls: TlsIdentity, signing: SigningKey) -> None:
        self._tls, self._signing, self._keys = tls, signing, OneTimeKeys()

    def _read(self, chain: bytes) -> Passport:
        return read_passport(self._tls.ca_pem, chain)

    def welcome(self, nonce: bytes, guest: Passport) -> tuple[bytes, bytes]:
        """Our certificates, and a signature for the sender of this nonce, by this key of TLS."""
        signature = self._signing.sign(_WELCOME, nonce, guest.who.name, guest.key_digest)
        return self._tls.chain_pem, signature

    def welcomed(self, nonce: bytes, chain: bytes, signature: bytes) -> Passport:
        """Who has welcomed us, with nobody in between. Raises RejectedError for another's certificates."""
        host, own = self._read(chain), self._tls.passport
        VerifyKey(host.verify_key).verify(signature, _WELCOME, nonce, own.who.name, own.key_digest)
        return host

    def offer(self, place: Place) -> bytes:
        """A key for one letter of the party that has asked for it in this place."""
        key = self._keys.make(place[0])
        signature = self._signing.sign(_OFFER, *place, key)
        return msgspec.msgpack.encode(_Offer(self._tls.chain_pem, key, signature))

    def offered(self, place: Place, data: bytes) -> Letter:
        """Who has offered us a key, and the key. Raises RejectedError."""
        offer = _decoded(data, _Offer)
        sender = self._read(offer.chain)
        VerifyKey(sender.verify_key).verify(offer.signature, _OFFER, *place, offer.key)
        return Letter(sender, offer.key)

    @hides_locals
    def seal(self, place: Place, offer: Letter, data: bytes) -> tuple[bytes, "Awaited"]:
        """A letter that only the party that made the offer can read, once; and what opens the answer."""
        reply_key = X25519PrivateKey.generate()
        public = reply_key.public_key().public_bytes_raw()
        signature = self._signing.sign(_CALL, *place, offer.key, public, data)
        letter = msgspec.msgpack.encode(_Call(self._tls.chain_pem, public, signature, data))
        sealed = offer.key + _sealed(letter, offer.key, _CALL, place)
        return sealed, Awaited(place, offer.sender, reply_key)

    @hides_locals
    def open(self, place: Place, sealed: bytes) -> Letter:
        """What was sealed for us, for this place. Raises RejectedError."""
        key = sealed[:_KEY_BYTES]
        letter = _decoded(_opened(sealed[_KEY_BYTES:], self._keys.take(place[0], key), _CALL, place), _Call)
        sender = self._read(letter.chain)
        VerifyKey(sender.verify_key).verify(letter.signature, _CALL, *place, key, letter.key, letter.data)
        return Letter(sender, letter.key, letter.data)

    @hides_locals
    def answer(self, place: Place, letter: Letter, data: bytes) -> bytes:
        """The answer to a letter, for its sender alone."""
        signature = self._signing.sign(_REPLY, *place, letter.key, data)
        return _sealed(msgspec.msgpack.encode(_Reply(signature, data)), letter.key, _REPLY, place)


class Awaited(Secret):
    """An answer that has not come yet, to the letter that was written in this place to this party."""

    def __init__(self, place: Place, peer: Passport, key: X25519PrivateKey) -> None:
        self._place, self._peer, self._key = place, peer, key

    @hides_locals
    def open(self, sealed: bytes) -> bytes:
        """What it says. Raises RejectedError."""
        reply = _decoded(_opened(sealed, self._key, _REPLY, self._place), _Reply)
        public = self._key.public_key().public_bytes_raw()
        VerifyKey(self._peer.verify_key).verify(reply.signature, _REPLY, *self._place, public, reply.data)
        return reply.data


def _sealed(plain: bytes, key: bytes, what: str, place: Place) -> bytes:
    try:
        return _SUITE.encrypt(plain, X25519PublicKey.from_public_bytes(key), digest(what, *place))
    except ValueError:
        raise FormatError("the recipient's key is not a point of large order", kind="malformed") from None


@hides_locals
def _opened(sealed: bytes, key: X25519PrivateKey, what: str, place: Place) -> bytes:
    try:
        return _SUITE.decrypt(sealed, key, digest(what, *place))
    except (InvalidTag, ValueError):
        raise FormatError("not a letter for this call") from None


def _decoded(data: bytes, kind: type[_Part]) -> _Part:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise FormatError("not a letter for this call") from None
