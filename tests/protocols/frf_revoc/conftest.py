"""A federation that anybody can leave, and no search for primes."""

import pytest

from revfrf.embedded.federation import Federation
from revfrf.testing.federations import train
from tests.protocols.frf_revoc.leaving import CASE


@pytest.fixture(autouse=True)
def _no_search(prepared_moduli: None) -> None:
    """For all tests here."""


@pytest.fixture
def federation() -> Federation:
    return train(CASE)
