"""How a forest is grown: docs/forest.md, one function per sentence.

A node is a tree's number and a path: the root is 1, the children of i are 2i (left) and 2i + 1 (right). Rows
are named by their position in the lists that `grow` is given.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import count, pairwise
from typing import Any, Literal

from tests.reference.canonical import Field, canonical

ALL_ONES = 2**64 - 1

Node = tuple[int, int]  # tree and path
Sums = tuple[int, ...]  # the weight of each class, or (Σ weight, Σ weight·target)


@dataclass(frozen=True)
class Books:
    """Each feature has one book of cuts for the whole forest."""


@dataclass(frozen=True)
class PerNode:
    """Cuts are proposed at each node."""

    method: Literal["quantile", "uniform"]
    n_candidates: int
    n_sampled: int


@dataclass(frozen=True)
class Rules:
    n_trees: int
    max_depth: int
    candidate_limit: int
    min_samples_split: int
    min_samples_leaf: int
    bootstrap: bool
    cuts: Books | PerNode


@dataclass(frozen=True)
class Feature:
    """A column: its id `party/column`, and x̂ of each row.

    `secret` is its owner's, for `PerNode`. `thresholds` is a book drawn earlier, perhaps from other rows;
    without one `grow` draws the `book` of the values.
    """

    id: str
    values: Sequence[int]
    secret: bytes = b""
    ring: int = 64
    n_cuts: int = 255
    thresholds: Sequence[int] | None = None


@dataclass(frozen=True)
class Split:
    """Left iff x̂ ≤ threshold; `cut` is the threshold's number among the feature's cuts."""

    feature: str
    cut: int
    threshold: int


@dataclass(frozen=True)
class Forest:
    n_trees: int
    splits: dict[Node, Split]
    leaves: dict[Node, Sums]
    rows: dict[Node, list[int]]  # of the leaves, in ascending order of their numbers


def missing(ring: int) -> int:
    return -(1 << (ring - 2))


# -- Rules ------------------------------------------------------------------------------------------


def candidate_limit(pi: float) -> int:
    """The largest draw that makes a feature a candidate; π is taken exactly."""
    return math.ceil(Fraction(pi) * 2**64) - 1


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


def key(*names: str | bytes) -> bytes:
    return sha256(canonical("revfrf randomness v1", *names)).digest()[:16]


def draw(key: bytes, tree: int, path: int) -> int:
    return siphash24(key, tree.to_bytes(8, "little") + path.to_bytes(8, "little"))


def nth(seed: int, n: int) -> int:
    """SplitMix64: the n-th number, from 0, of the stream that the seed opens."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & ALL_ONES
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & ALL_ONES
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & ALL_ONES
    return z ^ z >> 31


# -- Which rows a tree gets -------------------------------------------------------------------------


def poisson_thresholds() -> list[int]:
    """T_k = ⌊2^64·e^-1·Σ_{j≤k} 1/j!⌋ for k = 0 … 19; 60 terms give e far beyond the bits that matter."""
    inverse_factorials = [Fraction(1, math.factorial(j)) for j in range(60)]
    e = sum(inverse_factorials)
    return [math.floor(2**64 / e * sum(inverse_factorials[: k + 1])) for k in range(20)]


POISSON = poisson_thresholds()


def bootstrap_count(seed: bytes, tree: int, row_number: int) -> int:
    """The Poisson(1) quantile of the row's own draw."""
    u = nth(draw(key("bootstrap", seed), tree, 0), row_number)
    return sum(threshold <= u for threshold in POISSON)


def count_in_tree(rules: Rules, seed: bytes, tree: int, row_number: int) -> int:
    """How often a row counts, apart from rows of weight 0, which `grow` leaves out."""
    return bootstrap_count(seed, tree, row_number) if rules.bootstrap else 1


# -- Scales -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Fixed when the forest is created; `labels` are the classes, empty for a regression."""

    weight_places: int
    labels: tuple[Any, ...]
    low: float
    high: float
    max_total_weight: float

    @property
    def n_classes(self) -> int:
        return len(self.labels)

    @property
    def centre(self) -> float:
        return self.low / 2 + self.high / 2 + 0.0

    @property
    def spread(self) -> float:
        return max(self.high - self.centre, self.centre - self.low) + 0.0

    @property
    def places(self) -> int:
        b = math.ceil(scaled(self.max_total_weight, self.weight_places)).bit_length()
        return min(40, 57 - b) - exponent(self.spread) if self.spread else 0

    @property
    def vote_places(self) -> int:
        return 40 - exponent(self.spread) if self.spread else 0


