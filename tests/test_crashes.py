"""A process is killed, at every step of its work; another opens what it leaves, and ends what it was at.

What a step is, `tests.crashes` says. Every death is a real one, and whoever opens is another process.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf import federation as federation_module
from revfrf.crypto.keys import Parameters
from revfrf.crypto.strong import SetUp
from revfrf.errors import ProtocolError, RefusedError, StorageError
from revfrf.federation import Federation
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Leaf
from revfrf.messages.base import of_number
from revfrf.messages.revocation import Level
from revfrf.names import CC, CS, DEFAULT_REQUESTER, KGC
from revfrf.protocols.identity import Identity
from revfrf.protocols.request import RequestPolicy
from revfrf.roles.coordinator import Coordinator
from revfrf.roles.participant import TRAINING, Participant
from revfrf.storage.memory import CoordinatorStore
from tests.crashes import all_steps, dies_after, dies_at, for_good, in_process, steps_of
from tests.federations import moduli, no_search_for_primes

LEVELS: tuple[Level, ...] = (1, 2)
KINDS = {"classifier": RevocableForestClassifier, "regressor": RevocableForestRegressor}
POLICY = RequestPolicy(refuses=["burglar"], max_rows=3)
ASKED = 2
AT_ONCE = 16
"""So many killed processes' directories one other process opens, one by one."""

Nodes = tuple[dict[Node, tuple[str, int]], dict[Node, Leaf]]

X = np.random.default_rng(0).normal(size=(60, 6))
Y = (X[:, :3].sum(axis=1) > 0).astype(np.int64) + (X[:, 2] > 1)
NUMBERS = X[:, 0] + X[:, 1] * X[:, 2]


@dataclass(frozen=True)
class Small:
    """A small forest: who owns which columns of X, and how many trees of which depth there are."""

    columns: tuple[tuple[str, tuple[int, ...]], ...]
    seed: int
    n_trees: int = 2
    depth: int = 3
    kind: str = "classifier"

    @property
    def parties(self) -> dict[str, tuple[int, ...]]:
        return dict(self.columns)

    @property
    def target(self) -> Any:
        return Y if self.kind == "classifier" else NUMBERS

    def rows(self, leavers: Collection[str] = ()) -> Any:
        """X, with the columns of those who stay, in the order of X."""
        return X[:, sorted(i for party, owned in self.columns if party not in leavers for i in owned)]

    def estimator(self, directory: Path | None = None, leavers: Collection[str] = ()) -> Any:
        """Without the leavers, if there are any; every feature is as often a candidate as with them."""
        staying = {party: owned for party, owned in self.columns if party not in leavers}
        place = {column: i for i, column in enumerate(sorted(i for owned in staying.values() for i in owned))}
        return KINDS[self.kind](
            self.n_trees,
            max_depth=self.depth,
            max_features=0.6,
            min_samples_leaf=2,
            n_candidates=7,
            n_sampled=16,
            parties={party: [place[i] for i in owned] for party, owned in staying.items()},
            key_bits=256,
            allow_insecure_keys=True,
            random_state=self.seed,
            n_jobs=1,
            directory=directory,
        )

    def opened(self, directory: Path) -> Any:
        return KINDS[self.kind].open(directory)


THREE = Small((("bank", (0, 4)), ("telco", (1, 3)), ("shop", (2,))), seed=7)
"""When the bank leaves, both others forget cuts, and both keep some."""

TINY = Small(THREE.columns, seed=1, depth=2)
"""When the bank leaves, the shop has nothing to forget; when telco leaves, nobody has."""

IDLE = Small(THREE.columns, seed=0, depth=2)
"""The shop has no cuts, and leaves no gap."""

FOUR = Small((*THREE.columns, ("mill", (5,))), seed=0, n_trees=3)
"""When the shop and telco leave, both others forget cuts, and both keep some."""

REGRESSION = Small(FOUR.columns, seed=1, kind="regressor")


# -- what is expected: computed in this process, in memory, without faults ---------------------------


@dataclass(frozen=True)
class Expected:
    """A forest of those who stay: its digest, and its answers."""

    digest: str
    parties: dict[str, list[str]]
    nodes: Nodes
    answers: NDArray[Any]
    shares: NDArray[np.float64]


def nodes_of(store: CoordinatorStore) -> Nodes:
    """What the digest is made of."""
    return {node: (split.feature, split.cut) for node, split in store.splits.items()}, dict(store.leaves)


