"""FRF-Test and FT-Test (the paper's appendix C): the forest's answer for rows that the participants hold.

CS walks all trees and all rows down together. At each depth, with each owner τ of a split::

    CS  the nodes of τ with the rows that have reached them  ->  τ   compares its own x̂ with its own ŝ
    τ   one bit for each row: x̂ > ŝ                          ->  CS  sends the rows to the children

Nothing is encrypted, and nothing needs to be: CS learns the path of each row, and an owner which rows reach
its nodes. The paper's FT-Test, lines 5 to 8, hands CS every split: see docs/deviations.md.
"""

from collections.abc import Callable, Iterator

import numpy as np

from revfrf.errors import ProtocolError
from revfrf.forest.kernel import Bools, Ints, Positions, Rows, kernel
from revfrf.forest.nodes import Nodes
from revfrf.forest.tree import Rules
from revfrf.messages.base import array
from revfrf.messages.frf_test import TestReply, TestRequest
from revfrf.parallel import side_by_side
from revfrf.protocols.paper.fle_expan import PaperPlan, read_nodes, write_nodes
from revfrf.storage.memory import CoordinatorStore, ParticipantStore
from revfrf.transport.base import Channel

_AT_ONCE = 2**24
"""Rows × trees that are walked together; more rows take turns."""


# -- CS ---------------------------------------------------------------------------------------------


def frf_test(
    channel: Channel, plan: PaperPlan, store: CoordinatorStore, table: str, n_rows: int
) -> Iterator[Nodes]:
    """Walk every row of a table to its leaves, and yield the leaves with their rows."""

    def descend(nodes: Nodes) -> Nodes:
        """Return the children of these nodes that any row reaches."""
        right = np.zeros(len(nodes.rows), dtype=np.bool_)

        def ask(asked: tuple[str, Positions]) -> None:
            owner, positions = asked
            own = nodes.take(positions)
            request = TestRequest(epoch=plan.epoch, forest=plan.forest, table=table, nodes=write_nodes(own))
            reply = channel.call(owner, request, TestReply)
            packed = array(reply.bits, "u1", -(-len(own.rows) // 8))
            bits = np.unpackbits(packed, count=len(own.rows)).astype(np.bool_)
            scatter(nodes, positions, bits, right)

        side_by_side(ask, list(by_owner(store, nodes).items()))
        return reached_children(nodes, np.arange(len(nodes)), right)

    block = max(1, _AT_ONCE // plan.rules.n_trees)
    for begin in range(0, n_rows, block):
        rows = np.arange(begin, min(begin + block, n_rows), dtype=np.uint32)
        yield from walk(store, Nodes.roots([rows] * plan.rules.n_trees), descend)


# -- rows walk down the trees: all trees and all rows together --------------------------------------


def walk(store: CoordinatorStore, nodes: Nodes, descend: Callable[[Nodes], Nodes]) -> Iterator[Nodes]:
    """Yield the leaves among these nodes, and go on with what `descend` makes of the others."""
    while len(nodes):
        is_leaf = np.array([name in store.leaves for name in nodes.names()])
        yield nodes.take(np.flatnonzero(is_leaf))
        inner = nodes.take(np.flatnonzero(~is_leaf))
        nodes = descend(inner) if len(inner) else inner


def by_owner(store: CoordinatorStore, nodes: Nodes) -> dict[str, Positions]:
    """Return the positions of each owner's splits among these nodes, in ascending order."""
    owners = np.array([store.splits[name].owner for name in nodes.names()], dtype=object)
    return {owner: np.flatnonzero(owners == owner) for owner in sorted(set(owners))}


def scatter(nodes: Nodes, positions: Positions, bits: Bools, right: Bools) -> None:
    """Write the bits of the rows of the nodes at these positions to their places among all rows."""
    chosen = np.zeros(len(nodes), dtype=np.bool_)
    chosen[positions] = True
    right[np.repeat(chosen, nodes.sizes)] = bits


def reached_children(nodes: Nodes, positions: Positions, right: Bools) -> Nodes:
    """Return the children of the nodes at these positions that any row reaches. `right` covers all rows."""
    children = nodes.children(positions, right)
    return children.take(np.flatnonzero(children.sizes))


# -- a participant ----------------------------------------------------------------------------------


def answer_test(codes: Ints, store: ParticipantStore, rules: Rules, message: TestRequest) -> TestReply:
    """Return one bit for each row of each node: x̂ > ŝ. `codes` is the table, shape (n_columns, n_rows)."""
    nodes = read_nodes(message.nodes, rules, codes.shape[1])
    try:
        splits = np.array([store.own_splits[node] for node in nodes.names()], dtype=np.int64).reshape(-1, 2)
    except KeyError as node:
        raise ProtocolError(f"node {node} does not belong to this participant", kind="node") from None
    bits = _compare(codes, splits[:, 0], splits[:, 1], nodes.starts, nodes.rows)
    return TestReply(bits=np.packbits(bits).tobytes())


@kernel
def _compare(codes: Ints, columns: Ints, thresholds: Ints, starts: Ints, rows: Rows) -> Bools:
    right = np.empty(len(rows), dtype=np.bool_)
    for j in range(len(columns)):
        column = codes[columns[j]]
        for i in range(starts[j], starts[j + 1]):
            right[i] = column[rows[i]] > thresholds[j]
    return right
