"""Plain trees, as a server holds them whose model is its own: what the private evaluations evaluate.

Left iff x̂ ≤ ŝ, on integers, as everywhere in this project.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Split:
    """Left iff row[feature] ≤ cut."""

    feature: int
    cut: int
    left: "Tree"
    right: "Tree"


Tree = Split | int
"""A leaf is its value, a number below 2^64. A forest's answer is the sum of its trees' values mod 2^64."""


def splits(tree: Tree) -> Iterator[Split]:
    """Every split, each before those below it, left before right."""
    if isinstance(tree, Split):
        yield tree
        yield from splits(tree.left)
        yield from splits(tree.right)


def depth(tree: Tree) -> int:
    return 1 + max(depth(tree.left), depth(tree.right)) if isinstance(tree, Split) else 0


def padded(tree: Tree, to: int) -> Tree:
    """The same answers from a complete tree: splits that decide nothing stand in for leaves too high up."""
    if to == 0:
        return tree
    split = tree if isinstance(tree, Split) else Split(0, 0, tree, tree)
    return Split(split.feature, split.cut, padded(split.left, to - 1), padded(split.right, to - 1))


def vote(number: int) -> int:
    """A leaf's vote for this class, 0 to 3: sums of them are counts of 16 bits, side by side."""
    return 1 << (16 * number)


def from_sklearn(fitted: Any, decimals: int) -> Tree:
    """One tree of a scikit-learn forest of up to four classes, for rows of x̂ = round(x·10^decimals)."""
    tree = fitted.tree_

    def at(node: int) -> Tree:
        if tree.children_left[node] < 0:
            return vote(int(np.argmax(tree.value[node][0])))
        cut = floor(tree.threshold[node] * 10**decimals)
        return Split(
            int(tree.feature[node]), cut, at(tree.children_left[node]), at(tree.children_right[node])
        )

    return at(0)
