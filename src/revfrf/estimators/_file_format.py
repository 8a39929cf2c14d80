"""Saved forests: one file, versioned, never pickle, for its owner alone.

A line that says what the file is, then MessagePack of `SavedForest`, decoded as strictly as a message.
Private keys are in it only if asked for. Without them a loaded forest answers FRF-Test, for the
participants' cuts are in it: **the file is as confidential as the columns**. Training rows and labels are
not in it.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from revfrf.crypto.batch import SignedBatch
from revfrf.crypto.dtpkc.keys import Parameters, WeakKey
from revfrf.crypto.dtpkc.strong import StrongShare
from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.embedded.federation import Credentials, Federation
from revfrf.errors import InsecureKeyError, ModelFileError, RevFRFError, UsageError
from revfrf.estimators._validate import check_federation
from revfrf.forest.criterion import Targets
from revfrf.forest.nodes import Node
from revfrf.forest.tree import Leaf, Rules, feature_id
from revfrf.io.files import PRIVATE, all_of, check_private, opened, reading, replace, writing
from revfrf.messages.base import PATHS, TREES, array, of_number
from revfrf.messages.fle_expan import Column, OpenForest
from revfrf.messages.key_setup import EpochCertificate, Member
from revfrf.names import CC, CS, KGC
from revfrf.protocols.common.identity import Identity, Keys
from revfrf.protocols.common.request import PolicyRecord
from revfrf.protocols.key_setup import check_certificate
from revfrf.record import Record
from revfrf.roles.coordinator import ForestRecord
from revfrf.roles.kgc import KeyCentreState
from revfrf.storage.memory import OwnSplit, StoredSplit, StoreFactory

VERSION = 1
MAX_SIZE = 4 * 2**30  # bytes of a file, checked before it is read
_MAGIC = b"revfrf forest, version "


class SavedSplits(Record, frozen=True):
    """All splits, as arrays; `feature` is a number in `SavedForest.features`, `batch` one in `batches`."""

    trees: bytes
    paths: bytes
    features: bytes
    cuts: bytes
    batches: bytes
    positions: bytes
    ciphertexts: bytes


class SavedCuts(Record, frozen=True):
    """A participant's own cuts, as arrays."""

    trees: bytes
    paths: bytes
    columns: bytes
    cuts: bytes


class SavedKeys(Record, frozen=True):
    """One role's secrets, as named strings."""

    signing: dict[str, str]
    weak: dict[str, str]
    share: dict[str, str] | None
    secret: bytes


class SavedEstimator(Record, frozen=True):
    """The estimator's own state. `owned` are the positions of each party's columns in X."""

    kind: str
    parameters: dict[str, Any]
    owned: dict[str, tuple[int, ...]]
    feature_names: tuple[str, ...] | None
    n_features: int
    n_classes: int
    centre: float
    places: int
    labels: tuple[bool | int | float | str, ...] = ()
    label_type: str = ""


class SavedForest(Record, frozen=True):
    """The whole file."""

    estimator: SavedEstimator
    kgc: bytes
    certificate: EpochCertificate
    forest: OpenForest
    rules: Rules
    columns: dict[str, tuple[Column, ...]]
    features: tuple[str, ...]
    splits: SavedSplits
    batches: tuple[tuple[int, bytes, tuple[bytes, ...]], ...]
    leaf_trees: bytes
    leaf_paths: bytes
    leaf_sums: bytes
    cuts: dict[str, SavedCuts]
    policies: dict[str, PolicyRecord]
    keys: dict[str, SavedKeys] | None
    seed: bytes | None
    digest: str


def plain(name: str, value: Any) -> Any:
    """A parameter as plain values; a generator of random numbers is left out."""
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {plain(name, k): plain(name, v) for k, v in value.items()}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Iterable):
        return [plain(name, v) for v in value]
    raise ModelFileError(f"the parameter {name!r} cannot be saved: {value!r}", kind="parameters")


# -- saving -----------------------------------------------------------------------------------------


