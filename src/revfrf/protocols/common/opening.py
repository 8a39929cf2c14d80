"""The name of a forest."""

from revfrf.crypto.canonical import digest
from revfrf.messages.fle_expan import OpenForest


def forest_id(opening: OpenForest) -> bytes:
    """Return the name of a forest: a hash of its rules, so that parties who agree on the name agree on the
    rules. It is the same in all epochs.
    """
    return digest("revfrf forest name v2", opening.federation, opening.nonce, opening.rules.fields())[:16]
