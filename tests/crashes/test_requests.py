"""Requests that are killed at any step count, and keep nobody from asking."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from revfrf.errors import RefusedError
from revfrf.names import CC, CS, DEFAULT_REQUESTER
from tests.crashes.forests import (
    TINY,
    Before,
    Small,
    check_answers,
    check_encrypted,
    expected,
    file_of,
    leave,
    opened_again,
)
from tests.killing import copy_of, in_process, lasting, number_of, sample, steps_of, sweep
from tests.quick import quick

ASKED = 2


def ask(forest: Small, requester: str | None, directory: Path) -> None:
    model = forest.opened(directory)
    if requester == "lab":
        model.enrol_requester("lab")
    model.predict_encrypted(forest.rows()[:ASKED], requester)


def entered(steps: Sequence[str], file: str) -> bool:
    """Whether who has this database has written down the request that is under way."""
    begin = [i for i, name in enumerate(steps) if name.startswith("PredictRequest from ")]
    return bool(begin) and f"commit of {file}: after" in steps[begin[0] :]


def check_requests_killed(
    place: Path, before: Before, requester: str | None, *, every: int | None, known: bool = True
) -> None:
    """At all steps or some: whoever had counted the rows counts them, and other requests are answered."""
    forest, work = before.forest, partial(ask, before.forest, requester)
    steps = steps_of(partial(work, copy_of(before.directory, place)))
    expected(forest, ())
    name = requester or DEFAULT_REQUESTER
    files = {role: file_of(before, role) for role in (CS, CC, *forest.parties)}

    def check(directory: Path, number: int) -> None:
        model = opened_again(forest, directory)
        for role, party in model.federation_.with_policies.items():
            assert party.book.rows[name] == (ASKED if entered(steps[:number], files[role]) else 0), role
        check_answers(model, forest, ())
        if not known and requester not in (None, *model.federation_.kgc.state.admitted):
            model.enrol_requester(requester)
        if entered(steps[:number], files[CS]):
            with pytest.raises(RefusedError, match="CS"):
                model.predict_encrypted(forest.rows()[:ASKED], requester)
        check_encrypted(model, forest, (), requester)
        check_encrypted(model, forest, (), "telco")

    sweep(place, before.directory, steps, work, check, None if every is None else sample(steps, every))


@pytest.mark.parametrize("every", quick([None, 1], [1]))
def test_request_killed_at_any_step_counts_and_keeps_nobody_from_asking(
    place: Path, prepared: Callable[[Small], Before], every: int | None
) -> None:
    check_requests_killed(place, prepared(TINY), "clinic", every=every)


@pytest.mark.parametrize(
    ("requester", "every"), quick(product([None, "lab"], [1, 3]), [(None, 3), ("lab", 3)])
)
def test_requester_whose_first_request_is_killed_can_ask(
    place: Path, prepared: Callable[[Small], Before], requester: str | None, every: int
) -> None:
    """Whether KGC had admitted it or not."""
    check_requests_killed(place, prepared(TINY), requester, every=every, known=False)


def test_requester_killed_while_it_is_admitted_to_another_epoch_can_ask(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """It has keys of the epoch before, and perhaps of this one."""
    before = prepared(TINY)
    later = copy_of(before.directory, place)
    in_process(partial(leave, TINY, ("shop",), 2, later))
    work = partial(ask, TINY, "clinic")
    steps = steps_of(partial(work, copy_of(later, place)))
    assert number_of(steps, "KeyDeal from KGC to clinic")
    expected(TINY, ("shop",))

    def check(directory: Path, _: int) -> None:
        model = opened_again(TINY, directory)
        check_answers(model, TINY, ("shop",))
        check_encrypted(model, TINY, ("shop",), "clinic")

    sweep(place, later, steps, work, check, lasting(steps))
