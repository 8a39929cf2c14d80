"""Fitted forests in files, and in directories in which every party keeps what it knows."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

import msgspec
import numpy as np
from sklearn.utils.validation import check_is_fitted

from revfrf import model_file
from revfrf.crypto.parallel import workers
from revfrf.errors import InsecureKeyError, ModelFileError, StorageError
from revfrf.estimator_base import RevocableForest
from revfrf.forest.criterion import Targets
from revfrf.messages.training import Column
from revfrf.model_file import SavedEstimator
from revfrf.protocols.epoch import CS, KGC
from revfrf.reopening import reopened, resume
from revfrf.report.progress import level_progress
from revfrf.roles.coordinator import ForestRecord
from revfrf.storage.directory import Directory
from revfrf.tables import Layout


def _read_estimator(shelf: Directory) -> SavedEstimator:
    """What CS keeps of the estimator. Raises StorageError if there is no forest in the directory yet."""
    if not shelf.holds(KGC):
        raise StorageError(f"{shelf.path}: there is no forest in this directory", kind="missing")
    try:
        cs = shelf.coordinator(CS)
        saved, forest = cs.read("estimator", SavedEstimator), cs.read("forest", ForestRecord)
    except StorageError as error:
        if error.kind != "missing":
            raise
        saved = forest = None
    if saved is None or forest is None:
        raise StorageError(
            f"{shelf.path}: training had not begun; remove the directory, and fit again", kind="missing"
        )
    return saved


class KeptForest(RevocableForest):
    """A forest that outlives its process."""

    def save(self, path: str | PathLike[str], *, private_keys: bool = False) -> None:
        """Write the fitted forest to a file, without pickle; `load` reads it.

        The file holds every party's cuts: it is as confidential as the columns. Training rows and labels
        are not in it. Private keys are, if asked for; without them the loaded forest predicts, and no more.
        """
        check_is_fitted(self)
        forest = model_file.saved(self.federation_, self._saved_estimator(), self.digest_, private_keys)
        model_file.write(path, forest)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The forest that `save` wrote. Raises ModelFileError for a file that is damaged or another."""
        forest = model_file.read(path)
        if forest.estimator.kind != cls.__name__:
            raise ModelFileError(
                f"{path}: holds a {forest.estimator.kind}, not a {cls.__name__}", kind="wrong-kind"
            )
        try:
            model = cls(**forest.estimator.parameters)
            saved = forest.estimator
            model._restore(saved, forest.columns, bool(forest.certificate.revoked))
            model.targets_ = Targets.unknown(saved.n_classes, saved.centre, saved.places)
            model.federation_ = model_file.restored(
                forest, model.targets_, model.allow_insecure_keys, workers(model.n_jobs)
            )
        except InsecureKeyError:
            raise
        except (TypeError, ValueError, IndexError, KeyError):
            raise ModelFileError(f"{path}: damaged", kind="malformed") from None
        if model.digest_ != forest.digest:
            raise ModelFileError(f"{path}: damaged: its digest is not that of its forest", kind="digest")
        return model

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """The forest that `fit` keeps in a directory.

        Whatever was going on when its process ended, training or a revocation, goes on from the last step
        that was committed, and ends as it would have ended. Raises StorageError.
        """
        shelf = Directory(directory, new=False)
        try:
            return cls._opened(shelf)
        except BaseException:
            shelf.close()
            raise

    @classmethod
    def _opened(cls, shelf: Directory) -> Self:
        saved = _read_estimator(shelf)
        if saved.kind != cls.__name__:
            raise StorageError(f"{shelf.path}: holds a {saved.kind}, not a {cls.__name__}", kind="wrong-kind")
        model = cls(**saved.parameters)
        model.directory = str(shelf.path)
        federation = reopened(shelf, model.allow_insecure_keys, workers(model.n_jobs))
        cs = federation.coordinator
        model.targets_ = cs.targets
        model._restore_labels(saved)
        with level_progress(model.verbose) as progress:
            resume(federation, shelf, model._digest_fields(), progress)
        left = bool(cs.certificate.revoked)
        owned = {party: saved.owned[party] for party in cs.columns}
        model._restore(msgspec.structs.replace(saved, owned=owned), cs.columns, left)
        model.federation_ = federation
        return model

    def close(self) -> None:
        """Let another process `open` the directory; without one, nothing happens."""
        check_is_fitted(self)
        self.federation_.shelf.close()

    def _saved_estimator(self) -> SavedEstimator:
        names = getattr(self, "feature_names_in_", None)
        return SavedEstimator(
            kind=type(self).__name__,
            parameters={k: model_file.plain(k, v) for k, v in self._kept_parameters().items()},
            owned=dict(self.layout_.owned),
            feature_names=None if names is None else tuple(names.tolist()),
            n_features=self.n_features_in_,
            n_classes=self.targets_.n_classes,
            centre=self.targets_.centre,
            places=self.targets_.places,
        )

    def _kept_parameters(self) -> dict[str, Any]:
        """Not where the forest was kept: it may be somewhere else when it is read."""
        return {**self.get_params(deep=False), "directory": None}

    def _restore(self, saved: SavedEstimator, columns: Mapping[str, Sequence[Column]], left: bool) -> None:
        """The estimator's own state, of a forest with these columns, which some parties may have left."""
        placed = {
            position: column
            for party, owned in saved.owned.items()
            for position, column in zip(owned, columns[party], strict=True)
        }
        self.n_features_in_ = saved.n_features
        if saved.feature_names is not None:
            self.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        every, n_owned = set(range(saved.n_features)), sum(map(len, saved.owned.values()))
        all_there = set(placed) == every or left
        if not (set(placed) <= every and len(placed) == n_owned and all_there):
            raise ModelFileError("damaged: columns that do not fit", kind="malformed")
        gone = Column("gone", 0, None)  # with who has left
        self.layout_ = Layout(saved.owned, tuple(placed.get(i, gone) for i in range(saved.n_features)))
        self._restore_labels(saved)

    def _restore_labels(self, saved: SavedEstimator) -> None:
        """What is known of the targets; numbers have no labels."""
