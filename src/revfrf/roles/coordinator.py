"""CS, the coordinator: owns the labels, the structure of the forest and its leaves; drives every protocol."""

import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import msgspec
import numpy as np

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import AbsentError, NoForestError, ProtocolError, RefusedError
from revfrf.forest.criterion import check_rows_count
from revfrf.forest.targets import Targets, TargetsRecord
from revfrf.forest.tree import Rules, feature_id
from revfrf.forest.voting import Votes, Voting
from revfrf.lifecycle import CsState
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import Column, OpenForest, Schema
from revfrf.messages.frf_predict import ForestFacts, ForestQuery, PredictRequest
from revfrf.messages.key_setup import EpochCertificate, KeyDeal
from revfrf.names import CC
from revfrf.parallel import side_by_side
from revfrf.protocols.bins import new_salt
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.opening import forest_id
from revfrf.protocols.common.request import check_admission
from revfrf.protocols.events import collect_receipts, complete, report_event
from revfrf.protocols.frf_revoc import frf_revoc
from revfrf.protocols.registry import PROTOCOLS
from revfrf.protocols.sides import CoordinatorSide, ForestRecord, Plan, Progress
from revfrf.roles.party import PolicyParty
from revfrf.storage.memory import CoordinatorStore
from revfrf.transport.base import Channel

log = logging.getLogger(__name__)

_progress: ContextVar[Callable[[float], None]] = ContextVar("progress", default=lambda _: None)


