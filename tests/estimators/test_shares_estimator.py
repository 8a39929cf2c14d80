"""The estimators with the shares protocol, their default: rows, weights, books, files and directories."""

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.errors import ModelFileError, ProtocolError, SecretError, StorageError, UsageError
from revfrf.estimators import _file
from revfrf.estimators._file import SavedForest, SavedStore
from revfrf.forest.tree import LEAF, Tree
from revfrf.storage.memory import Book
from tests.estimators.directories import LEVELS, NUMBERS, PARTIES, X, Y, again
from tests.estimators.toys import ROWS, TWO_PARTIES, certified, people, signs, table


def classifier(n_estimators: int = 6, **parameters: Any) -> RevocableForestClassifier:
    """A small classifier that repeats, with the default protocol; parameters given override."""
    defaults: dict[str, Any] = {"max_depth": 5, "min_samples_leaf": 2, "random_state": 0, "parties": PARTIES}
    return RevocableForestClassifier(n_estimators, **(defaults | parameters))


def regressor(n_estimators: int = 6, **parameters: Any) -> RevocableForestRegressor:
    defaults: dict[str, Any] = {"max_depth": 5, "min_samples_leaf": 2, "random_state": 0, "parties": PARTIES}
    return RevocableForestRegressor(n_estimators, **(defaults | parameters))


def without_bank(**parameters: Any) -> RevocableForestClassifier:
    """The forest of those who stay, with the same chance of each feature."""
    staying = {"telco": [0, 2], "shop": [1]}
    return classifier(parties=staying, max_features=0.5, **parameters).fit(X[:, 1:4], Y)


def fitted(**parameters: Any) -> RevocableForestClassifier:
    return classifier(max_features=0.5, **parameters).fit(X, Y)


def used(model: Any, party: str) -> list[Book]:
    """A participant's books."""
    books: list[Book] = model.federation_.participants[party].store.books
    return books


# -- answers ----------------------------------------------------------------------------------------


def test_shares_is_the_default_and_has_no_keys() -> None:
    model = classifier().fit(X, Y)
    assert model.protocol == model.federation_.coordinator.certificate.forest_protocol == "shares"
    assert model.federation_.coordinator.certificate.dtpkc is None
    assert "INSECURE" not in repr(model)


def test_classes_are_predicted_as_votes_say() -> None:
    model = classifier(20, class_weight="balanced").fit(X, Y)
    shares = model.predict_proba(X)
    assert shares.shape == (len(X), 3)
    assert np.allclose(shares.sum(axis=1), 1)
    assert model.set_params(voting="soft").predict(X).tolist() == shares.argmax(axis=1).tolist()
    assert model.score(X, Y) > 0.85


def test_numbers_are_predicted_within_their_range() -> None:
    model = regressor(20).fit(X, NUMBERS)
    answers = model.predict(X)
    assert NUMBERS.min() <= answers.min() < answers.max() <= NUMBERS.max()
    assert model.score(X, NUMBERS) > 0.7


def test_labels_are_what_was_given() -> None:
    names = np.array(["low", "middle", "high"])[Y]
    model = classifier().fit(X, names)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert {*model.predict(X)} <= {*names}


def test_row_of_weight_two_is_the_row_twice_and_of_weight_zero_none() -> None:
    weights = np.arange(len(X)) % 3.0
    plain = classifier(bootstrap=False, min_samples_leaf=1)
    there = weights > 0
    weighted = clone(plain).fit(X, Y, weights)
    absent = clone(plain).fit(
        X[there],
        Y[there],
        weights[there],
        row_numbers=np.flatnonzero(there),
        classes=range(3),
        max_total_weight=4 * weights.sum(),
    )
    # A book is drawn from all rows of the forest: with fewer values, cuts have other numbers.
    assert (weighted.predict(X[there]) == absent.predict(X[there])).mean() > 0.9
    assert weighted.digest_ != clone(plain).fit(X, Y).digest_


def test_missing_values_go_left_in_training_and_in_predictions() -> None:
    rows = table(200, 1)
    rows[:80] = np.nan
    target = np.isnan(rows[:, 0])
    model = classifier(parties={"bank": [0]}, max_features=None).fit(rows, target)
    assert model.score(rows, target) == 1.0
    assert model.predict([[np.nan], [-1e300], [1e300]]).tolist() == [True, False, False]
    assert used(model, "bank")[0].cuts[0] == -(1 << used(model, "bank")[0].line.ring - 2)


