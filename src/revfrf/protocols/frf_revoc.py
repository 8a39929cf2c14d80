"""FRF-Revoc: a participant leaves, and the forest becomes the one grown without it. In outline::

    request = sign_revocation(leaver, forest, level)     # the leaver, to KGC (line 1, there to CS)
    check_revocation(epoch, request)                     # KGC (line 2)
    after = next_epoch(epoch, requests, setup)           # KGC (line 15)
    inform(after)                                        # KGC to all who stay (line 16)
    certificate = frf_revoc(cs)                          # CS destroys, regrows and reports; KGC certifies
    collect_receipts(cs)                                 # CS from all who stay, when they are there

A node changes only if its winner or one above it has left (docs/forest.md), so the result is, bit for bit,
the forest without the leaver. docs/deviations.md says why KGC goes first, and what replaces lines 9 to 12.
Every step is recorded before the next one begins, so CS goes on where it was interrupted.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_revoc import RevocationRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.protocols.bins import new_salt
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.common.epoch import certificate_digest, check_succession, write_parameters
from revfrf.protocols.events import EventSeat, report_event
from revfrf.protocols.key_setup import deal, key_deal
from revfrf.protocols.sides import Progress
from revfrf.storage.memory import Rebuilding
from revfrf.transport.base import Channel

log = logging.getLogger(__name__)

# -- KGC --------------------------------------------------------------------------------------------


def next_epoch(
    channel: Channel,
    current: EpochCertificate,
    requests: Collection[RevocationRequest],
    setup: SetUp | None,
    number: int,
) -> EpochCertificate:
    """Return the epoch after this one, without those who ask to leave, for KGC to sign.

    It has new keys if there is a new set-up, for the deal of this number. The paper protocol needs one at
    level 2.
    """
    leavers = sorted(request.party for request in requests)
    staying = tuple(member for member in current.members if member.name not in leavers)
    unsigned = msgspec.structs.replace(
        current,
        epoch=current.epoch + 1,
        members=staying,
        revoked=(*current.revoked, *leavers),
        requests=tuple(sorted(requests, key=lambda request: request.party)),
        previous=certificate_digest(current),
        erases=any(request.level == 2 for request in requests),
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


class RevokingSeat(EventSeat, Protocol):
    """What CS lends to FRF-Revoc."""

    @property
    def columns(self) -> Mapping[str, Sequence[Column]]: ...

    @property
    def leavers(self) -> set[str]:
        """Participants who have left and are still part of the forest."""

    def open(self) -> None:
        """Tell all participants the rules of the forest."""


def frf_revoc(cs: RevokingSeat, outdated: bool, progress: Progress) -> EventCertificate:
    """Make the forest the one without those who have left, and have KGC certify it.

    `outdated`: it still has nodes of the leavers. May be repeated until it succeeds.
    """
    if not len(cs.targets):
        raise ProtocolError("there are no rows to grow a forest from", kind="order")
    if outdated:
        _destroy(cs)  # lines 3 to 7
    if not cs.columns:
        cs.open()  # somebody left before all knew of the forest
    try:
        cs.side.grow(progress)  # line 8
    except (AbsentError, RefusedError) as error:
        if error.party not in cs.side.lacking:
            raise
        log.warning("nodes stay open without %r, whose bins were forgotten: %s", error.party, error)
    if cs.side.whole and cs.side.forgettable:
        cs.side.forget()
    cs.side.renew()  # lines 9 to 12
    cs.store.scrub()
    return report_event(cs)


def _destroy(cs: RevokingSeat) -> None:
    """Destroy the leavers' nodes. The digests in the next certificate get a new salt."""
    leavers, rebuilding = cs.leavers, cs.store.rebuilding  # not None if this was interrupted before
    cs.write(cs.record)  # with the members and keys of the current epoch
    destroyed = sum(cs.side.doomed(leavers).values())
    cs.side.prepare_leaving(leavers)
    staying = {party: tuple(owned) for party, owned in cs.columns.items() if party not in leavers}
    with cs.store.transaction():
        cs.store.begin_rebuilding(rebuilding or Rebuilding(destroyed, cs.side.n_nodes - destroyed))
        cs.side.destroy(leavers)
        cs.write(msgspec.structs.replace(cs.record, columns=staying, salt=new_salt()))