@contextmanager
def watching_requests(progress: Callable[[float], None]) -> Iterator[None]:
    """Tell `progress` how many rows of a request CS has walked, if this thread's call reaches it."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


class Coordinator(PolicyParty):
    """CS, with one forest: first `create`, then `grow`, then any number of `votes` and of requests.

    `labels` are those of the classes; requesters learn them if `labels_are_public`. `absent` returns the
    members that are not connected.
    """

    plan: Plan
    side: CoordinatorSide
    store: CoordinatorStore
    record: ForestRecord
    targets: Targets

    def __init__(
        self, identity: Identity, channel: Channel, n_jobs: int = 1, store: CoordinatorStore | None = None
    ) -> None:
        super().__init__(identity, n_jobs, store or CoordinatorStore())
        self.channel = channel
        self.certificates: tuple[EventCertificate, ...] = ()
        self._unwilling: set[str] = set()
        self._keeping_bins: set[str] = set()
        self.labels_are_public = False
        self.absent: Callable[[], Collection[str]] = tuple

    def recall(self) -> None:
        """See `Party.recall`. Reads the forest, its targets, and all event certificates."""
        super().recall()
        record = self.store.expect("forest", ForestRecord)
        self.targets = self.store.expect("targets", TargetsRecord).targets()
        self.certificates = self.store.read("certificates", tuple[EventCertificate, ...]) or ()
        self.resume(record)

    def handle(self, sender: str, message: Message) -> Message:
        """Answer KGC and requesters."""
        match message:
            case KeyDeal() | EpochCertificate() if (
                self.store.rebuilding and message.epoch > self.identity.epoch
            ):
                raise ProtocolError("a revocation is in progress", kind="order")
            case ForestQuery():
                self.check_sender(sender, message.admission.member.name)
                check_admission(self.identity, message.admission)
                self.check_ready()
                return self._facts()
            case PredictRequest():
                self.check_sender(sender, message.request.admission.member.name)
                self.check_ready()
                return self.side.answer(message, _progress.get())
        return super().handle(sender, message)

    @property
    def opening(self) -> OpenForest:
        """The rules of the forest, as participants know them. Raises ProtocolError before there is one."""
        if not self.created:
            raise ProtocolError("there is no forest yet", kind="forest")
        return self.record.opening

    @property
    def columns(self) -> Mapping[str, Sequence[Column]]:
        """The columns of all who are part of the forest; empty before all know of it."""
        return self.record.columns

    def create(self, rules: Rules, seed: bytes, targets: Targets) -> None:
        """Record the rules of a forest with all participants of the epoch. `open` tells these.

        Raises UsageError for rows of which no tree draws any.
        """
        check_rows_count(rules, seed, targets)
        epoch = self.certificate
        unnamed = OpenForest(
            federation=epoch.federation,
            epoch=epoch.epoch,
            forest=bytes(16),
            nonce=secrets.token_bytes(16),
            rules=rules,
        )
        opening = msgspec.structs.replace(unnamed, forest=forest_id(unnamed))
        with self.store.transaction():
            self.store.write(targets=targets)
            self.write(ForestRecord(opening, seed, {}, epoch.dtpkc, new_salt(), new_salt()))
        self.targets = targets

    def open(self) -> None:
        """Send the forest's rules to CC and all participants. May be repeated, also in a later epoch."""
        members = self.certificate.participants
        opening = msgspec.structs.replace(self.opening, epoch=self.certificate.epoch)

        def ask(party: str) -> tuple[Column, ...]:
            if party == CC:
                self.channel.call(CC, opening, Done)
                return ()
            schema = self.channel.call(party, opening, Schema)
            _check_schema(party, schema, len(self.targets))
            return schema.columns

        _, *columns = side_by_side(ask, [CC, *members])
        columns_of = dict(zip(members, columns, strict=True))
        self.write(msgspec.structs.replace(self.record, columns=columns_of))

    def write(self, record: ForestRecord) -> None:
        """Write down the record of the forest, and continue with it in the current epoch."""
        self.store.write(forest=record)
        self.resume(record)

    def resume(self, record: ForestRecord) -> None:
        """Continue with a forest that was created before, in the current epoch."""
        epoch, opening, columns = self.certificate, record.opening, record.columns
        self.plan = Plan(
            federation=opening.federation,
            epoch=epoch.epoch,
            forest=opening.forest,
            seed=record.seed,
            rules=opening.rules,
            owners={party: [feature_id(party, c.name) for c in owned] for party, owned in columns.items()},
            verify_keys={member.name: VerifyKey(member.verify_key) for member in epoch.members},
        )
        self.record = record
        self.side = PROTOCOLS[epoch.forest_protocol].coordinator(self)

    def grow(self, progress: Progress) -> None:
        """Grow what is missing in the forest.

        If it waits for an owner that is back and refuses to send its bins, it waits on.
        """
        waiting = any(certificate.waits_for for certificate in self.certificates[-1:])
        try:
            self.side.grow(progress)
        except (AbsentError, RefusedError) as error:
            if not waiting or error.party not in self.side.lacking:
                raise
            log.warning("nodes stay open without %r, whose bins were forgotten: %s", error.party, error)
            self._keeping_bins.add(error.party)

    def certify(self) -> None:
        """Have KGC certify the forest's inputs; or sign that it is whole, once an owner is back."""
        if self.certificates:
            complete(self)
        else:
            report_event(self)

    def forget(self) -> None:
        """Erase the bins that their owners do not want to be kept."""
        self.side.forget()

    def collect_receipts(self) -> None:
        """Have the connected members countersign the last event. One that refuses is left alone for now."""
        asked = self._to_sign
        collect_receipts(self, asked)
        self._unwilling |= asked & self.certificates[-1].unsigned.keys()

    def ask_all_again(self) -> None:
        """From now on, ask those for receipts and bins again that have refused them."""
        self._unwilling, self._keeping_bins = set(), set()

    @property
    def _to_sign(self) -> set[str]:
        """The connected members who have not countersigned the last event, and have not refused to."""
        if not self.certificates:
            return set()
        return self.certificates[-1].unsigned.keys() - self._unwilling - set(self.absent())

    # -- what has become of the forest, for the life cycle and FRF-Revoc ----------------------------

    def lifecycle_state(self, requested: bool = True, gathered: bool = True, settled: bool = True) -> CsState:
        """Return what is recorded of the forest, and what the caller knows besides."""
        known = CsState(self.identity.epoch, requested, gathered, settled)
        if not self.created:
            return known
        epoch, opened = self.certificate.epoch, bool(self.columns)
        whole, last = self.plan.epoch == epoch and self.side.whole, self.certificates[-1:]
        waiting = any(certificate.waits_for for certificate in last)
        away = waiting and bool(self.waits_for)
        return replace(
            known,
            created=True,
            opened=opened,
            outdated=bool(self.leavers) or not (opened or self.opening.epoch == epoch),
            together=not opened or self.side.together,
            rebuilding=self.store.rebuilding is not None,
            whole=whole,
            waiting=waiting,
            away=away,
            certified=bool(last) and not (waiting and whole),
            forgettable=(whole or away) and self.side.forgettable,
            unsigned=bool(self._to_sign),
        )

    @property
    def waits_for(self) -> list[str]:
        """The owners who keep nodes open: CS has forgotten their bins, and they are away or refuse."""
        gone = {*self.absent(), *self._keeping_bins}
        return sorted(self.side.lacking & gone) if self.created else []

    @property
    def created(self) -> bool:
        """Whether there is a forest, however far it is grown."""
        return hasattr(self, "record")

    @property
    def ready(self) -> bool:
        """See `CsState.ready`."""
        return self.lifecycle_state().ready

    @property
    def leavers(self) -> set[str]:
        """Participants who have left and are still part of the forest."""
        return self.columns.keys() & set(self.certificate.revoked)

    def revoke(self, progress: Progress) -> EventCertificate:
        """FRF-Revoc. Until it is done, nothing is answered. If it was interrupted, it goes on here."""
        state = self.lifecycle_state()
        self.ask_all_again()
        if not state.revoking:
            raise ProtocolError("nobody has left", kind="order")
        return frf_revoc(self, state.outdated, progress)

    # -- testing and predicting ---------------------------------------------------------------------

    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        """FRF-Test: return the votes for each row of a table that the participants hold.

        Raises AbsentError if no tree votes for a row, because nodes wait for an owner that is away.
        """
        self.check_ready()
        votes = self.side.votes(table, n_rows, voting)
        silent = np.count_nonzero(votes.n_voted == 0)
        for owner in self.certificates[-1].waits_for if silent else ():
            what = f"is offline, and no tree votes without it for {silent} of {n_rows} rows"
            raise AbsentError(owner, f"{what}; retry when it is back")
        return votes

    def check_ready(self) -> None:
        """Raise NoForestError unless the forest can be used."""
        if not self.ready:
            raise NoForestError("the forest is not ready: not trained yet, still training, or being rebuilt")

    def _facts(self) -> ForestFacts:
        scale = self.targets.scale
        return ForestFacts(
            epoch=self.certificate.epoch,
            opening=self.opening,
            n_votes=scale.n_votes,
            columns={party: tuple(owned) for party, owned in self.columns.items()},
            labels=tuple(map(str, scale.labels)) if self.labels_are_public else (),
            centre=scale.centre,
            vote_places=scale.vote_places,
            absent=tuple(sorted(self.absent())),
        )

    def digest(self) -> str:
        """Return the digest of the forest's plain structure, and of what its leaves are about."""
        return self.side.forest.digest(self.plan.rules, self.targets.scale)


def _check_schema(party: str, schema: Schema, n_rows: int) -> None:
    names = [column.name for column in schema.columns]
    if schema.n_rows != n_rows:
        raise ProtocolError(
            f"{party!r} holds {schema.n_rows} rows, and there are {n_rows} labels", kind="schema"
        )
    if not 0 < len(names) < 2**16 or len(set(names)) != len(names):
        raise ProtocolError(f"{party!r} has no columns, too many, or two with one name", kind="schema")
