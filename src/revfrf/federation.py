"""A whole federation in one process: every role, the memory transport, and its books."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from revfrf.costs import Costs
from revfrf.crypto.canonical import digest
from revfrf.crypto.keys import check_sizes
from revfrf.crypto.signing import SigningKey
from revfrf.crypto.strong import SetUp, set_up
from revfrf.forest.criterion import Targets
from revfrf.forest.tree import Rules
from revfrf.forest.voting import Voting
from revfrf.messages import Column
from revfrf.metering import measured
from revfrf.protocols.fle_expan import LevelReport
from revfrf.protocols.key_setup import CC, CS, KGC, PARTICIPANT, Identity
from revfrf.roles.compute import ComputePartner
from revfrf.roles.coordinator import Coordinator
from revfrf.roles.kgc import KeyCentre
from revfrf.roles.participant import TRAINING, Participant
from revfrf.storage.memory import ParticipantStore
from revfrf.transport.memory import MemoryNetwork

RESERVED = (KGC, CS, CC)
"""Names that no participant may have."""

Codes = Mapping[str, NDArray[np.int64]]
"""For each party the x̂ of its columns, a row a column."""

_made: dict[int, SetUp] = {}
_one_search_at_a_time = Lock()


def keys_of_size(key_bits: int, allow_insecure: bool, n_jobs: int) -> SetUp:
    """A modulus and its shares, made once per process and size."""
    check_sizes(key_bits, None, allow_insecure)
    with _one_search_at_a_time:
        if key_bits not in _made:
            _made[key_bits] = set_up(key_bits, allow_insecure=allow_insecure, n_jobs=n_jobs)
        return _made[key_bits]


class Federation:
    """KGC, CS, CC and participants who share a process and nothing else: they talk in messages.

    `seed` makes runs repeat: the forest's seed and the participants' secrets come from it. Keys never do.
    """

    def __init__(
        self, columns: Mapping[str, Sequence[Column]], *, dealt: SetUp, seed: bytes, n_jobs: int = 1
    ) -> None:
        self.parameters = dealt.parameters
        self.network = MemoryNetwork()
        self.kgc = KeyCentre(self.network.channel(KGC), n_jobs)
        self.seed = digest("revfrf forest seed v1", seed)
        self.coordinator = Coordinator(self._identity(CS, CS), self.network.channel(CS), n_jobs)
        self.compute = ComputePartner(self._identity(CC, CC))
        self.participants = {
            party: Participant(
                self._identity(party, PARTICIPANT),
                owned,
                digest("revfrf participant secret v1", seed, party),
                ParticipantStore(),
                n_jobs,
            )
            for party, owned in columns.items()
        }
        self.network.roles = {CS: self.coordinator, CC: self.compute, **self.participants}
        with measured(self.network.ledger, KGC, "key set-up"):
            roles = {CS: CS, CC: CC} | dict.fromkeys(self.participants, PARTICIPANT)
            self.kgc.enrol(f"embedded {secrets.token_hex(8)}", dealt, roles)

    def _identity(self, name: str, role: str) -> Identity:
        insecure = self.parameters.allow_insecure
        return Identity(name, role, self.kgc.signing.verify_key, SigningKey.generate(), insecure)

    def train(
        self, codes: Codes, rules: Rules, targets: Targets, progress: Callable[[LevelReport], None]
    ) -> None:
        """FLE-Expan on these rows."""
        for party, table in codes.items():
            self.participants[party].tables[TRAINING] = table
        with measured(self.network.ledger, CS, "FLE-Expan"):
            self.coordinator.open(rules, self.seed, len(targets.values))
            self.coordinator.grow(targets, progress)

    def votes(self, codes: Codes, n_rows: int, n_classes: int, voting: Voting) -> NDArray[np.float64]:
        """FRF-Test on these rows, of which each participant is handed its own columns."""
        with self._held(codes) as table, measured(self.network.ledger, CS, "FRF-Test"):
            return self.coordinator.votes(table, n_rows, n_classes, voting)

    @contextmanager
    def _held(self, codes: Codes) -> Iterator[str]:
        name = f"test {secrets.token_hex(8)}"
        for party, table in codes.items():
            self.participants[party].tables[name] = table
        try:
            yield name
        finally:
            for party in codes:
                del self.participants[party].tables[name]

    def costs(self) -> Costs:
        """What everything so far has cost."""
        network = self.network
        return Costs.of(self.parameters, network.ledger.entries, network.messages, network.bytes)

    def leakage(self) -> dict[str, dict[str, int]]:
        """What each role has received so far, counted from its messages."""
        learnt: dict[str, dict[str, int]] = {role: {} for role in (KGC, *self.network.roles)}
        for (role, what), count in sorted(self.network.learnt.items()):
            if count:
                learnt[role][what] = count
        return learnt
