"""A federation from its directory: as its parties have left it, and then to the end of what they were at.

What comes from the disk is not trusted blindly: keys must be those of their certificates, all parties must be
in KGC's epoch, every split signed by its owner, every leaf the sum of the rows that end in it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from revfrf.crypto.canonical import Field
from revfrf.crypto.secret import hides_locals
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.federation import Credentials, Federation
from revfrf.errors import InsecureKeyError, ProtocolError, RevFRFError, StorageError
from revfrf.estimators._file_format import SavedEstimator
from revfrf.estimators._validate import check_federation
from revfrf.forest.unfinished import with_rows
from revfrf.messages.fle_expan import Column
from revfrf.names import CC, CS, KGC, PARTICIPANT
from revfrf.protocols.common.epoch import SHARE_HOLDERS
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.protocols.key_setup import check_certificate
from revfrf.protocols.paper.fle_expan import LevelReport
from revfrf.roles.coordinator import Coordinator, ForestRecord
from revfrf.roles.kgc import KeyCentreState
from revfrf.roles.participant import TRAINING
from revfrf.storage.directory import Directory
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Store


def read_estimator(directory: Directory) -> SavedEstimator:
    """What CS keeps of the estimator. Raises StorageError if there is no forest in the directory yet."""
    if not directory.databases:
        raise StorageError(f"{directory.path}: there is no forest in this directory", kind="missing")
    if _certified(directory):
        cs = directory.store(CoordinatorStore, CS, CS, create=False)
        saved = cs.read("estimator", SavedEstimator)
        if saved is not None and cs.read("forest", ForestRecord) is not None:
            return saved
    raise StorageError(
        f"{directory.path}: training had not begun; remove the directory, and fit again", kind="missing"
    )


def _certified(directory: Directory) -> bool:
    """Whether KGC has begun an epoch: before that, a database may be missing or empty."""
    try:
        state = directory.store(Store, KGC, KGC, create=False).read("state", KeyCentreState)
    except StorageError as error:
        if error.kind == "missing" and len(directory.databases) <= 1:
            return False
        raise
    return state is not None and bool(state.certificates)


@hides_locals
def reopened(directory: Directory, allow_insecure: bool, n_jobs: int) -> Federation:
    """The federation in a directory, as it was left. Raises StorageError."""
    with _fitting(directory):
        federation = _assembled(directory, allow_insecure, n_jobs)
        federation.recall()
    return federation


def resume(
    federation: Federation,
    directory: Directory,
    targets: Sequence[Field],
    progress: Callable[[LevelReport], None],
) -> None:
    """End what was going on, and check what has come of it. Raises StorageError."""
    with _fitting(directory):
        federation.resume(targets, progress)
        for party in federation.with_policies.values():
            if party.identity.certificate != federation.kgc.current:
                raise _old(party.store)
        for name, admission in federation.kgc.state.admitted.items():
            if federation.requesters[name].identity.admission != admission:
                raise _old(federation.requesters[name].store)
        _check_roles(federation)
        check_federation(federation, federation.coordinator.targets.n_classes or 2)
        _check_leaves(federation.coordinator)


@contextmanager
def _fitting(directory: Directory) -> Iterator[None]:
    try:
        yield
    except (StorageError, InsecureKeyError):
        raise
    except (RevFRFError, LookupError, ValueError, TypeError, OverflowError):
        raise StorageError(
            f"{directory.path}: damaged: its parts do not fit; restore it from a backup", kind="malformed"
        ) from None


def _old(store: Store) -> StorageError:
    return StorageError(
        f"{store}: not of the same time as the others; restore the whole directory from one backup",
        kind="malformed",
    )


def _assembled(directory: Directory, allow_insecure: bool, n_jobs: int) -> Federation:
    """All roles, with their identities."""
    kgc = directory.store(Store, KGC, KGC, create=False)
    cs = directory.store(CoordinatorStore, CS, CS, create=False)
    state, forest = kgc.expect("state", KeyCentreState), cs.expect("forest", ForestRecord)
    identities = {CS: _identity(cs, state, allow_insecure)}
    identities[CC] = _identity(directory.store(Store, CC, CC, create=False), state, allow_insecure)
    columns, secret_of = {}, {}
    for name in (member.name for member in state.certificates[-1].members if member.role == PARTICIPANT):
        store = directory.store(ParticipantStore, PARTICIPANT, name, create=False)
        identities[name] = _identity(store, state, allow_insecure)
        columns[name] = store.expect("columns", tuple[Column, ...])
        secret_of[name] = store.expect("secret", bytes)
    for name in state.certificates[-1].revoked:
        directory.discard(PARTICIPANT, name)
    order = {name: columns[name] for name in (*forest.columns, *columns) if name in columns}
    signing = SigningKey.from_fields(kgc.expect("signing", dict[str, str]))
    known = Credentials(identities[CS].weak.parameters, signing, identities, secret_of, forest.seed)
    return Federation.restored(order, known, n_jobs, directory)


def _identity(store: Store, kgc: KeyCentreState, allow_insecure: bool) -> Identity:
    """Its keys must be those that its certificate names, and that certificate one of KGC's last two."""
    identity = store.expect("identity", IdentityRecord).identity(allow_insecure)
    if identity.keys is None or identity.certificate is None:
        raise StorageError(f"{store}: damaged: a party without keys", kind="malformed")
    check_certificate(identity, identity.keys, identity.certificate)
    if identity.certificate not in kgc.certificates[-2:]:
        raise _old(store)
    return identity


def _check_roles(federation: Federation) -> None:
    """All know the same forest, of the same columns and rows, and the servers have their own shares."""
    cs, cc = federation.coordinator, federation.compute
    shares = (cs.identity.share.server, cc.identity.share.server)
    fits = cc.forest == cs.opening and shares == (SHARE_HOLDERS[CS], SHARE_HOLDERS[CC])
    fits &= cs.columns.keys() == federation.participants.keys()
    for name, participant in federation.participants.items():
        fits &= participant.growth is not None and participant.growth.rules == cs.opening
        fits &= participant.columns == cs.columns[name]
        fits &= participant.tables[TRAINING].shape[1] == len(cs.targets.values)
    if not fits:
        raise ProtocolError("roles that are not of one forest", kind="forest")


def _check_leaves(cs: Coordinator) -> None:
    """Every leaf is the sum of the rows that end in it, as its splits have turned them."""
    ends = with_rows(cs.targets.used, cs.store.splits, cs.store.leaves)
    sums = zip(ends.names(), map(tuple, cs.targets.sums(ends).tolist()), strict=True)
    if dict(sums) != cs.store.leaves:
        raise StorageError(
            f"{cs.store}: damaged: leaves that are not the sums of their rows", kind="malformed"
        )
