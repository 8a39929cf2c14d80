"""The differentially private forest: right without noise, worse with much of it, and noisy as promised."""

from dataclasses import replace
from math import exp, inf
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.paper.datasets import Task
from benchmarks.rivals.private_noise import Domain, PrivateForest, _score
from revfrf.errors import UsageError

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(3000, 4))
CLASSES = np.where(X[:, 0] + RNG.normal(0, 0.1, 3000) > 0.5, "yes", "no")
NUMBERS = 10 * X[:, 0] + X[:, 1] - 3
TARGETS: list[tuple[Task, Any]] = [("classes", CLASSES), ("numbers", NUMBERS)]


def forest(task: Task, y: Any, epsilon: float, **more: Any) -> PrivateForest:
    domain = Domain.of(task, X, y)
    return PrivateForest(task, domain, epsilon=epsilon, **({"n_trees": 5, "depth": 4} | more))


def error(task: Task, y: Any, epsilon: float, seed: int = 0) -> float:
    """Share of wrong classes, or mean square error, on rows not seen."""
    found = forest(task, y[:2000], epsilon, seed=seed).fit(X[:2000], y[:2000]).predict(X[2000:])
    return float(np.mean(found != y[2000:]) if task == "classes" else np.mean((found - y[2000:]) ** 2))


def score(bins: Any, v: Any, cut: int) -> float:
    """Of one cut of one column."""
    sides = [v[bins <= cut], v[bins > cut]]
    return float(sum((side.sum(axis=0) ** 2).sum() / len(side) for side in sides if len(side)))


@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_without_noise_every_node_has_the_best_cut_and_every_leaf_the_mean(task: Task, y: Any) -> None:
    column = X[:, :1]
    domain = Domain.of(task, column, y)
    [tree] = PrivateForest(task, domain, epsilon=inf, n_trees=1, depth=2, n_bins=8).fit(column, y).trees_
    bins, v = domain.bins(column, 8)[:, 0], domain.shares(task, y)
    node = np.zeros(len(bins), dtype=int)
    for level in range(2):
        for here in range(1 << level):
            inside = node == here
            best = max(range(7), key=lambda cut: score(bins[inside], v[inside], cut))
            assert tree.cuts[level][here] == best
        node = 2 * node + (bins > tree.cuts[level][node])
    for leaf in np.unique(node):
        assert tree.leaves[leaf] == pytest.approx(v[node == leaf].mean(axis=0), abs=1e-6)
    assert np.array_equal(tree.shares(domain.bins(column, 8)), tree.leaves[node])


@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_an_enormous_epsilon_gives_the_answers_without_noise(task: Task, y: Any) -> None:
    exact, nearly = (
        forest(task, y, epsilon, depth=2, n_bins=8).fit(X, y).predict_shares(X) for epsilon in (inf, 1e12)
    )
    assert nearly == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_a_small_epsilon_is_worse_than_a_large_one_which_is_near_none(task: Task, y: Any) -> None:
    none, large, small = (np.mean([error(task, y, e, seed) for seed in range(3)]) for e in (inf, 1000, 0.01))
    assert large < 1.5 * none + 0.05
    assert small > 3 * none + 0.05


@pytest.mark.parametrize(("task", "y"), TARGETS)
def test_a_wrong_cut_is_noticed(task: Task, y: Any) -> None:
    model = forest(task, y, inf, n_trees=1).fit(X, y)
    right = model.predict(X)
    [tree] = model.trees_
    model.trees_ = [replace(tree, cuts=[(cuts + 16) % 31 for cuts in tree.cuts])]
    assert (model.predict(X) != right).mean() > 0.2


def test_one_row_changes_a_score_by_at_most_one() -> None:
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(2000):
        rows = int(rng.integers(0, 6))
        z = rng.choice([0.0, 1.0, rng.uniform()], size=rows + 1)
        v = np.column_stack([1 - z, z])
        change = abs(_score(v.sum(axis=0)) - _score(v[:-1].sum(axis=0)))
        largest = max(largest, float(change))
    assert 0.9 < largest <= 1 + 1e-12


