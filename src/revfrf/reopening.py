"""A federation from its directory: as its parties have left it, and then to the end of what they were at.

What comes from the disk is not trusted blindly: keys must be those of their certificates, every split signed
by its owner, every leaf the sum of the rows that end in it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from revfrf.certificate import RevocationCertificate
from revfrf.crypto.canonical import Field
from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey
from revfrf.errors import InsecureKeyError, RevFRFError, StorageError
from revfrf.federation import Credentials, Federation
from revfrf.forest.criterion import Targets, TargetsRecord
from revfrf.forest.randomness import row_repeats
from revfrf.forest.unfinished import with_rows
from revfrf.messages.training import Column, OpenForest
from revfrf.model_check import check_federation
from revfrf.protocols.epoch import CC, CS, KGC, PARTICIPANT, REQUESTER
from revfrf.protocols.fle_expan import LevelReport
from revfrf.protocols.identity import Identity, IdentityRecord
from revfrf.protocols.key_setup import check_certificate
from revfrf.protocols.request import PolicyRecord
from revfrf.roles.coordinator import Coordinator, ForestRecord
from revfrf.roles.kgc import KeyCentreState
from revfrf.roles.participant import TRAINING, Participant
from revfrf.roles.party import AnsweringParty
from revfrf.roles.requester import Requester
from revfrf.storage.directory import Directory
from revfrf.storage.sqlite import SqliteStore


@hides_locals
def reopened(directory: Directory, allow_insecure: bool, n_jobs: int) -> Federation:
    """The federation in a directory, as it was left. Raises StorageError."""
    try:
        federation = _federation(directory, allow_insecure, n_jobs)
        _recall_kgc(federation, directory)
        _recall_coordinator(federation.coordinator, directory.coordinator(CS))
        federation.compute.forest = directory.party(CC, CC).read("forest", OpenForest)
        for name, participant in federation.participants.items():
            _recall_participant(participant, directory.participant(PARTICIPANT, name))
        for role, party in federation.with_policies.items():
            _recall_policy(party, _store_of(directory, role))
    except (StorageError, InsecureKeyError):
        raise
    except (RevFRFError, KeyError, ValueError):
        raise _does_not_fit(directory) from None
    directory.new = True
    return federation


def resume(
    federation: Federation,
    directory: Directory,
    targets: Sequence[Field],
    progress: Callable[[LevelReport], None],
) -> None:
    """End what was going on, and check what has come of it. Raises StorageError."""
    federation.resume(targets, progress)
    try:
        check_federation(federation, federation.coordinator.targets.n_classes or 2)
        _check_leaves(federation.coordinator)
    except RevFRFError:
        raise _does_not_fit(directory) from None


def _does_not_fit(directory: Directory) -> StorageError:
    return StorageError(
        f"{directory.path}: damaged: its parts do not fit together; restore it from a backup",
        kind="malformed",
    )


def _federation(directory: Directory, allow_insecure: bool, n_jobs: int) -> Federation:
    """All roles, with their identities."""
    kgc = directory.party(KGC, KGC)
    state = kgc.expect("state", KeyCentreState)
    members = state.certificates[-1].members
    stores = {m.name: directory.participant(PARTICIPANT, m.name) for m in members if m.role == PARTICIPANT}
    columns = {name: store.expect("columns", tuple[Column, ...]) for name, store in stores.items()}
    secret_of = {name: store.expect("secret", bytes) for name, store in stores.items()}
    kept: Mapping[str, SqliteStore] = stores | {CS: directory.coordinator(CS), CC: directory.party(CC, CC)}
    identities = {name: _identity(store, allow_insecure) for name, store in kept.items()}
    forest = directory.coordinator(CS).expect("forest", ForestRecord)
    order = {name: columns[name] for name in (*forest.columns, *columns) if name in columns}
    known = Credentials(
        identities[CS].weak.parameters,
        SigningKey.from_fields(kgc.expect("signing", dict[str, str]), allow_insecure),
        identities,
        secret_of,
        forest.seed,
    )
    return Federation.restored(order, known, n_jobs, directory)


def _identity(store: SqliteStore, allow_insecure: bool) -> Identity:
    """Its keys must be those that its certificate names."""
    identity = store.expect("identity", IdentityRecord).identity(allow_insecure)
    if identity.keys is None or identity.certificate is None:
        raise StorageError(f"{store.database.path}: damaged: a party without keys", kind="malformed")
    check_certificate(identity, identity.keys, identity.certificate)
    return identity


def _store_of(directory: Directory, name: str) -> SqliteStore:
    if name == CS:
        return directory.coordinator(CS)
    return directory.party(CC, CC) if name == CC else directory.participant(PARTICIPANT, name)


def _recall_kgc(federation: Federation, directory: Directory) -> None:
    """KGC's state, and the requesters whom it knows."""
    federation.kgc.state = state = directory.party(KGC, KGC).expect("state", KeyCentreState)
    for name in state.certificates[-1].revoked:
        directory.discard(PARTICIPANT, name)
    for name in state.requesters:
        channel, participant = federation.network.channel(name), federation.participants.get(name)
        if participant is not None:
            requester = Requester(participant.identity, channel, federation.n_jobs, participant.store)
        elif name in state.certificates[-1].revoked:
            continue
        else:
            store = directory.party(REQUESTER, name)
            record = store.expect("identity", IdentityRecord)
            identity = record.identity(federation.coordinator.identity.allow_insecure)
            requester = Requester(identity, channel, federation.n_jobs, store)
            federation.network.roles[name] = requester
        federation.requesters[name] = requester


def _recall_coordinator(cs: Coordinator, store: SqliteStore) -> None:
    forest = store.expect("forest", ForestRecord)
    rules = forest.rules
    cs.targets = Targets.of(
        store.expect("targets", TargetsRecord),
        lambda weights: row_repeats(forest.seed, rules.n_trees, rules.bootstrap, weights),
    )
    cs.certificates = store.read("certificates", tuple[RevocationCertificate, ...]) or ()
    cs.resume(forest)


def _recall_participant(participant: Participant, store: SqliteStore) -> None:
    rows = np.frombuffer(store.expect("rows", bytes), dtype="<i8").astype(np.int64)
    participant.tables[TRAINING] = rows.reshape(len(participant.columns), -1)
    opening = store.read("forest", OpenForest)
    if opening is not None:
        participant.resume(opening)


def _recall_policy(party: AnsweringParty, store: SqliteStore) -> None:
    record = store.read("policy", PolicyRecord)
    if record is not None:
        party.policy = record.policy()


def _check_leaves(cs: Coordinator) -> None:
    """Every leaf is the sum of the rows that end in it, as its splits have turned them."""
    ends = with_rows(cs.targets.used, cs.store.splits, cs.store.leaves)
    sums = zip(ends.names(), map(tuple, cs.targets.sums(ends).tolist()), strict=True)
    if dict(sums) != cs.store.leaves:
        raise StorageError("leaves that are not the sums of their rows", kind="malformed")
