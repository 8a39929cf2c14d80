"""Forests in directories: the same as in memory, opened again as they were, and nothing else ever opened."""

import gc
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from revfrf import RevocableForestClassifier, RevocableForestRegressor, estimator_base
from revfrf.crypto.signing import SigningKey
from revfrf.errors import (
    AbsentError,
    InsecureKeyError,
    RefusedError,
    RejectedError,
    StorageError,
    UsageError,
)
from revfrf.federation import Federation
from revfrf.forest import criterion
from revfrf.messages.base import Message
from revfrf.messages.enrolment import Admission
from revfrf.messages.prediction import MaskedComparisons, PredictRequest, ShareRequest
from revfrf.messages.revocation import Level
from revfrf.names import CC, CS
from revfrf.protocols.request import RequestPolicy
from revfrf.roles.coordinator import Coordinator
from revfrf.roles.participant import TRAINING
from revfrf.storage import database as database_module
from revfrf.transport.memory import MemoryChannel
from tests.estimators.toys import classifier, frame, regressor, signs, table
from tests.federations import no_search_for_primes
from tests.storage.tampering import by_hand, edit, seal_again

LEVELS: tuple[Level, ...] = (1, 2)
X = table(120, 5)
Y = signs(X) + (X[:, 2] > 1)
NUMBERS = X[:, 0] + X[:, 2] / 2
PARTIES = {"bank": [0, 4], "telco": [1, 3], "shop": [2]}
ROWS = X[:2]


@pytest.fixture(scope="module", autouse=True)
def _prepared_moduli() -> Iterator[None]:
    with no_search_for_primes():
        yield


def opened(directory: Path) -> Any:
    return RevocableForestClassifier.open(directory)


def again(model: Any) -> Any:
    """The model, closed and opened again."""
    model.close()
    return type(model).open(model.directory)


