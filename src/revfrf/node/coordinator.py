"""CS as a process: what its operator can ask of it."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.errors import RevFRFError, UsageError
from revfrf.forest.voting import Voting, numbers
from revfrf.io.table import Table, some
from revfrf.node import api
from revfrf.node.api import OnProgress, Progress
from revfrf.node.training import TrainingService
from revfrf.protocols.alignment import align, drop
from revfrf.protocols.certificate import shown_by
from revfrf.report.drawing import outline
from revfrf.report.forest import Standing, forest_page

Result = TypeVar("Result")


class CoordinatorService(TrainingService):
    """CS."""

    # -- testing ------------------------------------------------------------------------------------

    def _votes(self, ids: Sequence[str], voting: Voting) -> NDArray[np.float64]:
        """The trees' mean vote for rows that the participants hold, by FRF-Test."""
        table = f"test {secrets.token_hex(8)}"
        align(self.endpoint, self._epoch, table, ids, self.participants)
        try:
            votes = self.role.votes(table, len(ids), voting)
        finally:
            drop(self.endpoint, self._epoch, table, self.participants)
        mean: NDArray[np.float64] = votes / self.role.plan.rules.n_trees
        return mean

    # -- commands -----------------------------------------------------------------------------------

    def predict(self, request: api.Predict, on_progress: OnProgress) -> api.Predictions:
        """Predict rows that all participants hold, whose ids are in a file."""
        column = request.id_column or self.data.id_column
        ids = Table.read(request.file).ids(column)
        found = self._predict(ids, request.file, column, request.voting, on_progress)
        self.audit.append("predicted", rows=len(found.ids))
        return found

    def _predict(
        self, ids: Sequence[str], file: str, column: str, voting: Voting, on_progress: OnProgress
    ) -> api.Predictions:
        def find() -> tuple[list[str], NDArray[np.float64]]:
            source = f"{file}, column {column!r}"
            common = self._common(f"rows {secrets.token_hex(4)}", ids, source, on_progress)
            return common, self._votes(common, voting)

        common, votes = self._when_ready(find, on_progress)
        missing = len(ids) - len(common)
        return api.Predictions(column, tuple(common), tuple(self._answers(votes)), not_shared=missing)

    def test(self, request: api.Test, on_progress: OnProgress) -> api.TestScore:
        """Score the forest on rows whose labels are in a file."""
        file = request.file
        labels, trained = self._read_labels(file), self.training
        if trained is not None and trained.labels:
            _check_classes(file, labels.values.tolist(), trained.labels)
        found = self._predict(labels.ids, file, self.data.id_column, request.voting, on_progress)
        truth, training = labels.of(found.ids), self._expect_training()
        known = len({*training.ids} & {*found.ids})
        score = api.TestScore(rows=len(found.ids), not_shared=found.not_shared, trained_on=known)
        self.audit.append("tested", rows=score.rows)
        if training.task == "classes":
            right = [str(a) == str(b) for a, b in zip(truth, found.prediction, strict=True)]
            return msgspec.structs.replace(score, accuracy=float(np.mean(right)))
        error = np.asarray(truth, dtype=np.float64) - np.asarray(found.prediction, dtype=np.float64)
        mse, mae = float(np.mean(error**2)), float(np.mean(np.abs(error)))
        return msgspec.structs.replace(score, mse=mse, mae=mae)

    def _answers(self, votes: NDArray[np.float64]) -> list[Any]:
        targets, training = self.role.targets, self._expect_training()
        if training.task == "numbers":
            return list(map(float, numbers(votes, targets.centre, targets.places)))
        return [training.labels[place] for place in votes.argmax(axis=1)]

    def _expect_ready(self) -> None:
        if not self.role.ready:
            raise UsageError("the forest is not ready; run `revfrf train`, or wait")

    def _when_ready(self, work: Callable[[], Result], on_progress: OnProgress) -> Result:
        """Do something with a whole forest; if somebody is leaving just now, again when it has left, and if
        somebody goes meanwhile, again when it is back. Whoever is away from the beginning is not waited for.
        """

        def try_it() -> Result:
            self._expect_ready()  # else it is said at once
            with self._turn(on_progress):
                self._expect_ready()
                return work()

        until = time.monotonic() + self.config.network.patience
        while True:
            epoch = 0 if self.certificate is None else self._epoch
            try:
                return self.patience.retry(try_it, on_progress, waits_for=self.endpoint.present())
            except RevFRFError:
                left = self.role.lifecycle_state().revoking
                changed = bool(epoch) and (self._epoch != epoch or left)
                if not changed or time.monotonic() > until:
                    raise
                on_progress(Progress("waiting until the forest is rebuilt", waiting=True))
                if not self.loop.pause():
                    raise

    def history(self, _: api.History, __: OnProgress) -> tuple[api.Revocation, ...]:
        """List who has left, and when."""
        shown = map(shown_by, self.role.certificates)
        return tuple(msgspec.convert(facts, api.Revocation) for facts in shown)

    def report(self, _: api.Report, __: OnProgress) -> str:
        """Return a page about the forest, as HTML."""
        self._expect_ready()
        status, forest = self.status(api.Status()), self._summary()
        columns = {party: [c.name for c in owned] for party, owned in self.role.columns.items()}
        standing = Standing(
            federation=self.config.party.federation,
            facts={
                "epoch": status.epoch,
                "members": status.members,
                "left": status.left,
                "nodes": forest.nodes,
                "rows": forest.rows,
                "digest": forest.digest,
            },
            columns=columns,
            forest=outline(self.store),
            certificates=self.role.certificates,
        )
        return forest_page(standing)

    def structure(self, _: api.Structure, __: OnProgress) -> api.ForestStructure:
        """Return the forest as CS knows it."""
        self._expect_ready()
        splits, leaves = sorted(self.store.splits.items()), sorted(self.store.leaves.items())
        return api.ForestStructure(
            federation=self.config.party.federation,
            digest=self.digest,
            rules=msgspec.to_builtins(self.role.plan.rules),
            labels=self._expect_training().labels,
            splits=tuple((*node, split.feature, split.cut) for node, split in splits),
            leaves=tuple((*node, *sums) for node, sums in leaves),
        )

    def export(self, request: api.Export, on_progress: OnProgress) -> str:
        """Return a revocation certificate as JSON. If a revocation is under way, wait until it is over."""
        if not self.role.created:
            raise UsageError("there is no forest yet, and so nobody has left it; `revfrf train` grows one")
        number = request.number
        try:
            return self._when_ready(lambda: self.role.certificates[number], on_progress).to_json().decode()
        except IndexError:
            count = len(self.role.certificates)
            raise UsageError(
                f"certificate {number}: there are {count}, numbered from 0 as `revfrf history` has them"
                if count
                else "nobody has left the forest, or not yet: a request may be on its way; ask again"
            ) from None

    def status(self, request: api.Status, on_progress: OnProgress = api.no_progress) -> api.PartyStatus:
        """See `Service.status`."""
        status = super().status(request, on_progress)  # first, so that no old forest is ready in a new epoch
        status = msgspec.structs.replace(status, problem=status.problem or self.waiting)
        if self.role.ready:
            return msgspec.structs.replace(status, forest_state="ready", forest=self._summary())
        if self.training is None or self.training.stopped:
            stopped = None if self.training is None else self.training.stopped
            return msgspec.structs.replace(status, forest_state="none", stopped=stopped)
        state = "waiting" if self.certificate is None else "growing"
        return msgspec.structs.replace(status, forest_state=state)

    handlers: ClassVar[api.Handlers] = TrainingService.handlers | {
        api.Status: status,
        api.Predict: predict,
        api.Test: test,
        api.History: history,
        api.Report: report,
        api.Structure: structure,
        api.Export: export,
    }


def _check_classes(file: str, labels: Sequence[Any], classes: Sequence[str]) -> None:
    """Raise UsageError for a label that no answer could be."""
    strange = sorted({str(label) for label in labels} - {*classes})
    if strange:
        no_class = "is no class" if len(strange) == 1 else "are no classes"
        raise UsageError(f"{file}: {some(strange)} {no_class} of the forest; they are {some(classes)}")
