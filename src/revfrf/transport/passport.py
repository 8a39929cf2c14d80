"""Passports: X.509 certificates that say who a party is, and by which key it signs.

KGC's certificate is the root. KGC gives each party an invitation, an authority of its own that is good for
one name in one role; with its key the party certifies itself. Its chain, its own certificate and then its
invitation, is its passport, and anyone with KGC's certificate can read it.

What a certificate says besides the fields of X.509 is JSON in one extension. Each kind of certificate has one
form, field by field; any other is refused, so that nothing in it can mean one thing here and another in TLS.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import (
    DuplicateExtension,
    ExtensionNotFound,
    InvalidVersion,
    UnsupportedGeneralNameType,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, SignatureAlgorithmOID

from revfrf.crypto.canonical import fingerprint
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import FormatError, PassportError, UsageError
from revfrf.names import CS
from revfrf.record import Record

MAX_CHAIN = 8 * 1024  # bytes of PEM, checked before they are parsed
MAX_SERIAL = 2**63 - 1

# 2.25 and the UUID 882c73ff-18d2-4319-952a-20978535299a as a number: an arc that needs no registration.
_EXTENSION = x509.ObjectIdentifier("2.25.181005821176491783738380689505089038746")
_MAX_NAME = 100
_MAX_ATTRIBUTE = 64  # bytes that X.509 has room for in a name of people or organisations
_NOT_X509 = (DuplicateExtension, ExtensionNotFound, InvalidVersion, UnsupportedGeneralNameType)
_UNREADABLE = (ValueError, TypeError, RecursionError, UnsupportedAlgorithm, msgspec.MsgspecError, FormatError)
"""What is raised by certificates that do not parse."""

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey
Dates = tuple[datetime, datetime]
_Said = TypeVar("_Said", "Root", "Invitation", "Bearer")
_Extensions = list[tuple[x509.ExtensionType, bool]]


@dataclass(frozen=True)
class PartyId:
    """A party of a federation. Raises UsageError for what cannot be one."""

    role: str
    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z]{1,20}", self.role):
            raise UsageError(f"role {self.role!r}: a role is a word of at most 20 letters")
        _check_text("party", self.name)

    @property
    def dns(self) -> str:
        """Its name in certificates: a valid one whatever its characters, and no other party's."""
        return f"{fingerprint('revfrf party v1', self.role, self.name)}.{self.role.lower()}.revfrf.internal"

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"


@dataclass(frozen=True)
class Passport:
    """What a chain proves. `serial` is its invitation's, `key_digest` SHA-256 of the TLS key it is for."""

    who: PartyId
    verify_key: bytes
    serial: int
    not_after: datetime
    key_digest: bytes


@dataclass(frozen=True)
class Form:
    """What a certificate must say, but for its key, its issuer, its number and its dates."""

    subject: x509.Name
    extensions: _Extensions

    def completed(self, key: PublicKey, issuer: PublicKey) -> _Extensions:
        """All extensions of a certificate for this key."""
        return [
            *self.extensions,
            (x509.SubjectKeyIdentifier.from_public_key(key), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), False),
        ]


class Root(Record, frozen=True, tag="authority"):
    """KGC's own certificate, the authority of a federation."""

    federation: str

    def __post_init__(self) -> None:
        _check_text("federation", self.federation)

    def form(self) -> Form:
        return Form(_name(self.federation, "RevFRF authority"), _extensions(self, path_length=1))


class Invitation(Record, frozen=True, tag="invitation"):
    """A certificate by that authority, for one party."""

    role: str
    name: str
    serial: int

    def __post_init__(self) -> None:
        if not 0 < self.serial <= MAX_SERIAL:
            raise UsageError(f"serial {self.serial}: invitations are counted from 1")

    def form(self, federation: str) -> Form:
        who = PartyId(self.role, self.name)
        own = x509.NameConstraints([x509.DNSName(who.dns)], excluded_subtrees=None)
        extensions = [*_extensions(self, path_length=0), (own, True), (_purposes(who), False)]
        return Form(_name(federation, f"RevFRF invitation {self.serial}"), extensions)


class Bearer(Record, frozen=True, tag="bearer"):
    """A certificate by an invitation, for the party that holds it."""

    verify_key: bytes

    def __post_init__(self) -> None:
        VerifyKey(self.verify_key)

    def form(self, federation: str, who: PartyId) -> Form:
        names = x509.SubjectAlternativeName([x509.DNSName(who.dns)])
        extensions = [*_extensions(self, path_length=None), (names, False), (_purposes(who), False)]
        return Form(_name(federation, who.name, who.role), extensions)


def read_passport(ca_pem: bytes, chain_pem: bytes, now: datetime | None = None) -> Passport:
    """Return what this chain proves to those who trust this authority.

    Raises PassportError for everything else; its kinds are `malformed`, `authority`, `expired` and `name`.
    """
    [authority], [bearer, invitation] = load_certificates(ca_pem, 1), load_certificates(chain_pem, 2)
    federation, who, serial = read_invitation(authority, invitation)
    with _reading(f"certificate of {who}"):
        said = _read(bearer, invitation, Bearer, federation, who)
        check_dates(now, authority, invitation, bearer)
    public = bearer.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    not_after = min(each.not_valid_after_utc for each in (authority, invitation, bearer))
    return Passport(who, said.verify_key, serial, not_after, hashlib.sha256(public).digest())


