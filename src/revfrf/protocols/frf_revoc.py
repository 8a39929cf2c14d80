"""FRF-Revoc: a participant leaves, and the forest becomes the one grown without it. In outline::

    request = sign_revocation(leaver, forest, level)     # the leaver, to KGC (line 1, there to CS)
    check_revocation(epoch, request)                     # KGC (line 2)
    after = next_epoch(epoch, leavers, level, setup)     # KGC (line 15)
    receipts = announce(epoch, after)                    # KGC to all who stay (line 16)
    certificate = frf_revoc(cs)                          # CS destroys, regrows and reports; KGC certifies

A node changes only if its winner or one above it has left (docs/forest.md), so the result is, bit for bit,
the forest without the leaver. docs/deviations.md says why KGC goes first, and what replaces lines 9 to 12.
Every step is recorded before the next one begins, so CS goes on where it was interrupted.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.errors import ProtocolError
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_revoc import Certified, Report, RevocationLevel, RevocationReport
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import KGC
from revfrf.protocols.certificate import RevocationCertificate, sign_report
from revfrf.protocols.common.epoch import certificate_digest, check_succession, write_parameters
from revfrf.protocols.key_setup import deal, key_deal
from revfrf.protocols.sides import CoordinatorSeat, CoordinatorSide, ForestRecord, Progress
from revfrf.storage.memory import Rebuilding
from revfrf.transport.base import Channel

# -- KGC --------------------------------------------------------------------------------------------


def next_epoch(
    channel: Channel,
    current: EpochCertificate,
    leavers: Collection[str],
    level: RevocationLevel,
    setup: SetUp | None,
    number: int,
) -> EpochCertificate:
    """Return the epoch after this one, without the leavers, for KGC to sign.

    It has new keys if there is a new set-up, for the deal of this number. The paper protocol needs one at
    level 2.
    """
    staying = tuple(member for member in current.members if member.name not in leavers)
    unsigned = msgspec.structs.replace(
        current,
        epoch=current.epoch + 1,
        members=staying,
        revoked=(*current.revoked, *sorted(leavers)),
        previous=certificate_digest(current),
        erases=level == 2,
    )
    if setup is not None:
        roles = {member.name: member.role for member in staying}
        known = {member.name: member.verify_key for member in staying}
        dtpkc = write_parameters(setup.parameters)
        message = key_deal(current.federation, unsigned.epoch, number, dtpkc)
        members = deal(channel, message, setup, roles, lambda: known)
        unsigned = msgspec.structs.replace(unsigned, members=members, dtpkc=dtpkc)
    check_succession(current, unsigned)
    return unsigned


# -- CS ---------------------------------------------------------------------------------------------


class RevokingSeat(CoordinatorSeat, Protocol):
    """What CS lends to FRF-Revoc."""

    side: CoordinatorSide
    certificates: tuple[RevocationCertificate, ...]

    @property
    def columns(self) -> Mapping[str, Sequence[Column]]: ...

    @property
    def leavers(self) -> set[str]:
        """Participants who have left and are still part of the forest."""

    def open(self) -> None:
        """Tell all participants the rules of the forest."""

    def write(self, record: ForestRecord) -> None:
        """Write down the record of the forest, and continue with it in the current epoch."""

    def digest(self) -> str:
        """Return the digest of the forest's structure."""


def frf_revoc(cs: RevokingSeat, outdated: bool, progress: Progress) -> RevocationCertificate:
    """Make the forest the one without those who have left, and have KGC certify it.

    `outdated`: it still has nodes of the leavers. May be repeated until it succeeds.
    """
    if not len(cs.targets):
        raise ProtocolError("there are no rows to grow a forest from", kind="order")
    if outdated:
        _destroy(cs)  # lines 3 to 7
    if not cs.columns:
        cs.open()  # somebody left before all knew of the forest
    cs.side.grow(progress)  # line 8
    cs.side.renew()  # lines 9 to 12
    cs.store.scrub()
    reply = cs.channel.call(KGC, RevocationReport(report=_report(cs)), Certified)
    certificate = RevocationCertificate.from_json(reply.certificate)
    certificate.verify(cs.identity.kgc)
    with cs.store.transaction():
        if certificate not in cs.certificates:
            cs.certificates = (*cs.certificates, certificate)
        cs.store.write(certificates=cs.certificates)
        cs.write(msgspec.structs.replace(cs.record, dtpkc=cs.certificate.dtpkc))
        cs.store.finish()
    return certificate


def _destroy(cs: RevokingSeat) -> None:
    """Destroy the leavers' nodes, and record what the forest was before."""
    leavers, rebuilding = cs.leavers, cs.store.rebuilding  # not None if this was interrupted before
    before = cs.digest() if rebuilding is None else ""
    cs.write(cs.record)  # with the members and keys of the current epoch
    destroyed = sum(cs.side.doomed(leavers).values())
    cs.side.prepare_leaving(leavers)
    staying = {party: tuple(owned) for party, owned in cs.columns.items() if party not in leavers}
    with cs.store.transaction():
        cs.store.begin_rebuilding(rebuilding or Rebuilding(before, destroyed, cs.side.n_nodes - destroyed))
        cs.side.destroy(leavers)
        cs.write(msgspec.structs.replace(cs.record, columns=staying))


def _report(cs: RevokingSeat) -> Report:
    """Describe, and sign, what became of the forest."""
    rebuilding = cs.store.rebuilding
    if rebuilding is None or not cs.side.whole:
        raise ProtocolError("no revocation is in progress, or the forest is not whole", kind="order")
    unsigned = Report(
        epoch=certificate_digest(cs.certificate),
        forest=cs.plan.forest,
        digest_before=rebuilding.digest_before,
        digest_after=cs.digest(),
        destroyed=rebuilding.destroyed,
        rebuilt=cs.side.n_nodes - rebuilding.kept,
        kept=rebuilding.kept,
        signature=bytes(64),
    )
    return sign_report(cs.identity, unsigned)
