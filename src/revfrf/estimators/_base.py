"""What both estimators share: parameters, training, plain and encrypted predictions, costs and leakage."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from msgspec.structs import asdict
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from revfrf.crypto.dtpkc.keys import SECURE_KEY_BITS
from revfrf.embedded.costs import Costs
from revfrf.embedded.federation import Codes, Federation
from revfrf.embedded.moduli import cached_setup
from revfrf.errors import AbsentError, SecretError, UsageError
from revfrf.estimators._file import EstimatorRecord, plain
from revfrf.estimators._layout import Decimals, Layout, Parties, is_frame
from revfrf.forest.books import MAX_CUTS
from revfrf.forest.nodes import MAX_DEPTH
from revfrf.forest.seeds import master_seed
from revfrf.forest.targets import Targets
from revfrf.forest.tree import MAX_TREES, Method, Rules
from revfrf.forest.voting import Votes, Voting
from revfrf.names import Protocol
from revfrf.parallel import workers
from revfrf.protocols.columns import MAX_BUDGET, MAX_EPSILON, MIN_EPSILON, ColumnSettings, revealed
from revfrf.protocols.common.request import RequestPolicy
from revfrf.protocols.registry import PROTOCOLS
from revfrf.report.progress import level_progress, request_progress
from revfrf.storage.directory import Directory
from revfrf.storage.memory import StoreFactory

Rows = Any
"""An array-like of shape (n_rows, n_columns), or a pandas DataFrame."""

_POSITIVE = Interval(Integral, 1, 2**31 - 1, closed="both")
_FRACTION = Interval(RealNotInt, 0, 1, closed="right")


class _Limits(NamedTuple):
    """What rows that come later must fit, as `fit` takes it."""

    target_range: tuple[float, float] | None = None
    classes: ArrayLike | None = None
    max_total_weight: float | None = None


class PartialAnswer(NamedTuple):
    """Answers without the trees that needed an offline party.

    `coverage` is the fraction of the trees that voted, for each row. `absent` names the offline parties.
    """

    answers: NDArray[Any]
    coverage: NDArray[np.float64]
    absent: tuple[str, ...]


@dataclass(repr=False, eq=False)
class BaseRevocableForest(BaseEstimator):
    """A forest without its targets. `__init__` only stores, and `fit` checks, as in scikit-learn."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, MAX_TREES, closed="both")],
        "max_depth": [Interval(Integral, 1, MAX_DEPTH, closed="both"), None],
        "max_features": [StrOptions({"sqrt", "log2"}), _POSITIVE, _FRACTION, None],
        "min_samples_split": [Interval(Integral, 2, 2**31 - 1, closed="both")],
        "min_samples_leaf": [_POSITIVE],
        "bootstrap": ["boolean"],
        "candidates": [StrOptions(set(get_args(Method)))],
        "n_candidates": [Interval(Integral, 1, 255, closed="both")],
        "n_sampled": [Interval(Integral, 2, 2**20, closed="both")],
        "n_cuts": [Interval(Integral, 1, MAX_CUTS, closed="both"), dict],
        "epsilon": [Interval(Real, MIN_EPSILON, MAX_EPSILON, closed="both"), dict, None],
        "epsilon_budget": [Interval(Real, MIN_EPSILON, MAX_BUDGET, closed="both"), dict, None],
        "forget_bins": ["boolean", dict],
        "protocol": [StrOptions(set(get_args(Protocol)))],
        "parties": [dict, None],
        "decimals": [Interval(Integral, 0, 18, closed="both"), dict, None],
        "key_bits": [_POSITIVE],
        "allow_insecure_keys": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "directory": [str, PathLike, None],
    }

    n_estimators: int = 100
    _: KW_ONLY
    max_depth: int | None = 10
    max_features: str | int | float | None = "sqrt"
    min_samples_split: int = 2
    min_samples_leaf: int = 5
    bootstrap: bool = True
    candidates: Method = "quantile"
    n_candidates: int = 32
    n_sampled: int = 128
    n_cuts: int | Mapping[Any, int] = MAX_CUTS
    epsilon: float | Mapping[Any, float | None] | None = None
    epsilon_budget: float | Mapping[Any, float | None] | None = None
    forget_bins: bool | Mapping[Any, bool] = False
    protocol: Protocol = "shares"
    parties: Parties | None = None
    decimals: Decimals = None
    key_bits: int = 3072
    allow_insecure_keys: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    directory: str | PathLike[str] | None = None

    n_features_in_: int = field(init=False)
    federation_: Federation = field(init=False)
    layout_: Layout = field(init=False)
    targets_: Targets = field(init=False)

    # -- training -----------------------------------------------------------------------------------

    def fit(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        row_numbers: ArrayLike | None = None,
        target_range: tuple[float, float] | None = None,
        classes: ArrayLike | None = None,
        max_total_weight: float | None = None,
    ) -> Self:
        """Grow the forest: FLE-Expan between all parties.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            The training rows, with the columns of all parties.
        y : array-like of shape (n_rows,)
            The targets, which only CS sees.
        sample_weight : array-like of shape (n_rows,) or None
            The weight of each row; None is 1.
        row_numbers : array-like of shape (n_rows,) or None
            The number by which each row is drawn for the trees; None numbers them from 0. A row keeps its
            number for the forest's life.
        target_range : (float, float) or None
            The range of targets that the forest can ever have, for a regression; None is that of `y`.
        classes : array-like or None
            The labels that the forest can ever have, in order; None is those of `y`, in ascending order.
        max_total_weight : float or None
            The largest sum of weights that the forest will ever have; None is four times the sum now.

        Raises
        ------
        ValueError
            A column has no owner or two, a value is outside the fixed-point range, or the keys are too
            short. The error names the party and the column, and says what to do.
        """
        self._validate_params()
        before = vars(self).copy()
        try:
            self._fit(X, y, sample_weight, row_numbers, _Limits(target_range, classes, max_total_weight))
        except BaseException:  # a forest fitted before stays as it was
            self.__dict__ = before
            raise
        return self

    def _fit(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None, row_numbers: Any, limits: "_Limits"
    ) -> None:
        X = self._rows(X, reset=True)
        y = self._check_y(y)
        check_consistent_length(X, y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        numbers = _check_row_numbers(row_numbers, len(y))
        order = np.argsort(numbers)
        n_jobs = workers(self.n_jobs)
        layout = Layout.learn(X, self._names(), self.parties, self.decimals)
        self.layout_ = layout
        self.targets_ = self._targets(numbers[order], y[order], weights[order], limits)
        codes = {party: table[:, order] for party, table in layout.encode(X).items()}
        protocol = PROTOCOLS[self.protocol]
        rules = Rules.of(self, len(layout.columns), protocol.cuts(self))
        seed = master_seed(check_random_state(self.random_state))
        columns = {party: layout.of(party) for party in layout.owned}
        settings = self._column_settings(layout)
        stores = StoreFactory() if self.directory is None else Directory(self.directory, new=True)
        try:
            with level_progress(self.verbose) as progress:
                insecure = bool(self.allow_insecure_keys)
                setup = cached_setup(int(self.key_bits), insecure, n_jobs) if protocol.needs_keys else None
                federation = Federation(
                    columns, seed=seed, protocol=self.protocol, setup=setup, n_jobs=n_jobs, stores=stores
                )
                for party, participant in federation.participants.items():
                    participant.set_columns(settings[party])
                if self.directory is not None:
                    federation.coordinator.store.write(estimator=self._record())
                federation.train(codes, rules, self.targets_, progress)
        except BaseException:
            stores.abandon()
            raise
        before, self.federation_ = getattr(self, "federation_", None), federation
        if before is not None:
            before.stores.close()

    def _column_settings(self, layout: Layout) -> dict[str, dict[str, ColumnSettings]]:
        """Return what each party has chosen for its columns. Raises UsageError."""
        given = {name: getattr(self, name) for name in ColumnSettings.__struct_fields__}
        if self.protocol == "paper":
            defaults = asdict(ColumnSettings())
            if changed := [name for name, value in given.items() if value != defaults[name]]:
                what = f"`{changed[0]}` is for protocol='shares': the paper protocol has no books of cuts"
                raise UsageError(f"{what}; leave it out")
            return {party: {} for party in layout.owned}
        return {party: layout.settings(party, given, self._names()) for party in layout.owned}

    @abstractmethod
    def _check_y(self, y: ArrayLike) -> NDArray[Any]:
        """Return the targets as one column, checked."""

    @abstractmethod
    def _targets(
        self, numbers: NDArray[np.int64], y: NDArray[Any], weights: NDArray[np.float64], limits: "_Limits"
    ) -> Targets:
        """Return labels and weights as integers, and learn the classes, if there are any."""

    def _record(self) -> EstimatorRecord:
        """Return what is kept of the estimator itself with a forest."""
        parameters = {**self.get_params(deep=False), "directory": None}  # it may be moved
        return EstimatorRecord(
            kind=type(self).__name__,
            parameters={name: plain(name, value) for name, value in parameters.items()},
            owned=dict(self.layout_.owned),
            feature_names=self._names(),
            n_features=self.n_features_in_,
        )

    def _checked_voting(self) -> Voting:
        """Return how the trees vote."""
        return "soft"

    @abstractmethod
    def _answers(self, votes: Votes) -> NDArray[Any]:
        """Return the answers that belong to the trees' votes."""

    # -- prediction ---------------------------------------------------------------------------------

    def _votes(self, X: Rows) -> Votes:
        """Return the trees' votes for each row, by FRF-Test."""
        codes, n_rows = self._encode(X)
        votes = self.federation_.votes(codes, n_rows, self._checked_voting())
        cs = self.federation_.coordinator
        if n_rows and cs.certificates[-1].waits_for:
            lowest = votes.n_voted.min() / cs.plan.rules.n_trees
            names = ", ".join(cs.certificates[-1].waits_for)
            what = f"nodes stay open until {names} is back: only {lowest:.0%} of the trees vote for some row"
            warnings.warn(what, stacklevel=3)
        return votes

    def _encode(self, X: Rows) -> tuple[Codes, int]:
        """Return the x̂ of rows to predict, and their number."""
        self._check_whole()
        X = self._rows(X, reset=False)
        self.federation_.n_jobs = workers(self.n_jobs)
        return self.layout_.encode(X, clamp=True), len(X)

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
        self, X: Rows, requester: str | None, partial: bool, finish: Callable[[Votes], NDArray[Any]]
    ) -> NDArray[Any] | PartialAnswer:
        """Return what `finish` makes of the votes of the trees, by FRF-Predict."""
        if not isinstance(partial, bool | np.bool_):
            raise UsageError(f"partial={partial!r}: give True or False")
        voting = self._checked_voting()
        self._check_whole()
        if not PROTOCOLS[self.federation_.coordinator.certificate.forest_protocol].answers_requests:
            raise UsageError("encrypted requests need protocol='paper'")
        codes, n_rows = self._encode(X)
        with request_progress(self.verbose, n_rows) as progress:
            answer = self.federation_.ask(codes, requester, voting, bool(partial), progress)
        if not answer.votes.n_voted.all():
            rows = np.flatnonzero(answer.votes.n_voted == 0)
            raise AbsentError(
                answer.absent[0],
                f"is offline (all offline: {', '.join(answer.absent)}), and no tree is left for "
                f"{len(rows)} of {n_rows} rows: {', '.join(map(str, rows[:10]))}{', …' * (len(rows) > 10)}; "
                "leave these out, or retry later",
            )
        answers = finish(answer.votes)
        if not partial:
            return answers
        n_trees = self.federation_.coordinator.plan.rules.n_trees
        return PartialAnswer(answers, answer.votes.n_voted / n_trees, answer.absent)

    def _rows(self, X: Rows, *, reset: bool) -> Rows:
        """Return X, checked as in scikit-learn. A DataFrame stays one, so that its categories are kept."""
        if not reset:
            X = self.layout_.with_gone(X, self._names())
        if not is_frame(X):
            return validate_data(self, X, reset=reset, ensure_all_finite=False)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not len(X):
            raise UsageError("Found array with 0 sample(s): X has no rows")
        if not X.shape[1]:
            raise UsageError("Found array with 0 feature(s): X has no columns")
        return X

    def _names(self) -> tuple[str, ...] | None:
        """Return the names of X's columns, if it has any."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    # -- what was built, what it cost, who saw what --------------------------------------------------

    @property
    def digest_(self) -> str:
        """The digest of the forest's structure as CS knows it: rules, features, numbers of cuts, leaves.

        Neither keys nor thresholds are part of it: thresholds are the owners' secret.
        """
        self._check_whole()
        return self.federation_.coordinator.digest()

    @property
    def n_nodes_(self) -> int:
        """The number of splits and leaves of all trees."""
        self._check_whole()
        return self.federation_.coordinator.side.n_nodes

    @property
    def parties_(self) -> dict[str, list[str]]:
        """The names of each party's columns."""
        check_is_fitted(self)
        return {p: [column.name for column in self.layout_.of(p)] for p in self.layout_.owned}

    @property
    def costs_(self) -> Costs:
        """The cost of this model so far, by role, protocol and link."""
        check_is_fitted(self)
        return self.federation_.costs()

    @property
    def leakage_(self) -> dict[str, dict[str, int]]:
        """What each role has received so far, counted from the messages."""
        check_is_fitted(self)
        return self.federation_.leakage()

    @property
    def column_leakage_(self) -> dict[str, dict[str, Any]]:
        """What CS has received of each column, by "party/column"; empty under the paper protocol.

        "bins" is their number and "bits" log2 of it: no value shows CS more. "epsilon" is that of the noise,
        which takes some of these bits away, or None. "forgotten" says whether CS erases the bins once the
        forest is grown, and "generation" counts the column's earlier books.
        """
        check_is_fitted(self)
        return {line.feature: revealed(line) for line in self.federation_.coordinator.side.lines}

    # -- scikit-learn's contract ---------------------------------------------------------------------

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        needs_keys = self.protocol in PROTOCOLS and PROTOCOLS[self.protocol].needs_keys
        insecure = needs_keys and isinstance(self.key_bits, Integral) and self.key_bits < SECURE_KEY_BITS
        insecure |= hasattr(self, "federation_") and self.federation_.insecure
        return str(super().__repr__(N_CHAR_MAX)) + (" INSECURE" if insecure else "")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        if not hasattr(self, "federation_"):
            return False
        self.federation_.stores.check()  # a closed forest answers nothing
        return True

    def _check_whole(self) -> None:
        """Raise unless the forest is fitted, and no revocation is in progress."""
        check_is_fitted(self)
        if not self.federation_.coordinator.ready:
            leavers = ", ".join(self.federation_.leavers)
            raise UsageError(f"the revocation of {leavers} is not finished; call `revoke` again")

    def __getstate__(self) -> Any:
        if hasattr(self, "federation_"):
            raise SecretError(
                "a fitted forest holds every party's keys and cannot be pickled or copied; "
                "use `save` and `load`, or `sklearn.base.clone` for an unfitted copy"
            )
        return super().__getstate__()


def _check_row_numbers(given: Any, n_rows: int) -> NDArray[np.int64]:
    """Return a number for each row: distinct, and from 0 to 2^63 - 1."""
    if given is None:
        return np.arange(n_rows)
    numbers = np.asarray(given)
    if numbers.shape != (n_rows,) or numbers.dtype.kind not in "iu":
        raise UsageError(f"row_numbers: give a whole number for each of the {n_rows} rows")
    if (numbers < 0).any() or (numbers >= 2**63).any() or len(np.unique(numbers)) != n_rows:
        raise UsageError("row_numbers: numbers must be distinct, and from 0 to 2^63 - 1")
    return numbers.astype(np.int64)
