"""Encrypted requests to a fitted forest: requesters, policies and answers."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from revfrf.errors import AbsentError, UsageError
from revfrf.estimators._base import BaseRevocableForest, Rows
from revfrf.parallel import workers
from revfrf.protocols.common.request import RequestPolicy
from revfrf.report.progress import request_progress


class PartialAnswer(NamedTuple):
    """Answers without the trees that needed an offline party.

    `coverage` is the fraction of the trees that voted, for each row. `absent` names the offline parties.
    """

    answers: NDArray[Any]
    coverage: NDArray[np.float64]
    absent: tuple[str, ...]


class EncryptedPredictionMixin(BaseRevocableForest):
    """Adds encrypted requests to a forest."""

    def predict_encrypted(self, X: Rows, requester: str | None = None, *, partial: bool = False) -> Any:
        """Return what `predict` returns, by FRF-Predict: only the requester sees X.

        Every value is encrypted under the requester's key. CS and CC compare it with the encrypted splits, if
        the splits' owners consent. CS learns the path of each row, and with it the answer.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows with all columns, as for `predict`.
        requester : str or None
            A name given to `enrol_requester`, or a participant. None is a requester that every forest has.
        partial : bool
            If a party is offline, False raises an error, and True returns the answer of the trees that do
            not need it, as a `PartialAnswer` with its coverage.

        Raises
        ------
        RefusedError
            A party does not accept the requester or the request; the error names it.
        AbsentError
            A party that the answer needs is offline; the error names it.
        """
        return self._encrypted(X, requester, partial, self._answers)

    def enrol_requester(self, name: str) -> Self:
        """Let KGC admit a requester that is not a participant, with keys of its own.

        `save` does not keep requesters, and `fit` forgets them.
        """
        self._check_whole()
        self.federation_.enrol_requester(name)
        return self

    def set_policy(self, party: str, policy: RequestPolicy) -> Self:
        """Set whose requests a participant or a server accepts, and how many rows; at first, all.

        `save` keeps policies, and `fit` forgets them.
        """
        check_is_fitted(self)
        roles = self.federation_.with_policies
        if not isinstance(party, str) or party not in roles:
            raise UsageError(f"{party!r} has no policy; these have: {', '.join(roles)}")
        if not isinstance(policy, RequestPolicy):
            raise UsageError(
                f"{policy!r} is not a policy; give a RequestPolicy(accepts=[...], refuses=[...])"
            )
        roles[party].policy = policy
        return self

    def _encrypted(
        self, X: Rows, requester: str | None, partial: bool, finish: Callable[[NDArray[np.float64]], Any]
    ) -> Any:
        """Return what `finish` makes of the mean votes of the trees that voted, by FRF-Predict."""
        self._check_whole()
        if not isinstance(partial, bool | np.bool_):
            raise UsageError(f"partial={partial!r}: give True or False")
        voting = self._checked_voting()
        X = self._rows(X, reset=False)
        codes, n_rows = self.layout_.encode(X), len(X)
        self.federation_.n_jobs = workers(self.n_jobs)
        with request_progress(self.verbose, n_rows) as progress:
            answer = self.federation_.ask(codes, requester, voting, bool(partial), progress)
        if not answer.n_voted.all():
            rows = np.flatnonzero(answer.n_voted == 0)
            raise AbsentError(
                answer.absent[0],
                f"is offline (all offline: {', '.join(answer.absent)}), and no tree is left for "
                f"{len(rows)} of {n_rows} rows: {', '.join(map(str, rows[:10]))}{', …' * (len(rows) > 10)}; "
                "leave these out, or retry later",
            )
        answers = finish(answer.votes / answer.n_voted[:, None])
        if not partial:
            return answers
        n_trees = self.federation_.coordinator.plan.rules.n_trees
        return PartialAnswer(answers, answer.n_voted / n_trees, answer.absent)
