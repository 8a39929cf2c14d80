"""Every type that may cross a wire, and nothing else.

Messages are frozen and strictly decoded (`transport.codec`). Whole arrays travel as bytes, little-endian,
one after the other; whoever reads them does so with `array`, which checks their length. Numbers of
thousands of bits are big-endian bytes. `protocol` says for which protocol a message is, `max_bytes` how
long it may be, and `discloses` what its receiver learns, for `leakage_`.
"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.errors import FormatError
from revfrf.forest.candidates import Method

MIB = 2**20

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Number = Annotated[bytes, msgspec.Meta(min_length=1, max_length=8192)]

TREES, PATHS, SIZES, QUESTIONS, FEATURES, CUTS = "<u4", "<u8", "<u4", "<u4", "<u2", "u1"
"""The types of the arrays below."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag=True):
    """What all messages have in common."""

    protocol: ClassVar[str]
    max_bytes: ClassVar[int] = MIB

    def discloses(self) -> dict[str, int]:
        """What the receiver learns from this message, counted."""
        return {}


class Done(Message, frozen=True):
    """The answer that says nothing but "accepted"."""

    protocol = "key set-up"
    max_bytes = 1024


# -- key set-up -------------------------------------------------------------------------------------


class Dealt(Message, frozen=True):
    """KGC to a new party: the federation's public parameters, and for CS and CC its strong share."""

    protocol = "key set-up"
    federation: Name
    n: Number
    g0: Number
    exponent_bits: Count
    share: Number | None

    def __repr__(self) -> str:
        return f"Dealt({self.federation!r}, …)"  # it may carry a strong share

    def discloses(self) -> dict[str, int]:
        """Public numbers, and to a server its own share."""
        return {"public parameters": 1} | ({"its strong share": 1} if self.share else {})


class Enrolment(Message, frozen=True):
    """A party to KGC: its public keys, and the proof that it holds the secret half of h."""

    protocol = "key set-up"
    name: Name
    role: Name
    h: Number
    challenge: Number
    response: Number
    verify_key: Digest

    def discloses(self) -> dict[str, int]:
        """Public keys."""
        return {"public keys": 1}


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party as the epoch certificate names it."""

    name: Name
    role: Name
    h: Number
    verify_key: Digest


class EpochCertificate(Message, frozen=True):
    """KGC to everybody: who belongs to the federation in this epoch, with which keys."""

    protocol = "key set-up"
    max_bytes = 64 * MIB
    federation: Name
    epoch: Count
    n: Number
    g0: Number
    exponent_bits: Count
    members: tuple[Member, ...]
    revoked: tuple[Name, ...]
    previous: bytes
    signature: Signature

    def discloses(self) -> dict[str, int]:
        """Names and public keys."""
        return {"members of the federation": len(self.members)}


# -- creating a forest ------------------------------------------------------------------------------


class OpenForest(Message, frozen=True):
    """CS to a participant: a forest is to be grown, by these rules."""

    protocol = "FLE-Expan"
    federation: Name
    epoch: Count
    forest: Id
    n_trees: Count
    max_depth: Count
    method: Method
    n_candidates: Annotated[int, msgspec.Meta(ge=1, le=255)]
    n_sampled: Annotated[int, msgspec.Meta(ge=2, le=2**20)]

    def discloses(self) -> dict[str, int]:
        """Rules."""
        return {"the forest's rules": 1}


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant publishes of a column: never a value, but the names of its categories."""

    name: Name
    decimals: Annotated[int, msgspec.Meta(ge=0, le=18)]
    categories: tuple[str, ...] | None


class Schema(Message, frozen=True):
    """A participant to CS: its columns, and how many rows it holds."""

    protocol = "FLE-Expan"
    max_bytes = 64 * MIB
    columns: Annotated[tuple[Column, ...], msgspec.Meta(max_length=2**16 - 1)]
    n_rows: Count

    def discloses(self) -> dict[str, int]:
        """Names; of a category, with the bins to come, which rows have it."""
        categories = sum(len(column.categories or ()) for column in self.columns)
        return {"names and decimals of columns": len(self.columns), "names of categories": categories}


# -- FLE-Expan and FOS-Find -------------------------------------------------------------------------


class NodeRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes with their rows; see `forest.nodes`."""

    trees: bytes
    paths: bytes
    sizes: bytes
    rows: bytes

    @property
    def n_nodes(self) -> int:
        """How many nodes."""
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
    level: Count
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
    """A participant to CS: its winning splits, encrypted and signed, and the bins of the rows it was asked
    about.

    For each question `n_cuts`, then, if that is not 0, the bin of every row of the node.
    """

    protocol = "FLE-Expan"
    max_bytes = 1024 * MIB
    level: Count
    ciphertexts: bytes
    signature: Signature | None
    n_cuts: bytes
    bins: bytes

    def discloses(self) -> dict[str, int]:
        """Bins: the order of values, coarsely. No value, and no cut but encrypted."""
        return {
            "bins of rows": len(self.bins),
            "numbers of candidate cuts": len(self.n_cuts),
            "bytes of encrypted splits": len(self.ciphertexts),
        }


# -- FRF-Test ---------------------------------------------------------------------------------------


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
        return {
            "nodes it was asked about": self.nodes.n_nodes,
            "test rows that reach them": self.nodes.n_rows,
        }


class TestReply(Message, frozen=True):
    """An owner to CS: one bit for each row of each node, 1 for right."""

    protocol = "FRF-Test"
    max_bytes = 256 * MIB
    bits: bytes

    def discloses(self) -> dict[str, int]:
        """Path bits."""
        return {"path bits of test rows, in whole bytes": 8 * len(self.bits)}


MESSAGES: tuple[type[Message], ...] = (
    Done,
    Dealt,
    Enrolment,
    EpochCertificate,
    OpenForest,
    Schema,
    LevelRequest,
    LevelReply,
    TestRequest,
    TestReply,
)


def array(data: bytes, dtype: str, length: int | None = None) -> NDArray[Any]:
    """The array in these bytes. Raises FormatError for any other length than the expected one."""
    width = np.dtype(dtype).itemsize
    if len(data) % width or (length is not None and len(data) != length * width):
        raise FormatError(f"{len(data)} bytes do not hold {length} numbers of {width} bytes", kind="length")
    return np.frombuffer(data, dtype=dtype)


def number(value: int) -> bytes:
    """A number of any size as big-endian bytes."""
    return value.to_bytes(max(1, -(-value.bit_length() // 8)), "big")


def of_number(data: bytes) -> int:
    """The inverse of `number`; refuses what it would not have written."""
    value = int.from_bytes(data, "big")
    if number(value) != data:
        raise FormatError("a number with leading zeros")
    return value
