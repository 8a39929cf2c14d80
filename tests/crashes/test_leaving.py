"""Leaving that is killed at any step has happened wholly or not at all, whoever opens what is left."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS, KGC
from revfrf.protocols.paper.sides import PaperCoordinator
from revfrf.protocols.sides import TRAINING
from revfrf.roles.coordinator import Coordinator
from tests.crashes.forests import (
    FOUR,
    IDLE,
    POLICY,
    REGRESSION,
    THREE,
    TINY,
    Before,
    Small,
    X,
    check_answers,
    check_encrypted,
    expected,
    file_of,
    fit,
    keys_of,
    leave,
    nodes_of,
    opened_again,
)
from tests.federations import modulus
from tests.killing import (
    all_steps,
    copy_of,
    dies_after,
    dies_at,
    for_good,
    in_process,
    lasting,
    number_of,
    sample,
    some_place,
    steps_of,
    sweep,
)
from tests.quick import quick

LEVELS: tuple[RevocationLevel, ...] = (1, 2)


# -- what is left -----------------------------------------------------------------------------------


def taken(steps: Sequence[str]) -> tuple[str, ...]:
    """Who had asked to leave when KGC's word of it was last committed."""
    leavers, asking = [], None
    for name in steps:
        if name.startswith("RevocationRequest from ") and name.endswith(f" to {KGC}: not delivered"):
            asking = name.split()[2]
        elif asking is not None and name == "commit of kgc.db: after":
            leavers.append(asking)
            asking = None
    return tuple(leavers)


def found_in(directory: Path, secrets: Collection[bytes]) -> set[str]:
    """The files in which one of these begins; a page may end before its end."""
    starts = {secret[:16] for secret in secrets}
    assert all(len(start) > 5 for start in starts)
    contents = {path.name: path.read_bytes() for path in directory.iterdir()}
    return {name for name, content in contents.items() if any(start in content for start in starts)}


def check_standing(model: Any, before: Before, leavers: tuple[str, ...], level: RevocationLevel) -> None:
    """Everybody is in one epoch, with its keys and no others; nothing is under way."""
    federation, left = model.federation_, bool(leavers)
    kgc, certificate = federation.kgc.state, federation.kgc.current
    assert (kgc.leaving, kgc.left, federation.kgc.lifecycle_state().announced) == ({}, (), True)
    assert federation.coordinator.store.rebuilding is None
    assert federation.coordinator.ready
    assert (certificate.epoch, certificate.revoked) == (1 + left, leavers)
    assert set(federation.participants) == before.forest.parties.keys() - set(leavers)
    new = left and level == 2
    assert (modulus(certificate) == before.n) == (not new)
    for name, role in federation.with_policies.items():
        identity = role.identity
        assert identity.certificate == certificate
        assert identity.pending_keys is None
        assert identity.keys is not None
        assert identity.dealt_epoch == 1 + new
        assert identity.weak.parameters.n == modulus(certificate)
        assert set(keys_of(identity)).isdisjoint(before.keys[name]) == new
        assert role.policy == POLICY
    side = federation.coordinator.side
    assert isinstance(side, PaperCoordinator)
    assert federation.parameters.n == side.plan.parameters.n == modulus(certificate)
    splits = federation.coordinator.store.splits
    if new:
        assert {split.epoch for split in splits.values()} == {2}
        assert {s.ciphertext for s in splits.values()}.isdisjoint(before.ciphertexts.values())
    else:
        kept = {node for node, split in splits.items() if split.epoch == 1}
        assert all(splits[node].ciphertext == before.ciphertexts[node] for node in kept)


def check_files(
    directory: Path, federation: Federation, before: Before, leavers: tuple[str, ...], level: RevocationLevel
) -> None:
    """Of those who have left there is no file, and of what has gone no byte in any other's."""
    files = {path.name for path in directory.iterdir()}
    gone = {name for name in before.files if any(name.startswith(f"participant-{p}-") for p in leavers)}
    assert len(gone) == len(leavers)
    assert {name for name in files if name.endswith(".db")} == before.files - gone
    assert {name.removesuffix("-wal") for name in files} == before.files - gone
    assert found_in(directory, before.gone(federation, leavers, level)) == set()


def check_certificate(model: Any, forest: Small, leavers: tuple[str, ...], level: RevocationLevel) -> None:
    certificates = model.federation_.coordinator.certificates
    if not leavers:
        assert certificates == ()
        return
    [certificate] = certificates
    certificate.verify(model.kgc_key_)
    assert (certificate.leavers, certificate.level) == (leavers, level)
    assert certificate.report.digest_before == expected(forest, ()).digest
    assert certificate.report.digest_after == expected(forest, leavers).digest
    assert certificate == model.federation_.kgc.state.certified


