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
from revfrf.forest.criterion import Counted, check_rows_count
from revfrf.forest.nodes import Nodes
from revfrf.forest.targets import Targets, TargetsRecord
from revfrf.forest.tree import Forest, Rules, feature_id
from revfrf.forest.voting import Votes, Voting
from revfrf.lifecycle import CsState
from revfrf.messages.base import Done, Message
from revfrf.messages.fle_expan import Column, OpenForest, Schema
from revfrf.messages.frf_predict import Failure, ForestFacts, ForestQuery, PredictReply, PredictRequest
from revfrf.messages.frf_revoc import Certified, Report, RevocationReport
from revfrf.messages.key_setup import EpochCertificate, KeyDeal
from revfrf.names import CC, KGC
from revfrf.parallel import side_by_side
from revfrf.protocols.certificate import RevocationCertificate, sign_report
from revfrf.protocols.common.epoch import certificate_digest, read_parameters
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import check_admission, check_request, enter_request
from revfrf.protocols.frf_revoc import destroy, reencrypt
from revfrf.protocols.paper.fle_expan import LevelReport, Plan, fle_expan, forest_id
from revfrf.protocols.paper.frf_predict import Answer, frf_predict, read_rows, write_answer
from revfrf.protocols.paper.frf_test import frf_test
from revfrf.protocols.paper.ho_lt import ComparingServer
from revfrf.record import Record
from revfrf.roles.party import PolicyParty
from revfrf.storage.memory import CoordinatorStore, Rebuilding
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


class ForestRecord(Record, frozen=True):
    """A forest's rules and columns. `n` is the modulus that the splits are encrypted under: that of an older
    epoch until a revocation at level 2 has ended.
    """

    opening: OpenForest
    seed: bytes
    columns: dict[str, tuple[Column, ...]]
    n: bytes


