"""A federation from its parties' stores, in a directory or a saved file.

Stores are not trusted blindly: keys must be those of their epoch certificates, all parties must be in KGC's
epoch, every split signed by its owner, every leaf the sum of the rows that end in it.
"""

from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Credentials, Federation
from revfrf.errors import ProtocolError, StorageError
from revfrf.estimators._file import EstimatorRecord
from revfrf.estimators._validate import check_federation
from revfrf.forest.criterion import TargetsRecord
from revfrf.forest.tree import with_rows
from revfrf.messages.base import of_number
from revfrf.messages.fle_expan import Column
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import SHARE_HOLDERS
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.protocols.key_setup import check_certificate
from revfrf.roles.coordinator import Coordinator, ForestRecord
from revfrf.roles.kgc import KeyCentreRecord
from revfrf.roles.participant import TRAINING
from revfrf.storage.directory import Directory
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Store, StoreFactory


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
    if not isinstance(stores, Directory) and cs.expect("targets", TargetsRecord).values:
        raise StorageError(f"{cs}: damaged: a saved forest has no training rows", kind="malformed")
    epoch = state.certificates[-1]
    own = {CS: cs, CC: stores.store(Store, CC, CC, create=False)}
    columns, secret_of = {}, {}
    for name in epoch.participants:
        store = own[name] = stores.store(ParticipantStore, PARTICIPANT, name, create=False)
        columns[name] = store.expect("columns", tuple[Column, ...])
        secret_of[name] = store.expect("secret", bytes)
    identities = {name: _identity(store, state, private_keys, allow_insecure) for name, store in own.items()}
    for name in epoch.revoked:
        stores.discard(PARTICIPANT, name)
    order = {name: columns[name] for name in (*forest.columns, *columns) if name in columns}
    signing = SigningKey.from_fields(kgc.expect("signing", dict[str, str])) if private_keys else None
    certificate = identities[CS].certificate or epoch
    n, g0 = of_number(certificate.n), of_number(certificate.g0)
    parameters = Parameters(n, g0, certificate.exponent_bits, allow_insecure)
    known = Credentials(parameters, signing, identities, secret_of, forest.seed)
    federation = Federation.restored(order, known, n_jobs, stores)
    federation.recall()
    return federation


def _identity(store: Store, kgc: KeyCentreRecord, private_keys: bool, allow_insecure: bool) -> Identity:
    """Return a party's identity, whose epoch certificate must be one of KGC's last two and name its keys."""
    identity = store.expect("identity", IdentityRecord).identity(allow_insecure)
    secrets = (identity.signing, identity.keys)
    if identity.certificate is None or any((secret is not None) != private_keys for secret in secrets):
        raise StorageError(
            f"{store}: damaged: keys that should not be there, or are missing", kind="malformed"
        )
    if identity.keys is not None:
        check_certificate(identity, identity.keys, identity.certificate)
    if identity.certificate not in kgc.certificates[-2:]:
        raise _old(store)
    return identity


def _old(store: Store) -> StorageError:
    return StorageError(
        f"{store}: older or newer than the others; restore the whole directory from one backup",
        kind="malformed",
    )


def check_restored(federation: Federation, *, training_rows: bool) -> None:
    """Raise StorageError or RejectedError unless all parts fit together; training rows may be left out."""
    cs = federation.coordinator
    for party in federation.with_policies.values():
        if party.identity.certificate != federation.kgc.current:
            raise _old(party.store)
    for name, admission in federation.kgc.state.admitted.items():
        if federation.requesters[name].identity.admission != admission:
            raise _old(federation.requesters[name].store)
    _check_roles(federation, training_rows)
    check_federation(federation, cs.targets.n_classes or 2)
    if training_rows:
        _check_leaves(cs)


def _check_roles(federation: Federation, training_rows: bool) -> None:
    """All know the same forest, of the same columns and rows, and the servers have their own shares."""
    cs, cc = federation.coordinator, federation.compute
    fits = cc.forest == cs.opening and cs.columns.keys() == federation.participants.keys()
    if federation.kgc.signing is not None:
        servers = (cs.identity.share.server, cc.identity.share.server)
        fits &= servers == (SHARE_HOLDERS[CS], SHARE_HOLDERS[CC])
    for name, role in federation.with_policies.items():
        fits &= role.identity.name == name and role.identity.kgc == cs.identity.kgc
    for name, participant in federation.participants.items():
        fits &= participant.growth is not None and participant.growth.rules == cs.opening
        fits &= participant.columns == cs.columns[name]
        if training_rows:
            fits &= participant.tables[TRAINING].shape[1] == len(cs.targets.values)
    if not fits:
        raise ProtocolError("the roles do not have the same forest", kind="forest")


def _check_leaves(cs: Coordinator) -> None:
    """Every leaf is the sum of the rows that end in it, as its splits have turned them."""
    ends = with_rows(cs.targets.used, cs.store.splits, cs.store.leaves)
    sums = zip(ends.names(), map(tuple, cs.targets.sums(ends).tolist()), strict=True)
    if dict(sums) != cs.store.leaves:
        raise StorageError(
            f"{cs.store}: damaged: leaves that are not the sums of their rows", kind="malformed"
        )
