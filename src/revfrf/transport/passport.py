"""Passports: X.509 certificates that say who a party is, and by which key it signs.

KGC's certificate is the root. KGC gives each party an invitation, an authority of its own that is good for
one name in one role; with its key the party certifies itself. Its chain, its own certificate and then its
invitation, is its passport, and anyone with KGC's certificate can read it.

What a certificate says besides the fields of X.509 is JSON in one extension. Each kind of certificate has one
form, field by field; any other is refused, so that nothing in it can mean one thing here and another in TLS.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
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
_UNREADABLE = (
    ValueError,
    TypeError,
    RecursionError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    msgspec.MsgspecError,
    FormatError,
)
"""What is raised by certificates that do not parse."""

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey
Dates = tuple[datetime, datetime]


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


class _Authority(Record, frozen=True, tag="authority"):
    federation: str

    def __post_init__(self) -> None:
        _check_text("federation", self.federation)


class _Invitation(Record, frozen=True, tag="invitation"):
    role: str
    name: str
    serial: int

    def __post_init__(self) -> None:
        if not 0 < self.serial <= MAX_SERIAL:
            raise UsageError(f"serial {self.serial}: invitations are counted from 1")

    @property
    def who(self) -> PartyId:
        return PartyId(self.role, self.name)


class _Bearer(Record, frozen=True, tag="bearer"):
    verify_key: bytes

    def __post_init__(self) -> None:
        VerifyKey(self.verify_key)


_Said = TypeVar("_Said", _Authority, _Invitation, _Bearer)
_Extensions = list[tuple[x509.ExtensionType, bool]]


@dataclass(frozen=True)
class _Form:
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


def read_passport(ca_pem: bytes, chain_pem: bytes, now: datetime | None = None) -> Passport:
    """Return what this chain proves to those who trust this authority.

    Raises PassportError for everything else; its kinds are `malformed`, `authority`, `expired` and `name`.
    """
    [authority], [bearer, invitation] = load_certificates(ca_pem, 1), load_certificates(chain_pem, 2)
    who, serial = read_invitation(authority, invitation)
    form = partial(_bearer_form, read_authority(authority), who)
    with _reading(f"certificate of {who}"):
        said = _read(bearer, invitation, _Bearer, form)
        check_dates(now, authority, invitation, bearer)
    public = bearer.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    not_after = min(each.not_valid_after_utc for each in (authority, invitation, bearer))
    return Passport(who, said.verify_key, serial, not_after, hashlib.sha256(public).digest())


def read_authority(authority: x509.Certificate) -> str:
    """The federation that this certificate is the root of. Raises PassportError; dates are not looked at."""
    with _reading("certificate of the authority"):
        return _read(authority, authority, _Authority, _authority_form).federation


def read_invitation(authority: x509.Certificate, invitation: x509.Certificate) -> tuple[PartyId, int]:
    """Who is invited, and the invitation's number. Raises PassportError; dates are not looked at."""
    form = partial(_invitation_form, read_authority(authority))
    with _reading("invitation"):
        said = _read(invitation, authority, _Invitation, form)
    return said.who, said.serial


def certify_authority(federation: str, key: PrivateKey, dates: Dates) -> x509.Certificate:
    """The root of a federation."""
    form = _authority_form(_Authority(federation))
    return _issue(form, key.public_key(), form.subject, key, dates)


def certify_invitation(
    authority: x509.Certificate, issuer: PrivateKey, key: PublicKey, who: PartyId, serial: int, dates: Dates
) -> x509.Certificate:
    """An invitation by this authority, whose key is `issuer`."""
    form = _invitation_form(read_authority(authority), _Invitation(who.role, who.name, serial))
    return _issue(form, key, authority.subject, issuer, dates)


def certify_bearer(
    authority: x509.Certificate,
    invitation: x509.Certificate,
    issuer: PrivateKey,
    key: PublicKey,
    verify_key: bytes,
) -> x509.Certificate:
    """The certificate of the holder of this invitation and its key; valid as long as the invitation."""
    who, _ = read_invitation(authority, invitation)
    form = _bearer_form(read_authority(authority), who, _Bearer(verify_key))
    dates = invitation.not_valid_before_utc, invitation.not_valid_after_utc
    return _issue(form, key, invitation.subject, issuer, dates)


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


# -- forms --------------------------------------------------------------------------------------------


def _authority_form(said: _Authority) -> _Form:
    return _Form(_name(said.federation, "RevFRF authority"), _extensions(said, path_length=1))


def _invitation_form(federation: str, said: _Invitation) -> _Form:
    own = [x509.DNSName(said.who.dns)]
    more = [(x509.NameConstraints(own, excluded_subtrees=None), True), (_purposes(said.who), False)]
    subject = _name(federation, f"RevFRF invitation {said.serial}")
    return _Form(subject, [*_extensions(said, path_length=0), *more])


def _bearer_form(federation: str, who: PartyId, said: _Bearer) -> _Form:
    names = x509.SubjectAlternativeName([x509.DNSName(who.dns)])
    more = [(names, False), (_purposes(who), False)]
    return _Form(_name(federation, who.name, who.role), [*_extensions(said, path_length=None), *more])


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


def _issue(
    form: _Form, key: PublicKey, issuer: x509.Name, issuer_key: PrivateKey, dates: Dates
) -> x509.Certificate:
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
    except _UNREADABLE as error:
        raise PassportError(f"the {what} cannot be read: {error}", kind="malformed") from None
    except PassportError as error:
        raise PassportError(f"the {what}: {error}", kind=error.kind) from None


def _key_of(certificate: x509.Certificate) -> PublicKey:
    key = certificate.public_key()
    if not isinstance(key, PublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PassportError("its key is not of the curve P-256", kind="malformed")
    return key


def _read(
    certificate: x509.Certificate, issuer: x509.Certificate, kind: type[_Said], form: Callable[[_Said], _Form]
) -> _Said:
    """What a certificate says, which this issuer must have made, and in this form."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        raise PassportError("not issued by the certificate above it", kind="authority") from None
    if certificate.signature_algorithm_oid != SignatureAlgorithmOID.ECDSA_WITH_SHA256:
        raise PassportError("not signed by ECDSA with SHA-256", kind="malformed")
    extension = certificate.extensions.get_extension_for_oid(_EXTENSION).value
    said = msgspec.json.decode(extension.public_bytes(), type=kind)
    _check_form(certificate, issuer, form(said))
    return said


def _check_form(certificate: x509.Certificate, issuer: x509.Certificate, form: _Form) -> None:
    expected = form.completed(_key_of(certificate), _key_of(issuer))
    found = [(extension.value, extension.critical) for extension in certificate.extensions]
    if certificate.subject != form.subject or _names(found) != _names(expected):
        raise PassportError("it names another party", kind="name")
    if found != expected or certificate.serial_number <= 0:
        raise PassportError("not in the form that RevFRF issues", kind="malformed")


def _names(extensions: _Extensions) -> _Extensions:
    kinds = x509.SubjectAlternativeName, x509.NameConstraints
    return [(value, critical) for value, critical in extensions if isinstance(value, kinds)]
