"""The seam between roles and protocols: what CS and the owners of columns do with a forest.

Each protocol is one module with these two sides. A role lends its side what it holds (a seat), and leaves to
it how a forest grows, how it answers, and what becomes of it when somebody leaves. Nothing else depends on
the protocol of a federation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from revfrf.crypto.signing import VerifyKey
from revfrf.errors import ProtocolError
from revfrf.forest.kernel import Ints, Paths
from revfrf.forest.targets import Targets
from revfrf.forest.tree import Books, Forest, PerNode, Rules
from revfrf.forest.voting import Votes, Voting
from revfrf.messages.base import Message
from revfrf.messages.bins import FeatureLine
from revfrf.messages.events import Event, UsedCuts, UsedCutsReceipt
from revfrf.messages.fle_expan import Column, OpenForest
from revfrf.messages.frf_predict import PredictReply, PredictRequest
from revfrf.messages.key_setup import DtpkcParameters, EpochCertificate
from revfrf.protocols.columns import ColumnSettings
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import RequestPolicy
from revfrf.record import Record
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, RequestBook
from revfrf.transport.base import Channel

TRAINING = "training"
"""The name of the table that a forest is grown from; all others are tested on."""


class GrowthReport(NamedTuple):
    """Where the growth is, for progress bars: the share of the work that is done, and what that is."""

    work: float
    detail: str


Progress = Callable[[GrowthReport], None]


class ForestRecord(Record, frozen=True):
    """What CS writes down of a forest. `columns` has those of each participant, once all know of the forest.

    `dtpkc` has the modulus that the splits are encrypted under, if they are: that of an older epoch until a
    revocation at level 2 has ended. `salt` is that of the forest's digest since the last event, `inputs_salt`
    that of the digests of seed and targets, which stay as long as these do.
    """

    opening: OpenForest
    seed: bytes
    columns: dict[str, tuple[Column, ...]]
    dtpkc: DtpkcParameters | None
    salt: bytes
    inputs_salt: bytes


@dataclass(frozen=True)
class Plan:
    """CS's fixed facts of a forest. `owners` are the participants with their features' ids."""

    federation: str
    epoch: int
    forest: bytes
    seed: bytes = field(repr=False)
    rules: Rules
    owners: Mapping[str, Sequence[str]]
    verify_keys: Mapping[str, VerifyKey]

    @property
    def features(self) -> list[str]:
        """All features, owner by owner."""
        return [feature for owned in self.owners.values() for feature in owned]


class CoordinatorSeat(Protocol):
    """What CS lends its side of a protocol."""

    identity: Identity
    channel: Channel
    n_jobs: int
    store: CoordinatorStore
    record: ForestRecord
    plan: Plan
    targets: Targets

    @property
    def certificate(self) -> EpochCertificate: ...

    @property
    def book(self) -> RequestBook: ...

    @property
    def policy(self) -> RequestPolicy: ...

    @property
    def absent(self) -> Callable[[], Collection[str]]:
        """Return the members that are not connected."""

    def check_ready(self) -> None:
        """Raise NoForestError unless the forest can be used."""


class CoordinatorSide(ABC):
    """CS's side of a protocol, for one forest."""

    def __init__(self, seat: CoordinatorSeat) -> None:
        self.seat = seat

    @property
    @abstractmethod
    def forest(self) -> Forest:
        """The structure of the forest, as far as it has grown."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """The number of nodes so far."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether the forest of this epoch has grown, and no node is missing."""

    @abstractmethod
    def grow(self, progress: Progress) -> None:
        """Grow what is missing: the whole forest, or what a crash or a revocation has left open."""

    @abstractmethod
    def votes(self, table: str, n_rows: int, voting: Voting) -> Votes:
        """FRF-Test: return the votes for each row of a table that the participants hold."""

    @abstractmethod
    def answer(self, message: PredictRequest, progress: Callable[[float], None]) -> PredictReply:
        """FRF-Predict: answer a request."""

    @abstractmethod
    def doomed(self, leavers: Collection[str]) -> dict[int, int]:
        """Return how many nodes are destroyed when these owners leave, of each tree that has any."""

    @abstractmethod
    def prepare_leaving(self, leavers: Collection[str]) -> None:
        """Ask others for what has to be done before the leavers' nodes are destroyed. May be repeated."""

    @abstractmethod
    def destroy(self, leavers: Collection[str]) -> None:
        """Erase the leavers' splits, with all below them, and all else of theirs. Inside a transaction."""

    @abstractmethod
    def save(self, store: CoordinatorStore, rows: bool) -> bool:
        """Copy the forest to another store, and return whether its rows are copied, too, if wanted."""

    @abstractmethod
    def check_stored(self, owners: Mapping[str, "OwnerSeat"], training_rows: bool) -> None:
        """Raise RejectedError unless CS and the owners have stored one forest, with its rows or without."""

    @abstractmethod
    def renew(self) -> None:
        """Bring what was kept into the current epoch."""

    # -- what only protocols with books of cuts have -------------------------------------------------

    @property
    def lines(self) -> Collection[FeatureLine]:
        """What the owners have signed of their columns."""
        return ()

    @property
    def together(self) -> bool:
        """Whether all participants take part in growing what is missing."""
        return True

    @property
    def lacking(self) -> set[str]:
        """The owners whose bins were forgotten and are needed again, to grow what is open."""
        return set()

    @property
    def forgettable(self) -> bool:
        """Whether CS has bins that it should forget."""
        return False

    def forget(self) -> None:  # noqa: B027
        """Erase the bins that their owners do not want to be kept."""

    def used_cuts(self) -> Mapping[str, tuple[UsedCuts, ...]]:
        """Return which cuts of the owners' books the forest uses, by owner."""
        return {}

    def check_bins(self) -> None:  # noqa: B027
        """Raise RejectedError unless the parts fit together, with the bins that their owners have signed."""

    def grow_again(self, progress: Progress) -> str:  # noqa: ARG002
        """Grow the forest a second time, from what is stored, and return its digest. Nothing changes."""
        raise ProtocolError("there are no bins to grow from", kind="forest")


