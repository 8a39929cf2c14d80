"""Event certificates: proof, for anybody who has KGC's public key, of what has happened to a forest.

The core of a certificate holds the signed requests of those who asked, the epochs before and after, CS's
report with the forest's inputs before and after, and KGC's signature over all of it. It never changes.
Receipts of members are added as they come, and each is verified on its own. `verify` needs nothing else, and
no network. `protocols.audit` shows whether the forest is really the one that its inputs define.
"""

import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from revfrf.crypto.canonical import digest
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import CertificateError, RejectedError
from revfrf.io.files import content, reading, replace, writing
from revfrf.messages.events import (
    CertifiedInputs,
    CompletionReceipt,
    ErasureReceipt,
    Event,
    Receipt,
    Report,
    UsedCutsReceipt,
)
from revfrf.messages.frf_revoc import RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import CS
from revfrf.protocols.bins import verify_line
from revfrf.protocols.common.epoch import (
    REVOCATION,
    certificate_digest,
    check_succession,
    verify_certificate,
)
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.signed import Statement, sign, signed_fields, verify

FORMAT = "revfrf event certificate v1"
MAX_SIZE = 512 * 2**20
_REPORT = "revfrf event report v1"
_RECEIPTS = {
    UsedCutsReceipt: "revfrf receipt for used cuts v1",
    ErasureReceipt: "revfrf receipt for erasure v1",
    CompletionReceipt: "revfrf receipt for completion v1",
}


# -- what the leaver, CS and the members sign -------------------------------------------------------


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
    return sign(identity.signing_key, REVOCATION, unsigned)


def sign_report(identity: Identity, report: Report) -> Report:
    """Return the report, signed by CS."""
    return sign(identity.signing_key, _REPORT, report, identity.federation)


def sign_receipt(identity: Identity, receipt: Statement) -> Statement:
    """Return a receipt, signed by the member that gives it."""
    return sign(identity.signing_key, _RECEIPTS[type(receipt)], receipt, identity.federation)


def event_digest(event: Event) -> bytes:
    """Return the digest by which receipts refer to an event."""
    return digest(FORMAT, *signed_fields(event))


# -- the core ---------------------------------------------------------------------------------------


def certify(
    kgc: SigningKey,
    before: EpochCertificate | None,
    after: EpochCertificate,
    report: Report,
    asked_at: int | None,
) -> Event:
    """Sign, as KGC, what has happened: somebody has left since the epoch before, or a forest was created.

    Raises CertificateError if it is not what it should be.
    """
    unsigned = Event(
        format=FORMAT,
        kind="creation" if before is None else "leaving",
        epoch_before=before,
        epoch_after=after,
        report=report,
        asked_at=asked_at,
        certified_at=int(time.time()),
        signature=bytes(64),
    )
    event = sign(kgc, FORMAT, unsigned)
    verify_event(kgc.verify_key, event)
    return event


def verify_event(kgc_key: VerifyKey, event: Event) -> None:
    """Return only if all of the core holds; else raise CertificateError, which says what does not."""
    if event.format != FORMAT:
        raise CertificateError(f"not an event certificate of this version: {event.format!r}", kind="version")
    for name, epoch in (("before", event.epoch_before), ("after", event.epoch_after)):
        with _holds("epoch", f"the epoch {name} was not certified by this key centre"):
            if epoch is not None:
                verify_certificate(kgc_key, epoch)
    _verify_requests(event)
    _verify_report(event)
    with _holds("signature", "the key centre has not signed this certificate"):
        verify(kgc_key, FORMAT, event)


def _verify_requests(event: Event) -> None:
    """Those who have left are those who have asked to; at a creation, nobody has."""
    before, after = event.epoch_before, event.epoch_after
    if before is None:
        if event.kind != "creation" or event.asked_at is not None:
            raise CertificateError(
                "a creation that somebody asked for, or a leaving with no epoch before", kind="request"
            )
        return
    if event.kind != "leaving" or event.asked_at is None:
        raise CertificateError("an event that nobody asked for", kind="request")
    with _holds("succession", "the epoch after does not follow the one before"):
        check_succession(before, after)
    for request in event.requests:
        if event.report.inputs_before is not None and request.forest != event.report.forest:
            raise CertificateError(f"{request.party!r} has left another forest", kind="request")


