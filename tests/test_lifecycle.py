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
KGC_STATES = [KgcState(*values) for values in product((0, 1, 2), BOTH, BOTH, BOTH, BOTH, BOTH)]
CS_STATES = [CsState(1, *values) for values in product(BOTH, repeat=8)]
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
    "an epoch is announced before anything else happens": (
        lambda kgc: kgc.epoch > 0 and not kgc.announced,
        {Step.ANNOUNCE},
    ),
    "nobody leaves before the last revocation is certified": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and kgc.revocation_in_progress,
        {Step.WAIT},
    ),
    "nothing happens while nobody asks to leave": (
        lambda kgc: kgc.epoch > 0 and kgc.announced and not kgc.leaving,
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
    "who may leave does so in the next epoch": (
        lambda kgc: (
            kgc.epoch > 0
            and kgc.announced
            and not (kgc.revocation_in_progress or kgc.setup_requested)
            and kgc.leaving
        ),
        {Step.BEGIN_EPOCH, Step.BEGIN_EPOCH_WITH_NEW_KEYS},
    ),
}

CS_LAWS: dict[str, tuple[Callable[[CsState], bool], set[Step]]] = {
    "nothing happens before the operator asks": (lambda cs: not cs.requested, {Step.WAIT}),
    "nothing happens with a forest that is ready": (lambda cs: cs.ready, {Step.WAIT}),
    "all enter the epoch before anything is asked of them": (
        lambda cs: cs.requested and not cs.gathered and not cs.created,
        {Step.ENTER_EPOCH},
    ),
    "all enter the epoch before a leaver's nodes are destroyed in it": (
        lambda cs: cs.requested and not (cs.gathered or cs.rebuilding) and cs.revoking,
        {Step.ENTER_EPOCH},
    ),
    "a rebuilding that was interrupted waits for no later epoch": (
        lambda cs: cs.requested and cs.settled and cs.created and cs.rebuilding,
        {Step.REVOKE},
    ),
    "a forest that grows needs KGC no more": (
        lambda cs: cs.created and not cs.revoking,
        {Step.WAIT, Step.SETTLE_ROWS, Step.OPEN_FOREST, Step.GROW},
    ),
    "rows are settled before a forest is created": (
        lambda cs: cs.requested and cs.gathered and not cs.settled and not cs.ready,
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
    "what is missing grows": (
        lambda cs: (
            cs.requested and cs.settled and cs.created and not cs.revoking and cs.opened and not cs.ready
        ),
        {Step.GROW},
    ),
    "nothing is ready that somebody has half left": (
        lambda cs: cs.revoking and cs.requested,
        {Step.ENTER_EPOCH, Step.SETTLE_ROWS, Step.REVOKE},
    ),
}


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


@pytest.mark.parametrize("name", [field.name for field in fields(CsState) if field.name != "epoch"])
def test_every_fact_about_cs_can_change_its_step(name: str) -> None:
    changed: list[dict[str, Any]] = [{name: value} for value in BOTH]
    assert any(
        replace(s, **changed[0]).next_step is not replace(s, **changed[1]).next_step for s in CS_STATES
    )


# -- the loop ---------------------------------------------------------------------------------------


CS_EFFECTS: dict[Step, dict[str, bool]] = {
    Step.ENTER_EPOCH: {"gathered": True},
    Step.SETTLE_ROWS: {"settled": True},
    Step.CREATE_FOREST: {"created": True},
    Step.REVOKE: {"outdated": False, "rebuilding": False, "opened": True, "whole": True},
    Step.OPEN_FOREST: {"opened": True},
    Step.GROW: {"whole": True},
}


def walked(state: CsState) -> tuple[CsState, list[Step]]:
    """Where steps that do what they promise lead to from here, and which steps these are."""
    done: list[Step] = []

    def perform(step: Step) -> None:
        nonlocal state
        done.append(step)
        state = replace(state, **CS_EFFECTS[step])

    run(lambda: state, {step: partial(perform, step) for step in CS_EFFECTS})
    return state, done


def test_from_every_state_the_loop_comes_to_a_forest_that_is_ready_without_doing_anything_twice() -> None:
    for start in CS_STATES:
        end, done = walked(start)
        assert end.ready or not start.requested
        assert len(done) == len(set(done))
        assert start.requested or not done


def test_step_that_changes_nothing_ends_the_loop() -> None:
    state = CsState(1, True, True, True, True, True, False, False, False)
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