def saved(federation: Federation, estimator: SavedEstimator, digest: str, private_keys: bool) -> SavedForest:
    """What the file of this forest holds."""
    cs, store = federation.coordinator, federation.coordinator.store
    nodes, splits = list(store.splits), list(store.splits.values())
    features = tuple(cs.plan.features)
    number = {feature: i for i, feature in enumerate(features)}
    batches = list({id(split.batch): split.batch for split in splits}.values())
    epochs = {id(split.batch): split.epoch for split in splits}
    batch_number = {id(batch): i for i, batch in enumerate(batches)}
    parties = federation.participants
    return SavedForest(
        estimator=estimator,
        kgc=cs.identity.kgc.raw,
        certificate=cs.certificate,
        forest=cs.opening,
        rules=cs.plan.rules,
        columns={party: role.columns for party, role in parties.items()},
        features=features,
        splits=SavedSplits(
            trees=_pack([tree for tree, _ in nodes], TREES),
            paths=_pack([path for _, path in nodes], PATHS),
            features=_pack([number[split.feature] for split in splits], "<u4"),
            cuts=_pack([split.cut for split in splits], "u1"),
            batches=_pack([batch_number[id(split.batch)] for split in splits], "<u4"),
            positions=_pack([split.position for split in splits], "<u4"),
            ciphertexts=b"".join(split.ciphertext for split in splits),
        ),
        batches=tuple((epochs[id(batch)], batch.signature, batch.leaves) for batch in batches),
        leaf_trees=_pack([tree for tree, _ in store.leaves], TREES),
        leaf_paths=_pack([path for _, path in store.leaves], PATHS),
        leaf_sums=_pack([x for leaf in store.leaves.values() for x in leaf], "<i8"),
        cuts={party: _saved_cuts(role.store.own_splits) for party, role in parties.items()},
        policies={name: role.policy.record() for name, role in federation.with_policies.items()},
        keys=_saved_keys(federation) if private_keys else None,
        seed=federation.seed if private_keys else None,
        digest=digest,
    )


def _saved_cuts(cuts: Mapping[Node, OwnSplit]) -> SavedCuts:
    return SavedCuts(
        trees=_pack([tree for tree, _ in cuts], TREES),
        paths=_pack([path for _, path in cuts], PATHS),
        columns=_pack([column for column, _ in cuts.values()], "<u2"),
        cuts=_pack([cut for _, cut in cuts.values()], "<i8"),
    )


@hides_locals
def _saved_keys(federation: Federation) -> dict[str, SavedKeys]:
    parties = federation.participants
    identities = {CS: federation.coordinator.identity, CC: federation.compute.identity}
    identities |= {party: role.identity for party, role in parties.items()}
    if federation.kgc.signing is None:
        raise UsageError("this forest was loaded without its private keys; they cannot be saved")
    keys = {KGC: SavedKeys(federation.kgc.signing.to_fields(), {}, None, b"")}
    for name, identity in identities.items():
        keys[name] = SavedKeys(
            signing=identity.signing_key.to_fields(),
            weak=identity.weak.to_fields(),
            share=identity.share.to_fields() if name in (CS, CC) else None,
            secret=parties[name].secret if name in parties else b"",
        )
    return keys


def _pack(values: Sequence[int], dtype: str) -> bytes:
    return np.array(values, dtype=dtype).tobytes()


def encode(forest: SavedForest) -> bytes:
    """The bytes of a file: a line that says what it is, with the hash of all the rest."""
    body = msgspec.msgpack.encode(forest)
    return _header(body) + body


def _header(body: bytes) -> bytes:
    return _MAGIC + b"%d, sha256 %s\n" % (VERSION, hashlib.sha256(body).hexdigest().encode())


@hides_locals
def write(path: str | os.PathLike[str], forest: SavedForest) -> None:
    """Write the file, readable by its owner alone: all of it or nothing. An older one is replaced."""
    with writing(path, ModelFileError):
        replace(path, encode(forest), PRIVATE)


# -- loading ----------------------------------------------------------------------------------------


