"""Small forests with toy keys, and small tables for them."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.protocols.events import salted_digest

TOY: dict[str, Any] = {"protocol": "paper", "key_bits": 256, "allow_insecure_keys": True}
ROWS = 60


def classifier(n_estimators: int = 5, **parameters: Any) -> RevocableForestClassifier:
    """A small classifier that repeats; parameters given override."""
    defaults = {"max_depth": 4, "random_state": 0, **TOY}
    return RevocableForestClassifier(n_estimators, **(defaults | parameters))


def regressor(n_estimators: int = 5, **parameters: Any) -> RevocableForestRegressor:
    """A small regressor that repeats; parameters given override."""
    defaults = {"max_depth": 4, "random_state": 0, **TOY}
    return RevocableForestRegressor(n_estimators, **(defaults | parameters))


def table(rows: int = ROWS, columns: int = 2) -> NDArray[np.float64]:
    """Normal numbers, the same in every run."""
    return np.random.default_rng(0).normal(size=(rows, columns))


def frame(**columns: Any) -> Any:
    """`table` as a DataFrame with columns "a" and "b"; columns given replace them."""
    return pd.DataFrame(table(), columns=["a", "b"]).assign(**columns)


def people() -> Any:
    """A DataFrame with numbers, categories and missing values of three kinds."""
    rng = np.random.default_rng(4)
    a = np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS))
    b = pd.Categorical(rng.choice(["red", "green", "größte \U0001f33b"], ROWS))
    b[::9] = None
    return frame(a=a, b=b, c=pd.array(rng.integers(0, 9, ROWS), dtype="Int64"))


def signs(X: Any) -> NDArray[np.int64]:
    """Classes that the first column decides: 1 where it is above 0."""
    return (np.asarray(X)[:, 0] > 0).astype(np.int64)


def certified(model: Any) -> bytes:
    """The digest of a forest as its last event certificate has it."""
    return salted_digest(model.federation_.coordinator.record.salt, model.digest_)


TWO_PARTIES = {"bank": ["a"], "telco": ["b"]}
