"""Saved forests: one file, versioned, never pickle, readable by its owner alone.

A line that says what the file is, then MessagePack of `SavedForest`: what the parties' stores write, decoded
as strictly as a message. Private keys are left out unless they are wanted, and so are training rows and
labels; with private keys, the shares protocol keeps them as bins, to rebuild the forest when somebody leaves.
The participants' thresholds are in it: **the file is as confidential as the columns**.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from revfrf.crypto.secret import hides_locals
from revfrf.embedded.federation import Federation
from revfrf.errors import ModelFileError, StorageError, UsageError
from revfrf.forest.targets import unknown_targets
from revfrf.io.files import PRIVATE, all_of, check_private, opened, reading, writing
from revfrf.io.files import replace as replace_file
from revfrf.names import KGC
from revfrf.record import Record
from revfrf.roles.kgc import KeyCentreRecord
from revfrf.roles.party import PolicyParty
from revfrf.storage.memory import AnyStore, CoordinatorStore, ParticipantStore, Store, StoreFactory, Tables

VERSION = 1
MAX_SIZE = 4 * 2**30  # bytes of a file, checked before it is read
_MAGIC = b"revfrf forest, version "

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class EstimatorRecord(Record, frozen=True):
    """The estimator's own state. `owned` has the positions of each party's columns in X."""

    kind: str
    parameters: dict[str, Any]
    owned: dict[str, tuple[int, ...]]
    feature_names: tuple[str, ...] | None
    n_features: int
    labels: tuple[bool | int | float | str, ...] = ()
    label_type: str = ""


class SavedStore(Record, Tables, frozen=True):
    """The tables of one party's store. Rows of other tables are not kept: they are about requests."""

    role: str
    name: str
    facts: list[tuple[str, bytes]] = msgspec.field(default_factory=list)
    splits: list[tuple[Int64, Int64, str, Int64, str, bytes, bytes, Int64, Int64, Int64]] = msgspec.field(
        default_factory=list
    )
    batches: list[tuple[Int64, bytes, bytes]] = msgspec.field(default_factory=list)
    leaves: list[tuple[Int64, Int64, bytes]] = msgspec.field(default_factory=list)
    own_splits: list[tuple[Int64, Int64, Int64, Int64]] = msgspec.field(default_factory=list)
    trees: list[tuple[Int64, bytes]] = msgspec.field(default_factory=list)
    columns: list[tuple[str, bytes, bytes]] = msgspec.field(default_factory=list)
    bins: list[tuple[str, Int64, bytes]] = msgspec.field(default_factory=list)

    def __str__(self) -> str:
        return "saved forest"

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows. They are never deleted: the newest of a name counts."""
        self.rows(table).extend(map(tuple, rows))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return all rows of a table."""
        found: list[tuple[Any, ...]] = getattr(self, table, [])
        return found


class SavedForest(Record, frozen=True):
    """The whole file."""

    private_keys: bool
    digest: str
    stores: tuple[SavedStore, ...]


class SavedStores(StoreFactory):
    """The stores of a saved forest. What happens later is kept in memory."""

    def __init__(self, saved: Iterable[SavedStore]) -> None:
        super().__init__()
        self._saved = {(store.role, store.name): store for store in saved}

    def discard(self, role: str, name: str) -> None:
        """Also forget what was saved of the party."""
        super().discard(role, name)
        self._saved.pop((role, name), None)

    def _tables(self, role: str, name: str, create: bool) -> Tables:
        saved = self._saved.get((role, name))
        if saved is not None:
            return saved
        if not create:
            raise StorageError(f"nothing of {name!r} was saved", kind="missing")
        return Tables()


def plain(name: str, value: Any) -> Any:
    """Return a parameter as plain values; a generator of random numbers is left out."""
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


@hides_locals
def saved(federation: Federation, estimator: EstimatorRecord, digest: str, private: bool) -> SavedForest:
    """Return what the file of this forest holds, with or without private keys."""
    kgc, cs, cc = federation.kgc, federation.coordinator, federation.compute
    stores: list[SavedStore] = []

    def new(kind: type[AnyStore], role: str, name: str, **facts: Any) -> AnyStore:
        stores.append(SavedStore(role, name))
        store = kind(stores[-1])
        store.write(**facts)
        return store

    def kept(kind: type[AnyStore], party: PolicyParty, **facts: Any) -> AnyStore:
        # It is admitted as a requester again when it asks.
        identity = replace(party.identity.record(), pending_keys=None, admission=None)
        if not private:
            identity = replace(identity, signing=None, keys=None)
        return new(kind, identity.role, identity.name, identity=identity, policy=party.policy, **facts)

    informed, certified = kgc.state.informed, kgc.state.certified
    state = KeyCentreRecord((kgc.current,), informed=informed, certified=certified)
    known = new(Store, KGC, KGC, state=state)
    if private:
        if kgc.keys is None:
            raise UsageError("this forest was loaded without its private keys; they cannot be saved")
        known.write(**kgc.keys.export())
    structure = kept(
        CoordinatorStore,
        cs,
        forest=cs.record if private else replace(cs.record, seed=b""),
        certificates=cs.certificates,
        estimator=estimator,
    )
    rows = cs.side.save(structure, rows=private and len(cs.targets) > 0)
    structure.write(targets=cs.targets if rows else unknown_targets(cs.targets.scale))
    kept(Store, cc, forest=cc.forest)
    for party in federation.participants.values():
        secret = party.secret if private else b""
        facts = {"columns": party.columns, "secret": secret, "settings": dict(party.settings)}
        own = kept(ParticipantStore, party, forest=cc.forest, **facts)
        if party.side is not None:
            party.side.save(own)
    return SavedForest(private, digest, tuple(stores))


def encode(forest: SavedForest) -> bytes:
    """Return the bytes of a file: a line that says what it is, with the hash of the rest."""
    body = msgspec.msgpack.encode(forest)
    return _header(body) + body


def _header(body: bytes) -> bytes:
    return _MAGIC + b"%d, sha256 %s\n" % (VERSION, hashlib.sha256(body).hexdigest().encode())


@hides_locals
def write(path: str | os.PathLike[str], forest: SavedForest) -> None:
    """Write the file, readable by its owner alone: all of it or nothing. An older one is replaced."""
    with writing(path, ModelFileError):
        replace_file(path, encode(forest), PRIVATE)


@hides_locals
def read(path: str | os.PathLike[str]) -> SavedForest:
    """Return the content of a file that `write` wrote. Raises ModelFileError."""
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
            f"{source}: has another version; this RevFRF reads version {VERSION}", kind="version"
        )
    if head + b"\n" != _header(body):
        raise ModelFileError(f"{source}: damaged: its checksum does not match", kind="malformed")
    try:
        forest = msgspec.msgpack.decode(body, type=SavedForest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ModelFileError(f"{source}: damaged", kind="malformed") from None
    if forest.private_keys:
        check_private(source, status, ModelFileError)
    return forest
