"""FRF-Revoc: a participant leaves, and the forest becomes the one grown without it. In outline::

    request = sign_revocation(leaver, forest, level)     # the leaver, to KGC (line 1, there to CS)
    check_revocation(epoch, request)                     # KGC (line 2)
    after = next_epoch(kgc, epoch, leavers, setup)       # KGC (line 15); at level 2 with new keys for all
    receipts = announce(epoch, after)                    # KGC to all who stay (line 16); old keys are erased
    going = destroy(cs, leavers)                         # CS and the owners who stay (lines 3 to 7)
    fle_expan(cs)                                        # CS and the owners who stay (line 8)
    reencrypt(cs)                                        # at level 2, instead of lines 9 to 12
    certificate = certify(report(cs))                    # CS reports, and KGC certifies

A node changes exactly if its winner left (docs/forest.md), so the result is, bit for bit, the forest without
the leaver. docs/deviations.md says why KGC goes first, and what replaces lines 9 to 12. Every step is
recorded before the next one begins, so `frf_revoc` goes on where it was interrupted.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from revfrf.crypto.dtpkc.strong import SetUp
from revfrf.crypto.signing import SigningKey
from revfrf.errors import ProtocolError
from revfrf.forest.nodes import Node
from revfrf.messages.base import PATHS, TREES, Done, array
from revfrf.messages.frf_revoc import Certified, Destroy, Rekey, Rekeyed, Report, RevocationReport
from revfrf.messages.key_setup import EpochCertificate
from revfrf.names import KGC
from revfrf.parallel import side_by_side
from revfrf.protocols.certificate import RevocationCertificate, sign_report
from revfrf.protocols.common.epoch import (
    certificate_digest,
    check_succession,
    public_fields,
    sign_certificate,
)
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.key_setup import deal
from revfrf.protocols.paper.fle_expan import Growth, LevelReport, Plan
from revfrf.protocols.paper.splits import encrypt_splits, open_splits
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, Rebuilding, StoredSplit
from revfrf.transport.base import Channel

# -- KGC --------------------------------------------------------------------------------------------


def next_epoch(
    channel: Channel,
    kgc: SigningKey,
    current: EpochCertificate,
    leavers: Collection[str],
    setup: SetUp | None,
    deal_number: int,
) -> EpochCertificate:
    """Certify the epoch after this one, without the leavers, and with new keys if there is a new set-up.

    Nobody is in it before it is announced.
    """
    staying = tuple(member for member in current.members if member.name not in leavers)
    unsigned = msgspec.structs.replace(
        current,
        epoch=current.epoch + 1,
        members=staying,
        revoked=(*current.revoked, *sorted(leavers)),
        previous=certificate_digest(current),
    )
    if setup is not None:
        roles = {member.name: member.role for member in staying}
        known = {member.name: member.verify_key for member in staying}
        members = deal(channel, current.federation, unsigned.epoch, setup, deal_number, roles, lambda: known)
        unsigned = msgspec.structs.replace(unsigned, members=members, **public_fields(setup.parameters))
    check_succession(current, unsigned)
    return sign_certificate(kgc, unsigned)


# -- CS ---------------------------------------------------------------------------------------------


class CsForest(Protocol):
    """CS with its forest, as FRF-Revoc needs it.

    `leavers` have left and are still part of the forest. `has_old_ciphertexts`: splits are encrypted under
    another modulus than the epoch's.
    """

    identity: Identity
    channel: Channel
    store: CoordinatorStore
    plan: Plan

    @property
    def certificate(self) -> EpochCertificate: ...
    @property
    def leavers(self) -> Collection[str]: ...
    @property
    def has_old_ciphertexts(self) -> bool: ...

    def digest(self) -> str: ...
    def replan(self) -> None: ...
    def drop_columns(self, leavers: Collection[str]) -> None: ...
    def open(self) -> None: ...
    def grow(self, progress: Callable[[LevelReport], None]) -> None: ...
    def finish(self, certificate: RevocationCertificate) -> None: ...


def frf_revoc(cs: CsForest, outdated: bool, progress: Callable[[LevelReport], None]) -> RevocationCertificate:
    """Rebuild the forest for the current epoch, report it to KGC, and return the revocation certificate.

    `outdated`: some nodes are the leavers', or they left before all knew of the forest.
    """
    if outdated:
        _begin_rebuilding(cs)  # lines 3 to 7
    if not cs.plan.owners:
        cs.open()  # somebody left before all knew of the forest
    cs.grow(progress)  # line 8
    if cs.has_old_ciphertexts:
        reencrypt(cs.channel, cs.plan, cs.store)  # level 2 replaces lines 9 to 12, see deviations
    cs.store.scrub()
    reply = cs.channel.call(KGC, RevocationReport(report=_report(cs)), Certified)
    certificate = RevocationCertificate.from_json(reply.certificate)
    certificate.verify(cs.identity.kgc)
    cs.finish(certificate)
    return certificate


def _begin_rebuilding(cs: CsForest) -> None:
    """Destroy the leavers' nodes, and record what the forest was before."""
    leavers, rebuilding = cs.leavers, cs.store.rebuilding  # not None if this was interrupted before
    before = cs.digest() if rebuilding is None else ""
    cs.replan()
    going = destroy(cs.channel, cs.plan, cs.store, leavers)
    with cs.store.transaction():
        kept = cs.store.n_nodes - len(going)
        cs.store.destroy(going, rebuilding or Rebuilding(before, len(going), kept))
        cs.drop_columns(leavers)


