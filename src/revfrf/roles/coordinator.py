"""CS, the coordinator: owns the labels, the structure of the forest and its leaves; drives every protocol."""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.certificate import RevocationCertificate
from revfrf.crypto.canonical import Field
from revfrf.crypto.keys import Parameters
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.forest.criterion import Targets
from revfrf.forest.nodes import Nodes
from revfrf.forest.tree import Rules, feature_id, forest_digest
from revfrf.forest.voting import Voting, add_votes, leaf_votes
from revfrf.messages.base import Done, Message, of_number
from revfrf.messages.prediction import ForestFacts, ForestQuery, PredictReply, PredictRequest
from revfrf.messages.revocation import Certified, Report, RevocationReport, RevocationRequest
from revfrf.messages.training import Column, OpenForest, Schema
from revfrf.protocols.epoch import CC, KGC, PARTICIPANT, certificate_digest
from revfrf.protocols.fle_expan import LevelReport, Plan, fle_expan, forest_id
from revfrf.protocols.frf_predict import Answer, frf_predict, read_rows, write_answer, write_failure
from revfrf.protocols.frf_revoc import check_revocation, frf_revoc, sign_report
from revfrf.protocols.frf_test import frf_test
from revfrf.protocols.ho_lt import ComparingServer
from revfrf.protocols.key_setup import Identity
from revfrf.protocols.request import check_admission, check_request, enter_request
from revfrf.roles.party import AnsweringParty
from revfrf.storage.memory import CoordinatorStore
from revfrf.transport.base import Channel

log = logging.getLogger(__name__)

_CALLS_PER_WORKER = 4
"""With real keys participants mostly wait for worker processes that encrypt: more are called at once."""


