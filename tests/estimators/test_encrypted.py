"""Encrypted requests to fitted forests: what `predict` answers, for whoever is accepted."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import NotFittedError

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import AbsentError, RefusedError, UsageError
from revfrf.estimators._base import PartialAnswer
from revfrf.protocols.common.request import RequestPolicy
from revfrf.testing.refusals import refused
from tests.estimators.toys import TWO_PARTIES, classifier, frame, people, regressor, signs, table
from tests.quick import quick

X = table(120, 4)
Y = signs(X)
NUMBERS = X[:, 0] + X[:, 1] / 2
PARTIES = {"bank": [0, 1], "telco": [2], "shop": [3]}
ROWS, MORE = X[:10], X[:40]


@pytest.fixture(scope="module")
def shared() -> RevocableForestClassifier:
    """A classifier that tests ask but do not change."""
    return classifier(8, parties=PARTIES).fit(X, Y)


@pytest.fixture
def model() -> RevocableForestClassifier:
    """A classifier for one test alone."""
    return classifier(6, parties=PARTIES).fit(X, Y)


def books(model: Any) -> list[Any]:
    """What everybody remembers of requests, and whom KGC has admitted."""
    federation = model.federation_
    owners = [owner.book for owner in federation.participants.values()]
    kept = (federation.coordinator.book, federation.compute.book, *owners)
    return [set(federation.kgc.state.admitted), *((dict(book.known), dict(book.rows)) for book in kept)]


# -- the same answers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "voting"),
    quick(
        product([load_iris, load_wine, load_breast_cancer], ["hard", "soft"]),
        [(load_iris, "hard"), (load_wine, "soft")],
    ),
)
def test_classes_and_shares_are_exactly_those_of_predict(load: Callable[..., Any], voting: str) -> None:
    data, labels = load(return_X_y=True)
    model = classifier(7, voting=voting).fit(data, labels)
    rows = data[:: len(data) // 15]
    np.testing.assert_array_equal(model.predict_encrypted(rows), model.predict(rows))
    np.testing.assert_array_equal(model.predict_proba_encrypted(rows), model.predict_proba(rows))


def test_numbers_are_exactly_those_of_predict() -> None:
    data, target = load_diabetes(return_X_y=True)
    model = regressor(9, max_depth=6).fit(data, target)
    rows = data[::20]
    answers = model.predict_encrypted(rows)
    assert answers.tobytes() == model.predict(rows).tobytes()
    assert len(np.unique(answers)) > 5


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_categories_missing_values_and_names_of_classes_are_as_in_predict(voting: str) -> None:
    rows = people()
    labels = np.where(rows["b"].astype(str) == "red", "yes", np.where(rows["c"] > 4, "no", "perhaps"))
    parties = {"bank": ["a", "c"], "telco": ["b"]}
    model = classifier(7, parties=parties, voting=voting).fit(rows, labels)
    asked = rows.head(20).assign(b=["violet", *rows["b"].head(19)], c=[None, *rows["c"].head(19)])
    answers = model.predict_encrypted(asked)
    assert answers.dtype == model.classes_.dtype
    assert len(set(answers)) > 1
    np.testing.assert_array_equal(answers, model.predict(asked))
    np.testing.assert_array_equal(model.predict_proba_encrypted(asked), model.predict_proba(asked))


def test_single_row_and_a_list_are_rows_too(shared: Any) -> None:
    assert shared.predict_encrypted(X[:1]).shape == (1,)
    assert shared.predict_encrypted(ROWS.tolist()).tolist() == shared.predict(ROWS).tolist()


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_number_of_jobs_does_not_change_the_answers(model: Any, n_jobs: int) -> None:
    model.set_params(n_jobs=n_jobs)
    np.testing.assert_array_equal(model.predict_encrypted(ROWS), model.predict(ROWS))


def test_voting_may_be_changed_after_fitting(model: Any) -> None:
    hard = model.predict_proba_encrypted(ROWS)
    soft = model.set_params(voting="soft").predict_proba_encrypted(ROWS)
    np.testing.assert_array_equal(soft, model.predict_proba(ROWS))
    assert not np.array_equal(hard, soft)


# -- what cannot be asked ---------------------------------------------------------------------------

WRONG_ROWS: dict[str, Any] = {
    "too few columns": X[:3, :3],
    "too many columns": np.hstack([X[:3], X[:3]]),
    "one dimension": X[0],
    "no rows": X[:0],
    "infinity": np.where(np.arange(12).reshape(3, 4) == 7, np.inf, X[:3]),
    "minus infinity": np.where(np.arange(12).reshape(3, 4) == 7, -np.inf, X[:3]),
    "text": [["a", "b", "c", "d"]],
}


@pytest.mark.parametrize("ask", ["predict_encrypted", "predict_proba_encrypted"])
@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_that_cannot_be_asked_about_are_an_error_before_anybody_is_asked(
    shared: Any, name: str, ask: str
) -> None:
    before, sent = books(shared), shared.costs_.total("messages")
    with pytest.raises(ValueError, match=r"X|party|array|column|convert"):
        getattr(shared, ask)(WRONG_ROWS[name])
    assert books(shared) == before
    assert shared.costs_.total("messages") == sent


def test_numbers_far_outside_the_training_range_are_answered_as_in_predict(shared: Any) -> None:
    far = ROWS * 1e300
    np.testing.assert_array_equal(shared.predict_proba_encrypted(far), shared.predict_proba(far))
    assert not np.array_equal(shared.predict_proba(far), shared.predict_proba(ROWS))


def test_rows_with_other_names_or_none_are_an_error() -> None:
    model = classifier(3, parties=TWO_PARTIES).fit(frame(), signs(frame()))
    before = books(model)
    for rows in (frame()[["b", "a"]], frame().rename(columns={"a": "z"}), frame()[["a"]], frame().head(0)):
        with pytest.raises(ValueError, match=r"feature|names|rows"):
            model.predict_encrypted(rows)
    assert books(model) == before


def test_unknown_voting_is_an_error(model: Any) -> None:
    before = books(model)
    with pytest.raises(UsageError, match="'hard' or 'soft'"):
        model.set_params(voting="loud").predict_encrypted(ROWS)
    assert books(model) == before


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.predict_encrypted(ROWS),
        lambda model: model.predict_encrypted(ROWS, "bank", partial=True),
        lambda model: model.enrol_requester("insurer"),
        lambda model: model.set_policy("bank", RequestPolicy()),
        lambda model: clone(model).predict_encrypted(ROWS),
    ],
    ids=["predict_encrypted", "partial", "enrol_requester", "set_policy", "clone"],
)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_forest_that_is_not_fitted_answers_nobody(
    make: Callable[..., Any], call: Callable[[Any], object]
) -> None:
    with pytest.raises(NotFittedError):
        call(make(parties=PARTIES))


# -- who may ask ------------------------------------------------------------------------------------


def test_unknown_requester_is_told_how_to_enrol(model: Any) -> None:
    before = books(model)
    with pytest.raises(UsageError, match=r"call `enrol_requester\('insurer'\)` first"):
        model.predict_encrypted(ROWS, "insurer")
    assert books(model) == before
    model.enrol_requester("insurer")
    np.testing.assert_array_equal(model.predict_encrypted(ROWS, "insurer"), model.predict(ROWS))


def test_requester_enrols_once(model: Any) -> None:
    for name in ("insurer", "bank"):
        model.enrol_requester(name)
        admitted = model.federation_.kgc.state.admitted[name]
        with pytest.raises(UsageError, match=f"'{name}'"):
            model.enrol_requester(name)
        assert model.federation_.kgc.state.admitted[name] == admitted
        np.testing.assert_array_equal(model.predict_encrypted(ROWS, name), model.predict(ROWS))


@pytest.mark.parametrize("party", PARTIES)
def test_participant_asks_under_its_own_name_and_key(model: Any, party: str) -> None:
    np.testing.assert_array_equal(model.predict_encrypted(ROWS, party), model.predict(ROWS))
    identity = model.federation_.participants[party].identity
    assert identity.admission.member in model.federation_.coordinator.certificate.members
    assert model.federation_.coordinator.book.rows == {party: len(ROWS)}


@pytest.mark.parametrize("name", ["KGC", "CS", "CC", "a/b", "", "x" * 300, "a -> b", "a\nb", 5], ids=repr)
def test_name_that_no_party_may_have_is_refused(model: Any, name: Any) -> None:
    roles = set(model.federation_.network.roles)
    with pytest.raises(UsageError):
        model.enrol_requester(name)
    assert set(model.federation_.network.roles) == roles


def test_leakage_can_be_told_while_a_party_is_absent(model: Any) -> None:
    before = model.leakage_
    model.federation_.network.roles.pop("telco")
    assert model.leakage_["telco"] == before["telco"]


def test_participant_that_is_absent_cannot_ask_and_is_named(model: Any) -> None:
    model.federation_.network.roles.pop("bank")
    with refused(by="bank"):
        model.predict_encrypted(ROWS, "bank")


@pytest.mark.parametrize("party", ["insurer", "KGC", "Bank", ["bank"], None])
def test_policy_is_for_participants_and_servers(model: Any, party: Any) -> None:
    with pytest.raises(UsageError, match=r"these have: .*telco.*CS, CC"):
        model.set_policy(party, RequestPolicy())


@pytest.mark.parametrize("server", ["CS", "CC"])
def test_server_can_refuse_a_requester_too(model: Any, server: str) -> None:
    model.set_policy(server, RequestPolicy(refuses=["requester"]))
    with refused(by=server):
        model.predict_encrypted(X[:1])


def test_policy_that_is_none_is_refused(model: Any) -> None:
    with pytest.raises(UsageError):
        model.set_policy("bank", ["insurer"])


def test_refused_requester_has_no_answer_while_others_have(model: Any) -> None:
    model.enrol_requester("insurer")
    model.set_policy("shop", RequestPolicy(refuses=["insurer"]))
    for partial in (False, True):
        with refused(by="shop"):
            model.predict_encrypted(MORE, "insurer", partial=partial)
    for other in (None, "bank", "shop"):
        np.testing.assert_array_equal(model.predict_encrypted(ROWS, other), model.predict(ROWS))
    model.set_policy("shop", RequestPolicy())
    np.testing.assert_array_equal(model.predict_encrypted(ROWS, "insurer"), model.predict(ROWS))


def test_forest_that_is_fitted_again_knows_no_requester_and_no_policy(model: Any) -> None:
    model.enrol_requester("insurer")
    model.set_policy("bank", RequestPolicy(max_rows=0))
    model.fit(X, Y)
    assert len(model.predict_encrypted(ROWS)) == len(ROWS)
    with pytest.raises(UsageError, match="enrol_requester"):
        model.predict_encrypted(ROWS, "insurer")


# -- who is absent ----------------------------------------------------------------------------------


def test_partial_answer_covers_everything_if_nobody_is_absent(shared: Any) -> None:
    answer = shared.predict_encrypted(ROWS, partial=True)
    assert isinstance(answer, PartialAnswer)
    np.testing.assert_array_equal(answer.answers, shared.predict(ROWS))
    assert answer.coverage.tolist() == [1.0] * len(ROWS)
    assert answer.absent == ()
    shares, coverage, absent = shared.predict_proba_encrypted(ROWS, partial=True)
    np.testing.assert_array_equal(shares, shared.predict_proba(ROWS))
    assert (coverage.tolist(), absent) == ([1.0] * len(ROWS), ())


def test_absent_party_is_named_and_its_trees_are_left_out(model: Any) -> None:
    role = model.federation_.network.roles.pop("telco")
    with pytest.raises(AbsentError, match="a partial answer") as caught:
        model.predict_encrypted(MORE)
    assert caught.value.party == "telco"
    answers, coverage, absent = model.predict_encrypted(MORE, partial=True)
    shares = model.predict_proba_encrypted(MORE, partial=True).answers
    model.federation_.network.roles["telco"] = role
    assert absent == ("telco",)
    assert 0 < coverage.min() < coverage.max() <= 1
    np.testing.assert_array_equal(coverage * 6, np.rint(coverage * 6))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(answers, model.classes_[shares.argmax(axis=1)])
    np.testing.assert_array_equal(answers[coverage == 1], model.predict(MORE)[coverage == 1])
    np.testing.assert_array_equal(model.predict_encrypted(MORE), model.predict(MORE))


def test_numbers_of_fewer_trees_are_means_of_these() -> None:
    model = regressor(6, parties=PARTIES).fit(X, NUMBERS)
    model.federation_.network.roles.pop("shop")
    answers, coverage, absent = model.predict_encrypted(MORE, partial=True)
    assert absent == ("shop",)
    assert coverage.min() < 1
    assert NUMBERS.min() <= answers.min() < answers.max() <= NUMBERS.max()
    full = coverage == 1
    model.federation_.network.roles["shop"] = model.federation_.participants["shop"]
    np.testing.assert_array_equal(answers[full], model.predict(MORE)[full])


@pytest.mark.parametrize("partial", [False, True])
def test_row_that_no_tree_can_answer_is_an_error(partial: bool) -> None:
    model = classifier(3, parties={"all": range(4)}).fit(X, Y)
    model.federation_.network.roles.pop("all")
    with refused(by="all") as caught:
        model.predict_encrypted(ROWS, partial=partial)
    assert not partial or "no tree is left for 10 of 10 rows: 0, 1" in caught.reason


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RevocableForestClassifier, RevocableForestRegressor])
def test_loaded_forest_with_its_keys_answers_as_before(tmp_path: Path, kind: Any) -> None:
    make, target = (classifier, Y) if kind is RevocableForestClassifier else (regressor, NUMBERS)
    model = make(parties=PARTIES).fit(X, target)
    before = model.predict_encrypted(ROWS)
    model.save(tmp_path / "forest", private_keys=True)
    loaded = kind.load(tmp_path / "forest")
    for requester in (None, "bank"):
        assert loaded.predict_encrypted(ROWS, requester).tobytes() == before.tobytes()
    loaded.enrol_requester("insurer")
    assert loaded.predict_encrypted(ROWS, "insurer", partial=True).coverage.tolist() == [1.0] * len(ROWS)


def test_loaded_forest_without_keys_says_what_is_missing(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "forest")
    loaded: Any = RevocableForestClassifier.load(tmp_path / "forest")
    roles = set(loaded.federation_.network.roles)
    for requester in (None, "bank"):
        with pytest.raises(
            UsageError, match=r"saved without private keys: .* save it with private_keys=True"
        ):
            loaded.predict_encrypted(ROWS, requester)
    with pytest.raises(UsageError, match="saved without private keys"):
        loaded.enrol_requester("insurer")
    assert set(loaded.federation_.network.roles) == roles
    np.testing.assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))


# -- what it costs, who learns what, and what is drawn ----------------------------------------------


def test_costs_count_the_request_and_its_comparisons(model: Any) -> None:
    before = model.costs_
    model.enrol_requester("insurer")
    model.predict_encrypted(ROWS, "insurer")
    once = model.costs_
    for protocol in ("FRF-Predict", "HoLT"):
        for what in ("seconds", "messages", "bytes", "exponentiations"):
            assert once.total(what, protocol) > before.total(what, protocol) == 0
    values = ROWS.size
    assert sum(once.work["insurer"]["FRF-Predict"]["exponentiations"].values()) == 2 * values
    assert once.traffic["insurer -> CS"]["FRF-Predict"]["bytes"] > 96 * values
    assert set(once.work["CC"]) >= {"HoLT"}
    model.predict_encrypted(ROWS, "insurer")
    assert model.costs_.total("messages", "HoLT") == 2 * once.total("messages", "HoLT")


def test_requester_learns_the_schema_and_its_own_votes(model: Any) -> None:
    model.enrol_requester("insurer")
    before = model.leakage_
    assert set(before["insurer"]) == {"public parameters", "its own admission"}
    model.predict_encrypted(ROWS, "insurer")
    learnt = model.leakage_
    assert learnt["insurer"] == before["insurer"] | {
        "names, decimals and rings of columns": 4,
        "the forest's rules": 1,
        "votes for rows of its own, in numbers": 2 * len(ROWS),
    }
    assert learnt["CS"]["encrypted rows of requests"] == len(ROWS)
    assert learnt["KGC"] == before["KGC"]


@pytest.mark.parametrize("make", [classifier, regressor])
def test_verbose_request_draws_its_progress_on_standard_error(
    make: Callable[..., Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    model = make(parties=PARTIES).fit(X, Y)
    silent = model.predict_encrypted(ROWS)
    assert capfd.readouterr() == ("", "")
    drawn = model.set_params(verbose=1).predict_encrypted(ROWS)
    out, err = capfd.readouterr()
    assert out == ""
    assert "…" not in err
    assert "encrypted rows" in err
    assert "10.0 of 10" in err
    np.testing.assert_array_equal(drawn, silent)


def test_refused_request_draws_nothing(model: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model.set_policy("bank", RequestPolicy(max_rows=0))
    with pytest.raises(RefusedError):
        model.predict_encrypted(ROWS)
    assert capfd.readouterr() == ("", "")


def test_policies_are_saved_with_the_forest(model: Any, tmp_path: Path) -> None:
    model.set_policy("bank", RequestPolicy(refuses=["insurer"], max_rows=7))
    model.set_policy("CC", RequestPolicy(accepts=["insurer", "requester"]))
    model.save(tmp_path / "forest", private_keys=True)
    loaded: Any = RevocableForestClassifier.load(tmp_path / "forest")
    for name, role in loaded.federation_.with_policies.items():
        assert role.policy == model.federation_.with_policies[name].policy
    loaded.enrol_requester("insurer")
    with refused(by="bank"):
        loaded.predict_encrypted(ROWS[:1], "insurer")
