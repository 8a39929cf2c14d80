"""The audit of a forest in one process: what it finds, and what it cannot be done for."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.crypto.signing import SigningKey
from revfrf.errors import StorageError, UsageError
from revfrf.forest.tree import LEAF, Tree
from revfrf.protocols.bins import bins_digest, new_salt
from revfrf.protocols.shares import SharesCoordinator
from revfrf.testing.federations import prepared_keys
from tests.estimators.directories import LEVELS, NUMBERS, PARTIES, X, Y, again, file_of
from tests.estimators.toys import classifier as of_paper
from tests.storage.tampering import edit, edit_data, fields, recompute_checksums, with_byte

CHECKS = ("event certificates", "inputs", "bins", "used cuts", "forest")


def fitted(**parameters: Any) -> RevocableForestClassifier:
    """A small forest of the shares protocol."""
    settings: dict[str, Any] = {"max_depth": 5, "max_features": 0.5, "random_state": 0, "parties": PARTIES}
    return RevocableForestClassifier(6, **(settings | parameters)).fit(X, Y)


def check_audit(model: Any) -> None:
    """All of it holds, and everybody has signed."""
    found = model.audit()
    assert (found.holds, found.problems, found.checks) == (True, {}, CHECKS)
    assert (found.digest, found.missing_receipts) == (model.digest_, ())


# -- what holds -------------------------------------------------------------------------------------


def test_audit_holds_after_fit_and_changes_nothing() -> None:
    model = fitted()
    certificates, salts = model.certificates_, dict(model.federation_.coordinator.store.used_salts)
    check_audit(model)
    assert (model.certificates_, model.federation_.coordinator.store.used_salts) == (certificates, salts)
    assert model.audit(model.kgc_key_).holds


def test_audit_holds_for_numbers_weights_and_rows_with_numbers_of_their_own() -> None:
    model = RevocableForestRegressor(4, max_depth=4, random_state=0, parties=PARTIES)
    check_audit(model.fit(X, NUMBERS, np.arange(len(X)) % 3.0, row_numbers=np.arange(len(X)) * 7))


@pytest.mark.parametrize("level", LEVELS)
def test_audit_holds_after_each_leaving_and_when_the_forest_comes_from_a_file(
    tmp_path: Path, level: Any
) -> None:
    model = fitted()
    for leaver in ("bank", "shop"):
        model.revoke(leaver, level)
        check_audit(model)
        model.save(tmp_path / leaver, private_keys=True)
        check_audit(RevocableForestClassifier.load(tmp_path / leaver))


@pytest.mark.parametrize("level", LEVELS)
def test_audit_holds_in_a_directory_that_is_opened_again(tmp_path: Path, level: Any) -> None:
    model = again(fitted(directory=tmp_path / "forest"))
    check_audit(model)
    model.revoke("bank", level)
    model = again(model)
    check_audit(model)
    model.close()


def test_receipt_that_is_missing_is_listed_and_is_no_fault() -> None:
    model = fitted()
    cs = model.federation_.coordinator
    [certificate] = cs.certificates
    receipts = tuple(receipt for receipt in certificate.receipts if receipt.party != "shop")
    cs.certificates = (msgspec.structs.replace(certificate, receipts=receipts),)
    found = model.audit()
    assert (found.holds, found.missing_receipts) == (True, ("shop",))


# -- what cannot be audited -------------------------------------------------------------------------


def test_forest_of_the_paper_protocol_is_not_audited() -> None:
    with prepared_keys():
        model = of_paper(2, parties=PARTIES).fit(X, Y)
    with pytest.raises(UsageError, match="a forest of the paper protocol cannot be audited"):
        model.audit()


def test_file_without_rows_is_not_audited(tmp_path: Path) -> None:
    fitted().save(tmp_path / "forest")
    loaded = RevocableForestClassifier.load(tmp_path / "forest")
    with pytest.raises(UsageError, match="without training rows"):
        loaded.audit()


# -- what does not hold -----------------------------------------------------------------------------


def other_tree(cs: Any) -> None:
    """A tree with another cut, which exists, and which no tree uses."""
    tree, cuts = cs.store.trees[0], cs.store.trees[0].cuts.copy()
    feature = cs.side.forest.features[tree.features[0]]
    used = cs.side.forest.used_cuts()[feature]
    cuts[0] = next(cut for cut in range(cs.store.bins[feature].line.n_cuts) if cut not in used)
    cs.store.trees[0] = Tree(tree.features, cuts, tree.sums)


def tree_that_no_forest_has(cs: Any) -> None:
    tree = cs.store.trees[0]
    features = tree.features.copy()
    features[np.flatnonzero(features >= 0)[0]] = 77
    cs.store.trees[0] = Tree(features, tree.cuts, tree.sums)


def pruned_tree(cs: Any) -> None:
    """A tree that is a leaf, with the right sums."""
    tree = cs.store.trees[0]
    cs.store.trees[0] = Tree(np.array([LEAF]), np.zeros(1, np.uint8), tree.sums.sum(axis=0, keepdims=True))


def other_labels(cs: Any) -> None:
    cs.targets = replace(cs.targets, values=np.roll(cs.targets.values, 1))


def other_weights(cs: Any) -> None:
    cs.targets = replace(cs.targets, weights=np.roll(cs.targets.weights * np.arange(len(Y)), 1))


def other_bins(cs: Any) -> None:
    held = cs.store.bins["bank/x0"]
    cs.store.bins["bank/x0"] = held._replace(bins=held.bins[::-1].copy())


def bins_with_their_own_line(cs: Any) -> None:
    """CS changes the signed line, too."""
    held = cs.store.bins["bank/x0"]
    bins = held.bins[::-1].copy()
    line = msgspec.structs.replace(held.line, bins=bins_digest(held.salt, bins.tobytes()))
    cs.store.bins["bank/x0"] = held._replace(bins=bins, line=line)


def fewer_bins(cs: Any) -> None:
    held = cs.store.bins["bank/x0"]
    cs.store.bins["bank/x0"] = held._replace(bins=held.bins[:-1])


def no_bins(cs: Any) -> None:
    del cs.store.bins["bank/x0"]


def other_seed(cs: Any) -> None:
    cs.resume(msgspec.structs.replace(cs.record, seed=bytes(32)))


def other_rules(cs: Any) -> None:
    rules = msgspec.structs.replace(cs.plan.rules, min_samples_leaf=9)
    cs.resume(
        msgspec.structs.replace(cs.record, opening=msgspec.structs.replace(cs.record.opening, rules=rules))
    )


def other_salt(cs: Any) -> None:
    cs.resume(msgspec.structs.replace(cs.record, salt=new_salt()))


def other_salt_of_inputs(cs: Any) -> None:
    cs.resume(msgspec.structs.replace(cs.record, inputs_salt=new_salt()))


def other_salt_of_used_cuts(cs: Any) -> None:
    cs.store.used_salts["bank"] = new_salt()


def no_creation(cs: Any) -> None:
    cs.certificates = cs.certificates[1:]


def no_leaving(cs: Any) -> None:
    cs.certificates = cs.certificates[:1]


def forged_receipt(cs: Any) -> None:
    *earlier, last = cs.certificates
    forged = tuple(msgspec.structs.replace(receipt, signature=bytes(64)) for receipt in last.receipts)
    cs.certificates = (*earlier, msgspec.structs.replace(last, receipts=forged))


TAMPERED: dict[Callable[[Any], None], set[str]] = {
    other_tree: {"used cuts", "forest"},
    tree_that_no_forest_has: {"bins", "used cuts", "forest"},
    pruned_tree: {"used cuts", "forest"},
    other_labels: {"inputs", "forest"},
    other_weights: {"inputs", "forest"},
    other_bins: {"bins", "used cuts", "forest"},
    bins_with_their_own_line: {"inputs", "forest"},
    fewer_bins: {"bins", "used cuts", "forest"},
    no_bins: {"inputs", "bins", "used cuts", "forest"},
    other_seed: {"inputs", "forest"},
    other_rules: {"inputs", "forest"},
    other_salt: {"forest"},
    other_salt_of_inputs: {"inputs"},
    other_salt_of_used_cuts: {"used cuts"},
    no_creation: {"event certificates"},
    no_leaving: {"event certificates", "inputs", "used cuts", "forest"},
    forged_receipt: {"event certificates"},
}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda tamper: tamper.__name__)
def test_audit_names_what_does_not_hold(tamper: Callable[[Any], None]) -> None:
    model = fitted(parties={"bank": [0, 4], "telco": [1, 3], "shop": [2]})
    model.revoke("telco")
    tamper(model.federation_.coordinator)
    found = model.audit()
    assert not found.holds
    assert found.problems.keys() == TAMPERED[tamper]
    assert found.digest == ("" if "bins" in found.problems else model.digest_)


def test_key_of_another_key_centre_does_not_hold() -> None:
    found = fitted().audit(SigningKey.generate().verify_key)
    assert found.problems.keys() == {"event certificates"}


def test_coordinator_that_grows_another_forest_than_its_inputs_define_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its certificates are valid, and everybody has signed."""
    grow = SharesCoordinator.grow

    def lazily(side: SharesCoordinator, progress: Any) -> None:
        plan = side.seat.plan
        side.seat.plan = replace(plan, rules=msgspec.structs.replace(plan.rules, max_depth=2))
        grow(side, progress)
        side.seat.plan = plan

    with monkeypatch.context() as patched:
        patched.setattr(SharesCoordinator, "grow", lazily)
        model = fitted()
    model.certificates_[0].verify(model.kgc_key_)
    found = model.audit()
    assert found.problems.keys() == {"forest"}
    assert found.missing_receipts == ()


# -- directories that were changed by hand ----------------------------------------------------------


BY_HAND: dict[str, Callable[[Path], None]] = {
    "a leaf of a tree": lambda place: edit_data(
        file_of(place, "cs"), "trees", lambda data: with_byte(data, len(data) - 8)
    ),
    "a label": lambda place: edit(
        file_of(place, "cs"), "targets", fields(values=lambda values: values[8:] + values[:8])
    ),
    "a bin": lambda place: edit_data(file_of(place, "cs"), "bins", lambda data: data[1:] + data[:1]),
    "the seed": lambda place: edit(file_of(place, "cs"), "forest", fields(seed=with_byte)),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_directory_that_was_changed_by_hand_is_not_opened_or_does_not_hold(tmp_path: Path, what: str) -> None:
    """Although every checksum is right."""
    fitted(directory=tmp_path / "forest").close()
    BY_HAND[what](tmp_path / "forest")
    recompute_checksums(file_of(tmp_path / "forest", "cs"))
    with suppress(StorageError):
        model = RevocableForestClassifier.open(tmp_path / "forest")
        assert not model.audit().holds
        model.close()
