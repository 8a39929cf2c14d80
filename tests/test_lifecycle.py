"""The tables of the life cycle: every state has one next step, and what matters more comes first."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from itertools import product
from typing import Any

import pytest

from revfrf.errors import ProtocolError, UsageError
from revfrf.lifecycle import CsState, KgcState, Step, check_somebody_stays, run

BOTH = (False, True)
KGC_STATES = [KgcState(epoch, *values) for epoch in (0, 1, 2) for values in product(BOTH, repeat=6)]
CS_STATES = [CsState(1, *values) for values in product(BOTH, repeat=14)]
KGC_STEPS = {
    Step.WAIT,
    Step.BEGIN_FIRST_EPOCH,
    Step.ANNOUNCE,
    Step.BEGIN_EPOCH,
    Step.BEGIN_EPOCH_WITH_NEW_KEYS,
}


def test_every_state_has_a_next_step_and_every_step_some_state() -> None:
    assert {state.next_step for state in KGC_STATES} == KGC_STEPS
    assert {state.next_step for state in CS_STATES} == {*Step} - KGC_STEPS | {Step.WAIT}


KGC_LAWS: dict[str, tuple[Callable[[KgcState], bool], set[Step]]] = {
    "nothing happens before CS asks for the first epoch": (
        lambda kgc: kgc.epoch == 0 and not kgc.setup_requested,
        {Step.WAIT},
    ),
    "the first epoch begins when CS asks for it": (
        lambda kgc: kgc.epoch == 0 and kgc.setup_requested,
        {Step.BEGIN_FIRST_EPOCH},
    ),
    "an epoch is announced to those who are needed before anything else happens": (
        lambda kgc: kgc.epoch > 0 and not kgc.announced,
        {Step.ANNOUNCE},
    ),
    "nobody leaves before the last revocation is certified": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and kgc.revocation_in_progress,
        {Step.WAIT, Step.ANNOUNCE},
    ),
    "nothing happens while nobody asks to leave, and all know the epoch": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and not (kgc.leaving or kgc.lagging),
        {Step.WAIT},
    ),
    "keys that need not change stay": (
        lambda kgc: not kgc.new_keys,
        {*KGC_STEPS} - {Step.BEGIN_EPOCH_WITH_NEW_KEYS},
    ),
    "keys that must change do": (lambda kgc: kgc.new_keys, {*KGC_STEPS} - {Step.BEGIN_EPOCH}),
    "a request of CS begins no epoch but the first": (
        lambda kgc: kgc.epoch > 0 and kgc.setup_requested,
        {Step.ANNOUNCE, Step.WAIT},
    ),
    "who may leave does so in the next epoch, whoever else has not heard of the last": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and kgc.idle and kgc.leaving,
        {Step.BEGIN_EPOCH, Step.BEGIN_EPOCH_WITH_NEW_KEYS},
    ),
    "who comes back is told of the epoch": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and kgc.lagging and not (kgc.leaving and kgc.idle),
        {Step.ANNOUNCE},
    ),
}

CS_LAWS: dict[str, tuple[Callable[[CsState], bool], set[Step]]] = {
    "nothing happens before the operator asks": (lambda cs: not cs.requested, {Step.WAIT}),
    "nothing happens with a forest that is ready, whole, and signed by all who are there": (
        lambda cs: (
            cs.ready and cs.settled and cs.whole and cs.certified and not (cs.forgettable or cs.unsigned)
        ),
        {Step.WAIT},
    ),
    "all enter the epoch before anything is asked of them": (
        lambda cs: cs.requested and not cs.gathered and not cs.created,
        {Step.ENTER_EPOCH},
    ),
    "all who take part in rebuilding enter the epoch before a leaver's nodes are destroyed in it": (
        lambda cs: (
            cs.requested and cs.created and cs.outdated and cs.together and not (cs.gathered or cs.rebuilding)
        ),
        {Step.ENTER_EPOCH},
    ),
    "a forest that CS rebuilds by itself waits for nobody": (
        lambda cs: cs.requested and cs.settled and cs.revoking and not cs.together,
        {Step.REVOKE},
    ),
    "a rebuilding that was interrupted waits for no later epoch": (
        lambda cs: cs.requested and cs.settled and cs.created and cs.rebuilding,
        {Step.REVOKE},
    ),
    "rows are settled before a forest is created": (
        lambda cs: cs.requested and cs.gathered and not cs.settled,
        {Step.SETTLE_ROWS},
    ),
    "a forest is created after the rows are settled": (
        lambda cs: cs.requested and cs.gathered and cs.settled and not cs.created,
        {Step.CREATE_FOREST},
    ),
    "leavers are revoked before anything grows": (
        lambda cs: cs.requested and cs.gathered and cs.settled and cs.revoking,
        {Step.REVOKE},
    ),
    "nothing grows before all know the forest": (
        lambda cs: cs.requested and cs.settled and cs.created and not cs.revoking and not cs.opened,
        {Step.OPEN_FOREST},
    ),
    "what is missing grows, unless it needs an owner that is away": (
        lambda cs: grows(cs) and not cs.whole and not cs.away,
        {Step.GROW},
    ),
    "what needs an owner that is away does not grow": (
        lambda cs: cs.away,
        {*Step} - KGC_STEPS - {Step.GROW} | {Step.WAIT},
    ),
    "only what is as whole as it can be is certified": (
        lambda cs: grows(cs) and (cs.whole or cs.away) and not (cs.certified or cs.forgettable),
        {Step.CERTIFY},
    ),
    "bins are forgotten as soon as the forest is grown": (
        lambda cs: grows(cs) and (cs.whole or cs.away) and cs.forgettable,
        {Step.FORGET},
    ),
    "members sign when there is nothing else to do": (
        lambda cs: (
            grows(cs) and (cs.whole or cs.away) and cs.certified and not cs.forgettable and cs.unsigned
        ),
        {Step.COLLECT_RECEIPTS},
    ),
    "nobody waits for a receipt": (
        lambda cs: cs.unsigned and (not cs.requested or not cs.settled or not cs.certified),
        {*Step} - KGC_STEPS - {Step.COLLECT_RECEIPTS} | {Step.WAIT},
    ),
    "a forest that is created needs the epochs of nobody but leavers": (
        lambda cs: cs.created and not cs.outdated,
        {*Step} - KGC_STEPS - {Step.ENTER_EPOCH, Step.CREATE_FOREST} | {Step.WAIT},
    ),
    "nothing is ready that somebody has half left": (
        lambda cs: cs.revoking and cs.requested,
        {Step.ENTER_EPOCH, Step.SETTLE_ROWS, Step.REVOKE},
    ),
}


def grows(cs: CsState) -> bool:
    """Whether all know the forest, and nobody has left it."""
    return cs.requested and cs.settled and cs.created and cs.opened and not cs.revoking


@pytest.mark.parametrize(
    ("laws", "states", "law"),
    [*((KGC_LAWS, KGC_STATES, law) for law in KGC_LAWS), *((CS_LAWS, CS_STATES, law) for law in CS_LAWS)],
    ids=[*KGC_LAWS, *CS_LAWS],
)
def test_law_holds_in_every_state(laws: dict[str, Any], states: list[Any], law: str) -> None:
    concerns, allowed = laws[law]
    found = [state for state in states if concerns(state)]
    assert found
    assert {state.next_step for state in found} <= allowed


def test_what_is_ready_is_certified_or_waits_for_an_owner_and_nobody_has_half_left_it() -> None:
    for state in CS_STATES:
        grown = state.waiting or (state.whole and state.certified)
        known = state.created and state.opened
        assert state.ready == (known and grown and not (state.outdated or state.rebuilding))


FACTS = {
    (kind, field.name)
    for kind in (KgcState, CsState)
    for field in fields(kind)
    if field.name not in ("epoch", "waiting")  # an epoch's number, and what only says whether CS is ready
}


@pytest.mark.parametrize(("kind", "name"), sorted(FACTS, key=str))
def test_every_fact_can_change_the_next_step(kind: type[Any], name: str) -> None:
    states = KGC_STATES if kind is KgcState else CS_STATES
    changed: list[dict[str, Any]] = [{name: value} for value in BOTH]
    assert any(replace(s, **changed[0]).next_step is not replace(s, **changed[1]).next_step for s in states)


# -- the loop ---------------------------------------------------------------------------------------


def after(cs: CsState, step: Step) -> list[CsState]:
    """What a step that does what it promises can lead to, the best first."""
    match step:
        case Step.ENTER_EPOCH:
            return [replace(cs, gathered=True)]
        case Step.SETTLE_ROWS:
            return [replace(cs, settled=True)]
        case Step.CREATE_FOREST:
            return [replace(cs, created=True)]
        case Step.OPEN_FOREST:
            return [replace(cs, opened=True)]
        case Step.GROW:  # an event that has left nodes open is then to be completed
            return [
                replace(cs, whole=True, away=False, together=False, certified=cs.certified and not cs.waiting)
            ]
        case Step.CERTIFY:
            return [replace(cs, certified=True, waiting=False, unsigned=True)]
        case Step.REVOKE:
            rebuilt = replace(
                cs, outdated=False, rebuilding=False, opened=True, certified=True, unsigned=True
            )
            open_nodes = replace(rebuilt, whole=False, waiting=True, away=True)
            return [replace(rebuilt, whole=True, waiting=False, away=False), open_nodes]
        case Step.FORGET:
            return [replace(cs, forgettable=False)]
        case Step.COLLECT_RECEIPTS:
            return [replace(cs, unsigned=False)]
    raise AssertionError(step)


def befalls(cs: CsState) -> list[CsState]:
    """What can happen to a federation between two steps of CS, also that its process is killed."""
    found = [replace(cs, requested=True), replace(cs, gathered=False)]
    if cs.created:  # somebody leaves, before the forest is opened or later
        found.append(replace(cs, outdated=True, gathered=False, whole=False))
    if cs.outdated and cs.opened and (cs.gathered or not cs.together):  # killed while nodes are destroyed
        found.append(replace(cs, outdated=False, rebuilding=True, whole=False))
    if cs.waiting and not cs.whole:
        found.append(replace(cs, away=not cs.away))
    if cs.certified:  # a member comes back who has not signed yet
        found.append(replace(cs, unsigned=True))
    if cs.whole or cs.away:
        found.append(replace(cs, forgettable=True))
    if cs.opened:  # under the shares protocol all bins have arrived; under the paper's all go on taking part
        found.append(replace(cs, together=False))
    return found


def reachable() -> set[CsState]:
    """All states that a federation can come to from its beginning."""
    known, fresh = set[CsState](), {CsState(1, False, False, False)}
    while fresh:
        known |= fresh
        found = {other for state in fresh for other in befalls(state)}
        found |= {
            other
            for state in fresh
            if state.next_step is not Step.WAIT
            for other in after(state, state.next_step)
        }
        fresh = found - known
    return known


def walked(state: CsState, outcome: int) -> tuple[CsState, list[Step]]:
    """Where steps lead to from here, with their best outcome or their worst, and which steps these are."""
    done: list[Step] = []

    def perform(step: Step) -> None:
        nonlocal state
        done.append(step)
        state = after(state, step)[outcome]

    run(lambda: state, {step: partial(perform, step) for step in Step})
    return state, done


@pytest.mark.parametrize("outcome", [0, -1], ids=["all are there", "an owner is away"])
def test_from_every_reachable_state_the_loop_comes_to_a_forest_that_is_ready_and_waits(outcome: int) -> None:
    """Without doing anything twice. What was ready at the start never becomes less so."""
    states = reachable()
    assert {state.next_step for state in states} == {*Step} - KGC_STEPS | {Step.WAIT}
    assert len(states) > 200
    for start in states:
        end, done = walked(start, outcome)
        assert end.next_step is Step.WAIT
        assert end.ready or not start.requested
        assert end.whole or end.away or not start.requested
        assert len(done) == len(set(done))
        assert start.requested or not done


def rested(kgc: KgcState) -> tuple[KgcState, list[Step]]:
    """Where KGC's steps lead to from here, and which steps these are."""
    done: list[Step] = []

    def announce() -> None:
        nonlocal kgc
        done.append(Step.ANNOUNCE)
        kgc = replace(kgc, announced=True, lagging=False)

    def begin() -> None:
        nonlocal kgc
        done.append(Step.BEGIN_EPOCH)
        begun = {"announced": False, "revocation_in_progress": True, "leaving": False, "lagging": True}
        kgc = replace(kgc, epoch=kgc.epoch + 1, **begun)

    actions = {Step.ANNOUNCE: announce, Step.BEGIN_EPOCH: begin, Step.BEGIN_EPOCH_WITH_NEW_KEYS: begin}
    run(lambda: kgc, actions)
    return kgc, done


