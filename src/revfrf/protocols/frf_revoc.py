"""FRF-Revoc: a participant leaves, and the forest becomes the one that would have been grown without it.

The leaver signs a request to KGC and CS. KGC begins a new epoch without it; at level 2 with a new modulus,
new shares and new keys for all, and every party erases its old ones and signs a receipt. CS destroys the
leaver's nodes with everything below them, has the owners of what was below forget their cuts, and grows these
places again by FLE-Expan. A node changes exactly if its winner left (docs/forest.md), so the result is the
forest without the leaver, bit for bit. At level 2 the owners of the splits that live on encrypt them anew.
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from revfrf.crypto.batch import open_batch, sign_batch
from revfrf.crypto.canonical import Field
from revfrf.crypto.dtpkc import ho_enc
from revfrf.crypto.keys import Ciphertext
from revfrf.crypto.parallel import in_threads
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.crypto.strong import SetUp
from revfrf.errors import ProtocolError, UsageError
from revfrf.forest.criterion import Targets
from revfrf.forest.kernel import kernel
from revfrf.forest.nodes import Node, Nodes, Rows
from revfrf.messages.base import PATHS, TREES, Done, array, number
from revfrf.messages.enrolment import EpochCertificate
from revfrf.messages.revocation import Destroy, Level, Rekey, Rekeyed, Report, RevocationRequest
from revfrf.protocols.epoch import PARTICIPANT, certificate_digest, check_succession, sign_certificate
from revfrf.protocols.fle_expan import (
    Growth,
    LevelReport,
    Plan,
    fle_expan,
    split_context,
    split_statement,
)
from revfrf.protocols.key_setup import Identity, deal
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, StoredSplit
from revfrf.transport.base import Channel

_REVOKE = "revfrf revocation request v1"
_REPORT = "revfrf revocation report v1"


# -- the leaver -------------------------------------------------------------------------------------


def sign_revocation(identity: Identity, forest: bytes, level: Level) -> RevocationRequest:
    """A new request of this party to leave this forest."""
    unsigned = RevocationRequest(
        federation=identity.federation,
        forest=forest,
        epoch=identity.epoch,
        party=identity.name,
        level=level,
        nonce=secrets.token_bytes(16),
        time=int(time.time()),
        signature=bytes(64),
    )
    signature = identity.signing_key.sign(_REVOKE, *revocation_fields(unsigned))
    return msgspec.structs.replace(unsigned, signature=signature)


def revocation_fields(request: RevocationRequest) -> tuple[Field, ...]:
    """What a leaver signs: everything but the signature."""
    r = request
    return (r.federation, r.forest, r.epoch, r.party, r.level, r.nonce, r.time)


# -- KGC and CS -------------------------------------------------------------------------------------


def check_revocation(certificate: EpochCertificate, request: RevocationRequest) -> None:
    """Raise RejectedError unless a participant of this epoch has signed that it leaves."""
    if (request.federation, request.epoch) != (certificate.federation, certificate.epoch):
        raise ProtocolError("a request to leave another federation, or in another epoch", kind="epoch")
    members = {m.name: m for m in certificate.members if m.role == PARTICIPANT}
    if request.party not in members:
        raise ProtocolError(f"{request.party!r} is no participant", kind="member")
    key = VerifyKey(members[request.party].verify_key)
    key.verify(request.signature, _REVOKE, *revocation_fields(request))


def report_fields(report: Report) -> tuple[Field, ...]:
    """What CS signs of a revocation."""
    r = report
    counts = (r.destroyed, r.rebuilt, r.kept)
    return (r.epoch, r.forest, r.digest_before, r.digest_after, *counts)


def sign_report(identity: Identity, report: Report) -> Report:
    """CS: the report, signed."""
    signature = identity.signing_key.sign(_REPORT, identity.federation, *report_fields(report))
    return msgspec.structs.replace(report, signature=signature)


def verify_report(cs: VerifyKey, federation: str, report: Report) -> None:
    """Return only if CS has signed the report; else raise SignatureError."""
    cs.verify(report.signature, _REPORT, federation, *report_fields(report))


# -- KGC --------------------------------------------------------------------------------------------


def next_epoch(
    channel: Channel,
    kgc: SigningKey,
    current: EpochCertificate,
    leavers: Collection[str],
    dealt: SetUp | None,
    n_jobs: int,
) -> EpochCertificate:
    """The certificate of the epoch after this one, without the leavers, and with new keys if there is a new
    set-up. Nobody is in it before it is announced.
    """
    staying = tuple(member for member in current.members if member.name not in leavers)
    if not any(member.role == PARTICIPANT for member in staying):
        raise UsageError("the last participant cannot leave: there would be no forest without it")
    unsigned = msgspec.structs.replace(
        current,
        epoch=current.epoch + 1,
        members=staying,
        revoked=(*current.revoked, *sorted(leavers)),
        previous=certificate_digest(current),
    )
    if dealt is not None:
        p, roles = dealt.parameters, {member.name: member.role for member in staying}
        known = {member.name: member.verify_key for member in staying}
        members = deal(channel, current.federation, unsigned.epoch, dealt, roles, known, n_jobs)
        unsigned = msgspec.structs.replace(
            unsigned, members=members, n=number(p.n), g0=number(p.g0), exponent_bits=p.exponent_bits
        )
    check_succession(current, unsigned)
    return sign_certificate(kgc, unsigned)


# -- CS ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Doomed:
    """What goes when participants leave: all nodes at and below their splits, and the topmost of these."""

    nodes: frozenset[Node]
    tops: Sequence[Node]


def doomed(store: CoordinatorStore, leavers: Collection[str]) -> Doomed:
    """The nodes that are destroyed when these owners leave."""
    dead: set[Node] = set()
    tops: list[Node] = []
    for tree, path in sorted([*store.splits, *store.leaves]):  # parents come before their children
        below = (tree, path // 2) in dead
        split = store.splits.get((tree, path))
        if below or (split is not None and split.owner in leavers):
            dead.add((tree, path))
            if not below:
                tops.append((tree, path))
    return Doomed(frozenset(dead), tops)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How many nodes were destroyed, made in their place, and kept."""

    destroyed: int
    rebuilt: int
    kept: int


