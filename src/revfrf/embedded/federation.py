"""A whole federation in one process: every role, the memory transport, and its books."""

import gc
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.secret import Secret
from revfrf.crypto.signing import SigningKey
from revfrf.embedded.costs import Costs, Timings
from revfrf.embedded.moduli import cached_setup, drop_cached_setup, fresh_setup_like, search_seconds
from revfrf.errors import UsageError
from revfrf.forest.seeds import forest_seed, participant_secret
from revfrf.forest.targets import Targets
from revfrf.forest.tree import Rules
from revfrf.forest.voting import Votes, Voting
from revfrf.lifecycle import CsState, KgcState, Step, check_somebody_stays, run
from revfrf.messages.base import Done
from revfrf.messages.fle_expan import Column
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.metering import measured
from revfrf.names import CC, CS, DEFAULT_REQUESTER, KGC, PARTICIPANT, REQUESTER, Protocol, check_name
from revfrf.parallel import calls_at_once
from revfrf.protocols.certificate import EventCertificate
from revfrf.protocols.common.epoch import read_parameters
from revfrf.protocols.common.identity import Identity, IdentityRecord
from revfrf.protocols.noise import before_its_books
from revfrf.protocols.paper.frf_predict import Answer
from revfrf.protocols.registry import PROTOCOLS
from revfrf.protocols.sides import TRAINING, GrowthReport
from revfrf.roles.compute import ComputePartner
from revfrf.roles.coordinator import Coordinator, watching_requests
from revfrf.roles.kgc import KeyCentre, KeyCentreKeys
from revfrf.roles.participant import Participant
from revfrf.roles.requester import Requester
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Store, StoreFactory
from revfrf.transport.memory import MemoryNetwork

Codes = Mapping[str, NDArray[np.int64]]
"""Each party's x̂, of shape (n_columns, n_rows)."""

Columns = Mapping[str, Sequence[Column]]
Progress = Callable[[GrowthReport], None]
RowsDone = Callable[[float], None]

_TOY_BITS = 256
_CALLS_PER_JOB = 4
"""With several jobs, parties mostly wait for worker processes that encrypt: more are called at once."""


