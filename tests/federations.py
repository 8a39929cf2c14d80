"""Small federations for tests: their columns, their targets, and the same forest by the plain reference."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.dtpkc.strong import set_up as new_set_up
from revfrf.embedded import federation as federation_module
from revfrf.embedded.federation import Federation
from revfrf.embedded.moduli import cached_setup
from revfrf.forest.criterion import Targets
from revfrf.forest.nodes import Node
from revfrf.forest.randomness import bootstrap, candidate_limit
from revfrf.forest.tree import Rules
from revfrf.forest.unfinished import unfinished, with_rows
from revfrf.messages.fle_expan import Column
from revfrf.protocols.paper.fle_expan import LevelReport
from revfrf.roles.participant import Participant
from tests.reference import forest as reference
from tests.reference.canonical import canonical

Codes = dict[str, NDArray[np.int64]]

RULES = Rules(
    n_trees=4,
    max_depth=4,
    candidate_limit=candidate_limit(0.5),
    min_samples_split=2,
    min_samples_leaf=1,
    bootstrap=True,
    method="quantile",
    n_candidates=7,
    n_sampled=16,
)


def with_rules(**changes: Any) -> Rules:
    """The rules above, with some of them changed."""
    return replace(RULES, **changes)


def keys() -> SetUp:
    """256 bits: protects nothing, and takes no time."""
    return cached_setup(256, True, 1)


@lru_cache
def moduli() -> tuple[SetUp, ...]:
    """Some of 256 bits, for epochs with new keys."""
    return tuple(new_set_up(256, allow_insecure=True, n_jobs=1) for _ in range(3))


def another_modulus(parameters: Parameters, _n_jobs: int = 1) -> SetUp:
    """One that a federation with these parameters does not have now."""
    return next(dealt for dealt in moduli() if dealt.parameters != parameters)


@contextmanager
def no_search_for_primes() -> Iterator[None]:
    """Every epoch has another modulus than the one before, but no test waits for it."""
    keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federation_module, "fresh_setup_like", another_modulus)
        patch.setattr(federation_module, "drop_cached_setup", lambda _: None)
        yield


def ignore(_: LevelReport) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, eq=False)
class Case:
    """What a forest is grown from. `n_classes` is 0 for a regression."""

    codes: Codes
    y: Sequence[float]
    n_classes: int
    rules: Rules = RULES
    weights: Sequence[float] | None = None
    seed: bytes = b"seed"

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def row_weights(self) -> list[float]:
        return [1.0] * self.n_rows if self.weights is None else list(self.weights)

    def without(self, party: str) -> "Case":
        """The same without one party."""
        return replace(self, codes={name: table for name, table in self.codes.items() if name != party})


def random_case(number: int, **changes: Any) -> Case:
    """Three parties with six columns and 60 rows; one column decides most of the class."""
    rng = random.Random(number)
    codes = {
        party: np.array([[rng.randrange(-50, 50) for _ in range(60)] for _ in range(n)], dtype=np.int64)
        for party, n in (("bank", 2), ("telco", 3), ("shop", 1))
    }
    y = [float(rng.randrange(3) if rng.random() < 0.2 else int(v > 0)) for v in codes["bank"][0]]
    return replace(Case(codes, y, 3, seed=number.to_bytes(8, "big")), **changes)


def columns_of(codes: Mapping[str, NDArray[np.int64]]) -> dict[str, list[Column]]:
    """Columns x0, x1, … of each party."""
    return {party: [Column(f"x{i}", 0, None) for i in range(len(table))] for party, table in codes.items()}


def targets_of(case: Case, forest_seed: bytes) -> Targets:
    """The targets as the estimators make them."""
    weights = np.array(case.row_weights)
    repeats = np.zeros((case.rules.n_trees, case.n_rows), dtype=np.uint8)
    there = np.flatnonzero(weights)
    for tree in range(case.rules.n_trees):
        repeats[tree, there] = bootstrap(forest_seed, tree, len(there)) if case.rules.bootstrap else 1
    if not case.n_classes:
        return Targets.regression(np.array(case.y), weights, repeats)
    numbers = np.array(case.y).astype(np.int64)
    return Targets.classes(numbers, case.n_classes, weights, repeats)


def set_up(case: Case, n_jobs: int = 1) -> Federation:
    """The parties of a case, enrolled, before any training."""
    return Federation(columns_of(case.codes), setup=keys(), seed=case.seed, n_jobs=n_jobs)


def participant(federation: Federation, name: str) -> Participant:
    """A participant that lives in this process."""
    found = federation.participants[name]
    assert isinstance(found, Participant)
    return found


def participants(federation: Federation) -> dict[str, Participant]:
    """All of them."""
    return {name: participant(federation, name) for name in federation.participants}


def train(case: Case, federation: Federation | None = None) -> Federation:
    """The forest of a case, grown by the protocol."""
    federation = federation or set_up(case)
    federation.train(case.codes, case.rules, targets_of(case, federation.seed), ignore)
    return federation


def leaf_paths(federation: Federation) -> NDArray[np.uint64]:
    """For each tree and training row the path of the row's leaf, 0 for a row that the tree does not use."""
    cs = federation.coordinator
    ends = with_rows(cs.targets.used, cs.store.splits, unfinished(cs.plan.rules.n_trees, cs.store.splits, ()))
    paths = np.zeros((cs.plan.rules.n_trees, len(cs.targets.values)), dtype=np.uint64)
    paths[np.repeat(ends.trees, ends.sizes), ends.rows] = np.repeat(ends.paths, ends.sizes)
    return paths