def frf_revoc(
    channel: Channel,
    plan: Plan,
    targets: Targets,
    store: CoordinatorStore,
    leavers: Collection[str],
    rekey: bool,
    n_jobs: int,
    progress: Callable[[LevelReport], None],
) -> Rebuilt:
    """Destroy what goes and grow it again, by the plan of the epoch without the leavers."""
    going = doomed(store, leavers)
    before = len(store.splits) + len(store.leaves)
    rows = _rows_below(store.leaf_paths, going.tops)
    _destroy(channel, plan, store, leavers, going)
    kept = dict(store.splits)
    for (tree, _), some in zip(going.tops, rows, strict=True):
        store.leaf_paths[tree, some] = 0
    frontier = Nodes.of([tree for tree, _ in going.tops], [path for _, path in going.tops], rows)
    fle_expan(channel, plan, targets, store, n_jobs, progress, frontier)
    if rekey:
        _rekey(channel, plan, store, kept, n_jobs)
    after = len(store.splits) + len(store.leaves)
    lost = len(going.nodes)
    return Rebuilt(lost, after - (before - lost), before - lost)


def _rows_below(leaf_paths: NDArray[np.uint64], tops: Sequence[Node]) -> list[Rows]:
    """For each of these nodes, none of which is below another, the rows whose leaf is at or below it.

    The nodes come tree by tree, as `doomed` gives them.
    """
    found: list[Rows] = []
    for tree, group in groupby(tops, key=lambda node: node[0]):
        paths = np.array([path for _, path in group], dtype=np.uint64)
        order = np.argsort(paths)
        place = _place_below(leaf_paths[tree], paths[order])
        rows = np.argsort(place, kind="stable").astype(np.uint32)
        ends = np.searchsorted(place[rows], np.arange(len(paths) + 1))
        own = [rows[ends[i] : ends[i + 1]] for i in range(len(paths))]
        found += [own[i] for i in np.argsort(order)]
    return found


