"""How a forest is grown: docs/forest.md, one function per sentence.

A node is a tree's number and a path: the root is 1, the children of i are 2i (left) and 2i + 1 (right).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Literal

from tests.reference.canonical import canonical

MISSING = -(2**62)
ALL_ONES = 2**64 - 1
WEIGHT_LIMIT = 2**20
REPEAT_LIMIT = 255

Node = tuple[int, int]  # tree and path
Sums = tuple[int, ...]  # the weight of each class, or (Σ weight, Σ weight·target)


@dataclass(frozen=True)
class Rules:
    n_trees: int
    max_depth: int
    candidate_limit: int
    min_samples_split: int
    min_samples_leaf: int
    bootstrap: bool
    method: Literal["quantile", "uniform"]
    n_candidates: int
    n_sampled: int


@dataclass(frozen=True)
class Feature:
    """A column: its id `party/column`, its owner's secret, and x̂ of each row."""

    id: str
    secret: bytes
    values: list[int]


@dataclass(frozen=True)
class Split:
    """Left iff x̂ ≤ threshold; `cut` is the threshold's number among the feature's cuts at the node."""

    feature: str
    cut: int
    threshold: int


@dataclass(frozen=True)
class Forest:
    n_trees: int
    splits: dict[Node, Split]
    leaves: dict[Node, Sums]
    rows: dict[Node, list[int]]  # of the leaves


# -- Randomness -------------------------------------------------------------------------------------


def siphash24(key: bytes, message: bytes) -> int:
    """SipHash-2-4, 64 bits: two rounds per word, four at the end."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    initial = b"somepseudorandomlygeneratedbytes"
    v0, v1, v2, v3 = (int.from_bytes(initial[i : i + 8], "big") for i in (0, 8, 16, 24))
    state = (v0 ^ k0, v1 ^ k1, v2 ^ k0, v3 ^ k1)
    padded = message + bytes((7 - len(message)) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = sip_round(*sip_round(v0, v1, v2, v3 ^ word))
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = state
    state = (v0, v1, v2 ^ 0xFF, v3)
    for _ in range(4):
        state = sip_round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & ALL_ONES
    v1 = rotated(v1, 13) ^ v0
    v0 = rotated(v0, 32)
    v2 = (v2 + v3) & ALL_ONES
    v3 = rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & ALL_ONES
    v3 = rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & ALL_ONES
    v1 = rotated(v1, 17) ^ v2
    v2 = rotated(v2, 32)
    return v0, v1, v2, v3


def rotated(word: int, bits: int) -> int:
    """To the left, in 64 bits."""
    return (word << bits | word >> (64 - bits)) & ALL_ONES


def split_mix(seed: int, n: int) -> int:
    """The n-th number, from 0, of the stream that the seed opens."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & ALL_ONES
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & ALL_ONES
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & ALL_ONES
    return z ^ z >> 31


def key(*names: str | bytes) -> bytes:
    return sha256(canonical("revfrf randomness v1", *names)).digest()[:16]


def draw(key: bytes, tree: int, path: int) -> int:
    return siphash24(key, tree.to_bytes(8, "little") + path.to_bytes(8, "little"))


def candidate_limit(pi: float | Fraction) -> int:
    """The largest draw that makes a feature a candidate."""
    return math.ceil(Fraction(pi) * 2**64) - 1


# -- Rows, weights and targets ----------------------------------------------------------------------


def bootstrap(seed: bytes, tree: int, weights: Sequence[float]) -> list[int]:
    """How often each row counts in the tree; a row of weight 0 is as if it were not there."""
    there = [row for row, weight in enumerate(weights) if weight > 0]
    stream = draw(key("bootstrap", seed), tree, 0)
    repeats = [0] * len(weights)
    for i in range(len(there)):
        row = there[split_mix(stream, i) % len(there)]
        repeats[row] = min(repeats[row] + 1, REPEAT_LIMIT)
    return repeats


def fixed_weights(weights: Sequence[float]) -> list[int]:
    """Small whole numbers as they are, others on a scale on which the largest is 2^20."""
    if all(float(w).is_integer() and w <= WEIGHT_LIMIT for w in weights):
        return [int(w) for w in weights]
    largest = max(weights)
    return [max(1, round(w / largest * WEIGHT_LIMIT)) if w > 0 else 0 for w in weights]


