"""Nodes with their rows: what training and testing walk over, depth by depth, all trees at once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from revfrf.errors import FormatError
from revfrf.forest.kernel import Bools, Bytes, Ints, Paths, Positions, Rows, Trees, kernel

Node = tuple[int, int]
"""A tree's number and a path in it: root 1, children 2i and 2i + 1."""

MAX_DEPTH = 62
"""Paths are 64-bit numbers."""

Arrays = tuple[Trees, Ints, Rows]
"""The trees of some nodes, where the rows of each start and end, and the rows."""

Directions = bytes
"""One bit for each row of a node, set if it goes right; the highest bit of a byte comes first."""


Leaf = tuple[int, ...]
"""Weight by class, or (Σw, Σw·value)."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Some nodes of a forest. Node j holds the rows `rows[starts[j]:starts[j + 1]]`, in ascending order."""

    trees: Trees
    paths: Paths
    starts: Ints
    rows: Rows

    @classmethod
    def roots(cls, used: Sequence[Rows]) -> "Nodes":
        """The roots of trees 0, 1, …, each with the rows that its tree uses."""
        return cls.of(range(len(used)), [1] * len(used), used)

    @classmethod
    def of(cls, trees: Sequence[int], paths: Sequence[int], rows: Sequence[Rows]) -> "Nodes":
        """Nodes from a list of rows for each."""
        return cls(
            np.array(trees, dtype=np.uint32),
            np.array(paths, dtype=np.uint64),
            starts_of(np.array([len(r) for r in rows], dtype=np.int64)),
            np.concatenate([np.empty(0, np.uint32), *rows]),
        )

    def __add__(self, other: "Nodes") -> "Nodes":
        return Nodes(
            np.concatenate([self.trees, other.trees]),
            np.concatenate([self.paths, other.paths]),
            starts_of(np.concatenate([self.sizes, other.sizes])),
            np.concatenate([self.rows, other.rows]),
        )

    def __len__(self) -> int:
        return len(self.trees)

    @property
    def arrays(self) -> Arrays:
        """What kernels take: nodes without their paths."""
        return self.trees, self.starts, self.rows

    @property
    def sizes(self) -> Ints:
        """The number of rows of each node."""
        return np.diff(self.starts)

    def names(self) -> list[Node]:
        """(tree, path) of each node."""
        return list(zip(self.trees.tolist(), self.paths.tolist(), strict=True))

    def take(self, positions: Positions) -> "Nodes":
        """The nodes at these positions, in this order."""
        starts = starts_of(self.sizes[positions])
        rows = _gather(self.rows, self.starts, positions, starts)
        return Nodes(self.trees[positions], self.paths[positions], starts, rows)

    def children(self, positions: Positions, right: Bools) -> "Nodes":
        """Both children of the nodes at these positions, left before right.

        `right` says for each of all `rows` which way it goes.
        """
        sizes = np.empty(2 * len(positions), dtype=np.int64)
        rows = np.empty(self.sizes[positions].sum(), dtype=np.uint32)
        _partition(self.rows, self.starts, positions, right, sizes, rows)
        paths = np.repeat(self.paths[positions] * np.uint64(2), 2)
        paths[1::2] += np.uint64(1)
        return Nodes(np.repeat(self.trees[positions], 2), paths, starts_of(sizes), rows)

    def pack_directions(self, positions: Positions, right: Bools) -> list[Directions]:
        """Return which rows go right, for each of the nodes at these positions."""
        return [np.packbits(right[place]).tobytes() for place in self._places(positions)]

    def unpack_directions(self, positions: Positions, directions: Sequence[Directions]) -> Bools:
        """The inverse of `pack_directions`: whether each of all `rows` goes right. Refuses other lengths."""
        right = np.zeros(len(self.rows), dtype=np.bool_)
        for place, packed in zip(self._places(positions), directions, strict=True):
            size = place.stop - place.start
            if len(packed) != (size + 7) // 8:
                raise FormatError("directions that do not fit the rows of their nodes", kind="length")
            right[place] = np.unpackbits(np.frombuffer(packed, np.uint8), count=size)
        return right

    def _places(self, positions: Positions) -> list[slice]:
        """Where the rows of the nodes at these positions are."""
        return list(map(slice, self.starts[positions].tolist(), self.starts[positions + 1].tolist()))


