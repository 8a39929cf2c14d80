"""FLE-Expan (Protocol 1 in the paper): a forest grows, level by level, all trees at once.

One exchange with each participant τ carries a whole level::

    CS  the cuts of τ that won the level before          ->  τ                          FOS-Find, line 7
        questions about nodes of this level, their rows                                 FLE-Expan, 4, 5
    τ   HoEnc of the winning thresholds, signed          ->  CS  stores them            FOS-Find, line 8
        n_cuts, and the bins of every row (W_τ)                                         FLE-Expan, 6-12
    CS  FOS-Find on all bins, children of the winners                                   FLE-Expan, 13, 14

A participant gets the rows of exactly those nodes at which one of its features is asked. docs/forest.md says
which forest comes out. In the paper's letters: µ is a node's rows, v the questions, ϱ `n_sampled`, ς
`n_candidates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count, repeat

import numpy as np

from revfrf.crypto.batch import Context
from revfrf.crypto.dtpkc.keys import Parameters
from revfrf.crypto.encoding import Ring, missing
from revfrf.errors import ProtocolError
from revfrf.forest.candidates import Proposal, Values
from revfrf.forest.criterion import Counted
from revfrf.forest.kernel import Bools, Ints, Positions
from revfrf.forest.nodes import (
    Directions,
    Leaf,
    Node,
    Nodes,
    pack_rows,
    starts_of,
    unfinished,
    unpack_rows,
    with_rows,
)
from revfrf.forest.tree import Rules
from revfrf.messages.base import CUTS, FEATURES, PATHS, QUESTIONS, SIZES, TREES, array
from revfrf.messages.fle_expan import LevelReply, LevelRequest, NodeRows, OpenForest
from revfrf.metering import within
from revfrf.parallel import side_by_side
from revfrf.protocols.common.identity import Identity
from revfrf.protocols.paper.fos_find import (
    Draws,
    Questions,
    Scored,
    Winner,
    answer_questions,
    choose,
    draw_candidates,
    per_node,
    questions_for,
    score,
    send_rows,
)
from revfrf.protocols.paper.splits import encrypt_splits, open_splits, split_context
from revfrf.protocols.sides import GrowthReport, Plan, Progress
from revfrf.storage.memory import CoordinatorStore, OwnSplit, ParticipantStore, StoredSplit
from revfrf.transport.base import Channel

FOS_FIND = "FOS-Find"

_MAX_THRESHOLDS = 2**26
"""Candidate thresholds that an owner computes in one round: half a gigabyte."""


# -- nodes with their rows, as they travel ----------------------------------------------------------


def write_nodes(nodes: Nodes) -> NodeRows:
    """Nodes as they travel."""
    return NodeRows(
        nodes.trees.astype(TREES).tobytes(),
        nodes.paths.astype(PATHS).tobytes(),
        nodes.sizes.astype(SIZES).tobytes(),
        pack_rows(nodes),
    )


def read_nodes(message: NodeRows, rules: Rules, n_rows: int) -> Nodes:
    """Nodes as they arrive: all different, inside the forest, each with rows of this table.

    Raises FormatError or ProtocolError for anything else.
    """
    trees = array(message.trees, TREES)
    paths = array(message.paths, PATHS, len(trees))
    sizes = array(message.sizes, SIZES, len(trees)).astype(np.int64)
    nodes = Nodes(trees, paths, starts_of(sizes), unpack_rows(message.rows, sizes, n_rows))
    inside = (trees < rules.n_trees) & (paths > 0) & (paths >> np.uint64(rules.max_depth) == 0) & (sizes > 0)
    if not inside.all() or len(set(nodes.names())) != len(nodes):
        raise ProtocolError("nodes outside the forest, without rows, or one node twice", kind="node")
    return nodes


# -- CS ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaperPlan(Plan):
    """CS's fixed facts of a forest, with the public parameters of the epoch."""

    parameters: Parameters

    @property
    def context(self) -> Context:
        """The context in which all splits of this epoch are signed."""
        return split_context(self.federation, self.epoch, self.forest)

    @property
    def columns(self) -> list[slice]:
        """For each owner, which of `features` are its own."""
        ends = np.cumsum([len(owned) for owned in self.owners.values()]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Won:
    """Splits of one owner that won the last level; their ciphertexts are still to come."""

    nodes: Sequence[Node] = ()
    features: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    cuts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    directions: Sequence[Directions] = ()


def fle_expan(
    channel: Channel,
    plan: PaperPlan,
    targets: Counted,
    store: CoordinatorStore,
    n_jobs: int,
    progress: Progress,
) -> None:
    """Grow what is missing in `store`: the whole forest, or what a crash or a revocation has left open.

    A level is committed when its encrypted splits have arrived, together with its leaves.
    """
    store.commit({}, {})  # so that no round has a number that was used before an interruption
    columns, features = plan.columns, plan.features
    missing = unfinished(plan.rules.n_trees, store.splits, store.leaves)
    frontier = with_rows(targets.used, store.splits, missing)
    n_used = len(frontier.rows)
    again = np.zeros(len(frontier), dtype=np.bool_)
    won = [Won() for _ in columns]
    leaves: dict[Node, Leaf] = {}
    depth = 0
    while len(frontier) or any(w.nodes for w in won):
        stop = _stop(plan.rules, targets, frontier)
        leaves |= _leaves(targets, frontier.take(np.flatnonzero(stop)))
        frontier, again = frontier.take(np.flatnonzero(~stop)), again[~stop]
        progress(_report(plan.rules, store, frontier, won, depth, n_used))
        with within(FOS_FIND):
            draws = draw_candidates(plan.seed, features, plan.rules, frontier, again)
        exchange = _Exchange(channel, plan, targets, frontier, draws, store.round, n_jobs)
        answers = side_by_side(exchange, list(zip(plan.owners, columns, won, strict=True)))
        store.commit(dict(chain.from_iterable(splits.items() for splits, _ in answers)), leaves)
        with within(FOS_FIND):
            winners = choose(draws, columns, [scored for _, scored in answers])
            right = send_rows(frontier, winners)
        split = np.sort(np.concatenate([winner.nodes for winner in winners]))
        lost = np.setdiff1d(np.arange(len(frontier)), split)
        leaves = _leaves(targets, frontier.take(lost[draws.all_asked[lost]]))
        won = [_won(frontier, winner, right) for winner in winners]
        retried = frontier.take(lost[~draws.all_asked[lost]])
        children = frontier.children(split, right)
        again = np.arange(len(retried) + len(children)) < len(retried)
        frontier = retried + children
        depth += 1
    store.commit({}, leaves)


def _report(
    rules: Rules, store: CoordinatorStore, frontier: Nodes, won: Sequence[Won], depth: int, n_used: int
) -> GrowthReport:
    """Return a report. The work left is one level for every open row and level below it."""
    left = rules.max_depth + 1 - np.array([int(path).bit_length() for path in frontier.paths], dtype=np.int64)
    made = len(store.leaves) + len(store.splits) + len(frontier) + sum(len(w.nodes) for w in won)
    work = 1 - float(frontier.sizes @ left) / max(1, n_used * rules.max_depth)
    trees = len(np.unique(frontier.trees))
    return GrowthReport(work, f"depth {min(depth, rules.max_depth)}, {trees} trees, {made} nodes")


def _stop(rules: Rules, targets: Counted, nodes: Nodes) -> Bools:
    """Return which of these nodes must not be split."""
    fewest = max(rules.min_samples_split, 2 * rules.min_samples_leaf)
    stop = (nodes.paths >> np.uint64(rules.max_depth)).astype(np.bool_)
    stop |= (nodes.sizes < fewest) | targets.pure(nodes)
    return stop


def _leaves(targets: Counted, nodes: Nodes) -> dict[Node, Leaf]:
    return dict(zip(nodes.names(), map(tuple, targets.sums(nodes).tolist()), strict=True))


def _won(frontier: Nodes, winner: Winner, right: Bools) -> Won:
    trees, paths = frontier.trees[winner.nodes].tolist(), frontier.paths[winner.nodes].tolist()
    directions = frontier.pack_directions(winner.nodes, right)
    return Won(list(zip(trees, paths, strict=True)), winner.features, winner.cuts, directions)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """CS's exchanges of one level, one for each owner; they may happen in any order."""

    channel: Channel
    plan: PaperPlan
    targets: Counted
    frontier: Nodes
    draws: Draws
    round: int
    n_jobs: int

    def __call__(self, asked: tuple[str, slice, Won]) -> tuple[dict[Node, StoredSplit], Scored]:
        """Ask the owner of these columns; return its encrypted splits, and its scored answers."""
        owner, columns, won = asked
        questions = questions_for(self.draws, columns)
        n_cuts = bins = np.empty(0, np.uint8)
        splits: dict[Node, StoredSplit] = {}
        if len(questions) or won.nodes:
            reply = self.channel.call(owner, self._request(questions, won), LevelReply)
            if reply.round != self.round:
                raise ProtocolError(f"{owner!r} answers for round {reply.round}", kind="order")
            splits = _receive_splits(self.plan, owner, won, reply)
            n_cuts, bins = array(reply.n_cuts, CUTS, len(questions)), array(reply.bins, CUTS)
        with within(FOS_FIND):
            scored = score(self.targets, self.plan.rules, self.frontier, questions, n_cuts, bins, self.n_jobs)
        return splits, scored

    def _request(self, questions: Questions, won: Won) -> LevelRequest:
        asked = np.zeros(len(self.frontier), dtype=np.bool_)
        asked[questions.nodes] = True
        positions, places = np.flatnonzero(asked), np.cumsum(asked) - 1
        return LevelRequest(
            epoch=self.plan.epoch,
            forest=self.plan.forest,
            round=self.round,
            won_trees=np.array([tree for tree, _ in won.nodes], TREES).tobytes(),
            won_paths=np.array([path for _, path in won.nodes], PATHS).tobytes(),
            won_features=won.features.astype(FEATURES).tobytes(),
            won_cuts=won.cuts.astype(CUTS).tobytes(),
            nodes=write_nodes(self.frontier.take(positions)),
            asked_nodes=places[questions.nodes].astype(QUESTIONS).tobytes(),
            asked_features=questions.features.astype(FEATURES).tobytes(),
        )


def _receive_splits(plan: PaperPlan, owner: str, won: Won, reply: LevelReply) -> dict[Node, StoredSplit]:
    """The owner's winning splits, checked. Raises RejectedError."""
    if not won.nodes and not reply.ciphertexts:
        return {}
    ciphertexts, batch = open_splits(plan.parameters, plan.verify_keys[owner], plan.context, won.nodes, reply)
    features = [plan.owners[owner][number] for number in won.features]
    places = (repeat(plan.epoch), repeat(batch), count())
    columns = (features, won.cuts.tolist(), repeat(owner), won.directions, ciphertexts, *places)
    return dict(zip(won.nodes, map(StoredSplit, *columns), strict=True))


# -- a participant ----------------------------------------------------------------------------------


@dataclass
class Growth:
    """A participant's part in a forest that is being grown."""

    opening: OpenForest
    secret: bytes = field(repr=False)
    codes: Ints = field(repr=False)  # shape (n_features, n_rows)
    features: Sequence[str]
    rings: Sequence[Ring]
    index: dict[Node, int] = field(default_factory=dict, repr=False)
    proposals: list[tuple[Positions, Proposal]] = field(default_factory=list, repr=False)
    values: list[Values] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.values = [
            Values.of(codes, missing(ring)) for codes, ring in zip(self.codes, self.rings, strict=True)
        ]

    @property
    def rules(self) -> Rules:
        """The rules of the forest."""
        return self.opening.rules

    def thresholds(self, nodes: Sequence[Node], features: Positions, cuts: Positions) -> Ints:
        """Return ŝ of candidates of the last round. Raises ProtocolError if there was no such candidate."""
        asked = np.array([self.index.get(node, -1) for node in nodes], dtype=np.intp)
        values = np.empty(len(nodes), dtype=np.int64)
        found = np.zeros(len(nodes), dtype=np.bool_)
        for feature, (positions, proposal) in enumerate(self.proposals):
            own = np.flatnonzero((features == feature) & np.isin(asked, positions))
            at = np.searchsorted(positions, asked[own])
            valid = cuts[own] < proposal.n_cuts[at]
            values[own[valid]] = proposal.thresholds[at[valid], cuts[own[valid]]]
            found[own[valid]] = True
        if not found.all():
            raise ProtocolError("a split won that was not a candidate", kind="node")
        return values


def answer_level(
    identity: Identity, growth: Growth, store: ParticipantStore, message: LevelRequest, n_jobs: int
) -> LevelReply:
    """Encrypt and sign the splits that won, and propose candidates for the nodes asked about."""
    if message.round <= store.round:
        raise ProtocolError(f"round {message.round} after round {store.round}", kind="order")
    nodes, questions = _read_questions(growth, message)
    with within(FOS_FIND):
        won, ciphertexts, signature = _encrypt_splits(identity, growth, store, message, n_jobs)
    proposals = answer_questions(
        growth.values, growth.features, growth.secret, per_node(growth.rules), nodes, questions
    )
    reply = LevelReply(
        round=message.round,
        ciphertexts=ciphertexts,
        signature=signature,
        n_cuts=b"".join(proposal.n_cuts.tobytes() for _, proposal in proposals),
        bins=b"".join(proposal.bins.tobytes() for _, proposal in proposals),
    )
    store.commit(won, message.round)
    growth.proposals = proposals
    growth.index = {node: position for position, node in enumerate(nodes.names())}
    return reply


def _read_questions(growth: Growth, message: LevelRequest) -> tuple[Nodes, Questions]:
    """The nodes and questions of a request. Raises RejectedError for what no honest CS asks."""
    nodes = read_nodes(message.nodes, growth.rules, growth.codes.shape[1])
    asked = array(message.asked_nodes, QUESTIONS).astype(np.intp)
    features = array(message.asked_features, FEATURES, len(asked)).astype(np.intp)
    order = features * (len(nodes) + 1) + asked
    if (asked >= len(nodes)).any() or (features >= len(growth.features)).any() or (np.diff(order) <= 0).any():
        raise ProtocolError("questions about unknown nodes or features, or out of order", kind="node")
    if not np.bincount(asked, minlength=len(nodes)).all():
        raise ProtocolError("rows of a node about which nothing is asked", kind="node")
    thresholds, bins = len(asked) * per_node(growth.rules).n_candidates, int(nodes.sizes[asked].sum())
    if thresholds > _MAX_THRESHOLDS or bins > LevelReply.max_bytes // 2:
        raise ProtocolError(
            f"a round with {thresholds:,} candidate thresholds and {bins:,} bins", kind="too-large"
        )
    return nodes, Questions(asked, features)


def _encrypt_splits(
    identity: Identity, growth: Growth, store: ParticipantStore, message: LevelRequest, n_jobs: int
) -> tuple[dict[Node, OwnSplit], bytes, bytes | None]:
    """FOS-Find, line 8: HoEnc of the thresholds that won, and one signature over all of them."""
    trees = array(message.won_trees, TREES)
    paths = array(message.won_paths, PATHS, len(trees))
    features = array(message.won_features, FEATURES, len(trees)).astype(np.intp)
    cuts = array(message.won_cuts, CUTS, len(trees)).astype(np.intp)
    nodes = list(zip(trees.tolist(), paths.tolist(), strict=True))
    if not nodes:
        return {}, b"", None
    thresholds = growth.thresholds(nodes, features, cuts).tolist()
    own = dict(zip(nodes, zip(features.tolist(), thresholds, strict=True), strict=True))
    if len(own) != len(nodes) or any(store.own_splits.get(node, cut) != cut for node, cut in own.items()):
        raise ProtocolError("a node is won once, and again only by the same cut", kind="node")
    return own, *encrypt_splits(identity, growth.opening.forest, nodes, thresholds, n_jobs)
