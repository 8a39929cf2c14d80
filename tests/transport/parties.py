"""Parties with certificates, honest ones and others."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from revfrf.crypto.signing import SigningKey
from revfrf.transport.join_token import Authority, TlsIdentity, Token, join
from revfrf.transport.passport import Bearer, Dates, Form, PartyId, PrivateKey, issue, to_pem

ADDRESS = "coordinator.example:7700"
BANK, TELCO, CS = PartyId("participant", "bank"), PartyId("participant", "telco"), PartyId("CS", "CS")
VERIFY_KEY = SigningKey.generate().verify_key.raw
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


@lru_cache
def authority() -> Authority:
    """KGC's, for a month already."""
    return Authority.new("breast cancer", now=NOW - 30 * DAY)


def token_for(who: PartyId, serial: int = 1, days: int = 365, ago: timedelta = timedelta(0)) -> Token:
    """An invitation that was written this long ago."""
    return authority().invite(who, ADDRESS, VERIFY_KEY, serial, days=days, now=NOW - ago)


def joined(token: Token, now: datetime | None = None) -> TlsIdentity:
    return join(token, VERIFY_KEY, now)


def new_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def dates_of(certificate: x509.Certificate) -> Dates:
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def form_of(who: PartyId) -> Form:
    """What an honest certificate of this party says."""
    return Bearer(VERIFY_KEY).form("breast cancer", who)


def without(form: Form, kind: type[x509.ExtensionType]) -> Form:
    kept = [(value, critical) for value, critical in form.extensions if not isinstance(value, kind)]
    assert len(kept) == len(form.extensions) - 1
    return replace(form, extensions=kept)


def with_other(form: Form, value: x509.ExtensionType) -> Form:
    """The form, with another extension of this kind."""
    position = [type(each) for each, _ in form.extensions].index(type(value))
    others = list(form.extensions)
    others[position] = (value, others[position][1])
    return replace(form, extensions=others)


def forged(token: Token, form: Form, key: PrivateKey, dates: Dates | None = None) -> bytes:
    """A chain whose first certificate the bearer of an invitation has made as it likes."""
    above = token._invitation
    leaf = issue(form, key.public_key(), above.subject, token._key, dates or dates_of(above))
    return to_pem(leaf, above)


def split(pem: bytes) -> Sequence[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def run(code: str) -> str:
    """What a fresh Python prints."""
    command, root = [sys.executable, "-c", code], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
