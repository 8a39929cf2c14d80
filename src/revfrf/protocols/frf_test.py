"""FRF-Test: the forest's answer for rows whose columns the participants hold themselves.

CS walks all trees and all rows down together, level by level. At each node it asks the owner of the split,
who compares its own x̂ with its own ŝ and returns bits. Nothing is encrypted, and nothing need be: CS
learns the path of each row, an owner which rows reach its nodes. (The paper's FT-Test hands CS every split:
see docs/deviations.md.)
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.parallel import in_threads
from revfrf.errors import ProtocolError
from revfrf.forest.kernel import kernel
from revfrf.forest.nodes import Nodes, Rows
from revfrf.messages import TestReply, TestRequest, array
from revfrf.protocols.fle_expan import Plan
from revfrf.protocols.node_rows import read_nodes, write_nodes
from revfrf.storage.memory import CoordinatorStore, ParticipantStore
from revfrf.transport.base import Channel

_AT_ONCE = 2**24
"""Rows × trees that are walked together; more rows take turns."""


# -- CS ---------------------------------------------------------------------------------------------


def frf_test(
    channel: Channel,
    plan: Plan,
    store: CoordinatorStore,
    table: str,
    n_rows: int,
    at_leaves: Callable[[Nodes], None],
    n_jobs: int,
) -> None:
    """Walk every row of a table to its leaves, and hand the leaves with their rows to `at_leaves`."""
    block = max(1, _AT_ONCE // plan.rules.n_trees)
    for begin in range(0, n_rows, block):
        rows = np.arange(begin, min(begin + block, n_rows), dtype=np.uint32)
        nodes = Nodes.roots([rows] * plan.rules.n_trees)
        while len(nodes):
            names = nodes.names()
            is_leaf = np.array([name in store.leaves for name in names])
            at_leaves(nodes.take(np.flatnonzero(is_leaf)))
            nodes = nodes.take(np.flatnonzero(~is_leaf))
            nodes = _descend(channel, plan, store, table, nodes, n_jobs)


def _descend(
    channel: Channel, plan: Plan, store: CoordinatorStore, table: str, nodes: Nodes, n_jobs: int
) -> Nodes:
    """The children of these nodes that any row reaches."""
    owners = np.array([store.splits[name].owner for name in nodes.names()], dtype=object)
    right = np.zeros(len(nodes.rows), dtype=np.bool_)

    def ask(owner: str) -> None:
        positions = np.flatnonzero(owners == owner)
        own = nodes.take(positions)
        request = TestRequest(epoch=plan.epoch, forest=plan.forest, table=table, nodes=write_nodes(own))
        reply = channel.call(owner, request, TestReply)
        packed = array(reply.bits, "u1", -(-len(own.rows) // 8))
        bits = np.unpackbits(packed, count=len(own.rows)).astype(np.bool_)
        _scatter(nodes.starts, positions, own.starts, bits, right)

    in_threads(ask, sorted(set(owners)), n_jobs)
    children = nodes.children(np.arange(len(nodes)), right)
    return children.take(np.flatnonzero(children.sizes))


@kernel
def _scatter(
    starts: NDArray[np.int64],
    positions: NDArray[np.intp],
    own_starts: NDArray[np.int64],
    bits: NDArray[np.bool_],
    right: NDArray[np.bool_],
) -> None:
    for j in range(len(positions)):
        begin, end = starts[positions[j]], starts[positions[j] + 1]
        right[begin:end] = bits[own_starts[j] : own_starts[j + 1]]


# -- a participant ----------------------------------------------------------------------------------


def answer_test(
    codes: NDArray[np.int64], store: ParticipantStore, n_trees: int, max_depth: int, message: TestRequest
) -> TestReply:
    """One bit for each row of each node: x̂ > ŝ. `codes` is the table asked about, a row a column."""
    nodes = read_nodes(message.nodes, n_trees, max_depth, codes.shape[1])
    try:
        splits = np.array([store.cuts[node] for node in nodes.names()], dtype=np.int64).reshape(-1, 2)
    except KeyError as node:
        raise ProtocolError(f"node {node} is not ours", kind="node") from None
    bits = _compare(codes, splits[:, 0], splits[:, 1], nodes.starts, nodes.rows)
    return TestReply(bits=np.packbits(bits).tobytes())


@kernel
def _compare(
    codes: NDArray[np.int64],
    columns: NDArray[np.int64],
    cuts: NDArray[np.int64],
    starts: NDArray[np.int64],
    rows: Rows,
) -> NDArray[np.bool_]:
    right = np.empty(len(rows), dtype=np.bool_)
    for j in range(len(columns)):
        column = codes[columns[j]]
        for i in range(starts[j], starts[j + 1]):
            right[i] = column[rows[i]] > cuts[j]
    return right