def test_categories_numbers_and_holes_are_one_table() -> None:
    rows = people()
    target = (rows["b"] == "red").to_numpy()
    parties = {"bank": ["a", "c"], "telco": ["b"]}
    model = classifier(20, parties=parties, max_features=None).fit(rows, target)
    assert model.score(rows, target) > 0.95
    strange = rows.assign(b=pd.Categorical(["never seen"] * (ROWS - 1) + ["red"]))
    unknown = rows.assign(b=pd.Categorical([None] * (ROWS - 1) + ["red"]))
    assert model.predict_proba(strange).tobytes() == model.predict_proba(unknown).tobytes()


# -- books of cuts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_cuts", [1, 2, 16, 255, np.int64(7)])
def test_no_book_has_more_cuts_than_allowed(n_cuts: Any) -> None:
    model = classifier(n_cuts=n_cuts).fit(X, Y)
    sizes = [len(book.cuts) for party in PARTIES for book in used(model, party)]
    assert sizes == [min(n_cuts, len(X) - 1)] * 5


def test_books_of_some_columns_are_limited_by_name_or_position() -> None:
    rows = people()[["a", "c"]].assign(b=table()[:, 0])
    model = classifier(parties={**TWO_PARTIES, "shop": ["c"]}, n_cuts={"a": 3, 2: 5}).fit(
        rows, signs(table())
    )
    sizes = {party: len(used(model, party)[0].cuts) for party in ("bank", "telco", "shop")}
    assert sizes == {"bank": 3, "telco": 5, "shop": 8}


@pytest.mark.parametrize("wrong", [0, -1, 256, 1.5, True, "8", None])
def test_limit_that_no_book_has_is_refused_by_the_name_of_its_column(wrong: Any) -> None:
    rows = people()[["a", "b"]]
    with pytest.raises(UsageError, match=r"party 'telco', column 'b'.*from 1 to 255"):
        classifier(parties=TWO_PARTIES, n_cuts={"b": wrong}).fit(rows, signs(table()))


@pytest.mark.parametrize("wrong", [{"c": 3}, {2: 3}, {-1: 3}, {1.0: 3}], ids=str)
def test_limit_of_a_column_that_does_not_exist_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"`n_cuts`.*column"):
        classifier(parties=TWO_PARTIES, n_cuts=wrong).fit(people()[["a", "b"]], signs(table()))


@pytest.mark.parametrize("wrong", [0, 256, 1.5, "8", None, [3]])
def test_limit_that_no_book_has_is_refused_for_all_columns(wrong: Any) -> None:
    with pytest.raises(ValueError, match="n_cuts"):
        classifier(n_cuts=wrong).fit(X, Y)


def test_wrong_limit_leaves_no_directory_behind(tmp_path: Path) -> None:
    place = tmp_path / "forest"
    with pytest.raises(UsageError, match="n_cuts"):
        classifier(n_cuts={0: 0}, directory=place).fit(X, Y)
    assert classifier(n_cuts={0: 1}, directory=place).fit(X, Y).predict(X).shape == (len(X),)


# -- leaving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_cuts", [255, 9])
def test_forest_that_somebody_has_left_is_the_one_without_it(level: Any, n_cuts: int) -> None:
    model = fitted(n_cuts=n_cuts)
    fresh = without_bank(n_cuts=n_cuts)
    preview = model.revocation_preview("bank", X, Y, level=level)
    before = model.n_nodes_, model.score(X, Y), certified(model)
    assert (preview.nodes, preview.score_now) == before[:2]
    certificate = model.revoke("bank", level)
    certificate.verify(model.kgc_key_)
    assert model.digest_ == fresh.digest_ == preview.digest_after
    assert (certificate.core.report.digest_before, certificate.digest_after) == (before[2], certified(model))
    assert (certificate.core.report.destroyed, certificate.level) == (preview.nodes_lost, level)
    assert model.score(X, Y) == preview.score_without
    assert model.predict_proba(X).tobytes() == model.predict_proba(X[:, 1:4]).tobytes()
    assert model.parties_ == fresh.parties_


def test_preview_changes_nothing() -> None:
    model = fitted()
    before = model.digest_, model.n_nodes_, model.parties_
    preview = model.revocation_preview(["bank", "shop"])
    assert (preview.score_now, preview.trees, preview.leavers) == (None, 6, ("bank", "shop"))
    assert 0 < preview.trees_touched <= 6
    assert 0 < preview.nodes_lost <= preview.nodes
    assert (model.digest_, model.n_nodes_, model.parties_) == before


