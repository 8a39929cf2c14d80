"""Fitted forests in files, and in directories with a database for every party."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, Self

import numpy as np

from revfrf.errors import InsecureKeyError, ModelFileError, RevFRFError, StorageError, UsageError
from revfrf.estimators import _file
from revfrf.estimators._base import BaseRevocableForest
from revfrf.estimators._file import EstimatorRecord, SavedStores
from revfrf.estimators._layout import Layout
from revfrf.estimators._restore import check_restored, read_estimator, restored
from revfrf.messages.fle_expan import Column
from revfrf.parallel import workers
from revfrf.report.progress import level_progress
from revfrf.storage.directory import Directory
from revfrf.storage.memory import StoreFactory

FileError = type[ModelFileError] | type[StorageError]


@contextmanager
def _readable(error: FileError, path: object) -> Iterator[None]:
    """Turn every problem with what was kept into one kind of error that names the path."""
    try:
        yield
    except InsecureKeyError:
        raise
    except (ModelFileError, StorageError) as known:
        if isinstance(known, error):
            raise
        raise error(f"{path}: {known}", kind="malformed") from None
    except (RevFRFError, LookupError, ValueError, TypeError, OverflowError):
        raise error(
            f"{path}: damaged: its parts do not fit together; restore it from a backup", kind="malformed"
        ) from None


class PersistenceMixin(BaseRevocableForest):
    """Adds `save` and `load`, `open` and `close` to a forest."""

    def save(self, path: str | PathLike[str], *, private_keys: bool = False) -> None:
        """Write the fitted forest to a file, without pickle.

        The file holds every party's thresholds: it is as confidential as the columns. Requesters are not in
        it. Training rows and labels are not either, with one exception: under the shares protocol a file with
        private keys also holds the bins and labels of the training rows, so that participants can leave.

        Parameters
        ----------
        path : str or path
            The file. An older one is replaced.
        private_keys : bool
            Whether to save private keys as well. Without them a loaded forest can only `predict`.
        """
        self._check_whole()
        if waits_for := self.federation_.coordinator.certificates[-1].waits_for:
            names = ", ".join(waits_for)
            raise UsageError(f"nodes stay open until {names} is back; then call `revoke` again, and save")
        forest = _file.saved(self.federation_, self._record(), self.digest_, bool(private_keys))
        _file.write(path, forest)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a forest that `save` wrote.

        Raises
        ------
        ModelFileError
            The file is damaged, or holds something else.
        """
        forest = _file.read(path)
        model = cls._restored(SavedStores(forest.stores), path, forest.private_keys)
        if model.digest_ != forest.digest:
            raise ModelFileError(f"{path}: damaged: its digest is not that of its forest", kind="digest")
        return model

    @classmethod
    def open(
        cls, directory: str | PathLike[str], *, n_jobs: int | None = None, verbose: int | None = None
    ) -> Self:
        """Open the forest that `fit` keeps in a directory.

        A training or a revocation that was interrupted is resumed from the last committed step, and has the
        result that it would have had.

        Parameters
        ----------
        directory : str or path
            The directory that was given to `fit`.
        n_jobs, verbose : int or None
            New values of these parameters; None keeps the old ones.

        Raises
        ------
        StorageError
            The directory is damaged, in use, or holds no forest.
        """
        stores = Directory(directory, new=False)
        path = stores.path
        try:
            return cls._restored(stores, path, True, directory=str(path), n_jobs=n_jobs, verbose=verbose)
        except BaseException:
            stores.close()
            raise

    def close(self) -> None:
        """Release the directory, so that another process can `open` it.

        A closed forest answers nothing: another process may have changed it. A forest without a directory
        stays open.
        """
        if hasattr(self, "federation_"):
            self.federation_.stores.close()

    @classmethod
    def _restored(cls, stores: StoreFactory, path: object, private_keys: bool, **given: Any) -> Self:
        """Return the forest in these stores, with the parameters that are given instead of the saved ones."""
        on_disk = isinstance(stores, Directory)
        error: FileError = StorageError if on_disk else ModelFileError
        with _readable(error, path):
            record = read_estimator(stores)
            if record.kind != cls.__name__:
                raise error(f"{path}: holds a {record.kind}, not a {cls.__name__}", kind="wrong-kind")
            changed = {name: value for name, value in given.items() if value is not None}
            model = cls(**record.parameters | changed)
            federation = restored(
                stores,
                private_keys=private_keys,
                allow_insecure=model.allow_insecure_keys,
                n_jobs=workers(model.n_jobs),
            )
            model.targets_ = federation.coordinator.targets
            model._restore_labels(record)
            if on_disk:
                with level_progress(model.verbose) as progress:
                    federation.resume(progress)
            check_restored(federation, training_rows=on_disk)
            model.federation_ = federation
            model._restore_layout(record)
        return model

    def _restore_layout(self, record: EstimatorRecord) -> None:
        """Restore which column is whose; some parties may have left."""
        cs, n_features = self.federation_.coordinator, record.n_features
        owned = {party: positions for party, positions in record.owned.items() if party in cs.columns}
        placed = {
            position: column
            for party, positions in owned.items()
            for position, column in zip(positions, cs.columns[party], strict=True)
        }
        self.n_features_in_ = n_features
        if record.feature_names is not None:
            self.feature_names_in_ = np.array(record.feature_names, dtype=object)
        fits = owned.keys() == cs.columns.keys() and len(placed) == sum(map(len, owned.values()))
        fits &= all(0 <= position < n_features for position in placed)
        if not fits or (len(placed) < n_features and not cs.certificate.revoked):
            raise ModelFileError("damaged: columns that do not fit", kind="malformed")
        gone = Column("gone", 0, 32, None)  # of a party that has left
        self.layout_ = Layout(owned, tuple(placed.get(i, gone) for i in range(n_features)))

    def _restore_labels(self, record: EstimatorRecord) -> None:
        """Restore what `fit` has learnt from the targets; numbers have no labels."""
