"""Small forests on disk: what is done with them, what is expected of them, and which secrets they hold."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revfrf import RevocableForestClassifier, RevocableForestRegressor
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.embedded import federation as federation_module
from revfrf.embedded.federation import Federation
from revfrf.forest.nodes import Leaf, Node
from revfrf.messages.frf_revoc import RevocationLevel
from revfrf.names import CC, CS
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.common.request import RequestPolicy
from revfrf.protocols.sides import TRAINING
from revfrf.roles.participant import Participant
from revfrf.storage.memory import CoordinatorStore
from revfrf.testing.federations import later_keys
from tests.killing import for_good

KINDS = {"classifier": RevocableForestClassifier, "regressor": RevocableForestRegressor}
POLICY = RequestPolicy(refuses=["burglar"], max_rows=3)

Nodes = tuple[dict[Node, tuple[str, int]], dict[Node, Leaf]]

X = np.random.default_rng(0).normal(size=(60, 6))
Y = (X[:, :3].sum(axis=1) > 0).astype(np.int64) + (X[:, 2] > 1)
NUMBERS = X[:, 0] + X[:, 1] * X[:, 2]


@dataclass(frozen=True)
class Small:
    """A small forest: who owns which columns of X, and how many trees of which depth there are."""

    columns: tuple[tuple[str, tuple[int, ...]], ...]
    seed: int
    n_trees: int = 2
    depth: int = 3
    kind: str = "classifier"

    @property
    def parties(self) -> dict[str, tuple[int, ...]]:
        return dict(self.columns)

    @property
    def target(self) -> Any:
        return Y if self.kind == "classifier" else NUMBERS

    def rows(self, leavers: Collection[str] = ()) -> Any:
        """X, with the columns of those who stay, in the order of X."""
        return X[:, sorted(i for party, owned in self.columns if party not in leavers for i in owned)]

    def estimator(self, directory: Path | None = None, leavers: Collection[str] = ()) -> Any:
        """Without the leavers, if there are any; every feature is as often a candidate as with them."""
        staying = {party: owned for party, owned in self.columns if party not in leavers}
        place = {column: i for i, column in enumerate(sorted(i for owned in staying.values() for i in owned))}
        return KINDS[self.kind](
            self.n_trees,
            max_depth=self.depth,
            max_features=0.6,
            min_samples_leaf=2,
            n_candidates=7,
            n_sampled=16,
            parties={party: [place[i] for i in owned] for party, owned in staying.items()},
            protocol="paper",
            key_bits=256,
            allow_insecure_keys=True,
            random_state=self.seed,
            n_jobs=1,
            directory=directory,
        )

    def opened(self, directory: Path) -> Any:
        return KINDS[self.kind].open(directory)


THREE = Small((("bank", (0, 4)), ("telco", (1, 3)), ("shop", (2,))), seed=5)
"""When the bank leaves, both others forget cuts, and both keep some."""

TINY = Small(THREE.columns, seed=20, depth=2)
"""When the bank leaves, the shop has nothing to forget; when telco leaves, nobody has."""

IDLE = Small(THREE.columns, seed=0, depth=2)
"""The shop has no cuts, and leaves no gap."""

FOUR = Small((*THREE.columns, ("mill", (5,))), seed=1, n_trees=3)
"""When the shop and telco leave, both others forget cuts, and both keep some."""

REGRESSION = Small(FOUR.columns, seed=1, kind="regressor")


# -- what is expected: computed in this process, in memory, without faults --------------------------


@dataclass(frozen=True)
class Expected:
    """A forest of those who stay: its digest, and its answers."""

    digest: str
    parties: dict[str, list[str]]
    nodes: Nodes
    answers: NDArray[Any]
    shares: NDArray[np.float64]


def nodes_of(store: CoordinatorStore) -> Nodes:
    """What the digest is made of."""
    return {node: (split.feature, split.cut) for node, split in store.splits.items()}, dict(store.leaves)


@lru_cache
def expected(forest: Small, leavers: tuple[str, ...]) -> Expected:
    """What `fit` without the leavers gives; in children, known already."""
    rows = forest.rows(leavers)
    model = forest.estimator(leavers=leavers).fit(rows, forest.target)
    answers = model.predict(rows)
    shares = model.predict_proba(rows) if forest.kind == "classifier" else answers
    nodes = nodes_of(model.federation_.coordinator.store)
    return Expected(model.digest_, model.parties_, nodes, answers, shares)


def check_answers(model: Any, forest: Small, leavers: tuple[str, ...]) -> None:
    """The forest is the one of `fit` without these, bit for bit, and answers."""
    wanted = expected(forest, leavers)
    assert model.digest_ == wanted.digest
    assert model.parties_ == wanted.parties
    assert model.predict(forest.rows(leavers)).tobytes() == wanted.answers.tobytes()
    if forest.kind == "classifier":
        assert model.predict_proba(forest.rows()).tobytes() == wanted.shares.tobytes()


def check_encrypted(model: Any, forest: Small, leavers: tuple[str, ...], requester: str | None) -> None:
    wanted, rows = expected(forest, leavers).answers, forest.rows(leavers)
    assert model.predict_encrypted(rows[:1], requester).tobytes() == wanted[:1].tobytes()


# -- what is killed, and what comes after -----------------------------------------------------------


def fit(forest: Small, directory: Path) -> None:
    forest.estimator(directory).fit(forest.rows(), forest.target).close()


def leave(forest: Small, leavers: Sequence[str], level: RevocationLevel, directory: Path) -> None:
    """What is killed."""
    forest.opened(directory).revoke(list(leavers), level)


def last_modulus(parameters: Parameters, n_jobs: int) -> SetUp:  # noqa: ARG001
    """Another than the one that is dealt first: who resumes finds a modulus of its own."""
    return next(dealt for dealt in reversed(later_keys()) if dealt.parameters != parameters)


def opened_again(forest: Small, directory: Path) -> Any:
    """What comes after."""
    for_good.setattr(federation_module, "fresh_setup_like", last_modulus)
    return forest.opened(directory)


# -- directories, and the secrets in them -----------------------------------------------------------


@dataclass(frozen=True)
class Before:
    """A directory with a forest that nobody has left, and the secrets that are in it then."""

    forest: Small
    directory: Path
    files: frozenset[str]
    n: int
    ciphertexts: dict[tuple[int, int], bytes]
    signatures: tuple[bytes, ...]
    keys: dict[str, tuple[bytes, ...]]
    own: dict[str, tuple[bytes, ...]]
    cuts: dict[str, frozenset[bytes]]

    def gone(self, federation: Federation, leavers: tuple[str, ...], level: RevocationLevel) -> list[bytes]:
        """What nobody may find in any file any more, since these have left."""
        splits = federation.coordinator.store.splits.values()
        secrets = {secret for party in leavers for secret in (*self.keys[party], *self.own[party])}
        if leavers and level == 2:
            secrets.update(*self.keys.values())
        secrets |= {*self.ciphertexts.values()} - {split.ciphertext for split in splits}
        secrets |= {*self.signatures} - {split.batch.signature for split in splits}
        live = {name: _cuts(participant) for name, participant in federation.participants.items()}
        return [*secrets.union(*(cuts - live.get(name, set()) for name, cuts in self.cuts.items()))]


def before_of(forest: Small, directory: Path, federation: Federation) -> Before:
    splits = federation.coordinator.store.splits
    roles = federation.with_policies
    return Before(
        forest=forest,
        directory=directory,
        files=frozenset(path.name for path in directory.glob("*.db")),
        n=federation.parameters.n,
        ciphertexts={node: split.ciphertext for node, split in splits.items()},
        signatures=tuple({split.batch.signature for split in splits.values()}),
        keys={name: keys_of(role.identity) for name, role in {**federation.requesters, **roles}.items()},
        own={
            name: (role.secret, role.identity.signing_key.export(), *_rows(role))
            for name, role in federation.participants.items()
        },
        cuts={name: frozenset(_cuts(role)) for name, role in federation.participants.items()},
    )


def file_of(before: Before, role: str) -> str:
    """Of CS, CC or a participant."""
    if role in (CS, CC):
        return f"{role.lower()}.db"
    [file] = [name for name in before.files if name.startswith(f"participant-{role}-")]
    return file


def _cuts(participant: Participant) -> set[bytes]:
    """Its cuts, as they are in its database."""
    return {_record((*node, *cut)) for node, cut in participant.store.own_splits.items()}


def _record(numbers: Sequence[int]) -> bytes:
    """A row of integers and a checksum in SQLite's own format: the length of each, then all integers."""
    kinds, values = [], []
    for number in numbers:
        size = next(n for n in (1, 2, 3, 4, 6, 8) if -(2 ** (8 * n - 1)) <= number < 2 ** (8 * n - 1))
        small = number in (0, 1)
        kinds.append(8 + number if small else {6: 5, 8: 6}.get(size, size))
        values.append(b"" if small else number.to_bytes(size, "big", signed=True))
    return bytes((2 + len(kinds), *kinds, 12 + 2 * 16)) + b"".join(values)


def _rows(participant: Participant) -> list[bytes]:
    return [column.astype("<i8").tobytes() for column in participant.tables[TRAINING]]


def keys_of(identity: Identity) -> tuple[bytes, ...]:
    """Its private keys, as they are written down."""
    assert identity.keys is not None
    record = identity.keys.record()
    return (record.sk,) if record.share is None else (record.sk, record.share)