def test_encrypted_requests_need_the_paper_protocol() -> None:
    model = fitted()
    for ask in (model.predict_encrypted, model.predict_proba_encrypted):
        with pytest.raises(UsageError, match="encrypted requests need protocol='paper'"):
            ask(X[:1])
    with pytest.raises(UsageError, match="encrypted requests need protocol='paper'"):
        regressor().fit(X, NUMBERS).predict_encrypted(X[:1])


# -- parameters, costs, leakage ---------------------------------------------------------------------


def test_clone_has_the_same_parameters_and_grows_the_same_forest() -> None:
    model = fitted(n_cuts={0: 7})
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert (copy.n_cuts, copy.protocol) == ({0: 7}, "shares")
    assert copy.fit(X, Y).digest_ == model.digest_
    with pytest.raises(SecretError):
        model.__getstate__()


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="protocol"):
        classifier(protocol="plain").fit(X, Y)


def test_coordinator_has_received_one_bin_per_row_and_column_and_participants_rules_and_events() -> None:
    model = fitted()
    leakage = model.leakage_
    assert leakage["CS"]["bins of rows"] == 5 * len(X)
    for party in PARTIES:
        known = {"members of the federation", "the forest's rules", "event certificates"}
        lines = "names, decimals, rings and numbers of cuts of columns"
        assert leakage[party].keys() == known | {"its own cuts that are used", lines}
    model.predict(X[:7])
    assert model.leakage_["CS"]["bins of rows"] <= 5 * len(X) + 5 * 7


def test_costs_are_printable_and_count_no_powers() -> None:
    model = fitted()
    model.predict(X)
    model.revoke("bank")
    costs = model.costs_
    text = str(costs)
    assert text.startswith("no keys but signing keys")
    for name in ("FLE-Expan", "FRF-Test", "FRF-Revoc", "participants"):
        assert name in text
    assert costs.total("exponentiations") == 0
    assert costs.total("bytes", "FLE-Expan") > 5 * len(X)
    assert json.loads(json.dumps(costs.to_dict()))["key_bits"] == 0


# -- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("private_keys", [False, True])
@pytest.mark.parametrize("make", [classifier, regressor])
def test_saved_forest_answers_as_before(tmp_path: Path, make: Any, private_keys: bool) -> None:
    model = make(n_cuts={1: 9}).fit(X, Y if make is classifier else NUMBERS)
    model.save(tmp_path / "forest", private_keys=private_keys)
    loaded = type(model).load(tmp_path / "forest")
    assert loaded.digest_ == model.digest_
    assert loaded.get_params() == model.get_params()
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
    assert stat.S_IMODE((tmp_path / "forest").stat().st_mode) == 0o600


@pytest.mark.parametrize("level", LEVELS)
def test_participants_can_leave_a_forest_loaded_with_private_keys(tmp_path: Path, level: Any) -> None:
    model, fresh = fitted(), without_bank()
    model.save(tmp_path / "forest", private_keys=True)
    loaded = RevocableForestClassifier.load(tmp_path / "forest")
    certificate = loaded.revoke("bank", level)
    certificate.verify(model.kgc_key_)
    assert loaded.digest_ == fresh.digest_
    loaded.save(tmp_path / "forest", private_keys=True)
    second = RevocableForestClassifier.load(tmp_path / "forest")
    assert second.digest_ == fresh.digest_
    assert second.certificates_ == [*model.certificates_, certificate]
    second.revoke("shop", level)
    model.revoke(["bank", "shop"], level)
    assert second.digest_ == model.digest_
    assert second.predict(X).tobytes() == model.predict(X).tobytes()


def test_nobody_can_leave_a_forest_loaded_without_private_keys(tmp_path: Path) -> None:
    fitted().save(tmp_path / "forest")
    loaded = RevocableForestClassifier.load(tmp_path / "forest")
    for call in (loaded.revoke, loaded.revocation_preview):
        with pytest.raises(UsageError, match="without training rows"):
            call("bank")


def test_forest_loaded_from_a_file_has_no_preview(tmp_path: Path) -> None:
    """Another forest cannot be grown: no file has the columns."""
    fitted().save(tmp_path / "forest", private_keys=True)
    loaded = RevocableForestClassifier.load(tmp_path / "forest")
    with pytest.raises(UsageError, match="no columns to grow another forest from"):
        loaded.revocation_preview("bank")