@lru_cache
def expected(forest: Small, leavers: tuple[str, ...]) -> Expected:
    """What `fit` without the leavers gives; in children, known already."""
    rows = forest.rows(leavers)
    model = forest.estimator(leavers=leavers).fit(rows, forest.target)
    answers = model.predict(rows)
    shares = model.predict_proba(rows) if forest.kind == "classifier" else answers
    nodes = nodes_of(model.federation_.coordinator.store)
    return Expected(model.digest_, model.parties_, nodes, answers, shares)


@pytest.fixture(scope="module", autouse=True)
def _prepared_moduli() -> Iterator[None]:
    """And everything compiled that children need."""
    with no_search_for_primes():
        for forest in (THREE, REGRESSION):
            model = forest.estimator().fit(forest.rows(), forest.target)
            model.revoke("bank", 2)
            model.predict_encrypted(forest.rows()[:1])
        yield


def last_modulus(parameters: Parameters, n_jobs: int) -> SetUp:  # noqa: ARG001
    """Another than the one that is dealt first: who resumes finds a modulus of its own."""
    return next(dealt for dealt in reversed(moduli()) if dealt.parameters != parameters)


# -- directories ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Where directories are; in memory if there is such a place: nobody cuts the power here."""
    memory = Path("/dev/shm")  # noqa: S108
    usable = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**28
    with tempfile.TemporaryDirectory(dir=memory if usable else None) as made:
        yield Path(made)


_numbers = count()


def some_place(place: Path) -> Path:
    return place / str(next(_numbers))


def copy_of(directory: Path, place: Path) -> Path:
    return Path(shutil.copytree(directory, some_place(place)))


@dataclass(frozen=True)
class Before:
    """A directory with a forest that nobody has left, and the secrets that are in it then."""

    forest: Small
    directory: Path
    files: frozenset[str]
    n: int
    ciphertexts: dict[tuple[int, int], bytes]
    signatures: tuple[bytes, ...]
    keys: dict[str, tuple[bytes, ...]]
    own: dict[str, tuple[bytes, ...]]
    cuts: dict[str, frozenset[bytes]]

    def gone(self, federation: Federation, leavers: tuple[str, ...], level: Level) -> list[bytes]:
        """What nobody may find in any file any more, since these have left."""
        splits = federation.coordinator.store.splits.values()
        secrets = {secret for party in leavers for secret in (*self.keys[party], *self.own[party])}
        if leavers and level == 2:
            secrets.update(*self.keys.values())
        secrets |= {*self.ciphertexts.values()} - {split.ciphertext for split in splits}
        secrets |= {*self.signatures} - {split.batch.root for split in splits}
        live = {name: _cuts(participant) for name, participant in federation.participants.items()}
        return [*secrets.union(*(cuts - live.get(name, set()) for name, cuts in self.cuts.items()))]


@pytest.fixture(scope="module")
def prepared(place: Path) -> Callable[[Small], Before]:
    """A forest on disk, with a policy, and a requester from outside whom everybody knows."""

    @lru_cache
    def prepare(forest: Small) -> Before:
        directory = some_place(place)

        def work() -> Before:
            model = forest.estimator(directory).fit(forest.rows(), forest.target)
            model.enrol_requester("clinic")
            model.predict_encrypted(forest.rows()[:1], "telco")
            for party in (CS, CC, *forest.parties):
                model.set_policy(party, POLICY)
            before = _before(forest, directory, model.federation_)
            model.close()
            return before

        return in_process(work)

    return prepare


def _before(forest: Small, directory: Path, federation: Federation) -> Before:
    splits = federation.coordinator.store.splits
    roles = federation.with_policies
    return Before(
        forest=forest,
        directory=directory,
        files=frozenset(path.name for path in directory.glob("*.db")),
        n=federation.parameters.n,
        ciphertexts={node: split.ciphertext for node, split in splits.items()},
        signatures=tuple({split.batch.root for split in splits.values()}),
        keys={name: _keys(role.identity) for name, role in {**federation.requesters, **roles}.items()},
        own={
            name: (role.secret, role.identity.signing_key.to_fields()["seed"].encode(), *_rows(role))
            for name, role in federation.participants.items()
        },
        cuts={name: frozenset(_cuts(role)) for name, role in federation.participants.items()},
    )


def _cuts(participant: Participant) -> set[bytes]:
    """Its cuts, as they are in its database."""
    return {_record((*node, *cut)) for node, cut in participant.store.cuts.items()}


