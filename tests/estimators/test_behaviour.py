"""What a forest does: how good it is, what repeats, what it costs and who learnt what."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

from revfrf import RevocableForestClassifier
from revfrf.crypto.dtpkc.primes import SafePrimes
from revfrf.crypto.dtpkc.strong import _deal
from revfrf.embedded import federation, moduli
from revfrf.protocols.sides import GrowthReport
from tests.conftest import PRIMES
from tests.estimators.toys import ROWS, TOY, TWO_PARTIES, classifier, frame, regressor, signs, table
from tests.quick import quick

X = table(120, 4)
Y = signs(X)
NUMBERS = X[:, 0] + X[:, 1] / 2
PARTIES = {"bank": [0, 1], "telco": [2], "shop": [3]}
SERVERS = ["KGC", "CS", "CC"]


@pytest.fixture(scope="module")
def forest() -> Any:
    """A classifier with three parties that has predicted nothing yet; tests do not predict with it."""
    return classifier(8, parties=PARTIES, max_depth=6).fit(X, Y)


# -- how good it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "voting"),
    quick(
        product([load_breast_cancer, load_iris, load_wine], ["hard", "soft"]),
        [(load_iris, "hard"), (load_wine, "soft")],
    ),
)
def test_it_is_as_accurate_as_scikit_learns_forest(load: Callable[..., Any], voting: str) -> None:
    data, labels = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(data, labels, test_size=0.4, random_state=1, stratify=labels)
    ours = classifier(60, max_depth=10, voting=voting).fit(X, y).score(X_test, y_test)
    theirs = RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(X, y).score(X_test, y_test)
    assert ours > theirs - 0.04
    assert ours > 0.92


def test_its_numbers_are_as_good_as_scikit_learns() -> None:
    data, target = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(data, target, test_size=0.4, random_state=2)
    ours = regressor(60, max_depth=10).fit(X, y).score(X_test, y_test)
    theirs = RandomForestRegressor(60, min_samples_leaf=5, max_features="sqrt", random_state=0)
    assert ours > theirs.fit(X, y).score(X_test, y_test) - 0.06
    assert ours > 0.3


def test_who_owns_the_columns_does_not_decide_how_good_it_is() -> None:
    data, labels = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(data, labels, test_size=0.4, random_state=1, stratify=labels)
    halves = {"imaging": list(range(15)), "pathology": list(range(15, 30))}
    for parties in (None, halves, {"all": list(range(30))}):
        assert classifier(40, max_depth=10, parties=parties).fit(X, y).score(X_test, y_test) > 0.92


# -- votes and probabilities -------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_the_class_is_the_likeliest_one(voting: str) -> None:
    labels = np.array(["a", "b", "c"])[np.digitize(NUMBERS, [-0.5, 0.5])]
    model = classifier(7, voting=voting).fit(X, labels)
    shares = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[shares.argmax(axis=1)])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert shares.min() >= 0


def test_hard_votes_are_whole_trees() -> None:
    votes = classifier(7).fit(X, Y).predict_proba(X) * 7
    np.testing.assert_allclose(votes, np.rint(votes), atol=1e-12)
    assert len(np.unique(np.rint(votes))) > 2


def test_soft_votes_are_finer_than_trees() -> None:
    shares = classifier(3, voting="soft").fit(X, Y).predict_proba(X) * 3
    assert np.abs(shares - np.rint(shares)).max() > 0.01


def test_a_tie_goes_to_the_first_class() -> None:
    model = classifier(2, max_depth=1).fit(X, Y)
    shares = model.predict_proba(X)
    tied = shares[:, 0] == shares[:, 1]
    assert tied.any()
    assert set(model.predict(X)[tied]) == {model.classes_[0]}


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_prediction_does_not_depend_on_the_other_rows(make: Callable[..., Any]) -> None:
    model = make(8).fit(X, Y)
    together = model.predict(X)
    np.testing.assert_array_equal(
        np.concatenate([model.predict(X[i : i + 1]) for i in range(20)]), together[:20]
    )
    np.testing.assert_array_equal(model.predict(X[::-1]), together[::-1])
    np.testing.assert_array_equal(model.predict(np.repeat(X, 2, axis=0)), np.repeat(together, 2))


# -- what repeats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [classifier, regressor])
def test_equal_seeds_are_equal_forests_and_different_ones_are_not(make: Callable[..., Any]) -> None:
    first, again, other = (make(parties=PARTIES, random_state=seed).fit(X, Y) for seed in (3, 3, 4))
    assert first.digest_ == again.digest_ != other.digest_
    np.testing.assert_array_equal(first.predict(X), again.predict(X))


def test_without_a_seed_forests_differ() -> None:
    assert classifier(random_state=None).fit(X, Y).digest_ != classifier(random_state=None).fit(X, Y).digest_


def test_a_generator_may_be_the_seed() -> None:
    digests = [classifier(random_state=np.random.RandomState(5)).fit(X, Y).digest_ for _ in range(2)]
    assert digests[0] == digests[1]
    shared = np.random.RandomState(5)
    first, second = (classifier(random_state=shared).fit(X, Y).digest_ for _ in range(2))
    assert first == digests[0] != second


def test_fitting_again_forgets_the_first_forest() -> None:
    model = classifier().fit(X, Y)
    assert model.fit(X[:, :2], 1 - Y).digest_ == classifier().fit(X[:, :2], 1 - Y).digest_
    assert model.n_features_in_ == 2


def test_a_digest_is_that_of_the_forest_and_not_of_its_use() -> None:
    model = classifier().fit(X, Y)
    digest = model.digest_
    model.predict(X)
    model.predict_proba(X[:3])
    model.predict_encrypted(X[:3])
    assert model.digest_ == digest
    assert len(digest) == 64
    assert int(digest, 16) > 0


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_number_of_jobs_changes_neither_the_forest_nor_what_is_counted(make: Callable[..., Any]) -> None:
    alone, *others = (make(parties=PARTIES, n_jobs=jobs).fit(X, Y) for jobs in (1, 2, -1))
    for other in others:
        assert alone.digest_ == other.digest_
        assert alone.leakage_ == other.leakage_
        for what in ("exponentiations", "messages"):
            assert alone.costs_.total(what) == other.costs_.total(what)
    np.testing.assert_array_equal(alone.predict(X), others[0].predict(X))


# -- what was built ----------------------------------------------------------------------------------


def test_every_split_is_encrypted_under_its_owners_name(forest: Any) -> None:
    splits = forest.federation_.coordinator.store.splits.values()
    width = 3 * TOY["key_bits"] // 8
    assert {split.owner for split in splits} <= set(PARTIES)
    assert all(split.feature.startswith(f"{split.owner}/") for split in splits)
    assert {len(split.ciphertext) for split in splits} == {width}
    assert len({split.ciphertext for split in splits}) == len(splits)


# -- costs -------------------------------------------------------------------------------------------


def test_the_links_add_up_to_the_totals(forest: Any) -> None:
    costs = forest.costs_
    for what in ("messages", "bytes"):
        cells = [(protocol, cell[what]) for link in costs.traffic.values() for protocol, cell in link.items()]
        assert costs.total(what) == sum(count for _, count in cells) > 0
        for name in ("key set-up", "FLE-Expan"):
            assert costs.total(what, name) == sum(count for protocol, count in cells if protocol == name) > 0


def test_participants_talk_to_the_servers_only(forest: Any) -> None:
    ends = [set(link.split(" -> ")) for link in forest.costs_.traffic]
    assert all(len(pair & {"KGC", "CS"}) >= 1 for pair in ends)
    assert not any("CC" in pair and pair & set(PARTIES) for pair in ends)


def test_the_traffic_of_growth_holds_the_ciphertexts_and_the_bins(forest: Any) -> None:
    learnt = forest.leakage_["CS"]
    received = sum(
        cell["bytes"]
        for link, protocols in forest.costs_.traffic.items()
        for protocol, cell in protocols.items()
        if link.endswith("-> CS") and protocol == "FLE-Expan"
    )
    payload = learnt["bins of rows"] + learnt["bytes of encrypted splits"]
    assert payload < received < 2 * payload + 20_000


def test_a_prediction_is_added_to_the_costs() -> None:
    model = classifier(parties=PARTIES).fit(X, Y)
    before = model.costs_
    assert before.total("messages", "FRF-Test") == 0
    model.predict(X)
    once = model.costs_
    model.predict(X)
    twice = model.costs_
    assert twice.total("messages", "FRF-Test") == 2 * once.total("messages", "FRF-Test") > 0
    assert once.total("bytes") > before.total("bytes")
    assert once.total("seconds") > before.total("seconds") > 0
    assert twice.total("exponentiations") == before.total("exponentiations")
    assert before.total("messages", "FRF-Test") == 0


def test_costs_are_plain_values(forest: Any) -> None:
    costs = forest.costs_
    again = json.loads(json.dumps(costs.to_dict()))
    assert again == costs.to_dict()
    assert set(again) == {"key_bits", "security", "work", "traffic"}
    assert again["key_bits"] == TOY["key_bits"]


def test_costs_say_that_toy_keys_are_insecure(forest: Any) -> None:
    text = str(forest.costs_)
    assert "INSECURE" in text.splitlines()[0]
    assert repr(forest.costs_) == text
    assert forest.costs_.security == "INSECURE"


def test_the_table_of_costs_adds_participants_up(forest: Any) -> None:
    rows = [line.split() for line in str(forest.costs_).splitlines()[2:]]
    assert {row[0] for row in rows} == {*SERVERS, "participants"}
    powers = next(row[3] for row in rows if row[:2] == ["participants", "FOS-Find"])
    splits = len(forest.federation_.coordinator.store.splits)
    assert int(powers.replace(",", "")) == 2 * splits


# -- who learnt what ---------------------------------------------------------------------------------


def test_the_key_centre_learns_public_keys_and_the_compute_partner_the_rules_of_the_forest(
    forest: Any,
) -> None:
    learnt = forest.leakage_
    assert learnt["KGC"] == {"public keys": 2 + len(PARTIES), "reports of events": 1}
    assert learnt["CC"] == {
        "its strong share": 1,
        "members of the federation": 2 + len(PARTIES),
        "public parameters": 1,
        "the forest's rules": 1,
    }


def test_a_prediction_tells_the_coordinator_paths_and_the_owners_rows() -> None:
    model = classifier(parties=PARTIES).fit(X, Y)
    before = model.leakage_
    model.predict(X)
    after = model.leakage_
    assert "path bits of test rows, in whole bytes" not in before["CS"]
    assert after["CS"]["path bits of test rows, in whole bytes"] > 0
    assert after["KGC"] == before["KGC"]
    assert after["CC"] == before["CC"]
    assert after["bank"]["test rows that reach them"] > 0
    for role, counts in before.items():
        assert all(after[role][what] >= count for what, count in counts.items())


# -- keys --------------------------------------------------------------------------------------------


def test_a_modulus_is_made_once_and_keys_are_fresh() -> None:
    first, second = (classifier(parties=PARTIES).fit(X, Y).federation_ for _ in range(2))
    assert first.parameters.n == second.parameters.n

    def public_keys(of: Any) -> set[int]:
        return {participant.identity.weak.public.h for participant in of.participants.values()}

    assert len(public_keys(first) | public_keys(second)) == 2 * len(PARTIES)


def test_no_later_forest_uses_a_modulus_that_somebody_has_left() -> None:
    left, beside = (classifier(parties=PARTIES, key_bits=272).fit(X, Y) for _ in range(2))
    old = left.federation_.parameters.n
    left.revoke(next(iter(PARTIES)))
    later = classifier(parties=PARTIES, key_bits=272).fit(X, Y).federation_.parameters.n
    assert len({old, left.federation_.parameters.n, later}) == 3
    assert beside.federation_.parameters.n == old
    assert (beside.predict_encrypted(X[:2]) == beside.predict(X[:2])).all()


def test_sizes_have_moduli_of_their_own() -> None:
    small, large = (classifier(key_bits=bits).fit(X, Y) for bits in (256, 320))
    assert small.federation_.parameters.n.bit_length() == 256
    assert large.federation_.parameters.n.bit_length() == 320
    assert small.digest_ == large.digest_


@pytest.fixture
def real_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A modulus of 2048 bits from fixed primes, so that no test waits for a search."""
    pair = json.loads(PRIMES.read_text())["pairs"]["2048"]
    primes = SafePrimes(int(pair["p"], 16), int(pair["q"], 16))
    dealt = _deal(primes, 1024, allow_insecure=False)
    monkeypatch.setitem(moduli._made, (2048, False), dealt)


