"""CS, the coordinator: owns the labels, the structure of the forest and its leaves; drives every protocol."""

import secrets
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.canonical import Field
from revfrf.crypto.keys import Parameters
from revfrf.crypto.signing import VerifyKey
from revfrf.errors import ProtocolError
from revfrf.forest.criterion import Targets
from revfrf.forest.nodes import Nodes
from revfrf.forest.tree import Rules, feature_id, forest_digest
from revfrf.forest.voting import Voting, add_votes, leaf_votes
from revfrf.messages import Column, OpenForest, Schema, of_number
from revfrf.protocols.fle_expan import LevelReport, Plan, fle_expan
from revfrf.protocols.frf_test import frf_test
from revfrf.protocols.key_setup import PARTICIPANT, Identity
from revfrf.roles.party import Party
from revfrf.storage.memory import CoordinatorStore
from revfrf.transport.base import Channel

_CALLS_PER_WORKER = 4
"""With real keys participants mostly wait for worker processes that encrypt: more are called at once."""


class Coordinator(Party):
    """CS, with one forest: first `open`, then `grow`, then any number of `votes`."""

    plan: Plan
    store: CoordinatorStore
    opening: OpenForest

    def __init__(self, identity: Identity, channel: Channel, n_jobs: int = 1) -> None:
        super().__init__(identity)
        self.channel = channel
        self.n_jobs = n_jobs

    def open(self, rules: Rules, seed: bytes, n_rows: int) -> None:
        """Create a forest with all participants of the epoch."""
        epoch = self.certificate
        opening = OpenForest(
            federation=epoch.federation,
            epoch=epoch.epoch,
            forest=secrets.token_bytes(16),
            n_trees=rules.n_trees,
            max_depth=rules.max_depth,
            method=rules.method,
            n_candidates=rules.n_candidates,
            n_sampled=rules.n_sampled,
        )
        members = [member.name for member in epoch.members if member.role == PARTICIPANT]
        schemas = {party: self.channel.call(party, opening, Schema) for party in members}
        for party, schema in schemas.items():
            _check_schema(party, schema, n_rows)
        columns = {party: schema.columns for party, schema in schemas.items()}
        store = CoordinatorStore(np.zeros((rules.n_trees, n_rows), dtype=np.uint64))
        self.resume(opening, rules, seed, columns, store)

    def resume(
        self,
        opening: OpenForest,
        rules: Rules,
        seed: bytes,
        columns: Mapping[str, Sequence[Column]],
        store: CoordinatorStore,
    ) -> None:
        """Go on with a forest that was created before."""
        epoch = self.certificate
        self.opening, self.store = opening, store
        self.plan = Plan(
            federation=opening.federation,
            epoch=opening.epoch,
            forest=opening.forest,
            seed=seed,
            rules=rules,
            parameters=Parameters(
                of_number(epoch.n), of_number(epoch.g0), epoch.exponent_bits, self.identity.allow_insecure
            ),
            owners={party: [feature_id(party, c.name) for c in owned] for party, owned in columns.items()},
            verify_keys={member.name: VerifyKey(member.verify_key) for member in epoch.members},
        )

    def grow(self, targets: Targets, progress: Callable[[LevelReport], None]) -> None:
        """FLE-Expan until nothing is left to grow."""
        waiting = self.plan.parameters.jobs(self.n_jobs) > 1
        threads = self.n_jobs * (_CALLS_PER_WORKER if waiting else 1)
        fle_expan(self.channel, self.plan, targets, self.store, threads, progress)

    def votes(self, table: str, n_rows: int, n_classes: int, voting: Voting) -> NDArray[np.float64]:
        """FRF-Test: the sum of all trees' votes for each row of a table that the participants hold."""
        totals = np.zeros((n_rows, n_classes or 1))

        def count(leaves: Nodes) -> None:
            sums = np.array([self.store.leaves[name] for name in leaves.names()], dtype=np.int64)
            add_votes(totals, leaves, leaf_votes(sums.reshape(-1, n_classes or 2), n_classes, voting))

        frf_test(self.channel, self.plan, self.store, table, n_rows, count, self.n_jobs)
        return totals

    def digest(self, targets: Sequence[Field]) -> str:
        """The name of the forest's plain structure."""
        splits = {node: (stored.feature, stored.cut) for node, stored in self.store.splits.items()}
        return forest_digest(self.plan.rules, tuple(targets), splits, self.store.leaves)


def _check_schema(party: str, schema: Schema, n_rows: int) -> None:
    names = [column.name for column in schema.columns]
    if schema.n_rows != n_rows:
        raise ProtocolError(f"{party!r} holds {schema.n_rows} rows, the labels are {n_rows}", kind="schema")
    if not 0 < len(names) < 2**16 or len(set(names)) != len(names):
        raise ProtocolError(f"{party!r} has no columns, too many, or two of one name", kind="schema")
