"""Non.Fed: scikit-learn with our parameters."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.paper.datasets import Task
from benchmarks.rivals.plain import SAME, plain_forest
from revfrf import RevocableForestClassifier, RevocableForestRegressor


@pytest.mark.parametrize(
    ("task", "kind", "ours"),
    [
        ("classes", RandomForestClassifier, RevocableForestClassifier),
        ("numbers", RandomForestRegressor, RevocableForestRegressor),
    ],
)
def test_every_shared_parameter_is_ours(task: Task, kind: Any, ours: Any) -> None:
    plain, mine = plain_forest(task, 7, 3, 14), ours(n_estimators=7, random_state=3)
    assert type(plain) is kind
    for name in ("n_estimators", "random_state", *SAME):
        assert plain.get_params()[name] == mine.get_params()[name], name
    assert plain.min_samples_leaf == 5
    assert mine.max_features == "sqrt"


def test_it_never_tries_fewer_features_than_ours() -> None:
    tried = {columns: plain_forest("classes", 1, 0, columns).max_features for columns in range(1, 100)}
    assert all(tried[columns] >= columns**0.5 > tried[columns] - 1 for columns in tried)


def test_parameters_given_win() -> None:
    assert plain_forest("classes", 7, 3, 14, max_depth=4, n_jobs=2).max_depth == 4


def test_it_learns_what_the_columns_say_and_not_what_they_do_not() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    plain = plain_forest("classes", 20, 0, 3).fit(X[:300], y[:300])
    assert plain.score(X[300:], y[300:]) > 0.95
    shuffled = plain_forest("classes", 20, 0, 3).fit(X[:300], np.random.default_rng(1).permutation(y[:300]))
    assert shuffled.score(X[300:], y[300:]) < 0.8
