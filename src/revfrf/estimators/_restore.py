"""A federation from its parties' stores, in a directory or a saved file.

Stores are not trusted blindly: keys must be those of their epoch certificates, all parties must be in KGC's
epoch, every split signed by its owner, every leaf the sum of the rows that end in it. Predictions rely on
what training guarantees, such as whole trees and valid column numbers: all of it is checked here, once.
"""

import numpy as np

from revfrf.crypto.secret import hides_locals
from revfrf.embedded.federation import Credentials, Federation
from revfrf.errors import ProtocolError, StorageError
from revfrf.estimators._file import EstimatorRecord
from revfrf.forest.targets import TargetsRecord
from revfrf.messages.fle_expan import Column
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import verify_certificate
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.protocols.common.opening import forest_id
from revfrf.protocols.common.request import RequestPolicy
from revfrf.protocols.key_setup import check_certificate
from revfrf.protocols.sides import TRAINING, ForestRecord
from revfrf.roles.kgc import KeyCentreKeys, KeyCentreRecord
from revfrf.storage.directory import Directory
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Store, StoreFactory

_OLD = "older or newer than the others; restore the whole directory from one backup"


def read_estimator(stores: StoreFactory) -> EstimatorRecord:
    """Return what CS keeps of the estimator. Raises StorageError if there is no forest."""
    if isinstance(stores, Directory):
        _check_begun(stores)
    return stores.store(CoordinatorStore, CS, CS, create=False).expect("estimator", EstimatorRecord)


def _check_begun(directory: Directory) -> None:
    """Raise StorageError unless training has begun. Before that, a database may be missing or empty."""
    if not directory.databases:
        raise StorageError(f"{directory.path}: there is no forest in this directory", kind="missing")
    try:
        kgc = directory.store(Store, KGC, KGC, create=False).read("state", KeyCentreRecord)
    except StorageError as error:
        if error.kind != "missing" or len(directory.databases) > 1:
            raise
        kgc = None
    if kgc is not None and kgc.certificates:
        cs = directory.store(CoordinatorStore, CS, CS, create=False)
        if cs.tables.fact("estimator") is not None and cs.tables.fact("forest") is not None:
            return
    raise StorageError(
        f"{directory.path}: training had not begun; remove the directory, and fit again", kind="missing"
    )


@hides_locals
def restored(stores: StoreFactory, *, private_keys: bool, allow_insecure: bool, n_jobs: int) -> Federation:
    """Return the federation as its parties' stores have it, with all private keys or without any."""
    kgc = stores.store(Store, KGC, KGC, create=False)
    cs = stores.store(CoordinatorStore, CS, CS, create=False)
    state, forest = kgc.expect("state", KeyCentreRecord), cs.expect("forest", ForestRecord)
    epoch = state.certificates[-1]
    own = {CS: cs, CC: stores.store(Store, CC, CC, create=False)}
    columns, secret_of = {}, {}
    for name in epoch.participants:
        store = own[name] = stores.store(ParticipantStore, PARTICIPANT, name, create=False)
        columns[name] = store.expect("columns", tuple[Column, ...])
        secret_of[name] = store.expect("secret", bytes)
    if not isinstance(stores, Directory):
        if cs.expect("targets", TargetsRecord).values and not private_keys:
            raise _refused(cs, "damaged: training rows in a forest that was saved without private keys")
        for party in own.values():
            party.expect("policy", RequestPolicy)  # a file always has it; without, all would be accepted
    identities = {name: _identity(store, state, private_keys, allow_insecure) for name, store in own.items()}
    for name in epoch.revoked:
        stores.discard(PARTICIPANT, name)
    order = {name: columns[name] for name in (*forest.columns, *columns) if name in columns}
    known = Credentials(KeyCentreKeys.read(kgc) if private_keys else None, identities, secret_of, forest.seed)
    return Federation.restored(order, known, n_jobs, stores)


def _identity(store: Store, kgc: KeyCentreRecord, private_keys: bool, allow_insecure: bool) -> Identity:
    """Return a party's identity, whose epoch certificate must be one of KGC's last two and name its keys."""
    identity = store.expect("identity", IdentityRecord).identity(allow_insecure)
    certificate, held = identity.certificate, (identity.signing is not None, identity.keys is not None)
    if certificate is None or held != (private_keys, private_keys and certificate.dtpkc is not None):
        raise _refused(store, "damaged: keys that should not be there, or are missing")
    if private_keys:
        check_certificate(identity, identity.keys, certificate)
    if certificate not in kgc.certificates[-2:]:
        raise _refused(store)
    return identity


def _refused(store: Store, why: str = _OLD) -> StorageError:
    return StorageError(f"{store}: {why}", kind="malformed")


def check_restored(federation: Federation, *, training_rows: bool) -> None:
    """Raise StorageError or RejectedError unless all parts fit together; training rows may be left out."""
    for party in federation.with_policies.values():
        if party.identity.certificate != federation.kgc.current:
            raise _refused(party.store)
    for name, admission in federation.kgc.state.admitted.items():
        if federation.requesters[name].identity.admission != admission:
            raise _refused(federation.requesters[name].store)
    _check_roles(federation, training_rows)
    check_federation(federation, training_rows=training_rows)


def _check_roles(federation: Federation, training_rows: bool) -> None:
    """All know the same forest, of the same columns and rows, and the servers have their own shares."""
    cs, cc = federation.coordinator, federation.compute
    fits = cc.forest == cs.opening and cs.columns.keys() == federation.participants.keys()
    if cs.identity.keys is not None:
        shares = cs.identity.share.value.reveal() + cc.identity.share.value.reveal()
        fits &= shares % federation.parameters.n == 1  # see StrongShare
    for name, role in federation.with_policies.items():
        fits &= role.identity.name == name and role.identity.kgc == cs.identity.kgc
    for name, participant in federation.participants.items():
        fits &= participant.side is not None and participant.side.opening == cs.opening
        fits &= participant.columns == cs.columns[name]
        if training_rows:
            fits &= participant.tables[TRAINING].shape[1] == len(cs.targets)
            fits &= np.array_equal(participant.numbers[TRAINING], cs.targets.numbers)
    if not fits:
        raise ProtocolError("the roles do not have the same forest", kind="forest")


def check_federation(federation: Federation, *, training_rows: bool) -> None:
    """Raise RejectedError unless the structure of the forest and what its owners have fit together."""
    cs = federation.coordinator
    opening, certificate = cs.opening, cs.certificate
    verify_certificate(cs.identity.kgc, certificate)
    _require(opening.federation == certificate.federation, "federation")
    _require(opening.epoch <= certificate.epoch and opening.forest == forest_id(opening), "epoch")
    cs.side.check_stored(federation.participants, training_rows)
    if federation.kgc.keys is not None:
        signing, notes = federation.kgc.keys.signing.verify_key, federation.kgc.keys.notes.verify_key
        _require((signing, notes.raw) == (cs.identity.kgc, certificate.notes_key), "key of KGC")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ProtocolError(f"no forest has this {what}", kind="forest")
