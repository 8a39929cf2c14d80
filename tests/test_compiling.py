"""Whether a kernel has to be compiled is known before it is called."""

import os
import subprocess
import sys
from pathlib import Path

_ASK = """
import numpy as np
from revfrf.forest.books import bins_of
from revfrf.parallel import is_compiled
print(is_compiled(bins_of))
bins_of(np.zeros(1, np.int64), np.zeros(1, np.int64))
print(is_compiled(bins_of))
"""


def ask(**variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_only_the_first_process_compiles(tmp_path: Path) -> None:
    assert ask(NUMBA_CACHE_DIR=str(tmp_path)) == ["False", "True"]
    assert ask(NUMBA_CACHE_DIR=str(tmp_path)) == ["True", "True"]


def test_a_change_of_the_source_is_compiled(tmp_path: Path) -> None:
    ask(NUMBA_CACHE_DIR=str(tmp_path))
    for older in tmp_path.rglob("*.nbi"):
        os.utime(older, (0, 0))
    assert ask(NUMBA_CACHE_DIR=str(tmp_path))[0] == "False"
