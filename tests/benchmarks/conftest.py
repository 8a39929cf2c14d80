"""The made-up sets, written once for all tests."""

from pathlib import Path

import pytest

from tests.benchmarks.made_sets import write


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data"))
