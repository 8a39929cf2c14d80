"""Private evaluation of trees: the server's stay its own, the client's row stays its own.

`bost`: Raphael Bost, Raluca Ada Popa, Stephen Tu, Shafi Goldwasser, "Machine learning classification over
encrypted data", NDSS 2015. The tree is a polynomial in its comparison bits: the sum over its leaves of
value × product of the bits along the path. They evaluate it under levelled homomorphic encryption. Here a
leaf's product is 1 iff its path cost is 0, the number of wrong turns on its path (Raymond Tai, Jack Ma,
Yongjun Zhao, Sherman Chow, "Privacy-preserving decision trees evaluation via linear functions", ESORICS
2017), which needs additions only: the client returns its bits under Paillier's encryption, and gets for each
leaf r·cost and r'·cost + value, in random order.

`wu`: David Wu, Tony Feng, Michael Naehrig, Kristin Lauter, "Privately evaluating decision trees and random
forests", PoPETs 2016(4), for curious but honest parties. The tree is padded to a complete one and its
children are swapped by coins; the client learns the swapped bits, walks, and gets its leaf by oblivious
transfer. They compare under ElGamal's encryption; here, as in `bost`, it is DGK.

Both compare as DGK do: the client sends the bits x_i of every feature, encrypted. For a cut s the server
makes of 2x and 2s+1, which are never equal, c_i = x_i - s_i + a + 3·Σ_{j<i} x_j⊕s_j, times random factors, in
random order; a = 1 or -1 by its coin. One c_i is 0 iff x ≤ s, or with the other coin iff x > s.

Of a forest the client learns the sum of the leaves and no single one: the server adds shares of zero to them.
Key generation is not in the costs.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gmpy2 import mpz

from benchmarks.rivals.dgk import DgkKey, DgkPublicKey
from benchmarks.rivals.paillier import Paillier
from benchmarks.rivals.results import Cost, Meter
from benchmarks.rivals.transfer import ELEMENT_BYTES, MESSAGE_BYTES, Receiver, Sender
from benchmarks.rivals.trees import Split, Tree, depth, padded, splits
from revfrf.errors import RangeError, UsageError

SERVER, CLIENT = "server", "client"
VALUES = 1 << 64
_RANDOM = secrets.SystemRandom()


@dataclass(frozen=True, repr=False)
class ClientKeys:
    """What the client makes once, for numbers of so many bits, the sign included."""

    dgk: DgkKey
    paillier: Paillier
    bits: int

    @classmethod
    def generate(cls, key_bits: int, bits: int = 64) -> "ClientKeys":
        return cls(DgkKey.generate(key_bits, 3 * bits + 2), Paillier.generate(key_bits), bits)


@dataclass(frozen=True, slots=True)
class EncryptedFeature:
    """The bits of a number, the highest first, and their negatives, which the server makes once."""

    bits: list[mpz]
    negated: list[mpz]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The sum of all trees' leaves mod 2^64; None if only some trees were evaluated."""

    answer: int | None
    cost: Cost


TreeProtocol = Callable[[ClientKeys, Meter, list[EncryptedFeature], Tree, int], int]
"""What the client learns of one tree to whose leaves the server has added a mask."""


def evaluate(
    protocol: TreeProtocol,
    forest: Sequence[Tree],
    row: Sequence[int],
    keys: ClientKeys,
    measured_trees: int | None = None,
) -> Evaluation:
    """Evaluate a forest by `bost` or `wu`: all of it, or its first trees, extrapolated by leaves."""
    count = len(forest) if measured_trees is None else measured_trees
    if not 0 < count <= len(forest):
        raise UsageError(f"measured_trees={measured_trees}: there are {len(forest)} trees")
    levels, inputs, meter = max(map(depth, forest)), Meter(), Meter()
    features = encrypt_row(keys, inputs, row)
    masks = [secrets.randbelow(VALUES) for _ in forest[1:]]
    masks.append(-sum(masks) % VALUES)
    trees = [padded(tree, levels) for tree in forest] if protocol is wu else forest
    values = [
        protocol(keys, meter, features, tree, mask)
        for tree, mask in list(zip(trees, masks, strict=True))[:count]
    ]
    answer = sum(values) % VALUES if count == len(forest) else None
    leaves = [1 + sum(1 for _ in splits(tree)) for tree in trees]
    return Evaluation(answer, inputs.cost() + meter.cost().times(sum(leaves) / sum(leaves[:count])))