def file_of(directory: Path, party: str) -> Path:
    """A party's database."""
    if party in ("kgc", "cs", "cc"):
        return directory / f"{party}.db"
    [file] = directory.glob(f"*-{party}-*.db")
    return file


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Closed directories: a forest, one of another federation, and the first after the bank has left."""
    made = {name: tmp_path_factory.mktemp("made") / name for name in ("first", "other", "left 1", "left 2")}
    for name in ("first", "other"):
        classifier(6, parties=PARTIES, directory=made[name]).fit(X, Y).close()
    for level in LEVELS:
        name = f"left {level}"
        shutil.copytree(made["first"], made[name])
        model = opened(made[name])
        model.revoke("bank", level)
        model.close()
    return made


@pytest.fixture
def directory(made_before: dict[str, Path], tmp_path: Path) -> Path:
    """A closed forest, for one test alone."""
    return Path(shutil.copytree(made_before["first"], tmp_path / "forest"))


def in_memory() -> Any:
    return classifier(6, parties=PARTIES).fit(X, Y)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as caught:
        call()
    return caught.value.kind


def same_answers(model: Any, other: Any, rows: Any = X, encrypted: Any = ROWS) -> None:
    """Both are the same forest; `encrypted` are rows to ask about, None for no request."""
    assert model.digest_ == other.digest_
    assert model.n_nodes_ == other.n_nodes_
    assert model.parties_ == other.parties_
    classes = isinstance(other, RevocableForestClassifier)
    assert model.predict(rows).tolist() == other.predict(rows).tolist()
    if classes:
        assert model.classes_.tolist() == other.classes_.tolist()
        assert model.classes_.dtype == other.classes_.dtype
        assert model.predict_proba(rows).tobytes() == other.predict_proba(rows).tobytes()
    if encrypted is not None:
        ask, expected = (
            ("predict_proba_encrypted", "predict_proba") if classes else ("predict_encrypted", "predict")
        )
        assert getattr(model, ask)(encrypted).tobytes() == getattr(other, expected)(encrypted).tobytes()


# -- the same forest --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "target"), [(classifier, Y), (regressor, NUMBERS)], ids=["classifier", "regressor"]
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_forest_in_a_directory_is_the_one_in_memory(
    tmp_path: Path, make: Callable[..., Any], target: Any, n_jobs: int
) -> None:
    kept = make(6, parties=PARTIES, directory=tmp_path / "new" / "forest", n_jobs=n_jobs).fit(X, target)
    memory = make(6, parties=PARTIES).fit(X, target)
    same_answers(kept, memory)
    for _ in range(2):
        kept = again(kept)
        same_answers(kept, memory)
    kept.close()


FORESTS: dict[str, Callable[..., Any]] = {
    "soft votes": lambda **d: classifier(5, voting="soft", **d).fit(X, Y),
    "class weights": lambda **d: classifier(5, class_weight={0: 1, 1: 3, 2: 0.5}, **d).fit(X, Y),
    "balanced classes": lambda **d: classifier(5, class_weight="balanced", **d).fit(X, Y),
    "row weights": lambda **d: classifier(5, **d).fit(X, Y, np.arange(len(X)) % 4),
    "weighted numbers": lambda **d: regressor(5, **d).fit(X, NUMBERS, np.arange(len(X)) % 3 / 7),
    "no bootstrap": lambda **d: classifier(5, bootstrap=False, max_features=0.5, **d).fit(X, Y),
    "names of classes": lambda **d: classifier(5, **d).fit(X, np.array(["no", "yes", "maybe"])[Y]),
    "two truths": lambda **d: classifier(5, **d).fit(X, Y > 0),
    "objects": lambda **d: classifier(5, **d).fit(X, np.array(["no", "yes", "maybe"], dtype=object)[Y]),
    "missing values": lambda **d: classifier(5, **d).fit(np.where(X > 1.2, np.nan, X), Y),
    "decimals by column": lambda **d: classifier(5, decimals={0: 1, 4: 0}, **d).fit(X, Y),
    "evenly spaced": lambda **d: regressor(5, candidates="uniform", n_candidates=9, **d).fit(X, NUMBERS),
    "one leaf": lambda **d: regressor(3, **d).fit(X, np.full(len(X), 7.25)),
    "stumps of all trees": lambda **d: classifier(9, max_depth=1, **d).fit(X, Y),
    "no limit of depth": lambda **d: regressor(3, max_depth=None, min_samples_leaf=1, **d).fit(X, NUMBERS),
}


@pytest.mark.parametrize("name", FORESTS)
def test_forest_of_any_kind_is_opened_as_it_was(tmp_path: Path, name: str) -> None:
    kept = again(FORESTS[name](parties=PARTIES, directory=tmp_path))
    memory = FORESTS[name](parties=PARTIES)
    same_answers(kept, memory)
    for party in ("telco", "bank"):
        kept.revoke(party, 1)
        memory.revoke(party, 1)
        same_answers(kept, memory, encrypted=None)
    kept.close()


def people() -> Any:
    rng = np.random.default_rng(4)
    a = np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60))
    b = pd.Categorical(rng.choice(["red", "green", "größte \U0001f33b"], 60))
    b[::9] = None
    return frame(a=a, b=b, c=pd.array(rng.integers(0, 9, 60), dtype="Int64"))


def test_tables_with_categories_and_missing_values_are_read_as_before(tmp_path: Path) -> None:
    rows = people()
    labels = np.where(rows["b"].astype(str) == "red", "yes", np.where(rows["c"] > 4, "no", "perhaps"))
    parties = {"bank": ["a", "c"], "telco": ["b"]}
    memory = classifier(7, parties=parties).fit(rows, labels)
    kept = again(classifier(7, parties=parties, directory=tmp_path).fit(rows, labels))
    asked = rows.head(20).assign(b=["violet", *rows["b"].head(19)], c=[None, *rows["c"].head(19)])
    same_answers(kept, memory, asked, asked.head(4))
    assert kept.feature_names_in_.tolist() == ["a", "b", "c"]
    for model in (kept, memory):
        model.revoke("telco")
    kept = again(kept)
    same_answers(kept, memory, asked.drop(columns="b"), asked.head(4))
    assert kept.predict(asked).tolist() == memory.predict(asked.drop(columns="b")).tolist()
    kept.close()


def test_one_party_a_column_and_names_of_any_kind_are_kept(tmp_path: Path) -> None:
    named = {"Ämter & Söhne": [0], "a b": [1], "..x": [2], "x" * 100: [3], "'; --": [4]}
    for number, parties in enumerate((None, named)):
        kept = again(classifier(4, parties=parties, directory=tmp_path / str(number)).fit(X, Y))
        same_answers(kept, classifier(4, parties=parties).fit(X, Y))
        kept.revoke(next(iter(kept.parties_)), 1)
        assert len(again(kept).parties_) == 4
        kept.close()


def test_parties_are_in_the_order_in_which_they_were_given(directory: Path) -> None:
    model = opened(directory)
    assert list(model.parties_) == list(PARTIES)
    model.revoke("telco", 1)
    model = again(model)
    assert list(model.parties_) == ["bank", "shop"]
    model.close()


def test_directory_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "new" / "forest"
    model = classifier(2, parties=PARTIES, directory=place).fit(X, Y)
    model.predict_encrypted(ROWS)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    model.close()
    names = sorted(file.name.split("-")[0] for file in place.iterdir())
    assert names == ["cc.db", "cs.db", "kgc.db", *["participant"] * 3, "requester.db"]


def test_each_party_keeps_its_own_secrets_and_nobody_elses(tmp_path: Path) -> None:
    model = classifier(4, parties=PARTIES, directory=tmp_path, decimals=15).fit(X, Y)
    federation = model.federation_
    of: dict[str, list[bytes]] = {"kgc": [federation.kgc.signing.export().hex().encode()]}  # type: ignore[union-attr]
    for name, role in (("cs", federation.coordinator), ("cc", federation.compute)):
        of[name] = [
            role.identity.share.to_fields()["value"].encode(),
            role.identity.weak.to_fields()["sk"].encode(),
        ]
    for name, owner in federation.participants.items():
        cuts = [
            cut.to_bytes(8, "big", signed=True) for _, cut in owner.store.cuts.values() if abs(cut) > 2**47
        ]
        rows = owner.tables[TRAINING].astype("<i8").tobytes()
        of[name] = [owner.secret, owner.identity.weak.to_fields()["sk"].encode(), rows, *cuts]
    model.close()
    for name, secrets in of.items():
        data = file_of(tmp_path, name).read_bytes()
        assert [secret for secret in secrets if secret[:40] not in data] == []
        for other, theirs in of.items():
            if other != name:
                assert [secret for secret in theirs if secret[:40] in data] == []


# -- where a forest may be kept ---------------------------------------------------------------------


@pytest.mark.parametrize("content", ["a file", "a directory", "a hidden file", "a forest"])
def test_directory_that_is_not_empty_is_refused_before_any_work(
    directory: Path, tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    match content:
        case "a file":
            (place / "notes.txt").write_text("mine")
        case "a directory":
            (place / "notes").mkdir()
        case "a hidden file":
            (place / ".notes").write_text("mine")
        case _:
            place = directory
    before = {file: file.stat().st_mtime_ns for file in place.iterdir()}
    bytes_before = {file: file.read_bytes() for file in before if file.is_file()}
    monkeypatch.setattr(estimator_base, "keys_of_size", lambda *_: pytest.fail("keys were searched for"))
    model = classifier(parties=PARTIES, directory=place)
    with pytest.raises(UsageError, match="is not empty; `open` the forest that is in it"):
        model.fit(X, Y)
    assert {file: file.stat().st_mtime_ns for file in place.iterdir()} == before
    assert {file: file.read_bytes() for file in bytes_before} == bytes_before
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        with pytest.raises(StorageError):
            classifier(directory=place).fit(X, Y)
        assert refused(lambda place=place: opened(place)) == "wrong-kind"  # type: ignore[misc]
    assert file.read_text() == "mine"


@pytest.mark.parametrize("value", [5, b"bytes", ["list"], True])
def test_directory_is_a_path(value: Any) -> None:
    with pytest.raises(ValueError, match="directory"):
        classifier(directory=value).fit(X, Y)


def test_second_fit_into_a_directory_is_refused_and_the_first_forest_stays(tmp_path: Path) -> None:
    model: Any = classifier(6, parties=PARTIES, directory=tmp_path / "d").fit(X, Y)
    digest = model.digest_
    for attempt in (model, clone(model)):
        with pytest.raises(UsageError, match="is not empty"):
            attempt.fit(X, -Y)
    assert model.digest_ == digest
    model.revoke("telco", 1)
    model.set_params(directory=tmp_path / "e").fit(X, Y)
    assert model.digest_ == digest
    assert opened_after_all(tmp_path / "e") == "in-use"
    model.close()


def opened_after_all(directory: Path) -> str:
    """Why a directory cannot be opened; "" if it can."""
    try:
        opened(directory).close()
    except StorageError as error:
        return error.kind
    return ""


def test_forest_that_is_fitted_elsewhere_lets_go_of_its_directory_when_closed(tmp_path: Path) -> None:
    model = classifier(3, parties=PARTIES, directory=tmp_path / "d").fit(X, Y)
    first = model.federation_
    model.set_params(directory=None).fit(X, Y)
    model.close()
    first.shelf.close()
    assert opened_after_all(tmp_path / "d") == ""


def test_path_may_be_of_any_kind_and_is_a_parameter_like_others(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    for place in (directory, str(directory), directory.name, Path(directory.name)):
        model: Any = RevocableForestClassifier.open(place)
        assert Path(model.directory).samefile(directory)
        parameters = model.get_params()
        assert parameters["n_estimators"] == 6
        assert parameters["parties"] == PARTIES
        copy = clone(model)
        assert copy.get_params() == parameters
        assert not hasattr(copy, "federation_")
        fresh = copy.set_params(directory=None).fit(X, Y)
        assert fresh.digest_ == model.digest_
        model.close()


def test_directory_is_found_when_the_process_has_gone_elsewhere(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths are meant from where the process was: the leaver's database is removed there."""
    monkeypatch.chdir(directory.parent)
    model: Any = RevocableForestClassifier.open(directory.name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    model.revoke("bank")
    assert list(directory.glob("*bank*")) == []
    model.enrol_requester("insurer")
    model.close()
    assert list(elsewhere.iterdir()) == []
    assert len(list(directory.glob("*insurer*"))) == 1
    assert opened_after_all(directory) == ""


def test_directory_with_anything_else_in_it_is_opened_all_the_same(directory: Path) -> None:
    (directory / "notes.txt").write_text("mine")
    model = opened(directory)
    model.revoke("bank")
    model.close()
    assert (directory / "notes.txt").read_text() == "mine"


def test_copy_of_a_directory_is_a_forest_of_its_own(directory: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(directory, tmp_path / "far" / "away"))
    shutil.move(directory, tmp_path / "moved")
    first, second = opened(copy), opened(tmp_path / "moved")
    assert Path(first.directory) == copy
    first.revoke("bank", 1)
    assert first.digest_ != second.digest_
    same_answers(second, in_memory())
    first.close()
    second.close()


# -- one at a time ----------------------------------------------------------------------------------


def test_open_forest_cannot_be_opened_again_until_it_is_closed(directory: Path) -> None:
    first = opened(directory)
    for _ in range(2):
        assert refused(lambda: opened(directory)) == "in-use"
    same_answers(first, in_memory())
    first.close()
    first.close()
    second = opened(directory)
    assert refused(lambda: opened(directory)) == "in-use"
    second.close()


def test_fitted_forest_cannot_be_opened_until_it_is_closed(tmp_path: Path) -> None:
    model = classifier(2, parties=PARTIES, directory=tmp_path).fit(X, Y)
    assert refused(lambda: opened(tmp_path)) == "in-use"
    model.close()
    assert opened(tmp_path).close() is None


def test_close_does_nothing_without_a_forest_or_without_a_directory(directory: Path) -> None:
    classifier(directory=directory).close()
    model = in_memory()
    model.close()
    same_answers(model, in_memory())
    model.revoke("bank", 1)


def test_closed_forest_changes_nothing_any_more(directory: Path) -> None:
    model = opened(directory)
    model.close()
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    for call, values in (
        (model.predict_encrypted, (ROWS,)),
        (model.enrol_requester, ("insurer",)),
        (model.set_policy, ("bank", RequestPolicy(max_rows=1))),
        (model.revoke, ("bank", 1)),
        (model.revoke, ("bank", 2)),
    ):
        with pytest.raises((StorageError, RefusedError)):
            call(*values)
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before
    model = opened(directory)
    same_answers(model, in_memory())
    model.close()


def test_another_process_opens_what_this_one_has_closed(directory: Path) -> None:
    code = """
import sys
from revfrf import RevocableForestClassifier
model = RevocableForestClassifier.open(sys.argv[1])
print(model.digest_, flush=True)
model.revoke("shop", level=1)
"""
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory = in_memory()
    assert done.stdout.strip() == memory.digest_
    memory.revoke("shop", 1)
    model = opened(directory)
    same_answers(model, memory)
    model.close()


# -- what is kept -----------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [(1, 1), (1, 2), (2, 1), (2, 2)], ids=str)
def test_participants_leave_opened_forests_as_they_leave_others(
    directory: Path, levels: tuple[Level, Level]
) -> None:
    """One leaves, then another after the forest was opened again; the certificates are kept and hold."""
    memory, model, digests = in_memory(), opened(directory), []
    for party, level in zip(("bank", "shop"), levels, strict=True):
        digests.append(model.digest_)
        certificate = model.revoke(party, level)
        memory.revoke(party, level)
        assert certificate.report.digest_before == digests[-1]
        assert certificate.report.digest_after == memory.digest_
        same_answers(model, memory)
        model = again(model)
        same_answers(model, memory)
        assert model.certificates_[-1] == certificate
        assert not list(directory.glob(f"*-{party}-*"))
    assert [certificate.leavers for certificate in model.certificates_] == [("bank",), ("shop",)]
    for certificate, digest in zip(model.certificates_, digests, strict=True):
        certificate.verify(model.kgc_key_)
        assert certificate.report.digest_before == digest
    assert model.federation_.coordinator.certificates == tuple(model.certificates_)
    with pytest.raises(UsageError, match="the last participant cannot leave"):
        model.revoke("telco")
    model.close()


def test_preview_of_leaving_is_the_same_when_opened(directory: Path) -> None:
    model, memory = opened(directory), in_memory()
    preview, expected = (m.revocation_preview("telco", X, Y) for m in (model, memory))
    for name in ("nodes", "nodes_lost", "trees_touched", "digest_after", "score_now", "score_without"):
        assert getattr(preview, name) == getattr(expected, name)
    model.close()


def test_opened_forest_is_saved_and_loaded_like_others(directory: Path, tmp_path: Path) -> None:
    model = opened(directory)
    model.save(tmp_path / "file", private_keys=True)
    loaded: Any = RevocableForestClassifier.load(tmp_path / "file")
    same_answers(loaded, model)
    assert loaded.directory is None
    model.close()


def test_policies_are_kept(directory: Path) -> None:
    policies = {
        "bank": RequestPolicy(refuses=["insurer"], max_rows=7),
        CC: RequestPolicy(accepts=["insurer", "requester"]),
        CS: RequestPolicy(max_rows=100),
    }
    model = opened(directory)
    for party, policy in policies.items():
        model.set_policy(party, RequestPolicy(max_rows=0))
        model.set_policy(party, policy)
    for level in (None, 1, 2):
        if level is not None:
            model.revoke("shop" if level == 1 else "telco", level)
        model = again(model)
        for name, role in model.federation_.with_policies.items():
            assert role.policy == policies.get(name, RequestPolicy())
    model.enrol_requester("insurer")
    with pytest.raises(RefusedError) as caught:
        model.predict_encrypted(ROWS, "insurer")
    assert caught.value.party == "bank"
    model.close()


def test_requesters_are_kept(directory: Path) -> None:
    model, memory = opened(directory), in_memory()
    model.enrol_requester("insurer").enrol_requester("telco")
    model.predict_encrypted(ROWS)
    keys = {name: r.identity.weak.public for name, r in model.federation_.requesters.items()}
    for _ in range(2):
        model = again(model)
        for name in ("insurer", "telco", "bank", None):
            assert model.predict_encrypted(ROWS, name).tobytes() == memory.predict(ROWS).tobytes()
        assert (
            keys.items()
            <= {name: r.identity.weak.public for name, r in model.federation_.requesters.items()}.items()
        )
        for name in ("insurer", "telco"):
            with pytest.raises(UsageError, match="is a requester already"):
                model.enrol_requester(name)
    for level in LEVELS:
        leaver = "shop" if level == 1 else "bank"
        model.revoke(leaver, level)
        memory.revoke(leaver, level)
        model = again(model)
        for name in ("insurer", "telco", None):
            assert model.predict_encrypted(ROWS, name).tobytes() == memory.predict(ROWS).tobytes()
        with pytest.raises(UsageError, match="is no requester here"):
            model.predict_encrypted(ROWS, leaver)
    model.close()


def test_name_of_a_requester_stays_its_own(directory: Path) -> None:
    model = opened(directory)
    model.enrol_requester("insurer")
    verify_key = model.federation_.requesters["insurer"].identity.signing_key.verify_key
    model = again(model)
    assert model.federation_.requesters["insurer"].identity.signing_key.verify_key == verify_key
    model.revoke("bank")
    model.predict_encrypted(ROWS, "insurer")
    assert model.federation_.kgc.state.requesters["insurer"] == verify_key.raw
    model.close()


def test_requester_whose_admission_was_lost_may_enrol_when_the_forest_is_opened_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, call = opened(directory), MemoryChannel.call

    def losing(channel: MemoryChannel, recipient: str, request: Message, reply_type: Any) -> Any:
        if isinstance(request, Admission):
            raise AbsentError(recipient, "is gone")
        return call(channel, recipient, request, reply_type)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryChannel, "call", losing)
        for call_of, value in ((model.enrol_requester, "insurer"), (model.predict_encrypted, ROWS)):
            with pytest.raises(AbsentError):
                call_of(value)
    model = again(model)
    model.enrol_requester("insurer")
    for requester in ("insurer", None):
        assert model.predict_encrypted(ROWS, requester).tobytes() == model.predict(ROWS).tobytes()
    model.close()


