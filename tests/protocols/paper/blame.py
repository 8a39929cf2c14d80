"""Who is blamed when a protocol ends early."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from revfrf.errors import PartyError, RefusedError


@contextmanager
def blamed(party: str, error: type[PartyError] = RefusedError) -> Iterator[None]:
    """The block must end with this error, and the error must name this party."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.party == party


def u4(*values: int) -> bytes:
    """Counts as they travel."""
    return np.array(values, "<u4").tobytes()
