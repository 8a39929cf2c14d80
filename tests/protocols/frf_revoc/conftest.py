"""A federation that anybody can leave, and no search for primes."""

from collections.abc import Iterator

import pytest

from revfrf.federation import Federation
from tests.federations import no_search_for_primes, train
from tests.protocols.frf_revoc.leaving import CASE


@pytest.fixture(scope="module", autouse=True)
def _prepared_moduli() -> Iterator[None]:
    with no_search_for_primes():
        yield


@pytest.fixture
def federation() -> Federation:
    return train(CASE)