def exponent(x: float) -> int:
    """e of x = f·2^e with ½ ≤ f < 1."""
    return math.frexp(x)[1]


def scaled(x: float, places: int) -> Fraction:
    """x·2^places, exactly."""
    return Fraction(x) * Fraction(2) ** places


def total(weights: Iterable[float]) -> float:
    """The float64 nearest to the exact sum, so that the order of the rows plays no part."""
    return math.fsum(weights)


def default_max_total_weight(weights: Sequence[float]) -> float:
    return 4 * total(weights)


def weight_places(weights: Sequence[float], max_total_weight: float) -> int:
    whole = all(float(weight).is_integer() for weight in weights)
    return 0 if whole and max_total_weight <= 2**34 else 34 - exponent(max_total_weight)


def class_scale(
    labels: Sequence[Any],
    weights: Sequence[float],
    max_total_weight: float | None = None,
    classes: Sequence[Any] | None = None,
) -> Scale:
    """`labels` are those of the rows; by default the list of classes is all of them in ascending order."""
    most = default_max_total_weight(weights) if max_total_weight is None else max_total_weight
    in_order = tuple(sorted(set(labels)) if classes is None else classes)
    return Scale(weight_places(weights, most), in_order, 0.0, 0.0, most)


def number_scale(
    y: Sequence[float],
    weights: Sequence[float],
    target_range: tuple[float, float] | None = None,
    max_total_weight: float | None = None,
) -> Scale:
    """By default the range is that of the rows with positive weight."""
    most = default_max_total_weight(weights) if max_total_weight is None else max_total_weight
    there = [target for target, weight in zip(y, weights, strict=True) if weight > 0]
    low, high = (min(there), max(there)) if target_range is None else target_range
    return Scale(weight_places(weights, most), (), low, high, most)


def fixed_weights(scale: Scale, weights: Sequence[float]) -> list[int]:
    """The integers of the weights of all rows, whose sum the scale must have room for."""
    if total(weights) > scale.max_total_weight:
        raise ValueError("the sum of all weights exceeds max_total_weight")
    return [max(1, round(scaled(w, scale.weight_places))) if w > 0 else 0 for w in weights]


def fixed_targets(scale: Scale, y: Sequence[Any], weights: Sequence[float] | None = None) -> list[int]:
    """The classes' numbers, or the integers of a regression's targets.

    The target of a row of weight 0 plays no part: it is not refused, and its integer is 0.
    """
    counts = [True] * len(y) if weights is None else [weight > 0 for weight in weights]
    fixed = fixed_class if scale.labels else fixed_number
    return [fixed(scale, target) if there else 0 for target, there in zip(y, counts, strict=True)]


def fixed_class(scale: Scale, label: Any) -> int:
    return scale.labels.index(label)


def fixed_number(scale: Scale, target: float) -> int:
    if not scale.low <= target <= scale.high:
        raise ValueError(f"{target} is outside the range")
    return round(scaled(target - scale.centre, scale.places))


# -- Books of cuts ----------------------------------------------------------------------------------


def book(values: Sequence[int], ring: int = 64, n_cuts: int = 255) -> list[int]:
    """The thresholds, ascending."""
    present = [value for value in values if value != missing(ring)]
    if not present:
        return []
    cut_for_missing = [missing(ring)] if len(present) < len(values) else []
    bins = bins_of_values(Counter(present), n_cuts + 1 - len(cut_for_missing))
    return cut_for_missing + [middle(left[-1], right[0]) for left, right in pairwise(bins)]


def bins_of_values(n_rows: Mapping[int, int], most_bins: int) -> list[list[int]]:
    """The distinct values in at most `most_bins` runs of neighbours; `n_rows` is of each value."""
    if len(n_rows) <= most_bins:
        return [[value] for value in sorted(n_rows)]
    smallest = next(most for most in count(1) if len(packed(n_rows, most)) <= most_bins)
    return packed(n_rows, smallest, most_bins)


