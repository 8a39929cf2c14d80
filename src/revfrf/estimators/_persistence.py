"""Fitted forests in files, and in directories in which every party keeps what it knows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Self

import msgspec
import numpy as np

from revfrf.errors import InsecureKeyError, ModelFileError, StorageError
from revfrf.estimators import _file_format
from revfrf.estimators._base import BaseRevocableForest
from revfrf.estimators._file_format import SavedEstimator
from revfrf.estimators._layout import Layout
from revfrf.estimators._reopen import read_estimator, reopened, resume
from revfrf.forest.criterion import Targets
from revfrf.messages.fle_expan import Column
from revfrf.parallel import workers
from revfrf.report.progress import level_progress
from revfrf.storage.directory import Directory

FileError = type[ModelFileError] | type[StorageError]


@contextmanager
def _readable(error: FileError, path: object) -> Iterator[None]:
    """Whatever is wrong with what was kept, as one kind of error that names the path."""
    try:
        yield
    except (ModelFileError, StorageError, InsecureKeyError) as known:
        if isinstance(known, error | InsecureKeyError):
            raise
        raise error(f"{path}: {known}", kind="malformed") from None
    except (TypeError, ValueError, IndexError, KeyError):
        raise error(f"{path}: damaged", kind="malformed") from None


class PersistenceMixin(BaseRevocableForest):
    """A forest that outlives its process."""

    def save(self, path: str | PathLike[str], *, private_keys: bool = False) -> None:
        """Write the fitted forest to a file, without pickle; `load` reads it.

        The file holds every party's cuts: it is as confidential as the columns. Training rows and labels
        are not in it. Private keys are, if asked for; without them the loaded forest predicts, and no more.
        """
        self._check_whole()
        forest = _file_format.saved(self.federation_, self._saved_estimator(), self.digest_, private_keys)
        _file_format.write(path, forest)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The forest that `save` wrote. Raises ModelFileError for a file that is damaged or another."""
        forest = _file_format.read(path)
        with _readable(ModelFileError, path):
            model, saved = cls._like(forest.estimator, ModelFileError, path), forest.estimator
            model._restore(saved, forest.columns, bool(forest.certificate.revoked))
            model._restore_labels(saved)
            model.targets_ = Targets.unknown(saved.n_classes, saved.centre, saved.places)
            model.federation_ = _file_format.restored(
                forest, model.targets_, model.allow_insecure_keys, workers(model.n_jobs)
            )
        if model.digest_ != forest.digest:
            raise ModelFileError(f"{path}: damaged: its digest is not that of its forest", kind="digest")
        return model

    @classmethod
    def open(
        cls, directory: str | PathLike[str], *, n_jobs: int | None = None, verbose: int | None = None
    ) -> Self:
        """The forest that `fit` keeps in a directory.

        Whatever was going on when its process ended, training or a revocation, goes on from the last step
        that was committed, and ends as it would have ended. `n_jobs` and `verbose` are as they were, unless
        they are given. Raises StorageError.
        """
        stores = Directory(directory, new=False)
        try:
            with _readable(StorageError, stores.path):
                saved = read_estimator(stores)
                model = cls._like(saved, StorageError, stores.path)
                model.directory = str(stores.path)
                model.n_jobs = model.n_jobs if n_jobs is None else n_jobs
                model.verbose = model.verbose if verbose is None else verbose
                model._reopen(stores, saved)
        except BaseException:
            stores.close()
            raise
        return model

    def _reopen(self, stores: Directory, saved: SavedEstimator) -> None:
        federation = reopened(stores, self.allow_insecure_keys, workers(self.n_jobs))
        cs = federation.coordinator
        self.targets_ = cs.targets
        self._restore_labels(saved)
        with level_progress(self.verbose) as progress:
            resume(federation, stores, self._digest_fields(), progress)
        owned = {party: columns for party, columns in saved.owned.items() if party in cs.columns}
        staying = msgspec.structs.replace(saved, owned=owned)
        self._restore(staying, cs.columns, bool(cs.certificate.revoked))
        self.federation_ = federation

    def close(self) -> None:
        """Let another process `open` the directory; a forest without one stays open.

        A closed forest answers nothing: another process may have changed it.
        """
        if hasattr(self, "federation_"):
            self.federation_.stores.close()

    @classmethod
    def _like(cls, saved: SavedEstimator, error: FileError, path: object) -> Self:
        """An estimator with the parameters that were kept."""
        if saved.kind != cls.__name__:
            raise error(f"{path}: holds a {saved.kind}, not a {cls.__name__}", kind="wrong-kind")
        return cls(**saved.parameters)

    def _saved_estimator(self) -> SavedEstimator:
        names = getattr(self, "feature_names_in_", None)
        return SavedEstimator(
            kind=type(self).__name__,
            parameters={k: _file_format.plain(k, v) for k, v in self._kept_parameters().items()},
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

    def _restore_labels(self, saved: SavedEstimator) -> None:
        """What is known of the targets; numbers have no labels."""
