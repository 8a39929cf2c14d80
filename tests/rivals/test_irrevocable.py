"""IRev.Fed: leaving by building everything anew."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals.irrevocable import Forest, rebuild_all
from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import UsageError

TOY: dict[str, Any] = {"max_depth": 4, "random_state": 0, "key_bits": 256, "allow_insecure_keys": True}
X = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 4)), columns=list("abcd"))
X["c"] = pd.Categorical(np.where(X["c"] > 0, "high", "low"))
Y = (X["a"] + X["b"] > 0).astype(int)
PARTIES = {"bank": ["a", "d"], "telco": ["b"], "shop": ["c"]}


def classifier(**parameters: Any) -> RevocableForestClassifier:
    return RevocableForestClassifier(5, **(TOY | parameters))


@pytest.mark.parametrize("parties", [None, PARTIES])
@pytest.mark.parametrize("kind", [RevocableForestClassifier, RevocableForestRegressor])
def test_the_new_forest_is_the_one_that_revocation_gives(kind: type[Forest], parties: Any) -> None:
    forest = kind(5, parties=parties, decimals={"a": 3}, **TOY).fit(X, Y)
    leaver = "bank" if parties else "a"
    rebuilt = rebuild_all(forest, X, Y, [leaver])
    before = forest.digest_
    forest.revoke(leaver, level=1)
    assert rebuilt.forest.digest_ == forest.digest_ != before
    assert leaver not in rebuilt.forest.parties_


def test_arrays_and_forests_that_somebody_has_left_are_rebuilt_likewise() -> None:
    rows = X.drop(columns="c").to_numpy()
    forest = classifier(parties={"bank": [0], "telco": [1], "shop": [2]}).fit(rows, Y)
    forest.revoke("shop", level=1)
    rebuilt = rebuild_all(forest, rows, Y, ["bank"]).forest
    forest.revoke("bank", level=1)
    assert rebuilt.digest_ == forest.digest_


def test_another_leaver_gives_another_forest() -> None:
    forest = classifier().fit(X, Y)
    first, second = (rebuild_all(forest, X, Y, [name]).forest for name in "ab")
    assert first.digest_ != second.digest_


def test_the_old_forest_stays_as_it_is() -> None:
    forest = classifier().fit(X, Y)
    before = forest.digest_
    rebuild_all(forest, X, Y, ["a"])
    assert forest.digest_ == before
    assert set(forest.parties_) == set("abcd")


def test_seconds_are_those_of_training_the_new_forest() -> None:
    rebuilt = rebuild_all(classifier().fit(X, Y), X, Y, ["d"])
    assert rebuilt.training_seconds == rebuilt.forest.federation_.timings.training > 0


@pytest.mark.parametrize(
    ("leavers", "reason"), [(["nobody"], "no participant"), (list("abcd"), "nobody stays")]
)
def test_leavers_who_cannot_leave_are_named(leavers: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        rebuild_all(classifier().fit(X, Y), X, Y, leavers)
