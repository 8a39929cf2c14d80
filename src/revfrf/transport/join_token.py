"""How a party joins: KGC's authority, the join tokens that it issues, and the TLS identities made from them.

KGC is the certificate authority. A join token carries an invitation: a certificate and its key. With these
the party that joins certifies the TLS key that it has made at home, and then throws the invitation's key
away. KGC never sees a party's key, and nobody waits for KGC. `transport.passport` has the certificates.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Self

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from revfrf.crypto.secret import Secret, hides_locals
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import PassportError, RevFRFError, UsageError
from revfrf.names import check_address
from revfrf.record import Record
from revfrf.transport import passport
from revfrf.transport.passport import PartyId, PrivateKey, to_pem

MAX_TOKEN = 16 * 1024  # characters
MAX_DAYS = 36_500

_VERSION = "1"
_TOKEN = re.compile(r"revfrf([0-9]+)-(.*)")
_KEY_BYTES = 32
_CHECKSUM_BYTES = 8
_CLOCKS_DIFFER = timedelta(hours=1)  # certificates are good from this long before they are made


class Authority(Secret):
    """The key by which KGC invites the parties of one federation."""

    def __init__(self, certificate: x509.Certificate, key: PrivateKey) -> None:
        self.federation = passport.read_authority(certificate)
        _check_pair(certificate, key)
        self._certificate, self._key = certificate, key

    @classmethod
    def new(cls, federation: str, now: datetime | None = None, days: int = 3650) -> Self:
        key, begin = ec.generate_private_key(ec.SECP256R1()), passport.moment(now)
        dates = begin - _CLOCKS_DIFFER, begin + _period(days)
        form = passport.Root(federation).form()
        return cls(passport.issue(form, key.public_key(), form.subject, key, dates), key)

    @property
    def certificate_pem(self) -> bytes:
        """What others need in order to read passports."""
        return to_pem(self._certificate)

    def invite(
        self,
        who: PartyId,
        address: str,
        kgc_verify_key: bytes,
        serial: int,
        days: int = 365,
        now: datetime | None = None,
    ) -> "Token":
        """A token for this party, who finds the coordinator at `address`.

        It, and the certificate that is made with it, are valid for this many days, but no longer than the
        authority itself. Of two invitations to one party, the one with the higher serial counts.
        """
        first, last = self._certificate.not_valid_before_utc, self._certificate.not_valid_after_utc
        begin, key = passport.moment(now), ec.generate_private_key(ec.SECP256R1())
        if not first <= begin < last:
            raise UsageError(f"the authority of {self.federation!r} is valid from {first} to {last}, not now")
        dates = max(begin - _CLOCKS_DIFFER, first), min(begin + _period(days), last)
        form = passport.Invitation(who.role, who.name, serial).form(self.federation)
        invitation = passport.issue(form, key.public_key(), self._certificate.subject, self._key, dates)
        authority, invited = (each.public_bytes(Encoding.DER) for each in (self._certificate, invitation))
        return Token(_TokenRecord(address, kgc_verify_key, authority, invited, _scalar(key)))

    def to_fields(self) -> dict[str, str]:
        """The certificate and its key, for the party's own store."""
        return {"certificate": self.certificate_pem.decode("ascii"), "key": _scalar(self._key).hex()}

    @classmethod
    @hides_locals
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        [certificate] = passport.load_certificates(fields["certificate"].encode("ascii"), 1)
        return cls(certificate, _private_key(bytes.fromhex(fields["key"])))


class _TokenRecord(Record, frozen=True):
    address: str
    kgc_verify_key: bytes
    authority: bytes
    invitation: bytes
    key: bytes


