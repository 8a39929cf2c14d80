"""A directory with a database for every party of a federation that runs in one process."""

import os
import re
from hashlib import sha256
from pathlib import Path

from revfrf.errors import StorageError, UsageError
from revfrf.io.files import check_writable_by_owner_alone
from revfrf.storage.memory import StoreFactory
from revfrf.storage.sqlite import Database


class Directory(StoreFactory):
    """Databases in a directory that only its owner may use: a new and empty one, or an existing one."""

    def __init__(self, path: str | os.PathLike[str], *, new: bool) -> None:
        super().__init__()
        if not str(path):
            raise UsageError("directory='': give the path of a directory")
        self.path = Path(path).expanduser().absolute()
        self._made = new and not self.path.exists()
        try:
            if new:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = {entry.name for entry in self.path.iterdir()}
        except FileNotFoundError:
            raise StorageError(f"{self.path}: there is no such directory", kind="missing") from None
        except (FileExistsError, NotADirectoryError):
            raise StorageError(
                f"{self.path}: a file, not a directory; `load` reads what `save` wrote", kind="wrong-kind"
            ) from None
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kind="io") from None
        check_writable_by_owner_alone(self.path)
        if new and content:
            raise UsageError(
                f"directory={str(path)!r} is not empty; `open` the forest in it, or give another directory"
            )

    def _tables(self, role: str, name: str, create: bool) -> Database:
        return Database(self._file(role, name), create=create)

    def _file(self, role: str, name: str) -> Path:
        """Return a party's file. Unusual characters are replaced; a hash keeps names apart."""
        if name == role:
            return self.path / f"{role.lower()}.db"
        plain = re.sub("[^A-Za-z0-9_-]", "-", name)[:40]
        return self.path / f"{role.lower()}-{plain}-{sha256(name.encode()).hexdigest()[:32]}.db"

    @property
    def databases(self) -> list[Path]:
        return sorted(self.path.glob("*.db"))

    def discard(self, role: str, name: str) -> None:
        super().discard(role, name)
        file = self._file(role, name)
        try:
            for path in (file, file.with_name(file.name + "-wal")):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{file}: cannot be removed: {error.strerror}", kind="io") from None

    def abandon(self) -> None:
        """A forest that could be opened stays; so it does if nobody knows."""
        try:
            begun = any(store.tables.fact("forest") is not None for store in self._open.values())
        except StorageError:  # a step has failed
            begun = True
        if not begun:
            for role, name in list(self._open):
                self.discard(role, name)
            if self._made:
                self.path.rmdir()
        self.close()