@hides_locals
def read(path: str | os.PathLike[str]) -> SavedForest:
    """The content of a file that `write` wrote. Raises ModelFileError."""
    source = Path(path)
    with reading(source, ModelFileError, "give the path of a saved forest"):
        if source.is_dir():
            raise ModelFileError(f"{source}: a directory; `open` finds the forest in it", kind="wrong-kind")
        with opened(source) as file:
            data, status = all_of(file, MAX_SIZE), os.fstat(file.fileno())
    head, _, body = data.partition(b"\n")
    if not head.startswith(_MAGIC):
        raise ModelFileError(f"{source}: not a saved forest", kind="malformed")
    if not head.startswith(_MAGIC + b"%d," % VERSION):
        raise ModelFileError(
            f"{source}: a forest of another version; this RevFRF reads version {VERSION}", kind="version"
        )
    if head + b"\n" != _header(body):
        raise ModelFileError(f"{source}: damaged: not all of it is as it was written", kind="malformed")
    try:
        forest = msgspec.msgpack.decode(body, type=SavedForest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ModelFileError(f"{source}: damaged", kind="malformed") from None
    if forest.keys is not None:
        check_private(source, status, ModelFileError)
    return forest


@hides_locals
def restored(forest: SavedForest, targets: Targets, allow_insecure: bool, n_jobs: int) -> Federation:
    """The federation in a file. Raises ModelFileError if the parts do not fit together."""
    try:
        return _restored(forest, targets, allow_insecure, n_jobs)
    except InsecureKeyError:
        raise
    except (RevFRFError, KeyError, IndexError, ValueError):
        raise ModelFileError("damaged: its parts do not fit together", kind="malformed") from None


def _restored(forest: SavedForest, targets: Targets, allow_insecure: bool, n_jobs: int) -> Federation:
    c = forest.certificate
    parameters = Parameters(of_number(c.n), of_number(c.g0), c.exponent_bits, allow_insecure)
    identities = {m.name: _identity(forest, m, allow_insecure) for m in c.members}
    kgc = forest.keys and SigningKey.from_fields(forest.keys[KGC].signing)
    secret_of = {party: forest.keys[party].secret if forest.keys else b"" for party in forest.columns}
    known = Credentials(parameters, kgc or None, identities, secret_of, forest.seed or b"")
    federation = Federation.restored(forest.columns, known, n_jobs, StoreFactory())
    cs = federation.coordinator
    cs.store.commit(*_grown(forest, parameters))
    cs.resume(ForestRecord(forest.forest, forest.rules, forest.seed or b"", forest.columns, c.n))
    cs.targets = targets
    federation.compute.forest = forest.forest
    federation.kgc.state = KeyCentreState(certificates=(c,))
    for party, role in federation.participants.items():
        role.store.own_splits.update(_cuts(forest.cuts[party]))
        role.resume(forest.forest)
    for name, deciding in federation.with_policies.items():
        deciding.policy = forest.policies[name].policy()
    check_federation(federation, forest.estimator.n_classes or 2)
    return federation


def _identity(forest: SavedForest, member: Member, allow_insecure: bool) -> Identity:
    """A member as it was; its keys, if they were saved, must be those that the certificate names."""
    identity = Identity(member.name, member.role, VerifyKey(forest.kgc), None, allow_insecure)
    identity.federation = forest.certificate.federation
    if forest.keys is None:
        identity.certificate = forest.certificate
        return identity
    keys = forest.keys[member.name]
    identity.signing = SigningKey.from_fields(keys.signing)
    weak = WeakKey.from_fields(keys.weak, allow_insecure)
    share = StrongShare.from_fields(keys.share, allow_insecure) if keys.share else None
    identity.keys = Keys(forest.certificate.epoch, weak, share)
    check_certificate(identity, identity.keys, forest.certificate)
    identity.certificate = forest.certificate
    return identity


def _grown(forest: SavedForest, parameters: Parameters) -> tuple[dict[Node, StoredSplit], dict[Node, Leaf]]:
    saved, width = forest.splits, parameters.ciphertext_bytes
    nodes = _nodes(saved.trees, saved.paths)
    n = len(nodes)
    owner = {feature_id(p, column.name): p for p, columns in forest.columns.items() for column in columns}
    features = [forest.features[i] for i in array(saved.features, "<u4", n).tolist()]
    batches = [SignedBatch(signature, leaves) for _, signature, leaves in forest.batches]
    numbers = array(saved.batches, "<u4", n).tolist()
    blob = array(saved.ciphertexts, "u1", n * width).tobytes()
    splits = map(
        StoredSplit,
        features,
        array(saved.cuts, "u1", n).tolist(),
        (owner[feature] for feature in features),
        repeat(b""),
        (blob[i * width : (i + 1) * width] for i in range(n)),
        (forest.batches[i][0] for i in numbers),
        (batches[i] for i in numbers),
        array(saved.positions, "<u4", n).tolist(),
    )
    leaves = _nodes(forest.leaf_trees, forest.leaf_paths)
    sums = array(forest.leaf_sums, "<i8").reshape(len(leaves), -1).tolist()
    return dict(zip(nodes, splits, strict=True)), dict(zip(leaves, map(tuple, sums), strict=True))


def _cuts(saved: SavedCuts) -> dict[Node, OwnSplit]:
    nodes = _nodes(saved.trees, saved.paths)
    columns = array(saved.columns, "<u2", len(nodes)).tolist()
    return dict(
        zip(nodes, zip(columns, array(saved.cuts, "<i8", len(nodes)).tolist(), strict=True), strict=True)
    )


def _nodes(trees: bytes, paths: bytes) -> list[Node]:
    numbers = array(trees, TREES).tolist()
    return list(zip(numbers, array(paths, PATHS, len(numbers)).tolist(), strict=True))
