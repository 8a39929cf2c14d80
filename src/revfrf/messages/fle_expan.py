"""Messages of FLE-Expan and FOS-Find."""

from collections.abc import Collection
from typing import Annotated

import msgspec
import numpy as np

from revfrf.crypto.encoding import Ring
from revfrf.forest.tree import Rules
from revfrf.messages.base import MIB, SIZES, Count, Id, Message, Name, Signature, array, counting, once


class OpenForest(Message, frozen=True):
    """CS to CC and the participants: the forest to grow: its rules, and its name, which is a hash of them."""

    protocol = "FLE-Expan"
    discloses = once("the forest's rules")
    federation: Name
    epoch: Count
    forest: Id
    nonce: Id
    rules: Rules


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant publishes of a column: never a value, but the names of its categories."""

    name: Name
    decimals: Annotated[int, msgspec.Meta(ge=0, le=18)]
    ring: Ring
    categories: tuple[str, ...] | None


def published(columns: Collection[Column]) -> dict[str, int]:
    """What these columns tell, counted."""
    categories = sum(len(column.categories or ()) for column in columns)
    return {"names, decimals and rings of columns": len(columns), "names of categories": categories}


class Schema(Message, frozen=True):
    """A participant to CS: its columns, and how many rows it holds."""

    protocol = "FLE-Expan"
    max_bytes = 64 * MIB
    columns: Annotated[tuple[Column, ...], msgspec.Meta(max_length=2**16 - 1)]
    n_rows: Count

    def discloses(self) -> dict[str, int]:
        """Names; of a category, with the bins to come, which rows have it. And how many rows there are."""
        return published(self.columns) | {"numbers of rows": 1}


class NodeRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes with their rows; see `forest.nodes`."""

    trees: bytes
    paths: bytes
    sizes: bytes
    rows: bytes

    @property
    def n_nodes(self) -> int:
        return len(self.sizes) // np.dtype(SIZES).itemsize

    @property
    def n_rows(self) -> int:
        """How many rows all of them have together."""
        return int(array(self.sizes, SIZES).sum(dtype=np.uint64))


class LevelRequest(Message, frozen=True):
    """CS to a participant, once a level: its splits that won the last level, and questions about new nodes.

    A question is one of its features, by number in its schema, at one of these nodes, by position.
    """

    protocol = "FLE-Expan"
    max_bytes = 1024 * MIB
    epoch: Count
    forest: Id
    round: Count
    won_trees: bytes
    won_paths: bytes
    won_features: bytes
    won_cuts: bytes
    nodes: NodeRows
    asked_nodes: bytes
    asked_features: bytes

    def discloses(self) -> dict[str, int]:
        """Which rows are together in a node, and which of the participant's own splits won."""
        return {
            "nodes it was asked about": self.nodes.n_nodes,
            "rows of such nodes": self.nodes.n_rows,
            "its own splits that won": len(self.won_cuts),
        }


class LevelReply(Message, frozen=True):
    """A participant to CS: its winning splits, encrypted and signed, and the bins of rows it was asked about.

    For each question `n_cuts`, then, if that is not 0, the bin of every row of the node. Bins tell the order
    of values, coarsely. Values never travel, and thresholds only encrypted.
    """

    protocol = "FLE-Expan"
    max_bytes = 1024 * MIB
    discloses = counting(
        bins="bins of rows", n_cuts="numbers of candidate cuts", ciphertexts="bytes of encrypted splits"
    )
    round: Count
    ciphertexts: bytes
    signature: Signature | None
    n_cuts: bytes
    bins: bytes
