"""Forests in directories that were changed by hand are refused, and errors show no secret."""

import gc
import math
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from revfrf.crypto.signing import SigningKey
from revfrf.errors import InsecureKeyError, StorageError
from revfrf.forest import criterion
from revfrf.forest.criterion import Counted
from revfrf.messages.base import number
from revfrf.protocols.sides import TRAINING
from tests.estimators.directories import (
    X,
    Y,
    file_of,
    in_memory,
    opened,
    opened_after_all,
    refused,
    same_answers,
)
from tests.federations import counted
from tests.storage.tampering import by_hand, edit, fields, recompute_checksums, with_byte

pytestmark = pytest.mark.usefixtures("prepared_moduli")

# -- what was changed by hand -----------------------------------------------------------------------


def cs(statement: str, *values: Any) -> Callable[[Path], None]:
    return lambda place: by_hand(file_of(place, "cs"), statement, values)


def bank(statement: str, *values: Any) -> Callable[[Path], None]:
    return lambda place: by_hand(file_of(place, "bank"), statement, values)


def fact(party: str, name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda place: edit(file_of(place, party), name, change)


def targets(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return fact("cs", "targets", fields(**changes))


def scale(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return targets(scale=fields(**changes))


def forest(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return fact("cs", "forest", fields(**changes))


def rules(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return forest(opening=fields(rules=fields(**changes)))


def estimator(**changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return fact("cs", "estimator", fields(**changes))


def identity(party: str, **changes: Callable[[Any], Any]) -> Callable[[Path], None]:
    return fact(party, "identity", fields(**changes))


def one_split(setting: str) -> Callable[[Path], None]:
    return cs(" ".join(["UPDATE splits SET", setting, "WHERE (tree, path) = (0, 1)"]))


def one_leaf(setting: str) -> Callable[[Path], None]:
    first = "WHERE (tree, path) = (SELECT tree, path FROM leaves ORDER BY tree, path LIMIT 1)"
    return cs(" ".join(["UPDATE leaves SET", setting, first]))


def one_cut(setting: str) -> Callable[[Path], None]:
    first = "WHERE (tree, path) = (SELECT tree, path FROM own_splits ORDER BY tree, path LIMIT 1)"
    return bank(" ".join(["UPDATE own_splits SET", setting, first]))


def turned_another_way(place: Path, wanted: Callable[[Any, Any], bool]) -> None:
    """At a split above two leaves, two rows that turn differently, chosen by number, change places."""
    model: Any = opened(place)
    store, rows_count = model.federation_.coordinator.store, counted(model.federation_)
    for (tree, path), split in sorted(store.splits.items()):
        if {(tree, 2 * path), (tree, 2 * path + 1)} <= store.leaves.keys():
            rows = rows_of(store, rows_count, tree, path)
            right = np.unpackbits(np.frombuffer(split.directions, np.uint8))[: len(rows)]
            weight = {row: (rows_count.values[row], rows_count.counts[tree, row]) for row in rows}
            for i, j in np.ndindex(len(rows), len(rows)):
                if right[i] > right[j] and wanted(weight[rows[i]], weight[rows[j]]):
                    right[i], right[j] = right[j], right[i]
                    directions = np.packbits(right).tobytes()
                    model.close()
                    cs(
                        "UPDATE splits SET directions = ? WHERE tree = ? AND path = ?", directions, tree, path
                    )(place)
                    return
    pytest.fail("no such rows")


def rows_of(store: Any, rows_count: Counted, tree: int, path: int) -> list[int]:
    """The rows of a node."""
    rows: list[int] = rows_count.used(tree).tolist()
    for shift in range(path.bit_length() - 2, -1, -1):
        directions = np.unpackbits(
            np.frombuffer(store.splits[tree, path >> (shift + 1)].directions, np.uint8)
        )
        rows = [row for row, turn in zip(rows, directions, strict=False) if turn == path >> shift & 1]
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
    "a signature": cs("UPDATE batches SET signature = zeroblob(64)"),
    "a short signature": cs("UPDATE batches SET signature = x'00'"),
    "hashes": cs("UPDATE batches SET leaves = zeroblob(length(leaves))"),
    "no hashes": cs("UPDATE batches SET leaves = x''"),
    "half a hash": cs("UPDATE batches SET leaves = x'01'"),
    # directions
    "a row that turns another way": lambda place: turned_another_way(place, lambda a, b: a[0] != b[0]),
    "two rows alike that turn another way": lambda place: turned_another_way(place, lambda a, b: a == b),
    "too few directions": one_split("directions = x'00'"),
    "no directions": one_split("directions = x''"),
    "too many directions": one_split("directions = zeroblob(5000)"),
    "directions all left": one_split("directions = zeroblob(length(directions))"),
    "no directions and a leaf less": lambda place: (
        cs("DELETE FROM leaves WHERE tree = 0")(place),
        one_split("directions = x''")(place),
    ),
    # labels
    "a label": targets(values=lambda v: with_byte(v, 8 * int(np.flatnonzero(Y == 1)[3]))),
    "a weight": targets(weights=lambda w: with_byte(w, 16, 3)),
    "a weight below zero": targets(weights=lambda w: b"\xff" * 8 + w[8:]),
    # what CS has fixed
    "a seed": forest(seed=lambda s: with_byte(s)),
    "more trees": rules(n_trees=lambda n: n + 1),
    "deeper trees": rules(max_depth=lambda n: n + 1),
    "larger leaves": rules(min_samples_leaf=lambda n: n + 1),
    "more candidates": rules(candidate_limit=lambda n: n // 2),
    "no bootstrap": rules(bootstrap=lambda b: not b),
    "columns of nobody": forest(columns=lambda c: c | {"nobody": c["bank"]}),
    "no columns of the shop": forest(columns=lambda c: {k: c[k] for k in ("bank", "telco")}),
    "no columns": forest(columns=lambda _: {"bank": [], "telco": [], "shop": []}),
    "other decimals": forest(columns=lambda c: c | {"bank": [c["bank"][0] | {"decimals": 1}, c["bank"][1]]}),
    "another forest": forest(opening=fields(forest=lambda f: with_byte(f))),
    # what the estimator has kept
    "names of classes": estimator(labels=lambda _: ["a", "b", "c"]),
    "classes in another order": estimator(labels=lambda labels: labels[::-1]),
    "too few names of classes": estimator(labels=lambda labels: labels[1:]),
    "types of classes": estimator(label_type=lambda _: "i4,("),
    "columns of the estimator": estimator(owned=lambda _: {"bank": [4, 0], "telco": [1, 3], "shop": [2]}),
    "columns of two": estimator(owned=lambda _: {"bank": [0, 1], "telco": [1, 3], "shop": [2]}),
    "too few columns": estimator(owned=lambda _: {"bank": [0], "telco": [1, 3], "shop": [2]}),
    "columns of strangers": estimator(owned=lambda _: {"strangers": [0]}),
    "more features": estimator(n_features=lambda n: n + 1),
    "parameters that there are not": estimator(parameters=lambda p: p | {"trees": 5}),
    "parameters that make no sense": estimator(parameters=lambda p: p | {"n_jobs": "many"}),
    # a participant
    "a cut": one_cut("threshold = threshold + 1"),
    "a cut far away": one_cut("threshold = 9000000000000000000"),
    "a cut of the other side": one_cut("threshold = -threshold"),
    "a cut of another column": one_cut("feature = 1 - feature"),
    "a cut of no column": one_cut("feature = 77"),
    "a cut of a column below zero": one_cut("feature = feature - 2"),
    "a cut less": bank("DELETE FROM own_splits WHERE tree = 0"),
    "a cut too many": bank("INSERT INTO own_splits (tree, path, feature, threshold) VALUES (77, 1, 0, 0)"),
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
    "a signing key": identity("bank", signing=lambda _: SigningKey.generate().export()),
    "a signing key that is none": identity("bank", signing=lambda _: b"xyz"),
    "a weak key": identity("bank", keys=fields(sk=lambda _: b"\2")),
    "a weak key that is none": identity("bank", keys=fields(sk=lambda _: b"\0")),
    "a weak key of no modulus": identity("bank", keys=fields(dtpkc=fields(n=lambda _: b"\x0f"))),
    "half a weak key": identity("bank", keys=lambda k: {"dtpkc": k["dtpkc"]}),
    "no keys": identity("bank", keys=lambda _: None),
    "a strong share": identity("cc", keys=fields(share=lambda _: b"\5")),
    "a strong share that the other does not fit": identity("cc", keys=fields(share=with_byte)),
    "a strong share of a participant": identity("bank", keys=fields(share=lambda _: b"\5")),
    "no strong share": identity("cs", keys=fields(share=lambda _: None)),
    "another name": identity("bank", name=lambda _: "telco"),
    "another role": identity("bank", role=lambda _: "CS"),
    "an unsigned certificate": identity("bank", certificate=fields(signature=lambda _: bytes(64))),
    "no certificate": identity("bank", certificate=lambda _: None),
    "another federation": identity("bank", federation=lambda _: "another"),
    "another key centre": identity("bank", kgc=lambda _: SigningKey.generate().verify_key.raw),
    "another key of the key centre": fact("kgc", "signing", lambda _: SigningKey.generate().export()),
    "another key for notes": fact("kgc", "notes", lambda _: SigningKey.generate().export()),
    "a key centre without epochs": fact("kgc", "state", fields(certificates=lambda _: [])),
    "an epoch that nobody has signed": fact(
        "kgc", "state", fields(certificates=lambda c: [c[0] | {"signature": bytes(64)}])
    ),
    "a requester that is not there": fact("kgc", "state", fields(requesters=lambda _: {"nobody": bytes(32)})),
    "no forest of CC": lambda place: by_hand(file_of(place, "cc"), "DELETE FROM facts WHERE name = 'forest'"),
    "another forest of CC": fact("cc", "forest", fields(rules=fields(n_trees=lambda n: n + 1))),
    "a policy that is none": lambda place: by_hand(
        file_of(place, "cc"), "INSERT INTO facts (name, value) VALUES ('policy', x'a3616263')"
    ),
}


UNSEEN = {
    "the number of a cut",
    "two rows alike that turn another way",
    "classes in another order",
    "columns of the estimator",
    "a cut",
    "a cut far away",
    "a cut of the other side",
    "a value of a row",
    "a secret",
    "no secret",
}
"""What fits together all the same: somebody who changes it could as well have trained this forest."""


@pytest.mark.parametrize("what", BY_HAND)
def test_forest_that_was_changed_by_hand_is_refused(directory: Path, what: str) -> None:
    BY_HAND[what](directory)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


@pytest.mark.parametrize("with_checksums", [False, True], ids=["", "with checksums"])
@pytest.mark.parametrize(
    "what", ["a leaf of half a sum", "no batch", "a label", "a cut less", "half a value"]
)
def test_refusal_holds_nothing_open_and_mends_nothing(
    directory: Path, what: str, with_checksums: bool
) -> None:
    """It is refused again, for the same reason, and can be put right by whoever can."""
    good = {file: file.read_bytes() for file in directory.iterdir()}
    BY_HAND[what](directory)
    for file in directory.glob("*.db"):
        if with_checksums:
            recompute_checksums(file)
    for _ in range(3):
        assert refused(lambda: opened(directory)) == "malformed"
    for file, data in good.items():
        file.write_bytes(data)
    assert opened_after_all(directory) == ""


@pytest.mark.parametrize("what", [w for w in BY_HAND if w not in UNSEEN and "no text" not in w])
def test_forest_whose_parts_do_not_fit_is_refused_although_its_checksums_do(
    directory: Path, what: str
) -> None:
    BY_HAND[what](directory)
    for file in directory.glob("*.db"):
        recompute_checksums(file)
    assert refused(lambda: opened(directory)) in ("malformed", "missing")


IMPOSSIBLE_LABELS: dict[str, Callable[[Path], object]] = {
    "a label of no class": targets(values=lambda v: with_byte(v, 0, 0x40)),
    "a label below zero": targets(values=lambda v: b"\xff" * 8 + v[8:]),
    "a label less": targets(values=lambda v: v[:-8]),
    "half a label": targets(values=lambda v: v[:-1]),
    "no labels": targets(numbers=lambda _: b"", values=lambda _: b"", weights=lambda _: b""),
    "a class less": scale(labels=lambda labels: labels[1:], class_weights=lambda weights: weights[1:]),
    "a class without a weight": scale(class_weights=lambda weights: weights[1:]),
    "no classes": scale(labels=lambda _: [], class_weights=lambda _: []),
    "another number of places": scale(weight_places=lambda places: places + 1),
    "no weight at all": scale(max_total_weight=lambda _: 0.0),
    "weights without end": scale(max_total_weight=lambda _: math.inf),
    "a range that goes downward": scale(low=lambda _: 1.0),
    "a range of no numbers": scale(low=lambda _: math.nan),
    "a row twice": targets(numbers=lambda n: n[8:16] + n[8:]),
}


@pytest.mark.parametrize("what", IMPOSSIBLE_LABELS)
def test_labels_that_no_forest_has_are_refused_before_anything_is_counted(
    directory: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled loops look at no bounds: such labels would have them write anywhere in memory."""
    monkeypatch.setattr(criterion, "_sums", lambda *_: pytest.fail("counted"))
    IMPOSSIBLE_LABELS[what](directory)
    recompute_checksums(file_of(directory, "cs"))
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
        {name: owner.store.own_splits for name, owner in federation.participants.items()},
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
    recompute_checksums(file)
    for _ in range(2):
        with pytest.raises(InsecureKeyError):
            opened(directory)


def test_opened_forest_is_shown_as_insecure_as_it_is(directory: Path) -> None:
    model = opened(directory)
    assert repr(model).endswith("INSECURE")


def test_errors_show_no_secret(directory: Path) -> None:
    model = opened(directory)
    federation = model.federation_
    keys = [owner.identity.weak.sk.reveal() for owner in federation.participants.values()]
    keys += [federation.compute.identity.share.value.reveal()]
    secrets = [form for key in keys for form in (f"{key:x}", str(key), repr(number(key))[2:-1])]
    secrets += [owner.secret.hex() for owner in federation.participants.values()]
    model.close()
    shown = ""
    for what in ("a weak key", "a signing key", "half a weak key", "a strong share", "no keys"):
        place = Path(shutil.copytree(directory, directory.parent / what))
        BY_HAND[what](place)
        for file in place.glob("*.db"):
            recompute_checksums(file)
        with pytest.raises(StorageError) as caught:
            opened(place)
        shown += f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r}"
    assert [secret for secret in secrets if secret in shown] == []


def sizes(place: Path) -> Mapping[str, int]:
    return {file.name: file.stat().st_size for file in place.iterdir()}


def test_opening_and_closing_changes_no_size(directory: Path) -> None:
    before = sizes(directory)
    for _ in range(4):
        opened(directory).close()
    assert sizes(directory) == before