def fixed_targets(
    y: Sequence[float], weights: Sequence[int], repeats: Sequence[Sequence[int]]
) -> tuple[list[int], float, int]:
    """The integers of a regression's targets, their centre and places; `repeats` has a list per tree.

    A row of weight 0 is as if it were not there: it has no say in the range, and its integer is never used.
    """
    there = [value for value, weight in zip(y, weights, strict=True) if weight > 0]
    centre = min(there) / 2 + max(there) / 2
    spread = max(abs(value - centre) for value in there)
    heaviest_tree = max(sum(r * w for r, w in zip(of_tree, weights, strict=True)) for of_tree in repeats)
    _, exponent = math.frexp(spread)
    places = 62 - heaviest_tree.bit_length() - exponent if spread else 0
    integers = [
        round(math.ldexp(value - centre, places)) if weight > 0 else 0
        for value, weight in zip(y, weights, strict=True)
    ]
    return integers, centre, places


# -- Cuts -------------------------------------------------------------------------------------------


def sample(feature: Feature, node: Node, rows: list[int], n_sampled: int) -> list[int]:
    """The rows of the node that the feature's cuts are taken from."""
    m = len(rows)
    if m <= n_sampled:
        return rows
    stream = draw(key("sample", feature.secret, feature.id), *node)
    sampled = []
    for i in range(n_sampled):
        low, high = i * m // n_sampled, (i + 1) * m // n_sampled
        sampled.append(rows[low + split_mix(stream, i) % (high - low)])
    return sampled


