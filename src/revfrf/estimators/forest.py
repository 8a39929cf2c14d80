"""The two estimators: a forest of classes and one of numbers."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from revfrf.crypto.canonical import Field
from revfrf.errors import ModelFileError, UsageError
from revfrf.estimators._base import Rows
from revfrf.estimators._encrypted import PartialAnswer
from revfrf.estimators._file_format import SavedEstimator
from revfrf.estimators._revocation import RevocationMixin
from revfrf.forest.criterion import Targets
from revfrf.forest.voting import Voting, numbers

_LABEL_TYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "|O")
"""Types of labels that are not strings."""


class RevocableForestRegressor(RegressorMixin, RevocationMixin):
    """A random forest for numbers, grown by parties who hold different columns of the same rows.

    All roles run in this process and exchange the protocol's messages; every split is stored encrypted
    under its owner's key. NaN and None are missing values, below every number; a category that `fit` has not
    seen is missing, too. `predict_encrypted` answers requests that nobody but the requester can read, if the
    owners' policies (`set_policy`) accept who asks (`enrol_requester`). `revoke` lets participants leave, and
    proves it. `save` and `load` keep forests in files, `leakage_()` says what each role received.

    Parameters
    ----------
    n_estimators : int
        How many trees.
    max_depth : int or None
        The depth of the deepest leaf, at most 62; None is 62.
    max_features : {"sqrt", "log2"}, int, float or None
        How many features are candidates at a node on average: √F or log2 F of F features, or this many. A
        float is the probability π with which each feature is one; None is all.
    min_samples_split, min_samples_leaf : int
        The fewest rows of a node that is split, and of a leaf.
    bootstrap : bool
        Whether each tree draws its rows with replacement.
    candidates : {"quantile", "uniform"}
        How an owner chooses candidate cuts: at even ranks, or, as in the paper, evenly spaced.
    n_candidates, n_sampled : int
        How many cuts an owner proposes at a node, and how many rows it samples for that.
    parties : dict of str to list, or None
        Who owns which columns, by name or position: ``{"bank": ["age", "balance"], "telco": ["calls"]}``.
        None makes one party of every column, as in the paper. Columns of an array are called "x0", "x1", …
        within their party; give names, or parties, for a forest that stays the same when others leave.
    decimals : int or dict
        Digits after the point that count, for all columns or by column. Values closer than that are equal.
    key_bits : int
        Size of the keys: 3072 is about 128 bits of security, 2048 about 112.
    allow_insecure_keys : bool
        Accept keys below 2048 bits, for tests and simulations. Everything that shows such a model says
        INSECURE.
    random_state : int, RandomState or None
        Makes forests repeat. Parties' keys are always fresh; the modulus and the servers' shares are made
        once per process and key size.
    n_jobs : int or None
        Cores; -1 for all.
    verbose : int
        Whether to draw a progress bar.
    directory : str, path or None
        An empty directory in which every party keeps what it knows, private keys and training rows
        included, in an SQLite database of its own. `open` finds the forest there, and ends what was going on
        when the process ended. None keeps everything in memory.

    Attributes
    ----------
    digest_ : str
        The name of the forest's structure as CS knows it: rules, features, numbers of cuts, leaves. Where the
        cuts lie is the owners' secret and not in it.
    n_nodes_ : int
        Splits and leaves of all trees.
    costs_ : Costs
        What the run has cost, by role, protocol and link; grows with every prediction.
    parties_ : dict
        The names of the columns of each party.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from revfrf import RevocableForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> parties = {"clinic": ["age", "sex", "bmi", "bp"], "laboratory": ["s1", "s2", "s3", "s4", "s5", "s6"]}
    >>> toy = {"key_bits": 256, "allow_insecure_keys": True}
    >>> model = RevocableForestRegressor(20, parties=parties, random_state=0, **toy)
    >>> round(model.fit(X, y).score(X, y), 1)
    0.7
    """

    def predict(self, X: Rows) -> NDArray[np.float64]:
        """The mean of all trees for each row, by FRF-Test: each party compares its own columns itself."""
        return self._answers(self._votes(X, self._checked_voting()))

    def _answers(self, votes: NDArray[np.float64]) -> NDArray[np.float64]:
        return numbers(votes, self.targets_.centre, self.targets_.places)

    def _checked_voting(self) -> Voting:
        return "soft"

    def _check_y(self, y: ArrayLike) -> NDArray[Any]:
        column = column_or_1d(y, warn=True)
        checked: NDArray[Any] = check_array(column, ensure_2d=False, dtype=np.float64, input_name="y")
        return checked

    def _class_weights(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return np.ones(len(y))

    def _targets(self, y: NDArray[Any], weights: NDArray[np.float64], repeats: NDArray[np.uint8]) -> Targets:
        return Targets.regression(y, weights, repeats)

    def _settle(self, y: NDArray[Any]) -> None:
        """Nothing is learnt from the targets but the forest."""

    def _digest_fields(self) -> tuple[Field, ...]:
        return ("regression", self.targets_.centre.hex(), self.targets_.places)


class RevocableForestClassifier(ClassifierMixin, RevocationMixin):
    """A random forest for classes, grown by parties who hold different columns of the same rows.

    All roles run in this process and exchange the protocol's messages; every split is stored encrypted under
    its owner's key. NaN and None are missing values, below every number; a category that `fit` has not seen
    is missing, too. `predict_encrypted` and `predict_proba_encrypted` answer requests that nobody but the
    requester can read, if the owners' policies (`set_policy`) accept who asks (`enrol_requester`). `revoke`
    lets participants leave, and proves it. `save` and `load` keep forests in files, `leakage_()` says what
    each role received.

    Parameters
    ----------
    voting : {"hard", "soft"}
        A majority of the trees, as in the paper, or the mean of their probabilities.
    class_weight : dict, "balanced" or None
        The weight of each class, as in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in ascending order.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from revfrf import RevocableForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> parties = {"imaging": list(range(15)), "pathology": list(range(15, 30))}
    >>> toy = {"key_bits": 256, "allow_insecure_keys": True}
    >>> model = RevocableForestClassifier(20, parties=parties, random_state=0, **toy)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RevocationMixin._parameter_constraints,
        "voting": [StrOptions({"hard", "soft"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    classes_: NDArray[Any]

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = 10,
        max_features: str | int | float | None = "sqrt",
        min_samples_split: int = 2,
        min_samples_leaf: int = 5,
        bootstrap: bool = True,
        candidates: str = "quantile",
        n_candidates: int = 32,
        n_sampled: int = 128,
        voting: str = "hard",
        class_weight: Mapping[Any, float] | str | None = None,
        parties: Mapping[str, Iterable[int | str]] | None = None,
        decimals: int | Mapping[int | str, int] = 6,
        key_bits: int = 3072,
        allow_insecure_keys: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        directory: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            n_estimators,
            max_depth=max_depth,
            max_features=max_features,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            bootstrap=bootstrap,
            candidates=candidates,
            n_candidates=n_candidates,
            n_sampled=n_sampled,
            parties=parties,
            decimals=decimals,
            key_bits=key_bits,
            allow_insecure_keys=allow_insecure_keys,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            directory=directory,
        )
        self.voting = voting
        self.class_weight = class_weight

    def predict(self, X: Rows) -> NDArray[Any]:
        """The class of each row, by FRF-Test: each party compares its own columns itself.

        Of classes with equally many votes, the first of `classes_`.
        """
        return self._answers(self.predict_proba(X))

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """The share of the trees' votes for each class, or, with soft voting, their mean probabilities."""
        return self._votes(X, self._checked_voting())

    def predict_proba_encrypted(
        self, X: Rows, requester: str | None = None, *, partial: bool = False
    ) -> NDArray[np.float64] | PartialAnswer:
        """What `predict_proba` answers, by FRF-Predict: nobody but the requester sees X.

        See `predict_encrypted`.
        """
        answer: NDArray[np.float64] | PartialAnswer
        answer = self._encrypted(X, requester, partial, lambda votes: votes)
        return answer

    def _answers(self, votes: NDArray[np.float64]) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[votes.argmax(axis=1)]
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

    def _class_weights(self, y: NDArray[Any]) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = compute_sample_weight(self.class_weight, y)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise UsageError("class_weight: weights are finite numbers, and not negative")
        return weights

    def _targets(self, y: NDArray[Any], weights: NDArray[np.float64], repeats: NDArray[np.uint8]) -> Targets:
        classes, numbers = np.unique(y, return_inverse=True)
        return Targets.classes(numbers.astype(np.int64), len(classes), weights, repeats)

    def _settle(self, y: NDArray[Any]) -> None:
        self.classes_ = np.unique(y)

    def _digest_fields(self) -> tuple[Field, ...]:
        return ("classes", *(repr(label) for label in self.classes_.tolist()))

    def _saved_estimator(self) -> SavedEstimator:
        labels = tuple(self.classes_.tolist())
        if self.classes_.dtype.kind not in "biufUO" or not all(
            isinstance(x, str | int | float) for x in labels
        ):
            raise ModelFileError("only labels that are numbers or strings can be saved", kind="parameters")
        saved = super()._saved_estimator()
        width = max((len(label) for label in labels if isinstance(label, str)), default=0)
        strings = self.classes_.dtype.kind == "U"
        label_type = f"<U{width}" if strings else self.classes_.dtype.newbyteorder("<").str
        return msgspec.structs.replace(saved, labels=labels, label_type=label_type)

    def _restore_labels(self, saved: SavedEstimator) -> None:
        width = max((len(label) for label in saved.labels if isinstance(label, str)), default=0)
        if saved.label_type not in (*_LABEL_TYPES, f"<U{width}") or len(saved.labels) != saved.n_classes:
            raise ModelFileError("damaged: labels that do not fit the forest", kind="malformed")
        self.classes_ = np.array(saved.labels, dtype=np.dtype(saved.label_type))


def _share_documentation() -> None:
    """Give both classes the parameters and attributes that they share, written down once."""
    shared, own = RevocableForestRegressor.__doc__ or "", RevocableForestClassifier.__doc__ or ""
    for heading, following in (("Parameters", "Attributes"), ("Attributes", "Examples")):
        line = f"    {heading}\n    {'-' * len(heading)}\n"
        both = shared.partition(line)[2].partition(f"    {following}\n")[0]
        own = own.replace(line, line + both.rstrip() + "\n", 1)
    RevocableForestClassifier.__doc__ = own


_share_documentation()
