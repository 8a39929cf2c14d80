"""All randomness of a forest is a pure function of stable names, never of a generator's state.

Names are the forest's seed, the number of a tree, the path of a node (root 1, children 2i and 2i + 1) and the
id of a feature ("party/column"). So a node's draws do not depend on what was drawn before, on the order in
which participants answer, or on who else is there, and a forest that lost a participant is the forest that
would have been trained without it.

The function is SipHash-2-4 (Aumasson and Bernstein 2012): a key made of names, a message of two words, the
tree and the path. Where one draw is not enough it seeds a SplitMix64 stream. docs/forest.md has the rules
in full.
"""

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from revfrf.crypto.canonical import Field, digest
from revfrf.errors import UsageError
from revfrf.forest.kernel import Bytes, Ints, Paths, Trees, kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the stride of SplitMix64's counter

POISSON = np.array(
    [
        6786177901268885274,
        13572355802537770549,
        16965444753172213186,
        18096474403383694065,
        18379231815936564285,
        18435783298447138329,
        18445208545532234003,
        18446555009401533385,
        18446723317385195808,
        18446742018272269410,
        18446743888360976771,
        18446744058369041076,
        18446744072536379768,
        18446744073626175052,
        18446744073704017573,
        18446744073709207074,
        18446744073709531418,
        18446744073709550497,
        18446744073709551557,
        18446744073709551613,
    ],
    dtype=np.uint64,
)
"""A draw counts once for each of these that it reaches: the Poisson distribution with mean 1, times 2^64."""

_OFTEN = 6  # hardly any draw reaches so many of these


def key(*names: Field) -> bytes:
    """The 16 bytes of SipHash's key that belong to these names alone."""
    return digest("revfrf randomness v1", *names)[:16]


def node_draws(key: bytes, trees: Trees, paths: Paths) -> Paths:
    """SipHash-2-4 under this key of each (tree, path), both as 8 bytes, little-endian."""
    low, high = np.frombuffer(key, dtype="<u8")
    return _node_draws(low, high, trees, paths)


def feature_draws(seed: bytes, features: Sequence[str], trees: Trees, paths: Paths) -> Paths:
    """Return PRF(seed, tree, path, feature), shape (n_nodes, n_features).

    Feature f is a candidate of a node iff its draw is at most `candidate_limit(π)`, and of equally good
    features the one with the lowest draw wins.
    """
    draws = np.empty((len(trees), len(features)), dtype=np.uint64)
    for column, feature in enumerate(features):
        draws[:, column] = node_draws(key("candidate", seed, feature), trees, paths)
    return draws


def candidate_limit(probability: float) -> int:
    """The largest draw that makes a feature a candidate: draw < π·2^64, in integers."""
    numerator, denominator = probability.as_integer_ratio()
    return -(-(numerator << 64) // denominator) - 1


def feature_probability(max_features: str | int | float | None, n_features: int) -> float:
    """π, the probability that a feature is a candidate of a node."""
    if max_features is None:
        return 1.0
    if not isinstance(max_features, str | Integral):
        return float(max_features)
    if not isinstance(max_features, str):
        if max_features > n_features:
            raise UsageError(f"max_features={max_features}: there are {n_features} features")
        return int(max_features) / n_features
    mean = n_features**0.5 if max_features == "sqrt" else max(1.0, float(np.log2(n_features)))
    return mean / n_features


def private_seeds(secret: bytes, feature: str, trees: Trees, paths: Paths) -> Paths:
    """Return a participant's own draw for each node: only its secret tells which rows it samples."""
    return node_draws(key("sample", secret, feature), trees, paths)


def bootstrap_stream(seed: bytes, tree: int) -> np.uint64:
    """Return the stream from which a tree draws how often each row counts in it."""
    (stream,) = node_draws(key("bootstrap", seed), np.array([tree], np.uint32), np.zeros(1, np.uint64))
    return np.uint64(stream)


def row_counts(seed: bytes, n_trees: int, drawn: bool, numbers: Ints, weights: Ints) -> Bytes:
    """Return how often each row counts in each tree, shape (n_trees, n_rows); without weight, never."""
    counts = np.empty((n_trees, len(weights)), dtype=np.uint8)
    for tree in range(n_trees):
        counts[tree] = tree_counts(seed, tree, drawn, numbers, weights)
    return counts


def tree_counts(seed: bytes, tree: int, drawn: bool, numbers: Ints, weights: Ints) -> Bytes:
    """Return how often each row counts in a tree; without weight, never."""
    counts = _counts(bootstrap_stream(seed, tree), numbers) if drawn else np.ones(len(weights), np.uint8)
    return np.where(weights > 0, counts, np.uint8(0))


@kernel
def nth(seed: np.uint64, n: int) -> np.uint64:
    """The n-th number of the stream that belongs to this seed: SplitMix64 (Steele, Lea and Flood 2014)."""
    z = seed + np.uint64(n + 1) * _STEP
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def poisson(draw: np.uint64) -> int:
    """Return the Poisson(1) quantile of a draw."""
    count = 0
    for i in range(_OFTEN):  # without branches, which nobody could predict
        count += draw >= POISSON[i]
    while _OFTEN <= count < len(POISSON) and draw >= POISSON[count]:
        count += 1
    return count


@kernel
def _counts(stream: np.uint64, numbers: Ints) -> Bytes:
    counts = np.empty(len(numbers), dtype=np.uint8)
    for i in range(len(numbers)):
        counts[i] = poisson(nth(stream, numbers[i]))
    return counts


_State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@kernel
def _rotate(x: np.uint64, bits: int) -> np.uint64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@kernel
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> _State:
    v0 += v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16) ^ v2
    v0 += v3
    v3 = _rotate(v3, 21) ^ v0
    v2 += v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@kernel
def _absorb(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, word: np.uint64) -> _State:
    v0, v1, v2, v3 = _round(*_round(v0, v1, v2, v3 ^ word))
    return v0 ^ word, v1, v2, v3


@kernel
def siphash(low: np.uint64, high: np.uint64, first: np.uint64, second: np.uint64) -> np.uint64:
    """SipHash-2-4, under the key of these two words, of two words.

    It has no loops, so that a compiled loop over keys or nodes computes several at once.
    """
    v0, v1 = low ^ np.uint64(0x736F6D6570736575), high ^ np.uint64(0x646F72616E646F6D)
    v2, v3 = low ^ np.uint64(0x6C7967656E657261), high ^ np.uint64(0x7465646279746573)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, first)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, second)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(16 << 56))  # the message's length
    v0, v1, v2, v3 = _round(*_round(*_round(*_round(v0, v1, v2 ^ np.uint64(255), v3))))
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def candidate_draws(low: Paths, high: Paths, tree: np.uint64, path: np.uint64, draws: Paths) -> None:
    """Draw for a node under the keys of all features, whose words these are."""
    for f in range(len(draws)):
        draws[f] = siphash(low[f], high[f], tree, path)


@kernel
def _node_draws(low: np.uint64, high: np.uint64, trees: Trees, paths: Paths) -> Paths:
    draws = np.empty(len(trees), dtype=np.uint64)
    for i in range(len(trees)):
        draws[i] = siphash(low, high, np.uint64(trees[i]), paths[i])
    return draws
