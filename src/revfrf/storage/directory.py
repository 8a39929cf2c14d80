"""A directory with a database for every party of a federation that lives in one process."""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from revfrf.errors import StorageError, UsageError
from revfrf.storage.database import Database
from revfrf.storage.memory import Shelf
from revfrf.storage.sqlite import SqliteCoordinatorStore, SqliteParticipantStore, SqliteStore

Kind = TypeVar("Kind", bound=SqliteStore)


class Directory(Shelf):
    """Databases in a directory, for its owner alone: a new and empty one, or one that was left."""

    def __init__(self, path: str | os.PathLike[str], *, new: bool) -> None:
        self.path, self.new = Path(path), new
        self._open: dict[Path, SqliteStore] = {}
        try:
            if new:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = {entry.name for entry in self.path.iterdir()}
        except FileNotFoundError:
            raise StorageError(f"{self.path}: there is no such directory", kind="missing") from None
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kind="io") from None
        if new and content:
            raise UsageError(
                f"directory={str(path)!r} is not empty; `open` the forest that is in it, or give another one"
            )

    def holds(self, role: str) -> bool:
        """Whether there is a database of this role."""
        return self._file(role, role).exists()

    def coordinator(self, role: str) -> SqliteCoordinatorStore:
        """See `Shelf.coordinator`."""
        return self._store(SqliteCoordinatorStore, role, role)

    def participant(self, role: str, name: str) -> SqliteParticipantStore:
        """See `Shelf.participant`."""
        return self._store(SqliteParticipantStore, role, name)

    def party(self, role: str, name: str) -> SqliteStore:
        """See `Shelf.party`."""
        return self._store(SqliteStore, role, name)

    def _store(self, kind: type[Kind], role: str, name: str) -> Kind:
        file = self._file(role, name)
        store = self._open.get(file)
        if not isinstance(store, kind):
            store = self._open[file] = kind(Database(file, create=self.new))
        return store

    def _file(self, role: str, name: str) -> Path:
        """Names may hold what file names may not: they are made plain, and told apart by a hash."""
        if name == role:
            return self.path / f"{role.lower()}.db"
        plain = re.sub("[^A-Za-z0-9_-]", "-", name)[:40]
        return self.path / f"{role.lower()}-{plain}-{sha256(name.encode()).hexdigest()[:8]}.db"

    def discard(self, role: str, name: str) -> None:
        """See `Shelf.discard`."""
        file = self._file(role, name)
        if file in self._open:
            self._open.pop(file).close()
        for path in (file, file.with_name(file.name + "-wal")):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """See `Shelf.close`."""
        while self._open:
            self._open.popitem()[1].close()
