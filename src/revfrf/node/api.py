"""What an operator can ask of a running party. A request is a type; it names the type of its result.

`node.control` carries them over a socket. A service answers those that it has a method for.
Loading this takes no time: commands import it whether or not they use it.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import msgspec

Result = TypeVar("Result", covariant=True)
Voting = Literal["hard", "soft"]
RevocationLevel = Literal[1, 2]


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that crosses the control socket."""


class Progress(_Value, frozen=True, tag="progress"):
    """How far a request is. `done` is a fraction; `waiting` is set while a party is waited for."""

    step: str
    detail: str = ""
    done: float | None = None
    waiting: bool = False


OnProgress = Callable[[Progress], None]  # called from time to time while a request is under way


def no_progress(_: Progress) -> None:
    """Ignore progress."""


class Request(_Value, Generic[Result], frozen=True, tag_field="command"):
    """Something to ask. Its tag is the command by which an operator asks for it, without `revfrf`."""


def result_type(request: type[Request[Result]]) -> type[Result]:
    """Return the type of a request's result."""
    [base] = vars(request)["__orig_bases__"]
    return cast(type[Result], get_args(base)[0])


# -- every party ------------------------------------------------------------------------------------


class RevealedColumn(_Value, frozen=True):
    """What CS has received of a column: `bits` of each value at the most, log2 of the number of bins.

    `epsilon` is that of the noise on the bins, None if there is none; `epsilon_spent` counts all books so
    far. `forgotten`: CS erases the bins once the forest is grown. `generation` counts earlier books.
    """

    bins: int
    bits: float
    epsilon: float | None
    forgotten: bool
    generation: int
    epsilon_spent: float
    epsilon_budget: float | None


class HeldData(_Value, frozen=True):
    """What a participant holds: its columns, its training rows, and its splits, if it knows them.

    `revealed` is what CS has received of each column in training, with the shares protocol.
    """

    columns: tuple[str, ...]
    training_rows: int
    own_splits: int | None
    revealed: dict[str, RevealedColumn] = {}


class ForestSummary(_Value, frozen=True):
    """A trained forest. `classes` is None for regression."""

    digest: str
    nodes: int
    rows: int
    not_shared: int
    classes: int | None


class PartyStatus(_Value, frozen=True):
    """A party's status. `data` is a participant's, the last four CS's; `stopped` is why it cannot train.

    `waits_for` names participants that are offline and without whom a part of the forest cannot grow again.
    """

    federation: str
    role: str
    name: str
    connected: tuple[str, ...]
    epoch: int
    members: tuple[str, ...]
    left: tuple[str, ...]
    tls_certificate_days: int
    audit_head: str
    problem: str
    data: HeldData | None = None
    forest_state: Literal["none", "waiting", "growing", "ready"] | None = None
    stopped: str | None = None
    forest: ForestSummary | None = None
    waits_for: tuple[str, ...] | None = None


class Status(Request[PartyStatus], frozen=True, tag="status"):
    """Ask for the party's status."""


# -- CS ---------------------------------------------------------------------------------------------


class ParticipantRows(_Value, frozen=True):
    """A participant's table, and how many of CS's rows it shares."""

    party: str
    columns: int
    rows: int
    shared: int


class Matched(_Value, frozen=True):
    """How many of CS's rows all participants share, and how many each of them."""

    rows: int
    shared: int
    not_shared: int
    participants: tuple[ParticipantRows, ...]


class Match(Request[Matched], frozen=True, tag="match"):
    """Count the rows shared by all participants, without training."""


class Trained(_Value, frozen=True):
    """A forest. `existed` says that it was trained before; `changed` lists settings changed since then."""

    forest: ForestSummary
    existed: bool
    changed: tuple[str, ...]


class Train(Request[Trained], frozen=True, tag="train"):
    """Train the forest, or continue. `min_common` is the least fraction of CS's rows that must be shared."""

    min_common: float = 0.5


class TestScore(_Value, frozen=True):
    """The score on rows, `trained_on` of them trained on: `accuracy` of classes, else `mse` and `mae`.

    `lowest_coverage` is given if a part of the forest waits for a participant that is offline.
    """

    rows: int
    not_shared: int
    trained_on: int
    accuracy: float | None = None
    mse: float | None = None
    mae: float | None = None
    lowest_coverage: float | None = None


class Test(Request[TestScore], frozen=True, tag="test"):
    """Score the forest on the labelled rows of a file."""

    file: str
    voting: Voting = "hard"


class Predictions(_Value, frozen=True):
    """Predictions for the rows `ids`, as columns.

    An encrypted request also returns `coverage`, the fraction of trees that voted for each row, `probability`
    if there are classes, and the participants that were `offline`. So do others, without `probability`,
    while nodes wait for a participant. `not_shared` counts rows without a prediction, because not all
    participants hold them.
    """

    id_column: str
    ids: tuple[str, ...]
    prediction: tuple[str | float, ...]
    probability: tuple[float, ...] | None = None
    coverage: tuple[float, ...] | None = None
    offline: tuple[str, ...] = ()
    not_shared: int = 0


class Predict(Request[Predictions], frozen=True, tag="predict"):
    """Predict rows that the participants hold; a file has their ids."""

    file: str
    id_column: str | None = None
    voting: Voting = "hard"


class History(Request[list[dict[str, Any]]], frozen=True, tag="history"):
    """List what the event certificates so far show, as `protocols.certificate.shown_by` has it."""


class Audited(_Value, frozen=True):
    """An audit's result: what was compared, and what does not hold, by the name of the check."""

    holds: bool
    checks: tuple[str, ...]
    problems: dict[str, str]
    digest: str
    missing_receipts: tuple[str, ...]


class AuditForest(Request[Audited], frozen=True, tag="audit"):
    """Grow the forest a second time from what it was grown from, and compare it with what is certified.

    With `kgc_key`, the event certificates must be signed with this key.
    """

    kgc_key: bytes | None = None


class Export(Request[str], frozen=True, tag="export"):
    """Ask for an event certificate, as JSON. -1 is the last one."""

    number: int = -1


class Structure(Request[str], frozen=True, tag="export --forest"):
    """Ask for the forest as CS knows it, as JSON."""


class Report(Request[str], frozen=True, tag="report"):
    """Ask for a page about the forest, as HTML."""


# -- requesters and participants --------------------------------------------------------------------


class PredictEncrypted(Request[Predictions], frozen=True, tag="predict --encrypted"):
    """Predict the rows of a file, which leave this party encrypted."""

    file: str
    id_column: str = "id"
    voting: Voting = "hard"
    partial: bool = False


class Departure(_Value, frozen=True, omit_defaults=True):
    """A request to leave. If it was not sent, `request` is the signed request as hex digits."""

    party: str
    level: RevocationLevel
    asked_in_epoch: int
    request: str = ""


class Revoke(Request[Departure], frozen=True, tag="revoke"):
    """Leave the forest: sign a request, and `send` it to KGC."""

    level: RevocationLevel = 2
    send: bool = True


# -- KGC --------------------------------------------------------------------------------------------


class Accept(Request[Departure], frozen=True, tag="kgc accept"):
    """Accept a signed request to leave, as hex digits, that did not come through CS."""

    request: str


class Invite(Request[str], frozen=True, tag="kgc invite"):
    """Invite a party; the result is its token."""

    role: str
    name: str
    days: int = 365


class Uninvite(Request[None], frozen=True, tag="kgc uninvite"):
    """Cancel an invitation."""

    name: str
