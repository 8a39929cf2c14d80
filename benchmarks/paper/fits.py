"""Single fits and what each of them costs; most run in a process of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.common import current_memory, keys, peak_memory, seconds
from benchmarks.paper.datasets import Column, Frame, load
from revfrf import RevocableForestClassifier, RevocableForestRegressor


@dataclass(frozen=True, slots=True)
class Shape:
    """What is fitted, and by how many parties with an equal share of the columns."""

    rows: int
    features: int
    parties: int
    trees: int
    depth: int
    key_bits: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one fit: its shape, and bytes of memory, `before` it and at the peak, of all its processes."""

    shape: Shape
    nodes: int
    seconds: float
    before: int
    peak: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of FLE-Expan, in both directions."""

    depth: int
    splits: int
    to_parties: int
    from_parties: int

    @property
    def per_100_splits(self) -> float:
        return 100 * (self.to_parties + self.from_parties) / self.splits


def generated_fit(shape: Shape) -> Cost:
    """Rows of Gaussian features, and two classes that depend on some of them, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.rows, shape.features))
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + rng.standard_normal(shape.rows) > 0
    return _cost(RevocableForestClassifier, X, y, shape)


def superconduct_fit(parties: int, trees: int, depth: int, key_bits: int, data: Path | None) -> Cost:
    dataset = load("superconduct", data)
    rows, features = dataset.X.shape
    shape = Shape(rows, features, min(parties, features), trees, depth, key_bits)
    return _cost(RevocableForestRegressor, dataset.X.to_numpy(), dataset.y.to_numpy(), shape)


def _cost(estimator: Any, X: Column, y: Column, shape: Shape) -> Cost:
    owned = np.array_split(np.arange(shape.features), shape.parties)
    same = {
        "parties": {f"party {number}": list(columns) for number, columns in enumerate(owned)},
        "random_state": 0,
        "n_jobs": -1,
        **keys(shape.key_bits),
    }
    warm_up = estimator(2, max_depth=3, **same).fit(X[:500], y[:500])  # compiles, and makes the modulus
    del warm_up
    before = current_memory()
    model = estimator(shape.trees, max_depth=shape.depth, **same)
    spent = seconds(lambda: model.fit(X, y))
    return Cost(shape, model.n_nodes_, spent, before, peak_memory())


def traffic(X: Frame, y: Column, depths: Sequence[int], key_bits: int) -> list[Traffic]:
    """One tree of each of these depths, with a party for every column."""
    return [_traffic(X, y, depth, key_bits) for depth in depths]


def _traffic(X: Frame, y: Column, depth: int, key_bits: int) -> Traffic:
    model = RevocableForestClassifier(1, max_depth=depth, random_state=0, n_jobs=-1, **keys(key_bits))
    links = model.fit(X, y).costs_.traffic
    sent = {link: row["FLE-Expan"]["bytes"] for link, row in links.items() if "FLE-Expan" in row}
    to_parties = sum(size for link, size in sent.items() if link.startswith("CS -> "))
    splits = (model.n_nodes_ - 1) // 2
    return Traffic(depth, splits, to_parties, sum(sent.values()) - to_parties)
