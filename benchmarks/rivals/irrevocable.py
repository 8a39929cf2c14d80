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

from benchmarks.rivals.results import Cost
from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.costs import Costs
from revfrf.errors import UsageError
from revfrf.forest.randomness import feature_probability
from revfrf.tables import is_frame

Forest = RevocableForestClassifier | RevocableForestRegressor


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A new forest, the wall seconds that its training and its set-up of keys took, and what was counted.

    The search for a modulus is not in them: it is made once per process and size.
    """

    forest: Forest
    training_seconds: float
    setup_seconds: float
    cost: Cost

    @property
    def seconds(self) -> float:
        return self.training_seconds + self.setup_seconds


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
    timings = new.federation_.timings
    return Rebuilt(new, timings.training, timings.setup, counted(new.costs_))


def counted(costs: Costs) -> Cost:
    """The books of one of our forests, participants taken together."""
    seconds: dict[str, float] = {}
    powers: dict[str, dict[str, int]] = {}
    for role, protocols in costs.work.items():
        who = role if role in ("KGC", "CS", "CC") else "participants"
        for cell in protocols.values():
            seconds[who] = seconds.get(who, 0.0) + cell["seconds"]
            kinds = powers.setdefault(who, {})
            for kind, count in cell["exponentiations"].items():
                kinds[kind] = kinds.get(kind, 0) + count
    return Cost(seconds, int(costs.total("bytes")), powers)
