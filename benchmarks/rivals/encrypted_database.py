"""Random decision trees whose leaves count under encryption.

Jaideep Vaidya, Basit Shafiq, Wei Fan, Danish Mehmood, David Lorenzi, "A random decision tree framework for
privacy-preserving data mining", IEEE Transactions on Dependable and Secure Computing 11(5), 2014 (online
2013), for data whose columns are held by different parties.

The structure is random and looks at no label: every split has a random feature, and its owner cuts at the
value of a random row of its own. Then every row's label, as an encrypted vector, is added to its leaf in
every tree. A leaf's vector is at last multiplied by UNIT / its rows, so that all trees weigh the same. A
prediction adds the vectors of its leaves in all trees and opens the sum, once.

The vector of a row is its class, one number a class; for numbers it is (1, ŷ) in fixed point, and the answer
is the quotient of the sums. `oblivious` adds a vector to every leaf of each tree, which encrypts zeros but
for the row's own leaf, so that no leaf shows whose it is: an encryption a row and leaf, which is the count
of the paper's table; how many rows a leaf has is opened at the end. Without it a row's vector is encrypted
once and added to one leaf of each tree.

Simplified: splits are binary, the trees complete; one party holds the key that the authors share among all.
Key generation is not in the costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from benchmarks.paper.datasets import Task
from benchmarks.rivals.paillier import Paillier
from benchmarks.rivals.results import Cost, Meter
from revfrf.errors import UsageError

LABELS, OWNERS, OPENER = "label owner", "participants", "key holder"
HOP_BYTES = 8
"""A row's number and its node's, from one owner to the next."""

DECIMALS = 3
UNIT = 1 << 24

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RandomTrees:
    """Complete trees: tree × split, level by level. Left iff x ≤ cut."""

    features: Ints
    cuts: Floats

    @classmethod
    def draw(cls, X: Any, n_trees: int, depth: int, seed: int) -> "RandomTrees":
        """Random trees for columns like these; labels play no part."""
        values, rng = np.asarray(X, dtype=np.float64), np.random.default_rng(seed)
        shape = (n_trees, (1 << depth) - 1)
        features = rng.integers(values.shape[1], size=shape)
        return cls(features, values[rng.integers(len(values), size=shape), features])

    @property
    def n_trees(self) -> int:
        return len(self.features)

    @property
    def n_leaves(self) -> int:
        """Of one tree."""
        return int(self.features.shape[1]) + 1

    @property
    def depth(self) -> int:
        return self.n_leaves.bit_length() - 1

    def leaves(self, X: Any) -> Ints:
        """The leaf of each row (down) in each tree (across)."""
        values = np.asarray(X, dtype=np.float64)
        rows, found = np.arange(len(values)), np.empty((len(values), self.n_trees), dtype=np.int64)
        for tree, (features, cuts) in enumerate(zip(self.features, self.cuts, strict=True)):
            node = np.zeros(len(values), dtype=np.int64)
            for _ in range(self.depth):
                node = 2 * node + 1 + (values[rows, features[node]] > cuts[node])
            found[:, tree] = node - (self.n_leaves - 1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """How labels become vectors of whole numbers, and sums of vectors become answers."""

    task: Task
    classes: NDArray[Any]

    @classmethod
    def of(cls, task: Task, y: Any) -> "Labels":
        return cls(task, np.unique(np.asarray(y)) if task == "classes" else np.empty(0))

    @property
    def width(self) -> int:
        return len(self.classes) if self.task == "classes" else 2

    def vectors(self, y: Any) -> Ints:
        labels = np.asarray(y)
        if self.task == "classes":
            return np.eye(self.width, dtype=np.int64)[np.searchsorted(self.classes, labels)]
        whole = np.rint(labels.astype(np.float64) * 10**DECIMALS).astype(np.int64)
        return np.column_stack([np.ones_like(whole), whole])

    def answers(self, sums: Ints) -> NDArray[Any]:
        if self.task == "classes":
            chosen: NDArray[Any] = self.classes[sums.argmax(axis=1)]
            return chosen
        mean: Floats = sums[:, 1] / np.maximum(sums[:, 0], 1) / 10**DECIMALS
        return mean

    @property
    def counting(self) -> slice:
        """Which numbers of a sum of vectors add up to how many they were."""
        return slice(None) if self.task == "classes" else slice(1)


def weights(rows: Ints) -> Ints:
    """What the vectors of leaves of so many rows are multiplied by."""
    return np.rint(UNIT / np.maximum(rows, 1)).astype(np.int64)


class ClearDatabase:
    """The same trees without encryption: for accuracy, and to compare answers with."""

    def __init__(self, task: Task, trees: RandomTrees) -> None:
        self.task, self.trees = task, trees

    def fit(self, X: Any, y: Any) -> "ClearDatabase":
        self.labels_ = Labels.of(self.task, y)
        vectors, leaves = self.labels_.vectors(y), self.trees.leaves(X)
        shape = (self.trees.n_trees, self.trees.n_leaves, self.labels_.width)
        self.sums_ = np.zeros(shape, dtype=np.int64)
        for tree, column in enumerate(leaves.T):
            np.add.at(self.sums_[tree], column, vectors)
        rows = self.sums_[:, :, self.labels_.counting].sum(axis=2, keepdims=True)
        self.sums_ *= weights(rows)
        return self

    def totals(self, X: Any) -> Ints:
        """The sum of each row's leaves in all trees."""
        total: Ints = self.sums_[np.arange(self.trees.n_trees), self.trees.leaves(X)].sum(axis=1)
        return total

    def predict(self, X: Any) -> NDArray[Any]:
        return self.labels_.answers(self.totals(X))


