"""A directory with a database for every party of a federation that lives in one process."""

import os
import re
from hashlib import sha256
from pathlib import Path

from revfrf.errors import StorageError, UsageError
from revfrf.io.files import check_writable_by_owner_alone
from revfrf.storage.database import Database
from revfrf.storage.memory import CoordinatorStore, Kept, ParticipantStore, Store, StoreFactory
from revfrf.storage.sqlite import SqliteCoordinatorStore, SqliteParticipantStore, SqliteStore

_ON_DISK: dict[type[Store], type[SqliteStore]] = {
    Store: SqliteStore,
    CoordinatorStore: SqliteCoordinatorStore,
    ParticipantStore: SqliteParticipantStore,
}


class Directory(StoreFactory):
    """Databases in a directory, for its owner alone: a new and empty one, or one that was left."""

    def __init__(self, path: str | os.PathLike[str], *, new: bool) -> None:
        if not str(path):
            raise UsageError("directory='': give the path of a directory")
        self.path = Path(path).expanduser().absolute()
        self._made = new and not self.path.exists()
        self._open: dict[Path, SqliteStore] = {}
        try:
            if new:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = {entry.name for entry in self.path.iterdir()}
        except FileNotFoundError:
            raise StorageError(f"{self.path}: there is no such directory", kind="missing") from None
        except (FileExistsError, NotADirectoryError):
            raise StorageError(
                f"{self.path}: a file, and no directory; `load` reads what `save` wrote", kind="wrong-kind"
            ) from None
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kind="io") from None
        check_writable_by_owner_alone(self.path)
        if new and content:
            raise UsageError(
                f"directory={str(path)!r} is not empty; `open` the forest that is in it, or give another one"
            )

    def store(self, kind: type[Kept], role: str, name: str, *, create: bool = True) -> Kept:
        """See `Shelf.store`."""
        file = self._file(role, name)
        store = self._open.get(file)
        if store is None:
            database = Database(file, create=create)
            try:
                store = self._open[file] = _ON_DISK[kind](database)
            except BaseException:
                database.close()
                raise
        if not isinstance(store, kind):
            raise StorageError(f"{file}: open as another kind of store", kind="in-use")
        return store

    def _file(self, role: str, name: str) -> Path:
        """Names may hold what file names may not: they are made plain, and told apart by a hash."""
        if name == role:
            return self.path / f"{role.lower()}.db"
        plain = re.sub("[^A-Za-z0-9_-]", "-", name)[:40]
        return self.path / f"{role.lower()}-{plain}-{sha256(name.encode()).hexdigest()[:32]}.db"

    @property
    def databases(self) -> list[Path]:
        """The files that are there."""
        return sorted(self.path.glob("*.db"))

    def discard(self, role: str, name: str) -> None:
        """See `Shelf.discard`."""
        self._remove(self._file(role, name))

    def _remove(self, file: Path) -> None:
        if file in self._open:
            self._open.pop(file).close()
        try:
            for path in (file, file.with_name(file.name + "-wal")):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{file}: cannot be removed: {error.strerror}", kind="io") from None

    def worth_keeping(self) -> bool:
        """Whether there is a forest in it that could be opened."""
        return any(store.holds("forest") for store in self._open.values())

    def undo(self) -> None:
        """Remove what was made here, as if there had been nothing."""
        for file in list(self._open):
            self._remove(file)
        if self._made:
            self.path.rmdir()

    def check(self) -> None:
        """See `Shelf.check`."""
        for store in self._open.values():
            store.database.check()

    def close(self) -> None:
        """See `Shelf.close`."""
        for store in self._open.values():
            store.close()
