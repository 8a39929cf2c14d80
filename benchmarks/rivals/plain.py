"""Non.Fed: a random forest without a federation, where one party holds all columns.

Leo Breiman, "Random forests", Machine Learning 45(1), 2001, as scikit-learn has it. The parameters are our
estimators' defaults, read from them. What stays different is scikit-learn's own: every value is a candidate
cut, and classes are voted for by mean probability. It tries ⌈√F⌉ of F features at a node, where "sqrt" is
⌊√F⌋ and ours is √F on average, so that it never has fewer than ours.
"""

from math import isqrt
from typing import Any

from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.paper.datasets import Task
from revfrf import RevocableForestClassifier, RevocableForestRegressor

SAME = ("max_depth", "min_samples_split", "min_samples_leaf", "bootstrap")


def plain_forest(task: Task, n_trees: int, seed: int, columns: int, **same: Any) -> Any:
    """An unfitted scikit-learn forest for so many columns with our defaults; `same` overrides them."""
    ours, theirs = (
        (RevocableForestClassifier, RandomForestClassifier)
        if task == "classes"
        else (RevocableForestRegressor, RandomForestRegressor)
    )
    defaults = ours().get_params()
    shared = {name: defaults[name] for name in SAME}
    return theirs(n_trees, random_state=seed, max_features=1 + isqrt(columns - 1), **(shared | same))
