"""The paper protocol's sides: proposals at every node, encrypted splits, comparisons by HoLT."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import AbsentError, ProtocolError, RefusedError
from revfrf.forest.criterion import Counted
from revfrf.forest.nodes import Nodes
from revfrf.forest.tree import Forest, PerNode, feature_id
from revfrf.forest.voting import Votes, Voting
from revfrf.messages.base import Message
from revfrf.messages.fle_expan import LevelRequest, OpenForest
from revfrf.messages.frf_predict import Failure, PredictReply, PredictRequest, ShareReply, ShareRequest
from revfrf.messages.frf_revoc import Destroy, Rekey
from revfrf.messages.frf_test import TestRequest
from revfrf.names import CC
from revfrf.protocols.common.epoch import read_parameters
from revfrf.protocols.common.request import check_admission, check_request, enter_request
from revfrf.protocols.paper.fle_expan import Growth, PaperPlan, answer_level, fle_expan
from revfrf.protocols.paper.frf_predict import Answer, frf_predict, read_rows, write_answer
from revfrf.protocols.paper.frf_revoc import answer_destroy, answer_rekey, destroy, doomed, reencrypt
from revfrf.protocols.paper.frf_test import answer_test, frf_test
from revfrf.protocols.paper.ho_lt import ComparingServer, answer_share, verify_result
from revfrf.protocols.paper.stored import check_stored
from revfrf.protocols.sides import (
    TRAINING,
    CoordinatorSeat,
    CoordinatorSide,
    ForestProtocol,
    OwnerSeat,
    OwnerSide,
    Progress,
)
from revfrf.storage.memory import CoordinatorStore, ParticipantStore

log = logging.getLogger(__name__)


class PaperCoordinator(CoordinatorSide):
    """CS: stores encrypted splits, with which way each row goes at them."""

    def __init__(self, seat: CoordinatorSeat) -> None:
        super().__init__(seat)
        parameters = read_parameters(seat.certificate.dtpkc, seat.identity.allow_insecure)
        self.plan = PaperPlan(**vars(seat.plan), parameters=parameters)

    @property
    def forest(self) -> Forest:
        store = self.seat.store
        splits = {node: (split.feature, split.cut) for node, split in store.splits.items()}
        return Forest.of_nodes(self.plan.rules.n_trees, splits, store.leaves)

    @property
    def n_nodes(self) -> int:
        return self.seat.store.n_nodes

    @property
    def whole(self) -> bool:
        return self.seat.store.whole(self.plan.rules.n_trees)

    def grow(self, progress: Progress) -> None:
        """FLE-Expan until nothing is left to grow."""
        seat = self.seat
        counted = Counted.of(self.plan.rules, self.plan.seed, seat.targets)
        fle_expan(seat.channel, self.plan, counted, seat.store, seat.n_jobs, progress)

    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        votes = Votes.none(n_rows, self.seat.targets.scale)
        for leaves in frf_test(self.seat.channel, self.plan, self.seat.store, table, n_rows):
            self._count(votes, voting, leaves)
        return votes

    def _count(self, votes: Votes, voting: Voting, leaves: Nodes) -> None:
        """Add the votes of these leaves to those of their rows."""
        scale = self.seat.targets.scale
        sums = np.array([self.seat.store.leaves[name] for name in leaves.names()], dtype=np.int64)
        votes.add(leaves.arrays, sums.reshape(-1, scale.n_sums), scale, voting)

    def answer(self, message: PredictRequest, progress: Callable[[float], None]) -> PredictReply:
        seat, request, opening = self.seat, message.request, self.seat.record.opening
        check_request(seat.identity, opening, seat.book, request)
        rows = read_rows(self.plan, message)
        enter_request(seat.book, seat.policy, opening, request, 0, 1)
        votes, absent = Votes.none(request.n_rows, seat.targets.scale), set[str]()
        try:
            keys = (seat.identity.share, seat.identity.weak, self.plan.verify_keys[CC])
            server = ComparingServer(seat.channel, *keys, seat.n_jobs)
            for leaves in frf_predict(server, self.plan, seat.store, request, rows, absent, progress):
                self._count(votes, request.voting, leaves)
            seat.check_ready()  # unless somebody has left since
            check_admission(seat.identity, request.admission)
        except (AbsentError, RefusedError) as error:
            log.warning("a request of %r has no answer: %s", request.admission.member.name, error)
            failure = Failure(error.party, "absent" if isinstance(error, AbsentError) else "refused")
            return PredictReply(votes=b"", n_voted=b"", absent=(), failure=failure)
        return write_answer(Answer(votes, tuple(sorted(absent))))

    def doomed(self, leavers: Collection[str]) -> dict[int, int]:
        return dict(Counter(tree for tree, _ in doomed(self.seat.store, leavers)))

    def prepare_leaving(self, leavers: Collection[str]) -> None:
        destroy(self.seat.channel, self.plan, self.seat.store, leavers)

    def destroy(self, leavers: Collection[str]) -> None:
        self.seat.store.destroy(doomed(self.seat.store, leavers))

    def save(self, store: CoordinatorStore, rows: bool) -> bool:  # noqa: ARG002
        """Save splits and leaves. To grow, owners need their training rows, which no file has."""
        splits = {node: split._replace(directions=b"") for node, split in self.seat.store.splits.items()}
        store.commit(splits, self.seat.store.leaves)
        return False

    def check_stored(self, owners: Mapping[str, OwnerSeat], training_rows: bool) -> None:
        if training_rows != bool(len(self.seat.targets)):
            raise ProtocolError("labels without the owners' rows, or the other way round", kind="forest")
        check_stored(self.plan, self.seat.store, self.seat.targets, owners, training_rows)

    def renew(self) -> None:
        """At level 2, have what was kept encrypted under the new keys, instead of lines 9 to 12."""
        if self.seat.record.dtpkc != self.seat.certificate.dtpkc:
            reencrypt(self.seat.channel, self.plan, self.seat.store)


class PaperOwner(OwnerSide):
    """A participant: proposes splits, keeps the thresholds of those that won, and consents to comparisons."""

    def __init__(self, seat: OwnerSeat, opening: OpenForest) -> None:
        super().__init__(seat, opening)
        ids = [feature_id(seat.identity.name, column.name) for column in seat.columns]
        rings = [column.ring for column in seat.columns]
        codes = seat.tables.get(TRAINING, np.empty((len(ids), 0), dtype=np.int64))  # without, it cannot grow
        self.growth = Growth(opening, seat.secret, codes, ids, rings)

    @property
    def n_used(self) -> int:
        return len(self.seat.store.own_splits)

    def save(self, store: ParticipantStore) -> None:
        store.commit(self.seat.store.own_splits, self.seat.store.round)

    def handle(self, message: Message) -> Message | None:
        seat = self.seat
        if isinstance(message, LevelRequest | Destroy | Rekey | TestRequest):
            seat.check_epoch(message.epoch)
            if message.forest != self.opening.forest:
                raise ProtocolError("a message about another forest", kind="forest")
        match message:
            case ShareRequest():
                return self._consent(message)
            case LevelRequest():
                return answer_level(seat.identity, self.growth, seat.store, message, seat.n_jobs)
            case Destroy():
                return answer_destroy(self.growth, seat.store, message)
            case Rekey():
                return answer_rekey(seat.identity, self.growth, seat.store, message, seat.n_jobs)
            case TestRequest():
                return answer_test(seat.table(message.table), seat.store, self.opening.rules, message)
        return None

    def _consent(self, message: ShareRequest) -> ShareReply:
        """Let CS open comparisons with this owner's splits, for a request that its policy accepts."""
        seat, request = self.seat, message.request
        check_request(seat.identity, self.opening, seat.book, request)
        verify_result(VerifyKey(seat.certificate.by_name[CC].verify_key), seat.identity.name, message)
        if message.count > seat.store.trees_at(message.depth) * request.n_rows:
            raise ProtocolError(
                "more comparisons than rows can reach its nodes of this depth", kind="request"
            )
        enter_request(seat.book, seat.policy, self.opening, request, message.depth, message.count)
        return answer_share(seat.identity.weak, message)


def _cuts(given: Any) -> PerNode:
    return PerNode(given.candidates, int(given.n_candidates), int(given.n_sampled))


PAPER = ForestProtocol(PaperCoordinator, PaperOwner, _cuts, needs_keys=True, answers_requests=True)
