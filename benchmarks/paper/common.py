"""What all of it shares: units, keys of a size, and a clock."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from revfrf.crypto.dtpkc.keys import SECURE_KEY_BITS

TOY_BITS = 256
MEGABYTE = 1_000_000


def keys(bits: int) -> dict[str, Any]:
    """An estimator's parameters for keys of this size."""
    return {"protocol": "paper", "key_bits": bits, "allow_insecure_keys": bits < SECURE_KEY_BITS}


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    started = perf_counter()
    run()
    return perf_counter() - started
