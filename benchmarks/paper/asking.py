"""Encrypted requests, and what they cost every role.

Forests are grown on Adult with a party for every column. Seconds of roles are processor time; "wall" is what
the requester waits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.paper.books import OWNERS, by_role, powers
from benchmarks.paper.common import keys, seconds
from benchmarks.paper.datasets import Dataset, Frame
from revfrf import RevocableForestClassifier
from revfrf.crypto.dtpkc.arithmetic import FixedBase

PROTOCOLS = {"FRF-Predict", "HoLT"}
ROLES = ("requester", "CS", "CC", OWNERS)
WARM_UPS = FixedBase.BREAK_EVEN
"""Until CC has made the tables of the keys of owners who are met once a request, too."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one request: comparisons, wall seconds, and by role processor seconds and bytes sent."""

    rows: int
    comparisons: int
    wall: float
    seconds: dict[str, float]
    bytes: dict[str, float]
    owners_powers: int
    """Powers of the owner who computes the most."""

    @property
    def all_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def all_bytes(self) -> float:
        return sum(self.bytes.values())


def fitted(
    dataset: Dataset, trees: int, depth: int, key_bits: int, n_rows: int | None, seed: int = 0
) -> RevocableForestClassifier:
    split = dataset.splits(0)[0]
    model = RevocableForestClassifier(trees, max_depth=depth, random_state=seed, n_jobs=-1, **keys(key_bits))
    return model.fit(split.X_train[:n_rows], split.y_train[:n_rows])


def request_rows(dataset: Dataset, n_rows: int) -> Frame:
    return dataset.splits(0)[0].X_test.iloc[:n_rows]


def ask(model: RevocableForestClassifier, X: Frame) -> float:
    """Wall seconds of an encrypted request, whose answer must be the right one."""
    answers: list[Any] = []
    spent = seconds(lambda: answers.append(model.predict_proba_encrypted(X)))
    if not np.array_equal(answers[0], model.predict_proba(X)):
        raise AssertionError("the encrypted answer is another")
    return spent


def warm_up(model: RevocableForestClassifier, X: Frame) -> Spent:
    """What the first request, for the first row, costs; then all rows are asked until nothing is new."""
    first = request(model, X[:1])
    for _ in range(WARM_UPS):
        ask(model, X)
    return first


def requests(model: RevocableForestClassifier, X: Frame) -> list[Spent]:
    """What each of these rows costs, asked alone."""
    return [request(model, X[i : i + 1]) for i in range(len(X))]


def measure(model: RevocableForestClassifier, X: Frame, repeats: int) -> Spent:
    """The median request of several."""
    found = [request(model, X) for _ in range(repeats)]
    return sorted(found, key=lambda spent: spent.wall)[len(found) // 2]


def request(model: RevocableForestClassifier, X: Frame) -> Spent:
    """What one request costs."""
    before, bits_before = model.costs_, _comparisons(model)
    wall = ask(model, X)
    after = model.costs_
    most = max(powers(after, party, "HoLT") - powers(before, party, "HoLT") for party in model.parties_)
    spent, sent = (
        {
            role: value - by_role(getattr(before, books), what, PROTOCOLS, ROLES)[role]
            for role, value in by_role(getattr(after, books), what, PROTOCOLS, ROLES).items()
        }
        for books, what in (("work", "seconds"), ("traffic", "bytes"))
    )
    return Spent(len(X), _comparisons(model) - bits_before, wall, spent, sent, most)


def _comparisons(model: RevocableForestClassifier) -> int:
    """All comparisons so far, as the owners have counted them."""
    learnt = model.leakage_
    return sum(learnt[party].get("comparisons with its splits", 0) for party in model.parties_)
