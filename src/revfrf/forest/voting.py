"""From leaves to answers: a majority of the trees (the paper's), their mean probabilities, or their mean."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from revfrf.forest.kernel import kernel
from revfrf.forest.nodes import Nodes, Rows

Voting = Literal["hard", "soft"]


def leaf_votes(sums: NDArray[np.int64], n_classes: int, voting: Voting) -> NDArray[np.float64]:
    """What each leaf says, a row a leaf: one vote spread over the classes, or the mean value.

    A hard vote goes to the heaviest class, the lowest of equally heavy ones.
    """
    if not n_classes:
        return (sums[:, 1] / sums[:, 0])[:, None]
    if voting == "soft":
        shares: NDArray[np.float64] = sums / sums.sum(axis=1, keepdims=True)
        return shares
    votes = np.zeros(sums.shape)
    votes[np.arange(len(sums)), sums.argmax(axis=1)] = 1.0
    return votes


def numbers(votes: NDArray[np.float64], centre: float, places: int) -> NDArray[np.float64]:
    """Votes of a forest of numbers as numbers."""
    found: NDArray[np.float64] = np.ldexp(votes[:, 0], -places) + centre
    return found


def add_votes(totals: NDArray[np.float64], leaves: Nodes, votes: NDArray[np.float64]) -> None:
    """Add the vote of each leaf to the totals of the rows that ended there."""
    _add_votes(totals, leaves.starts, leaves.rows, votes)


@kernel
def _add_votes(
    totals: NDArray[np.float64], starts: NDArray[np.int64], rows: Rows, votes: NDArray[np.float64]
) -> None:
    for j in range(len(starts) - 1):
        for row in rows[starts[j] : starts[j + 1]]:
            totals[row] += votes[j]
