"""FOS-Find (Protocol 2 in the paper): which of all candidate splits is the best one of a node?

::

    CS  questions: features at nodes, with their rows    ->  τ   draws thresholds (`forest.candidates`)
    τ   the bin of each row: the split vectors, W_τ      ->  CS  scores all cuts by the labels    lines 1-6
    CS  which cuts have won                              ->  τ                                    line 7
    τ   HoEnc of their thresholds, signed                ->  CS                                   line 8

All participants and nodes of a level take these steps together, in the exchanges of `fle_expan`. CS learns
the bin of every row of a node, for candidate features. An owner learns the rows of nodes it is asked about.

CS scores in its own threads, or on the workers of a joblib backend. These see labels and bins, but no names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from revfrf.errors import FormatError, ProtocolError
from revfrf.forest.candidates import Proposal, Values, propose
from revfrf.forest.criterion import NO_CUT, Best, Counted, best_cuts
from revfrf.forest.kernel import Bools, Bytes, Floats, Ints, Paths, Positions, kernel
from revfrf.forest.nodes import Nodes, starts_of
from revfrf.forest.randomness import feature_draws, private_seeds
from revfrf.forest.tree import PerNode, Rules
from revfrf.parallel import elsewhere, parts_elsewhere

_SECONDS_A_BIN = 3e-9
"""About what it takes to add one row's target to its bin."""


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions to an owner: feature `features[i]` at the node at position `nodes[i]`, in feature order."""

    nodes: Positions
    features: Positions

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One owner's answers, scored: its questions, its bins, and the best cut of each."""

    questions: Questions
    bins: Bytes
    best: Best


@dataclass(frozen=True, slots=True, eq=False)
class Winner:
    """Splits of one owner that won, and where the bins of their rows start among all `bins` of the owner."""

    nodes: Positions
    features: Positions
    cuts: Ints
    starts: Ints
    bins: Bytes


def per_node(rules: Rules) -> PerNode:
    """Return how cuts are proposed. Raises ProtocolError for a forest of another protocol."""
    if not isinstance(rules.cuts, PerNode):
        raise ProtocolError("a forest whose cuts come from books", kind="forest")
    return rules.cuts


# -- CS asks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The PRF's draws of a level, shape (n_nodes, n_features), and who is asked by them."""

    values: Paths
    asked: Bools
    all_asked: Bools  # by node: nobody is left to ask after this


def draw_candidates(seed: bytes, features: Sequence[str], rules: Rules, nodes: Nodes, again: Bools) -> Draws:
    """Decide whom to ask: the candidates, or all others (`again`) when no candidate had a valid split."""
    values = feature_draws(seed, features, nodes.trees, nodes.paths)
    candidates = values <= np.uint64(rules.candidate_limit)
    others = again | ~candidates.any(axis=1)
    return Draws(values, candidates != others[:, None], others)


def questions_for(draws: Draws, owned: slice) -> Questions:
    """Return the questions for the owner of these columns of the draws."""
    features, nodes = np.nonzero(draws.asked[:, owned].T)
    return Questions(nodes, features)


# -- an owner answers (FLE-Expan, lines 7 to 11) -----------------------------------------------------


def answer_questions(
    values: Sequence[Values],
    ids: Sequence[str],
    secret: bytes,
    cuts: PerNode,
    nodes: Nodes,
    questions: Questions,
) -> list[tuple[Positions, Proposal]]:
    """Return for each feature of the owner where it was asked, and what it proposes there."""
    proposals = []
    for number, feature in enumerate(ids):
        positions = questions.nodes[questions.features == number]
        seeds = private_seeds(secret, feature, nodes.trees[positions], nodes.paths[positions])
        proposals.append((positions, propose(values[number], nodes, positions, seeds, cuts)))
    return proposals


# -- CS chooses (FOS-Find, lines 1 to 6) -------------------------------------------------------------


