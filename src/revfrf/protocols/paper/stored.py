"""What is stored of a forest fits together: checked once, when it is read, because predictions rely on it."""

from collections.abc import Mapping

from revfrf.crypto.dtpkc.keys import Ciphertext
from revfrf.errors import ProtocolError
from revfrf.forest.criterion import Counted
from revfrf.forest.nodes import with_rows
from revfrf.forest.targets import Targets
from revfrf.forest.tree import Rules, feature_id
from revfrf.protocols.paper.fle_expan import PaperPlan
from revfrf.protocols.paper.fos_find import per_node
from revfrf.protocols.paper.splits import split_context, split_statement
from revfrf.protocols.sides import OwnerSeat
from revfrf.storage.memory import CoordinatorStore


def check_stored(
    plan: PaperPlan,
    store: CoordinatorStore,
    targets: Targets,
    owners: Mapping[str, OwnerSeat],
    training_rows: bool,
) -> None:
    """Raise RejectedError unless trees are whole, splits signed, and thresholds and sums in their places."""
    _check_trees(plan.rules, store, targets.scale.n_sums)
    _check_splits(plan, store)
    _check_own_splits(store, owners)
    if training_rows:
        _check_leaves(plan, store, targets)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ProtocolError(f"no forest has this {what}", kind="forest")


def _check_trees(rules: Rules, store: CoordinatorStore, leaf_width: int) -> None:
    """Every tree has a root, every split two children, every other node a parent, every leaf a weight."""
    splits, leaves = store.splits.keys(), store.leaves.keys()
    _require(splits.isdisjoint(leaves) and rules.n_trees <= store.n_nodes, "node")
    _require(all(0 < path < 2**rules.max_depth for _, path in splits), "depth")
    whole = {(tree, 1) for tree in range(rules.n_trees)}
    whole |= {(tree, 2 * path + side) for tree, path in splits for side in (0, 1)}
    _require(splits | leaves == whole, "node")
    for leaf in store.leaves.values():
        # Class weights: none is negative. (Σw, Σw·value): the first is not, and without it there is no other.
        _require(len(leaf) == leaf_width, "leaf")
        _require(leaf[0] > 0 or min(leaf) >= 0, "leaf")


def _check_splits(plan: PaperPlan, store: CoordinatorStore) -> None:
    """Every split is a valid ciphertext, signed by its owner for its place."""
    checked: dict[int, str] = {}
    for node, split in store.splits.items():
        Ciphertext.from_bytes(plan.parameters, split.ciphertext)
        if id(split.batch) not in checked:
            context = split_context(plan.federation, split.epoch, plan.forest)
            split.batch.verify(plan.verify_keys[split.owner], context)
            checked[id(split.batch)] = split.owner
        _require(checked[id(split.batch)] == split.owner, "batch")
        split.batch.holds(split.position, split_statement(node, split.ciphertext))
        _require(0 <= split.cut < per_node(plan.rules).n_candidates, "cut")


def _check_own_splits(store: CoordinatorStore, owners: Mapping[str, OwnerSeat]) -> None:
    """Every owner has the thresholds of exactly its splits, in the right columns."""
    splits = {node: (s.owner, s.feature) for node, s in store.splits.items()}
    found = 0
    for party, role in owners.items():
        ids = [feature_id(party, column.name) for column in role.columns]
        for node, (column, _) in role.store.own_splits.items():
            _require(0 <= column < len(ids) and splits.get(node) == (party, ids[column]), "column")
        found += len(role.store.own_splits)
    _require(found == len(splits), "number of thresholds")


def _check_leaves(plan: PaperPlan, store: CoordinatorStore, targets: Targets) -> None:
    """Every leaf is the sum of the rows that end in it, as its splits have turned them."""
    counted = Counted.of(plan.rules, plan.seed, targets)
    ends = with_rows(counted.used, store.splits, store.leaves)
    sums = zip(ends.names(), map(tuple, counted.sums(ends).tolist()), strict=True)
    if dict(sums) != store.leaves:
        raise ProtocolError("leaves that are not the sums of their rows", kind="forest")