def test_kgc_comes_to_rest_from_every_state_and_begins_one_epoch_at_the_most() -> None:
    for start in KGC_STATES:
        if start.epoch:
            end, done = rested(start)
            assert end.next_step is Step.WAIT
            assert end.announced
            assert done.count(Step.BEGIN_EPOCH) == (start.leaving and start.idle)
            assert len(done) <= 3


def test_step_that_changes_nothing_ends_the_loop() -> None:
    state = CsState(1, True, True, True, created=True, opened=True)
    with pytest.raises(ProtocolError, match="this step changed nothing: FLE-Expan"):
        run(lambda: state, {Step.GROW: lambda: None})


def test_what_a_step_raises_ends_the_loop() -> None:
    with pytest.raises(ZeroDivisionError):
        run(lambda: KgcState(1, False, False, False, False, False), {Step.ANNOUNCE: lambda: 1 / 0})


# -- the last participant ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leavers", "leaves"),
    [
        ([], True),
        (["bank"], True),
        (["bank", "bank"], True),
        (["bank", "shop"], False),
        (["shop", "x"], True),
    ],
)
def test_all_may_leave_but_the_last(leavers: list[str], leaves: bool) -> None:
    if leaves:
        assert check_somebody_stays(["bank", "shop"], leavers) is None  # type: ignore[func-returns-value]
    else:
        with pytest.raises(UsageError, match="the last participant cannot leave"):
            check_somebody_stays(["bank", "shop"], leavers)
