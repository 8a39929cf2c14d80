"""FOS-Find: which of all candidate splits is the best one of a node.

CS asks the owners of candidate features; each answers with the bins of its candidate cuts
(`forest.candidates`); CS scores them against the labels it alone knows (`forest.criterion`). The answers of
all participants and nodes of a level are one step. What CS learns: the bin of every row of a node, for
candidate features. What an owner learns: the rows of the nodes it is asked about.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from revfrf.errors import FormatError
from revfrf.forest.candidates import Method, Proposal, Values, propose
from revfrf.forest.criterion import NO_CUT, Best, Targets, best_cuts
from revfrf.forest.kernel import kernel
from revfrf.forest.nodes import Nodes
from revfrf.forest.randomness import feature_draws, private_seeds
from revfrf.forest.tree import Rules

Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What an owner is asked: feature `features[i]` at the node at position `nodes[i]`, in feature order."""

    nodes: Positions
    features: Positions

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One owner's answers, scored: its questions, its bins, and the best cut of each."""

    questions: Questions
    bins: NDArray[np.uint8]
    best: Best


@dataclass(frozen=True, slots=True, eq=False)
class Winner:
    """Splits of one owner that won: questions by number in its `Questions`."""

    scored: Scored
    numbers: Positions

    @property
    def nodes(self) -> Positions:
        return self.scored.questions.nodes[self.numbers]

    @property
    def features(self) -> Positions:
        return self.scored.questions.features[self.numbers]

    @property
    def cuts(self) -> NDArray[np.int64]:
        return self.scored.best.cuts[self.numbers]


# -- CS asks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The PRF's draws of a level, a row a node and a column a feature, and what they make of it."""

    values: NDArray[np.uint64]
    asked: NDArray[np.bool_]
    all_asked: NDArray[np.bool_]  # by node: after this, there is nobody left to ask


def draw_candidates(
    seed: bytes, features: Sequence[str], rules: Rules, nodes: Nodes, again: NDArray[np.bool_]
) -> Draws:
    """Whom to ask: the candidates, or, `again`, when no candidate had a valid split, all the others."""
    values = feature_draws(seed, features, nodes.trees, nodes.paths)
    candidates = values <= np.uint64(rules.candidate_limit)
    others = again | ~candidates.any(axis=1)
    return Draws(values, candidates != others[:, None], others)


def questions_for(draws: Draws, owned: slice) -> Questions:
    """The questions for the owner of these columns of the draws."""
    features, nodes = np.nonzero(draws.asked[:, owned].T)
    return Questions(nodes, features)


# -- an owner answers (FLE-Expan, lines 7 to 11) -----------------------------------------------------


def answer_questions(
    values: Sequence[Values],
    ids: Sequence[str],
    secret: bytes,
    method: Method,
    n_sampled: int,
    n_candidates: int,
    nodes: Nodes,
    questions: Questions,
) -> list[tuple[Positions, Proposal]]:
    """For each of the owner's features: where it was asked, and what it proposes there."""
    proposals = []
    for number, feature in enumerate(ids):
        positions = questions.nodes[questions.features == number]
        seeds = private_seeds(secret, feature, nodes.trees[positions], nodes.paths[positions])
        proposal = propose(values[number], nodes, positions, seeds, method, n_sampled, n_candidates)
        proposals.append((positions, proposal))
    return proposals


# -- CS chooses (FOS-Find, lines 1 to 6) -------------------------------------------------------------


def score(
    targets: Targets,
    rules: Rules,
    nodes: Nodes,
    questions: Questions,
    n_cuts: NDArray[np.uint8],
    bins: NDArray[np.uint8],
) -> Scored:
    """Score one owner's answers. Raises FormatError for answers that do not fit the questions."""
    if (n_cuts > rules.n_candidates).any():
        raise FormatError("more cuts than asked for", kind="out-of-range")
    best = best_cuts(targets, nodes, questions.nodes, n_cuts, bins, rules.min_samples_leaf)
    return Scored(questions, bins, best)


def choose(draws: Draws, owned: Sequence[slice], scored: Sequence[Scored]) -> list[Winner]:
    """The winners of each owner: of every node the lowest score, and of equal scores the lowest draw."""
    owner = np.repeat(np.arange(len(scored)), [len(s.questions) for s in scored])
    number = np.concatenate([np.arange(len(s.questions)) for s in scored])
    node = np.concatenate([s.questions.nodes for s in scored])
    feature = np.concatenate([s.questions.features + o.start for s, o in zip(scored, owned, strict=True)])
    scores = np.concatenate([s.best.scores for s in scored])
    valid = np.flatnonzero(np.concatenate([s.best.cuts for s in scored]) != NO_CUT)
    order = valid[np.lexsort((draws.values[node[valid], feature[valid]], scores[valid], node[valid]))]
    first = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
    return [Winner(s, number[first[owner[first] == i]]) for i, s in enumerate(scored)]


def send_rows(nodes: Nodes, winners: Sequence[Winner]) -> NDArray[np.bool_]:
    """For each row of each node that has a winner, whether it goes right."""
    right = np.zeros(len(nodes.rows), dtype=np.bool_)
    for winner in winners:
        starts = winner.scored.best.starts[winner.numbers]
        _send_rows(nodes.starts, winner.nodes, starts, winner.cuts, winner.scored.bins, right)
    return right


@kernel
def _send_rows(
    node_starts: NDArray[np.int64],
    nodes: Positions,
    starts: NDArray[np.int64],
    cuts: NDArray[np.int64],
    bins: NDArray[np.uint8],
    right: NDArray[np.bool_],
) -> None:
    for j in range(len(nodes)):
        begin = node_starts[nodes[j]]
        for i in range(node_starts[nodes[j] + 1] - begin):
            right[begin + i] = bins[starts[j] + i] > cuts[j]