# -- comparing --------------------------------------------------------------------------------------


def binary(number: int, bits: int) -> list[int]:
    """number + 2^(bits-1), which is not negative and in the same order, the highest bit first."""
    shifted = number + (1 << (bits - 1))
    if not 0 <= shifted < 1 << bits:
        raise RangeError(f"{number} does not fit into {bits} bits with its sign; give more bits")
    return [shifted >> i & 1 for i in reversed(range(bits))]


def encrypt_row(keys: ClientKeys, meter: Meter, row: Sequence[int]) -> list[EncryptedFeature]:
    """The client sends its features bit by bit."""
    public = keys.dgk.public
    with meter.role(CLIENT):
        sent = [public.encrypt(binary(number, keys.bits)) for number in row]
    meter.count("DGK encryptions", len(row) * keys.bits)
    meter.send(len(row) * keys.bits * public.ciphertext_bytes)
    with meter.role(SERVER):
        return [EncryptedFeature(bits, [public.negate(bit) for bit in bits]) for bits in sent]


def compare(
    keys: ClientKeys,
    meter: Meter,
    features: list[EncryptedFeature],
    asked: Sequence[Split],
    coins: Sequence[bool],
) -> list[bool]:
    """The client learns [x ≤ s] ⊕ coin for each of these splits."""
    public = keys.dgk.public
    with meter.role(SERVER):
        sent = [
            blinded_terms(public, features[split.feature], binary(split.cut, keys.bits), coin)
            for split, coin in zip(asked, coins, strict=True)
        ]
    terms = sum(map(len, sent))
    meter.count("comparisons", len(asked))
    meter.count("DGK encryptions", terms)
    meter.send(terms * public.ciphertext_bytes)
    with meter.role(CLIENT):
        found = [[keys.dgk.is_zero(term) for term in one] for one in sent]
    meter.count("DGK zero tests", terms)
    return [any(zeros) for zeros in found]


def blinded_terms(public: DgkPublicKey, x: EncryptedFeature, cut: list[int], coin: bool) -> list[mpz]:
    """The c_i of 2x and 2·cut + 1, blinded. One is 0 iff x ≤ cut, or with the coin iff x > cut."""
    a = -1 if coin else 1
    differing, terms = mpz(1), []
    for bit, negated, known in zip(x.bits, x.negated, cut, strict=True):
        terms.append(public.add(bit, public.constant(a - known), public.multiply(differing, 3)))
        differing = public.add(differing, *((public.constant(1), negated) if known else (bit,)))
    terms.append(public.add(public.constant(a - 1), public.multiply(differing, 3)))
    zeros = public.zeros(len(terms))
    blinded = [
        public.add(public.multiply(term, 1 + secrets.randbelow(public.u - 1)), zero)
        for term, zero in zip(terms, zeros, strict=True)
    ]
    _RANDOM.shuffle(blinded)
    return blinded


def _coins(count: int) -> list[bool]:
    return [bool(secrets.randbits(1)) for _ in range(count)]


# -- Bost et al. ------------------------------------------------------------------------------------