def test_file_without_private_keys_has_neither_bins_nor_salts_nor_labels(tmp_path: Path) -> None:
    model = fitted()
    for private_keys in (False, True):
        model.save(tmp_path / "forest", private_keys=private_keys)
        data = (tmp_path / "forest").read_bytes()
        store = model.federation_.coordinator.store
        for held in store.bins.values():
            assert (held.bins.tobytes() in data) == (held.salt in data) == private_keys
        assert (model.targets_.values.astype("<i8").tobytes() in data) == private_keys
        for participant in model.federation_.participants.values():
            assert (participant.identity.signing_key.export() in data) == private_keys
            assert (participant.secret in data) == private_keys


# -- damaged files ----------------------------------------------------------------------------------


def tampered(path: Path, change: Any) -> None:
    """Change what a file holds; its checksum is right afterwards."""
    forest = _file.read(path)
    path.write_bytes(_file.encode(change(forest)))


def store_of(forest: SavedForest, name: str) -> SavedStore:
    [store] = [store for store in forest.stores if store.name == name]
    return store


def changed_tree(change: Any) -> Any:
    """A forest whose first tree is another one."""

    def changing(forest: SavedForest) -> SavedForest:
        trees = store_of(forest, "CS").trees
        trees[0] = (0, change(Tree.from_bytes(trees[0][1])).to_bytes())
        return forest

    return changing


def with_other_feature(tree: Tree) -> Tree:
    features = tree.features.copy()
    features[np.flatnonzero(features >= 0)[0]] = 5
    return Tree(features, tree.cuts, tree.sums)


def with_cut_beyond(tree: Tree) -> Tree:
    cuts = tree.cuts.copy()
    cuts[np.flatnonzero(tree.features >= 0)[0]] = 255
    return Tree(tree.features, cuts, tree.sums)


def with_other_sums(tree: Tree) -> Tree:
    return Tree(tree.features, tree.cuts, tree.sums + 1)


def too_deep(tree: Tree) -> Tree:
    """A chain of splits that only goes right."""
    features = np.array([0] + [LEAF, 0] * 7 + [LEAF, LEAF])
    return Tree(features, np.zeros(len(features), np.uint8), np.zeros((9, tree.sums.shape[1]), np.int64))


def with_fewer_sums(tree: Tree) -> Tree:
    return Tree(tree.features, tree.cuts, tree.sums[:, :2])


def open_again(tree: Tree) -> Tree:
    return Tree(np.array([-2]), np.zeros(1, np.uint8), tree.sums[:0])


def without_a_tree(forest: SavedForest) -> SavedForest:
    store_of(forest, "CS").trees.pop()
    return forest


def one_tree_more(forest: SavedForest) -> SavedForest:
    trees = store_of(forest, "CS").trees
    trees.append((len(trees), trees[0][1]))
    return forest


def half_a_tree(forest: SavedForest) -> SavedForest:
    trees = store_of(forest, "CS").trees
    trees[0] = (0, trees[0][1][:-1])
    return forest


def other_bins(forest: SavedForest) -> SavedForest:
    bins = store_of(forest, "CS").bins
    feature, chunk, data = bins[0]
    bins[0] = (feature, chunk, data[::-1])
    return forest


def fewer_bins(forest: SavedForest) -> SavedForest:
    bins = store_of(forest, "CS").bins
    bins[0] = (*bins[0][:2], bins[0][2][:-1])
    return forest


def without_a_column(forest: SavedForest) -> SavedForest:
    store_of(forest, "CS").columns.pop()
    return forest


def exchanged_columns(forest: SavedForest) -> SavedForest:
    columns = store_of(forest, "CS").columns
    columns[0], columns[1] = (columns[0][0], *columns[1][1:]), (columns[1][0], *columns[0][1:])
    return forest


def without_books(forest: SavedForest) -> SavedForest:
    facts = store_of(forest, "bank").facts
    facts[:] = [(name, value) for name, value in facts if name != "books"]
    return forest


def book_of_somebody_else(forest: SavedForest) -> SavedForest:
    books = dict(store_of(forest, "telco").facts)["books"]
    store_of(forest, "bank").facts.append(("books", books))
    return forest


def forged_book(forest: SavedForest) -> SavedForest:
    """The owner's line says something else than it has signed, and CS's too."""
    books = msgspec.msgpack.decode(dict(store_of(forest, "bank").facts)["books"], type=list[Book])
    line = msgspec.structs.replace(books[0].line, n_cuts=254)
    books[0] = msgspec.structs.replace(books[0], line=line)
    store_of(forest, "bank").facts.append(("books", msgspec.msgpack.encode(books)))
    columns = store_of(forest, "CS").columns
    [place] = [i for i, row in enumerate(columns) if row[0] == line.feature]
    columns[place] = (line.feature, msgspec.msgpack.encode(line), *columns[place][2:])
    return forest


