"""The life of a federation: from what a party has written down to its next step. No I/O.

KGC and CS each decide from their own records, in one process or in many. The first row that applies is the
next step. A party that was killed looks at its records again and goes on.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from revfrf.errors import ProtocolError, UsageError


class Step(Enum):
    """What KGC or CS does next."""

    WAIT = "nothing to do until somebody asks"
    # KGC
    BEGIN_FIRST_EPOCH = "deal keys to all parties and certify the first epoch"
    ANNOUNCE = "send the epoch certificate to all members that lack it"
    BEGIN_EPOCH = "certify the epoch without those who leave"
    BEGIN_EPOCH_WITH_NEW_KEYS = "certify the epoch without those who leave, with new keys for all who stay"
    # CS
    ENTER_EPOCH = "have KGC bring all members into the current epoch"
    SETTLE_ROWS = "find the rows that all participants share"
    CREATE_FOREST = "write down the rules of the forest, and align the rows"
    REVOKE = "FRF-Revoc: rebuild the forest without those who have left"
    OPEN_FOREST = "tell CC and all participants the rules of the forest"
    GROW = "FLE-Expan: grow what is missing"
    CERTIFY = "have KGC certify what the forest was grown from"
    FORGET = "erase the bins that their owners do not want to be kept"
    COLLECT_RECEIPTS = "have the members countersign the last event"


@dataclass(frozen=True)
class KgcState:
    """What KGC has written down, as far as it decides the next step.

    `setup_requested`: CS asks for the epoch. `announced`: all who are needed now have entered it.
    `revocation_in_progress`: it began with a revocation that is not certified yet. `leaving`: somebody asks
    to leave. `new_keys`: all who stay then need new keys. `lagging`: a connected member has not entered the
    epoch.
    """

    epoch: int
    setup_requested: bool
    announced: bool
    revocation_in_progress: bool
    leaving: bool
    new_keys: bool
    lagging: bool = False

    @property
    def idle(self) -> bool:
        """Whether another epoch may begin: no revocation is in progress, and CS does not ask for this one."""
        return not (self.revocation_in_progress or self.setup_requested)

    @property
    def next_step(self) -> Step:
        """The first row of KGC's table that applies."""
        return next(step for step, applies in _KGC if applies(self))


@dataclass(frozen=True)
class CsState:
    """What CS has written down, as far as it decides the next step.

    `requested`: the operator wants a forest. `gathered`: KGC has confirmed that all members are in this
    epoch. `settled`: the shared rows are known. `created`: the rules of the forest are. `opened`: all members
    know these. `outdated`: the forest still has nodes of a participant that has left, or one left before it
    was opened. `together`: all who stay take part in what follows. `rebuilding`: nodes are destroyed, and KGC
    has not certified the rest yet. `whole`: no node is missing. `waiting`: what is missing waits for an owner
    that was away; `away`: it still is. `certified`: the last event is, as far as it has come. `forgettable`:
    CS has bins that it should forget. `unsigned`: a connected member has not countersigned the last event.
    """

    epoch: int
    requested: bool
    gathered: bool
    settled: bool
    created: bool = False
    opened: bool = False
    outdated: bool = False
    together: bool = True
    rebuilding: bool = False
    whole: bool = False
    waiting: bool = False
    away: bool = False
    certified: bool = False
    forgettable: bool = False
    unsigned: bool = False

    @property
    def revoking(self) -> bool:
        """Whether somebody has left, and the forest without them is not certified yet."""
        return self.created and (self.outdated or self.rebuilding)

    @property
    def ready(self) -> bool:
        """Whether the forest answers: certified, without those who have left, as whole as it can be now."""
        grown = self.waiting or (self.whole and self.certified)
        return self.created and self.opened and grown and not self.revoking

    @property
    def next_step(self) -> Step:
        """The first row of CS's table that applies."""
        return next(step for step, applies in _CS if applies(self))


_KGC: tuple[tuple[Step, Callable[[KgcState], bool]], ...] = (
    (Step.BEGIN_FIRST_EPOCH, lambda kgc: kgc.epoch == 0 and kgc.setup_requested),
    (Step.WAIT, lambda kgc: kgc.epoch == 0),
    (Step.ANNOUNCE, lambda kgc: not kgc.announced),
    (Step.BEGIN_EPOCH_WITH_NEW_KEYS, lambda kgc: kgc.leaving and kgc.new_keys and kgc.idle),
    (Step.BEGIN_EPOCH, lambda kgc: kgc.leaving and kgc.idle),
    (Step.ANNOUNCE, lambda kgc: kgc.lagging),
    (Step.WAIT, lambda _: True),
)

_CS: tuple[tuple[Step, Callable[[CsState], bool]], ...] = (
    (Step.WAIT, lambda cs: not cs.requested),
    (Step.ENTER_EPOCH, lambda cs: not (cs.gathered or cs.created)),
    (Step.ENTER_EPOCH, lambda cs: not (cs.gathered or cs.rebuilding) and cs.outdated and cs.together),
    (Step.SETTLE_ROWS, lambda cs: not cs.settled),
    (Step.CREATE_FOREST, lambda cs: not cs.created),
    (Step.REVOKE, lambda cs: cs.revoking),
    (Step.OPEN_FOREST, lambda cs: not cs.opened),
    (Step.GROW, lambda cs: not (cs.whole or cs.away)),
    (Step.FORGET, lambda cs: cs.forgettable),
    (Step.CERTIFY, lambda cs: not cs.certified),
    (Step.COLLECT_RECEIPTS, lambda cs: cs.unsigned),
    (Step.WAIT, lambda _: True),
)


def run(look: Callable[[], KgcState | CsState], actions: Mapping[Step, Callable[[], object]]) -> None:
    """Look at the records, perform the next step, and look again, until there is nothing to do.

    Raises what a step raises, and ProtocolError for a step that changes nothing.
    """
    state = look()
    while state.next_step is not Step.WAIT:
        actions[state.next_step]()
        before, state = state, look()
        if state == before:
            raise ProtocolError(f"this step changed nothing: {state.next_step.value}", kind="order")


def check_somebody_stays(participants: Collection[str], leavers: Collection[str]) -> None:
    """Raise UsageError if no participant would be left without these."""
    if not set(participants) - set(leavers):
        raise UsageError("the last participant cannot leave: there would be no forest without it")