def check_left(before: Before, leavers: tuple[str, ...], level: RevocationLevel, directory: Path) -> Any:
    """These have left, or nobody has, and nothing is in between."""
    model = opened_again(before.forest, directory)
    check_state(model, before, leavers, level)
    return model


def check_state(model: Any, before: Before, leavers: tuple[str, ...], level: RevocationLevel) -> None:
    check_answers(model, before.forest, leavers)
    check_standing(model, before, leavers, level)
    check_certificate(model, before.forest, leavers, level)


def check_goes_on(
    before: Before,
    leavers: tuple[str, ...],
    level: RevocationLevel,
    next_leaver: str,
    requester: str | None,
    directory: Path,
) -> None:
    """As `check_left`; an encrypted request is answered, another can leave, and all can be opened once more.

    Of what has gone, no file holds a byte: neither while the forest is open, nor when it was closed.
    """
    forest = before.forest
    model = check_left(before, leavers, level, directory)
    check_files(directory, model.federation_, before, leavers, level)
    check_encrypted(model, forest, leavers, requester)
    model.revoke(next_leaver, 1).verify(model.kgc_key_)
    everybody = tuple(sorted({*leavers, next_leaver}))
    check_answers(model, forest, everybody)
    model.close()
    gone = before.gone(model.federation_, everybody, level if leavers else 1)
    assert found_in(directory, gone) == set()
    check_answers(forest.opened(directory), forest, everybody)


# -- leaving ----------------------------------------------------------------------------------------


def check_leaving_killed(
    place: Path,
    before: Before,
    leavers: tuple[str, ...],
    level: RevocationLevel,
    next_leaver: str | None = None,
    every: int = 1,
) -> list[str]:
    """At all steps if there is a next leaver, and after those that change the disk the forest has to go on;
    else at these alone, or some of them. Returns the names of all steps.
    """
    forest, work = before.forest, partial(leave, before.forest, leavers, level)
    steps = steps_of(partial(work, copy_of(before.directory, place)))
    assert taken(steps) == leavers
    requesters = ("clinic", next_leaver, None)
    for left in (leavers[:end] for end in range(len(leavers) + 1)):
        expected(forest, left)
        if next_leaver is not None:
            expected(forest, tuple(sorted({*left, next_leaver})))
    changed = lasting(steps)

    def check(directory: Path, number: int) -> None:
        left = taken(steps[:number])
        if next_leaver is None:
            model = check_left(before, left, level, directory)
            check_files(directory, model.federation_, before, left, level)
        elif number in changed:
            requester = requesters[changed.index(number) % 3]
            check_goes_on(before, left, level, next_leaver, requester, directory)
        else:
            check_left(before, left, level, directory)

    sweep(place, before.directory, steps, work, check, sample(steps, every) if next_leaver is None else None)
    return steps


def told(steps: Sequence[str], message: str) -> set[str]:
    """To whom CS has sent this."""
    return {name.split()[4][:-1] for name in steps if name.startswith(f"{message} from CS to ")}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_leaving_killed_at_any_step_has_happened_wholly_or_not_at_all(
    place: Path, prepared: Callable[[Small], Before], level: RevocationLevel
) -> None:
    """Not at all, only as long as KGC has not taken the request."""
    steps = check_leaving_killed(place, prepared(THREE), ("bank",), level, "shop")
    assert told(steps, "Destroy") == told(steps, "LevelRequest") == {"telco", "shop"}
    assert told(steps, "Rekey") == ({"telco", "shop"} if level == 2 else set())


@pytest.mark.parametrize("every", quick([1, 5], [5]))
def test_leaving_killed_at_any_step_that_changes_a_disk_has_happened_wholly_or_not_at_all(
    place: Path, prepared: Callable[[Small], Before], every: int
) -> None:
    steps = check_leaving_killed(place, prepared(THREE), ("bank",), 2, every=every)
    assert told(steps, "Destroy") == told(steps, "Rekey") == {"telco", "shop"}


