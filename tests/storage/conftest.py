"""Where a test may make a database."""

from pathlib import Path

import pytest

from tests.storage.databases import closed_at_the_end

__all__ = ["closed_at_the_end"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "party.db"