class EncryptedDatabase:
    """`fit` and `predict` under encryption; `predicting` is what the last prediction cost."""

    predicting: Cost

    def __init__(self, task: Task, trees: RandomTrees, key: Paillier, *, oblivious: bool = False) -> None:
        self.task, self.trees, self.key, self.oblivious = task, trees, key, oblivious

    def fit(self, X: Any, y: Any) -> "EncryptedDatabase":
        self.measure_fit(X, y, len(X))
        return self

    def measure_fit(self, X: Any, y: Any, measured_rows: int) -> Cost:
        """What `fit` costs on all these rows, from its first ones: every row costs the same, every leaf too.

        Only those are in the leaves: unless they are all rows, ask this object nothing afterwards.
        """
        if not 0 < measured_rows <= len(X):
            raise UsageError(f"measured_rows={measured_rows}: there are {len(X)} rows")
        self.labels_ = Labels.of(self.task, y)
        rows = self._add_rows(X[:measured_rows], y[:measured_rows])
        return rows.times(len(X) / measured_rows) + self._weigh_leaves()

    def _add_rows(self, X: Any, y: Any) -> Cost:
        trees, meter = self.trees, Meter()
        zeros = [mpz(1)] * self.labels_.width
        self.leaves_ = [[zeros] * trees.n_leaves for _ in range(trees.n_trees)]
        with meter.role(OWNERS):
            leaves = trees.leaves(X)
        for vector, reached in zip(self.labels_.vectors(y).tolist(), leaves.tolist(), strict=True):
            if self.oblivious:
                for tree, leaf in enumerate(reached):
                    for other in range(trees.n_leaves):
                        sent = self._encrypt(meter, [number * (other == leaf) for number in vector])
                        self._add(meter, tree, other, sent)
            else:
                sent = self._encrypt(meter, vector)
                for tree, leaf in enumerate(reached):
                    self._add(meter, tree, leaf, sent)
        meter.send(leaves.size * trees.depth * HOP_BYTES)
        every = np.arange(trees.n_leaves)
        self.rows_ = np.stack([(column[:, None] == every).sum(axis=0) for column in leaves.T])
        return meter.cost()

    def _weigh_leaves(self) -> Cost:
        meter = Meter()
        for tree, leaves in enumerate(self.leaves_):
            rows = self._opened_rows(meter, leaves) if self.oblivious else self.rows_[tree]
            with meter.role(OWNERS):
                self.leaves_[tree] = [
                    [self.key.multiply(number, factor) for number in leaf]
                    for leaf, factor in zip(leaves, weights(rows).tolist(), strict=True)
                ]
        meter.count("products", self.trees.n_trees * self.trees.n_leaves * self.labels_.width)
        return meter.cost()

    def _opened_rows(self, meter: Meter, leaves: list[list[mpz]]) -> Ints:
        """How many rows each leaf has, where nobody has seen them come."""
        with meter.role(OWNERS):
            sums = [reduce(self.key.add, leaf[self.labels_.counting]) for leaf in leaves]
        meter.count("additions", len(leaves) * (self.labels_.width - 1 if self.task == "classes" else 0))
        meter.send(len(sums) * self.key.ciphertext_bytes)
        with meter.role(OPENER):
            rows = [self.key.decrypt(number) for number in sums]
        meter.count("decryptions", len(rows))
        return np.array(rows)

    def _encrypt(self, meter: Meter, vector: Sequence[int]) -> list[mpz]:
        with meter.role(LABELS):
            sent = [self.key.encrypt(number) for number in vector]
        meter.count("encryptions", len(sent))
        return sent

    def _add(self, meter: Meter, tree: int, leaf: int, sent: list[mpz]) -> None:
        meter.send(len(sent) * self.key.ciphertext_bytes)
        with meter.role(OWNERS):
            kept = self.leaves_[tree][leaf]
            self.leaves_[tree][leaf] = [self.key.add(a, b) for a, b in zip(kept, sent, strict=True)]
        meter.count("additions", len(sent))

    def totals(self, X: Any) -> Ints:
        """The opened sums of each row's leaves in all trees."""
        key, meter, opened = self.key, Meter(), []
        with meter.role(OWNERS):
            reached = self.trees.leaves(X)
        meter.send(reached.size * self.trees.depth * HOP_BYTES)
        for row in reached.tolist():
            with meter.role(OWNERS):
                total = [key.encrypt(0) for _ in range(self.labels_.width)]
                for tree, leaf in enumerate(row):
                    total = [key.add(a, b) for a, b in zip(total, self.leaves_[tree][leaf], strict=True)]
            meter.count("encryptions", len(total))
            meter.count("additions", len(row) * len(total))
            meter.send((self.trees.n_trees + 1) * len(total) * key.ciphertext_bytes)
            with meter.role(OPENER):
                numbers = [key.decrypt(sum_) for sum_ in total]
            opened.append([number - key.n if number > key.n // 2 else number for number in numbers])
            meter.count("decryptions", len(total))
        self.predicting = meter.cost()
        return np.array(opened, dtype=np.int64)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.labels_.answers(self.totals(X))