class OwnerSeat(Protocol):
    """What a participant lends its side of a protocol.

    `settings` has what the owner has chosen for some columns, by name. `tables` holds x̂, shape (n_columns,
    n_rows), and `numbers` those of the tables' rows.
    """

    identity: Identity
    n_jobs: int
    store: ParticipantStore
    columns: tuple[Column, ...]
    secret: bytes
    settings: Mapping[str, ColumnSettings]
    tables: dict[str, Ints]
    numbers: dict[str, Ints]

    @property
    def certificate(self) -> EpochCertificate: ...

    @property
    def book(self) -> RequestBook: ...

    @property
    def policy(self) -> RequestPolicy: ...

    def check_epoch(self, epoch: int) -> None:
        """Refuse messages of any epoch but the current one."""

    def table(self, name: str) -> Ints:
        """Return a table that it holds. Raises ProtocolError."""

    def records(self, table: str) -> Paths:
        """Return the numbers of the records in a table that it holds, by which noise is drawn."""


class OwnerSide(ABC):
    """A participant's side of a protocol, for one forest."""

    def __init__(self, seat: OwnerSeat, opening: OpenForest) -> None:
        self.seat = seat
        self.opening = opening

    @property
    @abstractmethod
    def n_used(self) -> int | None:
        """How many splits of the forest are its own; None if it does not know."""

    @abstractmethod
    def save(self, store: ParticipantStore) -> None:
        """Copy what the owner keeps of the forest to another store."""

    def countersign(self, event: Event, used: Sequence[UsedCuts]) -> tuple[UsedCutsReceipt, bytes]:  # noqa: ARG002
        """Sign which of its cuts the forest uses. Returns the receipt, and its salt for CS.

        Raises ProtocolError if these are not cuts of its books.
        """
        raise ProtocolError("there are no books of cuts", kind="forest")

    @abstractmethod
    def handle(self, message: Message) -> Message | None:
        """Answer CS, or return None for what is not of this protocol."""


@dataclass(frozen=True)
class ForestProtocol:
    """A protocol: its two sides, where its cuts come from by an estimator's parameters, and what it needs."""

    coordinator: type[CoordinatorSide]
    owner: type[OwnerSide]
    cuts: Callable[[Any], Books | PerNode]
    needs_keys: bool
    answers_requests: bool
