"""Random decision trees under encryption answer as they do in the clear."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from benchmarks.paper.datasets import Task
from benchmarks.rivals.encrypted_database import (
    HOP_BYTES,
    LABELS,
    OPENER,
    OWNERS,
    ClearDatabase,
    EncryptedDatabase,
    RandomTrees,
)
from benchmarks.rivals.paillier import Paillier
from revfrf.errors import UsageError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
CLASSES = np.where(X[:, 0] > 0.5, "c", np.where(X[:, 1] > 0, "a", "b"))
NUMBERS = X[:, 0] - 2
TARGETS: list[tuple[Task, Any]] = [("classes", CLASSES), ("numbers", NUMBERS)]
TREES = RandomTrees.draw(X, n_trees=4, depth=3, seed=0)


@lru_cache
def key() -> Paillier:
    return Paillier.generate(256)


@pytest.mark.parametrize("oblivious", [False, True])
@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_encrypted_sums_and_answers_are_those_in_the_clear(task: Task, y: Any, oblivious: bool) -> None:
    clear = ClearDatabase(task, TREES).fit(X, y)
    encrypted = EncryptedDatabase(task, TREES, key(), oblivious=oblivious).fit(X, y)
    assert np.array_equal(encrypted.totals(X), clear.totals(X))
    assert np.array_equal(encrypted.predict(X), clear.predict(X))


@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_answers_are_those_of_a_walk_by_hand(task: Task, y: Any) -> None:
    def leaf(tree: int, row: Any) -> int:
        node = 0
        while node < TREES.n_leaves - 1:
            node = 2 * node + (1 if row[TREES.features[tree, node]] <= TREES.cuts[tree, node] else 2)
        return node

    answers = ClearDatabase(task, TREES).fit(X, y).predict(X[:10])
    for row, answer in zip(X[:10], answers, strict=True):
        met = [[y[i] for i in range(60) if leaf(tree, X[i]) == leaf(tree, row)] for tree in range(4)]
        if task == "classes":
            shares = [np.mean([np.mean(np.array(labels) == name) for labels in met]) for name in "abc"]
            assert answer == "abc"[int(np.argmax(shares))]
        else:
            assert answer == pytest.approx(np.mean([np.mean(labels) for labels in met]), abs=1e-3)


def test_another_cut_or_another_label_gives_other_sums() -> None:
    right = EncryptedDatabase("classes", TREES, key()).fit(X, CLASSES).totals(X)
    other_cuts = replace(TREES, cuts=TREES.cuts + 1.0)
    assert not np.array_equal(
        EncryptedDatabase("classes", other_cuts, key()).fit(X, CLASSES).totals(X), right
    )
    wrong = CLASSES.copy()
    wrong[0] = "a" if wrong[0] != "a" else "b"
    assert not np.array_equal(EncryptedDatabase("classes", TREES, key()).fit(X, wrong).totals(X), right)


def test_the_structure_looks_at_no_label_and_cuts_at_values_of_the_feature() -> None:
    again = RandomTrees.draw(X, n_trees=4, depth=3, seed=0)
    assert np.array_equal(again.cuts, TREES.cuts)
    for feature, cut in zip(TREES.features.ravel(), TREES.cuts.ravel(), strict=True):
        assert cut in X[:, feature]


@pytest.mark.parametrize(("oblivious", "encryptions"), [(False, 60 * 3), (True, 60 * 3 * 4 * 8)])
def test_operations_and_bytes_are_counted(oblivious: bool, encryptions: int) -> None:
    database = EncryptedDatabase("classes", TREES, key(), oblivious=oblivious)
    building = database.measure_fit(X, CLASSES, 60)
    leaves, sent = 4 * 8, encryptions if oblivious else encryptions * 4
    assert building.counts == {
        LABELS: {"encryptions": encryptions},
        OWNERS: {"additions": sent + leaves * 2 * oblivious, "products": leaves * 3},
        **({OPENER: {"decryptions": leaves}} if oblivious else {}),
    }
    assert building.bytes == (sent + leaves * oblivious) * 64 + 60 * 4 * 3 * HOP_BYTES
    database.predict(X[:1])
    assert database.predicting.counts == {
        OWNERS: {"encryptions": 3, "additions": 12},
        OPENER: {"decryptions": 3},
    }
    assert database.predicting.bytes == (4 + 1) * 3 * 64 + 4 * 3 * HOP_BYTES


@pytest.mark.parametrize("oblivious", [False, True])
def test_what_is_extrapolated_says_so_and_counts_what_the_whole_would(oblivious: bool) -> None:
    database = EncryptedDatabase("classes", TREES, key(), oblivious=oblivious)
    part = database.measure_fit(X, CLASSES, 15)
    whole = database.measure_fit(X, CLASSES, 60)
    assert (part.extrapolated_from, whole.extrapolated_from) == (0.25, None)
    assert (part.counts, part.bytes) == (whole.counts, whole.bytes)
    with pytest.raises(UsageError, match="60 rows"):
        database.measure_fit(X, CLASSES, 0)
