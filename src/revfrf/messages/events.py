"""Messages about events: what happens to a forest, who certifies it, and who countersigns."""

from typing import Annotated, Literal

import msgspec

from revfrf.messages.base import MIB, Count, Digest, Id, Message, Name, Signature
from revfrf.messages.bins import FeatureId, FeatureLine
from revfrf.messages.frf_revoc import RevocationRequest, Time
from revfrf.messages.key_setup import EpochCertificate

EventKind = Literal["creation", "leaving"]
_LINES = "names, decimals, rings and numbers of cuts of columns"
Rounds = Annotated[int, msgspec.Meta(ge=1, le=8)]


class CertifiedInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What certificates say of the inputs of a forest: digests, and the lines that owners have signed.

    `seed` and `targets` (scales, numbers, labels and weights of the rows) are salted, so that nobody can test
    guesses; CS has the values and the salt. Under the paper protocol there are no lines.
    """

    rules: Digest
    seed: Digest
    targets: Digest
    rows: Digest
    n_rows: Count
    features: tuple[FeatureLine, ...]


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """CS's word on what an event has done to a forest, signed.

    Digests of the forest are salted like those of the inputs. `waits_for` names owners who were away, and
    whose bins are needed to grow the open nodes again.
    """

    epoch: Digest
    forest: Id
    inputs_before: CertifiedInputs | None
    inputs_after: CertifiedInputs
    digest_before: Digest | None
    digest_after: Digest
    destroyed: Count
    rebuilt: Count
    kept: Count
    waits_for: tuple[Name, ...]
    signature: Signature


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The core of an event certificate, signed by KGC. It never changes.

    Those who asked for it are in the epoch certificate. The times are KGC's: `asked_at` is when
    the last of the requests came, None if nobody had to ask.
    """

    format: str
    kind: EventKind
    epoch_before: EpochCertificate | None
    epoch_after: EpochCertificate
    report: Report
    asked_at: Time | None
    certified_at: Time
    signature: Signature

    @property
    def requests(self) -> tuple[RevocationRequest, ...]:
        """The signed requests of those who have left."""
        return self.epoch_after.requests if self.kind == "leaving" else ()


class EventReport(Message, frozen=True):
    """CS to KGC: this has happened to the forest."""

    protocol = "events"
    max_bytes = 128 * MIB
    report: Report

    def discloses(self) -> dict[str, int]:
        return {"reports of events": 1, _LINES: len(self.report.inputs_after.features)}


class Certified(Message, frozen=True):
    """KGC to CS: the event, certified."""

    protocol = "events"
    max_bytes = 256 * MIB
    event: Event


# -- countersignatures ------------------------------------------------------------------------------


class UsedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an owner signs of a column that the forest uses: how many rounds it takes to find a bin among the
    cuts in use, and the salted digest of their list.
    """

    feature: FeatureId
    generation: Count
    rounds: Rounds
    cuts: Digest


class UsedCutsReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="used cuts"):
    """An owner's word: after this event, the forest uses these of its columns."""

    party: Name
    event: Digest
    columns: tuple[UsedColumn, ...]
    signature: Signature


class ErasureReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="erasure"):
    """A member's word: it has erased what the event requires it to erase."""

    party: Name
    event: Digest
    signature: Signature


class CompletionReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="completion"):
    """CS's word: those it waited for are back, and the forest is whole."""

    party: Name
    event: Digest
    digest_after: Digest
    rebuilt: Count
    signature: Signature


Receipt = UsedCutsReceipt | ErasureReceipt | CompletionReceipt


class UsedCuts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of the cuts that a forest uses of a column, ascending, one byte each."""

    feature: FeatureId
    cuts: Annotated[bytes, msgspec.Meta(min_length=1, max_length=255)]


class EventNotice(Message, frozen=True):
    """CS to a member: this event was certified; countersign it, and which of your cuts the forest uses.

    Without `used`, a receipt for erasure is enough.
    """

    protocol = "events"
    max_bytes = 256 * MIB
    event: Event
    used: tuple[UsedCuts, ...] | None

    def discloses(self) -> dict[str, int]:
        """What the event certificate says, and which of its own cuts are used."""
        columns, used = self.event.report.inputs_after.features, self.used or ()
        own = sum(len(column.cuts) for column in used)
        return {"event certificates": 1, _LINES: len(columns), "its own cuts that are used": own}


class Countersigned(Message, frozen=True):
    """A member to CS: its receipts. With the salt CS can tell that the digests are of the cuts it named."""

    protocol = "events"
    max_bytes = 64 * MIB
    receipts: Annotated[tuple[UsedCutsReceipt | ErasureReceipt, ...], msgspec.Meta(max_length=2)]
    salt: Digest | None

    def discloses(self) -> dict[str, int]:
        return {"receipts for events": len(self.receipts)}