@pytest.mark.parametrize("party", ["bank", CS, CC])
def test_quota_is_not_reset_by_opening(directory: Path, party: str) -> None:
    """Everybody is asked about every row, for everybody has a split in every tree's way."""
    model = opened(directory)
    model.enrol_requester("insurer")
    model.set_policy(party, RequestPolicy(max_rows=8))
    model.predict_encrypted(X[:5], "insurer")
    for _ in range(2):
        model = again(model)
        with pytest.raises(RefusedError) as caught:
            model.predict_encrypted(X[:4], "insurer")
        assert caught.value.party == party
    model = again(model)
    assert len(model.predict_encrypted(X[5:8], "insurer")) == 3
    model = again(model)
    for n_rows in (1, 2):
        with pytest.raises(RefusedError):
            model.predict_encrypted(X[:n_rows], "insurer")
    assert len(model.predict_encrypted(X[:8], "telco")) == 8  # its quota is its own
    model.set_policy(party, RequestPolicy(max_rows=9))
    model = again(model)
    assert len(model.predict_encrypted(X[:1], "insurer")) == 1
    model.close()


def test_quota_begins_anew_with_an_epoch_and_not_with_its_opening(directory: Path) -> None:
    model = opened(directory)
    model.set_policy("telco", RequestPolicy(max_rows=len(ROWS)))
    for epoch, leaver in enumerate((None, "bank", "shop")):
        if leaver is not None:
            model.revoke(leaver, epoch)
            model = again(model)
        model.predict_encrypted(ROWS)
        model = again(model)
        with pytest.raises(RefusedError):
            model.predict_encrypted(ROWS[:1])
    model.close()


