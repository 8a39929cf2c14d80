"""What the studies of the shares protocol share: forests with equal parameters, turns, and claims.

Machines are noisy. So what is compared runs in turns, and a ratio is that of the shortest times.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.studies.common import table
from revfrf import RevocableForestClassifier, RevocableForestRegressor

OURS, PLAIN, XGBOOST, LIGHTGBM = "RevFRF", "scikit-learn", "XGBoost", "LightGBM"
_BOOTSTRAP = 0.632  # the share of rows that a bootstrap draws; boosters draw without replacement

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Claim:
    """What was measured, beside the target that it must not exceed."""

    what: str
    value: float
    target: float
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.target


class Seconds(NamedTuple):
    """The shortest of several runs: by the clock, and of all processors, which others disturb less."""

    wall: float
    cpu: float


def show(console: Console, title: str, claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Print claims with their verdicts, those that are missed first, and return all as plain values."""
    view = table(title, "", "measured", "target", "met", "from")
    ordered = sorted(claims, key=lambda claim: claim.met)
    for claim in ordered:
        verdict = "yes" if claim.met else "NO"
        view.add_row(claim.what, f"{claim.value:.3f}", f"{claim.target:.3f}", verdict, claim.detail)
    console.print(view)
    return [{**asdict(claim), "met": claim.met} for claim in ordered]


def in_turns(works: Mapping[str, Work], repeats: int) -> dict[str, Seconds]:
    """Return the shortest times of each of these, which run in turns."""
    shortest = dict.fromkeys(works, Seconds(float("inf"), float("inf")))
    for _ in range(repeats):
        for name, work in works.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            spent = time.perf_counter() - wall, time.process_time() - cpu
            shortest[name] = Seconds(*map(min, shortest[name], spent))
    return shortest


def ratio(what: str, seconds: Mapping[str, Seconds], target: float) -> Claim:
    """Return how our time compares with scikit-learn's."""
    ours, plain = seconds[OURS], seconds[PLAIN]
    detail = f"{ours.wall:.3f} / {plain.wall:.3f} s; CPU {ours.cpu / plain.cpu:.3f}"
    return Claim(what, ours.wall / plain.wall, target, detail)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters that all forests have."""

    classes: bool
    trees: int
    max_features: int
    depth: int | None = 10
    leaf: int = 5
    jobs: int = 1

    def _same(self) -> dict[str, Any]:
        return {
            "n_estimators": self.trees,
            "max_depth": self.depth,
            "min_samples_leaf": self.leaf,
            "max_features": self.max_features,
            "n_jobs": self.jobs,
            "random_state": 0,
        }

    def ours(self, **more: Any) -> RevocableForestClassifier | RevocableForestRegressor:
        kind = RevocableForestClassifier if self.classes else RevocableForestRegressor
        return kind(**(self._same() | more))

    def plain(self, **more: Any) -> RandomForestClassifier | RandomForestRegressor:
        kind = RandomForestClassifier if self.classes else RandomForestRegressor
        return kind(**(self._same() | more))

    def boosters(self, columns: int) -> dict[str, Any]:
        """Return the random forests of XGBoost and LightGBM, those that are installed, for classes."""
        share, found = self.max_features / columns, dict[str, Any]()
        if find_spec("xgboost"):
            from xgboost import XGBRFClassifier

            found[XGBOOST] = XGBRFClassifier(
                n_estimators=self.trees,
                max_depth=self.depth,
                n_jobs=self.jobs,
                subsample=_BOOTSTRAP,
                colsample_bynode=share,
                tree_method="hist",
            )
        if find_spec("lightgbm"):
            from lightgbm import LGBMClassifier

            found[LIGHTGBM] = LGBMClassifier(
                boosting_type="rf",
                n_estimators=self.trees,
                max_depth=self.depth or -1,
                n_jobs=self.jobs,
                num_leaves=2**self.depth if self.depth else 2**17,
                min_child_samples=self.leaf,
                bagging_freq=1,
                bagging_fraction=_BOOTSTRAP,
                feature_fraction_bynode=share,
                verbose=-1,
            )
        return found


def made_rows(rows: int, columns: int) -> tuple[Any, Any]:
    """Return Gaussian columns, and two classes that depend on five of them, with noise."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, columns))
    return X, (X[:, :5].sum(axis=1) + rng.normal(size=rows) > 0).astype(np.int64)
