"""Leaving fitted forests: the forest of a fit without the leaver, and what users see of it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.embedded import federation as federation_module
from revfrf.errors import AbsentError, ProtocolError, RefusedError, RevFRFError, UsageError
from revfrf.messages.base import Message, number
from revfrf.messages.fle_expan import LevelRequest
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CS
from revfrf.protocols.common.request import RequestPolicy
from tests.estimators.directories import LEVELS, NUMBERS, PARTIES, X, Y
from tests.estimators.toys import certified, classifier, frame, people, regressor, signs, table
from tests.quick import quick

MEAN = 5**0.5 / 5

pytestmark = pytest.mark.usefixtures("prepared_moduli")


@pytest.fixture
def model() -> RevocableForestClassifier:
    return classifier(6, parties=PARTIES).fit(X, Y)


@pytest.fixture
def numbers() -> RevocableForestRegressor:
    return regressor(6, parties=PARTIES).fit(X, NUMBERS)


def columns_without(parties: dict[str, list[int]], leavers: Sequence[str]) -> list[int]:
    return sorted(column for name, columns in parties.items() if name not in leavers for column in columns)


def fitted_without(
    make: Callable[..., Any], data: Any, target: Any, parties: dict[str, list[int]], leavers: Sequence[str]
) -> tuple[Any, list[int]]:
    """A forest of those who stay, each feature as often a candidate as before; and their columns."""
    stay = columns_without(parties, leavers)
    places = {column: place for place, column in enumerate(stay)}
    left = {
        name: [places[column] for column in columns]
        for name, columns in parties.items()
        if name not in leavers
    }
    mean = float(data.shape[1] ** 0.5 / data.shape[1])
    return make(5, parties=left, max_features=mean).fit(data[:, stay], target), stay


# -- the same forest --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("make", "load"),
    [(classifier, load_iris), (classifier, load_breast_cancer), (regressor, load_diabetes)],
    ids=["iris", "breast cancer", "diabetes"],
)
def test_forest_is_the_one_that_fit_grows_without_them(
    make: Callable[..., Any], load: Callable[..., Any], level: RevocationLevel
) -> None:
    """One leaves, then another; answers in the clear and encrypted."""
    data, target = load(return_X_y=True)
    data, target = data[::3], target[::3]
    n = data.shape[1]
    parties = {"b": list(range(1, n, 3)), "c": list(range(2, n, 3)), "a": list(range(0, n, 3))}
    model = make(5, parties=parties).fit(data, target)
    rows = data[:: len(data) // 4]
    for leavers in (["c"], ["c", "b"]):
        before, key = certified(model), model.kgc_key_
        certificate = model.revoke(leavers[-1], level)
        certificate.verify(key)
        assert (model.kgc_key_, certificate.core.report.digest_before) == (key, before)
        assert (certificate.leavers, certificate.level) == ((leavers[-1],), level)
        fresh, stay = fitted_without(make, data, target, parties, leavers)
        assert model.digest_ == fresh.digest_
        assert certificate.digest_after == certified(model)
        assert model.n_nodes_ == fresh.n_nodes_
        assert model.parties_ == fresh.parties_
        assert model.predict(data).tobytes() == fresh.predict(data[:, stay]).tobytes()
        assert model.predict(data[:, stay]).tobytes() == fresh.predict(data[:, stay]).tobytes()
    encrypted = model.predict_encrypted(rows[:, stay])
    assert encrypted.tobytes() == fresh.predict(rows[:, stay]).tobytes()


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("level", LEVELS)
def test_shares_of_classes_are_those_without_the_leaver(level: RevocationLevel, voting: str) -> None:
    model: Any = classifier(5, parties=PARTIES, voting=voting).fit(X, Y)
    model.revoke("bank", level)
    fresh, stay = fitted_without(classifier, X, Y, PARTIES, ["bank"])
    fresh.set_params(voting=voting)
    expected = fresh.predict_proba(X[:, stay])
    for rows in (X, X[:, stay]):
        assert model.predict_proba(rows).tobytes() == expected.tobytes()
        assert model.predict_proba_encrypted(rows[:5]).tobytes() == expected[:5].tobytes()


def test_weights_of_rows_and_classes_stay_as_they_were() -> None:
    weights = np.random.default_rng(1).choice([0, 0.4, 1, 3], len(X))
    fit = {"class_weight": "balanced", "min_samples_leaf": 2, "bootstrap": False}
    model = classifier(5, parties=PARTIES, **fit).fit(X, Y, weights)
    model.revoke("shop", 1)
    left = {"bank": [0, 3], "telco": [1, 2]}
    fresh = classifier(5, parties=left, max_features=MEAN, **fit).fit(X[:, [0, 1, 3, 4]], Y, weights)
    assert model.digest_ == fresh.digest_


@pytest.mark.parametrize("max_features", ["sqrt", "log2", 2, 0.3, None])
def test_features_are_candidates_as_often_as_before(max_features: Any) -> None:
    model = classifier(6, parties=PARTIES, max_features=max_features).fit(X, Y)
    model.revoke("telco", 1)
    mean = {"sqrt": MEAN, "log2": float(np.log2(5)) / 5, 2: 2 / 5, 0.3: 0.3, None: 1.0}[max_features]
    fresh = classifier(6, parties={"bank": [0, 2], "shop": [1]}, max_features=mean).fit(X[:, [0, 2, 4]], Y)
    assert model.digest_ == fresh.digest_


def test_forest_that_is_fitted_again_has_everybody_again(model: Any) -> None:
    first = model.digest_
    model.revoke("bank", 1)
    assert model.digest_ != first
    model.fit(X, Y)
    assert model.digest_ == first
    assert set(model.parties_) == set(PARTIES)
    assert clone(model).parties == PARTIES


# -- X with and without the leaver's columns --------------------------------------------------------


@pytest.mark.parametrize(
    ("leaver", "level"),
    quick(product(["bank", "telco", "shop"], LEVELS), [("bank", 1), ("telco", 2), ("shop", 1)]),
)
def test_data_frames_may_come_without_the_leavers_columns(leaver: str, level: RevocationLevel) -> None:
    rows = people().assign(c=pd.Categorical(np.where(table()[:, 1] > 0, "yes", "no")))
    rows["d"] = people()["c"]
    labels = np.where(
        rows["b"].astype(str) == "red", "x", np.where(rows["d"] > 4, "y", rows["c"].astype(str))
    )
    parties = {"bank": ["a", "d"], "telco": ["b"], "shop": ["c"]}
    model: Any = classifier(5, parties=parties, min_samples_leaf=2).fit(rows, labels)
    model.revoke(leaver, level)
    left = {name: columns for name, columns in parties.items() if name != leaver}
    short = rows.drop(columns=parties[leaver])
    fresh = classifier(5, parties=left, min_samples_leaf=2, max_features=0.5).fit(short, labels)
    assert model.digest_ == fresh.digest_
    expected = fresh.predict_proba(short)
    garbled = rows.assign(**dict.fromkeys(parties[leaver], "of no importance"))
    for given in (rows, short, garbled, short[short.columns[::-1]]):
        assert model.predict_proba(given).tobytes() == expected.tobytes()
        encrypted = model.predict_proba_encrypted(given.head(4))
        assert encrypted.tobytes() == expected[:4].tobytes()


def test_frames_may_have_some_of_the_leavers_columns() -> None:
    rows = frame(c=table()[:, 0] * 2, d=table()[:, 1] * 3)
    model = classifier(5, parties={"bank": ["a", "d"], "telco": ["b", "c"]}).fit(rows, signs(rows))
    model.revoke("bank", 1)
    expected = model.predict_proba(rows)
    for gone in (["a"], ["d"], ["a", "d"]):
        assert model.predict_proba(rows.drop(columns=gone)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("gone", [["b"], ["a", "b"], ["c", "b"]], ids=str)
def test_columns_of_those_who_stay_are_needed(gone: list[str]) -> None:
    rows = frame(c=table()[:, 0])
    model = classifier(5, parties={"bank": ["a"], "telco": ["b"], "shop": ["c"]}).fit(rows, signs(rows))
    model.revoke("bank", 1)
    with pytest.raises(ValueError, match="feature"):
        model.predict(rows.drop(columns=gone))


@pytest.mark.parametrize("width", [1, 2, 4, 6])
def test_arrays_of_other_widths_are_an_error(model: Any, width: int) -> None:
    model.revoke("bank", 1)
    with pytest.raises(ValueError, match="feature"):
        model.predict(table(7, width))


def test_values_of_the_leaver_play_no_part(model: Any) -> None:
    """Not even if they could not be encoded."""
    model.revoke("bank", 1)
    expected = model.predict_proba(X)
    for value in (np.nan, 1e300, np.inf):
        rows = X.copy()
        rows[:, PARTIES["bank"]] = value
        assert model.predict_proba(rows).tobytes() == expected.tobytes()
        assert model.predict_proba_encrypted(rows[:3]).tobytes() == expected[:3].tobytes()


def test_large_whole_numbers_are_exact_with_and_without_the_leavers_columns() -> None:
    rows = np.random.default_rng(0).integers(2**60, 2**60 + 40, (80, 3))
    parties = {"a": [0], "b": [1], "c": [2]}
    model = classifier(3, parties=parties, decimals=0, min_samples_leaf=1).fit(rows, rows[:, 0] % 2)
    model.revoke("c", 1)
    assert model.predict_proba(rows[:, :2]).tobytes() == model.predict_proba(rows).tobytes()


def test_frames_with_numbered_columns_may_come_without_the_leavers() -> None:
    rows = pd.DataFrame(X)
    model = classifier(3, parties=PARTIES).fit(rows, Y)
    model.revoke("bank", 1)
    assert model.predict(rows[[1, 2, 3]]).tolist() == model.predict(rows).tolist()


# -- requesters before and after --------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_requesters_go_on_in_the_new_epoch(model: Any, level: RevocationLevel) -> None:
    """A participant who stays, one that was enrolled, the one that every forest has, and a new one."""
    model.enrol_requester("clinic")
    for requester in (None, "shop", "clinic", "bank"):
        model.predict_encrypted(X[:2], requester)
    model.revoke("bank", level)
    rows = X[:5]
    for requester in (None, "shop", "clinic", "telco"):
        for given in (rows, rows[:, [1, 2, 3]]):
            assert model.predict_encrypted(given, requester).tolist() == model.predict(rows).tolist()
    model.enrol_requester("insurer")
    assert model.predict_encrypted(rows, "insurer").tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_leaver_asks_no_more(model: Any, level: RevocationLevel) -> None:
    model.predict_encrypted(X[:2], "bank")
    model.revoke("bank", level)
    with pytest.raises(UsageError, match="'bank'"):
        model.predict_encrypted(X[:2], "bank")
    with pytest.raises(UsageError, match="revoked"):
        model.enrol_requester("bank")
    with pytest.raises(UsageError, match="'bank'"):
        model.set_policy("bank", RequestPolicy())
    assert len(model.predict_encrypted(X[:2])) == 2


def test_policies_of_those_who_stay_go_on(model: Any) -> None:
    model.set_policy("telco", RequestPolicy(refuses=["shop"]))
    model.revoke("bank", 1)
    with pytest.raises(RevFRFError, match="telco"):
        model.predict_encrypted(X[:20], "shop")
    assert len(model.predict_encrypted(X[:20], "telco")) == 20


# -- the preview ------------------------------------------------------------------------------------


def everything(model: Any) -> Any:
    """What a preview must not change."""
    federation = model.federation_
    store = federation.coordinator.store
    return (
        model.digest_,
        model.parties_,
        dict(store.splits),
        dict(store.leaves),
        store.round,
        {name: (dict(p.store.own_splits), p.identity.keys) for name, p in federation.participants.items()},
        federation.kgc.current,
        dict(federation.kgc.state.leaving),
        set(federation.network.roles),
        federation.parameters,
    )


@pytest.mark.parametrize("leavers", ["bank", ["telco"], ["shop", "bank"]], ids=str)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_preview_changes_nothing_and_comes_true(make: Callable[..., Any], leavers: Any) -> None:
    target = Y if make is classifier else NUMBERS
    model = make(6, parties=PARTIES).fit(X[:80], target[:80])
    before, costs, leakage = everything(model), model.costs_.to_dict(), model.leakage_
    preview = model.revocation_preview(leavers)
    assert everything(model) == before
    assert model.costs_.to_dict() == costs
    assert model.leakage_ == leakage
    assert (preview.score_now, preview.score_without) == (None, None)
    scored = model.revocation_preview(leavers, X[80:], target[80:])
    assert everything(model) == before
    assert scored.digest_after == preview.digest_after
    assert scored.score_now == model.score(X[80:], target[80:])
    nodes = model.n_nodes_
    certificate = model.revoke(leavers, 1)
    assert model.digest_ == preview.digest_after
    assert certificate.digest_after == certified(model)
    assert scored.score_without == model.score(X[80:], target[80:])
    assert (preview.nodes, preview.nodes_lost) == (nodes, certificate.core.report.destroyed)
    assert preview.leavers == certificate.leavers
    assert 0 <= preview.trees_touched <= preview.trees == 6


@pytest.mark.parametrize("level", LEVELS)
def test_preview_of_a_forest_that_somebody_has_left_comes_true(model: Any, level: RevocationLevel) -> None:
    model.revoke("bank", level)
    short = X[:, [1, 2, 3]]
    previews = [model.revocation_preview("shop", rows, Y) for rows in (X, short)]
    assert previews[0].digest_after == previews[1].digest_after
    assert previews[0].score_now == previews[1].score_now == model.score(X, Y)
    model.revoke("shop", level)
    assert model.digest_ == previews[0].digest_after
    assert previews[0].score_without == previews[1].score_without == model.score(X, Y)


def test_preview_takes_longer_at_level_2(model: Any) -> None:
    seconds = [model.revocation_preview("shop", level=level).estimated_seconds for level in LEVELS]
    assert 0 <= seconds[0] < seconds[1]


# -- what cannot be done ----------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "unknown": ("casino", "'casino' is not a participant; the participants are bank, telco, shop"),
    "one of them unknown": (["bank", "casino"], "'casino' is not a participant"),
    "other case": ("Bank", "'Bank'"),
    "empty name": ("", "''"),
    "a server": ("CS", "'CS'"),
    "the key centre": ("KGC", "'KGC'"),
    "a requester": ("requester", "'requester'"),
    "a number": (0, "name"),
    "numbers": ([0], "0 is not a participant"),
    "None": (None, "name"),
    "bytes": (b"bank", "participant"),
    "a list": ([["bank"]], "is not a participant"),
    "nobody": ([], "nobody leaves"),
    "everybody": (["bank", "telco", "shop"], "the last participant cannot leave"),
    "everybody, with repeats": (["bank", "telco", "shop", "bank"], "the last participant cannot leave"),
}


@pytest.mark.parametrize("call", ["revoke", "revocation_preview"])
@pytest.mark.parametrize("name", WRONG)
def test_names_that_cannot_leave_are_told_before_anything_happens(name: str, call: str) -> None:
    model = shared()
    before, sent = everything(model), model.costs_.total("messages")
    given, told = WRONG[name]
    with pytest.raises(UsageError, match=told):
        getattr(model, call)(given)
    assert everything(model) == before
    assert model.costs_.total("messages") == sent


@lru_cache
def shared() -> RevocableForestClassifier:
    """A forest that nobody leaves."""
    return classifier(4, parties=PARTIES).fit(X, Y)


@pytest.mark.parametrize("call", ["revoke", "revocation_preview"])
@pytest.mark.parametrize("level", [0, 3, -1, None, "1", "two", 1.5, [1], True, 1.0, 2.0], ids=repr)
def test_other_levels_are_refused_before_anything_happens(level: Any, call: str) -> None:
    model = shared()
    before = everything(model)
    with pytest.raises(UsageError, match="give 1 or 2"):
        getattr(model, call)("bank", level=level)
    assert everything(model) == before


def test_level_may_be_an_integer_of_numpy(model: Any) -> None:
    assert model.revoke("bank", np.int64(1)).level == 1


def test_last_participant_stays(model: Any) -> None:
    model.revoke(["bank", "shop"], 1)
    before = everything(model)
    for call in (model.revoke, model.revocation_preview):
        with pytest.raises(UsageError, match="the last participant cannot leave"):
            call("telco")
    assert everything(model) == before
    assert model.predict_encrypted(X[:2]).tolist() == model.predict(X[:2]).tolist()


def test_who_has_left_cannot_leave_again(model: Any) -> None:
    model.revoke("bank", 1)
    for call in (model.revoke, model.revocation_preview):
        with pytest.raises(UsageError, match="'bank' has left already; the participants are telco, shop"):
            call("bank")


@pytest.mark.parametrize("make", [classifier, regressor])
def test_forest_that_is_not_fitted_cannot_be_left(make: Callable[..., Any]) -> None:
    model = make(parties=PARTIES)
    for call in (model.revoke, model.revocation_preview, lambda _: model.kgc_key_):
        with pytest.raises(NotFittedError):
            call("bank")


def test_forest_goes_on_if_the_search_for_new_keys_is_interrupted(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    expected = model.predict_proba(X)
    with monkeypatch.context() as patch:
        patch.setattr(federation_module, "fresh_setup_like", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.revoke("bank", 2)
    assert model.predict_proba(X).tobytes() == expected.tobytes()
    model.revoke("bank", 2)


@pytest.mark.parametrize("level", LEVELS)
def test_forest_goes_on_if_nobody_could_leave_because_somebody_was_absent(
    model: Any, level: RevocationLevel
) -> None:
    telco = model.federation_.network.roles.pop("telco")
    with pytest.raises(AbsentError):
        model.revoke("bank", level)
    model.federation_.network.roles["telco"] = telco
    assert model.revoke("bank", level).leavers == ("bank",)
    undisturbed = classifier(6, parties=PARTIES).fit(X, Y)
    undisturbed.revoke("bank", level)
    assert model.digest_ == undisturbed.digest_


def test_revocation_that_was_begun_is_ended_before_another(model: Any) -> None:
    telco = model.federation_.network.roles.pop("telco")
    with pytest.raises(AbsentError):
        model.revoke("bank", 1)
    model.federation_.network.roles["telco"] = telco
    assert model.revoke("shop", 1).leavers == ("shop",)
    assert [certificate.leavers for certificate in model.certificates_] == [(), ("bank",), ("shop",)]
    undisturbed = classifier(6, parties=PARTIES).fit(X, Y)
    undisturbed.revoke(["bank", "shop"], 1)
    assert model.digest_ == undisturbed.digest_
    assert (model.predict(X) == undisturbed.predict(X)).all()


def half_left(model: Any, level: RevocationLevel = 1) -> Any:
    """Somebody refuses when the forest is rebuilt. Returns who it was."""
    telco = model.federation_.network.roles["telco"]

    class Gone:
        def handle(self, sender: str, message: Message) -> Message:
            if isinstance(message, LevelRequest):
                raise ProtocolError("not now")
            reply: Message = telco.handle(sender, message)
            return reply

    model.federation_.network.roles["telco"] = Gone()
    with pytest.raises(RefusedError):
        model.revoke("bank", level)
    return telco


def test_half_a_forest_answers_nothing_and_says_what_to_do(model: Any, tmp_path: Path) -> None:
    telco = half_left(model)
    calls: list[Callable[[], object]] = [
        lambda: model.predict(X),
        lambda: model.predict_encrypted(X[:1]),
        lambda: model.digest_,
        lambda: model.n_nodes_,
        lambda: model.save(tmp_path / "forest"),
        lambda: model.revocation_preview("shop"),
        lambda: model.enrol_requester("clinic"),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="the revocation of bank is not finished"):
            call()
    assert not list(tmp_path.iterdir())
    model.federation_.network.roles["telco"] = telco
    assert model.revoke("bank", 1).leavers == ("bank",)
    model.predict(X)


def test_who_has_left_at_level_1_is_not_said_to_have_left_at_level_2(model: Any) -> None:
    telco = half_left(model)
    model.federation_.network.roles["telco"] = telco
    with pytest.raises(UsageError, match="left already, at revocation level 1"):
        model.revoke("bank", 2)
    assert [certificate.level for certificate in model.certificates_] == [None, 1]


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("private_keys", [False, True])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
def test_forest_that_was_left_comes_back_from_a_file(
    tmp_path: Path, level: RevocationLevel, private_keys: bool, named: bool
) -> None:
    path = tmp_path / "forest.revfrf"
    rows: Any = pd.DataFrame(X, columns=list("abcde")) if named else X
    model = classifier(5, parties=PARTIES).fit(rows, Y)
    model.revoke("bank", level)
    model.save(path, private_keys=private_keys)
    loaded: Any = RevocableForestClassifier.load(path)
    assert loaded.digest_ == model.digest_
    assert loaded.parties_ == model.parties_
    assert loaded.kgc_key_ == model.kgc_key_
    expected = model.predict_proba(rows)
    short = rows.drop(columns=["a", "e"]) if named else X[:, [1, 2, 3]]
    for given in (rows, short):
        assert loaded.predict_proba(given).tobytes() == expected.tobytes()
        if private_keys:
            assert loaded.predict_proba_encrypted(given[:4]).tobytes() == expected[:4].tobytes()
    for call in (loaded.revoke, loaded.revocation_preview):
        with pytest.raises(UsageError, match="loaded from a file"):
            call("telco")
        with pytest.raises(UsageError, match="'bank' has left already"):
            call("bank")


@pytest.mark.parametrize("level", LEVELS)
def test_file_of_a_forest_that_was_left_holds_nothing_of_the_leaver(
    tmp_path: Path, model: Any, level: RevocationLevel
) -> None:
    bank, store = model.federation_.participants["bank"], model.federation_.coordinator.store
    hidden = [split.ciphertext for split in store.splits.values() if split.owner == "bank"]
    keys = bank.identity
    hidden += [bank.secret, keys.signing_key.export(), number(keys.weak.sk.reveal())]
    old = number(model.federation_.coordinator.identity.share.value.reveal())
    path = tmp_path / "forest.revfrf"
    model.save(path, private_keys=True)
    assert all(secret in path.read_bytes() for secret in hidden)
    model.revoke("bank", level)
    model.save(path, private_keys=True)
    data = path.read_bytes()
    assert not [secret for secret in hidden if secret in data]
    assert (old in data) == (level == 1)


# -- certificates, costs, leakage -------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_costs_and_leakage_show_the_revocation(model: Any, level: RevocationLevel) -> None:
    before = model.costs_
    assert before.total("messages", "FRF-Revoc") == 0
    told = model.leakage_
    certificate = model.revoke("bank", level)
    costs, leakage = model.costs_, model.leakage_
    for link, protocol in (
        ("bank -> KGC", "FRF-Revoc"),
        ("CS -> telco", "FRF-Revoc"),
        ("CS -> KGC", "events"),
    ):
        assert costs.traffic[link][protocol]["messages"] > 0
        assert costs.traffic[link][protocol]["bytes"] > 0
    assert "FRF-Revoc" in costs.work[CS]
    assert costs.work[CS]["FRF-Revoc"]["seconds"] > 0
    assert "FRF-Revoc" in str(costs)
    assert leakage["KGC"]["requests to leave"] == 1
    assert leakage["KGC"]["reports of events"] == told["KGC"]["reports of events"] + 1 == 2
    assert leakage[CS].get("receipts for events", 0) == len(certificate.receipts) - (level == 2)  # CS's own
    assert leakage["bank"] == told["bank"]
    destroyed = "its nodes below splits that have left"
    assert sum(leakage[party].get(destroyed, 0) for party in ("telco", "shop")) > 0
    assert certificate.core.report.destroyed > 0
    assert "requests to leave" not in leakage["CC"].keys() | leakage[CS].keys()


def test_number_of_jobs_does_not_change_the_forest() -> None:
    model = classifier(5, parties=PARTIES, n_jobs=2).fit(X, Y)
    assert model.revoke("bank").level == 2
    fresh, _ = fitted_without(classifier, X, Y, PARTIES, ["bank"])
    assert model.digest_ == fresh.digest_


def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier(5, parties=PARTIES).fit(X, Y)
    model.set_params(verbose=1).revoke("bank", 1)
    shown = capsys.readouterr()
    assert shown.out + shown.err


def test_every_column_its_own_party_may_leave() -> None:
    """Without `parties`, positions of columns name them, and stay theirs."""
    rows = pd.DataFrame(X, columns=list("abcde"))
    model = regressor(5).fit(rows, NUMBERS)
    assert model.revoke(["d", "a", "d"], 1).leavers == ("a", "d")
    fresh = regressor(5, max_features=MEAN).fit(rows[["b", "c", "e"]], NUMBERS)
    assert model.digest_ == fresh.digest_
    assert model.predict(rows[["b", "c", "e"]]).tobytes() == fresh.predict(rows[["b", "c", "e"]]).tobytes()
