"""FRF-Revoc: a participant leaves, and the forest becomes the one that would have been grown without it.

The leaver signs a request to KGC. KGC begins a new epoch without it; at level 2 with a new modulus,
new shares and new keys for all, and every party erases its old ones and signs a receipt. CS destroys the
leaver's nodes with everything below them, has the owners of what was below forget their cuts, and grows these
places again by FLE-Expan. A node changes exactly if its winner left (docs/forest.md), so the result is the
forest without the leaver, bit for bit. At level 2 the owners of the splits that live on encrypt them anew.
"""

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from revfrf.crypto.canonical import Field
from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.signing import SigningKey, VerifyKey
from revfrf.errors import ProtocolError, UsageError
from revfrf.forest.nodes import Node
from revfrf.messages.base import PATHS, TREES, Done, array, number
from revfrf.messages.frf_revoc import Destroy, Rekey, Rekeyed, Report, RevocationLevel, RevocationRequest
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import PARTICIPANT
from revfrf.parallel import in_threads
from revfrf.protocols.common.epoch import certificate_digest, check_succession, sign_certificate
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.key_setup import deal
from revfrf.protocols.paper.fle_expan import Growth, Plan
from revfrf.protocols.paper.splits import encrypt_splits, open_splits
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, StoredSplit
from revfrf.transport.base import Channel

_REVOKE = "revfrf revocation request v1"
_REPORT = "revfrf revocation report v1"


# -- the leaver -------------------------------------------------------------------------------------


def sign_revocation(identity: Identity, forest: bytes, level: RevocationLevel) -> RevocationRequest:
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
    setup: SetUp | None,
    deal_number: int,
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
    if setup is not None:
        p, roles = setup.parameters, {member.name: member.role for member in staying}
        known = {member.name: member.verify_key for member in staying}
        members = deal(channel, current.federation, unsigned.epoch, setup, deal_number, roles, known, n_jobs)
        unsigned = msgspec.structs.replace(
            unsigned, members=members, n=number(p.n), g0=number(p.g0), exponent_bits=p.exponent_bits
        )
    check_succession(current, unsigned)
    return sign_certificate(kgc, unsigned)


# -- CS ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Doomed:
    """What goes when participants leave: all nodes at and below their splits, the topmost of these, and the
    places below them where nothing has grown yet.
    """

    nodes: frozenset[Node]
    tops: Sequence[Node]
    bare: frozenset[Node] = frozenset()


def doomed(store: CoordinatorStore, leavers: Collection[str]) -> Doomed:
    """The nodes that are destroyed when these owners leave."""
    dead, bare, tops = set[Node](), set[Node](), list[Node]()
    for top in sorted(node for node, split in store.splits.items() if split.owner in leavers):
        if top in dead:  # below another: paths ascend, so parents come before their children
            continue
        tops.append(top)
        below = [top]
        while below:
            tree, path = node = below.pop()
            (dead if node in store.splits or node in store.leaves else bare).add(node)
            if node in store.splits:
                below += ((tree, 2 * path), (tree, 2 * path + 1))
    return Doomed(frozenset(dead), tops, frozenset(bare))


def destroy(channel: Channel, plan: Plan, store: CoordinatorStore, leavers: Collection[str]) -> Doomed:
    """Have every owner who stays forget its cuts among the nodes that go. Returns what goes.

    Of the places where nothing has grown yet, CS cannot tell who has a cut there: whoever has won one in a
    level that was interrupted.
    """
    going = doomed(store, leavers)
    lost = _by_owner({node: store.splits[node] for node in going.nodes if node in store.splits})
    bare = sorted((tree, path) for tree, path in going.bare if not path >> plan.rules.max_depth)
    for owner in sorted((plan.owners if bare else lost).keys() - set(leavers)):
        trees, paths = _names([*lost.get(owner, ()), *bare])
        message = Destroy(epoch=plan.epoch, forest=plan.forest, round=store.round, trees=trees, paths=paths)
        channel.call(owner, message, Done)
    return going


def rekey(channel: Channel, plan: Plan, store: CoordinatorStore, n_jobs: int) -> None:
    """Have the owners encrypt the splits of older epochs anew."""
    kept = {node: split for node, split in store.splits.items() if split.epoch != plan.epoch}
    by_owner = _by_owner(kept)

    def ask(owner: str) -> dict[Node, StoredSplit]:
        nodes = by_owner[owner]
        trees, paths = _names(nodes)
        message = Rekey(epoch=plan.epoch, forest=plan.forest, trees=trees, paths=paths)
        reply = channel.call(owner, message, Rekeyed)
        ciphertexts, batch = open_splits(
            plan.parameters, plan.verify_keys[owner], plan.context, nodes, reply.ciphertexts, reply.signature
        )
        return {
            node: kept[node]._replace(ciphertext=ciphertexts[i], epoch=plan.epoch, batch=batch, position=i)
            for i, node in enumerate(nodes)
        }

    for splits in in_threads(ask, sorted(by_owner), n_jobs):
        store.commit(splits, {})


def _by_owner(splits: Mapping[Node, StoredSplit]) -> dict[str, list[Node]]:
    nodes: dict[str, list[Node]] = {}
    for node in sorted(splits):
        nodes.setdefault(splits[node].owner, []).append(node)
    return nodes


def _names(nodes: Sequence[Node]) -> tuple[bytes, bytes]:
    trees, paths = [tree for tree, _ in nodes], [path for _, path in nodes]
    return np.array(trees, TREES).tobytes(), np.array(paths, PATHS).tobytes()


# -- an owner ---------------------------------------------------------------------------------------


def answer_destroy(growth: Growth, store: ParticipantStore, message: Destroy) -> Done:
    """Forget the cuts of these nodes; told again, there are none left to forget, or others have grown there
    meanwhile, which stay.
    """
    if message.round < store.round:
        raise ProtocolError(
            f"nodes destroyed in round {message.round} after round {store.round}", kind="order"
        )
    store.forget(_read_nodes(growth, message))
    return Done()


def answer_rekey(
    identity: Identity, growth: Growth, store: ParticipantStore, message: Rekey, n_jobs: int
) -> Rekeyed:
    """The thresholds of these nodes, encrypted under the current key and signed for the current epoch."""
    nodes = _read_nodes(growth, message)
    if not store.own_splits.keys() >= set(nodes):
        raise ProtocolError("nodes that are not ours", kind="node")
    thresholds = [store.own_splits[node][1] for node in nodes]
    ciphertexts, signature = encrypt_splits(identity, growth.rules.forest, nodes, thresholds, n_jobs)
    return Rekeyed(ciphertexts=ciphertexts, signature=signature)


def _read_nodes(growth: Growth, message: Destroy | Rekey) -> list[Node]:
    """The nodes of a message, each once; only after somebody has left."""
    if message.epoch <= growth.rules.epoch:
        raise ProtocolError("nobody has left", kind="order")
    trees = array(message.trees, TREES).tolist()
    nodes: list[Node] = list(zip(trees, array(message.paths, PATHS, len(trees)).tolist(), strict=True))
    n_trees, n_paths = growth.rules.n_trees, 1 << growth.rules.max_depth
    if not nodes or len(set(nodes)) != len(nodes):
        raise ProtocolError("no nodes, or one of them twice", kind="node")
    if not all(tree < n_trees and 0 < path < n_paths for tree, path in nodes):
        raise ProtocolError("nodes that no tree has", kind="node")
    return nodes
