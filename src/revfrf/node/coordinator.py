"""CS as a process: what its operator can ask of it."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.errors import RevFRFError, UsageError
from revfrf.forest.voting import Voting, numbers
from revfrf.io.table import Table, some
from revfrf.messages.alignment import Drop
from revfrf.messages.base import Done
from revfrf.node.control import Tell
from revfrf.node.training import TrainingService
from revfrf.protocols.alignment import align
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
            for party in self.participants:
                self.endpoint.call(party, Drop(epoch=self._epoch, table=table), Done)
        mean: NDArray[np.float64] = votes / self.role.plan.rules.n_trees
        return mean

    # -- commands -----------------------------------------------------------------------------------

    def do_predict(
        self, tell: Tell, file: str, id_column: str | None = None, voting: Voting = "hard"
    ) -> dict[str, Any]:
        """Answers for rows that all participants hold, whose ids are in a file."""
        column = id_column or self.data.id_column
        found = self._predict(Table.read(file).ids(column), file, column, voting, tell)
        self.audit.append("predicted", rows=len(found["ids"]))
        return {"id_column": column, **found}

    def _predict(
        self, ids: Sequence[str], file: str, column: str, voting: Voting, tell: Tell
    ) -> dict[str, Any]:
        def find() -> tuple[list[str], NDArray[np.float64]]:
            source = f"{file}, column {column!r}"
            common = self._common(f"rows {secrets.token_hex(4)}", ids, source, tell)
            return common, self._votes(common, voting)

        common, votes = self._when_ready(find, tell)
        return {"ids": common, "answers": self._answers(votes), "not_common": len(ids) - len(common)}

    def do_test(self, tell: Tell, file: str, voting: Voting = "hard") -> dict[str, Any]:
        """How good the answers are for rows whose labels are in a file."""
        labels, trained = self._read_labels(file), self.training
        if trained is not None and trained.labels:
            _check_classes(file, labels.values.tolist(), trained.labels)
        found = self._predict(labels.ids, file, self.data.id_column, voting, tell)
        truth, answers = labels.of(found["ids"]), found["answers"]
        training = self._expect_training()
        if training.task == "classes":
            score = {
                "accuracy": float(np.mean([str(a) == str(b) for a, b in zip(truth, answers, strict=True)]))
            }
        else:
            error = np.asarray(truth, dtype=np.float64) - np.asarray(answers, dtype=np.float64)
            score = {"mse": float(np.mean(error**2)), "mae": float(np.mean(np.abs(error)))}
        known = len({*training.ids} & {*found["ids"]})
        self.audit.append("tested", rows=len(answers))
        return {"rows": len(answers), "not_common": found["not_common"], "trained_on": known, **score}

    def _answers(self, votes: NDArray[np.float64]) -> list[Any]:
        targets, training = self.role.targets, self._expect_training()
        if training.task == "numbers":
            return list(map(float, numbers(votes, targets.centre, targets.places)))
        return [training.labels[place] for place in votes.argmax(axis=1)]

    def _expect_ready(self) -> None:
        if not self.role.ready:
            raise UsageError("there is no whole forest now; `revfrf train` first, or wait")

    def _when_ready(self, work: Callable[[], Result], tell: Tell) -> Result:
        """Do something with a whole forest; if somebody is leaving just now, again when it has left, and if
        somebody goes meanwhile, again when it is back. Whoever is away from the beginning is not waited for.
        """

        def try_it() -> Result:
            self._expect_ready()  # else it is said at once
            with self._turn(tell):
                self._expect_ready()
                return work()

        until = time.monotonic() + self.config.network.patience
        while True:
            epoch = 0 if self.certificate is None else self._epoch
            try:
                return self.patiently(try_it, tell, waits_for=self.endpoint.present())
            except RevFRFError:
                left = self.role.lifecycle_state().revoking
                changed = bool(epoch) and (self._epoch != epoch or left)
                if not changed or time.monotonic() > until:
                    raise
                tell({"step": "waiting until the forest is whole without those who leave"})
                if not self.pause():
                    raise

    def do_history(self) -> list[dict[str, Any]]:
        """Who has left, and when."""
        return [shown_by(certificate) for certificate in self.role.certificates]

    def do_report(self) -> str:
        """A page about the forest, as HTML."""
        self._expect_ready()
        status = self.do_status()
        columns = {party: [c.name for c in owned] for party, owned in self.role.columns.items()}
        standing = Standing(
            federation=self.config.party.federation,
            facts={name: status[name] for name in ("epoch", "members", "left", "nodes", "rows", "digest")},
            columns=columns,
            forest=outline(self.store),
            certificates=self.role.certificates,
        )
        return forest_page(standing)

    def do_structure(self) -> dict[str, Any]:
        """The forest as CS knows it: rules, owners and columns of splits, numbers of cuts, sums of leaves."""
        self._expect_ready()
        splits, leaves = sorted(self.store.splits.items()), sorted(self.store.leaves.items())
        return {
            "federation": self.config.party.federation,
            "digest": self.digest,
            "rules": msgspec.to_builtins(self.role.plan.rules),
            "labels": list(self._expect_training().labels),
            "splits": [[*node, split.feature, split.cut] for node, split in splits],
            "leaves": [[*node, *sums] for node, sums in leaves],
        }

    def do_export(self, tell: Tell, number: int = -1) -> str:
        """A revocation certificate as JSON, the last one by default; of a revocation that is under way,
        when it is over.
        """
        if not self.role.created:
            raise UsageError("there is no forest yet, and so nobody has left it; `revfrf train` grows one")
        try:
            return self._when_ready(lambda: self.role.certificates[number], tell).to_json().decode()
        except IndexError:
            count = len(self.role.certificates)
            raise UsageError(
                f"certificate {number}: there are {count}, numbered from 0 as `revfrf history` has them"
                if count
                else "nobody has left the forest, or not yet: a request may be on its way; ask again"
            ) from None

    def do_status(self) -> dict[str, Any]:
        """See `Service.do_status`."""
        status = super().do_status()  # first, so that no old forest is called ready in a new epoch
        stopped = "" if self.training is None else self.training.stopped
        if self.role.ready:
            more = {"forest": "ready", **self._summary()}
        elif self.training is None or stopped:
            more = {"forest": "none"} | ({"stopped": stopped} if stopped else {})
        else:
            more = {"forest": "waiting" if self.certificate is None else "growing"}
        return status | {"problem": status["problem"] or self.waiting} | more


def _check_classes(file: str, labels: Sequence[Any], classes: Sequence[str]) -> None:
    """Raise UsageError for a label that no answer could be."""
    strange = sorted({str(label) for label in labels} - {*classes})
    if strange:
        no_class = "is no class" if len(strange) == 1 else "are no classes"
        raise UsageError(f"{file}: {some(strange)} {no_class} of the forest; they are {some(classes)}")
