"""From leaves to answers: a majority of the trees (the paper's), their mean probabilities, or their mean."""

from typing import Literal

import numpy as np

from revfrf.forest.kernel import Floats, Ints, kernel
from revfrf.forest.nodes import Arrays

Voting = Literal["hard", "soft"]


def leaf_votes(sums: Ints, n_classes: int, voting: Voting) -> Floats:
    """Return the vote of each leaf, shape (n_leaves, n_classes or 1): spread over the classes, or the mean.

    A hard vote goes to the heaviest class, the lowest of equally heavy ones.
    """
    if not n_classes:
        return (sums[:, 1] / sums[:, 0])[:, None]
    if voting == "soft":
        shares: Floats = sums / sums.sum(axis=1, keepdims=True)
        return shares
    votes = np.zeros(sums.shape)
    votes[np.arange(len(sums)), sums.argmax(axis=1)] = 1.0
    return votes


def numbers(votes: Floats, centre: float, places: int) -> Floats:
    """Votes of a forest of numbers as numbers."""
    found: Floats = np.ldexp(votes[:, 0], -places) + centre
    return found


@kernel
def add_votes(totals: Floats, leaves: Arrays, votes: Floats) -> None:
    """Add the vote of each leaf to the totals of the rows that ended there."""
    trees, starts, rows = leaves
    for j in range(len(trees)):
        for row in rows[starts[j] : starts[j + 1]]:
            totals[row] += votes[j]