def score(
    targets: Counted, rules: Rules, nodes: Nodes, asked: Questions, n_cuts: Bytes, bins: Bytes, n_jobs: int
) -> Scored:
    """Score one owner's answers, here or by `n_jobs` workers of the backend that the user has chosen.

    Raises FormatError for answers that do not fit the questions.
    """
    if (n_cuts > per_node(rules).n_candidates).any():
        raise FormatError("more cuts than asked for", kind="out-of-range")
    least, count = rules.min_samples_leaf, parts_elsewhere(len(bins) * _SECONDS_A_BIN, n_jobs)
    starts = starts_of(np.where(n_cuts > 0, nodes.sizes[asked.nodes], 0)) if count else None
    if starts is None or len(bins) != starts[-1]:
        return Scored(asked, bins, best_cuts(targets, nodes, asked.nodes, n_cuts, bins, least))

    def part(begin: int, end: int) -> Part:
        positions, places = np.unique(asked.nodes[begin:end], return_inverse=True)
        some = nodes.take(positions)
        counts = targets.counts[np.repeat(some.trees, some.sizes), some.rows]
        values, weights = targets.values[some.rows], targets.weights[some.rows] * counts
        answers = (n_cuts[begin:end], bins[starts[begin] : starts[end]].tobytes())
        return Part(values, weights, targets.n_classes, some.sizes, places, *answers, least)

    inner = np.searchsorted(starts, [len(bins) * i // count for i in range(1, count)])
    parts = [part(a, b) for a, b in pairwise(np.unique([0, *inner, len(asked)]).tolist())]
    cuts, scores = (np.concatenate(found) for found in zip(*elsewhere(best_of_part, parts), strict=True))
    return Scored(asked, bins, Best(cuts, scores, starts))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some questions as other machines get them: what to add up, without names and without rows' numbers.

    `values` and `weights` are the targets of each row of each node, node by node.
    """

    values: Ints
    weights: Ints
    n_classes: int
    sizes: Ints
    asked: Positions
    n_cuts: Bytes
    bins: bytes
    min_samples_leaf: int


def best_of_part(part: Part) -> tuple[Ints, Floats]:
    """The best cut of each question, and its score: exactly those of `best_cuts`, whose sums are integers."""
    n_rows, n_nodes = len(part.values), len(part.sizes)
    counts = np.ones((1, n_rows), np.uint8)
    targets = Counted(part.values.copy(), part.weights.copy(), counts, part.n_classes)  # Ray's are read-only
    nodes = Nodes(
        trees=np.zeros(n_nodes, np.uint32),
        paths=np.ones(n_nodes, np.uint64),
        starts=starts_of(part.sizes),
        rows=np.arange(n_rows, dtype=np.uint32),
    )
    asked, n_cuts, bins = part.asked.copy(), part.n_cuts.copy(), np.frombuffer(part.bins, np.uint8)
    best = best_cuts(targets, nodes, asked, n_cuts, bins, part.min_samples_leaf)
    return best.cuts, best.scores


def choose(draws: Draws, owned: Sequence[slice], scored: Sequence[Scored]) -> list[Winner]:
    """Return each owner's winners: a node's lowest score wins, and the lowest draw among equal scores."""
    owner = np.repeat(np.arange(len(scored)), [len(s.questions) for s in scored])
    number = np.concatenate([np.arange(len(s.questions)) for s in scored])
    node = np.concatenate([s.questions.nodes for s in scored])
    feature = np.concatenate([s.questions.features + o.start for s, o in zip(scored, owned, strict=True)])
    scores = np.concatenate([s.best.scores for s in scored])
    valid = np.flatnonzero(np.concatenate([s.best.cuts for s in scored]) != NO_CUT)
    order = valid[np.lexsort((draws.values[node[valid], feature[valid]], scores[valid], node[valid]))]
    first = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
    return [_winner(s, number[first[owner[first] == i]]) for i, s in enumerate(scored)]


def _winner(scored: Scored, won: Positions) -> Winner:
    asked, best = scored.questions, scored.best
    return Winner(asked.nodes[won], asked.features[won], best.cuts[won], best.starts[won], scored.bins)


def send_rows(nodes: Nodes, winners: Sequence[Winner]) -> Bools:
    """Return whether each row goes right, for nodes that have a winner."""
    right = np.zeros(len(nodes.rows), dtype=np.bool_)
    for winner in winners:
        _send_rows(nodes.starts, winner.nodes, winner.starts, winner.cuts, winner.bins, right)
    return right


@kernel
def _send_rows(
    node_starts: Ints, nodes: Positions, starts: Ints, cuts: Ints, bins: Bytes, right: Bools
) -> None:
    for j in range(len(nodes)):
        begin = node_starts[nodes[j]]
        for i in range(node_starts[nodes[j] + 1] - begin):
            right[begin + i] = bins[starts[j] + i] > cuts[j]