@pytest.mark.parametrize("kind", [PredictRequest, MaskedComparisons, ShareRequest])
def test_request_from_before_is_not_answered_after_opening(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Message]
) -> None:
    """Whoever has kept the messages sends them again: to CS, to CC, to the owners."""
    kept: list[tuple[str, str, Message, Any]] = []
    call = MemoryChannel.call

    def keeping(channel: MemoryChannel, recipient: str, request: Message, reply_type: Any) -> Any:
        if isinstance(request, kind):
            kept.append((channel.sender, recipient, request, reply_type))
        return call(channel, recipient, request, reply_type)

    model = opened(directory)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryChannel, "call", keeping)
        model.predict_encrypted(ROWS)
    assert kept
    for _ in range(2):
        for sender, recipient, request, reply_type in kept:
            with pytest.raises(RefusedError) as caught:
                model.federation_.network.channel(sender).call(recipient, request, reply_type)
            assert isinstance(caught.value.__cause__, RejectedError)
            assert caught.value.__cause__.kind == "replay"
        model = again(model)
    model.close()


# -- what goes wrong in training --------------------------------------------------------------------


class OurOwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OurOwnError, KeyboardInterrupt])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_training_that_was_interrupted_is_ended_by_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], level: int
) -> None:
    """The failing fit has closed its databases."""
    n_levels, grow = 0, Coordinator.grow

    def failing(*_: Any) -> None:
        nonlocal n_levels
        n_levels += 1
        if n_levels > level:
            raise error

    model = classifier(6, parties=PARTIES, directory=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Coordinator, "grow", lambda cs, _: grow(cs, failing))
        with pytest.raises(error):
            model.fit(X, Y)
    assert not hasattr(model, "federation_")
    finished = opened(tmp_path)
    same_answers(finished, in_memory())
    finished = again(finished)
    same_answers(finished, in_memory(), encrypted=None)
    finished.close()


