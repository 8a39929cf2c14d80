"""What owners let CS see, as parameters of the estimators: noise, budgets, forgetting."""

import re
import warnings
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import AbsentError, UsageError
from revfrf.testing.peers import offline
from tests.estimators.directories import NUMBERS, PARTIES, X, Y
from tests.estimators.toys import TWO_PARTIES, frame, signs, table


def classifier(**parameters: Any) -> RevocableForestClassifier:
    defaults: dict[str, Any] = {"max_depth": 5, "max_features": 0.5, "random_state": 0, "parties": PARTIES}
    return RevocableForestClassifier(**({"n_estimators": 6} | defaults | parameters))


def epsilons(model: Any) -> list[float | None]:
    return [column["epsilon"] for column in model.column_leakage_.values()]


# -- parameters -------------------------------------------------------------------------------------


def test_settings_are_for_all_columns_or_by_column() -> None:
    everywhere = classifier(epsilon=0.5, epsilon_budget=2, forget_bins=True).fit(X, Y)
    assert epsilons(everywhere) == [0.5] * 5
    assert all(column["forgotten"] for column in everywhere.column_leakage_.values())
    named = classifier(
        parties={**TWO_PARTIES, "shop": ["c"]}, epsilon={"a": 1, 2: np.float64(2)}, epsilon_budget=3
    )
    named.set_params(forget_bins={"b": np.bool_(True)}).fit(frame(c=range(60)), signs(table()))
    shown = named.column_leakage_
    assert {name.split("/")[1]: found["epsilon"] for name, found in shown.items()} == {
        "a": 1,
        "b": None,
        "c": 2,
    }
    assert [name.split("/")[1] for name, found in shown.items() if found["forgotten"]] == ["b"]


def test_what_cs_has_received_of_a_column_is_shown_in_bits() -> None:
    model = classifier(n_cuts={0: 3}, epsilon={1: 0.25}).fit(X, Y)
    leakage = model.column_leakage_
    assert {name: found["bins"] for name, found in leakage.items()} == {
        f"{party}/{book.line.feature.split('/')[1]}": book.line.n_cuts + 1
        for party, owner in model.federation_.participants.items()
        for book in owner.store.books
    }
    assert all(found["bits"] == log2(found["bins"]) for found in leakage.values())
    assert sorted(found["bits"] for found in leakage.values())[0] == 2
    assert model.leakage_["CS"]["bins of rows"] == X.size
    paper = classifier(protocol="paper", key_bits=256, allow_insecure_keys=True).fit(X, Y)
    assert paper.column_leakage_ == {}


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"epsilon": {"b": 0}}, "`epsilon` must be a number from 0.001 to 32"),
        ({"epsilon": {"b": "much"}}, "`epsilon` must be"),
        ({"epsilon_budget": {"b": 4}}, "`epsilon_budget` without `epsilon`"),
        ({"epsilon": {"b": 2}, "epsilon_budget": 1}, "raise the one or lower the other"),
        ({"forget_bins": {"b": "yes"}}, "`forget_bins` must be True or False"),
        ({"n_cuts": {"b": 256}}, "`n_cuts` must be an int from 1 to 255"),
    ],
)
def test_bad_settings_of_a_column_are_refused_with_its_name(parameters: Any, what: str) -> None:
    rows = frame()
    with pytest.raises(UsageError, match=rf"party '.*', column 'b'.*{re.escape(what)}"):
        classifier(parties=TWO_PARTIES, **parameters).fit(rows, signs(table()))


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0}, {"epsilon": 40.0}, {"epsilon": "1"}, {"epsilon_budget": -1}, {"forget_bins": "yes"}],
)
def test_bad_settings_for_all_columns_are_refused(parameters: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        classifier(**parameters).fit(X, Y)


@pytest.mark.parametrize("name", ["epsilon", "epsilon_budget", "forget_bins"])
def test_settings_of_columns_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"`{name}`.*there is no column 'z'"):
        classifier(parties=TWO_PARTIES, **{name: {"z": 1}}).fit(frame(), signs(table()))


def test_budget_for_all_columns_without_any_noise_is_refused() -> None:
    with pytest.raises(UsageError, match="`epsilon_budget` without `epsilon`: give `epsilon`, too"):
        classifier(epsilon_budget=1.0).fit(X, Y)


def test_noise_on_a_category_is_refused_and_leaving_it_out_is_the_remedy() -> None:
    rows = pd.DataFrame({"size": X[:, 0], "colour": pd.Categorical(np.where(Y, "red", "blue"))})
    parties = {"bank": ["size", "colour"]}
    with pytest.raises(UsageError, match="column 'colour': categories have no order"):
        classifier(parties=parties, epsilon=1.0).fit(rows, Y)
    model = classifier(parties=parties, epsilon={"size": 1.0}).fit(rows, Y)
    assert model.column_leakage_["bank/colour"]["epsilon"] is None


