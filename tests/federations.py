"""What a federation in one process has grown, and the same forest by the plain reference."""

from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from revfrf.embedded.federation import Federation
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Rules, unfinished, with_rows
from revfrf.messages.base import of_number
from revfrf.messages.key_setup import EpochCertificate
from revfrf.testing.federations import Case
from tests.reference import forest as reference
from tests.reference.canonical import canonical


def modulus(certificate: EpochCertificate) -> int:
    """N of an epoch that has DT-PKC."""
    assert certificate.dtpkc is not None
    return of_number(certificate.dtpkc.n)


def leaf_paths(federation: Federation) -> NDArray[np.uint64]:
    """For each tree and training row the path of the row's leaf, 0 for a row that the tree does not use."""
    cs = federation.coordinator
    ends = with_rows(cs.targets.used, cs.store.splits, unfinished(cs.plan.rules.n_trees, cs.store.splits, ()))
    paths = np.zeros((cs.plan.rules.n_trees, len(cs.targets.values)), dtype=np.uint64)
    paths[np.repeat(ends.trees, ends.sizes), ends.rows] = np.repeat(ends.paths, ends.sizes)
    return paths


# -- what the protocol has grown, in plain values ----------------------------------------------------


def grown_splits(federation: Federation) -> dict[Node, reference.Split]:
    """Each split as CS knows it, with the threshold that its owner keeps."""
    splits = {}
    for node, stored in federation.coordinator.store.splits.items():
        owner = federation.participants[stored.owner]
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
    return reference.Rules(**asdict(rules))


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
