"""IRev.Fed: our own system without revocation, so that whoever leaves costs everybody a new forest.

The rival of the paper's table of rebuilding times (Yang Liu, Zhuo Ma, Ximeng Liu, Zhuzhu Wang, Siqi Ma, Kui
Ren, "Revocable Federated Learning: A Benchmark of Federated Forest"), which describes it as RevFRF without
its mechanism: the same protocols and code, run from the start with those who stay. Nothing is simplified.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import UsageError
from revfrf.estimators._layout import is_frame
from revfrf.forest.randomness import feature_probability

Forest = RevocableForestClassifier | RevocableForestRegressor


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A new forest, and the wall seconds that its training took; keys were set up before."""

    forest: Forest
    training_seconds: float


def rebuild_all(forest: Forest, X: Any, y: Any, leavers: Sequence[str]) -> Rebuilt:
    """Build the whole forest anew without these parties, whom `forest` itself keeps.

    X has the columns that `forest` was fitted on. Each feature keeps its chance to be a candidate of a node,
    so that, where columns have names or `parties` were given, the result is what `forest.revoke` would give.
    """
    owned = dict(forest.layout_.owned)
    for name in leavers:
        if owned.pop(name, None) is None:
            raise UsageError(f"{name!r} is no participant; participants are {sorted(forest.layout_.owned)}")
    if not owned:
        raise UsageError("nobody stays; let one participant at least stay")
    staying = sorted(position for positions in owned.values() for position in positions)
    columns = forest.layout_.columns
    new = clone(forest).set_params(
        parties={party: [staying.index(p) for p in positions] for party, positions in owned.items()},
        decimals={i: columns[position].decimals for i, position in enumerate(staying)},
        max_features=feature_probability(forest.max_features, len(columns)),
        directory=None,
    )
    kept = X.iloc[:, staying] if is_frame(X) else np.asarray(X)[:, staying]
    new.fit(kept, y)
    return Rebuilt(new, new.federation_.timings.training)