def read_authority(authority: x509.Certificate) -> str:
    """The federation that this certificate is the root of. Raises PassportError; dates are not looked at."""
    with _reading("certificate of the authority"):
        return _read(authority, authority, Root).federation


def read_invitation(authority: x509.Certificate, invitation: x509.Certificate) -> tuple[str, PartyId, int]:
    """Who is invited to which federation, and the invitation's number. Raises PassportError likewise."""
    federation = read_authority(authority)
    with _reading("invitation"):
        said = _read(invitation, authority, Invitation, federation)
    return federation, PartyId(said.role, said.name), said.serial


def check_dates(now: datetime | None, *certificates: x509.Certificate) -> None:
    """Raise PassportError, of kind `expired`, unless all are valid now."""
    at = moment(now)
    for each in certificates:
        if at > each.not_valid_after_utc:
            raise PassportError(f"expired on {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC", kind="expired")
        if at < each.not_valid_before_utc:
            since = f"{each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            raise PassportError(f"not valid before {since}; is this machine's clock right?", kind="expired")


def _check_text(what: str, name: str) -> None:
    """Raise UsageError for what a certificate has no room for. What a name may be is said in `names`."""
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise UsageError(f"{what} {name!r}: a name has 1 to {_MAX_NAME} characters and no line breaks")


def load_certificates(pem: bytes, count: int) -> list[x509.Certificate]:
    """Read this many certificates. Raises PassportError, of kind `malformed`."""
    if len(pem) > MAX_CHAIN:
        raise PassportError(f"certificates of more than {MAX_CHAIN} bytes", kind="malformed")
    with _reading("certificates"):
        found = x509.load_pem_x509_certificates(pem)
    if len(found) != count:
        raise PassportError(f"{len(found)} certificates instead of {count}", kind="malformed")
    return found


def to_pem(*certificates: x509.Certificate) -> bytes:
    """The text of these certificates."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def moment(now: datetime | None) -> datetime:
    """This time, or the present, to the second, as certificates have it."""
    return (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)


# -- making ------------------------------------------------------------------------------------------


def _extensions(said: Record, path_length: int | None) -> _Extensions:
    issues = path_length is not None
    usage = x509.KeyUsage(
        digital_signature=not issues,
        key_cert_sign=issues,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return [
        (x509.BasicConstraints(ca=issues, path_length=path_length), True),
        (usage, True),
        (x509.UnrecognizedExtension(_EXTENSION, msgspec.json.encode(said)), False),
    ]


def _purposes(who: PartyId) -> x509.ExtendedKeyUsage:
    servers = [ExtendedKeyUsageOID.SERVER_AUTH] if who.role == CS else []  # whom others dial
    return x509.ExtendedKeyUsage([*servers, ExtendedKeyUsageOID.CLIENT_AUTH])


def _name(federation: str, name: str, unit: str = "") -> x509.Name:
    """For people: what does not fit is cut off; the extension has all of it."""
    kinds = NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME
    cut = [text.encode()[:_MAX_ATTRIBUTE].decode(errors="ignore") for text in (federation, unit, name)]
    return x509.Name([x509.NameAttribute(kind, text) for kind, text in zip(kinds, cut, strict=True) if text])


def issue(
    form: Form, key: PublicKey, issuer: x509.Name, issuer_key: PrivateKey, dates: Dates
) -> x509.Certificate:
    """A certificate of this form for this key."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(form.subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(dates[0])
        .not_valid_after(dates[1])
    )
    for value, critical in form.completed(key, issuer_key.public_key()):
        builder = builder.add_extension(value, critical)
    return builder.sign(issuer_key, hashes.SHA256())


# -- checks -------------------------------------------------------------------------------------------


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Turn every parsing error into PassportError."""
    try:
        yield
    except (*_UNREADABLE, *_NOT_X509) as error:
        raise PassportError(f"the {what} cannot be read: {error}", kind="malformed") from None
    except PassportError as error:
        raise PassportError(f"the {what}: {error}", kind=error.kind) from None


def _key_of(certificate: x509.Certificate) -> PublicKey:
    key = certificate.public_key()
    if not isinstance(key, PublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PassportError("its key is not of the curve P-256", kind="malformed")
    return key


def _read(certificate: x509.Certificate, issuer: x509.Certificate, kind: type[_Said], *context: Any) -> _Said:
    """What a certificate says, which this issuer must have made, and in the form for this context."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise PassportError("not issued by the certificate above it", kind="authority") from None
    if certificate.signature_algorithm_oid != SignatureAlgorithmOID.ECDSA_WITH_SHA256:
        raise PassportError("not signed by ECDSA with SHA-256", kind="malformed")
    extension = certificate.extensions.get_extension_for_oid(_EXTENSION).value
    said = msgspec.json.decode(extension.public_bytes(), type=kind)
    form = said.form(*context)
    expected = form.completed(_key_of(certificate), _key_of(issuer))
    found = [(extension.value, extension.critical) for extension in certificate.extensions]
    if certificate.subject != form.subject or _names(found) != _names(expected):
        raise PassportError("it names another party", kind="name")
    if found != expected or certificate.serial_number <= 0:
        raise PassportError("not in the form that RevFRF issues", kind="malformed")
    return said


def _names(extensions: _Extensions) -> _Extensions:
    kinds = x509.SubjectAlternativeName, x509.NameConstraints
    return [(value, critical) for value, critical in extensions if isinstance(value, kinds)]
