"""Nodes with their rows, to the message that carries them and back."""

import numpy as np

from revfrf.errors import ProtocolError
from revfrf.forest.nodes import Nodes, pack_rows, starts_of, unpack_rows
from revfrf.messages.base import PATHS, SIZES, TREES, array
from revfrf.messages.fle_expan import NodeRows


def write_nodes(nodes: Nodes) -> NodeRows:
    """Nodes as they travel."""
    return NodeRows(
        nodes.trees.astype(TREES).tobytes(),
        nodes.paths.astype(PATHS).tobytes(),
        nodes.sizes.astype(SIZES).tobytes(),
        pack_rows(nodes),
    )


def read_nodes(message: NodeRows, n_trees: int, max_depth: int, n_rows: int) -> Nodes:
    """Nodes as they arrive: all different, inside the forest, each with rows of this table.

    Raises FormatError or ProtocolError for anything else.
    """
    trees = array(message.trees, TREES)
    paths = array(message.paths, PATHS, len(trees))
    sizes = array(message.sizes, SIZES, len(trees)).astype(np.int64)
    nodes = Nodes(trees, paths, starts_of(sizes), unpack_rows(message.rows, sizes, n_rows))
    inside = (trees < n_trees) & (paths > 0) & (paths >> np.uint64(max_depth) == 0) & (sizes > 0)
    if not inside.all() or len(set(nodes.names())) != len(nodes):
        raise ProtocolError("nodes outside the forest, without rows, or one node twice", kind="node")
    return nodes
