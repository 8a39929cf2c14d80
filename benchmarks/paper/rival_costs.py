"""What the rivals' programs cost on Adult; every answer that they give is checked."""

from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
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
    return {"prediction": _as_result(found.cost, {SERVER: "CS", CLIENT: "UD"})}


@cache
def _client_keys(bits: int) -> ClientKeys:
    """Made once a size."""
    return ClientKeys.generate(bits)


def building(data: Path | None, rival: str, bits: int, measured: int, rows: int) -> dict[str, Any]:
    """A complete random tree counts so many of the rows under encryption, from which all are extrapolated.

    Raises AssertionError if all are counted, and sums are opened that are not those of the rows.
    """
    X, y, asked = _rows(data, rows, 0)
    trees = RandomTrees.draw(X, 1, COMPLETE_DEPTH, 0)
    database = EncryptedDatabase("classes", trees, Paillier.generate(bits), oblivious=rival == VAIDYA)
    cost = database.measure_fit(X, y, measured)
    if measured == len(X):
        _check(rival, database, X, y, asked)
    return {"construction": _as_result(cost, {})}


def asking(
    data: Path | None, rival: str, bits: int, trial: int, measured: int, rows: int, trees: int, depth: int
) -> dict[str, Any]:
    """Random trees, in whose leaves so many of the rows are, are asked for a test row.

    Raises AssertionError if sums are opened that are not those of the rows.
    """
    X, y, asked = _rows(data, rows, trial)
    database = _database(data, bits, measured, rows, trees, depth)
    _check(rival, database, X[:measured], y[:measured], asked)
    return {"prediction": _as_result(database.predicting, {})}


@lru_cache(maxsize=1)
def _database(
    data: Path | None, bits: int, measured: int, rows: int, trees: int, depth: int
) -> EncryptedDatabase:
    """Kept while cells that follow each other ask it."""
    X, y, _ = _rows(data, rows, 0)
    drawn = RandomTrees.draw(X, trees, depth, 0)
    return EncryptedDatabase("classes", drawn, Paillier.generate(bits)).fit(X[:measured], y[:measured])


def _rows(data: Path | None, rows: int, trial: int) -> tuple[Any, Any, Any]:
    """Adult's first training rows with their labels, and a test row."""
    split = dataset("adult", data).splits(0)[0].coded
    asked = split.X_test[trial : trial + 1]
    return split.X_train[:rows].to_numpy(), split.y_train[:rows].to_numpy(), asked.to_numpy()


def _check(rival: str, database: EncryptedDatabase, X: Any, y: Any, asked: Any) -> None:
    clear = ClearDatabase("classes", database.trees).fit(X, y)
    if not np.array_equal(database.totals(asked), clear.totals(asked)):
        raise AssertionError(f"{rival}: the sums are not those of the rows")


def _as_result(cost: Cost, roles: Mapping[str, str]) -> dict[str, Any]:
    """By the paper's roles; who is not named is one of the participants."""
    seconds, operations = dict[str, float](), dict[str, Counter[str]]()
    for role, spent in cost.seconds.items():
        seconds[roles.get(role, "UD")] = seconds.get(roles.get(role, "UD"), 0.0) + spent
    for role, counts in cost.counts.items():
        operations.setdefault(roles.get(role, "UD"), Counter()).update(counts)
    return {
        "seconds": seconds,
        "bytes": cost.bytes,
        "operations": operations,
        "of": cost.extrapolated_from,
    }