@pytest.mark.slow
def test_leaving_that_lets_nobody_forget_a_cut_leaves_no_trace_either(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """Nobody below telco's nodes has any; all that the others erase is their keys."""
    steps = check_leaving_killed(place, prepared(TINY), ("telco",), 2)
    assert told(steps, "Destroy") == set()
    assert told(steps, "Rekey") == {"bank", "shop"}


@pytest.mark.slow
def test_leaver_without_any_nodes_leaves_like_others(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    steps = check_leaving_killed(place, prepared(IDLE), ("shop",), 2)
    assert told(steps, "Destroy") == told(steps, "LevelRequest") == set()


@pytest.mark.slow
def test_two_who_leave_together_have_left_if_they_had_asked(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """Each asks for itself: between their requests one has asked, and leaves alone."""
    check_leaving_killed(place, prepared(FOUR), ("shop", "telco"), 2)


def test_traces_that_are_looked_for_are_there_before_anybody_leaves(
    prepared: Callable[[Small], Before],
) -> None:
    before = prepared(THREE)
    for name, role in ((name, name.lower()) for name in (CS, CC)):
        for key in before.keys[name]:
            assert found_in(before.directory, [key]) == {f"{role}.db"}
    for key in before.keys["clinic"]:
        [file] = found_in(before.directory, [key])
        assert file.startswith("requester-clinic-")
    for name in THREE.parties:
        assert before.cuts[name]
        for secret in (*before.keys[name], *before.own[name], *before.cuts[name]):
            assert found_in(before.directory, [secret]) == {file_of(before, name)}
    for secret in (*before.ciphertexts.values(), *before.signatures):
        assert found_in(before.directory, [secret]) == {"cs.db"}


# -- never half a forest ----------------------------------------------------------------------------


def watching(forest: Small, leavers: tuple[str, ...]) -> Callable[[], None]:
    """From now on in this process: a forest that is served is whole, one of its epoch, and certified."""
    coordinators: list[Coordinator] = []
    made = Coordinator.__init__

    def making(coordinator: Coordinator, *given: Any, **named: Any) -> None:
        made(coordinator, *given, **named)
        coordinators.append(coordinator)

    def watch() -> None:
        for cs in coordinators:
            if cs.ready:
                assert not cs.lifecycle_state().revoking
                left = leavers if cs.certificate.epoch > 1 else ()
                assert nodes_of(cs.store) == expected(forest, left).nodes
            else:
                with pytest.raises(ProtocolError, match="still training, or being rebuilt"):
                    cs.votes(TRAINING, len(X), "hard")

    for_good.setattr(Coordinator, "__init__", making)
    return watch


@pytest.mark.parametrize("level", quick(LEVELS, [2]))
def test_no_forest_is_served_that_somebody_has_half_left(
    place: Path, prepared: Callable[[Small], Before], level: RevocationLevel
) -> None:
    """At no step of leaving, nor of going on after a kill."""
    before, leavers = prepared(THREE), ("bank",)
    work = partial(leave, THREE, leavers, level)
    expected(THREE, ()), expected(THREE, leavers)

    def watched(work: Callable[[], object]) -> list[str]:
        return in_process(lambda: all_steps(work, watching(THREE, leavers)))

    steps = watched(partial(work, copy_of(before.directory, place)))
    for number in lasting(steps)[::5]:
        killed = copy_of(before.directory, place)
        assert dies_at(number, partial(work, killed))
        assert watched(partial(opened_again, THREE, killed))


# -- killed again and again -------------------------------------------------------------------------


FIRST_KILLS = [
    pytest.param(("commit of kgc.db: after", 1), id="asked", marks=pytest.mark.slow),
    pytest.param(
        ("EpochCertificate from KGC to CS: handled", 1), id="some in the new epoch", marks=pytest.mark.slow
    ),
    pytest.param(("LevelRequest from CS to telco: handled", 2), id="half grown", marks=pytest.mark.slow),
    pytest.param(("Rekey from CS to telco: not delivered", 1), id="half encrypted anew"),
    pytest.param(("RevocationReport from CS to KGC: handled", 1), id="certified", marks=pytest.mark.slow),
]


def check_killed_twice(place: Path, before: Before, first: int, numbers: str) -> None:
    """Once at this step of leaving, and then at steps of going on."""
    work = partial(leave, before.forest, ("bank",), 2)
    killed = copy_of(before.directory, place)
    assert dies_at(first, partial(work, killed))
    again = partial(before.forest.opened)
    steps = steps_of(partial(again, copy_of(killed, place)))

    def check(directory: Path, _: int) -> None:
        model = check_left(before, ("bank",), 2, directory)
        check_files(directory, model.federation_, before, ("bank",), 2)

    sweep(place, killed, steps, again, check, lasting(steps) if numbers == "lasting" else None)


@pytest.mark.parametrize("first", FIRST_KILLS)
def test_leaving_ends_if_who_goes_on_with_it_is_killed_too(
    place: Path, prepared: Callable[[Small], Before], first: tuple[str, int]
) -> None:
    before = prepared(TINY)
    expected(TINY, ()), expected(TINY, ("bank",))
    steps = steps_of(partial(leave, TINY, ("bank",), 2, copy_of(before.directory, place)))
    check_killed_twice(place, before, number_of(steps, *first), "lasting")


def check_kill_sequence(place: Path, before: Before, seed: int, *, by_time: bool) -> None:
    """Leaving is killed somewhere, and then whoever goes on, until one is not."""
    rng = random.Random(seed)
    forest, leavers, level = before.forest, ("bank",), rng.choice(LEVELS)
    directory = copy_of(before.directory, place)
    work: Callable[[], object] = partial(leave, forest, leavers, level, directory)
    kills = 0
    while dies_after(rng.uniform(0, 0.2), work) if by_time else dies_at(rng.randint(1, 130), work):
        work = partial(opened_again, forest, directory)
        kills += 1
        assert kills < 100

    def check() -> None:
        model = opened_again(forest, directory)
        left = model.federation_.kgc.current.revoked
        assert left in ((), leavers)
        check_state(model, before, left, level)
        check_files(directory, model.federation_, before, left, level)

    expected(forest, ()), expected(forest, leavers)
    in_process(check)
    shutil.rmtree(directory)


@pytest.mark.parametrize("by_time", [False, True], ids=["at steps", "at any time"])
def test_leaving_ends_however_often_it_is_killed(
    place: Path, prepared: Callable[[Small], Before], by_time: bool
) -> None:
    for seed in range(2):
        check_kill_sequence(place, prepared(THREE), seed, by_time=by_time)


# -- another interpreter ----------------------------------------------------------------------------


OPEN_THEM = """
import sys
from revfrf import RevocableForestClassifier
for directory in sys.argv[1:]:
    model = RevocableForestClassifier.open(directory)
    print(model.digest_, *(c.report.digest_after for c in model.federation_.coordinator.certificates))
"""


def test_interpreter_that_knows_nothing_but_the_directory_ends_it_too(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """Forked children share what their parent has in memory; this one has nothing of it."""
    before, training = prepared(THREE), some_place(place)
    steps = steps_of(partial(fit, THREE, some_place(place)))
    half_grown = number_of(steps, "LevelRequest from CS to telco: handled", 2)
    assert dies_at(half_grown, partial(fit, THREE, training))
    leaving = [copy_of(before.directory, place) for _ in LEVELS]
    for level, directory in zip(LEVELS, leaving, strict=True):
        work = partial(leave, THREE, ("bank",), level)
        steps = steps_of(partial(work, copy_of(before.directory, place)))
        assert dies_at(number_of(steps, "EpochCertificate from KGC to CS: handled"), partial(work, directory))
    command = [sys.executable, "-W", "error", "-c", OPEN_THEM, str(training), *map(str, leaving)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    without = expected(THREE, ("bank",)).digest
    assert done.stdout.split("\n") == [expected(THREE, ()).digest, *[f"{without} {without}"] * 2, ""]


# -- longer -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("forest", "leavers", "next_leaver"),
    [(FOUR, ("shop", "telco"), "bank"), (REGRESSION, ("shop",), "telco")],
    ids=["two of four", "regression"],
)
def test_leaving_killed_at_any_step_of_larger_forests(
    place: Path,
    prepared: Callable[[Small], Before],
    forest: Small,
    leavers: tuple[str, ...],
    next_leaver: str,
    level: RevocationLevel,
) -> None:
    check_leaving_killed(place, prepared(forest), leavers, level, next_leaver)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_leaving_killed_at_any_step_and_again_at_any_step_ends(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """At any first step that changes the disk, and any second one, once KGC has taken the request."""
    before = prepared(TINY)
    expected(TINY, ()), expected(TINY, ("bank",))
    steps = steps_of(partial(leave, TINY, ("bank",), 2, copy_of(before.directory, place)))
    for first in lasting(steps):
        if taken(steps[:first]):
            check_killed_twice(place, before, first, "all")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("by_time", [False, True], ids=["at steps", "at any time"])
def test_leaving_ends_however_often_it_is_killed_for_a_long_time(
    place: Path, prepared: Callable[[Small], Before], by_time: bool
) -> None:
    for seed in range(2, 100):
        check_kill_sequence(place, prepared(THREE), seed, by_time=by_time)
