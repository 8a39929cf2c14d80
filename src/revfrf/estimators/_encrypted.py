"""Encrypted requests to a fitted forest: who may ask, who refuses, and the answers."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, check_is_fitted

from revfrf.errors import AbsentError, UsageError
from revfrf.estimators._base import Rows
from revfrf.estimators._persistence import PersistenceMixin
from revfrf.forest.voting import Voting
from revfrf.parallel import workers
from revfrf.protocols.common.request import RequestPolicy
from revfrf.report.progress import request_progress


class PartialAnswer(NamedTuple):
    """Answers without the trees that needed an absent party.

    `coverage` has for each row the share of the trees that have voted; `absent` names whose absence has kept
    others from it.
    """

    answers: NDArray[Any]
    coverage: NDArray[np.float64]
    absent: tuple[str, ...]


class EncryptedPredictionMixin(PersistenceMixin):
    """A forest that answers encrypted requests."""

    def predict_encrypted(self, X: Rows, requester: str | None = None, *, partial: bool = False) -> Any:
        """What `predict` answers, by FRF-Predict: nobody but the requester sees X.

        Every value is encrypted under the requester's key and compared with the encrypted splits by CS and
        CC, with the consent of the splits' owners. CS learns the path of each row, and with it the answer.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows with all columns, as for `predict`.
        requester : str or None
            Who asks: a name given to `enrol_requester`, or a participant. None is a requester that every
            forest has.
        partial : bool
            What to do if a party is absent: False is an error, True an answer of the trees that do not need
            it for that row, as a `PartialAnswer` with its coverage.

        Raises
        ------
        RefusedError
            An owner does not accept the requester, or somebody has found fault with the request; the error
            names the party.
        AbsentError
            A party that the answer needs is not there; the error names it.
        """
        return self._encrypted(X, requester, partial, self._answers)

    def enrol_requester(self, name: str) -> Self:
        """Let KGC admit somebody who is no participant as a requester, with keys of its own.

        Requesters are not saved with the forest, and forgotten by `fit`.
        """
        self._check_whole()
        self.federation_.enrol_requester(name)
        return self

    def set_policy(self, party: str, policy: RequestPolicy) -> Self:
        """Whose requests a participant or a server accepts, and how many rows; at first, everybody's.

        Policies are saved with the forest, and forgotten by `fit`.
        """
        check_is_fitted(self)
        roles = self.federation_.with_policies
        if not isinstance(party, str) or party not in roles:
            raise UsageError(f"{party!r} has no policy; these have: {', '.join(roles)}")
        if not isinstance(policy, RequestPolicy):
            raise UsageError(f"{policy!r} is no policy; give a RequestPolicy(accepts=[...], refuses=[...])")
        roles[party].policy = policy
        return self

    def _encrypted(
        self, X: Rows, requester: str | None, partial: bool, finish: Callable[[NDArray[np.float64]], Any]
    ) -> Any:
        self._check_whole()
        if not isinstance(partial, bool | np.bool_):
            raise UsageError(f"partial={partial!r}: give True or False")
        voting = self._checked_voting()
        X = self._rows(X, reset=False)
        codes, n_rows = self.layout_.encode(X), _num_samples(X)
        self.federation_.n_jobs = workers(self.n_jobs)
        with request_progress(self.verbose, n_rows) as progress:
            answer = self.federation_.ask(codes, requester, voting, bool(partial), progress)
        if not answer.n_voted.all():
            rows = np.flatnonzero(answer.n_voted == 0)
            raise AbsentError(
                answer.absent[0],
                f"is absent (of {', '.join(answer.absent)} in all), and no tree is left for "
                f"{len(rows)} of {n_rows} rows: {', '.join(map(str, rows[:10]))}{', …' * (len(rows) > 10)}; "
                "leave these out, or ask again later",
            )
        answers = finish(answer.votes / answer.n_voted[:, None])
        if not partial:
            return answers
        n_trees = self.federation_.coordinator.plan.rules.n_trees
        return PartialAnswer(answers, answer.n_voted / n_trees, answer.absent)

    @abstractmethod
    def _checked_voting(self) -> Voting:
        """How the trees vote."""

    @abstractmethod
    def _answers(self, votes: NDArray[np.float64]) -> NDArray[Any]:
        """From the trees' mean votes to answers."""
