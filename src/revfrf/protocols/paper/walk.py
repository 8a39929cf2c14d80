"""Rows walk down the trees, from the roots to the leaves: all trees and all rows together."""

from collections.abc import Callable

import numpy as np

from revfrf.forest.kernel import Bools, Ints, Positions, kernel
from revfrf.forest.nodes import Nodes
from revfrf.storage.memory import CoordinatorStore


def walk(
    store: CoordinatorStore,
    nodes: Nodes,
    at_leaves: Callable[[Nodes], None],
    descend: Callable[[Nodes], Nodes],
) -> None:
    """Hand the leaves among these nodes to `at_leaves`, and go on with what `descend` makes of the others."""
    while len(nodes):
        is_leaf = np.array([name in store.leaves for name in nodes.names()])
        at_leaves(nodes.take(np.flatnonzero(is_leaf)))
        inner = nodes.take(np.flatnonzero(~is_leaf))
        if not len(inner):
            return
        nodes = descend(inner)


def by_owner(store: CoordinatorStore, nodes: Nodes) -> dict[str, Positions]:
    """Return the positions of each owner's splits among these nodes."""
    owners = np.array([store.splits[name].owner for name in nodes.names()], dtype=object)
    return {owner: np.flatnonzero(owners == owner) for owner in sorted(set(owners))}


def reached_children(nodes: Nodes, positions: Positions, right: Bools) -> Nodes:
    """Return the children of the nodes at these positions that any row reaches. `right` covers all rows."""
    children = nodes.children(positions, right)
    return children.take(np.flatnonzero(children.sizes))


def scatter(nodes: Nodes, positions: Positions, bits: Bools, right: Bools) -> None:
    """Write the bits of the rows of the nodes at these positions to their places among all rows."""
    _scatter(nodes.starts, positions, bits, right)


@kernel
def _scatter(starts: Ints, positions: Positions, bits: Bools, right: Bools) -> None:
    at = 0
    for position in positions:
        begin, end = starts[position], starts[position + 1]
        right[begin:end] = bits[at : at + end - begin]
        at += end - begin
