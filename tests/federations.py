"""What a federation in one process has grown, and the same forest by the plain reference."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.embedded.federation import Federation
from revfrf.forest.criterion import Counted
from revfrf.forest.nodes import Node, unfinished, with_rows
from revfrf.forest.tree import PerNode, Rules
from revfrf.forest.voting import Votes
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
    cs, splits = federation.coordinator, federation.coordinator.store.splits
    n_trees = cs.plan.rules.n_trees
    ends = with_rows(counted(federation).used, splits, unfinished(n_trees, splits, ()))
    paths = np.zeros((n_trees, len(cs.targets)), dtype=np.uint64)
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


def counted(federation: Federation) -> Counted:
    """How often each training row counts in each tree."""
    cs = federation.coordinator
    return Counted.of(cs.plan.rules, cs.plan.seed, cs.targets)


def in_numbers(votes: Votes) -> tuple[list[list[int]], list[int]]:
    """The votes for each row, and how many trees have voted."""
    return votes.totals.tolist(), votes.n_voted.tolist()


# -- the same by the reference -----------------------------------------------------------------------


def reference_seed(seed: bytes) -> bytes:
    """The forest's seed that a federation makes of its own."""
    return sha256(canonical("revfrf forest seed v1", seed)).digest()


def reference_features(case: Case) -> list[reference.Feature]:
    """Every column with its owner's secret."""
    return [
        reference.Feature(
            f"{party}/x{i}",
            [int(value) for value in column],
            sha256(canonical("revfrf participant secret v1", case.seed, party)).digest(),
        )
        for party, table in case.codes.items()
        for i, column in enumerate(table)
    ]


def reference_rules(rules: Rules) -> reference.Rules:
    """The same rules."""
    cuts = rules.cuts
    if isinstance(cuts, PerNode):
        same: reference.Books | reference.PerNode = reference.PerNode(**msgspec.structs.asdict(cuts))
    else:
        same = reference.Books()
    return reference.Rules(**msgspec.structs.asdict(rules) | {"cuts": same})


@dataclass(frozen=True)
class Plain:
    """The forest of a case by the reference, and all that it is grown from."""

    rules: reference.Rules
    seed: bytes
    scale: reference.Scale
    features: list[reference.Feature]
    row_numbers: list[int]
    targets: list[int]
    weights: list[int]

    @property
    def trees(self) -> list[reference.Tree]:
        """What each tree is grown from."""
        inputs = (self.features, self.row_numbers, self.targets, self.weights, self.scale.n_classes)
        return reference.trees(self.rules, self.seed, *inputs)

    @cached_property
    def forest(self) -> reference.Forest:
        """The forest, which is grown when it is first asked for."""
        inputs = (self.features, self.row_numbers, self.targets, self.weights, self.scale.n_classes)
        return reference.grow(self.rules, self.seed, *inputs)

    @property
    def votes(self) -> bool:
        """Whether any row counts in any tree."""
        return any(weight for tree in self.trees for weight in tree.weights)

    @property
    def digest(self) -> str:
        """The digest of the forest."""
        return reference.forest_digest(self.rules, self.scale, self.forest)


def grow_plainly(case: Case) -> Plain:
    """The forest of a case, grown by the reference."""
    weights, y = case.row_weights, list(case.y)
    if case.n_classes:
        scale = reference.class_scale(y, weights, classes=range(case.n_classes))
    else:
        scale = reference.number_scale(y, weights)
    return Plain(
        reference_rules(case.rules),
        reference_seed(case.seed),
        scale,
        reference_features(case),
        list(range(case.n_rows)),
        reference.fixed_targets(scale, y, weights),
        reference.fixed_weights(scale, weights),
    )