class Coordinator(PolicyParty):
    """CS, with one forest: first `create`, then `grow`, then any number of `votes` and of requests.

    `labels` are those of the classes; requesters learn them if `labels_are_public`. `absent` returns the
    members that are not connected.
    """

    plan: Plan
    store: CoordinatorStore
    record: ForestRecord
    targets: Targets

    def __init__(
        self, identity: Identity, channel: Channel, n_jobs: int = 1, store: CoordinatorStore | None = None
    ) -> None:
        super().__init__(identity, n_jobs, store or CoordinatorStore())
        self.channel = channel
        self.certificates: tuple[RevocationCertificate, ...] = ()
        self.labels_are_public = False
        self.absent: Callable[[], Collection[str]] = tuple

    def recall(self) -> None:
        """See `Party.recall`. Reads the forest, its targets, and all revocation certificates."""
        super().recall()
        record = self.store.expect("forest", ForestRecord)
        self.targets = self.store.expect("targets", TargetsRecord).targets()
        self.certificates = self.store.read("certificates", tuple[RevocationCertificate, ...]) or ()
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
                self._check_ready()
                return self._facts()
            case PredictRequest():
                self.check_sender(sender, message.request.admission.member.name)
                self._check_ready()
                return self._predict(message)
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
            self._write(ForestRecord(opening, seed, {}, epoch.n))
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
        self._write(msgspec.structs.replace(self.record, columns=columns_of))

    def _write(self, record: ForestRecord) -> None:
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
            parameters=read_parameters(epoch, self.identity.allow_insecure),
            owners={party: [feature_id(party, c.name) for c in owned] for party, owned in columns.items()},
            verify_keys={member.name: VerifyKey(member.verify_key) for member in epoch.members},
        )
        self.record = record

    def grow(self, progress: Callable[[LevelReport], None]) -> None:
        """FLE-Expan until nothing is left to grow."""
        counted = Counted.of(self.plan.rules, self.plan.seed, self.targets)
        fle_expan(self.channel, self.plan, counted, self.store, self.n_jobs, progress)

    # -- what has become of the forest, for the life cycle and FRF-Revoc ----------------------------

    def lifecycle_state(self, requested: bool = True, gathered: bool = True, settled: bool = True) -> CsState:
        """Return what is recorded of the forest, and what the caller knows besides."""
        known = CsState(self.identity.epoch, requested, gathered, settled)
        if not self.created:
            return known
        epoch, opened = self.certificate.epoch, bool(self.columns)
        return replace(
            known,
            created=True,
            opened=opened,
            outdated=bool(self.leavers) or not (opened or self.opening.epoch == epoch),
            rebuilding=self.store.rebuilding is not None,
            whole=self.plan.epoch == epoch and self.store.whole(self.plan.rules.n_trees),
        )

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

    def revoke(self, progress: Callable[[LevelReport], None]) -> RevocationCertificate:
        """FRF-Revoc. Until it is done, nothing is answered. If it was interrupted, it goes on here."""
        state = self.lifecycle_state()
        if not state.revoking or not len(self.targets):
            raise ProtocolError("nobody has left, or there are no rows to grow a forest from", kind="order")
        if state.outdated:
            self._begin_rebuilding()  # lines 3 to 7
        if not self.columns:
            self.open()  # somebody left before all knew of the forest
        self.grow(progress)  # line 8
        if self.record.n != self.certificate.n:
            reencrypt(self.channel, self.plan, self.store)  # level 2 replaces lines 9 to 12, see deviations
        self.store.scrub()
        reply = self.channel.call(KGC, RevocationReport(report=self._report()), Certified)
        certificate = RevocationCertificate.from_json(reply.certificate)
        certificate.verify(self.identity.kgc)
        with self.store.transaction():
            if certificate not in self.certificates:
                self.certificates = (*self.certificates, certificate)
            self.store.write(certificates=self.certificates)
            self._write(msgspec.structs.replace(self.record, n=self.certificate.n))
            self.store.finish()
        return certificate

    def _begin_rebuilding(self) -> None:
        """Destroy the leavers' nodes, and record what the forest was before."""
        leavers, rebuilding = self.leavers, self.store.rebuilding  # not None if this was interrupted before
        before = self.digest() if rebuilding is None else ""
        self.resume(self.record)  # with the members and keys of the current epoch
        going = destroy(self.channel, self.plan, self.store, leavers)
        staying = {party: owned for party, owned in self.columns.items() if party not in leavers}
        with self.store.transaction():
            kept = self.store.n_nodes - len(going)
            self.store.destroy(going, rebuilding or Rebuilding(before, len(going), kept))
            self._write(msgspec.structs.replace(self.record, columns=staying))

    def _report(self) -> Report:
        """Describe, and sign, what became of the forest."""
        rebuilding, store = self.store.rebuilding, self.store
        if rebuilding is None or not store.whole(self.plan.rules.n_trees):
            raise ProtocolError("no revocation is in progress, or the forest is not whole", kind="order")
        unsigned = Report(
            epoch=certificate_digest(self.certificate),
            forest=self.plan.forest,
            digest_before=rebuilding.digest_before,
            digest_after=self.digest(),
            destroyed=rebuilding.destroyed,
            rebuilt=store.n_nodes - rebuilding.kept,
            kept=rebuilding.kept,
            signature=bytes(64),
        )
        return sign_report(self.identity, unsigned)

    # -- testing and predicting ---------------------------------------------------------------------

    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        """FRF-Test: return the votes for each row of a table that the participants hold."""
        self._check_ready()
        votes = Votes.none(n_rows, self.targets.scale)
        for leaves in frf_test(self.channel, self.plan, self.store, table, n_rows):
            self._count(votes, voting, leaves)
        return votes

    def _count(self, votes: Votes, voting: Voting, leaves: Nodes) -> None:
        """Add the votes of these leaves to those of their rows."""
        scale = self.targets.scale
        sums = np.array([self.store.leaves[name] for name in leaves.names()], dtype=np.int64)
        votes.add(leaves.arrays, sums.reshape(-1, scale.n_sums), scale, voting)

    def _check_ready(self) -> None:
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

    def _predict(self, message: PredictRequest) -> PredictReply:
        """FRF-Predict, if the request is one to answer."""
        request = message.request
        check_request(self.identity, self.opening, self.book, request)
        rows = read_rows(self.plan, message)
        enter_request(self.book, self.policy, self.opening, request, 0, 1)
        votes, absent = Votes.none(request.n_rows, self.targets.scale), set[str]()
        try:
            keys = (self.identity.share, self.identity.weak, self.plan.verify_keys[CC])
            server = ComparingServer(self.channel, *keys, self.n_jobs)
            for leaves in frf_predict(server, self.plan, self.store, request, rows, absent, _progress.get()):
                self._count(votes, request.voting, leaves)
            self._check_ready()  # unless somebody has left since
            check_admission(self.identity, request.admission)
        except (AbsentError, RefusedError) as error:
            log.warning("a request of %r has no answer: %s", request.admission.member.name, error)
            failure = Failure(error.party, "absent" if isinstance(error, AbsentError) else "refused")
            return PredictReply(votes=b"", n_voted=b"", absent=(), failure=failure)
        return write_answer(Answer(votes, tuple(sorted(absent))))

    def digest(self) -> str:
        """Return the digest of the forest's plain structure, and of what its leaves are about."""
        return self.forest.digest(self.plan.rules, self.targets.scale)

    @property
    def forest(self) -> Forest:
        """The structure of the forest, without thresholds."""
        splits = {node: (split.feature, split.cut) for node, split in self.store.splits.items()}
        return Forest.of_nodes(self.plan.rules.n_trees, splits, self.store.leaves)


def _check_schema(party: str, schema: Schema, n_rows: int) -> None:
    names = [column.name for column in schema.columns]
    if schema.n_rows != n_rows:
        raise ProtocolError(
            f"{party!r} holds {schema.n_rows} rows, and there are {n_rows} labels", kind="schema"
        )
    if not 0 < len(names) < 2**16 or len(set(names)) != len(names):
        raise ProtocolError(f"{party!r} has no columns, too many, or two with one name", kind="schema")