def _verify_report(event: Event) -> None:
    """CS has signed a report of this epoch, and the inputs are those that the owners have signed."""
    report, after = event.report, event.epoch_after
    servers = [member for member in after.members if member.role == CS]
    if len(servers) != 1:
        raise CertificateError("an epoch has one CS", kind="epoch")
    if report.epoch != certificate_digest(after):
        raise CertificateError("the report is of another epoch", kind="report")
    with _holds("report", "the coordinator has not signed this report"):
        verify(VerifyKey(servers[0].verify_key), _REPORT, report, after.federation)
    _verify_lines(event, report.inputs_after, after)
    before = report.inputs_before
    if (before is None) != (report.digest_before is None) or (
        before is not None and event.kind == "creation"
    ):
        raise CertificateError("a forest before its creation, or without its digest", kind="inputs")
    forgotten = {owner_of(line.feature) for line in report.inputs_after.features if line.forget}
    if not set(report.waits_for) <= forgotten or (report.waits_for and event.kind == "creation"):
        raise CertificateError("the report waits for somebody whose bins are there", kind="report")
    if before is not None:
        gone = {request.party for request in event.requests}
        stay = tuple(line for line in before.features if owner_of(line.feature) not in gone)
        if report.inputs_after != msgspec.structs.replace(before, features=stay):
            raise CertificateError("the inputs are not those before, without the leavers", kind="inputs")


def _verify_lines(event: Event, inputs: CertifiedInputs, epoch: EpochCertificate) -> None:
    """Every participant has signed its columns, for these rows; under the paper protocol nobody has."""
    names = [line.feature for line in inputs.features]
    owners = {owner_of(name) for name in names}
    expected = set(epoch.participants) if epoch.forest_protocol == "shares" else set()
    if owners != expected or names != sorted(set(names)):
        raise CertificateError("the columns are not those of all participants, each once", kind="inputs")
    members = epoch.by_name
    for line in inputs.features:
        with _holds("inputs", f"the owner of {line.feature!r} has not signed its bins"):
            owner = VerifyKey(members[owner_of(line.feature)].verify_key)
            verify_line(owner, epoch.federation, event.report.forest, line)
        if line.rows != inputs.rows:
            raise CertificateError(f"{line.feature!r} has bins of other rows", kind="inputs")


def owner_of(feature: str) -> str:
    """Return the party in a feature's id. Names of parties have no slash."""
    return feature.partition("/")[0]


# -- the certificate --------------------------------------------------------------------------------


class EventCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event, certified by KGC, and the receipts that members have given so far."""

    core: Event
    receipts: tuple[Receipt, ...] = ()

    def __repr__(self) -> str:
        what = "forest created"
        if self.level is not None:
            what = f"{', '.join(self.leavers)} left at level {self.level}"
        return f"<EventCertificate: {what}, epoch {self.core.epoch_after.epoch}>"

    @property
    def leavers(self) -> tuple[str, ...]:
        """Who has left."""
        return tuple(request.party for request in self.core.requests)

    @property
    def level(self) -> RevocationLevel | None:
        """The revocation level at which they have left; None if nobody has."""
        return max((request.level for request in self.core.requests), default=None)

    @property
    def _outcome(self) -> Report | CompletionReceipt:
        """CS's last word on what has become of the forest."""
        completed = [receipt for receipt in self.receipts if isinstance(receipt, CompletionReceipt)]
        return completed[-1] if completed else self.core.report

    @property
    def digest_after(self) -> bytes:
        """The salted digest of the forest since the event."""
        return self._outcome.digest_after

    @property
    def n_nodes(self) -> int:
        """The number of the forest's nodes since the event."""
        return self.core.report.kept + self._outcome.rebuilt

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The owners whose bins are needed to grow what the event has destroyed."""
        return self._outcome.waits_for if isinstance(self._outcome, Report) else ()

    @property
    def _owed(self) -> list[tuple[type[Receipt], str]]:
        """The receipts that members owe for this event, as far as it has come."""
        after, owed = self.core.epoch_after, list[tuple[type[Receipt], str]]()
        if self.core.report.inputs_after.features and not self.waits_for:
            owed += [(UsedCutsReceipt, name) for name in after.participants]
        if after.erases:
            owed += [(ErasureReceipt, member.name) for member in after.members]
        return owed

    @property
    def unsigned(self) -> dict[str, list[type[Receipt]]]:
        """Which receipts are still missing, by member. Nobody waits for them."""
        given = {(type(receipt), receipt.party) for receipt in self.receipts}
        missing: dict[str, list[type[Receipt]]] = {}
        for kind, name in self._owed:
            if (kind, name) not in given:
                missing.setdefault(name, []).append(kind)
        return missing

    def signed_by(self, receipts: Collection[Receipt]) -> "EventCertificate":
        """Return the certificate with more receipts. Raises CertificateError for one that does not hold."""
        added = msgspec.structs.replace(self, receipts=(*self.receipts, *receipts))
        added._verify_receipts()
        return added

    def verify(self, kgc_key: VerifyKey) -> None:
        """Return only if all of it holds; else raise CertificateError, which says what does not."""
        verify_event(kgc_key, self.core)
        self._verify_receipts()

    def _verify_receipts(self) -> None:
        """Each receipt is of this event, by a member that has to give one, and the only one of its kind."""
        about, members = event_digest(self.core), self.core.epoch_after.by_name
        allowed = set(self._owed)
        if self.core.report.waits_for:
            allowed.add((CompletionReceipt, CS))
        for receipt in self.receipts:
            who = f"the receipt of {receipt.party!r}"
            if (type(receipt), receipt.party) not in allowed or receipt.event != about:
                raise CertificateError(f"{who} is of another event, or given twice", kind="receipt")
            allowed.remove((type(receipt), receipt.party))
            with _holds("receipt", f"{who} is not signed by it"):
                key = VerifyKey(members[receipt.party].verify_key)
                verify(key, _RECEIPTS[type(receipt)], receipt, self.core.epoch_after.federation)
            if isinstance(receipt, UsedCutsReceipt):
                self._verify_used(receipt)

    def _verify_used(self, receipt: UsedCutsReceipt) -> None:
        lines = self.core.report.inputs_after.features
        own = {line.feature: line.generation for line in lines if owner_of(line.feature) == receipt.party}
        names = [column.feature for column in receipt.columns]
        known = all(own.get(column.feature) == column.generation for column in receipt.columns)
        if not known or names != sorted(set(names)):
            raise CertificateError(f"{receipt.party!r} signs for columns that it has not", kind="receipt")

    # -- files --------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """For people and programs; bytes are in base64."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> "EventCertificate":
        """The inverse of `to_json`. Raises CertificateError for anything that `to_json` does not write."""
        try:
            found = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CertificateError(f"not an event certificate: {error}", kind="malformed") from None
        if data != found.to_json():  # two keys of one name, for example, which programs read in two ways
            raise CertificateError("not an event certificate as RevFRF writes it", kind="malformed")
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all. Raises CertificateError."""
        with writing(path, CertificateError):
            replace(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "EventCertificate":
        """Read an event certificate from a file. Raises CertificateError."""
        with reading(path, CertificateError, "give the path of an event certificate"):
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


def shown_by(certificate: EventCertificate) -> dict[str, Any]:
    """Return what a certificate shows, as plain values."""
    core, report, inputs = certificate.core, certificate.core.report, certificate.core.report.inputs_after
    receipts: dict[str, list[str]] = {}
    for receipt in certificate.receipts:
        receipts.setdefault(str(receipt.__struct_config__.tag), []).append(receipt.party)
    return {
        "event": core.kind,
        "federation": core.epoch_after.federation,
        "forest": report.forest.hex(),
        **_departure(certificate),
        "certified": _time(core.certified_at),
        "epoch": core.epoch_after.epoch,
        "members": [member.name for member in core.epoch_after.members],
        "rows": inputs.n_rows,
        "columns": [line.feature for line in inputs.features],
        "salted_digest": certificate.digest_after.hex(),
        "nodes": certificate.n_nodes,
        "waits_for": list(certificate.waits_for),
        "receipts": receipts,
        "missing_receipts": sorted(certificate.unsigned),
    }


def _departure(certificate: EventCertificate) -> dict[str, Any]:
    """Return what a certificate shows of those who have left, if anybody has."""
    core, report = certificate.core, certificate.core.report
    if core.asked_at is None:
        return {}
    return {
        "leavers": list(certificate.leavers),
        "level": certificate.level,
        "asked": {request.party: _time(request.time) for request in core.requests},
        "received": _time(core.asked_at),
        "salted_digest_before": "" if report.digest_before is None else report.digest_before.hex(),
        "nodes_destroyed": report.destroyed,
        "nodes_rebuilt": report.rebuilt,
        "nodes_kept": report.kept,
    }


def _time(seconds: int) -> str:
    """Format a time that a party claims, which may be anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} seconds after 1970"