def bost(keys: ClientKeys, meter: Meter, features: list[EncryptedFeature], tree: Tree, mask: int) -> int:
    """One tree as a polynomial in its comparison bits, by path costs."""
    asked, paillier = list(splits(tree)), keys.paillier
    coins = _coins(len(asked))
    seen = compare(keys, meter, features, asked, coins)
    with meter.role(CLIENT):
        returned = [paillier.encrypt(int(bit)) for bit in seen]
    meter.count("Paillier encryptions", len(returned))
    meter.send(len(returned) * paillier.ciphertext_bytes)
    with meter.role(SERVER):
        leaves = path_costs(paillier, tree, returned, coins)
        pairs = [_blinded_leaf(paillier, cost, (value + mask) % VALUES) for cost, value in leaves]
        _RANDOM.shuffle(pairs)
    meter.count("Paillier encryptions", 2 * len(pairs))
    meter.count("Paillier products", 2 * len(pairs))
    meter.send(2 * len(pairs) * paillier.ciphertext_bytes)
    with meter.role(CLIENT):
        for tried, (cost, value) in enumerate(pairs, 1):
            if paillier.decrypt(cost) == 0:
                meter.count("Paillier decryptions", tried + 1)
                return paillier.decrypt(value)
    raise AssertionError("no path of the tree is the row's")


def path_costs(
    paillier: Paillier, tree: Tree, returned: Sequence[mpz], coins: Sequence[bool]
) -> list[tuple[mpz, int]]:
    """For every leaf the encrypted number of wrong turns on its path, and its value."""
    one, found, bits = paillier.constant(1), [], iter(zip(returned, coins, strict=True))

    def descend(node: Tree, cost: mpz) -> None:
        if not isinstance(node, Split):
            found.append((cost, node))
            return
        bit, coin = next(bits)
        other = paillier.add(one, paillier.negate(bit))
        left, right = (other, bit) if coin else (bit, other)  # encrypt 1 iff the row goes there
        descend(node.left, paillier.add(cost, right))
        descend(node.right, paillier.add(cost, left))

    descend(tree, mpz(1))
    return found


def _blinded_leaf(paillier: Paillier, cost: mpz, value: int) -> tuple[mpz, mpz]:
    """r·cost and r'·cost + value, in fresh encryptions."""
    first, second = (paillier.multiply(cost, paillier.random_factor()) for _ in range(2))
    return paillier.add(first, paillier.encrypt(0)), paillier.add(second, paillier.encrypt(value))


# -- Wu et al. --------------------------------------------------------------------------------------


def wu(keys: ClientKeys, meter: Meter, features: list[EncryptedFeature], tree: Tree, mask: int) -> int:
    """One complete tree, swapped by coins; the client walks by the bits it learns, and fetches its leaf."""
    with meter.role(SERVER):
        asked, coins, leaves = swapped(tree)
        sender = Sender.start()
    seen = compare(keys, meter, features, asked, coins)
    with meter.role(CLIENT):
        node = 0
        while node < len(seen):
            node = 2 * node + (1 if seen[node] else 2)
        receiver = Receiver.start(node - len(seen), sender.offer)
        choice = receiver.choice()
    with meter.role(SERVER):
        sealed = sender.seal(choice, [(value + mask) % VALUES for value in leaves])
    meter.count("oblivious transfers")
    meter.send(2 * ELEMENT_BYTES + len(sealed) * MESSAGE_BYTES)
    with meter.role(CLIENT):
        return receiver.open(sealed)


def swapped(tree: Tree) -> tuple[list[Split], list[bool], list[int]]:
    """A complete tree's splits, level by level, a coin each that has swapped all below it, and its leaves."""
    asked: list[Split] = []
    coins: list[bool] = []
    level = [tree]
    while isinstance(level[0], Split):
        here = [node for node in level if isinstance(node, Split)]
        flips = _coins(len(here))
        asked += here
        coins += flips
        pairs = [
            (node.right, node.left) if coin else (node.left, node.right)
            for node, coin in zip(here, flips, strict=True)
        ]
        level = [child for pair in pairs for child in pair]
    return asked, coins, [leaf for leaf in level if not isinstance(leaf, Split)]