@kernel
def _place_below(leaves: NDArray[np.uint64], paths: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each leaf the place, among these ascending paths, of the one it is at or below, or else -1."""
    place = np.full(len(leaves), -1, dtype=np.int64)
    for i in range(len(leaves)):
        path = leaves[i]
        while path > 0:
            at = np.searchsorted(paths, path)
            if at < len(paths) and paths[at] == path:
                place[i] = at
                break
            path >>= np.uint64(1)
    return place


def _destroy(
    channel: Channel, plan: Plan, store: CoordinatorStore, leavers: Collection[str], going: Doomed
) -> None:
    """Have every owner who stays forget its cuts among these nodes, and forget them oneself."""
    by_owner: dict[str, list[Node]] = {}
    for node in sorted(going.nodes & store.splits.keys()):
        by_owner.setdefault(store.splits[node].owner, []).append(node)
    for owner in by_owner.keys() - set(leavers):
        trees, paths = _names(by_owner[owner])
        channel.call(owner, Destroy(epoch=plan.epoch, forest=plan.forest, trees=trees, paths=paths), Done)
    store.erase(going.nodes)


def _rekey(
    channel: Channel, plan: Plan, store: CoordinatorStore, kept: Mapping[Node, StoredSplit], n_jobs: int
) -> None:
    """Have the owners encrypt the splits that have lived on anew."""
    by_owner: dict[str, list[Node]] = {}
    for node, split in kept.items():
        by_owner.setdefault(split.owner, []).append(node)

    def ask(owner: str) -> dict[Node, StoredSplit]:
        nodes = by_owner[owner]
        trees, paths = _names(nodes)
        message = Rekey(epoch=plan.epoch, forest=plan.forest, trees=trees, paths=paths)
        reply = channel.call(owner, message, Rekeyed)
        width = plan.parameters.ciphertext_bytes
        blob = array(reply.ciphertexts, "u1", width * len(nodes)).tobytes()
        ciphertexts = [blob[at : at + width] for at in range(0, len(blob), width)]
        for ciphertext in ciphertexts:
            Ciphertext.from_bytes(plan.parameters, ciphertext)
        context = split_context(plan.federation, plan.epoch, plan.forest)
        statements = [split_statement(node, c) for node, c in zip(nodes, ciphertexts, strict=True)]
        batch = open_batch(plan.verify_keys[owner], reply.signature, context, statements)
        return {
            node: kept[node]._replace(ciphertext=ciphertexts[i], epoch=plan.epoch, batch=batch, position=i)
            for i, node in enumerate(nodes)
        }

    for splits in in_threads(ask, sorted(by_owner), n_jobs):
        store.commit(splits, {})


def _names(nodes: Sequence[Node]) -> tuple[bytes, bytes]:
    trees, paths = [tree for tree, _ in nodes], [path for _, path in nodes]
    return np.array(trees, TREES).tobytes(), np.array(paths, PATHS).tobytes()


# -- an owner ---------------------------------------------------------------------------------------


def answer_destroy(growth: Growth, store: ParticipantStore, message: Destroy) -> Done:
    """Forget the cuts of these nodes."""
    store.forget(_own_nodes(growth, store, message))
    return Done()


def answer_rekey(
    identity: Identity, growth: Growth, store: ParticipantStore, message: Rekey, n_jobs: int
) -> Rekeyed:
    """The cuts of these nodes, encrypted under the current key and signed for the current epoch."""
    nodes = _own_nodes(growth, store, message)
    key = identity.weak.public
    values = [store.cuts[node][1] for node in nodes]
    ciphertexts = [c.to_bytes(key.parameters) for c in ho_enc(key, values, n_jobs=n_jobs)]
    signature = sign_batch(
        identity.signing_key,
        split_context(growth.rules.federation, message.epoch, growth.rules.forest),
        [split_statement(node, c) for node, c in zip(nodes, ciphertexts, strict=True)],
    )
    return Rekeyed(ciphertexts=b"".join(ciphertexts), signature=signature)


def _own_nodes(growth: Growth, store: ParticipantStore, message: Destroy | Rekey) -> list[Node]:
    """The nodes of a message, each once, and all of them this owner's; only after somebody has left."""
    if message.epoch <= growth.rules.epoch:
        raise ProtocolError("nobody has left", kind="order")
    trees = array(message.trees, TREES).tolist()
    nodes: list[Node] = list(zip(trees, array(message.paths, PATHS, len(trees)).tolist(), strict=True))
    if not nodes or len(set(nodes)) != len(nodes) or not store.cuts.keys() >= set(nodes):
        raise ProtocolError("nodes that are not ours, or named twice", kind="node")
    return nodes
