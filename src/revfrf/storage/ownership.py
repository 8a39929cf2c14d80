"""Files and directories that nobody but their owner can change."""

import os
import shlex
from pathlib import Path

from revfrf.errors import StorageError


def check_writable_by_owner_alone(path: Path) -> None:
    """Raise StorageError for a file that others could change, or a directory in which they could."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise StorageError(
            f"{path}: it belongs to another user; run this as that user, or have it given to you by chown",
            kind="mode",
        )
    if status.st_mode & 0o022:
        mode = "700" if path.is_dir() else "600"
        raise StorageError(
            f"{path}: others can write to it; run: chmod {mode} {shlex.quote(str(path))}", kind="mode"
        )
