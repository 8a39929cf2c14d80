"""Which cases of a costly test `make test` runs; `make test-all` runs all of them."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """These cases in their order; all but the chosen ones are slow."""
    known = list(cases)
    assert chosen
    assert all(case in known for case in chosen)
    return [case if case in chosen else slow(case) for case in known]


def slow(case: Any) -> Any:
    """A case, a tuple if it has several values, that is slow."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
