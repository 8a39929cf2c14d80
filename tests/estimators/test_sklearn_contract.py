"""The estimators are scikit-learn's: its own checks, its tools around them, and what a fitted one refuses."""

import copy
import doctest
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import SecretError
from revfrf.estimators import forest as estimators
from tests.estimators.toys import TOY, classifier, regressor, signs, table

Estimator = RevocableForestClassifier | RevocableForestRegressor
Maker = Callable[..., Estimator]

BOTH: list[Maker] = [classifier, regressor]
KINDS: list[type[Estimator]] = [RevocableForestClassifier, RevocableForestRegressor]


def expected_failures(_: Estimator) -> dict[str, str]:
    """Which of scikit-learn's checks cannot hold, and why."""
    return {
        "check_estimators_pickle": "a fitted forest holds keys and refuses to be pickled",
        "check_sample_weight_equivalence_on_dense_data": (
            "rows are drawn and sampled by their number, as in scikit-learn's own forests"
        ),
    }


CHECKS: pytest.MarkDecorator = parametrize_with_checks(
    [RevocableForestClassifier(5, max_depth=4, **TOY), RevocableForestRegressor(5, max_depth=4, **TOY)],
    expected_failed_checks=expected_failures,
)


@CHECKS
def test_scikit_learns_own_checks_hold(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("make", BOTH)
def test_weights_equal_repeated_rows_where_nothing_is_sampled(make: Maker) -> None:
    exhaustive = make(bootstrap=False, min_samples_leaf=1, n_candidates=255, n_sampled=2**10)
    check_sample_weight_equivalence_on_dense_data(type(exhaustive).__name__, exhaustive)


# -- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_checked(kind: type[Estimator]) -> None:
    assert set(kind().get_params()) == set(kind._parameter_constraints)


# -- scikit-learn's tools ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_iris(return_X_y=True)
    return X, y


def test_cross_validation_trains_here_and_in_other_processes(iris: Any) -> None:
    here, there = (
        cross_val_score(classifier(10), *iris, cv=3, n_jobs=n_jobs, error_score="raise") for n_jobs in (1, 2)
    )
    assert here.tolist() == there.tolist()
    assert len(here) == 3
    assert here.min() > 0.85


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_search_finds_the_better_depth(n_jobs: int, iris: Any) -> None:
    search = GridSearchCV(
        classifier(10, max_features=1.0), {"max_depth": [1, 4]}, cv=3, n_jobs=n_jobs, error_score="raise"
    )
    search.fit(*iris)
    assert search.best_params_ == {"max_depth": 4}
    assert search.best_estimator_.score(*iris) > 0.9


# -- keys do not travel ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", BOTH)
def test_an_unfitted_forest_can_be_pickled_and_copied(make: Maker) -> None:
    model = make(n_candidates=9)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):  # noqa: S301
        assert copied is not model
        assert copied.get_params() == model.get_params()


REFUSED: dict[str, Callable[[Any], object]] = {
    "pickle": pickle.dumps,
    "oldest pickle": lambda model: pickle.dumps(model, protocol=0),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "joblib": lambda model: joblib.dump(model, io.BytesIO()),
    "in a list": lambda model: pickle.dumps([model]),
    "in a pipeline": lambda model: pickle.dumps(make_pipeline(model)),
}


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("way", REFUSED)
def test_a_fitted_forest_refuses_to_leave_the_process(make: Maker, way: str) -> None:
    X = table()
    model = make().fit(X, signs(X))
    before = model.predict(X)
    with pytest.raises(SecretError, match=r"holds every party's keys.*cannot be pickled or copied.*clone"):
        REFUSED[way](model)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_refused_dump_leaves_no_keys_in_the_file(tmp_path: Path) -> None:
    X = table()
    model = classifier(parties={"bank": [0], "telco": [1]}).fit(X, signs(X))
    file = tmp_path / "model.joblib"
    with pytest.raises(SecretError):
        joblib.dump(model, file)
    assert not file.exists() or b"bank" not in file.read_bytes()


# -- what people see ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_toy_keys_are_called_insecure_wherever_a_model_is_shown(kind: type[Estimator]) -> None:
    for bits in (256, 2047):
        model = kind(protocol="paper", key_bits=bits, allow_insecure_keys=True)
        assert repr(model).endswith("INSECURE")
        assert str(model).endswith("INSECURE")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_real_keys_are_not_called_insecure(kind: type[Estimator], bits: int) -> None:
    model = kind(protocol="paper", key_bits=bits)
    assert "INSECURE" not in repr(model)
    assert "INSECURE" not in model._repr_html_()


def test_a_fitted_forest_with_toy_keys_stays_insecure_whatever_is_set_afterwards() -> None:
    X = table()
    model = classifier().fit(X, signs(X)).set_params(key_bits=3072)
    assert "INSECURE" in repr(model)


@pytest.mark.parametrize("make", BOTH)
def test_the_html_representation_names_the_class_and_the_toy_keys(make: Maker) -> None:
    X = table()
    model = make()
    unfitted = model._repr_html_()
    fitted = model.fit(X, signs(X))._repr_html_()
    for page in (unfitted, fitted):
        assert type(model).__name__ in page
        assert "INSECURE" in page
    assert unfitted != fitted


@pytest.mark.parametrize("make", BOTH)
def test_neither_representation_shows_keys(make: Maker) -> None:
    X = table()
    model = make(parties={"bank": [0], "telco": [1]}).fit(X, signs(X))
    modulus = model.federation_.parameters.n
    for text in (repr(model), model._repr_html_()):
        assert str(modulus) not in text
        assert f"{modulus:x}" not in text


@pytest.mark.parametrize("attribute", ["digest_", "n_nodes_", "parties_", "costs_", "leakage_"])
def test_an_unfitted_forest_has_no_fitted_attribute(attribute: str) -> None:
    assert not hasattr(classifier(), attribute)


def test_the_examples_in_the_documentation_are_true() -> None:
    result = doctest.testmod(estimators)
    assert result.attempted >= 10
    assert result.failed == 0
