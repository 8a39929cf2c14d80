"""What the rivals' programs cost on Adult; every answer that they give is checked."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.experiment import dataset
from benchmarks.paper.printed import BOST, VAIDYA
from benchmarks.rivals.comparisons import CLIENT, SERVER, ClientKeys, bost, evaluate, wu
from benchmarks.rivals.encrypted_database import ClearDatabase, EncryptedDatabase, RandomTrees
from benchmarks.rivals.paillier import Paillier
from benchmarks.rivals.plain import plain_forest
from benchmarks.rivals.results import Cost
from benchmarks.rivals.trees import from_sklearn, vote

SEEN = "Vaidya, leaves seen"
"""The cheaper way, in which it is seen which leaf a row reaches."""

COMPLETE_DEPTH = 7
COMPLETE_SPLITS = (1 << COMPLETE_DEPTH) - 1
"""Of the one random tree whose construction is measured."""


def evaluation(
    data: Path | None, rival: str, bits: int, trial: int, measured: int, rows: int, trees: int, depth: int
) -> dict[str, Any]:
    """A scikit-learn forest on Adult, of which Bost's protocol or Wu's evaluates some trees for a test row.

    Raises AssertionError unless all of them together vote as scikit-learn's do.
    """
    split = dataset("adult", data).splits(0)[0].coded
    X, y, asked = split.X_train[:rows], split.y_train[:rows], split.X_test[trial : trial + 1].to_numpy()
    plain = plain_forest("classes", trees, 0, X.shape[1], max_depth=depth).fit(X, y)
    grown = [from_sklearn(tree, 0) for tree in plain.estimators_]
    row = [int(value) for value in asked[0]]
    found = evaluate(bost if rival == BOST else wu, grown, row, _client_keys(bits), measured)
    votes = sum(vote(int(tree.predict(asked)[0])) for tree in plain.estimators_)
    if found.answer not in (None, votes):
        raise AssertionError(f"{rival}: the answer is not the plain forest's")
    cost = found.cost
    return {"prediction": _plain(cost, {"CS": cost.seconds[SERVER], "UD": cost.seconds[CLIENT]})}


@cache
def _client_keys(bits: int) -> ClientKeys:
    """Made once a size."""
    return ClientKeys.generate(bits)


def encrypted(
    data: Path | None, rival: str, bits: int, measured: int, rows: int, trees: int, depth: int
) -> dict[str, Any]:
    """Random trees that count so many of the rows under encryption: one that is built, many that are asked.

    Raises AssertionError if sums are opened that are not those of the same trees without encryption.
    """
    split = dataset("adult", data).splits(0)[0].coded
    X, y = split.X_train[:rows].to_numpy(), split.y_train[:rows].to_numpy()
    some, key = (X[:measured], y[:measured]), Paillier.generate(bits)
    complete, drawn = RandomTrees.draw(X, 1, COMPLETE_DEPTH, 0), RandomTrees.draw(X, trees, depth, 0)
    one = EncryptedDatabase("classes", complete, key, oblivious=rival == VAIDYA)
    building = one.measure_fit(X, y, measured)
    many = EncryptedDatabase("classes", drawn, key).fit(*some)
    for database in (one, many) if measured == len(X) else (many,):
        asked, clear = split.X_test[:1].to_numpy(), ClearDatabase("classes", database.trees).fit(*some)
        if not np.array_equal(database.totals(asked), clear.totals(asked)):
            raise AssertionError(f"{rival}: the sums are not those of the rows")
    return {
        name: _plain(cost, {"UD": cost.all_seconds})
        for name, cost in (("construction", building), ("prediction", many.predicting))
    }


def _plain(cost: Cost, seconds: Mapping[str, float]) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "bytes": cost.bytes,
        "operations": cost.operations,
        "of": cost.extrapolated_from,
    }