class Token(Secret):
    """An invitation, and all that its bearer must know. Made by `Authority.invite`, or read by `parse`."""

    def __init__(self, record: _TokenRecord) -> None:
        check_address(record.address)
        self._authority = x509.load_der_x509_certificate(record.authority)
        self._invitation = x509.load_der_x509_certificate(record.invitation)
        self._key, self._record = _private_key(record.key), record
        self.federation, self.who, self.serial = passport.read_invitation(self._authority, self._invitation)
        _check_pair(self._invitation, self._key)
        self.address, self.kgc_verify_key = record.address, VerifyKey(record.kgc_verify_key).raw

    @property
    def ca_pem(self) -> bytes:
        return to_pem(self._authority)

    @hides_locals
    def text(self) -> str:
        """The token as one line. It is a secret: anyone who has it can take its party's place."""
        body = msgspec.msgpack.encode(self._record)
        return f"revfrf{_VERSION}-" + base64.urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")

    @classmethod
    @hides_locals
    def parse(cls, text: str, now: datetime | None = None) -> Self:
        """The token that `text` gave this line for, whatever spaces and line breaks have come into it.

        Raises UsageError; its kinds are `not-a-token`, `version`, `damaged`, `authority` and `expired`.
        """
        found = _TOKEN.fullmatch("".join(text[: MAX_TOKEN + 1].split()))
        if not found or len(text) > MAX_TOKEN:
            reason = f"not a join token: one begins with revfrf{_VERSION}-; ask KGC for yours"
            raise UsageError(reason, kind="not-a-token")
        if found[1] != _VERSION:
            reason = f"a join token of version {found[1]}; this RevFRF reads version {_VERSION}"
            raise UsageError(reason, kind="version")
        body = _unwrapped(found[2])
        try:
            token = cls(msgspec.msgpack.decode(body, type=_TokenRecord))
        except (ValueError, RecursionError, msgspec.MsgspecError, RevFRFError) as error:
            reason = f"the join token is not valid: {error}; ask KGC for a new one"
            raise UsageError(reason, kind="authority") from None
        try:
            passport.check_dates(now, token._authority, token._invitation)
        except PassportError as error:
            reason = f"the join token for {token.who}: {error}; ask KGC for a new one"
            raise UsageError(reason, kind="expired") from None
        return token


class TlsIdentity(Secret):
    """What a party shows and proves whenever it connects. Made by `join`."""

    def __init__(self, ca_pem: bytes, chain_pem: bytes, key: PrivateKey) -> None:
        bearer, _ = passport.load_certificates(chain_pem, 2)
        # It may have expired since: its reader checks that.
        self.passport = passport.read_passport(ca_pem, chain_pem, bearer.not_valid_before_utc)
        _check_pair(bearer, key)
        self.ca_pem, self.chain_pem, self._key = ca_pem, chain_pem, key

    @property
    def who(self) -> PartyId:
        return self.passport.who

    @property
    def key_pem(self) -> bytes:
        """The secret key itself: for TLS, and nothing else."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def to_fields(self) -> dict[str, str]:
        """The certificates and the key, for the party's own store."""
        authority, chain = self.ca_pem.decode("ascii"), self.chain_pem.decode("ascii")
        return {"authority": authority, "chain": chain, "key": _scalar(self._key).hex()}

    @classmethod
    @hides_locals
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        authority, chain = (fields[name].encode("ascii") for name in ("authority", "chain"))
        return cls(authority, chain, _private_key(bytes.fromhex(fields["key"])))


@hides_locals
def join(token: Token, verify_key: bytes, now: datetime | None = None) -> TlsIdentity:
    """A fresh TLS identity for the party that this token invites, who signs by this key.

    Raises PassportError if the token has expired, and FormatError for a key that protects nothing.
    """
    passport.check_dates(now, token._authority, token._invitation)
    key, above = ec.generate_private_key(ec.SECP256R1()), token._invitation
    form = passport.Bearer(verify_key).form(token.federation, token.who)
    dates = above.not_valid_before_utc, above.not_valid_after_utc
    bearer = passport.issue(form, key.public_key(), above.subject, token._key, dates)
    return TlsIdentity(token.ca_pem, to_pem(bearer, above), key)


def _check_pair(certificate: x509.Certificate, key: PrivateKey) -> None:
    if certificate.public_key() != key.public_key():
        raise UsageError("the TLS certificate and the key do not belong together")


def _period(days: int) -> timedelta:
    if not 0 < days <= MAX_DAYS:
        raise UsageError(f"days {days}: give a number from 1 to {MAX_DAYS}")
    return timedelta(days=days)


def _scalar(key: PrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes(_KEY_BYTES, "big")


@hides_locals
def _private_key(scalar: bytes) -> PrivateKey:
    if len(scalar) != _KEY_BYTES:
        raise UsageError(f"a TLS key is {_KEY_BYTES} bytes")
    return ec.derive_private_key(int.from_bytes(scalar, "big"), ec.SECP256R1())


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(b"revfrf join token\0" + body).digest()[:_CHECKSUM_BYTES]


@hides_locals
def _unwrapped(text: str) -> bytes:
    """The fields of a token, if it is complete."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    checksum, body = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if checksum != _checksum(body):
        reason = "the join token is incomplete or mistyped; copy the whole line again"
        raise UsageError(reason, kind="damaged")
    return body
