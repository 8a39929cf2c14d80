"""Messages of FRF-Predict and HoLT."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from revfrf.forest.voting import Voting
from revfrf.messages.base import MIB, Count, Digest, Id, Message, Name, Number, Signature, array, counting
from revfrf.messages.fle_expan import Column, OpenForest, published
from revfrf.messages.key_setup import Admission

COMPARISONS = "<u4"  # the type of numbers of comparisons

# -- FRF-Predict: a requester and CS ----------------------------------------------------------------


class ForestQuery(Message, frozen=True):
    """A requester to CS: what does a request look like?"""

    protocol = "FRF-Predict"
    max_bytes = 64 * 1024
    admission: Admission


class ForestFacts(Message, frozen=True):
    """CS to a requester: the forest, and its columns, in the order in which a row gives them.

    `epoch` is the current one; `n_votes` is how many numbers an answer has for each row: one, or one a class.
    `labels` are the names of the classes; a number is `centre` + mean vote·2^-`vote_places`. `absent` are
    members who are not connected now.
    """

    protocol = "FRF-Predict"
    max_bytes = 64 * MIB
    epoch: Count
    opening: OpenForest
    n_votes: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
    columns: Annotated[dict[Name, tuple[Column, ...]], msgspec.Meta(min_length=1)]
    labels: tuple[str, ...]
    centre: float
    vote_places: Annotated[int, msgspec.Meta(ge=-(2**12), le=2**12)]
    absent: tuple[Name, ...]

    def discloses(self) -> dict[str, int]:
        """The rules and the schema, what its answers mean, and who is away."""
        columns = [column for owned in self.columns.values() for column in owned]
        more = {"names of classes": len(self.labels), "names of absent parties": len(self.absent)}
        return self.opening.discloses() | published(columns) | more


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a requester signs: who asks which forest about how many rows, and the digest of these rows.

    CC and the owners see it, and decide by it. It says nothing of the rows' content.
    """

    admission: Admission
    forest: Id
    id: Id
    n_rows: Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]
    voting: Voting
    partial: bool
    digest: Digest
    signature: Signature


class PredictRequest(Message, frozen=True):
    """A requester to CS: its rows, each value encrypted under the requester's own key."""

    protocol = "FRF-Predict"
    max_bytes = 256 * MIB
    request: Request
    rows: bytes

    def discloses(self) -> dict[str, int]:
        return {"encrypted rows of requests": self.request.n_rows}


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why there is no answer: a party that has refused, or is absent."""

    party: Name
    reason: Literal["refused", "absent"]


class PredictReply(Message, frozen=True):
    """CS to a requester: votes for each row, how many trees voted, who is absent; or why there are none."""

    protocol = "FRF-Predict"
    max_bytes = 256 * MIB
    votes: bytes
    n_voted: bytes
    absent: tuple[Name, ...]
    failure: Failure | None

    def discloses(self) -> dict[str, int]:
        return {"votes for rows of its own, in numbers": len(self.votes) // 8}


# -- HoLT: CS, CC and the owners ---------------------------------------------------------------------


class MaskedComparisons(Message, frozen=True):
    """CS to CC, once a level: comparisons, masked and packed, in the order of these owners of splits."""

    protocol = "HoLT"
    max_bytes = 256 * MIB
    request: Request
    depth: Count
    owners: tuple[Name, ...]
    counts: bytes
    packs: bytes

    def discloses(self) -> dict[str, int]:
        """Who asks, whose splits are compared how often, and differences under masks."""
        differences = int(array(self.counts, COMPARISONS).sum(dtype=np.uint64))
        owners = {"rounds of requests": 1, "owners of the splits compared": len(self.owners)}
        return owners | {"masked differences": differences}


class SealedResults(Message, frozen=True):
    """CC to CS: for each owner one ciphertext of its masked bits under both their keys, signed by CC.

    If a ciphertext cannot hold all bits, it holds a key, and `masked` has the bits masked with it.
    """

    protocol = "HoLT"
    max_bytes = 256 * MIB
    discloses = counting(signatures="sealed results")  # ciphertexts, until the owner consents
    ciphertexts: bytes
    masked: tuple[bytes, ...]
    signatures: tuple[Signature, ...]


class ShareRequest(Message, frozen=True):
    """CS to an owner: may this requester's comparisons with your splits be opened?"""

    protocol = "HoLT"
    max_bytes = 128 * 1024
    request: Request
    depth: Count
    count: Count
    ciphertext: bytes
    signature: Signature

    def discloses(self) -> dict[str, int]:
        """Who asks, and how often this level compares with the owner's splits."""
        return {"rounds of requests": 1, "comparisons with its splits": self.count}


class ShareReply(Message, frozen=True):
    """An owner to CS: its share of the opening of its bits."""

    protocol = "HoLT"
    max_bytes = 16 * 1024
    count: Count
    share: Number

    def discloses(self) -> dict[str, int]:
        """With CS's own share, which way each row of these comparisons goes."""
        return {"path bits of requests": self.count}