def packed(n_rows: Mapping[int, int], most: int, most_bins: int = 0) -> list[list[int]]:
    """A value joins the bin if that is empty or keeps at most `most` rows; else it begins the next one.

    It also does so if the values from it on are no more than the bins that are left of `most_bins`.
    """
    bins: list[list[int]] = [[]]
    in_bin = 0
    for place, value in enumerate(sorted(n_rows)):
        enough_left = len(n_rows) - place <= most_bins - len(bins)
        if bins[-1] and (in_bin + n_rows[value] > most or enough_left):
            bins.append([])
            in_bin = 0
        bins[-1].append(value)
        in_bin += n_rows[value]
    return bins


def middle(a: int, b: int) -> int:
    return a + (b - a) // 2


def bin_of(x: int, thresholds: Sequence[int]) -> int:
    """#{j : x̂ > cut j}."""
    return bisect_left(thresholds, x)


# -- Cuts at a node ---------------------------------------------------------------------------------


def sample(feature: Feature, node: Node, rows: list[int], n_sampled: int) -> list[int]:
    """The rows of the node that the feature's cuts are taken from."""
    m = len(rows)
    if m <= n_sampled:
        return rows
    s = draw(key("sample", feature.secret, feature.id), *node)
    sampled = []
    for i in range(n_sampled):
        low, high = i * m // n_sampled, (i + 1) * m // n_sampled
        sampled.append(rows[low + nth(s, i) % (high - low)])
    return sampled