def _report(cs: CsForest) -> Report:
    """Describe, and sign, what became of the forest."""
    rebuilding, store = cs.store.rebuilding, cs.store
    if rebuilding is None or not store.whole(cs.plan.rules.n_trees):
        raise ProtocolError("no revocation is in progress, or the forest is not whole", kind="order")
    unsigned = Report(
        epoch=certificate_digest(cs.certificate),
        forest=cs.plan.forest,
        digest_before=rebuilding.digest_before,
        digest_after=cs.digest(),
        destroyed=rebuilding.destroyed,
        rebuilt=store.n_nodes - rebuilding.kept,
        kept=rebuilding.kept,
        signature=bytes(64),
    )
    return sign_report(cs.identity, unsigned)


class Doomed(NamedTuple):
    """What is destroyed when participants leave: all nodes at and below their splits, and the places below
    them where nothing has grown yet.
    """

    nodes: frozenset[Node]
    bare: frozenset[Node]


def doomed(store: CoordinatorStore, leavers: Collection[str]) -> Doomed:
    """Return what is destroyed when these owners leave."""
    splits, below = set[Node](), set[Node]()
    for tree, path in sorted(store.splits):  # paths ascend, so parents come before their children
        if store.splits[tree, path].owner in leavers or (tree, path) in below:
            splits.add((tree, path))
            below |= {(tree, 2 * path), (tree, 2 * path + 1)}
    leaves = below & store.leaves.keys()
    return Doomed(frozenset(splits | leaves), frozenset(below - splits - leaves))


def destroy(
    channel: Channel, plan: Plan, store: CoordinatorStore, leavers: Collection[str]
) -> frozenset[Node]:
    """Have every owner who stays forget its splits among the nodes that are destroyed, and return these.

    Where nothing has grown yet, an owner may have won a split in a level that was interrupted, and CS cannot
    tell who: all owners learn of these places.
    """
    going = doomed(store, leavers)
    lost = _by_owner({node: store.splits[node] for node in going.nodes if node in store.splits})
    bare = sorted((tree, path) for tree, path in going.bare if not path >> plan.rules.max_depth)

    def ask(owner: str) -> None:
        trees, paths = _names([*lost.get(owner, ()), *bare])
        message = Destroy(epoch=plan.epoch, forest=plan.forest, round=store.round, trees=trees, paths=paths)
        channel.call(owner, message, Done)

    side_by_side(ask, sorted((plan.owners if bare else lost).keys() - set(leavers)))
    return going.nodes


def reencrypt(channel: Channel, plan: Plan, store: CoordinatorStore) -> None:
    """Have the owners encrypt the splits of older epochs again, under the keys of this one."""
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

    for splits in side_by_side(ask, sorted(by_owner)):
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
    """Forget the splits of these nodes. An old message, which could take splits that have grown since, is
    refused.
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
    """Encrypt the thresholds of these nodes under the current key, and sign them for the current epoch."""
    nodes = _read_nodes(growth, message)
    if not store.own_splits.keys() >= set(nodes):
        raise ProtocolError("nodes that are not ours", kind="node")
    thresholds = [store.own_splits[node][1] for node in nodes]
    ciphertexts, signature = encrypt_splits(identity, growth.rules.forest, nodes, thresholds, n_jobs)
    return Rekeyed(ciphertexts=ciphertexts, signature=signature)


def _read_nodes(growth: Growth, message: Destroy | Rekey) -> list[Node]:
    """Return the nodes of a message. Refuses one that is named twice, and all before somebody has left."""
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