def _record(numbers: Sequence[int]) -> bytes:
    """A row of integers and a seal in SQLite's own format: how long each one is, and then all integers."""
    kinds, values = [], []
    for number in numbers:
        size = next(n for n in (1, 2, 3, 4, 6, 8) if -(2 ** (8 * n - 1)) <= number < 2 ** (8 * n - 1))
        small = number in (0, 1)
        kinds.append(8 + number if small else {6: 5, 8: 6}.get(size, size))
        values.append(b"" if small else number.to_bytes(size, "big", signed=True))
    return bytes((2 + len(kinds), *kinds, 12 + 2 * 16)) + b"".join(values)


def _rows(participant: Participant) -> list[bytes]:
    return [column.astype("<i8").tobytes() for column in participant.tables[TRAINING]]


def _keys(identity: Identity) -> tuple[bytes, ...]:
    """Its private keys, as they are written down."""
    assert identity.keys is not None
    record = identity.keys.record()
    weak = record.weak["sk"].encode()
    return (weak,) if record.share is None else (weak, record.share["value"].encode())


# -- kills, and what they leave ----------------------------------------------------------------------


def lasting(steps: Sequence[str]) -> list[int]:
    """The steps, by number, after which the disk is another; at all others it is as it was before."""
    return [i for i, name in enumerate(steps, 1) if name.endswith(": after")]


def sweep(
    place: Path,
    directory: Path | None,
    steps: Sequence[str],
    work: Callable[[Path], object],
    check: Callable[[Path, int], object],
    numbers: Sequence[int] | None = None,
) -> None:
    """Kill a process at each of these steps of its work, each time in a copy of a directory, or a new one;
    other processes check what each has left, some of these each.
    """
    assert steps
    failures: list[str] = []
    left: dict[int, Path] = {}
    chosen = range(1, len(steps) + 1) if numbers is None else numbers
    for number in chosen:
        left[number] = some_place(place) if directory is None else copy_of(directory, place)
        assert dies_at(number, partial(work, left[number])), f"there is no step {number}"
        if len(left) == AT_ONCE or number == chosen[-1]:
            wrong = in_process(partial(_checked, left, check))
            failures += [f"step {n}, {steps[n - 1]}: {reason}" for n, reason in wrong.items()]
            for killed in left.values():
                shutil.rmtree(killed)
            left = {}
    lines = [failure.splitlines()[0] for failure in failures]
    assert not failures, "\n".join([f"{len(failures)} of {len(chosen)} kills:", *lines, "", failures[0]])


def _checked(left: Mapping[int, Path], check: Callable[[Path, int], object]) -> dict[int, str]:
    """What is wrong with what was left, by the number of the step."""
    wrong = {}
    for number, killed in left.items():
        try:
            check(killed, number)
        except Exception as error:
            wrong[number] = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return wrong


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


def leave(forest: Small, leavers: Sequence[str], level: Level, directory: Path) -> None:
    """What is killed."""
    forest.opened(directory).revoke(list(leavers), level)


def opened_again(forest: Small, directory: Path) -> Any:
    """What comes after."""
    for_good.setattr(federation_module, "new_keys_like", last_modulus)
    return forest.opened(directory)


def found_in(directory: Path, secrets: Collection[bytes]) -> set[str]:
    """The files in which one of these begins; a page may end before its end."""
    starts = {secret[:16] for secret in secrets}
    assert all(len(start) > 5 for start in starts)
    contents = {path.name: path.read_bytes() for path in directory.iterdir()}
    return {name for name, content in contents.items() if any(start in content for start in starts)}


def check_answers(model: Any, forest: Small, leavers: tuple[str, ...]) -> None:
    """The forest is the one of `fit` without these, bit for bit, and answers."""
    wanted = expected(forest, leavers)
    assert model.digest_ == wanted.digest
    assert model.parties_ == wanted.parties
    assert model.predict(forest.rows(leavers)).tobytes() == wanted.answers.tobytes()
    if forest.kind == "classifier":
        assert model.predict_proba(forest.rows()).tobytes() == wanted.shares.tobytes()


def check_encrypted(model: Any, forest: Small, leavers: tuple[str, ...], requester: str | None) -> None:
    wanted, rows = expected(forest, leavers).answers, forest.rows(leavers)
    assert model.predict_encrypted(rows[:1], requester).tobytes() == wanted[:1].tobytes()