def starts_of(sizes: Ints) -> Ints:
    """Where stretches of these sizes begin, and, last, where they all end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def pack_rows(nodes: Nodes) -> bytes:
    """The rows as bytes: the gap from row to row, seven bits a byte, the lowest first (LEB128).

    A gap is one byte for all nodes that hold more than a few of the forest's rows.
    """
    packed = np.empty(5 * len(nodes.rows), dtype=np.uint8)
    return packed[: _pack(nodes.rows, nodes.starts, packed)].tobytes()


def unpack_rows(packed: bytes, sizes: Ints, n_rows: int) -> Rows:
    """The inverse of `pack_rows`, for nodes of these sizes; refuses whatever it would not have written."""
    starts = starts_of(sizes)
    if not 0 <= starts[-1] <= len(packed) or (sizes < 0).any():
        raise FormatError("the nodes' sizes do not fit their rows", kind="length")
    rows = np.empty(starts[-1], dtype=np.uint32)
    if not _unpack(np.frombuffer(packed, dtype=np.uint8), starts, n_rows, rows):
        raise FormatError("rows are not ascending, or not rows of this forest")
    return rows


@kernel
def _gather(rows: Rows, starts: Ints, positions: Positions, new_starts: Ints) -> Rows:
    out = np.empty(new_starts[-1], dtype=np.uint32)
    for j in range(len(positions)):
        begin, end = starts[positions[j]], starts[positions[j] + 1]
        out[new_starts[j] : new_starts[j + 1]] = rows[begin:end]
    return out


@kernel
def _partition(rows: Rows, starts: Ints, positions: Positions, right: Bools, sizes: Ints, out: Rows) -> None:
    done = 0
    for j in range(len(positions)):
        begin, end = starts[positions[j]], starts[positions[j] + 1]
        n_right = right[begin:end].sum()
        left_at, right_at = done, done + end - begin - n_right
        sizes[2 * j], sizes[2 * j + 1] = right_at - done, n_right
        done += end - begin
        for i in range(begin, end):
            if right[i]:
                out[right_at] = rows[i]
                right_at += 1
            else:
                out[left_at] = rows[i]
                left_at += 1


@kernel
def _pack(rows: Rows, starts: Ints, packed: Bytes) -> int:
    at = 0
    for j in range(len(starts) - 1):
        next_row = np.int64(0)
        for i in range(starts[j], starts[j + 1]):
            gap = np.int64(rows[i]) - next_row
            next_row = np.int64(rows[i]) + 1
            while gap >= 128:
                packed[at] = gap % 128 + 128
                gap //= 128
                at += 1
            packed[at] = gap
            at += 1
    return at


@kernel
def _unpack(packed: Bytes, starts: Ints, n_rows: int, rows: Rows) -> bool:
    at, end = 0, len(packed)
    for j in range(len(starts) - 1):
        next_row = np.int64(0)
        for i in range(starts[j], starts[j + 1]):
            gap, place = np.int64(0), np.int64(1)
            while at < end and packed[at] >= 128 and place < 1 << 28:
                gap += (packed[at] - 128) * place
                place *= 128
                at += 1
            if at == end or packed[at] >= 128 or (packed[at] == 0 and place > 1):
                return False
            gap += packed[at] * place
            at += 1
            if next_row + gap >= n_rows:
                return False
            rows[i] = next_row + gap
            next_row += gap + 1
    return at == end


# -- what is not grown yet: all of it, or what a crash or a revocation has left open -----------------


class Split(Protocol):
    """A feature, "party/column", the number of its cut that was chosen, and which of its rows go right."""

    @property
    def feature(self) -> str: ...

    @property
    def cut(self) -> int: ...

    @property
    def directions(self) -> Directions: ...


def unfinished(n_trees: int, splits: Collection[Node], leaves: Collection[Node]) -> set[Node]:
    """The nodes that are neither split nor leaf, though their parents are split."""
    missing = {(tree, 1) for tree in range(n_trees)}
    for side in (0, 1):
        missing.update([(tree, 2 * path + side) for tree, path in splits])
    missing.difference_update(splits, leaves)
    return missing


def with_rows(used: Callable[[int], Rows], splits: Mapping[Node, Split], wanted: Collection[Node]) -> Nodes:
    """These nodes, none of which is below another, with their rows.

    `used` gives the rows of a tree. They are walked down from the root, on the ways to these nodes alone.
    """
    wanted, above = set(wanted), set[Node]()
    for tree, path in wanted:
        path >>= 1
        while path and (tree, path) not in above:
            above.add((tree, path))
            path >>= 1
    trees = sorted({tree for tree, _ in wanted})
    here = Nodes.of(trees, [1] * len(trees), [used(tree) for tree in trees])
    found = Nodes.of([], [], [])
    while len(here):
        names = here.names()
        found += here.take(np.array([i for i, name in enumerate(names) if name in wanted], dtype=np.intp))
        on = np.array([i for i, name in enumerate(names) if name in above], dtype=np.intp)
        here = here.children(on, here.unpack_directions(on, [splits[names[i]].directions for i in on]))
    return found
