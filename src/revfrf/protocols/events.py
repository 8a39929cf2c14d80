"""Events: CS reports what has happened to a forest, KGC certifies it, and the members countersign::

    CS   the inputs and digests before and after, signed  ->  KGC  checks and certifies them    `report_event`
    KGC  the event                                        ->  CS   keeps it
    CS   the event, and which of i's cuts are used        ->  i    checks its own columns   `collect_receipts`
    i    receipts for used cuts and for erasure           ->  CS   adds them to the certificate

Nobody waits for a receipt: who was away signs when it is back. The digests of seed, targets and forest are
salted. CS draws a new salt for the forest at every event, so that an old certificate cannot confirm guesses.
Seed and targets keep theirs until rows or labels change, so that everybody sees that they are the same.
"""

import logging
from collections.abc import Collection
from typing import Protocol

import msgspec

from revfrf.crypto.canonical import Field, digest
from revfrf.errors import AbsentError, CertificateError, ProtocolError, RefusedError
from revfrf.forest.targets import Scale, Targets
from revfrf.forest.tree import Rules
from revfrf.messages.bins import FeatureLine
from revfrf.messages.events import (
    Certified,
    CertifiedInputs,
    CompletionReceipt,
    Countersigned,
    ErasureReceipt,
    Event,
    EventNotice,
    EventReport,
    Report,
    UsedColumn,
    UsedCuts,
    UsedCutsReceipt,
)
from revfrf.names import CS, KGC
from revfrf.parallel import side_by_side
from revfrf.protocols.bins import rows_digest
from revfrf.protocols.certificate import (
    FORMAT,
    EventCertificate,
    event_digest,
    owner_of,
    sign_receipt,
    sign_report,
)
from revfrf.protocols.common.epoch import certificate_digest
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.signed import verify
from revfrf.protocols.sides import CoordinatorSeat, CoordinatorSide, ForestRecord
from revfrf.storage.memory import Rebuilding
from revfrf.transport.base import blaming

log = logging.getLogger(__name__)


def certified_inputs(
    rules: Rules, seed: bytes, targets: Targets, lines: Collection[FeatureLine], salt: bytes
) -> CertifiedInputs:
    """Return what certificates say of these inputs."""
    arrays = (targets.numbers, targets.values, targets.weights)
    known: tuple[Field, ...] = (
        _scale_fields(targets.scale),
        *(array.astype("<i8").tobytes() for array in arrays),
    )
    return CertifiedInputs(
        rules=digest("revfrf rules v1", *rules.fields()),
        seed=digest("revfrf seed v1", salt, seed),
        targets=digest("revfrf targets v1", salt, *known),
        rows=rows_digest(targets.numbers),
        n_rows=len(targets),
        features=tuple(sorted(lines, key=lambda line: line.feature)),
    )


def _scale_fields(scale: Scale) -> tuple[Field, ...]:
    """Everything that later rows must fit."""
    numbers = (scale.max_total_weight, scale.low, scale.high, *scale.class_weights)
    return (scale.weight_places, tuple(number.hex() for number in numbers), tuple(map(repr, scale.labels)))


def salted_digest(salt: bytes, forest: str) -> bytes:
    """Return the digest of a forest as certificates have it."""
    return digest("revfrf salted forest v1", salt, forest)


def used_column(salt: bytes, used: UsedCuts, generation: int) -> UsedColumn:
    """Return what an owner signs of a column in use. To find a bin among u cuts takes ⌈log2(u+1)⌉ rounds."""
    cuts = digest("revfrf used cuts v1", salt, used.feature, used.cuts)
    return UsedColumn(used.feature, generation, len(used.cuts).bit_length(), cuts)


# -- CS ---------------------------------------------------------------------------------------------


class EventSeat(CoordinatorSeat, Protocol):
    """What CS lends to events. `certificates` are those of all events so far."""

    side: CoordinatorSide
    certificates: tuple[EventCertificate, ...]

    def write(self, record: ForestRecord) -> None:
        """Write down the record of the forest, and continue with it in the current epoch."""

    def digest(self) -> str:
        """Return the digest of the forest's structure."""


