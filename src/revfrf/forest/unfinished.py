"""The part of a forest that is not grown yet: all of it, or what a crash or a revocation has left open."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import numpy as np

from revfrf.forest.kernel import Rows
from revfrf.forest.nodes import Directions, Node, Nodes


class HasDirections(Protocol):
    """A split that remembers which of its rows go right."""

    @property
    def directions(self) -> Directions: ...


def unfinished(n_trees: int, splits: Collection[Node], leaves: Collection[Node]) -> set[Node]:
    """The nodes that are neither split nor leaf, though their parents are split."""
    missing = {(tree, 1) for tree in range(n_trees)}
    for side in (0, 1):
        missing.update([(tree, 2 * path + side) for tree, path in splits])
    missing.difference_update(splits, leaves)
    return missing


def with_rows(
    used: Callable[[int], Rows], splits: Mapping[Node, HasDirections], wanted: Collection[Node]
) -> Nodes:
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
