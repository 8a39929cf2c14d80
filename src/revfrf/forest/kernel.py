"""Compiled loops. The only module that knows Numba.

A kernel is an ordinary function of numbers and arrays, compiled at its first call. The machine code is kept
on disk (beside the source, in the user's cache, or in NUMBA_CACHE_DIR), so that only the first process ever
waits. Kernels release the GIL: threads scale.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Trees = NDArray[np.uint32]
Paths = NDArray[np.uint64]
Rows = NDArray[np.uint32]
Numbers = NDArray[np.uint32]

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function of numbers and arrays."""
    try:
        compiled: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to write: compile in every process
        compiled = numba.njit(nogil=True)(function)
    return cast(Function, compiled)