def quantile_cuts(values: Sequence[int], c: int) -> list[int]:
    v = sorted(values)
    z = len(v)
    cuts = {v[(i + 1) * z // (c + 1)] for i in range(c)} - {v[-1]}
    if not cuts and v[0] < v[-1]:
        cuts = {max(value for value in v if value < v[-1])}
    return sorted(cuts)


def uniform_cuts(values: Sequence[int], c: int, ring: int = 64) -> list[int]:
    present = [value for value in values if value != missing(ring)]
    if not present:
        return []
    low, high = min(present), max(present)
    cut_for_missing = {missing(ring)} if len(present) < len(values) else set()
    step, rest = divmod(high - low, c + 1)
    numbers = range(2 if cut_for_missing else 1, c + 1)
    return sorted(cut_for_missing | {low + step * i + rest * i // (c + 1) for i in numbers} - {high})


def cuts_at(rules: Rules, feature: Feature, node: Node, rows: list[int]) -> Sequence[int]:
    """Ascending thresholds; a cut's number is its place among them."""
    match rules.cuts:
        case Books():
            assert feature.thresholds is not None
            return feature.thresholds
        case PerNode(method, n_candidates, n_sampled):
            values = [feature.values[row] for row in sample(feature, node, rows, n_sampled)]
            if method == "quantile":
                return quantile_cuts(values, n_candidates)
            return uniform_cuts(values, n_candidates, feature.ring)


# -- Valid splits and scores ------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """What a tree is grown from; `weights` are count·weight of each row."""

    rules: Rules
    seed: bytes
    number: int
    features: list[Feature]
    targets: Sequence[int]
    weights: Sequence[int]
    n_classes: int  # 0 for a regression


def sums(tree: Tree, rows: Iterable[int]) -> Sums:
    """What a leaf with these rows keeps."""
    if tree.n_classes:
        of_class = [0] * tree.n_classes
        for row in rows:
            of_class[tree.targets[row]] += tree.weights[row]
        return tuple(of_class)
    pairs = [(tree.weights[row], tree.weights[row] * tree.targets[row]) for row in rows]
    return sum(weight for weight, _ in pairs), sum(product for _, product in pairs)


def purity(side: Sums, n_classes: int) -> float:
    """Σ_k L_k² / ΣL of the classes' weights, or S² / W."""
    if n_classes:
        return added(float(weight) * float(weight) for weight in side) / float(sum(side))
    weight, total = side
    return float(total) * float(total) / float(weight)


def added(numbers: Iterable[float]) -> float:
    """From left to right, rounded each time; Python's sum is more exact than that from 3.12 on."""
    result = 0.0
    for number in numbers:
        result += number
    return result


def score(left: Sums, right: Sums, n_classes: int) -> float:
    """Lower is better. Regression counts targets from the node's mean, rounded down."""
    if not n_classes:
        mean = (left[1] + right[1]) // (left[0] + right[0])
        left, right = ((weight, total - mean * weight) for weight, total in (left, right))
    return -(purity(left, n_classes) + purity(right, n_classes))


def best_cut(tree: Tree, feature: Feature, path: int, rows: list[int]) -> tuple[float, Split] | None:
    """The feature's valid split with the lowest score, the lowest cut of equal ones."""
    thresholds = cuts_at(tree.rules, feature, (tree.number, path), rows)
    of_bin: list[list[int]] = [[] for _ in range(len(thresholds) + 1)]
    for row in rows:
        of_bin[bin_of(feature.values[row], thresholds)].append(row)
    whole = sums(tree, rows)
    n_left, left = 0, sums(tree, [])
    splits = []
    for cut, threshold in enumerate(thresholds):
        n_left += len(of_bin[cut])
        left = tuple(a + b for a, b in zip(left, sums(tree, of_bin[cut]), strict=True))
        right = tuple(a - b for a, b in zip(whole, left, strict=True))
        if min(n_left, len(rows) - n_left) >= tree.rules.min_samples_leaf:
            splits.append((score(left, right, tree.n_classes), Split(feature.id, cut, threshold)))
    return min(splits, key=lambda entry: entry[0], default=None)


# -- Growing a node ---------------------------------------------------------------------------------


def must_be_leaf(tree: Tree, path: int, rows: list[int]) -> bool:
    rules = tree.rules
    depth = path.bit_length() - 1
    return (
        depth == rules.max_depth
        or len(rows) < rules.min_samples_split
        or len(rows) < 2 * rules.min_samples_leaf
        or len({tree.targets[row] for row in rows}) == 1
    )


def winner(tree: Tree, path: int, rows: list[int], draws: Mapping[str, int]) -> Split | None:
    """The best of the features that have a draw: lowest score, then lowest draw, then lowest id."""
    entries = []
    for feature in tree.features:  # in ascending order: min takes the first of equal ones
        if feature.id in draws and (best := best_cut(tree, feature, path, rows)):
            its_score, split = best
            entries.append(((its_score, draws[feature.id]), split))
    return min(entries, key=lambda entry: entry[0])[1] if entries else None


def chosen_split(tree: Tree, path: int, rows: list[int]) -> Split | None:
    """The best of the candidates, or of all features if no candidate has a valid split."""
    draws = {f.id: draw(key("candidate", tree.seed, f.id), tree.number, path) for f in tree.features}
    candidates = {name: drawn for name, drawn in draws.items() if drawn <= tree.rules.candidate_limit}
    return winner(tree, path, rows, candidates) or winner(tree, path, rows, draws)


def divided(feature: Feature, threshold: int, rows: list[int]) -> tuple[list[int], list[int]]:
    left = [row for row in rows if feature.values[row] <= threshold]
    return left, [row for row in rows if feature.values[row] > threshold]


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


def with_book(rules: Rules, feature: Feature) -> Feature:
    if feature.thresholds is not None or isinstance(rules.cuts, PerNode):
        return feature
    return replace(feature, thresholds=book(feature.values, feature.ring, feature.n_cuts))


def trees(
    rules: Rules,
    seed: bytes,
    features: Iterable[Feature],
    row_numbers: Sequence[int],
    targets: Sequence[int],
    weights: Sequence[int],
    n_classes: int,
) -> list[Tree]:
    in_order = sorted((with_book(rules, f) for f in features), key=lambda feature: feature.id.encode())
    counted = [
        [count_in_tree(rules, seed, t, i) * w for i, w in zip(row_numbers, weights, strict=True)]
        for t in range(rules.n_trees)
    ]
    return [Tree(rules, seed, t, in_order, targets, counted[t], n_classes) for t in range(rules.n_trees)]


def grow(
    rules: Rules,
    seed: bytes,
    features: Iterable[Feature],
    row_numbers: Sequence[int],
    targets: Sequence[int],
    weights: Sequence[int],
    n_classes: int,
) -> Forest:
    """`targets` and `weights` are integers (`fixed_targets`, `fixed_weights`); 0 classes for a regression."""
    forest = Forest(rules.n_trees, {}, {}, {})
    ascending = sorted(range(len(row_numbers)), key=row_numbers.__getitem__)
    for tree in trees(rules, seed, features, row_numbers, targets, weights, n_classes):
        grow_node(tree, 1, [row for row in ascending if tree.weights[row] > 0], forest)
    return forest


# -- Leaves and votes -------------------------------------------------------------------------------


def predict(forest: Forest, row: Mapping[str, int]) -> list[Sums]:
    """The leaf of each tree that the row, x̂ by feature id, reaches."""
    return [forest.leaves[leaf_of(forest, number, row)] for number in range(forest.n_trees)]


def leaf_of(forest: Forest, tree: int, row: Mapping[str, int]) -> Node:
    path = 1
    while (tree, path) in forest.splits:
        split = forest.splits[tree, path]
        path = 2 * path if row[split.feature] <= split.threshold else 2 * path + 1
    return tree, path


def that_vote(leaves: Sequence[Sums]) -> list[Sums]:
    """Those with weight; without it a class's weight and a regression's sums are all 0."""
    return [leaf for leaf in leaves if any(leaf)]


def n_voted(leaves: Sequence[Sums]) -> int:
    return len(that_vote(leaves))


def heaviest(weights: Sequence[int]) -> int:
    """The lowest of equally heavy classes."""
    return list(weights).index(max(weights))


def hard_votes(leaves: Sequence[Sums]) -> list[int]:
    """How many trees vote for each class."""
    return [sum(heaviest(leaf) == k for leaf in that_vote(leaves)) for k in range(len(leaves[0]))]


def soft_votes(leaves: Sequence[Sums]) -> list[int]:
    """The classes' shares of the leaves, 2^22 being the whole of a leaf."""
    return [sum(leaf[k] * 2**22 // sum(leaf) for leaf in that_vote(leaves)) for k in range(len(leaves[0]))]


def number_votes(leaves: Sequence[Sums], scale: Scale) -> int:
    finer = 2 ** (scale.vote_places - scale.places)
    return sum(total * finer // weight for weight, total in that_vote(leaves))


def answer_class(votes: Sequence[int]) -> int:
    """The number of the class with the most votes."""
    return heaviest(votes)


def probabilities(votes: Sequence[int]) -> list[float]:
    return [of_class / sum(votes) for of_class in votes]


def answer_number(votes: int, n_voted: int, scale: Scale) -> float:
    return scale.centre + math.ldexp(float(votes) / float(n_voted), -scale.vote_places)


# -- Digest -----------------------------------------------------------------------------------------


def forest_digest(rules: Rules, scale: Scale, forest: Forest) -> str:
    names = sorted({split.feature for split in forest.splits.values()}, key=str.encode)
    splits = [(*node, names.index(split.feature), split.cut) for node, split in sorted(forest.splits.items())]
    leaves = [(*node, *leaf) for node, leaf in sorted(forest.leaves.items())]
    head = canonical(
        "revfrf forest v2",
        fields_of_rules(rules),
        fields_of_scale(scale),
        tuple(names),
        shape(splits),
        shape(leaves),
    )
    return sha256(head + table(splits) + table(leaves)).hexdigest()


def fields_of_rules(rules: Rules) -> Field:
    match rules.cuts:
        case Books():
            cuts: Field = ("books",)
        case PerNode(method, n_candidates, n_sampled):
            cuts = ("per node", method, n_candidates, n_sampled)
    return (
        rules.n_trees,
        rules.max_depth,
        rules.candidate_limit,
        rules.min_samples_split,
        rules.min_samples_leaf,
        rules.bootstrap,
        cuts,
    )


def fields_of_scale(scale: Scale) -> Field:
    if scale.labels:
        return ("classes", scale.weight_places, *map(repr, scale.labels))
    return ("numbers", scale.weight_places, scale.centre.hex(), scale.spread.hex(), scale.places)


def shape(rows: Sequence[Sums]) -> tuple[int, int]:
    return (len(rows), len(rows[0])) if rows else (0, 0)


def table(rows: Sequence[Sums]) -> bytes:
    """64-bit integers, signed, little-endian, row by row."""
    return b"".join(entry.to_bytes(8, "little", signed=True) for row in rows for entry in row)