class Coordinator(AnsweringParty):
    """CS, with one forest: first `open`, then `grow`, then any number of `votes` and of requests.

    `n_classes` is 0 for numbers; a forest that is `ready` has stopped growing. `watch` is told how many
    rows of a request are walked, those on their way in part.
    """

    plan: Plan
    store: CoordinatorStore
    opening: OpenForest
    columns: Mapping[str, Sequence[Column]]

    def __init__(self, identity: Identity, channel: Channel, n_jobs: int = 1) -> None:
        super().__init__(identity)
        self.channel = channel
        self.n_jobs = n_jobs
        self.n_classes, self.ready = 0, False
        self.watch: Callable[[float], None] = lambda _: None
        self.targets: Targets | None = None

    def handle(self, sender: str, message: Message) -> Message:
        """Answer KGC and requesters."""
        match message:
            case ForestQuery():
                self.expect(sender, message.admission.member.name)
                check_admission(self.identity, message.admission)
                self._check_ready()
                return self._facts()
            case RevocationRequest():
                self.expect(sender, message.party)
                check_revocation(self.certificate, message)
                if message.forest != self.opening.forest:
                    raise ProtocolError("a request to leave another forest", kind="forest")
                return Done()
            case PredictRequest():
                self.expect(sender, message.request.admission.member.name)
                self._check_ready()
                return self._predict(message)
        return super().handle(sender, message)

    def epoch_began(self) -> None:
        """Nothing is answered until the forest is whole without those who have left."""
        super().epoch_began()
        self.ready = False

    def open(self, rules: Rules, seed: bytes, n_rows: int) -> None:
        """Create a forest with all participants of the epoch."""
        epoch = self.certificate
        unnamed = OpenForest(
            federation=epoch.federation,
            epoch=epoch.epoch,
            forest=bytes(16),
            nonce=secrets.token_bytes(16),
            n_trees=rules.n_trees,
            max_depth=rules.max_depth,
            method=rules.method,
            n_candidates=rules.n_candidates,
            n_sampled=rules.n_sampled,
        )
        opening = msgspec.structs.replace(unnamed, forest=forest_id(unnamed))
        members = [member.name for member in epoch.members if member.role == PARTICIPANT]
        self.channel.call(CC, opening, Done)
        schemas = {party: self.channel.call(party, opening, Schema) for party in members}
        for party, schema in schemas.items():
            _check_schema(party, schema, n_rows)
        columns = {party: schema.columns for party, schema in schemas.items()}
        store = CoordinatorStore(np.zeros((rules.n_trees, n_rows), dtype=np.uint64))
        self.resume(opening, rules, seed, columns, store)

    def resume(
        self,
        opening: OpenForest,
        rules: Rules,
        seed: bytes,
        columns: Mapping[str, Sequence[Column]],
        store: CoordinatorStore,
    ) -> None:
        """Go on with a forest that was created before."""
        self.opening, self.store, self.columns = opening, store, columns
        self.plan = self._plan(rules, seed)

    def _plan(self, rules: Rules, seed: bytes) -> Plan:
        """For the current epoch."""
        epoch, opening, columns = self.certificate, self.opening, self.columns
        return Plan(
            federation=opening.federation,
            epoch=epoch.epoch,
            forest=opening.forest,
            seed=seed,
            rules=rules,
            parameters=Parameters(
                of_number(epoch.n), of_number(epoch.g0), epoch.exponent_bits, self.identity.allow_insecure
            ),
            owners={party: [feature_id(party, c.name) for c in owned] for party, owned in columns.items()},
            verify_keys={member.name: VerifyKey(member.verify_key) for member in epoch.members},
        )

    def grow(self, targets: Targets, progress: Callable[[LevelReport], None]) -> None:
        """FLE-Expan until nothing is left to grow."""
        self.n_classes, self.targets = targets.n_classes, targets
        fle_expan(self.channel, self.plan, targets, self.store, self._calls, progress)
        self.ready = True

    @property
    def _calls(self) -> int:
        """How many participants are called at once."""
        waiting = self.plan.parameters.jobs(self.n_jobs) > 1
        return self.n_jobs * (_CALLS_PER_WORKER if waiting else 1)

    def revoke(
        self, targets: Sequence[Field], progress: Callable[[LevelReport], None]
    ) -> RevocationCertificate:
        """FRF-Revoc: rebuild the forest for the current epoch, report it to KGC, and return its certificate.

        Until it is done, nothing is answered.
        """
        if self.ready or self.targets is None or self.plan.epoch == self.certificate.epoch:
            raise ProtocolError("nobody has left, a rebuild has failed, or there are no rows", kind="order")
        before, old = self.digest(targets), self.plan
        leavers = self.columns.keys() & set(self.certificate.revoked)
        self.columns = {party: c for party, c in self.columns.items() if party not in leavers}
        self.plan = self._plan(old.rules, old.seed)
        rekey = self.plan.parameters != old.parameters
        rebuilt = frf_revoc(
            self.channel, self.plan, self.targets, self.store, leavers, rekey, self._calls, progress
        )
        report = sign_report(
            self.identity,
            Report(
                certificate_digest(self.certificate),
                self.plan.forest,
                before,
                self.digest(targets),
                rebuilt.destroyed,
                rebuilt.rebuilt,
                rebuilt.kept,
                bytes(64),
            ),
        )
        reply = self.channel.call(KGC, RevocationReport(report=report), Certified)
        certificate = RevocationCertificate.from_json(reply.certificate)
        certificate.verify(self.identity.kgc)
        self.ready = True
        return certificate

    def votes(self, table: str, n_rows: int, voting: Voting) -> NDArray[np.float64]:
        """FRF-Test: the sum of all trees' votes for each row of a table that the participants hold."""
        self._check_ready()
        totals = np.zeros((n_rows, self.n_classes or 1))
        count = partial(self._count, totals, voting)
        frf_test(self.channel, self.plan, self.store, table, n_rows, count, self.n_jobs)
        return totals

    def _count(self, totals: NDArray[np.float64], voting: Voting, leaves: Nodes) -> None:
        """Add the votes of these leaves to those of their rows."""
        sums = np.array([self.store.leaves[name] for name in leaves.names()], dtype=np.int64)
        votes = leaf_votes(sums.reshape(-1, self.n_classes or 2), self.n_classes, voting)
        add_votes(totals, leaves, votes)

    def _check_ready(self) -> None:
        if not self.ready:
            raise ProtocolError(
                "there is no forest yet, it is still growing, or somebody has left and it is not whole again",
                kind="forest",
            )

    def _facts(self) -> ForestFacts:
        return ForestFacts(
            epoch=self.certificate.epoch,
            opening=self.opening,
            n_votes=self.n_classes or 1,
            columns={party: tuple(owned) for party, owned in self.columns.items()},
        )

    def _predict(self, message: PredictRequest) -> PredictReply:
        """FRF-Predict, if the request is one to answer."""
        request = message.request
        check_request(self.identity, self.opening, self.book, request)
        rows = read_rows(self.plan, message)
        enter_request(self.book, self.policy, self.opening, request, 0, 1)
        totals = np.zeros((request.n_rows, self.n_classes or 1))
        n_voted = np.zeros(request.n_rows, dtype=np.uint32)

        def count(leaves: Nodes) -> None:
            self._count(totals, request.voting, leaves)
            n_voted[:] += np.bincount(leaves.rows, minlength=request.n_rows).astype(np.uint32)

        try:
            server = self._comparing_server()
            absent = frf_predict(server, self.plan, self.store, request, rows, count, self.watch)
            self._check_ready()  # nobody has left meanwhile
            check_admission(self.identity, request.admission)
        except (AbsentError, RefusedError) as error:
            log.warning("a request of %r has no answer: %s", request.admission.member.name, error)
            return write_failure(error)
        return write_answer(Answer(totals, n_voted, absent))

    def _comparing_server(self) -> ComparingServer:
        cc = self.verify_key_of(CC)
        return ComparingServer(self.channel, self.identity.share, self.identity.weak, cc, self.n_jobs)

    def digest(self, targets: Sequence[Field]) -> str:
        """The name of the forest's plain structure."""
        splits = {node: (stored.feature, stored.cut) for node, stored in self.store.splits.items()}
        return forest_digest(self.plan.rules, tuple(targets), splits, self.store.leaves)


def _check_schema(party: str, schema: Schema, n_rows: int) -> None:
    names = [column.name for column in schema.columns]
    if schema.n_rows != n_rows:
        raise ProtocolError(f"{party!r} holds {schema.n_rows} rows, the labels are {n_rows}", kind="schema")
    if not 0 < len(names) < 2**16 or len(set(names)) != len(names):
        raise ProtocolError(f"{party!r} has no columns, too many, or two of one name", kind="schema")