@dataclass(frozen=True)
class Credentials(Secret):
    """What the roles of a federation know: their identities, the participants' secrets, the forest's seed.

    A forest that was saved without private keys has none of the secrets.
    """

    kgc: KeyCentreKeys | None
    identities: Mapping[str, Identity]
    secret_of: Mapping[str, bytes]
    seed: bytes


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: growing makes millions of small objects, and none in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Federation:
    """KGC, CS, CC and participants who share a process and nothing else: they talk in messages.

    `seed` makes runs repeat: the forest's seed and the participants' secrets come from it. Keys never do.
    The paper protocol needs a `setup`, the shares protocol has none.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        seed: bytes,
        protocol: Protocol = "paper",
        setup: SetUp | None = None,
        n_jobs: int = 1,
        stores: StoreFactory | None = None,
    ) -> None:
        for name in columns:
            check_name("party", name)
        if (setup is None) != (protocol == "shares"):
            raise UsageError(f'protocol {protocol!r}: "paper" needs a set-up, and "shares" has none')
        role_of = {CS: CS, CC: CC} | dict.fromkeys(columns, PARTICIPANT)
        kgc, insecure = KeyCentreKeys.generate(), setup is not None and setup.parameters.allow_insecure
        identities = {
            name: Identity(name, role, kgc.signing.verify_key, SigningKey.generate(), insecure)
            for name, role in role_of.items()
        }
        secret_of = {name: participant_secret(seed, name) for name in columns}
        known = Credentials(kgc, identities, secret_of, forest_seed(seed))
        self._assemble(columns, known, n_jobs, stores or StoreFactory())
        self.kgc.remember()
        for party in self.with_policies.values():
            party.remember()
        started, federation = perf_counter(), f"embedded {secrets.token_hex(8)}"
        actions: dict[Step, Callable[[], object]] = {
            Step.BEGIN_FIRST_EPOCH: lambda: self.kgc.begin_first_epoch(federation, setup, role_of),
            Step.ANNOUNCE: lambda: self.kgc.announce(setup_requested=True),
        }
        with calls_at_once(self._calls), measured(self.network.ledger, KGC, "key set-up"):
            run(lambda: self.kgc.lifecycle_state(setup_requested=True), actions)
        searched = 0.0 if setup is None else search_seconds(setup.parameters.key_bits)
        self.timings = Timings(searched, perf_counter() - started)

    @classmethod
    def restored(cls, columns: Columns, known: Credentials, n_jobs: int, stores: StoreFactory) -> Self:
        """Return a federation that was set up before. Every role reads its records."""
        federation = cls.__new__(cls)
        federation._assemble(columns, known, n_jobs, stores)
        for role in (federation.kgc, *federation.with_policies.values()):
            role.recall()
        for name in federation.kgc.state.requesters:
            if name not in federation.kgc.current.revoked:
                requester = federation.requesters[name] = federation._requester(name, new=False)
                if name not in federation.participants:
                    federation.network.connect(name, REQUESTER, requester)
        federation.timings = federation.coordinator.store.read("timings", Timings) or Timings()
        return federation

    def _requester(self, name: str, *, new: bool) -> Requester:
        """Return a participant as a requester, or another party with an identity and a store of its own."""
        channel, known = self.network.channel(name), self.participants.get(name)
        if known is not None:
            return Requester(known.identity, channel, self.n_jobs)
        if new:
            self.stores.discard(REQUESTER, name)  # left over from an enrolment that failed
        store = self.stores.store(Store, REQUESTER, name, create=new)
        cs = self.coordinator.identity
        if new:
            identity = Identity(name, REQUESTER, cs.kgc, SigningKey.generate(), cs.allow_insecure)
            store.write(identity=identity)
        else:
            identity = store.expect("identity", IdentityRecord).identity(cs.allow_insecure)
        return Requester(identity, channel, self.n_jobs, store)

    def _assemble(self, columns: Columns, known: Credentials, n_jobs: int, stores: StoreFactory) -> None:
        self.seed, self.stores = known.seed, stores
        self.network = MemoryNetwork()
        of, channel = known.identities, self.network.channel
        self.kgc = KeyCentre(channel(KGC), known.kgc, stores.store(Store, KGC, KGC))
        self.coordinator = Coordinator(of[CS], channel(CS), n_jobs, stores.store(CoordinatorStore, CS, CS))
        self.compute = ComputePartner(of[CC], n_jobs, stores.store(Store, CC, CC))
        self.participants = {}
        for name, owned in columns.items():
            store = stores.store(ParticipantStore, PARTICIPANT, name)
            self.participants[name] = Participant(of[name], owned, known.secret_of[name], store, n_jobs)
        self.requesters: dict[str, Requester] = {}
        self._enrolling = Lock()
        for server, role in ((KGC, self.kgc), (CS, self.coordinator), (CC, self.compute)):
            self.network.connect(server, server, role)
        for name, participant in self.participants.items():
            self.network.connect(name, PARTICIPANT, participant)
        self.coordinator.absent = lambda: self.coordinator.certificate.by_name.keys() - self.network.roles

    @property
    def parameters(self) -> Parameters:
        """The public parameters of this epoch. Raises ProtocolError under the shares protocol."""
        cs = self.coordinator
        return read_parameters(cs.certificate.dtpkc, cs.identity.allow_insecure)

    @property
    def insecure(self) -> bool:
        """Whether this epoch has keys that protect nothing."""
        return self.coordinator.certificate.dtpkc is not None and self.parameters.insecure

    @property
    def with_policies(self) -> dict[str, Participant | Coordinator | ComputePartner]:
        """All parties that decide whose requests to answer."""
        return {**self.participants, CS: self.coordinator, CC: self.compute}

    @property
    def _calls(self) -> int:
        """How many parties are called at once: all share the cores of this process."""
        return 1 if self.n_jobs == 1 else self.n_jobs * _CALLS_PER_JOB

    @property
    def n_jobs(self) -> int:
        """The number of cores that each role uses."""
        return self.coordinator.n_jobs

    @n_jobs.setter
    def n_jobs(self, n_jobs: int) -> None:
        for role in (*self.with_policies.values(), *self.requesters.values()):
            role.n_jobs = n_jobs

    def train(self, codes: Codes, rules: Rules, targets: Targets, progress: Progress) -> None:
        """FLE-Expan on these rows."""
        for party, table in codes.items():
            self.participants[party].hold(TRAINING, table, targets.numbers)
        started = perf_counter()
        self.resume(progress, lambda: self.coordinator.create(rules, self.seed, targets))
        self.timings = msgspec.structs.replace(self.timings, training=perf_counter() - started)
        self.coordinator.store.write(timings=self.timings)

    def votes(self, codes: Codes, n_rows: int, voting: Voting) -> Votes:
        """FRF-Test on these rows. Each participant gets its own columns."""
        table = f"test {secrets.token_hex(8)}"
        for party, participant in self.participants.items():
            participant.hold(table, codes[party])
        try:
            with calls_at_once(self._calls), measured(self.network.ledger, CS, "FRF-Test"):
                return self.coordinator.votes(table, n_rows, voting)
        finally:
            for participant in self.participants.values():
                participant.drop(table)

    def enrol_requester(self, name: str) -> Requester:
        """Let a party send encrypted requests: a participant as itself, others with keys of their own."""
        check_name("requester", name)
        with self._enrolling:
            return self._enrol_requester(name)

    def requester(self, name: str | None) -> Requester:
        """Return the requester of this name; None means the default one. Participants need not enrol."""
        wanted = DEFAULT_REQUESTER if name is None else name
        with self._enrolling:
            known = self.requesters.get(wanted)
            if known is not None and wanted in self.kgc.state.admitted:
                return known
            if name is None or known is not None or wanted in self.participants:
                return self._enrol_requester(wanted)  # again, if another epoch has begun
        raise UsageError(f"{wanted!r} is not a requester; call `enrol_requester({wanted!r})` first")

    def _enrol_requester(self, name: str) -> Requester:
        """Have KGC admit it. A party that is not a participant gets an identity and joins the network."""
        stranger, there = name not in self.participants, dict(self.network.roles)
        again = stranger and name in self.requesters  # admitted again, in another epoch
        requester = self.requesters[name] if again else self._requester(name, new=True)
        if stranger:
            self.network.connect(name, REQUESTER, requester)
        try:
            with measured(self.network.ledger, KGC, "key set-up"):
                self.kgc.admit(name)
        except BaseException:
            self.network.roles = there
            raise
        self.requesters[name] = requester
        return requester

    def ask(
        self, codes: Codes, requester: str | None, voting: Voting, partial: bool, progress: RowsDone
    ) -> Answer:
        """FRF-Predict on these rows. `progress` gets the number of rows that are done."""
        asking, done = self.requester(requester), 0

        def rows_done(rows: int) -> None:
            nonlocal done
            done = rows
            progress(rows)

        ledger, name = self.network.ledger, asking.identity.name
        watching = watching_requests(lambda rows: progress(done + rows))
        with watching, calls_at_once(self._calls), measured(ledger, name, "FRF-Predict"):
            return asking.ask(codes, voting, partial, rows_done)

    def shadow(self, leavers: Collection[str]) -> "Federation":
        """Return a second federation, with toy keys, that has grown the same forest without these."""
        staying = {name: p for name, p in self.participants.items() if name not in leavers}
        columns = {name: participant.columns for name, participant in staying.items()}
        protocol = self.coordinator.certificate.forest_protocol
        toys = cached_setup(_TOY_BITS, True, self.n_jobs) if PROTOCOLS[protocol].needs_keys else None
        shadow = Federation(columns, seed=b"", protocol=protocol, setup=toys, n_jobs=self.n_jobs)
        shadow.seed = self.seed
        for name, participant in staying.items():
            shadow.participants[name].secret = participant.secret
            shadow.participants[name].settings = participant.settings
            if participant.store.books:
                shadow.participants[name].store.put_spending(before_its_books(participant.store))
        codes = {name: participant.table(TRAINING) for name, participant in staying.items()}
        shadow.train(codes, self.coordinator.plan.rules, self.coordinator.targets, lambda _: None)
        return shadow

    def revoke(self, parties: Sequence[str], level: RevocationLevel, progress: Progress) -> EventCertificate:
        """FRF-Revoc: these participants leave together. If it fails half-way, `resume` ends it."""
        check_somebody_stays(self.participants, parties)
        try:
            for party in parties:
                request = self.participants[party].leave(level)
                self.network.channel(party).call(KGC, request, Done)
        except BaseException:
            self.kgc.cancel_revocations(parties)
            raise
        self.resume(progress)
        return self.coordinator.certificates[-1]

    @property
    def leaving(self) -> bool:
        """Whether somebody has asked to leave, and the forest without them is not certified, or not whole."""
        wanted, cs = (
            bool(self.kgc.state.leaving) or self.kgc.state.uncertified,
            self.coordinator.lifecycle_state(),
        )
        return wanted or cs.revoking or cs.waiting

    @property
    def leavers(self) -> list[str]:
        """The participants whose revocation is not finished."""
        requests = self.kgc.current.requests if self.kgc.state.uncertified else ()
        begun = {request.party for request in requests} or self.coordinator.leavers
        return sorted({*self.kgc.state.leaving, *begun})

    def resume(self, progress: Progress, create: Callable[[], None] | None = None) -> None:
        """Perform all steps of KGC and CS that are left: end a revocation, or grow what is not grown yet.

        `create` makes the forest, if there is none. Members that are not needed now, and are away or refuse
        what they are told, are told again the next time.
        """
        cs, kgc, ledger = self.coordinator, self.kgc, self.network.ledger
        leaving, growing = measured(ledger, KGC, "FRF-Revoc"), measured(ledger, CS, "FLE-Expan")
        certifying, told_in_vain = measured(ledger, CS, "events"), set[str]()
        cs.ask_all_again()

        def look() -> KgcState | CsState:
            present = self.network.roles.keys() - told_in_vain
            state, own = kgc.lifecycle_state(present=present), cs.lifecycle_state()
            return own if own.rebuilding or state.next_step is Step.WAIT else state

        def announce() -> None:
            kgc.announce()
            told_in_vain.update(kgc.behind)

        def begin_with_new_keys() -> None:
            setup = fresh_setup_like(self.parameters, self.n_jobs)
            drop_cached_setup(self.parameters)
            kgc.begin_epoch(setup)

        actions: dict[Step, Callable[[], object]] = {
            Step.ANNOUNCE: leaving(announce),
            Step.BEGIN_EPOCH: leaving(lambda: kgc.begin_epoch(None)),
            Step.BEGIN_EPOCH_WITH_NEW_KEYS: leaving(begin_with_new_keys),
            Step.OPEN_FOREST: growing(cs.open),
            Step.GROW: growing(lambda: cs.grow(progress)),
            Step.REVOKE: measured(ledger, CS, "FRF-Revoc")(lambda: self._rebuild(progress)),
            Step.CERTIFY: certifying(cs.certify),
            Step.FORGET: certifying(cs.forget),
            Step.COLLECT_RECEIPTS: certifying(cs.collect_receipts),
        }
        if create is not None:
            actions[Step.CREATE_FOREST] = growing(create)
        with _collector_paused(), calls_at_once(self._calls):
            run(look, actions)

    def _rebuild(self, progress: Progress) -> None:
        """CS's part of FRF-Revoc, after everything of those who have left is discarded."""
        for party in self.kgc.current.revoked:
            self.stores.discard(PARTICIPANT, party)
            self.participants.pop(party, None)
            self.network.roles.pop(party, None)
            self.requesters.pop(party, None)
        for name in self.requesters.keys() - self.participants.keys():
            self.requesters[name].forget_keys_but(self.coordinator.certificate.dtpkc)
        self.coordinator.revoke(progress)

    def costs(self) -> Costs:
        """Return what everything so far has cost."""
        strangers = self.requesters.keys() - self.participants.keys()
        dtpkc = self.coordinator.certificate.dtpkc
        return Costs.of(None if dtpkc is None else self.parameters, strangers, self.network)

    def leakage(self) -> dict[str, dict[str, int]]:
        """Return what each role has received so far, counted from its messages."""
        learnt: dict[str, dict[str, int]] = {role: {} for role in (KGC, *self.network.roles)}
        for (role, what), count in sorted(self.network.learnt.items()):
            if count:
                learnt.setdefault(role, {})[what] = count
        return learnt
