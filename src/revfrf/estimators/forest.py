"""The two estimators: a forest of classes and one of numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from revfrf.errors import ModelFileError, UsageError
from revfrf.estimators._base import BaseRevocableForest, PartialAnswer, Rows, _Limits
from revfrf.estimators._file import EstimatorRecord
from revfrf.estimators._persistence import PersistenceMixin
from revfrf.estimators._revocation import RevocationMixin
from revfrf.forest.targets import Targets, class_targets, number_targets
from revfrf.forest.voting import Votes, Voting

_LABEL_TYPES = ("", "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "|O")
"""NumPy types of labels; text has none, and is as long as the longest label."""


@dataclass(kw_only=True, repr=False, eq=False)
class RevocableForestClassifier(PersistenceMixin, RevocationMixin, ClassifierMixin, BaseRevocableForest):
    """A random forest for classes, grown by parties who hold different columns of the same rows.

    All roles run in this process and exchange the protocol's messages. NaN and None are missing values,
    below every number; so are categories that `fit` has not seen. `revoke` lets participants leave, and
    proves it. `save` and `load` keep forests in files; `leakage_` tells what each role received. Under the
    paper protocol, `predict_encrypted` answers requests that only the requester can read, if the owners'
    policies (`set_policy`) accept the requester (`enrol_requester`).

    Parameters
    ----------
    n_estimators : int
        The number of trees.
    max_depth : int or None
        The depth of the deepest leaf, at most 62; None is 62.
    max_features : {"sqrt", "log2"}, int, float or None
        The mean number of features that are candidates at a node: √F or log2 F of F features, or this
        number. A float is the probability π that a feature is a candidate; None is all features.
    min_samples_split, min_samples_leaf : int
        The smallest number of rows of a node that is split, and of a leaf.
    bootstrap : bool
        Whether each tree draws how often each row counts in it: once on average, as with replacement.
    protocol : {"shares", "paper"}
        How the forest is trained. "shares": each owner draws one book of cuts per column and sends CS one
        bin per row, and CS grows the forest alone. "paper": owners propose thresholds at every node and
        encrypt those that win; that is slower, and needed for encrypted requests.
    n_cuts : int or dict
        Under the shares protocol, how many cuts a column's book may have, for all columns or by column: 1 to
        255. Fewer cuts show CS less of a column's order, and cost accuracy.
    epsilon : float, dict or None
        Under the shares protocol, noise on the bins that CS sees, for all columns or by column, from 0.001
        (much noise) to 32: two values whose bins differ by s look alike up to a factor exp(epsilon·s). None
        is no noise. Not for categories. `docs/leakage.md` says what it guarantees, and what it costs.
    epsilon_budget : float, dict or None
        How much epsilon may ever be spent on a column: every new book costs its epsilon. None is no limit.
    forget_bins : bool or dict
        Under the shares protocol, whether CS erases the bins of all columns, or by column, as soon as the
        forest is grown. It asks their owners again when it has to regrow something.
    candidates : {"quantile", "uniform"}
        Under the paper protocol, how an owner chooses candidate thresholds: at even ranks or, as printed
        in the paper, evenly spaced.
    n_candidates, n_sampled : int
        Under the paper protocol, how many thresholds an owner proposes at a node, and how many rows it
        samples for that.
    voting : {"hard", "soft"}
        A majority of the trees, as in the paper, or the mean of their probabilities.
    class_weight : dict, "balanced" or None
        The weight of each class, as in scikit-learn.
    parties : dict of str to list, or None
        Who owns which columns, by name or position: ``{"bank": ["age", "balance"], "telco": ["calls"]}``.
        None makes one party of every column, as in the paper. Columns of an array are called "x0", "x1", …
        within their party; give names, or parties, for a forest that stays the same when others leave.
    decimals : int, dict or None
        Digits after the point that count, for all columns or by column. Closer values are equal. None derives
        them from the training values, and so do columns that a dict does not name: the fewest with which
        every value is exact or, if there are none, with which distinct values stay distinct.
    key_bits : int
        The size of the paper protocol's keys: 3072 is about 128 bits of security, 2048 about 112.
    allow_insecure_keys : bool
        Accept keys below 2048 bits, for tests and simulations. Everything that shows such a model says
        INSECURE.
    random_state : int, RandomState or None
        Makes forests repeat. Parties' keys are always fresh; the modulus and the servers' shares are made
        once per process and key size.
    n_jobs : int or None
        The number of cores; -1 for all.
    verbose : int
        Whether to draw a progress bar.
    directory : str, path or None
        An empty directory in which every party keeps an SQLite database, with private keys and training
        rows. `open` opens the forest there, and finishes what was interrupted. None keeps everything in
        memory.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in ascending order.
    digest_ : str
        The digest of the forest's structure as CS knows it: rules, features, numbers of cuts, leaves.
        Thresholds are the owners' secret and not part of it.
    n_nodes_ : int
        The number of splits and leaves of all trees.
    costs_ : Costs
        The cost so far, by role, protocol and link; grows with every prediction.
    parties_ : dict
        The names of the columns of each party.
    leakage_, column_leakage_ : dict
        What each role has received so far, and how many bits of each value CS has received.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from revfrf import RevocableForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> parties = {"imaging": list(range(15)), "pathology": list(range(15, 30))}
    >>> model = RevocableForestClassifier(20, parties=parties, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseRevocableForest._parameter_constraints,
        "voting": [StrOptions({"hard", "soft"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    voting: str = "hard"
    class_weight: Mapping[Any, float] | str | None = None

    classes_: NDArray[Any] = field(init=False)

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return the class of each row, by FRF-Test: each party compares its own columns.

        If several classes have the most votes, it is the first of them in `classes_`.
        """
        return self._answers(self._votes(X))

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """Return the fraction of votes for each class or, with soft voting, the mean probability."""
        return self._votes(X).probabilities()

    def predict_proba_encrypted(
        self, X: Rows, requester: str | None = None, *, partial: bool = False
    ) -> NDArray[np.float64] | PartialAnswer:
        """Return what `predict_proba` returns, by FRF-Predict: only the requester sees X.

        See `predict_encrypted`.
        """
        return self._encrypted(X, requester, partial, Votes.probabilities)

    def _answers(self, votes: Votes) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[votes.classes()]
        return labels

    def _checked_voting(self) -> Voting:
        if self.voting not in ("hard", "soft"):
            raise UsageError(f"voting={self.voting!r}: give 'hard' or 'soft'")
        return "soft" if self.voting == "soft" else "hard"

    def _check_y(self, y: ArrayLike) -> NDArray[Any]:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return labels

    def _targets(
        self, numbers: NDArray[np.int64], y: NDArray[Any], weights: NDArray[np.float64], limits: _Limits
    ) -> Targets:
        if limits.target_range is not None:
            raise UsageError("target_range is for regressors; a classifier has `classes`")
        self.classes_, found = np.unique(y, return_inverse=True)
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not (np.isfinite(factors) & (factors >= 0)).all():
            raise UsageError("class_weight: weights must be finite and not negative")
        if limits.classes is not None:
            self.classes_, found, factors = _among(limits.classes, self.classes_, found, factors)
        labels = tuple(self.classes_.tolist())
        return class_targets(numbers, found, labels, weights, factors, limits.max_total_weight)

    def _record(self) -> EstimatorRecord:
        labels, dtype = self.targets_.scale.labels, self.classes_.dtype
        if dtype.kind not in "biufUO" or not all(isinstance(label, str | int | float) for label in labels):
            raise ModelFileError("only labels that are numbers or strings can be saved", kind="parameters")
        label_type = "" if dtype.kind == "U" else dtype.newbyteorder("<").str
        return msgspec.structs.replace(super()._record(), labels=labels, label_type=label_type)

    def _restore_labels(self, record: EstimatorRecord) -> None:
        if record.label_type not in _LABEL_TYPES or record.labels != self.targets_.scale.labels:
            raise ModelFileError("damaged: labels that do not fit the forest", kind="malformed")
        self.classes_ = np.array(record.labels, dtype=record.label_type or np.str_)


def _among(
    classes: ArrayLike, seen: NDArray[Any], found: NDArray[np.int64], factors: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
    """Return these classes, which must include all that were seen, with each row's class, and their weights.

    `found` and `factors` say which of the classes that were seen a row has, and how much these weigh.
    """
    listed = column_or_1d(classes)
    place = {label: i for i, label in enumerate(listed.tolist())}
    missing = [label for label in seen.tolist() if label not in place]
    if len(place) != len(listed) or missing:
        what = f"missing: {missing[:10]}" if missing else "one is listed twice"
        raise UsageError(f"classes: list each label once, and all of y's; {what}")
    places, weights = np.array([place[label] for label in seen.tolist()]), np.ones(len(listed))
    weights[places] = factors
    return listed, places[found], weights


class RevocableForestRegressor(PersistenceMixin, RevocationMixin, RegressorMixin, BaseRevocableForest):
    """A random forest for numbers, grown by parties who hold different columns of the same rows.

    Parameters, attributes and methods are those of `RevocableForestClassifier`, except for what belongs to
    classes: `voting`, `class_weight`, `classes_` and `predict_proba`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from revfrf import RevocableForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> parties = {"clinic": ["age", "sex", "bmi", "bp"], "laboratory": ["s1", "s2", "s3", "s4", "s5", "s6"]}
    >>> model = RevocableForestRegressor(20, parties=parties, random_state=0)
    >>> round(model.fit(X, y).score(X, y), 1)
    0.7
    """

    def predict(self, X: Rows) -> NDArray[np.float64]:
        """Return the mean of all trees for each row, by FRF-Test: each party compares its own columns."""
        return self._answers(self._votes(X))

    def _answers(self, votes: Votes) -> NDArray[np.float64]:
        return votes.numbers(self.targets_.scale.centre, self.targets_.scale.vote_places)

    def _check_y(self, y: ArrayLike) -> NDArray[Any]:
        column = column_or_1d(y, warn=True)
        checked: NDArray[Any] = check_array(column, ensure_2d=False, dtype=np.float64, input_name="y")
        return checked

    def _targets(
        self, numbers: NDArray[np.int64], y: NDArray[Any], weights: NDArray[np.float64], limits: _Limits
    ) -> Targets:
        if limits.classes is not None:
            raise UsageError("classes are for classifiers; a regressor has `target_range`")
        return number_targets(numbers, y, weights, limits.target_range, limits.max_total_weight)
