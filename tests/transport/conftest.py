"""What every test of this folder needs."""

from collections.abc import Iterator

import pytest

from tests.transport.links import OPEN


@pytest.fixture(autouse=True)
def _close_endpoints() -> Iterator[None]:
    """Close what a test has opened; what its module has opened for all tests stays."""
    before = len(OPEN)
    yield
    while len(OPEN) > before:
        OPEN.pop().close()
