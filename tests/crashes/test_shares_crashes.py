"""A forest of the shares protocol is the same even if processes are killed."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revfrf import RevocableForestClassifier
from revfrf.errors import StorageError
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.protocols import shares
from tests.killing import (
    copy_of,
    dies_at,
    for_good,
    in_process,
    number_of,
    sample,
    some_place,
    steps_of,
    sweep,
)
from tests.storage.traces import all_there, raw

X = np.random.default_rng(0).normal(size=(60, 5)).round(2)
Y = (X[:, :3].sum(axis=1) > 0).astype(np.int64) + (X[:, 2] > 1)
PARTIES = {"bank": [0, 4], "telco": [1, 3], "shop": [2]}
LIMITS: dict[int | str, int] = {0: 9, 2: 30}
LEVELS: tuple[RevocationLevel, RevocationLevel] = (1, 2)

pytestmark = pytest.mark.usefixtures("_compiled")


def estimator(directory: Path | None = None) -> RevocableForestClassifier:
    return RevocableForestClassifier(
        4,
        max_depth=4,
        max_features=0.6,
        min_samples_leaf=2,
        n_cuts=LIMITS,
        parties=PARTIES,
        random_state=3,
        n_jobs=1,
        directory=directory,
    )


@lru_cache
def expected(leavers: tuple[str, ...] = ()) -> tuple[str, bytes]:
    """Digest and answers of a forest in memory that these have left; in children, known already."""
    model = estimator().fit(X, Y)
    for leaver in leavers:
        model.revoke(leaver, 1)
    return model.digest_, model.predict_proba(X).tobytes()


@pytest.fixture(scope="module")
def _compiled() -> None:
    """Everything is compiled that children need, and computed what is expected of them."""
    for leavers in ((), ("bank",), ("telco",)):
        expected(leavers)


def tree_by_tree() -> None:
    """Write down every tree when it is done, and not with others half a second later."""
    for_good.setattr(shares, "_COMMIT_SECONDS", -1.0)


def fit(directory: Path) -> None:
    tree_by_tree()
    estimator(directory).fit(X, Y).close()


def leave(leaver: str, level: RevocationLevel, directory: Path) -> None:
    tree_by_tree()
    RevocableForestClassifier.open(directory).revoke(leaver, level)


def check(model: Any, *leavers: str) -> None:
    assert (model.digest_, model.predict_proba(X).tobytes()) == expected(leavers)


@pytest.fixture(scope="module")
def grown(place: Path, _compiled: None) -> Path:
    """A directory with a forest that nobody has left."""
    directory = some_place(place)
    in_process(partial(fit, directory))
    return directory


# -- training ---------------------------------------------------------------------------------------


def check_training(place: Path, every: int | None) -> None:
    steps = steps_of(partial(fit, some_place(place)))
    asked = steps.index("OpenForest from CS to CC: not delivered")
    begun = max(i for i, name in enumerate(steps[:asked], 1) if name == "commit of cs.db: after")
    assert sum(name == "commit of cs.db: after" for name in steps[asked:]) >= 3 + 4  # bins, then trees

    def checked(directory: Path, number: int) -> None:
        if number < begun:
            with pytest.raises(StorageError, match=r"training had not begun|no forest in"):
                RevocableForestClassifier.open(directory)
            return
        check(RevocableForestClassifier.open(directory))

    sweep(place, None, steps, fit, checked, None if every is None else sample(steps, every))


def test_training_killed_at_some_steps_ends_in_the_same_forest(place: Path) -> None:
    check_training(place, 5)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_training_killed_at_any_step_ends_in_the_same_forest(place: Path) -> None:
    check_training(place, None)


def test_training_ends_if_who_goes_on_with_it_is_killed_too(place: Path) -> None:
    steps = steps_of(partial(fit, some_place(place)))
    killed = some_place(place)
    assert dies_at(number_of(steps, "BinsRequest from CS to telco: handled"), partial(fit, killed))

    def go_on(directory: Path) -> None:
        tree_by_tree()
        RevocableForestClassifier.open(directory)

    left = steps_of(partial(go_on, copy_of(killed, place)))

    def checked(directory: Path, _: int) -> None:
        check(RevocableForestClassifier.open(directory))

    sweep(place, killed, left, go_on, checked, sample(left, 2))


def test_books_that_were_drawn_before_a_kill_are_not_drawn_again(place: Path) -> None:
    """What CS has lost is sent again, with the same salts: nobody sees two digests of the same bins."""
    steps = steps_of(partial(fit, some_place(place)))
    killed = some_place(place)
    assert dies_at(number_of(steps, "BinsRequest from CS to bank: handled"), partial(fit, killed))
    before = {name: data for name, data in raw(killed).items() if name.startswith("participant-bank-")}

    def salts() -> list[bytes]:
        model = RevocableForestClassifier.open(killed)
        check(model)
        return [book.salt for book in model.federation_.participants["bank"].store.books]

    drawn = in_process(salts)
    assert len(drawn) == 2
    assert all_there(before, drawn)


# -- leaving ----------------------------------------------------------------------------------------


def check_leaving(place: Path, grown: Path, leaver: str, level: RevocationLevel, every: int | None) -> None:
    steps = steps_of(partial(leave, leaver, level, copy_of(grown, place)))

    def checked(directory: Path, number: int) -> None:
        model = RevocableForestClassifier.open(directory)
        if leaver in model.parties_:  # killed before KGC knew of it
            assert number <= number_of(steps, "commit of kgc.db: before")
            model.revoke(leaver, level)
        check(model, leaver)
        model.certificates_[-1].verify(model.kgc_key_)
        assert len(model.certificates_) == 1

    chosen = None if every is None else sample(steps, every)
    sweep(place, grown, steps, partial(leave, leaver, level), checked, chosen)


@pytest.mark.parametrize("level", LEVELS)
def test_leaving_killed_at_some_steps_ends_in_the_forest_without(
    place: Path, grown: Path, level: RevocationLevel
) -> None:
    check_leaving(place, grown, "bank", level, 3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("leaver", ["bank", "telco"])
@pytest.mark.parametrize("level", LEVELS)
def test_leaving_killed_at_any_step_ends_in_the_forest_without(
    place: Path, grown: Path, level: RevocationLevel, leaver: str
) -> None:
    check_leaving(place, grown, leaver, level, None)
