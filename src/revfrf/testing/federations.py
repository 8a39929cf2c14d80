"""Small federations in one process: made-up data, keys that protect nothing, and a forest within a second.

>>> case = random_case(1)
>>> sorted(case.codes)
['bank', 'shop', 'telco']
>>> federation = train(case)
>>> federation.votes(case.codes, case.n_rows, "hard").totals.shape
(60, 3)
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.dtpkc.strong import set_up as new_keys
from revfrf.embedded import federation as _federation
from revfrf.embedded.federation import Federation
from revfrf.embedded.moduli import cached_setup
from revfrf.forest.randomness import candidate_limit
from revfrf.forest.targets import Targets, class_targets, number_targets
from revfrf.forest.tree import Books, PerNode, Rules
from revfrf.messages.fle_expan import Column
from revfrf.names import Protocol
from revfrf.protocols.sides import GrowthReport
from revfrf.storage.memory import StoreFactory

Codes = dict[str, NDArray[np.int64]]
"""For each party its values as fixed-point codes, shape (n_columns, n_rows)."""

KEY_BITS = 256

RULES = Rules(
    n_trees=4,
    max_depth=4,
    candidate_limit=candidate_limit(0.5),
    min_samples_split=2,
    min_samples_leaf=1,
    bootstrap=True,
    cuts=PerNode("quantile", n_candidates=7, n_sampled=16),
)
"""Rules of a forest that grows within a second."""


def with_rules(**changes: Any) -> Rules:
    """Return `RULES` with some of them changed, or some of how cuts are proposed."""
    of_cuts = {name: changes.pop(name) for name in PerNode.__struct_fields__ if name in changes}
    return structs.replace(RULES, **{"cuts": structs.replace(RULES.cuts, **of_cuts)} | changes)


def with_books(**changes: Any) -> Rules:
    """Return `RULES` with some of them changed, for the shares protocol: cuts come from books."""
    return with_rules(cuts=Books(), **changes)


# -- keys -------------------------------------------------------------------------------------------


@lru_cache
def toy_keys() -> SetUp:
    """Return keys of 256 bits, the same in all of a process. They protect nothing and take no time."""
    return cached_setup(KEY_BITS, True, 1)


@lru_cache
def later_keys() -> tuple[SetUp, ...]:
    """Return some toy keys with different moduli, for later epochs."""
    return tuple(new_keys(KEY_BITS, allow_insecure=True, n_jobs=1) for _ in range(3))


@contextmanager
def prepared_keys() -> Iterator[None]:
    """Begin new epochs without a search for primes: each gets prepared toy keys, other than the last ones."""

    def other_keys(parameters: Parameters, _n_jobs: int) -> SetUp:
        return next(keys for keys in later_keys() if keys.parameters != parameters)

    toy_keys()
    with (
        patch.object(_federation, "fresh_setup_like", other_keys),
        patch.object(_federation, "drop_cached_setup", lambda _: None),
    ):
        yield


# -- data -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """Everything that decides a forest.

    `y` holds numbers of classes or, with `n_classes` 0, real numbers. Rows have the weight 1 unless `weights`
    says otherwise. The same `seed` repeats everything but the keys.
    """

    codes: Codes
    y: Sequence[float]
    n_classes: int
    rules: Rules = RULES
    weights: Sequence[float] | None = None
    seed: bytes = b"seed"

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def row_weights(self) -> list[float]:
        """The weight of each row."""
        return [1.0] * self.n_rows if self.weights is None else list(self.weights)

    def without(self, *parties: str) -> "Case":
        """Return the same case without some parties."""
        return replace(self, codes={name: own for name, own in self.codes.items() if name not in parties})


def random_case(number: int, **changes: Any) -> Case:
    """Return the case of this number: three parties, six columns, 60 rows; `changes` replaces its fields."""
    rng = random.Random(number)  # noqa: S311 (no key comes from it)
    codes = {
        party: np.array([[rng.randrange(-50, 50) for _ in range(60)] for _ in range(n)], dtype=np.int64)
        for party, n in (("bank", 2), ("telco", 3), ("shop", 1))
    }
    y = [float(rng.randrange(3) if rng.random() < 0.2 else int(v > 0)) for v in codes["bank"][0]]
    return replace(Case(codes, y, 3, seed=number.to_bytes(8, "big")), **changes)


def columns_of(codes: Mapping[str, NDArray[np.int64]]) -> dict[str, list[Column]]:
    """Return columns x0, x1, … of each party."""
    return {
        party: [Column(f"x{i}", 0, 64, None) for i in range(len(table))] for party, table in codes.items()
    }


def targets_of(case: Case) -> Targets:
    """Return the targets as the estimators make them."""
    weights, numbers = np.array(case.row_weights), np.arange(case.n_rows)
    if not case.n_classes:
        return number_targets(numbers, np.array(case.y), weights)
    classes = np.array(case.y).astype(np.int64)
    return class_targets(numbers, classes, tuple(range(case.n_classes)), weights)


# -- federations ------------------------------------------------------------------------------------


def ignore(_: GrowthReport) -> None:
    """Watch no progress."""


def set_up(case: Case, n_jobs: int = 1, stores: StoreFactory | None = None) -> Federation:
    """Return the parties of a case before any training; the paper protocol has toy keys.

    The protocol is the one that the case's rules are for.
    """
    protocol: Protocol = "shares" if isinstance(case.rules.cuts, Books) else "paper"
    setup, columns = toy_keys() if protocol == "paper" else None, columns_of(case.codes)
    return Federation(columns, seed=case.seed, protocol=protocol, setup=setup, n_jobs=n_jobs, stores=stores)


def train(case: Case, federation: Federation | None = None) -> Federation:
    """Return a federation that has grown the forest of a case, by default a new one."""
    federation = federation or set_up(case)
    federation.train(case.codes, case.rules, targets_of(case), ignore)
    return federation
