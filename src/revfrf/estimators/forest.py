"""The two estimators: a forest of classes and one of numbers."""

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from os import PathLike
from typing import Any, ClassVar, TypeVar

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
from revfrf.estimators._base import BaseRevocableForest, Rows
from revfrf.estimators._encrypted import EncryptedPredictionMixin, PartialAnswer
from revfrf.estimators._file import EstimatorRecord
from revfrf.estimators._persistence import PersistenceMixin
from revfrf.estimators._revocation import RevocationMixin
from revfrf.forest.criterion import Targets
from revfrf.forest.voting import Voting, numbers

Kind = TypeVar("Kind", bound=BaseRevocableForest)

_LABEL_TYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "|O")
"""NumPy types of labels other than text."""


def _documented(kind: type[Kind]) -> type[Kind]:
    """Add what the base class says of both estimators to the docstring of one."""
    own, both = (
        cleandoc(documented.__doc__ or "").split("\n\n") for documented in (kind, BaseRevocableForest)
    )
    title, *sections, examples = own
    added = [section.partition("----------")[2] for section in sections] or ["", ""]
    _, about, parameters, attributes = both
    kind.__doc__ = "\n\n".join([title, about, parameters + added[0], attributes + added[1], examples])
    return kind


@_documented
class RevocableForestRegressor(
    PersistenceMixin, EncryptedPredictionMixin, RevocationMixin, RegressorMixin, BaseRevocableForest
):
    """A random forest for numbers, grown by parties who hold different columns of the same rows.

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
        """Return the mean of all trees for each row, by FRF-Test: each party compares its own columns."""
        return self._answers(self._votes(X))

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

    def _digest_fields(self) -> tuple[Field, ...]:
        return ("regression", self.targets_.centre.hex(), self.targets_.places)


@_documented
class RevocableForestClassifier(
    PersistenceMixin, EncryptedPredictionMixin, RevocationMixin, ClassifierMixin, BaseRevocableForest
):
    """A random forest for classes, grown by parties who hold different columns of the same rows.

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
        **BaseRevocableForest._parameter_constraints,
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
        """Return the class of each row, by FRF-Test: each party compares its own columns.

        If several classes have the most votes, it is the first of them in `classes_`.
        """
        return self._answers(self.predict_proba(X))

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """Return the fraction of votes for each class or, with soft voting, the mean probability."""
        return self._votes(X)

    def predict_proba_encrypted(
        self, X: Rows, requester: str | None = None, *, partial: bool = False
    ) -> NDArray[np.float64] | PartialAnswer:
        """Return what `predict_proba` returns, by FRF-Predict: only the requester sees X.

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
            raise UsageError("class_weight: weights must be finite and not negative")
        return weights

    def _targets(self, y: NDArray[Any], weights: NDArray[np.float64], repeats: NDArray[np.uint8]) -> Targets:
        self.classes_, numbers = np.unique(y, return_inverse=True)
        return Targets.classes(numbers.astype(np.int64), len(self.classes_), weights, repeats)

    def _digest_fields(self) -> tuple[Field, ...]:
        return ("classes", *(repr(label) for label in self.classes_.tolist()))

    def _record(self) -> EstimatorRecord:
        labels, dtype = tuple(self.classes_.tolist()), self.classes_.dtype
        if dtype.kind not in "biufUO" or not all(isinstance(label, str | int | float) for label in labels):
            raise ModelFileError("only labels that are numbers or strings can be saved", kind="parameters")
        label_type = _text_type(labels) if dtype.kind == "U" else dtype.newbyteorder("<").str
        return msgspec.structs.replace(super()._record(), labels=labels, label_type=label_type)

    def _restore_labels(self, record: EstimatorRecord) -> None:
        known = (*_LABEL_TYPES, _text_type(record.labels))
        if record.label_type not in known or len(record.labels) != self.targets_.n_classes:
            raise ModelFileError("damaged: labels that do not fit the forest", kind="malformed")
        self.classes_ = np.array(record.labels, dtype=np.dtype(record.label_type))


def _text_type(labels: Iterable[object]) -> str:
    """Return the NumPy type of text as long as the longest of these labels."""
    return f"<U{max((len(label) for label in labels if isinstance(label, str)), default=0)}"