def other_thresholds(forest: SavedForest) -> SavedForest:
    """Not even as many as the owner has signed."""
    books = msgspec.msgpack.decode(dict(store_of(forest, "bank").facts)["books"], type=list[Book])
    books[0] = msgspec.structs.replace(books[0], thresholds=books[0].thresholds[8:])
    store_of(forest, "bank").facts.append(("books", msgspec.msgpack.encode(books)))
    return forest


def odd_thresholds(forest: SavedForest) -> SavedForest:
    books = msgspec.msgpack.decode(dict(store_of(forest, "bank").facts)["books"], type=list[Book])
    books[0] = msgspec.structs.replace(books[0], thresholds=books[0].thresholds[:-1])
    store_of(forest, "bank").facts.append(("books", msgspec.msgpack.encode(books)))
    return forest


@pytest.mark.parametrize(
    "change",
    [
        changed_tree(with_other_feature),
        changed_tree(with_cut_beyond),
        changed_tree(with_other_sums),
        changed_tree(too_deep),
        changed_tree(with_fewer_sums),
        changed_tree(open_again),
        without_a_tree,
        one_tree_more,
        half_a_tree,
        other_bins,
        fewer_bins,
        without_a_column,
        exchanged_columns,
        without_books,
        book_of_somebody_else,
        forged_book,
        other_thresholds,
        odd_thresholds,
    ],
    ids=[
        "another feature",
        "another cut",
        "other sums",
        "too deep",
        "fewer sums",
        "an open node",
        "a tree is missing",
        "one tree more",
        "half a tree",
        "other bins",
        "fewer bins",
        "a column is missing",
        "columns exchanged",
        "no books",
        "books of somebody else",
        "a forged line",
        "a threshold is missing",
        "half a threshold",
    ],
)
def test_file_whose_parts_do_not_fit_together_is_refused(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "forest"
    fitted().save(path, private_keys=True)
    tampered(path, change)
    with pytest.raises(ModelFileError) as caught:
        RevocableForestClassifier.load(path)
    assert caught.value.kind in ("malformed", "digest")
    assert str(path) in str(caught.value)


# -- directories ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_forest_in_a_directory_is_opened_and_left_like_one_in_memory(tmp_path: Path, level: Any) -> None:
    kept = fitted(directory=tmp_path / "forest", n_cuts=20)
    model = fitted(n_cuts=20)
    assert kept.digest_ == model.digest_
    kept = again(kept)
    preview = kept.revocation_preview("bank")
    kept.revoke("bank", level)
    kept = again(kept)
    model.revoke("bank", level)
    assert kept.digest_ == preview.digest_after == model.digest_
    assert kept.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert not list((tmp_path / "forest").glob("participant-bank-*"))
    kept.close()


def test_forest_saved_from_a_directory_is_the_same(tmp_path: Path) -> None:
    kept = fitted(directory=tmp_path / "forest")
    kept.save(tmp_path / "file", private_keys=True)
    kept.close()
    loaded = RevocableForestClassifier.load(tmp_path / "file")
    loaded.revoke("bank")
    assert loaded.digest_ == without_bank().digest_


@pytest.mark.parametrize("error", [KeyboardInterrupt, ProtocolError])
def test_training_that_was_interrupted_is_resumed_with_the_limits_of_its_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    from revfrf.protocols import shares

    def interrupted(*_: Any) -> None:
        raise error() if error is KeyboardInterrupt else ProtocolError("not now", kind="order")

    with monkeypatch.context() as patch:
        patch.setattr(shares, "ask_bins", interrupted)
        patch.setattr("revfrf.storage.directory.Directory.abandon", lambda stores: stores.close())
        with pytest.raises(error):
            fitted(directory=tmp_path / "forest", n_cuts={0: 3, 2: 4})
    resumed = RevocableForestClassifier.open(tmp_path / "forest")
    assert resumed.digest_ == fitted(n_cuts={0: 3, 2: 4}).digest_
    assert len(used(resumed, "bank")[0].cuts) == 3
    resumed.close()


def test_directory_of_another_kind_is_refused(tmp_path: Path) -> None:
    fitted(directory=tmp_path / "forest").close()
    with pytest.raises(StorageError, match="RevocableForestClassifier") as caught:
        RevocableForestRegressor.open(tmp_path / "forest")
    assert caught.value.kind == "wrong-kind"