def report_event(cs: EventSeat) -> EventCertificate:
    """Have KGC certify what has become of the forest, and keep the certificate. May be repeated.

    If KGC's answer to an earlier report was lost, that one is sent first: KGC may have certified it.
    """
    lost = cs.store.reported
    if lost is not None:
        try:
            certificate = _certified(cs, lost)
        except RefusedError:  # KGC has never seen it
            cs.store.put_reported(None)
        else:
            _finish(cs, certificate)
            if lost.epoch == certificate_digest(cs.certificate):
                return certificate
    report = _report(cs)
    cs.store.put_reported(report)
    certificate = _certified(cs, report)
    _finish(cs, certificate)
    return certificate


def _report(cs: EventSeat) -> Report:
    """Return CS's signed word on what has become of the forest."""
    digest_after = salted_digest(cs.record.salt, cs.digest())
    # Without this event: an interruption below may have left its certificate in memory.
    earlier = [known for known in cs.certificates if known.core.report.digest_after != digest_after]
    before, nodes = earlier[-1:], cs.store.rebuilding or Rebuilding(0, 0)
    unsigned = Report(
        epoch=certificate_digest(cs.certificate),
        forest=cs.plan.forest,
        inputs_before=before[0].core.report.inputs_after if before else None,
        inputs_after=inputs_of(cs),
        digest_before=before[0].digest_after if before else None,
        digest_after=digest_after,
        destroyed=nodes.destroyed,
        rebuilt=cs.side.n_nodes - nodes.kept,
        kept=nodes.kept,
        waits_for=tuple(sorted(cs.side.lacking)),
        signature=bytes(64),
    )
    return sign_report(cs.identity, unsigned)


def _certified(cs: EventSeat, report: Report) -> EventCertificate:
    """Return KGC's certificate for this report, with CS's own receipt. Raises RefusedError."""
    event = cs.channel.call(KGC, EventReport(report=report), Certified).event
    verify(cs.identity.kgc, FORMAT, event)
    if event.report != report:
        raise ProtocolError("KGC has certified another report", kind="order")
    certificate = EventCertificate(event)
    if event.epoch_after.erases:
        certificate = certificate.signed_by([_erasure(cs.identity, event)])
    return certificate


def _finish(cs: EventSeat, certificate: EventCertificate) -> None:
    """Keep a certificate. If it is of this epoch, the event is over."""
    others = [known for known in cs.certificates if known.core != certificate.core]
    with cs.store.transaction():
        _keep(cs, [*others, certificate])
        cs.store.put_used_salts({})
        cs.store.put_reported(None)
        if certificate.core.epoch_after == cs.certificate:
            cs.write(msgspec.structs.replace(cs.record, dtpkc=cs.certificate.dtpkc))
            cs.store.finish()
    cs.store.scrub()


def inputs_of(cs: EventSeat) -> CertifiedInputs:
    """Return the inputs of CS's forest as certificates have them."""
    return certified_inputs(cs.plan.rules, cs.plan.seed, cs.targets, cs.side.lines, cs.record.inputs_salt)


def complete(cs: EventSeat) -> None:
    """Sign that the forest is whole, after an event that had to leave some nodes open."""
    certificate = cs.certificates[-1]
    unsigned = CompletionReceipt(
        party=CS,
        event=event_digest(certificate.core),
        digest_after=salted_digest(cs.record.salt, cs.digest()),
        rebuilt=cs.side.n_nodes - certificate.core.report.kept,
        signature=bytes(64),
    )
    _keep(cs, [*cs.certificates[:-1], certificate.signed_by([sign_receipt(cs.identity, unsigned)])])


def collect_receipts(cs: EventSeat, members: Collection[str]) -> None:
    """Ask these members for the receipts that the last event still lacks. Those who are away are skipped.

    The receipt of a member that refuses, or signs something else, stays missing, and the log says so.
    """
    certificate, used = cs.certificates[-1], cs.side.used_cuts()
    missing = certificate.unsigned

    def ask(member: str) -> Countersigned | None:
        own = used.get(member, ()) if UsedCutsReceipt in missing[member] else None
        try:
            with blaming(member):
                reply = cs.channel.call(member, EventNotice(event=certificate.core, used=own), Countersigned)
                wanted = tuple(receipt for receipt in reply.receipts if type(receipt) in missing[member])
                return _checked(certificate, member, own, msgspec.structs.replace(reply, receipts=wanted))
        except AbsentError:
            return None
        except RefusedError as error:
            log.warning("no receipt for the last event: %s", error)
            return None

    asked = sorted(missing.keys() & set(members))
    replies = dict(zip(asked, side_by_side(ask, asked), strict=True))
    given = {member: reply for member, reply in replies.items() if reply is not None}
    with cs.store.transaction():
        salts = {member: reply.salt for member, reply in given.items() if reply.salt is not None}
        cs.store.put_used_salts(cs.store.used_salts | salts)
        receipts = [receipt for reply in given.values() for receipt in reply.receipts]
        _keep(cs, [*cs.certificates[:-1], certificate.signed_by(receipts)])


