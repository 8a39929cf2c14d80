"""CS as a process that has the labels, finds the common rows, trains, and rebuilds when somebody has left."""

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import ClassVar

import msgspec
import numpy as np

from revfrf.crypto.canonical import Field
from revfrf.errors import AbsentError, ProtocolError, RefusedError, UsageError
from revfrf.forest.criterion import Targets
from revfrf.forest.randomness import candidate_limit, feature_probability, row_repeats
from revfrf.forest.seeds import forest_seed, master_seed
from revfrf.forest.tree import Rules
from revfrf.io.party_data import Labels, Task, read_labels
from revfrf.io.table import some
from revfrf.messages.base import Message
from revfrf.messages.key_setup import EpochCertificate, SetUpReply, SetUpRequest
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.node import api
from revfrf.node.api import OnProgress, ParticipantRows, Progress
from revfrf.node.config import Config, ForestSection
from revfrf.node.home import Home
from revfrf.node.logs import step
from revfrf.node.members import MemberService
from revfrf.parallel import workers
from revfrf.protocols.alignment import Matched, align, ask_schemas, match
from revfrf.protocols.paper.fle_expan import LevelReport
from revfrf.record import Record
from revfrf.roles.coordinator import Coordinator, ForestRecord
from revfrf.roles.participant import TRAINING
from revfrf.storage.memory import CoordinatorStore

log = logging.getLogger("revfrf.serve")

_LOOKS = 1.0
"""Seconds until somebody who waits is told again for what."""


class Training(Record, frozen=True):
    """A forest that is to be grown, from when the operator has asked for it: by which rules, from which rows.

    `ids` are the rows that all have, once they are found, with their labels as `values`, and `not_common`
    counts those that not all have; they stay the same for the federation's life. `min_common` is the share of
    CS's rows that all must have. `stopped` says why no rows could be found.
    """

    forest: ForestSection
    task: Task
    seed: bytes
    min_common: float
    ids: tuple[str, ...] = ()
    values: tuple[str | float, ...] = ()
    labels: tuple[str, ...] = ()
    n_features: int = 0
    not_common: int = 0
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that all have. Of each participant: how many columns and rows it has, and how many of CS's
    rows.
    """

    ids: tuple[str, ...]
    parties: dict[str, ParticipantRows]

    def check(self, n_rows: int, least: float) -> None:
        """Raise UsageError if less than this fraction of CS's rows is shared by all participants."""
        if len(self.ids) < least * n_rows:
            shared = Matched(self.ids, {party: rows.shared for party, rows in self.parties.items()})
            raise UsageError(
                f"only {len(self.ids):,} of {n_rows:,} rows are shared ({shared}); check the id columns, or "
                "lower --min-common"
            )