def check_standing(model: Any, before: Before, leavers: tuple[str, ...], level: Level) -> None:
    """Everybody is in one epoch, with its keys and no others; nothing is under way."""
    federation, left = model.federation_, bool(leavers)
    kgc, certificate = federation.kgc.state, federation.kgc.current
    assert (kgc.leaving, kgc.left, federation.kgc.told) == ({}, (), True)
    assert federation.coordinator.store.rebuilding is None
    assert federation.coordinator.ready
    assert (certificate.epoch, certificate.revoked) == (1 + left, leavers)
    assert set(federation.participants) == before.forest.parties.keys() - set(leavers)
    new = left and level == 2
    assert (of_number(certificate.n) == before.n) == (not new)
    for name, role in federation.with_policies.items():
        identity = role.identity
        assert identity.certificate == certificate
        assert identity.dealt is None
        assert identity.keys is not None
        assert identity.keys.epoch == 1 + new
        assert identity.weak.parameters.n == of_number(certificate.n)
        assert set(_keys(identity)).isdisjoint(before.keys[name]) == new
        assert role.policy == POLICY
    assert federation.parameters.n == federation.coordinator.plan.parameters.n == of_number(certificate.n)
    splits = federation.coordinator.store.splits
    if new:
        assert {split.epoch for split in splits.values()} == {2}
        assert {s.ciphertext for s in splits.values()}.isdisjoint(before.ciphertexts.values())
    else:
        kept = {node for node, split in splits.items() if split.epoch == 1}
        assert all(splits[node].ciphertext == before.ciphertexts[node] for node in kept)


def check_files(
    directory: Path, federation: Federation, before: Before, leavers: tuple[str, ...], level: Level
) -> None:
    """Of those who have left there is no file, and of what has gone no byte in any other's."""
    files = {path.name for path in directory.iterdir()}
    gone = {name for name in before.files if any(name.startswith(f"participant-{p}-") for p in leavers)}
    assert len(gone) == len(leavers)
    assert {name for name in files if name.endswith(".db")} == before.files - gone
    assert {name.removesuffix("-wal") for name in files} == before.files - gone
    assert found_in(directory, before.gone(federation, leavers, level)) == set()


def check_certificate(model: Any, forest: Small, leavers: tuple[str, ...], level: Level) -> None:
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


def check_left(before: Before, leavers: tuple[str, ...], level: Level, directory: Path) -> Any:
    """These have left, or nobody has, and nothing is in between."""
    model = opened_again(before.forest, directory)
    check_state(model, before, leavers, level)
    return model


def check_state(model: Any, before: Before, leavers: tuple[str, ...], level: Level) -> None:
    check_answers(model, before.forest, leavers)
    check_standing(model, before, leavers, level)
    check_certificate(model, before.forest, leavers, level)


