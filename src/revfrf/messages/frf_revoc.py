"""Messages of FRF-Revoc."""

from typing import Annotated, Literal

import msgspec

from revfrf.messages.base import MIB, Count, Id, Message, Name, Signature, counting, once

Time = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""In Unix seconds."""

RevocationLevel = Literal[1, 2]
"""1: the forest is rebuilt as if the leaver had never been there. 2: also, all members sign receipts. Under
the paper protocol all have new keys then, so that copies of the old forest stop working.
"""


class RevocationRequest(Message, frozen=True):
    """A participant to KGC: it leaves this forest."""

    protocol = "FRF-Revoc"
    max_bytes = 64 * 1024
    discloses = once("requests to leave")
    federation: Name
    forest: Id
    epoch: Count
    party: Name
    level: RevocationLevel
    nonce: Id
    time: Time
    signature: Signature


class Destroy(Message, frozen=True):
    """CS to an owner: forget your splits at these nodes, because a split above them has left.

    In a forest that is still growing, these may be places where CS knows of no split yet.

    `round` is lower than that of any `LevelRequest` that comes after it.
    """

    protocol = "FRF-Revoc"
    max_bytes = 256 * MIB
    epoch: Count
    forest: Id
    round: Count
    trees: bytes
    paths: bytes

    def discloses(self) -> dict[str, int]:
        """That above these nodes there was a split of who has left."""
        return {"its nodes below splits that have left": len(self.trees) // 4}


class Rekey(Message, frozen=True):
    """CS to an owner: encrypt these splits of its own under the new epoch's key."""

    protocol = "FRF-Revoc"
    max_bytes = 256 * MIB
    epoch: Count
    forest: Id
    trees: bytes
    paths: bytes


class Rekeyed(Message, frozen=True):
    """An owner to CS: its splits, encrypted and signed again, in the order in which CS asked."""

    protocol = "FRF-Revoc"
    max_bytes = 1024 * MIB
    discloses = counting(ciphertexts="bytes of encrypted splits")
    ciphertexts: bytes
    signature: Signature
