"""Revocation certificates: proof, for anybody who has KGC's public key, that a participant has left a forest.

A certificate holds the leavers' signed requests, the epoch before and the one after, CS's report of what
became of the forest, at level 2 every party's receipt for what it erased, and KGC's signature over all of
it. `verify` needs nothing else, and no network. Whether CS tells the truth about the digest, only training
again without the leaver can show.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from revfrf.crypto.canonical import Field
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import CertificateError, ProtocolError, RejectedError
from revfrf.io.files import content, reading, replace, writing
from revfrf.messages.frf_revoc import Report, RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import EpochCertificate, Receipt
from revfrf.names import CS, PARTICIPANT
from revfrf.protocols.common.epoch import (
    certificate_digest,
    check_receipts,
    check_succession,
    verify_certificate,
)
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.signed import sign, verify

FORMAT = "revfrf revocation certificate v1"
MAX_SIZE = 64 * 2**20
_REVOKE = "revfrf revocation request v1"
_REPORT = "revfrf revocation report v1"


# -- what the leaver and CS sign --------------------------------------------------------------------


def sign_revocation(identity: Identity, forest: bytes, level: RevocationLevel) -> RevocationRequest:
    """Make this party's signed request to leave this forest."""
    unsigned = RevocationRequest(
        federation=identity.federation,
        forest=forest,
        epoch=identity.epoch,
        party=identity.name,
        level=level,
        nonce=secrets.token_bytes(16),
        time=int(time.time()),
        signature=bytes(64),
    )
    return sign(identity.signing_key, _REVOKE, unsigned)


def check_revocation(certificate: EpochCertificate, request: RevocationRequest) -> None:
    """Raise RejectedError unless a participant of this epoch has signed that it leaves."""
    if (request.federation, request.epoch) != (certificate.federation, certificate.epoch):
        raise ProtocolError("a request to leave another federation, or in another epoch", kind="epoch")
    members = {m.name: m for m in certificate.members if m.role == PARTICIPANT}
    if request.party not in members:
        raise ProtocolError(f"{request.party!r} is not a participant", kind="member")
    verify(VerifyKey(members[request.party].verify_key), _REVOKE, request)


def sign_report(identity: Identity, report: Report) -> Report:
    """Return the report, signed by CS."""
    return sign(identity.signing_key, _REPORT, report, identity.federation)


# -- the certificate --------------------------------------------------------------------------------


class RevocationCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happened when participants left, signed by everybody who had a part in it."""

    format: str
    level: RevocationLevel
    leavers: tuple[str, ...]
    requests: tuple[RevocationRequest, ...]
    epoch_before: EpochCertificate
    epoch_after: EpochCertificate
    report: Report
    receipts: tuple[Receipt, ...]
    signature: bytes

    def __repr__(self) -> str:
        who = ", ".join(self.leavers)
        return f"<RevocationCertificate: {who} left at level {self.level}, epoch {self.epoch_after.epoch}>"

    @classmethod
    def issue(
        cls,
        kgc: SigningKey,
        requests: tuple[RevocationRequest, ...],
        before: EpochCertificate,
        after: EpochCertificate,
        report: Report,
        receipts: tuple[Receipt, ...],
    ) -> "RevocationCertificate":
        """Sign, as KGC, what has happened."""
        level = max(request.level for request in requests)
        leavers = tuple(sorted(request.party for request in requests))
        unsigned = cls(FORMAT, level, leavers, requests, before, after, report, receipts, b"")
        return msgspec.structs.replace(unsigned, signature=kgc.sign(FORMAT, *unsigned._fields()))

    def _fields(self) -> tuple[Field, ...]:
        """Return what KGC signs. The signatures inside represent what they sign."""
        return (
            self.level,
            self.leavers,
            tuple((request.party, request.signature) for request in self.requests),
            certificate_digest(self.epoch_before),
            certificate_digest(self.epoch_after),
            msgspec.structs.astuple(self.report),
            tuple((receipt.party, receipt.signature) for receipt in self.receipts),
        )

    def verify(self, kgc_key: VerifyKey) -> None:
        """Return only if all of it holds; else raise CertificateError, which says what does not."""
        if self.format != FORMAT:
            raise CertificateError(
                f"not a revocation certificate of this version: {self.format!r}", kind="version"
            )
        before, after = self.epoch_before, self.epoch_after
        for name, epoch in (("before", before), ("after", after)):
            with _holds("epoch", f"the epoch {name} was not certified by this key centre"):
                verify_certificate(kgc_key, epoch)
        with _holds("succession", "the epoch after does not follow the one before"):
            check_succession(before, after)
        self._verify_leavers()
        self._verify_report()
        self._verify_receipts()
        with _holds("signature", "the key centre has not signed this certificate"):
            kgc_key.verify(self.signature, FORMAT, *self._fields())

    def _verify_leavers(self) -> None:
        for request in self.requests:
            with _holds("request", f"the request of {request.party!r} to leave is not its own"):
                check_revocation(self.epoch_before, request)
            if request.forest != self.report.forest:
                raise CertificateError(f"{request.party!r} has left another forest", kind="request")
        left = set(self.epoch_after.revoked) - set(self.epoch_before.revoked)
        named = sorted(request.party for request in self.requests)
        if tuple(named) != self.leavers or set(named) != left:
            raise CertificateError("those who left are not those who asked to", kind="leaver")
        if self.level != max(request.level for request in self.requests):
            raise CertificateError("the revocation level is not the one that was asked for", kind="leaver")

    def _verify_report(self) -> None:
        report, after = self.report, self.epoch_after
        [cs] = [member for member in after.members if member.role == CS]
        if report.epoch != certificate_digest(after):
            raise CertificateError("the report is of another epoch", kind="report")
        with _holds("report", "the coordinator has not signed this report"):
            verify(VerifyKey(cs.verify_key), _REPORT, report, after.federation)

    def _verify_receipts(self) -> None:
        if (self.level == 2) != self.epoch_after.erases:
            raise CertificateError("at level 2, and only there, everybody erases its keys", kind="keys")
        with _holds("receipt", "the receipts for erased keys do not hold"):
            check_receipts(self.epoch_before, self.epoch_after, self.receipts)

    # -- files --------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """For people and programs; bytes are in base64."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> "RevocationCertificate":
        """The inverse of `to_json`. Raises CertificateError if it is not a certificate."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CertificateError(f"not a revocation certificate: {error}", kind="malformed") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all. Raises CertificateError."""
        with writing(path, CertificateError):
            replace(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "RevocationCertificate":
        """Read a revocation certificate from a file. Raises CertificateError."""
        with reading(path, CertificateError, "give the path of a revocation certificate"):
            data = content(path, MAX_SIZE)
        try:
            return cls.from_json(data)
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}", kind=error.kind) from None


@contextmanager
def _holds(kind: str, otherwise: str) -> Iterator[None]:
    try:
        yield
    except RejectedError as error:
        raise CertificateError(f"{otherwise} ({error})", kind=kind) from None


# -- what it shows ----------------------------------------------------------------------------------


def shown_by(certificate: RevocationCertificate) -> dict[str, Any]:
    """Return what a certificate shows, as plain values."""
    c, report = certificate, certificate.report
    return {
        "federation": c.epoch_after.federation,
        "forest": report.forest.hex(),
        "leavers": list(c.leavers),
        "asked": {request.party: _time(request.time) for request in c.requests},
        "level": c.level,
        "epoch": c.epoch_after.epoch,
        "members": [member.name for member in c.epoch_after.members],
        "digest_before": report.digest_before,
        "digest_after": report.digest_after,
        "nodes_destroyed": report.destroyed,
        "nodes_rebuilt": report.rebuilt,
        "nodes_kept": report.kept,
        "receipts": [receipt.party for receipt in c.receipts],
    }


def _time(seconds: int) -> str:
    """Format a time that a party claims, which may be anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} seconds after 1970"