def quantile_cuts(values: Sequence[int], c: int) -> list[int]:
    v = sorted(values)
    z = len(v)
    cuts = {v[(i + 1) * z // (c + 1)] for i in range(c)} - {v[-1]}
    if not cuts and v[0] < v[-1]:
        cuts = {max(value for value in v if value < v[-1])}
    return sorted(cuts)


def uniform_cuts(values: Sequence[int], c: int) -> list[int]:
    present = [value for value in values if value != MISSING]
    if not present:
        return []
    low, high = min(present), max(present)
    some_missing = len(present) < len(values)
    step, rest = divmod(high - low, c + 1)
    numbers = range(2 if some_missing else 1, c + 1)
    cuts = {low + step * i + rest * i // (c + 1) for i in numbers} - {high}
    return sorted(cuts | {MISSING} if some_missing else cuts)


def candidate_cuts(rules: Rules, feature: Feature, node: Node, rows: list[int]) -> list[int]:
    """Ascending; a cut's number is its place in the list."""
    values = [feature.values[row] for row in sample(feature, node, rows, rules.n_sampled)]
    if rules.method == "quantile":
        return quantile_cuts(values, rules.n_candidates)
    return uniform_cuts(values, rules.n_candidates)


# -- Scores -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """What a tree is grown from; `counts` is repeats·weight of each row."""

    rules: Rules
    seed: bytes
    number: int
    features: list[Feature]
    targets: list[int]
    counts: list[int]
    n_classes: int  # 0 for a regression


def sums(tree: Tree, rows: list[int]) -> Sums:
    """What a leaf with these rows keeps."""
    if tree.n_classes:
        weights = [0] * tree.n_classes
        for row in rows:
            weights[tree.targets[row]] += tree.counts[row]
        return tuple(weights)
    weight = sum(tree.counts[row] for row in rows)
    return weight, sum(tree.counts[row] * tree.targets[row] for row in rows)


def purity(side: Sums, n_classes: int) -> float:
    """Σ_k L_k² / ΣL of the classes' weights, or S² / W."""
    if n_classes:
        return added(float(weight) * float(weight) for weight in side) / float(sum(side))
    weight, total = side
    return float(total) * float(total) / float(weight)


def added(numbers: Iterable[float]) -> float:
    """From left to right, rounded each time; Python's sum is more exact than that from 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def score(left: Sums, right: Sums, n_classes: int) -> float:
    """Lower is better. Regression counts targets from the node's mean, rounded down."""
    if not n_classes:
        mean = (left[1] + right[1]) // (left[0] + right[0])
        left, right = ((weight, total - mean * weight) for weight, total in (left, right))
    return -(purity(left, n_classes) + purity(right, n_classes))


def divided(feature: Feature, threshold: int, rows: list[int]) -> tuple[list[int], list[int]]:
    left = [row for row in rows if feature.values[row] <= threshold]
    return left, [row for row in rows if feature.values[row] > threshold]


def best_cut(tree: Tree, feature: Feature, path: int, rows: list[int]) -> tuple[float, Split] | None:
    """The feature's valid split with the lowest score, the lowest cut of equal ones."""
    best = None
    cuts = candidate_cuts(tree.rules, feature, (tree.number, path), rows)
    for number, threshold in enumerate(cuts):
        left, right = divided(feature, threshold, rows)
        if min(len(left), len(right)) < tree.rules.min_samples_leaf:
            continue
        its_score = score(sums(tree, left), sums(tree, right), tree.n_classes)
        if best is None or its_score < best[0]:
            best = its_score, Split(feature.id, number, threshold)
    return best


# -- Growing ----------------------------------------------------------------------------------------


def must_be_leaf(tree: Tree, path: int, rows: list[int]) -> bool:
    rules = tree.rules
    depth = path.bit_length() - 1
    return (
        depth == rules.max_depth
        or len(rows) < rules.min_samples_split
        or len(rows) < 2 * rules.min_samples_leaf
        or len({tree.targets[row] for row in rows}) <= 1
    )


def winner(tree: Tree, path: int, rows: list[int], draws: dict[str, int]) -> Split | None:
    """The best of the features that have a draw: lowest score, then lowest draw."""
    entries = []
    for feature in tree.features:
        if feature.id in draws and (best := best_cut(tree, feature, path, rows)):
            its_score, split = best
            entries.append((its_score, draws[feature.id], split))
    return min(entries, key=lambda entry: entry[:2])[2] if entries else None


def chosen_split(tree: Tree, path: int, rows: list[int]) -> Split | None:
    """The best of the candidates, or of all features if no candidate has a valid split."""
    draws = {f.id: draw(key("candidate", tree.seed, f.id), tree.number, path) for f in tree.features}
    candidates = {name: drawn for name, drawn in draws.items() if drawn <= tree.rules.candidate_limit}
    return winner(tree, path, rows, candidates) or winner(tree, path, rows, draws)


def grow_node(tree: Tree, path: int, rows: list[int], forest: Forest) -> None:
    node = tree.number, path
    split = None if must_be_leaf(tree, path, rows) else chosen_split(tree, path, rows)
    if split is None:
        forest.leaves[node] = sums(tree, rows)
        forest.rows[node] = rows
        return
    forest.splits[node] = split
    feature = next(feature for feature in tree.features if feature.id == split.feature)
    left, right = divided(feature, split.threshold, rows)
    grow_node(tree, 2 * path, left, forest)
    grow_node(tree, 2 * path + 1, right, forest)


def grow(
    rules: Rules, seed: bytes, features: list[Feature], targets: list[int], weights: list[int], n_classes: int
) -> Forest:
    """n_classes is 0 for a regression, whose targets are those of `fixed_targets`."""
    n = len(targets)
    forest = Forest(rules.n_trees, {}, {}, {})
    for number in range(rules.n_trees):
        repeats = bootstrap(seed, number, weights) if rules.bootstrap else [1] * n
        counts = [r * w for r, w in zip(repeats, weights, strict=True)]
        tree = Tree(rules, seed, number, features, targets, counts, n_classes)
        grow_node(tree, 1, [row for row in range(n) if counts[row] > 0], forest)
    return forest


# -- Answers ----------------------------------------------------------------------------------------


def predict(forest: Forest, row: Mapping[str, int]) -> list[Sums]:
    """The leaf of each tree that the row, x̂ by feature id, falls into."""
    return [forest.leaves[leaf_of(forest, number, row)] for number in range(forest.n_trees)]


def leaf_of(forest: Forest, tree: int, row: Mapping[str, int]) -> Node:
    path = 1
    while (tree, path) in forest.splits:
        split = forest.splits[tree, path]
        path = 2 * path if row[split.feature] <= split.threshold else 2 * path + 1
    return tree, path


def heaviest(weights: Sequence[int]) -> int:
    """The lowest of equally heavy classes: a tree's hard vote from its leaf, the forest's from its votes."""
    return list(weights).index(max(weights))


def hard_votes(leaves: Sequence[Sums]) -> list[int]:
    """How many trees vote for each class; the forest answers with the `heaviest`."""
    votes = [0] * len(leaves[0])
    for leaf in leaves:
        votes[heaviest(leaf)] += 1
    return votes


def soft_votes(leaves: Sequence[Sums]) -> list[float]:
    """The mean over the trees of each class's share."""
    classes = range(len(leaves[0]))
    return [added(float(leaf[k]) / float(sum(leaf)) for leaf in leaves) / len(leaves) for k in classes]


def mean_value(leaves: Sequence[Sums], centre: float, places: int) -> float:
    """The mean over the trees of a regression's value."""
    values = (centre + math.ldexp(float(total) / float(weight), -places) for weight, total in leaves)
    return added(values) / len(leaves)