def test_the_noise_of_splits_and_leaves_has_the_scale_that_epsilon_asks_for() -> None:
    model = forest("classes", CLASSES, 0.5)
    drawn: list[float] = []

    class Recorder(np.random.Generator):
        def laplace(self, loc: Any = 0, scale: Any = 1, size: Any = None) -> Any:
            drawn.append(scale)
            return super().laplace(loc, scale, size)

    bins, v = model.domain.bins(X, model.n_bins), model.domain.shares("classes", CLASSES)
    model._grow(bins, v, Recorder(np.random.PCG64(0)))
    per_level, leaves = 0.5 / 2 / 4, 0.5 / 2
    assert drawn == [2 / per_level] * 4 + [1 / leaves]


def as_often_as_noise_says(overtaken: list[bool], ratio: float) -> bool:
    """Laplace noise undoes a lead of `ratio` times its scale with probability e^-ratio·(2 + ratio)/4.

    Seeds are fixed, so that there is no false alarm; over all seeds it would have a probability of 1e-9.
    """
    expected = exp(-ratio) * (2 + ratio) / 4
    return bool(stats.binomtest(sum(overtaken), len(overtaken), expected).pvalue > 1e-9)


@pytest.mark.parametrize("ratio", [1e-6, 1, 50])
def test_the_worse_of_two_cuts_wins_as_often_as_the_noise_of_splits_says(ratio: float) -> None:
    column, y = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0), np.repeat(["no", "yes"], [25, 35])
    domain = Domain.of("classes", column, y)
    bins, v = domain.bins(column, 3)[:, 0], domain.shares("classes", y)
    lead = score(bins, v, 0) - score(bins, v, 1)
    model = PrivateForest("classes", domain, epsilon=4 * ratio / lead, n_trees=1, depth=1, n_bins=3)
    cuts = [model._grow(bins[:, None], v, np.random.default_rng(seed)).cuts[0][0] for seed in range(800)]
    assert as_often_as_noise_says([cut == 1 for cut in cuts], ratio)


@pytest.mark.parametrize("ratio", [0.3, 1, 50])
def test_the_smaller_class_of_a_leaf_wins_as_often_as_the_noise_of_leaves_says(ratio: float) -> None:
    v, lead = np.repeat(np.eye(2), [1030, 1000], axis=0), 30
    model = forest("classes", CLASSES, 2 * ratio / lead, depth=0)
    leaf = np.zeros(len(v), dtype=np.int64)
    found = [model._leaves(leaf, v, np.random.default_rng(seed))[0] for seed in range(800)]
    assert as_often_as_noise_says([shares[1] > shares[0] for shares in found], ratio)


def test_a_row_changes_one_tree_and_no_other() -> None:
    y = CLASSES.copy()
    y[7] = "yes" if y[7] == "no" else "no"
    model = forest("classes", CLASSES, inf)
    before, after = model.fit(X, CLASSES).trees_, forest("classes", CLASSES, inf).fit(X, y).trees_
    assert sum(not np.array_equal(a.leaves, b.leaves) for a, b in zip(before, after, strict=True)) == 1


def test_values_outside_the_domain_count_as_its_ends_and_missing_ones_as_low() -> None:
    domain = Domain(np.zeros(1), np.ones(1), np.array([0.0, 2.0]))
    assert domain.bins([[-9.0], [0.0], [0.49], [0.5], [1.0], [9.0], [np.nan]], 4)[:, 0].tolist() == [
        0, 0, 1, 2, 3, 3, 0,
    ]  # fmt: skip
    assert domain.shares("numbers", [-5, 1, 99])[:, 1].tolist() == [0, 0.5, 1]


def test_a_class_outside_the_domain_and_a_budget_of_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="class"):
        forest("classes", CLASSES, 1).fit(X, np.full(len(X), "maybe"))
    for epsilon in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="epsilon"):
            forest("classes", CLASSES, epsilon).fit(X, CLASSES)
    with pytest.raises(UsageError, match="two bins"):
        forest("classes", CLASSES, 1, n_bins=1).fit(X, CLASSES)
