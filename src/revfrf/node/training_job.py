"""The steps of CS's process towards a forest: find the shared rows, train, rebuild when somebody leaves."""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from revfrf.errors import AbsentError, ProtocolError, RefusedError, UsageError
from revfrf.forest.criterion import check_rows_count
from revfrf.forest.kernel import Ints
from revfrf.forest.seeds import forest_seed, master_seed
from revfrf.forest.targets import Targets, TargetsRecord, class_targets, number_targets
from revfrf.forest.tree import Rules
from revfrf.io.party_data import Labels, Task, read_labels
from revfrf.io.table import some
from revfrf.lifecycle import CsState, Step, run
from revfrf.messages.alignment import Align, Drop, NumberedRows, SchemaRequest
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Schema
from revfrf.messages.key_setup import EpochCertificate, SetUpReply, SetUpRequest
from revfrf.names import CS, KGC
from revfrf.node import api
from revfrf.node.api import OnProgress, ParticipantRows, Progress
from revfrf.node.audit_log import AuditLog
from revfrf.node.config import Config, ForestSection
from revfrf.node.logs import step
from revfrf.protocols.alignment import Matched, ask_all, match
from revfrf.protocols.registry import PROTOCOLS
from revfrf.protocols.sides import TRAINING, ForestRecord, GrowthReport
from revfrf.record import Record
from revfrf.roles.coordinator import Coordinator
from revfrf.transport.calls import Endpoint

log = logging.getLogger("revfrf.serve")

ASK_AGAIN_SECONDS = 10.0  # before a member that has refused a receipt is asked again
_SERVE = "run `revfrf serve` there, and the work continues"


class Training(Record, frozen=True):
    """A forest that the operator has asked for: its rules, and the rows to grow it from.

    `rows` are the shared rows, once they are found; the store has their targets. `next_number` is above every
    number that a row ever had, and `not_common` counts CS's other rows. `min_common` is the fraction of CS's
    rows that must be shared. `stopped` says why no rows could be settled.
    """

    forest: ForestSection
    task: Task
    seed: bytes
    min_common: float
    rows: NumberedRows | None = None
    next_number: int = 0
    labels: tuple[str, ...] = ()
    n_features: int = 0
    not_common: int = 0
    stopped: str = ""

    def expect_rows(self) -> NumberedRows:
        """Return the rows. Raises ProtocolError before they are settled."""
        if self.rows is None:
            raise ProtocolError("the rows are not settled yet", kind="order")
        return self.rows