@pytest.mark.usefixtures("real_keys")
def test_real_keys_need_no_switch_and_are_not_called_insecure() -> None:
    rows: NDArray[np.float64] = X[:60]
    real = RevocableForestClassifier(
        3, max_depth=2, parties=PARTIES, protocol="paper", key_bits=2048, random_state=0
    )
    real.fit(rows, Y[:60])
    assert real.score(rows, Y[:60]) > 0.8
    assert real.costs_.security == "about 112 bits of security"
    for text in (repr(real), str(real.costs_), repr(real.federation_.parameters), real._repr_html_()):
        assert "INSECURE" not in text
    (size,) = {len(split.ciphertext) for split in real.federation_.coordinator.store.splits.values()}
    assert size == 3 * 2048 // 8
    toy = classifier(3, max_depth=2, parties=PARTIES).fit(rows, Y[:60])
    assert toy.digest_ == real.digest_


# -- progress ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_verbose_fit_draws_its_progress_on_standard_error(
    make: Callable[..., Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    model = make(verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert model.digest_ == make().fit(X, Y).digest_
    assert out == ""
    assert "…" not in err
    for word in ("forest", "depth", "trees", "nodes"):
        assert word in err


def test_a_silent_fit_draws_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    classifier(verbose=0).fit(X, Y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_the_names_of_categories_are_among_what_the_coordinator_receives() -> None:
    rows = frame(b=pd.Categorical(np.where(np.arange(ROWS) % 3, "negative", "positive")))
    learnt = classifier(parties=TWO_PARTIES).fit(rows, signs(frame())).leakage_
    assert learnt["CS"]["names of categories"] == 2
    assert "names of categories" not in learnt["bank"] | learnt["telco"] | learnt["CC"] | learnt["KGC"]


def test_progress_begins_at_nothing_and_ends_with_everything(forest: Any) -> None:
    reports: list[GrowthReport] = []
    rules, targets = forest.federation_.coordinator.plan.rules, forest.targets_
    columns = {party: forest.layout_.of(party) for party in forest.layout_.owned}
    again = federation.Federation(columns, setup=moduli.cached_setup(256, True, 1), seed=b"seed")
    again.train(forest.layout_.encode(X), rules, targets, reports.append)
    work = [report.work for report in reports]
    assert work[0] == 0
    assert work == sorted(work)
    assert work[-1] == 1