def test_training_that_has_not_begun_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash; a fit that fails then leaves nothing behind."""
    place, image = tmp_path / "place", tmp_path / "image"

    def failing(*_: Any) -> None:
        shutil.copytree(place, image)
        raise OurOwnError

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "train", failing)
        with pytest.raises(OurOwnError):
            classifier(6, parties=PARTIES, directory=place).fit(X, Y)
    for _ in range(2):
        with pytest.raises(StorageError, match="training had not begun; remove the directory") as caught:
            opened(image)
        assert caught.value.kind == "missing"
    assert not place.exists()
    classifier(2, parties=PARTIES, directory=place).fit(X, Y).close()


def test_training_goes_on_when_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(database_module, "_PRAGMAS", (*database_module._PRAGMAS, "max_page_count = 17"))
        with pytest.raises((StorageError, RefusedError)) as caught:
            classifier(20, parties=PARTIES, directory=tmp_path).fit(X, Y)
        problem = caught.value if isinstance(caught.value, StorageError) else caught.value.__cause__
        assert isinstance(problem, StorageError)
        assert problem.kind == "full"
    model = opened(tmp_path)
    same_answers(model, classifier(20, parties=PARTIES).fit(X, Y))
    model.close()


@pytest.mark.parametrize(
    "fit",
    [
        lambda place: classifier(directory=place, parties={"a": [0]}).fit(X, Y),
        lambda place: classifier(directory=place).fit(X, Y[:-1]),
        lambda place: classifier(directory=place, key_bits=256, allow_insecure_keys=False).fit(X, Y),
        lambda place: classifier(directory=place, decimals=18).fit(X * 1000, Y),
        lambda place: regressor(directory=place, max_features=77).fit(X, NUMBERS),
    ],
    ids=[
        "a column of nobody",
        "too few labels",
        "short keys",
        "too large numbers",
        "features",
    ],
)
def test_fit_that_cannot_be_done_leaves_the_directory_empty(
    tmp_path: Path, fit: Callable[[Path], object]
) -> None:
    """So that another attempt may use it."""
    with pytest.raises(ValueError, match=r"."):
        fit(tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- what is not this forest ------------------------------------------------------------------------


def test_forest_of_another_class_is_refused(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds a RevocableForestClassifier, not a Revoc") as caught:
        RevocableForestRegressor.open(directory)
    assert caught.value.kind == "wrong-kind"
    regressor(2, parties=PARTIES, directory=tmp_path / "numbers").fit(X, NUMBERS).close()
    assert refused(lambda: opened(tmp_path / "numbers")) == "wrong-kind"
    assert opened_after_all(directory) == ""


def test_directory_that_is_not_there_or_empty_is_missing(tmp_path: Path) -> None:
    assert refused(lambda: opened(tmp_path / "nowhere")) == "missing"
    assert not (tmp_path / "nowhere").exists()
    assert refused(lambda: opened(tmp_path)) == "missing"
    assert list(tmp_path.iterdir()) == []


def test_database_that_others_can_read_is_refused_with_a_remedy(directory: Path) -> None:
    for file in directory.iterdir():
        file.chmod(0o640)
        with pytest.raises(StorageError, match="chmod 600") as caught:
            opened(directory)
        assert caught.value.kind == "mode"
        file.chmod(0o600)
    assert opened_after_all(directory) == ""


PARTS = ["kgc", "cs", "cc", "bank", "telco", "shop"]


@pytest.mark.parametrize("party", PARTS)
def test_directory_without_one_of_its_databases_is_refused_until_it_is_back(
    directory: Path, tmp_path: Path, party: str
) -> None:
    file = file_of(directory, party)
    file.rename(tmp_path / "away")
    assert refused(lambda: opened(directory)) == "missing"
    assert not file.exists()
    (tmp_path / "away").rename(file)
    model = opened(directory)
    same_answers(model, in_memory())
    model.close()


def test_directory_without_a_requesters_database_is_refused(directory: Path) -> None:
    model = opened(directory)
    model.enrol_requester("insurer")
    model.close()
    file_of(directory, "insurer").unlink()
    assert refused(lambda: opened(directory)) == "missing"


@pytest.mark.parametrize(
    ("one", "other"), [("bank", "telco"), ("bank", "shop"), ("cs", "cc"), ("cc", "shop"), ("kgc", "cc")]
)
def test_databases_that_have_changed_places_are_refused(directory: Path, one: str, other: str) -> None:
    first, second = file_of(directory, one), file_of(directory, other)
    between = directory / "between"
    first.rename(between)
    second.rename(first)
    between.rename(second)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


@pytest.mark.parametrize("party", PARTS)
def test_database_of_another_federation_is_refused(
    directory: Path, made_before: dict[str, Path], party: str
) -> None:
    shutil.copy(file_of(made_before["other"], party), file_of(directory, party))
    assert refused(lambda: opened(directory)) == "malformed"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("party", ["kgc", "cs", "cc", "telco", "shop"])
def test_database_from_before_a_revocation_is_refused(
    made_before: dict[str, Path], tmp_path: Path, party: str, level: Level
) -> None:
    place = Path(shutil.copytree(made_before[f"left {level}"], tmp_path / "forest"))
    assert opened_after_all(place) == ""
    shutil.copy(file_of(made_before["first"], party), file_of(place, party))
    assert refused(lambda: opened(place)) in ("malformed", "missing")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("party", ["kgc", "cs", "cc", "telco", "shop"])
def test_database_from_before_is_refused_even_if_the_leaver_had_no_node(
    tmp_path: Path, party: str, level: Level
) -> None:
    """Nothing of the forest has changed but its epoch and its keys."""
    rows = X.copy()
    rows[:, PARTIES["bank"]] = 7
    classifier(3, parties=PARTIES, directory=tmp_path / "first").fit(rows, Y).close()
    place = Path(shutil.copytree(tmp_path / "first", tmp_path / "left"))
    model = opened(place)
    assert model.revoke("bank", level).report.destroyed == 0
    model.close()
    assert opened_after_all(place) == ""
    shutil.copy(file_of(tmp_path / "first", party), file_of(place, party))
    assert refused(lambda: opened(place)) in ("malformed", "missing")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("parties", [["kgc"], ["kgc", "cc"], ["kgc", "cs"], ["kgc", "cs", "cc"]], ids=str)
def test_leaver_does_not_come_back_with_its_old_database(
    made_before: dict[str, Path], tmp_path: Path, parties: list[str], level: Level
) -> None:
    """Not even with some of the servers as they were, as long as a participant knows better."""
    place = Path(shutil.copytree(made_before[f"left {level}"], tmp_path / "forest"))
    for party in parties:
        shutil.copy(file_of(made_before["first"], party), file_of(place, party))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    assert refused(lambda: opened(place)) in ("malformed", "missing")


def test_database_of_a_leaver_that_is_put_back_is_removed_again(
    made_before: dict[str, Path], tmp_path: Path
) -> None:
    place = Path(shutil.copytree(made_before["left 1"], tmp_path / "forest"))
    old = file_of(made_before["first"], "bank")
    shutil.copy(old, place / old.name)
    model = opened(place)
    assert set(model.parties_) == {"telco", "shop"}
    model.close()
    assert not (place / old.name).exists()


# -- what was changed by hand -----------------------------------------------------------------------


def with_byte(data: bytes, at: int = 0, by: int = 1) -> bytes:
    """A byte of these, changed."""
    changed = bytearray(data)
    changed[at] ^= by
    return bytes(changed)


def fields(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change these fields of a record."""
    return lambda record: record | {name: change(record[name]) for name, change in changes.items()}


def cs(statement: str, *values: Any) -> Callable[[Path], None]:
    return lambda place: by_hand(file_of(place, "cs"), statement, values)


def bank(statement: str, *values: Any) -> Callable[[Path], None]:
    return lambda place: by_hand(file_of(place, "bank"), statement, values)


