"""What may be given to the estimators, what comes of it, and what is said to what may not."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import InsecureKeyError, UsageError
from revfrf.forest.seeds import master_seed
from tests.estimators.toys import ROWS, TWO_PARTIES, classifier, frame, regressor, signs, table
from tests.federations import reference_seed
from tests.reference import forest as reference

X = table()
Y = signs(X)
NUMBERS = X[:, 0] + X[:, 1] / 10
GAPS = np.arange(ROWS) % 3 == 0


# -- kinds of tables ---------------------------------------------------------------------------------


def test_the_same_numbers_in_any_type_give_the_same_forest() -> None:
    whole = np.rint(X * 9)
    kinds: list[Any] = [whole.astype(kind) for kind in ("f4", "f8", "i1", "i8")]
    kinds += [whole.tolist(), [list(map(int, row)) for row in whole], np.asfortranarray(whole)]
    models = [classifier().fit(kind, Y) for kind in kinds]
    assert len({model.digest_ for model in models}) == 1
    assert len({models[0].predict_proba(kind).tobytes() for kind in kinds}) == 1


def test_a_frame_keeps_its_names() -> None:
    model = classifier(parties=TWO_PARTIES).fit(frame(), Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    assert model.parties_ == {"bank": ["a"], "telco": ["b"]}


def test_an_array_has_no_names_but_positions() -> None:
    model = classifier(parties={"bank": ["x1"], "telco": [0]}).fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.parties_ == {"bank": ["x0"], "telco": ["x0"]}


def test_names_of_unnamed_columns_do_not_depend_on_who_else_is_there() -> None:
    both = classifier(parties={"leaver": [0], "stayer": [1]}).fit(X, Y)
    alone = classifier(parties={"stayer": [0]}).fit(X[:, 1:], Y)
    assert both.parties_["stayer"] == alone.parties_["stayer"]


def test_a_frame_without_names_is_an_array() -> None:
    assert classifier().fit(pd.DataFrame(X), Y).digest_ == classifier().fit(X, Y).digest_


def test_the_index_of_a_frame_means_nothing() -> None:
    shuffled = frame().set_axis(np.arange(ROWS)[::-1] * 7, axis=0)
    model = classifier().fit(frame(), pd.Series(Y, index=shuffled.index))
    assert model.digest_ == classifier().fit(shuffled, Y).digest_
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(frame()))


@pytest.mark.parametrize("empty", [X[:0], frame().iloc[:0]], ids=["array", "frame"])
def test_a_table_without_rows_is_refused(empty: Any) -> None:
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        classifier().fit(empty, Y[:0])
    model = classifier().fit(frame() if hasattr(empty, "columns") else X, Y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.predict(empty)


@pytest.mark.parametrize("empty", [X[:, :0], frame()[[]]], ids=["array", "frame"])
def test_a_table_without_columns_is_refused(empty: Any) -> None:
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        classifier().fit(empty, Y)


def test_one_row_is_enough() -> None:
    every = {"bootstrap": False}
    assert classifier(**every).fit(X[:1], ["yes"]).predict(X[:3]).tolist() == ["yes"] * 3
    assert regressor(**every).fit(X[:1], [7.5]).predict(X[:3]).tolist() == [7.5] * 3


def test_forest_in_which_no_row_counts_is_refused() -> None:
    """Else nothing could vote."""
    model = classifier(1)
    counts = [reference.bootstrap_count(reference_seed(master_seed(0)), 0, number) for number in range(20)]
    never, drawn = counts.index(0), counts.index(1)
    with pytest.raises(UsageError, match="no row counts in any tree; use more trees or rows, or bootstrap=F"):
        model.fit(X[:1], ["yes"], row_numbers=[never])
    assert not hasattr(model, "federation_")
    assert model.fit(X[:1], ["yes"], row_numbers=[drawn]).predict(X[:2]).tolist() == ["yes", "yes"]


def test_trees_without_rows_do_not_vote() -> None:
    model = regressor(20).fit(X[:2], [3.0, 5.0])
    votes = model._votes(X)
    assert 0 < votes.n_voted[0] < 20
    assert ((model.predict(X) >= 3) & (model.predict(X) <= 5)).all()
    assert model.predict_encrypted(X[:4]).tolist() == model.predict(X[:4]).tolist()


def test_x_and_y_of_different_lengths_are_refused() -> None:
    for given in (X, frame()):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            classifier().fit(given, Y[:-1])


def test_what_is_given_is_not_changed() -> None:
    given, target = frame(), NUMBERS.copy()
    parties = {"bank": ["a"], "telco": ["b"]}
    regressor(parties=parties).fit(given, target).predict(given)
    pd.testing.assert_frame_equal(given, frame())
    np.testing.assert_array_equal(target, NUMBERS)
    assert parties == {"bank": ["a"], "telco": ["b"]}


# -- missing values ----------------------------------------------------------------------------------


def test_whether_a_value_is_missing_can_decide() -> None:
    gappy = np.where(GAPS[:, None], np.nan, X)
    model = classifier(max_features=1.0).fit(gappy, GAPS)
    assert model.score(gappy, GAPS) == 1.0


def test_a_row_without_any_value_has_a_prediction() -> None:
    model = regressor().fit(X, NUMBERS)
    (value,) = model.predict([[np.nan, np.nan]])
    assert NUMBERS.min() <= value <= NUMBERS.max()


def test_a_column_of_nothing_but_missing_values_is_never_chosen() -> None:
    model = classifier(parties=TWO_PARTIES).fit(frame(b=np.nan), Y)
    assert model.score(frame(b=np.nan), Y) > 0.9
    assert model.leakage_["telco"].get("its own splits that won", 0) == 0


# -- categories, text, truth values ------------------------------------------------------------------

LEVELS = ["low", "middle", "high"]
LEVEL = pd.Series(pd.Categorical.from_codes(np.arange(ROWS) % 3, LEVELS))


def test_categories_are_learnt() -> None:
    model = classifier(parties=TWO_PARTIES, max_features=1.0).fit(frame(a=LEVEL), LEVEL == "high")
    assert model.score(frame(a=LEVEL), LEVEL == "high") == 1.0


def test_the_order_of_categories_is_the_order_of_cuts() -> None:
    first = classifier(1, parties={"bank": ["a", "b"]}, max_features=1.0, bootstrap=False, max_depth=1)
    ordered = frame(a=LEVEL, b=0.0)
    assert first.fit(ordered, LEVEL == "high").score(ordered, LEVEL == "high") == 1.0
    amid = frame(a=LEVEL.cat.reorder_categories(["low", "high", "middle"]), b=0.0)
    assert first.fit(amid, LEVEL == "high").score(amid, LEVEL == "high") < 1.0


# -- what does not fit -------------------------------------------------------------------------------


def test_the_advice_helps() -> None:
    large = frame(a=frame()["a"] * 1e14)
    model = classifier(parties=TWO_PARTIES, decimals={"a": 0}).fit(large, Y)
    assert model.score(large, Y) > 0.9


def test_values_closer_than_the_decimals_are_equal() -> None:
    close = frame(a=frame()["a"] * 1e-4, b=0.0)
    assert classifier(decimals=3).fit(close, Y).n_nodes_ == 5
    assert classifier(decimals={"a": 9}).fit(close, Y).n_nodes_ > 5
    tiny = classifier().fit(close * 1e-8, Y)
    assert tiny.digest_ == classifier().fit(close, Y).digest_


def test_columns_that_keep_too_little_are_named_in_a_warning() -> None:
    with pytest.warns(UserWarning, match="party 'bank', column 'a': .* distinct values become 1 .*rescale"):
        classifier(parties=TWO_PARTIES).fit(frame(a=frame()["a"] * 1e-30), Y)


@pytest.mark.parametrize("decimals", [None, 2])
def test_numbers_far_outside_the_training_range_are_predicted_like_its_ends(decimals: int | None) -> None:
    model = classifier(decimals=decimals).fit(X, Y)
    ends = np.where(X > 0, X.max() + 1, X.min() - 1)
    np.testing.assert_array_equal(model.predict_proba(X * 1e300), model.predict_proba(ends))
    with pytest.raises(UsageError, match="not finite"):
        model.predict(X * np.inf)


@pytest.mark.parametrize("name", ["", "x" * 500])
def test_a_column_name_that_no_message_carries_is_refused_as_a_mistake_of_the_caller(name: str) -> None:
    with pytest.raises(UsageError, match="column"):
        classifier(parties={"bank": [0, 1]}).fit(frame().set_axis([name, "b"], axis=1), Y)


# -- targets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"])[Y],
        pd.Series(np.array(["no", "yes"])[Y], dtype="category"),
        Y > 0,
        Y * 7 - 3,
        Y.astype(float),
        (Y * 7).tolist(),
    ],
    ids=["text", "category", "bool", "negative", "float", "list"],
)
def test_labels_of_any_kind_come_back(labels: Any) -> None:
    model = classifier().fit(X, labels)
    assert model.classes_.tolist() == sorted(set(labels))
    assert model.score(X, labels) > 0.9
    assert model.predict_proba(X).shape == (ROWS, 2)


def test_labels_do_not_change_the_splits() -> None:
    numbers, words = classifier().fit(X, Y), classifier().fit(X, np.array(["no", "yes"])[Y])
    np.testing.assert_array_equal(numbers.predict_proba(X), words.predict_proba(X))
    assert numbers.digest_ != words.digest_


def test_one_class_makes_trees_of_one_leaf() -> None:
    model = classifier(7).fit(X, ["only"] * ROWS)
    assert model.n_nodes_ == 7
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((ROWS, 1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_no_numbers_are_refused_without_a_warning(bad: float) -> None:
    y = np.where(GAPS, bad, Y)
    for model in (classifier(), regressor()):
        with pytest.raises(ValueError, match="Input y contains"):
            model.fit(X, y)


def test_two_columns_of_targets_are_refused() -> None:
    for model in (classifier(), regressor()):
        with pytest.raises(ValueError, match="1d array"):
            model.fit(X, np.c_[Y, Y])


@pytest.mark.parametrize("scale", [1e300, 1e30, 1e-30, 1e-300, 1e-310])
def test_the_scale_of_the_targets_does_not_matter(scale: float) -> None:
    unit, scaled = regressor().fit(X, NUMBERS).predict(X), regressor().fit(X, NUMBERS * scale).predict(X)
    np.testing.assert_allclose(scaled / scale, unit, rtol=1e-9)


def test_targets_far_from_zero_keep_their_differences() -> None:
    near, far = regressor().fit(X, NUMBERS).predict(X), regressor().fit(X, NUMBERS + 2.0**30).predict(X)
    np.testing.assert_allclose(far - 2.0**30, near, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.25, 1e300, 5e-324])
def test_a_constant_target_is_predicted_exactly(value: float) -> None:
    model = regressor().fit(X, np.full(ROWS, value))
    assert model.n_nodes_ == model.n_estimators
    assert set(model.predict(X).tolist()) == {value}


def test_predictions_stay_within_the_targets() -> None:
    predicted = regressor(10).fit(X, NUMBERS).predict(X * 100)
    assert NUMBERS.min() <= predicted.min() < predicted.max() <= NUMBERS.max()


# -- weights -----------------------------------------------------------------------------------------


def test_no_weights_are_equal_weights() -> None:
    for model, y in ((classifier(), Y), (regressor(), NUMBERS)):
        plain = model.fit(X, y).digest_
        assert model.fit(X, y, sample_weight=np.ones(ROWS)).digest_ == plain
        assert model.fit(X, y, sample_weight=None).digest_ == plain


@pytest.mark.parametrize(
    "parameters",
    [{"bootstrap": False, "n_sampled": 2**10}, {}, {"n_sampled": 4}],
    ids=["all", "default", "few"],
)
def test_rows_of_weight_zero_are_as_if_they_were_absent(parameters: dict[str, Any]) -> None:
    weights, present = np.where(GAPS, 0.0, 1.0), ~GAPS
    for make, y in ((classifier, Y), (regressor, NUMBERS)):
        weightless = make(**parameters).fit(X, y, sample_weight=weights)
        absent = make(**parameters).fit(X[present], y[present], row_numbers=np.flatnonzero(present))
        assert weightless.digest_ == absent.digest_
        np.testing.assert_array_equal(weightless.predict(X), absent.predict(X))


def test_the_target_of_a_row_of_weight_zero_does_not_matter() -> None:
    outlier = np.where(np.arange(ROWS) == 0, 1e300, NUMBERS)
    weights = np.where(np.arange(ROWS) == 0, 0.0, 1.0)
    with_outlier = regressor().fit(X, outlier, sample_weight=weights)
    without = regressor().fit(X[1:], NUMBERS[1:], row_numbers=np.arange(1, ROWS))
    assert with_outlier.digest_ == without.digest_


# -- what rows that come later must fit --------------------------------------------------------------


def test_forest_does_not_depend_on_the_order_of_rows_that_keep_their_numbers() -> None:
    order = np.random.default_rng(1).permutation(ROWS)
    for make, y in ((classifier, Y), (regressor, NUMBERS)):
        plain = make().fit(X, y)
        shuffled = make().fit(X[order], y[order], row_numbers=order)
        assert shuffled.digest_ == plain.digest_
        np.testing.assert_array_equal(shuffled.predict(X), plain.predict(X))
        assert make().fit(X[order], y[order]).digest_ != plain.digest_


@pytest.mark.parametrize(
    "numbers",
    [np.arange(ROWS - 1), np.zeros(ROWS, np.int64), np.arange(ROWS) - 1, np.arange(ROWS) / 1.0, "abc"],
    ids=["too few", "twice", "below zero", "no whole numbers", "text"],
)
def test_row_numbers_that_are_none_are_refused(numbers: Any) -> None:
    with pytest.raises(UsageError, match="row_numbers"):
        classifier().fit(X, Y, row_numbers=numbers)


def test_largest_row_number_passes() -> None:
    numbers = np.arange(ROWS, dtype=np.uint64) + np.uint64(2**63 - ROWS)
    assert classifier().fit(X, Y, row_numbers=numbers).targets_.numbers[-1] == 2**63 - 1
    with pytest.raises(UsageError, match="2\\^63 - 1"):
        classifier().fit(X, Y, row_numbers=numbers + np.uint64(1))


def test_targets_may_have_a_wider_range_than_those_of_the_rows() -> None:
    model = regressor().fit(X, NUMBERS, target_range=(-1e6, 1e6))
    assert (model.targets_.scale.low, model.targets_.scale.high) == (-1e6, 1e6)
    np.testing.assert_allclose(model.predict(X), regressor().fit(X, NUMBERS).predict(X), atol=1e-3)
    with pytest.raises(UsageError, match="outside target_range"):
        regressor().fit(X, NUMBERS, target_range=(NUMBERS.min(), NUMBERS.max() - 1e-9))
    with pytest.raises(UsageError, match="target_range is for regressors"):
        classifier().fit(X, Y, target_range=(0, 1))


def test_classes_may_be_more_than_those_of_the_rows_and_in_any_order() -> None:
    labels = np.where(Y, "yes", "no")
    model = classifier().fit(X, labels, classes=["yes", "perhaps", "no"])
    assert model.classes_.tolist() == ["yes", "perhaps", "no"]
    assert not model.predict_proba(X)[:, 1].any()
    np.testing.assert_array_equal(model.predict(X), classifier().fit(X, labels).predict(X))
    for wrong in (["yes"], ["yes", "no", "yes"], []):
        with pytest.raises(UsageError, match="classes: list each label once"):
            classifier().fit(X, labels, classes=wrong)
    with pytest.raises(UsageError, match="classes are for classifiers"):
        regressor().fit(X, NUMBERS, classes=["a"])


def test_weights_may_sum_to_more_than_those_of_the_rows() -> None:
    model = classifier().fit(X, Y, max_total_weight=1e6)
    assert model.targets_.scale.max_total_weight == 1e6
    assert model.digest_ == classifier().fit(X, Y).digest_  # whole numbers stay what they are
    with pytest.raises(UsageError, match="max_total_weight"):
        classifier().fit(X, Y, max_total_weight=ROWS - 1)


@pytest.mark.parametrize(
    "weights", [np.zeros(ROWS), -np.ones(ROWS), np.full(ROWS, np.nan), np.ones(ROWS - 1)]
)
def test_impossible_weights_are_refused(weights: Any) -> None:
    for model in (classifier(), regressor()):
        with pytest.raises(ValueError, match=r"(?i)sample.weight"):
            model.fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("factor", [1e-300, 0.37, 1e300])
def test_only_the_ratio_of_weights_matters(factor: float) -> None:
    weights = np.array([1.0, 2.0, 4.0])[np.arange(ROWS) % 3]
    plain = classifier().fit(X, Y, sample_weight=weights).predict_proba(X)
    scaled = classifier().fit(X, Y, sample_weight=weights * factor).predict_proba(X)
    np.testing.assert_array_equal(plain, scaled)


def test_a_heavy_class_wins_more_rows() -> None:
    noise = np.random.default_rng(1).integers(0, 2, ROWS)
    shares = [
        (classifier(10, class_weight=weight).fit(X, noise).predict(X) == 1).mean()
        for weight in ({0: 20.0, 1: 1.0}, None, {0: 1.0, 1: 20.0})
    ]
    assert shares[0] < shares[1] < shares[2]


def test_class_weights_are_row_weights() -> None:
    words = np.array(["no", "yes"])[Y]
    by_class = classifier(class_weight={"no": 3, "yes": 1}).fit(X, words)
    by_row = classifier().fit(X, words, sample_weight=np.where(Y, 1, 3))
    assert by_class.digest_ == by_row.digest_


def test_balanced_classes_weigh_the_same() -> None:
    rare = (np.arange(ROWS) % 6 == 0).astype(int)
    balanced = classifier(voting="soft", class_weight="balanced", max_depth=1, min_samples_leaf=1)
    explicit = classifier(voting="soft", class_weight={0: 0.6, 1: 3.0}, max_depth=1, min_samples_leaf=1)
    np.testing.assert_allclose(
        balanced.fit(X, rare).predict_proba(X), explicit.fit(X, rare).predict_proba(X), rtol=1e-6
    )
    plain = classifier(voting="soft", max_depth=1, min_samples_leaf=1).fit(X, rare)
    assert balanced.predict_proba(X)[:, 1].mean() > 2 * plain.predict_proba(X)[:, 1].mean()


@pytest.mark.parametrize("weights", [(-1.0, 1.0), (np.nan, 1.0), (np.inf, 1.0), (0.0, 0.0)])
def test_impossible_class_weights_are_refused(weights: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"(?i)weight"):
        classifier(class_weight=dict(enumerate(weights))).fit(X, Y)


# -- parties -----------------------------------------------------------------------------------------


def test_a_refused_table_leaves_the_estimator_unfitted() -> None:
    model = classifier(parties={"bank": ["a"]})
    with pytest.raises(UsageError):
        model.fit(frame(), Y)
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(frame())


def test_a_refused_table_does_not_relabel_the_forest_before_it() -> None:
    model = classifier(parties=TWO_PARTIES).fit(frame(), np.array(["no", "yes"])[Y])
    with pytest.raises(UsageError):
        model.set_params(parties={"bank": ["a"]}).fit(frame(), np.array(["bad", "good"])[Y])
    assert set(model.predict(frame())) == {"no", "yes"}


# -- parameters --------------------------------------------------------------------------------------

BAD_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_estimators": (0, 2.5),
    "max_depth": (0, 63),
    "max_features": (0, 3, 0.0, 1.5, "auto"),
    "min_samples_split": (1,),
    "min_samples_leaf": (0, 0.5),
    "bootstrap": ("yes",),
    "candidates": ("random",),
    "n_candidates": (0, 256),
    "n_sampled": (1, 2**20 + 1),
    "key_bits": (0, 100, 48, 2047, 300_000, "2048"),
    "allow_insecure_keys": (1,),
    "random_state": ("seed", -1),
    "n_jobs": (0, 1.5),
    "verbose": (-1,),
    "decimals": (19, -1, 2.5),
    "parties": ([["a"], ["b"]], "bank"),
    "voting": ("loud",),
    "class_weight": ("heavy", [1]),
}


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n in BAD_PARAMETERS for v in BAD_PARAMETERS[n]], ids=str
)
def test_an_impossible_parameter_is_named(name: str, value: Any) -> None:
    for make in (classifier, regressor):
        if name in make().get_params():
            with pytest.raises(ValueError, match=name):
                make(**{"n_estimators": 2, name: value}).fit(X, Y)


@pytest.mark.parametrize("name", ["n_estimators", "max_depth", "n_candidates", "decimals", "key_bits"])
def test_numbers_of_numpy_are_numbers(name: str) -> None:
    plain = classifier(decimals=6)
    model = classifier(decimals=6).set_params(**{name: np.int64(plain.get_params()[name])})
    assert model.fit(X, Y).digest_ == plain.fit(X, Y).digest_
    assert "INSECURE" in repr(model)


@pytest.mark.parametrize("candidates", ["quantile", "uniform"])
@pytest.mark.parametrize("max_features", ["sqrt", "log2", 1, 2, 0.5, 1.0, 1e-9])
def test_every_kind_of_candidates_grows_a_forest_that_learns(max_features: Any, candidates: str) -> None:
    model = classifier(10, max_features=max_features, candidates=candidates).fit(X, Y)
    assert model.score(X, Y) > 0.8


def test_equal_shares_of_features_are_equal_forests() -> None:
    wide = table(columns=16)
    by_share = {
        value: classifier(max_features=value).fit(wide, Y).digest_
        for value in ("sqrt", "log2", 4, 0.25, 0.5, 1.0, None)
    }
    assert by_share["sqrt"] == by_share["log2"] == by_share[4] == by_share[0.25] != by_share[0.5]
    assert by_share[1.0] == by_share[None]


def test_the_share_of_features_asked_is_pi() -> None:
    """At each of 20 roots, 40 features are asked with probability ¼: 200 questions on average."""
    wide = table(rows=200, columns=40)
    model = classifier(20, max_features=0.25, parties={"all": list(range(40))}, max_depth=1).fit(
        wide, signs(wide)
    )
    asked = model.leakage_["CS"]["numbers of candidate cuts"]
    assert 150 < asked < 250


def test_without_a_limit_trees_grow_until_they_are_pure() -> None:
    deep = regressor(
        2, max_depth=None, min_samples_leaf=1, bootstrap=False, n_candidates=255, max_features=1.0
    )
    np.testing.assert_allclose(deep.fit(X, NUMBERS).predict(X), NUMBERS, rtol=1e-9)
    shallow = regressor(2, max_depth=2, min_samples_leaf=1, bootstrap=False).fit(X, NUMBERS)
    assert shallow.n_nodes_ <= 14
    assert deep.n_nodes_ == 2 * (2 * ROWS - 1)


def test_leaves_have_at_least_the_rows_asked_for() -> None:
    model = regressor(3, min_samples_leaf=20, bootstrap=False, max_depth=None).fit(X, NUMBERS)
    weights = [leaf[0] for leaf in model.federation_.coordinator.store.leaves.values()]
    assert min(weights) >= 20
    assert sum(weights) == 3 * ROWS


def test_nodes_with_too_few_rows_are_not_split() -> None:
    assert classifier(4, min_samples_split=ROWS + 1).fit(X, Y).n_nodes_ == 4
    assert classifier(4, min_samples_leaf=ROWS).fit(X, Y).n_nodes_ == 4


# -- keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [256, 1024, 2032])
@pytest.mark.parametrize("kind", [RevocableForestClassifier, RevocableForestRegressor])
def test_short_keys_need_the_switch_and_the_error_names_it(kind: Any, bits: int) -> None:
    with pytest.raises(InsecureKeyError, match=r"2048 or more.*allow_insecure_keys=True") as caught:
        kind(3, protocol="paper", key_bits=bits).fit(X, Y)
    assert isinstance(caught.value, ValueError)


def test_short_keys_are_refused_after_a_fit_that_allowed_them() -> None:
    model = classifier().fit(X, Y)
    with pytest.raises(InsecureKeyError):
        model.set_params(allow_insecure_keys=False).fit(X, Y)


def test_the_defaults_are_secure() -> None:
    for kind in (RevocableForestClassifier, RevocableForestRegressor):
        parameters = kind().get_params()
        assert parameters["key_bits"] >= 2048
        assert parameters["allow_insecure_keys"] is False


def test_a_column_of_unknown_categories_is_warned_about() -> None:
    rows = frame(b=pd.Categorical(np.where(Y, "yes", "no")))
    model = classifier().fit(rows, Y)
    with pytest.warns(UserWarning, match="column 'b': no value is among its categories"):
        model.predict(rows.assign(b=pd.Categorical(["Yes "] * ROWS)))


def test_all_parameters_are_documented() -> None:
    text = RevocableForestClassifier.__doc__ or ""
    for name in classifier().get_params() | regressor().get_params():
        assert re.search(rf"^    [\w, ]*\b{name}\b[\w, ]* :", text, re.MULTILINE), name