@pytest.mark.parametrize(
    "parameters", [{"n_cuts": 31}, {"epsilon": 1.0}, {"epsilon_budget": 2.0}, {"forget_bins": True}]
)
def test_paper_protocol_refuses_settings_of_columns(parameters: Any) -> None:
    toys = {"protocol": "paper", "key_bits": 256, "allow_insecure_keys": True}
    with pytest.raises(
        UsageError, match=rf"`{next(iter(parameters))}` is for protocol='shares'.*leave it out"
    ):
        classifier(**toys, **parameters).fit(X, Y)


def test_settings_are_parameters_like_others() -> None:
    model = classifier(epsilon={0: 1.0}, epsilon_budget=4, forget_bins=True)
    assert clone(model).get_params() == model.get_params()


# -- noise ------------------------------------------------------------------------------------------


def test_forest_with_noise_repeats_and_is_another_one_than_without() -> None:
    noisy = classifier(epsilon=0.5).fit(X, Y)
    assert classifier(epsilon=0.5).fit(X, Y).digest_ == noisy.digest_ != classifier().fit(X, Y).digest_
    assert classifier(epsilon=0.5, random_state=1).fit(X, Y).digest_ != noisy.digest_


def test_so_little_noise_that_no_bin_changes_gives_the_forest_without() -> None:
    assert classifier(epsilon=32).fit(X, Y).digest_ == classifier().fit(X, Y).digest_


def test_regressor_has_noise_too() -> None:
    parameters: dict[str, Any] = {"random_state": 0, "parties": PARTIES, "epsilon": 0.5}
    model = RevocableForestRegressor(6, **parameters).fit(X, NUMBERS)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("private_keys", [False, True])
def test_saved_forest_with_noise_predicts_the_same(tmp_path: Path, private_keys: bool) -> None:
    model = classifier(epsilon=0.5, epsilon_budget=0.5).fit(X, Y)
    model.save(tmp_path / "model", private_keys=private_keys)
    copy = RevocableForestClassifier.load(tmp_path / "model")
    assert (copy.predict_proba(X) == model.predict_proba(X)).all()
    assert copy.column_leakage_ == model.column_leakage_
    if private_keys:
        copy.revoke("bank")
        model.revoke("bank")
        assert copy.digest_ == model.digest_


def test_opened_forest_with_noise_predicts_the_same(tmp_path: Path) -> None:
    model = classifier(epsilon=0.5, directory=tmp_path / "forest").fit(X, Y)
    expected = model.predict_proba(X)
    model.close()
    again = RevocableForestClassifier.open(tmp_path / "forest")
    assert (again.predict_proba(X) == expected).all()
    again.close()


# -- forgetting -------------------------------------------------------------------------------------


def test_opened_forest_goes_on_with_forgotten_bins(tmp_path: Path) -> None:
    model = classifier(forget_bins=True, directory=tmp_path / "forest").fit(X, Y)
    expected = model.predict_proba(X)
    model.close()
    again = RevocableForestClassifier.open(tmp_path / "forest")
    assert not any(len(held.bins) for held in again.federation_.coordinator.store.bins.values())
    assert (again.predict_proba(X) == expected).all()
    again.revoke("bank")
    undisturbed = classifier().fit(X, Y)
    undisturbed.revoke("bank")
    assert again.digest_ == undisturbed.digest_
    assert again.audit().holds
    again.close()


def test_forest_without_its_bins_can_be_saved_but_not_rebuilt_from_the_file(tmp_path: Path) -> None:
    model = classifier(forget_bins={0: True}).fit(X, Y)
    model.save(tmp_path / "model", private_keys=True)
    copy = RevocableForestClassifier.load(tmp_path / "model")
    assert (copy.predict(X) == model.predict(X)).all()
    with pytest.raises(UsageError, match="cannot be rebuilt"):
        copy.revoke("bank")
    with pytest.raises(UsageError, match="nothing to grow from"):
        copy.audit()


def test_prediction_says_when_trees_wait_for_somebody(tmp_path: Path) -> None:
    model = classifier(forget_bins={1: True}, n_estimators=60, max_depth=2).fit(X, Y)
    owner = next(name for name, columns in model.parties_.items() if 1 in model.layout_.owned[name])
    leaver = next(name for name in model.parties_ if name != owner)
    with offline(model.federation_.network, owner):
        assert model.revoke(leaver).waits_for == (owner,)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((UserWarning, AbsentError), match=f"{owner}"):
                model.predict(X)
        with pytest.raises(UsageError, match=f"until {owner} is back"):
            model.save(tmp_path / "model")
    assert model.revoke(leaver).waits_for == ()
    model.save(tmp_path / "model")
    undisturbed = classifier(n_estimators=60, max_depth=2).fit(X, Y)
    undisturbed.revoke(leaver)
    assert model.digest_ == undisturbed.digest_
    assert (model.predict(X) == undisturbed.predict(X)).all()
