"""Training that is killed at any step ends, when another process opens what is left, in the same forest."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from revfrf.errors import StorageError
from tests.crashes.forests import (
    FOUR,
    REGRESSION,
    THREE,
    TINY,
    Small,
    check_answers,
    check_encrypted,
    expected,
    fit,
    opened_again,
)
from tests.killing import copy_of, dies_at, lasting, number_of, some_place, steps_of, sweep


def begun(steps: Sequence[str]) -> int:
    """The number of the step after which CS has written down the forest that it is about to grow."""
    asked = steps.index("OpenForest from CS to CC: not delivered")
    return max(i for i, name in enumerate(steps[:asked], 1) if name == "commit of cs.db: after")


def check_training_killed_everywhere(place: Path, forest: Small) -> None:
    expected(forest, ())
    steps = steps_of(partial(fit, forest, some_place(place)))
    first, changed = begun(steps), set(lasting(steps))

    def check(directory: Path, number: int) -> None:
        if number < first:
            there = "making of kgc.db: after" in steps[:number]
            reason = (
                "training had not begun; remove the directory, and fit again" if there else "no forest in"
            )
            with pytest.raises(StorageError, match=reason) as caught:
                opened_again(forest, directory)
            assert caught.value.kind == "missing"
            return
        model = opened_again(forest, directory)
        check_answers(model, forest, ())
        if number in changed:
            check_encrypted(model, forest, (), None)

    sweep(place, None, steps, partial(fit, forest), check)


@pytest.mark.slow
def test_training_killed_at_any_step_ends_in_the_same_forest(place: Path) -> None:
    check_training_killed_everywhere(place, THREE)


@pytest.mark.slow
def test_training_killed_at_any_step_of_a_small_forest_ends_in_the_same_one(place: Path) -> None:
    check_training_killed_everywhere(place, TINY)


def test_training_ends_if_who_goes_on_with_it_is_killed_too(place: Path) -> None:
    expected(THREE, ())
    steps = steps_of(partial(fit, THREE, some_place(place)))
    killed = some_place(place)
    assert dies_at(number_of(steps, "LevelRequest from CS to telco: handled", 2), partial(fit, THREE, killed))
    steps = steps_of(partial(THREE.opened, copy_of(killed, place)))

    def check(directory: Path, _: int) -> None:
        check_answers(opened_again(THREE, directory), THREE, ())

    sweep(place, killed, steps, THREE.opened, check, lasting(steps))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("forest", [FOUR, REGRESSION], ids=["four", "regression"])
def test_training_killed_at_any_step_of_larger_forests(place: Path, forest: Small) -> None:
    check_training_killed_everywhere(place, forest)
