"""Checks that a restored federation is one that training could have built.

Predictions rely on what training guarantees: whole trees, valid column numbers. Files are not trusted, so
all of it is checked here, once. Checks raise.
"""

from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.embedded.federation import Federation
from revfrf.errors import ProtocolError
from revfrf.forest.nodes import MAX_DEPTH
from revfrf.forest.tree import Leaf, Rules, feature_id
from revfrf.protocols.common.epoch import verify_certificate
from revfrf.protocols.paper.fle_expan import forest_id
from revfrf.protocols.paper.splits import split_context, split_statement
from revfrf.storage.memory import CoordinatorStore


def check_federation(federation: Federation, leaf_width: int) -> None:
    """Raise RejectedError unless the structure, the splits and their owners fit together."""
    cs = federation.coordinator
    rules, opening, certificate = cs.plan.rules, cs.opening, cs.certificate
    verify_certificate(cs.identity.kgc, certificate)
    same = ("n_trees", "max_depth", "method", "n_candidates", "n_sampled")
    _require(all(getattr(rules, name) == getattr(opening, name) for name in same), "rules")
    _require(rules.n_trees > 0 and 0 < rules.max_depth <= MAX_DEPTH, "rules")
    _require(opening.federation == certificate.federation, "federation")
    _require(opening.epoch <= certificate.epoch and opening.forest == forest_id(opening), "epoch")
    _check_trees(rules, cs.store, leaf_width)
    _check_splits(federation)
    _check_own_splits(federation)
    if federation.kgc.signing is not None:
        _require(federation.kgc.signing.verify_key == cs.identity.kgc, "key of KGC")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ProtocolError(f"no forest has such a {what}", kind="forest")


def _check_trees(rules: Rules, store: CoordinatorStore, leaf_width: int) -> None:
    """Every tree has a root, every split two children, every other node a parent, every leaf a weight."""
    splits, leaves = store.splits.keys(), store.leaves.keys()
    _require(splits.isdisjoint(leaves), "node")
    roots = 0
    for tree, path in (*splits, *leaves):
        _require(0 <= tree < rules.n_trees and path > 0, "node")
        roots += path == 1
        _require(path == 1 or (tree, path // 2) in splits, "node")
    _require(roots == rules.n_trees, "number of roots")
    for tree, path in splits:
        _require(path.bit_length() <= rules.max_depth, "depth")
        for child in ((tree, 2 * path), (tree, 2 * path + 1)):
            _require(child in splits or child in leaves, "split")
    for leaf in store.leaves.values():
        _require(len(leaf) == leaf_width and _has_weight(leaf), "leaf")


def _has_weight(leaf: Leaf) -> bool:
    """Class weights: one is positive and none negative. (Σw, Σw·value): the first is positive."""
    return leaf[0] > 0 or (min(leaf) >= 0 and max(leaf) > 0)


def _check_splits(federation: Federation) -> None:
    """Every split is a valid ciphertext, signed by its owner for its place."""
    plan, splits = federation.coordinator.plan, federation.coordinator.store.splits
    checked: dict[int, str] = {}
    for node, split in splits.items():
        Ciphertext.from_bytes(plan.parameters, split.ciphertext)
        if id(split.batch) not in checked:
            context = split_context(plan.federation, split.epoch, plan.forest)
            split.batch.verify(plan.verify_keys[split.owner], context)
            checked[id(split.batch)] = split.owner
        _require(checked[id(split.batch)] == split.owner, "batch")
        split.batch.holds(split.position, split_statement(node, split.ciphertext))
        _require(0 <= split.cut < plan.rules.n_candidates, "cut")


def _check_own_splits(federation: Federation) -> None:
    """Every owner has the thresholds of exactly its splits, in the right columns."""
    splits = {node: (s.owner, s.feature) for node, s in federation.coordinator.store.splits.items()}
    found = 0
    for party, role in federation.participants.items():
        ids = [feature_id(party, column.name) for column in role.columns]
        for node, (column, _) in role.store.own_splits.items():
            _require(0 <= column < len(ids) and splits.get(node) == (party, ids[column]), "column")
        found += len(role.store.own_splits)
    _require(found == len(splits), "number of thresholds")