def digest_of(federation: Federation) -> str:
    """The forest's digest, with no targets of its own."""
    return federation.coordinator.digest(())


# -- what the protocol has grown, in plain values ----------------------------------------------------


def grown_splits(federation: Federation) -> dict[Node, reference.Split]:
    """Each split as CS knows it, with the threshold that its owner keeps."""
    splits = {}
    for node, stored in federation.coordinator.store.splits.items():
        owner = participant(federation, stored.owner)
        column, threshold = owner.store.own_splits[node]
        assert stored.feature == f"{stored.owner}/{owner.columns[column].name}"
        splits[node] = reference.Split(stored.feature, stored.cut, threshold)
    return splits


# -- the same by the reference -----------------------------------------------------------------------


def reference_seed(seed: bytes) -> bytes:
    """The forest's seed that a federation makes of its own."""
    return sha256(canonical("revfrf forest seed v1", seed)).digest()


def reference_features(case: Case) -> list[reference.Feature]:
    """Every column with its owner's secret."""
    return [
        reference.Feature(
            f"{party}/x{i}",
            sha256(canonical("revfrf participant secret v1", case.seed, party)).digest(),
            [int(value) for value in column],
        )
        for party, table in case.codes.items()
        for i, column in enumerate(table)
    ]


def reference_rules(rules: Rules) -> reference.Rules:
    """The same rules."""
    return reference.Rules(
        rules.n_trees,
        rules.max_depth,
        rules.candidate_limit,
        rules.min_samples_split,
        rules.min_samples_leaf,
        rules.bootstrap,
        rules.method,
        rules.n_candidates,
        rules.n_sampled,
    )


@dataclass(frozen=True)
class Plain:
    """A forest of the reference, and how its targets were made."""

    forest: reference.Forest
    features: list[reference.Feature]
    targets: list[int]
    weights: list[int]
    centre: float = 0.0
    places: int = 0


def reference_trees(case: Case) -> list[reference.Tree]:
    """What each tree of the reference is grown from."""
    plain, seed, rules = grow_plainly(case), reference_seed(case.seed), reference_rules(case.rules)
    trees = []
    for number in range(rules.n_trees):
        repeats = plain_repeats(case, number)
        counts = [r * w for r, w in zip(repeats, plain.weights, strict=True)]
        tree = reference.Tree(rules, seed, number, plain.features, plain.targets, counts, case.n_classes)
        trees.append(tree)
    return trees


def plain_repeats(case: Case, tree: int) -> list[int]:
    """How often each row counts, by the reference."""
    if not case.rules.bootstrap:
        return [1] * case.n_rows
    return reference.bootstrap(reference_seed(case.seed), tree, case.row_weights)


def grow_plainly(case: Case) -> Plain:
    """The forest of a case, grown by the reference."""
    weights = reference.fixed_weights(case.row_weights)
    centre, places, targets = 0.0, 0, [int(value) for value in case.y]
    if not case.n_classes:
        repeats = [plain_repeats(case, tree) for tree in range(case.rules.n_trees)]
        targets, centre, places = reference.fixed_targets(list(case.y), weights, repeats)
    features = reference_features(case)
    grown = reference.grow(
        reference_rules(case.rules), reference_seed(case.seed), features, targets, weights, case.n_classes
    )
    return Plain(grown, features, targets, weights, centre, places)
