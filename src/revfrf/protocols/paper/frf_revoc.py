"""The paper protocol's part of FRF-Revoc: owners forget splits, and encrypt the others again.

`protocols.frf_revoc` has the whole sequence.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from revfrf.errors import ProtocolError
from revfrf.forest.nodes import Node
from revfrf.messages.base import PATHS, TREES, Done, array
from revfrf.messages.frf_revoc import Destroy, Rekey, Rekeyed
from revfrf.parallel import side_by_side
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.paper.fle_expan import Growth, PaperPlan
from revfrf.protocols.paper.splits import encrypt_splits, open_splits
from revfrf.storage.memory import CoordinatorStore, ParticipantStore, StoredSplit
from revfrf.transport.base import Channel

# -- CS ---------------------------------------------------------------------------------------------


def doomed(store: CoordinatorStore, leavers: Collection[str]) -> set[Node]:
    """Return what is destroyed when these owners leave: all nodes at and below their splits."""
    splits, below = set[Node](), set[Node]()
    for tree, path in sorted(store.splits):  # paths ascend, so parents come before their children
        if store.splits[tree, path].owner in leavers or (tree, path) in below:
            splits.add((tree, path))
            below |= {(tree, 2 * path), (tree, 2 * path + 1)}
    return splits | (below & store.leaves.keys())


def destroy(channel: Channel, plan: PaperPlan, store: CoordinatorStore, leavers: Collection[str]) -> None:
    """Have every owner who stays forget its splits among the nodes that are destroyed.

    Where nothing has grown yet, an owner may have won a split in a level that was interrupted, and CS cannot
    tell who: all owners learn of these places.
    """
    going = doomed(store, leavers)
    splits = {node: store.splits[node] for node in going if node in store.splits}
    below = {(tree, 2 * path + side) for tree, path in splits for side in (0, 1)}
    bare = sorted((tree, path) for tree, path in below - going if not path >> plan.rules.max_depth)
    lost = _by_owner(splits)

    def ask(owner: str) -> None:
        names = _names([*lost.get(owner, ()), *bare])
        channel.call(owner, Destroy(epoch=plan.epoch, forest=plan.forest, round=store.round, **names), Done)

    side_by_side(ask, sorted((plan.owners if bare else lost).keys() - set(leavers)))


def reencrypt(channel: Channel, plan: PaperPlan, store: CoordinatorStore) -> None:
    """Have the owners encrypt the splits of other keys again, under those of this epoch."""
    kept = {node: split for node, split in store.splits.items() if split.epoch != plan.epoch}
    by_owner = _by_owner(kept)

    def ask(owner: str) -> dict[Node, StoredSplit]:
        nodes = by_owner[owner]
        message = Rekey(epoch=plan.epoch, forest=plan.forest, **_names(nodes))
        reply = channel.call(owner, message, Rekeyed)
        ciphertexts, batch = open_splits(plan.parameters, plan.verify_keys[owner], plan.context, nodes, reply)
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


def _names(nodes: Sequence[Node]) -> dict[str, bytes]:
    trees, paths = [tree for tree, _ in nodes], [path for _, path in nodes]
    return {"trees": np.array(trees, TREES).tobytes(), "paths": np.array(paths, PATHS).tobytes()}


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
    ciphertexts, signature = encrypt_splits(identity, growth.opening.forest, nodes, thresholds, n_jobs)
    return Rekeyed(ciphertexts=ciphertexts, signature=signature)


def _read_nodes(growth: Growth, message: Destroy | Rekey) -> list[Node]:
    """Return the nodes of a message. Refuses one that is named twice, and all before somebody has left."""
    if message.epoch <= growth.opening.epoch:
        raise ProtocolError("nobody has left", kind="order")
    trees = array(message.trees, TREES).tolist()
    nodes: list[Node] = list(zip(trees, array(message.paths, PATHS, len(trees)).tolist(), strict=True))
    n_trees, n_paths = growth.rules.n_trees, 1 << growth.rules.max_depth
    if not nodes or len(set(nodes)) != len(nodes):
        raise ProtocolError("no nodes, or one of them twice", kind="node")
    if not all(tree < n_trees and 0 < path < n_paths for tree, path in nodes):
        raise ProtocolError("nodes that no tree has", kind="node")
    return nodes