def _checked(
    certificate: EventCertificate, member: str, used: Collection[UsedCuts] | None, reply: Countersigned
) -> Countersigned:
    """Return a member's receipts for the event, and for the cuts that CS has named; else raise RejectedError.

    Where no cuts were named, there is no salt.
    """
    if any(receipt.party != member for receipt in reply.receipts):
        raise ProtocolError(f"{member!r} gives a receipt of somebody else", kind="member")
    try:
        certificate.signed_by(reply.receipts)
    except CertificateError as error:
        raise ProtocolError(f"a receipt that does not hold: {error}", kind="member") from None
    generations = {line.feature: line.generation for line in certificate.core.report.inputs_after.features}
    salt = reply.salt or b""
    wanted = tuple(used_column(salt, own, generations[own.feature]) for own in used or ())
    for receipt in reply.receipts:
        if isinstance(receipt, UsedCutsReceipt) and receipt.columns != wanted:
            raise ProtocolError(f"{member!r} signs for other cuts than the forest uses", kind="forest")
    return msgspec.structs.replace(reply, salt=None if used is None else reply.salt)


def _keep(cs: EventSeat, certificates: Collection[EventCertificate]) -> None:
    cs.store.write(certificates=tuple(certificates))
    cs.certificates = tuple(certificates)


# -- a member ---------------------------------------------------------------------------------------


def _erasure(identity: Identity, event: Event) -> ErasureReceipt:
    unsigned = ErasureReceipt(party=identity.name, event=event_digest(event), signature=bytes(64))
    return sign_receipt(identity, unsigned)


def answer_notice(identity: Identity, message: EventNotice) -> tuple[ErasureReceipt, ...]:
    """Check an event, and return the receipt for what this member has erased on entering its epoch, if any.

    Raises RejectedError unless KGC has certified it, for an epoch that this member has entered.
    """
    event, current = message.event, identity.certificate
    verify(identity.kgc, FORMAT, event)
    after = event.epoch_after
    if current is None or after.federation != current.federation or after.epoch > current.epoch:
        raise ProtocolError("an event of another federation, or of a later epoch", kind="epoch")
    if after.epoch == current.epoch and after != current:
        raise ProtocolError("an event of another epoch of the same number", kind="epoch")
    if identity.name not in after.by_name:
        raise ProtocolError("an event after this party has left", kind="member")
    return (_erasure(identity, event),) if after.erases else ()


def sign_used_cuts(
    identity: Identity, event: Event, used: Collection[UsedCuts], lines: Collection[FeatureLine], salt: bytes
) -> UsedCutsReceipt:
    """Sign which of an owner's cuts are used.

    Raises ProtocolError unless the event names its columns as it has signed them, and the cuts exist.
    """
    own = tuple(
        line for line in event.report.inputs_after.features if owner_of(line.feature) == identity.name
    )
    if own != tuple(sorted(lines, key=lambda line: line.feature)):
        raise ProtocolError("the event has other columns than this owner has signed", kind="forest")
    known = {line.feature: line for line in own}
    columns = []
    for column in used:
        line, cuts = known.get(column.feature), column.cuts
        if line is None or list(cuts) != sorted(set(cuts)) or cuts[-1] >= line.n_cuts:
            raise ProtocolError(f"cuts that {column.feature!r} does not have", kind="forest")
        columns.append(used_column(salt, column, line.generation))
    if [column.feature for column in columns] != sorted({column.feature for column in columns}):
        raise ProtocolError("columns twice, or out of order", kind="forest")
    unsigned = UsedCutsReceipt(
        party=identity.name, event=event_digest(event), columns=tuple(columns), signature=bytes(64)
    )
    return sign_receipt(identity, unsigned)
