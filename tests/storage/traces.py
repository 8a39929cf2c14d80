"""Traces of what should be gone, in the raw bytes of files."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Files = dict[str, bytes]
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")

WINDOW = 16
"""Bytes that no two things share by chance."""


def raw(directory: Path) -> Files:
    """The bytes of every file in a directory, by name."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in sorted(directory.rglob("*"))}


def windows(thing: bytes) -> list[bytes]:
    """Parts of a thing, from its begin to its end: SQLite may lay it over several pages.

    Parts with few different bytes are left out: zeros are everywhere. Of 16 hexadecimal digits, five or fewer
    are different once in some 30,000 times.
    """
    last = max(0, len(thing) - WINDOW)
    parts = [thing[at : at + WINDOW] for at in sorted({0, last // 4, last // 2, 3 * last // 4, last})]
    return [part for part in parts if 3 * len(set(part)) > len(part) >= 8]


@lru_cache(maxsize=32)
def _words(data: bytes) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """All eight bytes in a row that are anywhere in `data`, in ascending order, and where they are."""
    here = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 8)
    words = np.ascontiguousarray(here).view("<u8").ravel()
    order = np.argsort(words)
    return words[order], order


def traces(data: bytes, things: Iterable[bytes]) -> list[bytes]:
    """Those things of which a part is somewhere in `data`."""
    wanted = list(things)
    parts = [(number, part) for number, thing in enumerate(wanted) for part in windows(thing)]
    if not parts or len(data) < 8:
        return []
    words, order = _words(data)
    heads = np.frombuffer(b"".join(part[:8] for _, part in parts), dtype="<u8")
    first, last = (np.searchsorted(words, heads, side) for side in SIDES)
    found = set()
    for i in np.flatnonzero(first < last):
        number, part = parts[i]
        if any(data[at : at + len(part)] == part for at in order[first[i] : last[i]]):
            found.add(number)
    return [wanted[number] for number in sorted(found)]


def where(files: Mapping[str, bytes], things: Iterable[bytes]) -> dict[str, int]:
    """For each file, of how many of these things there is a trace in it; files without any are left out."""
    wanted = list(things)
    counts = {name: len(traces(data, wanted)) for name, data in files.items()}
    return {name: count for name, count in counts.items() if count}


def all_there(files: Mapping[str, bytes], things: Iterable[bytes]) -> bool:
    """Whether each of these things has left a trace in one of the files."""
    missing = set(things)
    for data in files.values():
        missing.difference_update(traces(data, missing))
    return not missing
