"""Rules, the digest of a forest, and the nodes that are not grown yet."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from revfrf.errors import FormatError, UsageError
from revfrf.forest.randomness import feature_probability
from revfrf.forest.tree import Rules, forest_digest, unfinished, with_rows
from revfrf.testing.federations import RULES, with_rules


class Split(NamedTuple):
    feature: str
    cut: int
    directions: bytes = b"\x60"


SPLITS = {(0, 1): Split("bank/x", 3), (0, 3): Split("shop/y", 0, b"\x80")}
LEAVES = {(0, 2): (2, 0), (0, 6): (0, 1), (1, 1): (1, 1)}


def test_digest_is_that_of_rules_targets_splits_and_leaves_in_any_order() -> None:
    digest = forest_digest(RULES, (1,), SPLITS, LEAVES)
    backwards = dict(reversed(SPLITS.items())), dict(reversed(LEAVES.items()))
    other_rows = {node: split._replace(directions=b"") for node, split in SPLITS.items()}
    assert digest == forest_digest(RULES, (1,), *backwards) == forest_digest(RULES, (1,), other_rows, LEAVES)
    others = {
        forest_digest(with_rules(n_trees=9), (1,), SPLITS, LEAVES),
        forest_digest(RULES, (2,), SPLITS, LEAVES),
        forest_digest(RULES, (1,), {}, LEAVES),
        forest_digest(RULES, (1,), SPLITS | {(0, 3): Split("shop/y", 1)}, LEAVES),
        forest_digest(RULES, (1,), SPLITS | {(0, 3): Split("shop/z", 0)}, LEAVES),
        forest_digest(RULES, (1,), SPLITS, LEAVES | {(0, 2): (3, 0)}),
        forest_digest(RULES, (1,), SPLITS, LEAVES | {(0, 7): (3, 0)}),
    }
    assert len(others - {digest}) == 7


def test_nodes_that_are_neither_split_nor_leaf_get_the_rows_that_reach_them() -> None:
    assert unfinished(3, SPLITS, LEAVES) == {(0, 7), (2, 1)}
    used = [np.array(rows, np.uint32) for rows in ([0, 4, 5, 9], [1], [2, 3])]
    nodes = with_rows(used.__getitem__, SPLITS, {(0, 7), (2, 1), (0, 2)})
    rows = np.split(nodes.rows, nodes.starts[1:-1])
    assert {name: own.tolist() for name, own in zip(nodes.names(), rows, strict=True)} == {
        (2, 1): [2, 3],
        (0, 2): [0, 9],
        (0, 7): [4],
    }
    with pytest.raises(FormatError, match="directions"):
        with_rows(used.__getitem__, {(0, 1): Split("bank/x", 3, b"\x60\0")}, {(0, 2)})


@pytest.mark.parametrize(
    ("max_features", "pi"), [(None, 1.0), (0.3, 0.3), (2, 2 / 9), ("sqrt", 3 / 9), ("log2", np.log2(9) / 9)]
)
def test_probability_of_a_feature_is_what_max_features_asks_for(
    max_features: str | float | None, pi: float
) -> None:
    assert feature_probability(max_features, 9) == pytest.approx(pi, rel=1e-15)
    with pytest.raises(UsageError, match="there are 9 features"):
        feature_probability(10, 9)


def test_rules_are_those_of_an_estimator() -> None:
    given = SimpleNamespace(n_estimators=4, max_depth=None, max_features=0.5, candidates="quantile")
    for name in ("min_samples_split", "min_samples_leaf", "bootstrap", "n_candidates", "n_sampled"):
        setattr(given, name, getattr(RULES, name))
    assert Rules.of(given, 9) == with_rules(max_depth=62)