class TrainingJob:
    """What CS's process does by itself, from its records; `advance` goes on after any interruption."""

    def __init__(self, config: Config, role: Coordinator, endpoint: Endpoint, audit: AuditLog) -> None:
        self.config, self.data, self.role = config, config.data, role
        self._endpoint, self._audit = endpoint, audit
        self._gathered: EpochCertificate | None = None
        self._asked_all = time.monotonic()
        self.record = role.store.read("training", Training)
        role.labels_are_public = True
        if role.store.read("forest", ForestRecord) is not None:
            role.recall()
        self._labels: Labels | None = None
        if self.record is None or self.record.rows is None:
            self._labels = self.read_labels(config.data_file, settled=False)
            step(log, "labels read", file=str(config.data_file), rows=len(self._labels), task=self.task)

    # -- the steps ----------------------------------------------------------------------------------

    @property
    def state(self) -> CsState:
        record, certificate = self.record, self.role.identity.certificate
        return self.role.lifecycle_state(
            requested=record is not None and not record.stopped,
            gathered=certificate is not None and self._gathered == certificate,
            settled=record is not None and record.rows is not None,
        )

    def advance(self, on_progress: OnProgress) -> None:
        """Perform all steps that are left. Raises AbsentError and RefusedError."""

        def growing(report: GrowthReport) -> None:
            step(log, "growing", detail=report.detail)
            on_progress(Progress("growing", report.detail, report.work))

        if time.monotonic() > self._asked_all + ASK_AGAIN_SECONDS:
            self.role.ask_all_again()
            self._asked_all = time.monotonic()
        run(
            lambda: self.state,
            {
                Step.ENTER_EPOCH: lambda: self.enter_epoch(on_progress),
                Step.SETTLE_ROWS: lambda: self._settle_rows(on_progress),
                Step.CREATE_FOREST: self._create_forest,
                Step.REVOKE: lambda: self._revoke(growing),
                Step.OPEN_FOREST: self.role.open,
                Step.GROW: lambda: self._grow(growing),
                Step.CERTIFY: self._certify,
                Step.FORGET: self.role.forget,
                Step.COLLECT_RECEIPTS: self.role.collect_receipts,
            },
        )

    def enter_epoch(self, on_progress: OnProgress) -> None:
        """Have KGC bring everybody into the current epoch, the first if there is none. Raises AbsentError."""
        on_progress(Progress("setting up the federation"))
        if self.state.revoking:
            for member in self.role.certificate.members:
                if member.name not in (CS, *self._endpoint.present()):
                    raise AbsentError(member.name, f"is not connected; {_SERVE}")
        reply = self._endpoint.call(KGC, SetUpRequest(), SetUpReply)
        if reply.missing is not None:
            raise AbsentError(reply.missing, f"is not connected; {_SERVE}")
        if reply.refused is not None:
            raise RefusedError(reply.refused, "has refused what KGC has dealt to it; its log says why")
        self._gathered = self.role.identity.certificate
        if self._gathered is None:
            what = "KGC has set up the federation before, and CS does not know it"
            raise ProtocolError(
                f"{what}: CS's directory is an old copy; restore the latest one", kind="epoch"
            )

    def _settle_rows(self, on_progress: OnProgress) -> None:
        """Settle the shared rows and their labels, for the federation's life."""
        training, labels = self.expect_record(), self.expect_labels()
        try:
            found, parties = self.find(on_progress)
            if len(found.ids) < training.min_common * len(labels):
                few = f"only {len(found.ids):,} of {len(labels):,} rows are shared ({found})"
                raise UsageError(f"{few}; check the id columns, or lower --min-common")
            numbers = training.next_number + np.arange(len(found.ids))
            targets = _targets(training.task, numbers, [labels[name] for name in found.ids])
            settled = msgspec.structs.replace(
                training,
                rows=NumberedRows.of(numbers, found.ids),
                next_number=int(numbers[-1]) + 1,
                labels=tuple(map(str, targets.scale.labels)),
                n_features=sum(rows.columns for rows in parties),
                not_common=len(labels) - len(found.ids),
            )
            check_rows_count(self._rules(settled), settled.seed, targets)
        except UsageError as error:  # nothing has begun yet: the operator may change what is wrong
            self._update(msgspec.structs.replace(training, stopped=str(error)))
            raise
        with self.role.store.transaction():
            self.role.store.write(targets=targets)
            self._update(settled)
        self._labels = None

    def _rules(self, training: Training) -> Rules:
        """Return the rules that the operator has asked for. Raises UsageError."""
        protocol = PROTOCOLS[self.role.certificate.forest_protocol]
        return Rules.of(training.forest, training.n_features, protocol.cuts(training.forest))

    def _create_forest(self) -> None:
        training, targets = self.expect_record(), self.role.store.expect("targets", TargetsRecord).targets()
        self.tell(Align(epoch=self.epoch, table=TRAINING, rows=training.expect_rows()))
        self.role.create(self._rules(training), training.seed, targets)

    def _grow(self, progress: Callable[[GrowthReport], None]) -> None:
        self.role.grow(progress)
        digest, nodes = self.role.digest(), self.role.side.n_nodes
        self._audit.append("trained", digest=digest, nodes=nodes)
        step(log, "trained", digest=digest, nodes=nodes)

    def _certify(self) -> None:
        self.role.certify()
        step(log, "certified", event=len(self.role.certificates) - 1)

    def _revoke(self, progress: Callable[[GrowthReport], None]) -> None:
        leavers, digest = self.role.revoke(progress).leavers, self.role.digest()
        self._audit.append("revoked", leavers=[*leavers], digest=digest)
        step(log, "left", parties=[*leavers], digest=digest)

    # -- rows and labels ----------------------------------------------------------------------------

    def find(self, on_progress: OnProgress) -> tuple[Matched, tuple[ParticipantRows, ...]]:
        """Find the rows of CS's labels that all participants share, and count each participant's."""
        schemas = ask_all(self._endpoint, self.participants, SchemaRequest(epoch=self.epoch), Schema)
        for party, found in schemas.items():
            step(log, "schema", party=party, columns=len(found.columns), rows=found.n_rows)
            on_progress(Progress("schema", f"{party!r}: {len(found.columns)} columns, {found.n_rows} rows"))
        source = f"{self.config.data_file}, column {self.data.id_column!r}"
        matched = self.match("training", tuple(self.expect_labels()), source, on_progress)
        return matched, tuple(
            ParticipantRows(party, len(found.columns), found.n_rows, matched.shared[party])
            for party, found in schemas.items()
        )

    def tell(self, message: Align | Drop) -> None:
        """Tell all participants about a table. May be repeated."""
        ask_all(self._endpoint, self.participants, message, Done)

    def match(self, table: str, ids: Sequence[str], source: str, on_progress: OnProgress) -> Matched:
        """Find those of these ids, from this source, that all participants have.

        Raises UsageError if there are none, for CS's operator alone.
        """
        federation, n_jobs, asked = self.config.party.federation, self.role.n_jobs, self.participants
        try:
            matched = match(self._endpoint, federation, self.epoch, table, ids, asked, n_jobs)
        except UsageError as error:
            raise UsageError(f"{error}; CS's are those of {source}: {some(ids, 2)}") from None
        for party, shared in matched.shared.items():
            step(log, "matched", table=table, party=party, shared=shared, of=len(ids))
            on_progress(Progress("matching ids", f"{shared} of {len(ids)} rows shared with {party!r}"))
        return matched

    def read_labels(self, path: str | Path, settled: bool = True) -> Labels:
        return read_labels(path, self.data.id_column, self.data.target or "", self.task, settled=settled)

    def expect_labels(self) -> Labels:
        """Return CS's labels. Raises UsageError once the rows are settled."""
        if self._labels is None:
            what = "the first `train` has fixed the training rows"
            raise UsageError(f"{what}; `revfrf status` shows their number")
        return self._labels

    # -- the forest ---------------------------------------------------------------------------------

    def request(self, min_common: float) -> tuple[str, ...]:
        """Record that the operator wants a forest, if it is the first time.

        Returns what the configuration says otherwise than when the forest was asked for.
        """
        forest = self.config.forest
        if self.record is None or self.record.stopped:
            fixed, new = forest.random_state, secrets.token_bytes(32)
            seed = new if fixed is None else forest_seed(master_seed(fixed))
            self._update(Training(forest, self.task, seed, min_common))
            self._audit.append("training asked for", trees=forest.n_estimators)
        asked = self.expect_record()
        own = {"[forest]": (forest, asked.forest), "task": (self.data.task or "classes", asked.task)}
        return tuple(name for name, (now, then) in own.items() if now != then)

    def _update(self, record: Training) -> None:
        self.role.store.write(training=record)
        self.record = record

    def expect_record(self) -> Training:
        """Return what the operator has asked for. Raises ProtocolError if that is nothing."""
        if self.record is None:
            raise ProtocolError("no forest has been asked for", kind="order")
        return self.record

    @property
    def task(self) -> Task:
        """What labels are: as the forest was trained, or will be."""
        if self.record is None or self.record.stopped:
            return self.data.task or "classes"
        return self.record.task

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of the classes, if there are any yet."""
        return () if self.record is None else self.record.labels

    @property
    def participants(self) -> list[str]:
        return self.role.certificate.participants

    @property
    def epoch(self) -> int:
        return self.role.certificate.epoch

    def summary(self) -> api.ForestSummary:
        training = self.expect_record()
        digest, nodes, rows = self.role.digest(), self.role.side.n_nodes, len(training.expect_rows())
        return api.ForestSummary(digest, nodes, rows, training.not_common, len(training.labels) or None)


def _targets(task: Task, numbers: Ints, labels: Sequence[str | float]) -> Targets:
    """Return the targets of rows with these numbers and labels. Raises UsageError."""
    weights = np.ones(len(labels))
    if task == "numbers":
        return number_targets(numbers, np.asarray(labels, dtype=np.float64), weights)
    names = tuple(sorted(set(map(str, labels))))
    places = {label: place for place, label in enumerate(names)}
    classes = np.array([places[str(label)] for label in labels], dtype=np.int64)
    return class_targets(numbers, classes, names, weights)
