"""The process of CS, the coordinator: it trains the forest, and answers its operator's requests."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from threading import Lock
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import RevFRFError, UsageError
from revfrf.forest.voting import Votes, Voting
from revfrf.io.table import Table, some
from revfrf.messages.alignment import Align, Drop, NumberedRows
from revfrf.messages.base import Message
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import CC
from revfrf.node import api
from revfrf.node.api import OnProgress, Progress
from revfrf.node.config import Config
from revfrf.node.home import Home
from revfrf.node.service import Service
from revfrf.node.training_job import TrainingJob
from revfrf.parallel import workers
from revfrf.protocols.alignment import Matched
from revfrf.protocols.audit import audit
from revfrf.protocols.certificate import shown_by
from revfrf.protocols.sides import GrowthReport
from revfrf.report.drawing import outline
from revfrf.report.forest import forest_page
from revfrf.roles.coordinator import Coordinator
from revfrf.storage.memory import CoordinatorStore

Result = TypeVar("Result")

_POLL_SECONDS = 1.0  # how often somebody who waits for its turn hears what the other does


class CoordinatorService(Service):
    """CS. Its job is what it does by itself; the handlers are what its operator can ask."""

    role: Coordinator

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        self.store = cast(CoordinatorStore, home.store)
        self.role = Coordinator(home.identity(), self.endpoint, workers(config.work.workers), self.store)
        self.role.absent = lambda: {CC, *self.job.participants} - self.endpoint.present()
        self.job = TrainingJob(config, self.role, self.endpoint, self.audit)
        self._working = Lock()
        self._under_way: Progress | None = None
        self.role.policy = config.policy

    def answer(self, sender: str, message: Message) -> Message:
        """See `Service.answer`. Disconnects those who have left."""
        reply = super().answer(sender, message)
        if isinstance(message, EpochCertificate):
            self.endpoint.expel(message.revoked)
        return reply

    def work(self) -> None:
        """See `Service.work`: end the training or the revocation that is in progress."""
        with self._turn(api.no_progress) as on_progress:
            self._advance(on_progress)

    @contextmanager
    def _turn(self, on_progress: OnProgress) -> Iterator[OnProgress]:
        """Do one thing at a time. Those who wait for their turn hear about the progress of the other."""
        while not self._working.acquire(timeout=_POLL_SECONDS):
            if self._under_way is not None:
                on_progress(self._under_way)

        def progressed(progress: Progress) -> None:
            self._under_way = progress
            on_progress(progress)

        try:
            yield progressed
        finally:
            self._under_way = None
            self._working.release()

    def _advance(self, on_progress: OnProgress) -> None:
        self.patience.retry(
            lambda: self.job.advance(on_progress),
            on_progress,
            lambda: self.role.side.n_nodes if self.role.created else 0,
        )

    # -- requests of the operator, which `node.api` describes ---------------------------------------

    def match(self, _: api.Match, on_progress: OnProgress) -> api.Matched:
        with self._turn(on_progress) as progressed:
            rows = len(self.job.expect_labels())

            def look() -> tuple[Matched, tuple[api.ParticipantRows, ...]]:
                self.job.enter_epoch(progressed)
                return self.job.find(progressed)

            found, participants = self.patience.retry(look, progressed)
            shared = len(found.ids)
            self.audit.append("matched", rows=rows, common=shared)
            return api.Matched(rows, shared, rows - shared, participants)

    def train(self, request: api.Train, on_progress: OnProgress) -> api.Trained:
        with self._turn(on_progress) as progressed:
            existed, changed = self.role.ready, self.job.request(request.min_common)
            self._advance(progressed)
            return api.Trained(self.job.summary(), existed, changed)

    def predict(self, request: api.Predict, on_progress: OnProgress) -> api.Predictions:
        column = request.id_column or self.job.data.id_column
        ids = Table.read(request.file).ids(column)
        found = self._predict(ids, request.file, column, request.voting, on_progress)
        self.audit.append("predicted", rows=len(found.ids))
        return found

    def _predict(
        self, ids: Sequence[str], file: str, column: str, voting: Voting, on_progress: OnProgress
    ) -> api.Predictions:
        """FRF-Test: predict those of the rows that all participants hold."""

        def find() -> tuple[tuple[str, ...], Votes]:
            table, source = f"test {secrets.token_hex(8)}", f"{file}, column {column!r}"
            common = tuple(self.job.match(table, ids, source, on_progress).ids)
            rows = NumberedRows.of(np.arange(len(common)), common)
            self.job.tell(Align(epoch=self.job.epoch, table=table, rows=rows))
            try:
                return common, self.role.votes(table, len(common), voting)
            finally:
                self.job.tell(Drop(epoch=self.job.epoch, table=table))

        common, votes = self._when_ready(find, on_progress)
        scale = self.role.targets.scale
        coverage, offline = None, tuple(self.role.waits_for)
        if self.role.certificates[-1].waits_for:
            coverage = tuple((votes.n_voted / self.role.plan.rules.n_trees).tolist())
        answers: tuple[Any, ...] = tuple(scale.labels[place] for place in votes.classes())
        if not scale.labels:
            answers = tuple(votes.numbers(scale.centre, scale.vote_places).tolist())
        missed = len(ids) - len(common)
        return api.Predictions(column, common, answers, coverage=coverage, offline=offline, not_shared=missed)

    def test(self, request: api.Test, on_progress: OnProgress) -> api.TestScore:
        file, labels, classes = request.file, self.job.read_labels(request.file), self.job.classes
        if classes and (strange := sorted({*map(str, labels.values())} - {*classes})):
            no_class = "is not a class" if len(strange) == 1 else "are not classes"
            raise UsageError(f"{file}: {some(strange)} {no_class} of the forest; they are {some(classes)}")
        found = self._predict(tuple(labels), file, self.job.data.id_column, request.voting, on_progress)
        rows = self.job.expect_record().expect_rows()
        known = len({*rows.read(len(rows))[1]} & {*found.ids})
        lowest = None if found.coverage is None else min(found.coverage)
        score = api.TestScore(len(found.ids), found.not_shared, known, lowest_coverage=lowest)
        self.audit.append("tested", rows=score.rows)
        truth, predicted = np.asarray([labels[name] for name in found.ids]), np.asarray(found.prediction)
        if self.job.task == "classes":
            return msgspec.structs.replace(score, accuracy=float(np.mean(truth == predicted)))
        mse, mae = np.mean((truth - predicted) ** 2), np.mean(np.abs(truth - predicted))
        return msgspec.structs.replace(score, mse=float(mse), mae=float(mae))

    def _expect_ready(self) -> None:
        if not self.role.ready:
            raise UsageError("the forest is not ready; run `revfrf train`, or wait")

    def _when_ready(self, work: Callable[[], Result], on_progress: OnProgress) -> Result:
        """Do something with a forest that is ready, and again if somebody leaves or disconnects.

        A party that is offline from the beginning is not waited for.
        """

        def try_it() -> Result:
            self._expect_ready()  # else it is said at once
            with self._turn(on_progress):
                self._expect_ready()
                return work()

        until = time.monotonic() + self.config.network.patience
        while True:
            epoch = 0 if self.certificate is None else self.job.epoch
            try:
                return self.patience.retry(try_it, on_progress, waits_for=self.endpoint.present())
            except RevFRFError:
                left = self.role.lifecycle_state().revoking
                changed = bool(epoch) and (self.job.epoch != epoch or left)
                if not changed or time.monotonic() > until:
                    raise
                on_progress(Progress("waiting until the forest is rebuilt", waiting=True))
                if not self.loop.pause():
                    raise

    def history(self, _: api.History, __: OnProgress) -> list[dict[str, Any]]:
        return [shown_by(certificate) for certificate in self.role.certificates]

    def audit_forest(self, request: api.AuditForest, on_progress: OnProgress) -> api.Audited:
        with self._turn(on_progress) as progressed:

            def growing(report: GrowthReport) -> None:
                progressed(Progress("growing a second time", report.detail, report.work))

            key = None if request.kgc_key is None else VerifyKey(request.kgc_key)
            found = audit(self.role, key, growing)
            self.audit.append("audited", holds=found.holds)
            return api.Audited(holds=found.holds, **asdict(found))

    def report(self, _: api.Report, __: OnProgress) -> str:
        self._expect_ready()
        status, forest = self.status(api.Status()), self.job.summary()
        names = ("epoch", "members", "left", "nodes", "rows", "digest")
        known = msgspec.structs.asdict(status) | msgspec.structs.asdict(forest)
        facts = {name: known[name] for name in names}
        columns = {party: [c.name for c in owned] for party, owned in self.role.columns.items()}
        federation, certificates = self.config.party.federation, self.role.certificates
        return forest_page(federation, facts, columns, outline(self.role.side.forest), certificates)

    def structure(self, _: api.Structure, __: OnProgress) -> str:
        """Return the forest as CS knows it: owners and columns of splits, numbers of cuts, sums of leaves."""
        self._expect_ready()
        forest = self.role.side.forest
        known = {
            "federation": self.config.party.federation,
            "digest": self.role.digest(),
            "rules": self.role.plan.rules,
            "labels": self.job.expect_record().labels,
            "splits": [
                (tree, path, forest.features[f], cut) for tree, path, f, cut in forest.splits().tolist()
            ],
            "leaves": forest.leaves(self.role.targets.scale.n_sums).tolist(),
        }
        return msgspec.json.encode(known).decode() + "\n"

    def export(self, request: api.Export, on_progress: OnProgress) -> str:
        """Return an event certificate as JSON. If a revocation is under way, wait until it is over."""
        if not self.role.created:
            raise UsageError("there is no forest yet; `revfrf train` grows one")
        number = request.number
        try:
            return self._when_ready(lambda: self.role.certificates[number], on_progress).to_json().decode()
        except IndexError:
            there = f"there are {len(self.role.certificates)}, numbered from 0 as in `revfrf history`"
            raise UsageError(f"event certificate {number}: {there}") from None

    def status(self, request: api.Status, on_progress: OnProgress = api.no_progress) -> api.PartyStatus:
        status = super().status(request, on_progress)  # first, so that no old forest is ready in a new epoch
        if self.role.ready:
            waits_for, summary = tuple(self.role.waits_for), self.job.summary()
            return msgspec.structs.replace(
                status, forest_state="ready", forest=summary, waits_for=waits_for or None
            )
        record = self.job.record
        if record is None or record.stopped:
            return msgspec.structs.replace(status, forest_state="none", stopped=record and record.stopped)
        state = "waiting" if self.certificate is None else "growing"
        return msgspec.structs.replace(status, forest_state=state)