class TrainingService(MemberService):
    """CS, as far as forests come to be, and are left again."""

    role: Coordinator

    def __init__(self, home: Home, config: Config) -> None:
        super().__init__(home, config)
        store, data = home.store, config.data
        if not isinstance(store, CoordinatorStore) or data is None:
            raise UsageError(f"{home.path} is not the directory of CS")
        self.store, self.data = store, data
        self.role = Coordinator(home.identity(), self.endpoint, workers(config.work.workers), store)
        self.role.absent = lambda: {CC, *self.participants} - self.endpoint.present()
        self.training = store.read("training", Training)
        if store.read("forest", ForestRecord) is not None:
            self.role.recall()
        if self.training is not None:
            self.role.labels = self.training.labels
        self._working = Lock()
        self._under_way: Progress | None = None
        self.waiting = ""
        self.take_policy()
        self._labels = self._read_own_labels() if self.training is None or not self.training.ids else None

    def answer(self, sender: str, message: Message) -> Message:
        """See `Service.answer`; whoever has left is shown out."""
        reply = super().answer(sender, message)
        if isinstance(message, EpochCertificate):
            self.endpoint.expel(message.revoked)
        return reply

    # -- training and leaving -----------------------------------------------------------------------

    def work(self) -> None:
        """See `Service.work`: end the revocation or the training that is under way."""
        with self._turn(api.no_progress) as told:
            self._work(told)

    @contextmanager
    def _turn(self, on_progress: OnProgress) -> Iterator[OnProgress]:
        """One thing at a time; whoever waits for its turn is told how far the other is."""
        while not self._working.acquire(timeout=_LOOKS):
            if self._under_way is not None:
                on_progress(self._under_way)

        def told(progress: Progress) -> None:
            self._under_way = progress
            on_progress(progress)

        try:
            yield told
        finally:
            self._under_way = None
            self._working.release()

    def _work(self, on_progress: OnProgress) -> None:
        if self.training is None or self.training.stopped or self.role.ready:
            return
        self.patience.retry(lambda: self._try_training(on_progress), on_progress, lambda: self.store.n_nodes)

    def _try_training(self, on_progress: OnProgress) -> None:
        """See `_go_on_training`; `waiting` says who was away."""
        self.waiting = ""
        try:
            self._go_on_training(on_progress)
        except AbsentError as error:
            self.waiting = f"waiting for {error.party!r}, which {error.reason}"
            raise

    def _go_on_training(self, on_progress: OnProgress) -> None:
        """From wherever it is to its end."""
        if not self.role.created:
            self._enter_epoch(on_progress)
        if not self._expect_training().ids:
            try:
                self._settle(on_progress)
            except UsageError as error:  # nothing has begun yet: the operator may change what is wrong
                self._become(msgspec.structs.replace(self._expect_training(), stopped=str(error)))
                raise
        if not self.role.created:
            self._create()
        if self.role.lifecycle_state().revoking:
            self._gather()
            certificate = self.role.revoke(self._fields(), self._progress(on_progress))
            self.audit.append("revoked", leavers=list(certificate.leavers), digest=self.digest)
            step(log, "left", parties=list(certificate.leavers), digest=self.digest)
            return
        if not self.role.columns:
            align(self.endpoint, self._epoch, TRAINING, self._expect_training().ids, self.participants)
            self.role.open()
        self.role.grow(self._progress(on_progress))
        self.audit.append("trained", digest=self.digest, nodes=self.store.n_nodes)
        step(log, "trained", digest=self.digest, nodes=self.store.n_nodes)

    def _enter_epoch(self, on_progress: OnProgress) -> None:
        """Set the federation up, or see to it that everybody knows that it is. Raises AbsentError."""
        on_progress(Progress("setting up the federation"))
        self._set_up()
        if self.certificate is None:
            raise ProtocolError(
                "KGC has set the federation up before, and CS knows nothing of it: CS's directory is an "
                "old copy; bring back the one that it had last",
                kind="epoch",
            )

    def _gather(self) -> None:
        """Wait until KGC has told everybody of the epoch. Raises AbsentError."""
        for member in self.role.certificate.members:
            if member.name not in (CS, *self.endpoint.present()):
                raise AbsentError(
                    member.name, "is not connected; run `revfrf serve` there, and the forest is rebuilt"
                )
        self._set_up()

    def _set_up(self) -> None:
        """Have KGC begin the epoch, or tell everybody of the one that has begun. Raises AbsentError."""
        reply = self.endpoint.call(KGC, SetUpRequest(), SetUpReply)
        if reply.missing is not None:
            fix = "run `revfrf serve` there, and what was under way goes on"
            raise AbsentError(reply.missing, f"is not connected; {fix}")
        if reply.refused is not None:
            raise RefusedError(reply.refused, "has refused what KGC has dealt to it; its log says why")

    def _progress(self, on_progress: OnProgress) -> Callable[[LevelReport], None]:
        def report(level: LevelReport) -> None:
            facts = {"depth": level.depth, "trees": level.trees, "nodes": level.nodes}
            step(log, "growing", **facts)
            detail = f"depth {level.depth}, {level.trees} trees, {level.nodes} nodes"
            on_progress(Progress("growing", detail, level.work))

        return report

    @property
    def participants(self) -> list[str]:
        """The participants of this epoch."""
        members = self.role.certificate.members
        return sorted(member.name for member in members if member.role == PARTICIPANT)

    @property
    def _epoch(self) -> int:
        return self.role.certificate.epoch

    def _expect_training(self) -> Training:
        if self.training is None:
            raise ProtocolError("nothing is to be trained", kind="order")
        return self.training

    def _find(self, on_progress: OnProgress) -> Found:
        """The rows that all have."""
        schemas = ask_schemas(self.endpoint, self._epoch, self.participants)
        parties = {
            party: ParticipantRows(party, len(schema.columns), schema.n_rows, shared=0)
            for party, schema in schemas.items()
        }
        for party, found in parties.items():
            step(log, "schema", party=party, columns=found.columns, rows=found.rows)
            on_progress(Progress("schema", f"{party!r}: {found.columns} columns, {found.rows} rows"))
        source = f"{self.config.data_file}, column {self.data.id_column!r}"
        ids = self._common("training", self._expect_labels().ids, source, on_progress, parties)
        return Found(tuple(ids), parties)

    def _settle(self, on_progress: OnProgress) -> None:
        """Settle, for the federation's life, the rows that all have, and the labels that go with them."""
        training, labels, found = self._expect_training(), self._expect_labels(), self._find(on_progress)
        found.check(len(labels.ids), training.min_common)
        values = labels.of(found.ids)
        classes = () if training.task == "numbers" else tuple(sorted(set(map(str, values))))
        n_features = sum(rows.columns for rows in found.parties.values())
        counts = {"n_features": n_features, "not_common": len(labels.ids) - len(found.ids)}
        settled = msgspec.structs.replace(
            training, ids=found.ids, values=tuple(values), labels=classes, **counts
        )
        _rules(settled)  # says what is wrong with them
        self._become(settled)
        self._labels = None

    def _common(
        self,
        table: str,
        ids: Sequence[str],
        source: str,
        on_progress: OnProgress,
        parties: dict[str, ParticipantRows] | None = None,
    ) -> list[str]:
        """Those of these ids, from this source, that all participants have; what is known of `parties` grows
        by how many CS shares with each. Raises UsageError if there are none, for CS's operator alone.
        """
        federation, n_jobs, asked = self.config.party.federation, self.role.n_jobs, self.participants
        try:
            matched = match(self.endpoint, federation, self._epoch, table, ids, asked, n_jobs)
        except UsageError as error:
            raise UsageError(f"{error}; CS's are those of {source}: {some(ids, 2)}") from None
        for party, shared in matched.shared.items():
            if parties is not None:
                parties[party] = msgspec.structs.replace(parties[party], shared=shared)
            step(log, "matched", table=table, party=party, shared=shared, of=len(ids))
            on_progress(Progress("matching ids", f"{shared} of {len(ids)} rows shared with {party!r}"))
        return list(matched.ids)

    def _become(self, training: Training) -> None:
        self.store.write(training=training)
        self.training, self.role.labels = training, training.labels

    def _create(self) -> None:
        """The forest, with its targets; participants are told of it after."""
        training = self._expect_training()
        values, weights = training.values, np.ones(len(training.values))
        rules = _rules(training)
        repeats = row_repeats(training.seed, rules.n_trees, rules.bootstrap, weights)
        if training.task == "numbers":
            targets = Targets.regression(np.asarray(values, dtype=np.float64), weights, repeats)
        else:
            places = {label: place for place, label in enumerate(training.labels)}
            known = np.array([places[str(value)] for value in values], dtype=np.int64)
            targets = Targets.classes(known, len(places), weights, repeats)
        align(self.endpoint, self._epoch, TRAINING, training.ids, self.participants)
        self.role.create(rules, training.seed, targets)

    @property
    def _task(self) -> Task:
        """What labels are: as the forest was trained, or will be."""
        if self.training is None or self.training.stopped:
            return self.data.task or "classes"
        return self.training.task

    def _read_labels(self, path: str | Path, settled: bool = True) -> Labels:
        target = self.data.target or ""
        return read_labels(path, self.data.id_column, target, self._task, settled=settled)

    def _read_own_labels(self) -> Labels:
        file = self.config.data_file
        labels = self._read_labels(file, settled=False)
        step(log, "labels read", file=str(file), rows=len(labels.ids), task=self._task)
        return labels

    def _expect_labels(self) -> Labels:
        if self._labels is None:
            raise UsageError("the forest's rows are settled, with their labels; `revfrf status` counts them")
        return self._labels

    def _fields(self) -> tuple[Field, ...]:
        """What of the targets belongs to the forest's digest."""
        targets, training = self.role.targets, self._expect_training()
        if training.task == "numbers":
            return ("regression", targets.centre.hex(), targets.places)
        return ("classes", *(repr(label) for label in training.labels))

    @property
    def digest(self) -> str:
        """The name of the forest."""
        return self.role.digest(self._fields())

    # -- commands -----------------------------------------------------------------------------------

    def match(self, _: api.Match, on_progress: OnProgress) -> api.Matched:
        """Count the rows that all participants share, before anything is settled."""
        with self._turn(on_progress) as told:
            rows = len(self._expect_labels().ids)

            def look() -> Found:
                self._enter_epoch(told)
                return self._find(told)

            found = self.patience.retry(look, told)
            shared = len(found.ids)
            self.audit.append("matched", rows=rows, common=shared)
            return api.Matched(rows, shared, rows - shared, tuple(found.parties.values()))

    def train(self, request: api.Train, on_progress: OnProgress) -> api.Trained:
        """Train, or continue the training that is under way."""
        with self._turn(on_progress) as told:
            existed, forest = self.role.ready, self.config.forest or ForestSection()
            if self.training is None or self.training.stopped:
                seed = _seed(forest.random_state)
                self._become(Training(forest, self._task, seed, request.min_common))
                self.audit.append("training asked for", trees=forest.n_estimators)
            asked = self._expect_training()
            own = {"[forest]": (forest, asked.forest), "task": (self.data.task or "classes", asked.task)}
            changed = tuple(name for name, (now, then) in own.items() if now != then)
            self._work(told)
            return api.Trained(self._summary(), existed, changed)

    def _summary(self) -> api.ForestSummary:
        training = self._expect_training()
        return api.ForestSummary(
            digest=self.digest,
            nodes=self.store.n_nodes,
            rows=len(training.ids),
            not_shared=training.not_common,
            classes=len(training.labels) or None,
        )

    handlers: ClassVar[api.Handlers] = MemberService.handlers | {api.Match: match, api.Train: train}


def _seed(random_state: int | str | None) -> bytes:
    return secrets.token_bytes(32) if random_state is None else forest_seed(master_seed(random_state))


def _rules(training: Training) -> Rules:
    forest = training.forest
    return Rules(
        n_trees=forest.n_estimators,
        max_depth=forest.max_depth,
        candidate_limit=candidate_limit(feature_probability(forest.max_features, training.n_features)),
        min_samples_split=forest.min_samples_split,
        min_samples_leaf=forest.min_samples_leaf,
        bootstrap=forest.bootstrap,
        method=forest.candidates,
        n_candidates=forest.n_candidates,
        n_sampled=forest.n_sampled,
    )
