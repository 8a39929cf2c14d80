"""By what parties know each other beyond TLS: letters that CS passes on, and CS itself when it is dialled.

What CS passes on between KGC and the others is signed by its sender, and sealed for its recipient.

Sealed is by HPKE (RFC 9180) for the key in the recipient's certificate, together with who writes to whom, and
in which call: a message is good for one place, and an answer for one question.
"""

from typing import Annotated, ClassVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from revfrf.crypto.canonical import digest
from revfrf.crypto.secret import Secret, hides_locals
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import FormatError
from revfrf.messages.base import Signature
from revfrf.transport.passport import MAX_CHAIN, Passport, read_passport
from revfrf.transport.tls import TlsIdentity

Header = tuple[str, str, str, int]
"""Whether a call or a reply, its sender and recipient, and the number of the call."""

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_SEALED = "revfrf sealed message v1"
_WELCOME = "revfrf welcome v1"


class _Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    chain: Annotated[bytes, msgspec.Meta(max_length=MAX_CHAIN)]
    signature: Signature
    data: bytes


class Sealing(Secret):
    """What a party needs to write and to read sealed messages."""

    OVERHEAD: ClassVar[int] = MAX_CHAIN + 1024

    def __init__(self, tls: TlsIdentity, signing: SigningKey, seal_key: X25519PrivateKey) -> None:
        self._tls, self._signing, self._seal_key = tls, signing, seal_key

    def read(self, chain: bytes) -> Passport:
        """Whose certificates these are. Raises PassportError."""
        return read_passport(self._tls.ca_pem, chain)

    def welcome(self, nonce: bytes, guest: str) -> tuple[bytes, bytes]:
        """Our certificates, and a signature for whoever has sent this nonce."""
        return self._tls.chain_pem, self._signing.sign(_WELCOME, nonce, guest)

    def welcomed(self, nonce: bytes, guest: str, chain: bytes, signature: bytes) -> Passport:
        """Who has welcomed us. Raises RejectedError if it is not whose certificates these are."""
        host = self.read(chain)
        VerifyKey(host.verify_key).verify(signature, _WELCOME, nonce, guest)
        return host

    @hides_locals
    def seal(self, header: Header, recipient: Passport, data: bytes) -> bytes:
        """A message that the recipient alone can read, and knows to be ours."""
        signature = self._signing.sign(_SEALED, *header, data)
        letter = msgspec.msgpack.encode(_Letter(self._tls.chain_pem, signature, data))
        key = X25519PublicKey.from_public_bytes(recipient.seal_key)
        return _SUITE.encrypt(letter, key, digest(_SEALED, *header))

    @hides_locals
    def open(self, header: Header, sealed: bytes) -> tuple[Passport, bytes]:
        """Who has sealed this message for us, for this place, and what it says. Raises RejectedError."""
        try:
            plain = _SUITE.decrypt(sealed, self._seal_key, digest(_SEALED, *header))
            letter = msgspec.msgpack.decode(plain, type=_Letter)
        except (InvalidTag, ValueError, msgspec.DecodeError, RecursionError):
            raise FormatError("not a message that was sealed for this place") from None
        sender = self.read(letter.chain)
        VerifyKey(sender.verify_key).verify(letter.signature, _SEALED, *header, letter.data)
        return sender, letter.data