def check_goes_on(
    before: Before,
    leavers: tuple[str, ...],
    level: Level,
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


# -- training ---------------------------------------------------------------------------------------


def fit(forest: Small, directory: Path) -> None:
    forest.estimator(directory).fit(forest.rows(), forest.target).close()


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


def test_training_killed_at_any_step_of_a_small_forest_ends_in_the_same_one(place: Path) -> None:
    check_training_killed_everywhere(place, TINY)


# -- leaving ----------------------------------------------------------------------------------------


def check_leaving_killed(
    place: Path, before: Before, leavers: tuple[str, ...], level: Level, next_leaver: str | None = None
) -> list[str]:
    """At all steps if there is a next leaver, and after those that change the disk the forest has to go on;
    else at these alone. Returns the names of all steps.
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

    sweep(place, before.directory, steps, work, check, changed if next_leaver is None else None)
    return steps


def told(steps: Sequence[str], message: str) -> set[str]:
    """To whom CS has sent this."""
    return {name.split()[4][:-1] for name in steps if name.startswith(f"{message} from CS to ")}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_leaving_killed_at_any_step_has_happened_wholly_or_not_at_all(
    place: Path, prepared: Callable[[Small], Before], level: Level
) -> None:
    """Not at all, only as long as KGC has not taken the request."""
    steps = check_leaving_killed(place, prepared(THREE), ("bank",), level, "shop")
    assert told(steps, "Destroy") == told(steps, "LevelRequest") == {"telco", "shop"}
    assert told(steps, "Rekey") == ({"telco", "shop"} if level == 2 else set())


def test_leaving_killed_at_any_step_that_changes_a_disk_has_happened_wholly_or_not_at_all(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    steps = check_leaving_killed(place, prepared(THREE), ("bank",), 2)
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
            assert found_in(before.directory, [secret]) == {_file(before, name)}
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
                assert not cs.rebuilding
                left = leavers if cs.certificate.epoch > 1 else ()
                assert nodes_of(cs.store) == expected(forest, left).nodes
            else:
                with pytest.raises(ProtocolError, match="it is still growing, or somebody has left"):
                    cs.votes(TRAINING, len(X), "hard")

    for_good.setattr(Coordinator, "__init__", making)
    return watch


@pytest.mark.parametrize("level", LEVELS)
def test_no_forest_is_served_that_somebody_has_half_left(
    place: Path, prepared: Callable[[Small], Before], level: Level
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


def number_of(steps: Sequence[str], start: str, nth: int = 1) -> int:
    """Of the nth step whose name begins like this."""
    return [number for number, name in enumerate(steps, 1) if name.startswith(start)][nth - 1]


FIRST_KILLS = [
    pytest.param(("commit of kgc.db: after", 1), id="asked", marks=pytest.mark.slow),
    pytest.param(("EpochCertificate from KGC to CS: handled", 1), id="some in the new epoch"),
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


def test_training_ends_if_who_goes_on_with_it_is_killed_too(place: Path) -> None:
    expected(THREE, ())
    steps = steps_of(partial(fit, THREE, some_place(place)))
    killed = some_place(place)
    assert dies_at(number_of(steps, "LevelRequest from CS to telco: handled", 2), partial(fit, THREE, killed))
    steps = steps_of(partial(THREE.opened, copy_of(killed, place)))

    def check(directory: Path, _: int) -> None:
        check_answers(opened_again(THREE, directory), THREE, ())

    sweep(place, killed, steps, THREE.opened, check, lasting(steps))


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
    for seed in range(4):
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


# -- requests ---------------------------------------------------------------------------------------


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
    place: Path, before: Before, requester: str | None, *, everywhere: bool, known: bool = True
) -> None:
    """Whoever had counted the rows of the request counts them, and other requests are answered."""
    forest, work = before.forest, partial(ask, before.forest, requester)
    steps = steps_of(partial(work, copy_of(before.directory, place)))
    expected(forest, ())
    name = requester or DEFAULT_REQUESTER
    files = {role: _file(before, role) for role in (CS, CC, *forest.parties)}

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

    sweep(place, before.directory, steps, work, check, None if everywhere else lasting(steps))


def _file(before: Before, role: str) -> str:
    """Of CS, CC or a participant."""
    if role in (CS, CC):
        return f"{role.lower()}.db"
    [file] = [name for name in before.files if name.startswith(f"participant-{role}-")]
    return file


def test_request_killed_at_any_step_counts_and_keeps_nobody_from_asking(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    check_requests_killed(place, prepared(TINY), "clinic", everywhere=True)


@pytest.mark.parametrize("requester", [None, "lab"])
def test_requester_whose_first_request_is_killed_can_ask(
    place: Path, prepared: Callable[[Small], Before], requester: str | None
) -> None:
    """Whether KGC had admitted it or not."""
    check_requests_killed(place, prepared(TINY), requester, everywhere=False, known=False)


def test_requester_killed_while_it_is_admitted_to_another_epoch_can_ask(
    place: Path, prepared: Callable[[Small], Before]
) -> None:
    """It has keys of the epoch before, and perhaps of this one."""
    before = prepared(TINY)
    later = copy_of(before.directory, place)
    in_process(partial(leave, TINY, ("shop",), 2, later))
    work = partial(ask, TINY, "clinic")
    steps = steps_of(partial(work, copy_of(later, place)))
    assert number_of(steps, "Dealt from KGC to clinic")
    expected(TINY, ("shop",))

    def check(directory: Path, _: int) -> None:
        model = opened_again(TINY, directory)
        check_answers(model, TINY, ("shop",))
        check_encrypted(model, TINY, ("shop",), "clinic")

    sweep(place, later, steps, work, check, lasting(steps))


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
    level: Level,
) -> None:
    check_leaving_killed(place, prepared(forest), leavers, level, next_leaver)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("forest", [FOUR, REGRESSION], ids=["four", "regression"])
def test_training_killed_at_any_step_of_larger_forests(place: Path, forest: Small) -> None:
    check_training_killed_everywhere(place, forest)


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
    for seed in range(4, 100):
        check_kill_sequence(place, prepared(THREE), seed, by_time=by_time)
