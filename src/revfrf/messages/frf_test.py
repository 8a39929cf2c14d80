"""Messages of FRF-Test."""

from revfrf.messages.base import MIB, Count, Id, Message, Name
from revfrf.messages.fle_expan import NodeRows


class TestRequest(Message, frozen=True):
    """CS to an owner: where do these rows of a table that you hold go, at these nodes of yours?"""

    protocol = "FRF-Test"
    max_bytes = 1024 * MIB
    epoch: Count
    forest: Id
    table: Name
    nodes: NodeRows

    def discloses(self) -> dict[str, int]:
        """Which test rows reach a node."""
        nodes = self.nodes
        return {"nodes it was asked about": nodes.n_nodes, "test rows that reach them": nodes.n_rows}


class TestReply(Message, frozen=True):
    """An owner to CS: one bit for each row of each node, 1 for right."""

    protocol = "FRF-Test"
    max_bytes = 256 * MIB
    bits: bytes

    def discloses(self) -> dict[str, int]:
        return {"path bits of test rows, in whole bytes": 8 * len(self.bits)}