def fact(party: str, name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda place: edit(file_of(place, party), name, change)


def one_split(setting: str) -> Callable[[Path], None]:
    return cs(" ".join(["UPDATE splits SET", setting, "WHERE (tree, path) = (0, 1)"]))


def one_leaf(setting: str) -> Callable[[Path], None]:
    first = "WHERE (tree, path) = (SELECT tree, path FROM leaves ORDER BY tree, path LIMIT 1)"
    return cs(" ".join(["UPDATE leaves SET", setting, first]))


def one_cut(setting: str) -> Callable[[Path], None]:
    first = "WHERE (tree, path) = (SELECT tree, path FROM cuts ORDER BY tree, path LIMIT 1)"
    return bank(" ".join(["UPDATE cuts SET", setting, first]))


def turned_another_way(place: Path, wanted: Callable[[Any, Any], bool]) -> None:
    """At a split above two leaves, two rows that turn differently, chosen by number, change places."""
    model: Any = opened(place)
    store, targets = model.federation_.coordinator.store, model.federation_.coordinator.targets
    for (tree, path), split in sorted(store.splits.items()):
        if {(tree, 2 * path), (tree, 2 * path + 1)} <= store.leaves.keys():
            rows = rows_of(store, targets, tree, path)
            right = np.unpackbits(np.frombuffer(split.turns, np.uint8))[: len(rows)]
            weight = {row: (targets.values[row], targets.repeats[tree, row]) for row in rows}
            for i, j in np.ndindex(len(rows), len(rows)):
                if right[i] > right[j] and wanted(weight[rows[i]], weight[rows[j]]):
                    right[i], right[j] = right[j], right[i]
                    turns = np.packbits(right).tobytes()
                    model.close()
                    cs("UPDATE splits SET turns = ? WHERE tree = ? AND path = ?", turns, tree, path)(place)
                    return
    pytest.fail("no such rows")


def rows_of(store: Any, targets: Any, tree: int, path: int) -> list[int]:
    """The rows of a node."""
    rows: list[int] = targets.used(tree).tolist()
    for shift in range(path.bit_length() - 2, -1, -1):
        turns = np.unpackbits(np.frombuffer(store.splits[tree, path >> (shift + 1)].turns, np.uint8))
        rows = [row for row, turn in zip(rows, turns, strict=False) if turn == path >> shift & 1]
    return rows


BY_HAND: dict[str, Callable[[Path], object]] = {
    # leaves
    "a leaf's last sum": one_leaf("sums = CAST(substr(sums, 1, 23) || x'01' AS BLOB)"),
    "the leaves of one side and the other": cs(
        "UPDATE leaves SET path = path + 1 - 2 * (path % 2) + 1000 WHERE tree = 0"
    ),
    "a leaf of zeros": one_leaf("sums = zeroblob(24)"),
    "a leaf of two sums": one_leaf("sums = zeroblob(16)"),
    "a leaf of no sums": one_leaf("sums = x''"),
    "a leaf of half a sum": one_leaf("sums = x'01020304'"),
    "a leaf in another tree": one_leaf("tree = 99"),
    "a leaf in a tree below zero": one_leaf("tree = -1"),
    "a leaf elsewhere": one_leaf("path = path + 4611686018427387904"),
    "a leaf nowhere": one_leaf("path = 0"),
    "a leaf too many": cs("INSERT INTO leaves (tree, path, sums) VALUES (0, 1, zeroblob(24))"),
    # splits
    "a split's feature, of the same owner": cs(
        "UPDATE splits SET feature = 'bank/x4' WHERE feature = 'bank/x0'"
    ),
    "a split's feature, of nobody": one_split("feature = 'nobody/x'"),
    "a split's feature, nothing": one_split("feature = ''"),
    "a split's feature, no text": one_split("feature = CAST(x'ff' AS TEXT)"),
    "a split's owner": one_split("owner = iif(owner = 'bank', 'telco', 'bank')"),
    "a split of nobody": one_split("owner = 'nobody'"),
    "the number of a cut": one_split("cut = (cut + 1) % 5"),
    "a number of a cut that is too large": one_split("cut = 99999999"),
    "a number of a cut below zero": one_split("cut = -1"),
    "a ciphertext": one_split("ciphertext = zeroblob(96)"),
    "a ciphertext of another node": one_split(
        "ciphertext = (SELECT ciphertext FROM splits WHERE path > 1 LIMIT 1)"
    ),
    "a ciphertext of nothing": one_split("ciphertext = x''"),
    "an epoch": one_split("epoch = 2"),
    "an epoch below zero": one_split("epoch = -1"),
    "another batch": one_split("batch = (SELECT max(number) FROM batches WHERE number <> batch)"),
    "no batch": one_split("batch = 99999"),
    "another position": one_split("position = position + 1"),
    "a position below zero": one_split("position = -1"),
    "a split in a tree below zero": cs("UPDATE splits SET tree = -1 WHERE tree = 5"),
    "a split below the deepest": cs("UPDATE splits SET path = 4611686018427387904 WHERE path = 3"),
    "a signature": cs("UPDATE batches SET root = zeroblob(64)"),
    "a short signature": cs("UPDATE batches SET root = x'00'"),
    "hashes": cs("UPDATE batches SET leaves = zeroblob(length(leaves))"),
    "no hashes": cs("UPDATE batches SET leaves = x''"),
    "half a hash": cs("UPDATE batches SET leaves = x'01'"),
    # turns
    "a row that turns another way": lambda place: turned_another_way(place, lambda a, b: a[0] != b[0]),
    "two rows alike that turn another way": lambda place: turned_another_way(place, lambda a, b: a == b),
    "too few turns": one_split("turns = x'00'"),
    "no turns": one_split("turns = x''"),
    "too many turns": one_split("turns = zeroblob(5000)"),
    "turns all left": one_split("turns = zeroblob(length(turns))"),
    "no turns and a leaf less": lambda place: (
        cs("DELETE FROM leaves WHERE tree = 0")(place),
        one_split("turns = x''")(place),
    ),
    # labels
    "a label": fact(
        "cs", "targets", fields(values=lambda v: with_byte(v, 8 * int(np.flatnonzero(Y == 1)[3])))
    ),
    "a weight": fact("cs", "targets", fields(weights=lambda w: with_byte(w, 16, 3))),
    "a weight below zero": fact("cs", "targets", fields(weights=lambda w: b"\xff" * 8 + w[8:])),
    # what CS has fixed
    "a seed": fact("cs", "forest", fields(seed=lambda s: with_byte(s))),
    "more trees": fact("cs", "forest", fields(rules=fields(n_trees=lambda n: n + 1))),
    "deeper trees": fact("cs", "forest", fields(rules=fields(max_depth=lambda n: n + 1))),
    "larger leaves": fact("cs", "forest", fields(rules=fields(min_samples_leaf=lambda n: n + 1))),
    "more candidates": fact("cs", "forest", fields(rules=fields(candidate_limit=lambda n: n // 2))),
    "no bootstrap": fact("cs", "forest", fields(rules=fields(bootstrap=lambda b: not b))),
    "columns of nobody": fact("cs", "forest", fields(columns=lambda c: c | {"nobody": c["bank"]})),
    "no columns of the shop": fact(
        "cs", "forest", fields(columns=lambda c: {k: c[k] for k in ("bank", "telco")})
    ),
    "no columns": fact("cs", "forest", fields(columns=lambda _: {"bank": [], "telco": [], "shop": []})),
    "other decimals": fact(
        "cs", "forest", fields(columns=lambda c: c | {"bank": [c["bank"][0] | {"decimals": 1}, c["bank"][1]]})
    ),
    "another forest": fact("cs", "forest", fields(opening=fields(forest=lambda f: with_byte(f)))),
    # what the estimator has kept
    "names of classes": fact("cs", "estimator", fields(labels=lambda _: ["a", "b", "c"])),
    "classes in another order": fact("cs", "estimator", fields(labels=lambda labels: labels[::-1])),
    "too few names of classes": fact("cs", "estimator", fields(labels=lambda labels: labels[1:])),
    "types of classes": fact("cs", "estimator", fields(label_type=lambda _: "i4,(")),
    "columns of the estimator": fact(
        "cs", "estimator", fields(owned=lambda _: {"bank": [4, 0], "telco": [1, 3], "shop": [2]})
    ),
    "columns of two": fact(
        "cs", "estimator", fields(owned=lambda _: {"bank": [0, 1], "telco": [1, 3], "shop": [2]})
    ),
    "too few columns": fact(
        "cs", "estimator", fields(owned=lambda _: {"bank": [0], "telco": [1, 3], "shop": [2]})
    ),
    "columns of strangers": fact("cs", "estimator", fields(owned=lambda _: {"strangers": [0]})),
    "more features": fact("cs", "estimator", fields(n_features=lambda n: n + 1)),
    "parameters that there are not": fact("cs", "estimator", fields(parameters=lambda p: p | {"trees": 5})),
    "parameters that make no sense": fact(
        "cs", "estimator", fields(parameters=lambda p: p | {"n_jobs": "many"})
    ),
    # a participant
    "a cut": one_cut("cut = cut + 1"),
    "a cut far away": one_cut("cut = 9000000000000000000"),
    "a cut of the other side": one_cut("cut = -cut"),
    "a cut of another column": one_cut("feature = 1 - feature"),
    "a cut of no column": one_cut("feature = 77"),
    "a cut of a column below zero": one_cut("feature = feature - 2"),
    "a cut less": bank("DELETE FROM cuts WHERE tree = 0"),
    "a cut too many": bank("INSERT INTO cuts (tree, path, feature, cut) VALUES (77, 1, 0, 0)"),
    "a cut elsewhere": one_cut("path = path + 1000000"),
    "a value of a row": fact("bank", "column 0", lambda rows: with_byte(rows, 80, 0xFF)),
    "a row less": fact("bank", "column 0", lambda rows: rows[:-8]),
    "half a value": fact("bank", "column 0", lambda rows: rows[:-1]),
    "a row less of every column": lambda place: (
        fact("bank", "column 0", lambda rows: rows[:-8])(place),
        fact("bank", "column 1", lambda rows: rows[:-8])(place),
    ),
    "no rows": fact("bank", "column 0", lambda _: b""),
    "a name of a column": fact("bank", "columns", lambda c: [c[0] | {"name": "y"}, *c[1:]]),
    "a column less": fact("bank", "columns", lambda c: c[:1]),
    "a secret": fact("bank", "secret", lambda s: with_byte(s)),
    "no secret": fact("bank", "secret", lambda _: b""),
    "no forest": bank("DELETE FROM facts WHERE name = 'forest'"),
    "no identity": bank("DELETE FROM facts WHERE name = 'identity'"),
    "no rows at all": bank("DELETE FROM facts WHERE name = 'column 0'"),
    # keys
    "a signing key": fact("bank", "identity", fields(signing=lambda _: SigningKey.generate().to_fields())),
    "a signing key that is none": fact("bank", "identity", fields(signing=lambda _: {"seed": "xyz"})),
    "a weak key": fact("bank", "identity", fields(keys=fields(weak=lambda w: w | {"sk": "2"}))),
    "a weak key that is none": fact("bank", "identity", fields(keys=fields(weak=lambda w: w | {"sk": "x"}))),
    "a weak key of no modulus": fact("bank", "identity", fields(keys=fields(weak=lambda w: w | {"n": "f"}))),
    "half a weak key": fact("bank", "identity", fields(keys=fields(weak=lambda w: {"n": w["n"]}))),
    "no keys": fact("bank", "identity", fields(keys=lambda _: None)),
    "a strong share": fact("cc", "identity", fields(keys=fields(share=lambda s: s | {"value": "5"}))),
    "a strong share of the other server": fact(
        "cc", "identity", fields(keys=fields(share=lambda s: s | {"server": "CS"}))
    ),
    "no strong share": fact("cs", "identity", fields(keys=fields(share=lambda _: None))),
    "another name": fact("bank", "identity", fields(name=lambda _: "telco")),
    "another role": fact("bank", "identity", fields(role=lambda _: "CS")),
    "an unsigned certificate": fact(
        "bank", "identity", fields(certificate=fields(signature=lambda _: bytes(64)))
    ),
    "no certificate": fact("bank", "identity", fields(certificate=lambda _: None)),
    "another federation": fact("bank", "identity", fields(federation=lambda _: "another")),
    "another key centre": fact(
        "bank", "identity", fields(kgc=lambda _: SigningKey.generate().verify_key.raw)
    ),
    "another key of the key centre": fact("kgc", "signing", lambda _: SigningKey.generate().to_fields()),
    "a key centre without epochs": fact("kgc", "state", fields(certificates=lambda _: [])),
    "an epoch that nobody has signed": fact(
        "kgc", "state", fields(certificates=lambda c: [c[0] | {"signature": bytes(64)}])
    ),
    "a requester that is not there": fact("kgc", "state", fields(requesters=lambda _: {"nobody": bytes(32)})),
    "no forest of CC": lambda place: by_hand(file_of(place, "cc"), "DELETE FROM facts WHERE name = 'forest'"),
    "another forest of CC": fact("cc", "forest", fields(n_trees=lambda n: n + 1)),
    "a policy that is none": lambda place: by_hand(
        file_of(place, "cc"), "INSERT INTO facts (name, value) VALUES ('policy', x'a3616263')"
    ),
}


UNSEEN = {
    "the number of a cut",
    "two rows alike that turn another way",
    "larger leaves",
    "more candidates",
    "classes in another order",
    "columns of the estimator",
    "a cut",
    "a cut far away",
    "a cut of the other side",
    "a value of a row",
    "a secret",
    "no secret",
}
"""What fits together all the same: who changes it and seals it again could as well have trained so."""


@pytest.mark.parametrize("what", BY_HAND)
def test_forest_that_was_changed_by_hand_is_refused(directory: Path, what: str) -> None:
    BY_HAND[what](directory)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


@pytest.mark.parametrize("sealed", [False, True], ids=["", "sealed again"])
@pytest.mark.parametrize(
    "what", ["a leaf of half a sum", "no batch", "a label", "a cut less", "half a value"]
)
def test_refusal_holds_nothing_open_and_mends_nothing(directory: Path, what: str, sealed: bool) -> None:
    """It is refused again, for the same reason, and can be put right by whoever can."""
    good = {file: file.read_bytes() for file in directory.iterdir()}
    BY_HAND[what](directory)
    for file in directory.glob("*.db"):
        if sealed:
            seal_again(file)
    for _ in range(3):
        assert refused(lambda: opened(directory)) == "malformed"
    for file, data in good.items():
        file.write_bytes(data)
    assert opened_after_all(directory) == ""


@pytest.mark.parametrize("what", [w for w in BY_HAND if w not in UNSEEN and "no text" not in w])
def test_forest_whose_parts_do_not_fit_is_refused_although_each_is_sealed(directory: Path, what: str) -> None:
    BY_HAND[what](directory)
    for file in directory.glob("*.db"):
        seal_again(file)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


IMPOSSIBLE_LABELS: dict[str, Callable[[Path], object]] = {
    "a label of no class": fact("cs", "targets", fields(values=lambda v: with_byte(v, 0, 0x40))),
    "a label below zero": fact("cs", "targets", fields(values=lambda v: b"\xff" * 8 + v[8:])),
    "a label less": fact("cs", "targets", fields(values=lambda v: v[:-8])),
    "half a label": fact("cs", "targets", fields(values=lambda v: v[:-1])),
    "no labels": fact("cs", "targets", fields(values=lambda _: b"", weights=lambda _: b"")),
    "classes": fact("cs", "targets", fields(n_classes=lambda n: n - 1)),
    "many classes": fact("cs", "targets", fields(n_classes=lambda _: 2**40)),
    "no classes": fact("cs", "targets", fields(n_classes=lambda _: 0)),
}


@pytest.mark.parametrize("what", IMPOSSIBLE_LABELS)
def test_labels_that_no_forest_has_are_refused_before_anything_is_counted(
    directory: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled loops look at no bounds: such labels would have them write anywhere in memory."""
    monkeypatch.setattr(criterion, "_sums", lambda *_: pytest.fail("counted"))
    IMPOSSIBLE_LABELS[what](directory)
    seal_again(file_of(directory, "cs"))
    assert refused(lambda: opened(directory)) == "malformed"


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM leaves WHERE tree = 0"],
        ["DELETE FROM leaves"],
        ["DELETE FROM splits WHERE tree = 1 AND path = 1"],
        ["DELETE FROM splits WHERE tree % 2", "DELETE FROM leaves WHERE path % 2"],
        ["DELETE FROM splits", "DELETE FROM leaves"],
    ],
    ids=" and ".join,
)
def test_what_is_missing_is_grown_again_as_it_was(directory: Path, statements: list[str]) -> None:
    """As after a crash: a level that was not committed."""
    for statement in statements:
        cs(statement)(directory)
    model = opened(directory)
    same_answers(model, in_memory())
    model.close()


def everything(model: Any) -> list[Any]:
    """All that makes a forest, and what becomes of it."""
    federation = model.federation_
    cs = federation.coordinator
    return [
        model.digest_,
        model.predict_proba(X).tobytes(),
        cs.plan.seed,
        cs.targets.values.tolist(),
        cs.targets.weights.tolist(),
        {node: split._replace(batch=None) for node, split in cs.store.splits.items()},
        {name: owner.store.cuts for name, owner in federation.participants.items()},
        {name: owner.secret for name, owner in federation.participants.items()},
        {name: owner.tables[TRAINING].tolist() for name, owner in federation.participants.items()},
        {name: role.identity.weak.public.h for name, role in federation.with_policies.items()},
        cs.identity.share.value.reveal(),
        federation.compute.identity.share.value.reveal(),
    ]


def test_no_damaged_byte_makes_another_forest(directory: Path) -> None:
    """A forest with a damaged byte in one of its files is the same forest, or none."""
    model = opened(directory)
    expected = everything(model)
    model.close()
    good = {file: file.read_bytes() for file in sorted(directory.iterdir())}
    rng, wrong, n_refused = random.Random(5), [], 0
    for _ in range(120):
        file = rng.choice(sorted(good))
        at = rng.randrange(len(good[file]))
        while not good[file][at]:  # most bytes are free, and zero
            at = rng.randrange(len(good[file]))
        file.write_bytes(with_byte(good[file], at, 1 << rng.randrange(8)))
        try:
            model = opened(directory)
            if everything(model) != expected:
                wrong.append(f"{file.name} at {at}: another forest")
            model.close()
        except StorageError:
            n_refused += 1
        except Exception as error:
            wrong.append(f"{file.name} at {at}: {error!r}")
            gc.collect()
        for other in directory.iterdir():
            if other not in good:
                other.unlink()
        for other, data in good.items():
            if other.read_bytes() != data:
                other.write_bytes(data)
    assert wrong == []
    assert n_refused > 60


# -- keys and secrets -------------------------------------------------------------------------------


def test_short_keys_are_refused_unless_the_forest_was_made_with_them(directory: Path) -> None:
    file = file_of(directory, "cs")
    edit(file, "estimator", fields(parameters=lambda p: p | {"allow_insecure_keys": False}))
    seal_again(file)
    for _ in range(2):
        with pytest.raises(InsecureKeyError):
            opened(directory)


def test_opened_forest_is_shown_as_insecure_as_it_is(directory: Path) -> None:
    model = opened(directory)
    assert repr(model).endswith("INSECURE")
    model.close()


def test_errors_show_no_secret(directory: Path) -> None:
    model = opened(directory)
    federation = model.federation_
    secrets = [owner.identity.weak.to_fields()["sk"] for owner in federation.participants.values()]
    secrets += [federation.compute.identity.share.to_fields()["value"]]
    secrets += [owner.secret.hex() for owner in federation.participants.values()]
    model.close()
    shown = ""
    for what in ("a weak key", "a signing key", "half a weak key", "a strong share", "a secret", "no keys"):
        place = Path(shutil.copytree(directory, directory.parent / what))
        BY_HAND[what](place)
        for file in place.glob("*.db"):
            seal_again(file)
        with pytest.raises((StorageError, NotFittedError)) as caught:
            raise_unless_refused(place)
        shown += f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r}"
    assert [secret for secret in secrets if secret in shown] == []


def raise_unless_refused(place: Path) -> None:
    opened(place).close()
    raise NotFittedError


def sizes(place: Path) -> Mapping[str, int]:
    return {file.name: file.stat().st_size for file in place.iterdir()}


def test_opening_and_closing_changes_no_size(directory: Path) -> None:
    before = sizes(directory)
    for _ in range(4):
        opened(directory).close()
    assert sizes(directory) == before
