"""Private evaluations answer as the plain tree does."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import gmpy2
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

from benchmarks.rivals.comparisons import (
    CLIENT,
    SERVER,
    VALUES,
    ClientKeys,
    TreeProtocol,
    binary,
    bost,
    compare,
    encrypt_row,
    evaluate,
    wu,
)
from benchmarks.rivals.results import Meter
from benchmarks.rivals.transfer import MODULUS, Receiver, Sender
from benchmarks.rivals.trees import Split, Tree, depth, from_sklearn, padded, splits
from revfrf.errors import RangeError, UsageError

BITS = 8
both = pytest.mark.parametrize("protocol", [bost, wu])


@lru_cache
def keys(bits: int = BITS) -> ClientKeys:
    return ClientKeys.generate(256, bits)


def random_tree(levels: int, rng: np.random.Generator) -> Tree:
    """A complete tree on three features."""
    if levels == 0:
        return int(rng.integers(VALUES, dtype=np.uint64))
    cut = int(rng.integers(-(1 << (BITS - 1)), 1 << (BITS - 1)))
    left, right = (random_tree(levels - 1, rng) for _ in "lr")
    return Split(int(rng.integers(3)), cut, left, right)


def forest(seed: int, levels: Sequence[int] = (3, 1, 2)) -> list[Tree]:
    rng = np.random.default_rng(seed)
    return [random_tree(level, rng) for level in levels]


def walk(tree: Tree, row: Sequence[int]) -> int:
    """The value of the leaf of this row, in the clear."""
    while isinstance(tree, Split):
        tree = tree.left if row[tree.feature] <= tree.cut else tree.right
    return tree


def answer(trees: Sequence[Tree], row: Sequence[int]) -> int:
    return sum(walk(tree, row) for tree in trees) % VALUES


@pytest.mark.parametrize("coin", [False, True])
def test_a_comparison_is_right_for_every_pair_around_every_boundary(coin: bool) -> None:
    numbers = [-128, -127, -65, -1, 0, 1, 2, 63, 64, 126, 127]
    asked = [Split(0, cut, 0, 0) for cut in numbers]
    for x in numbers:
        features = encrypt_row(keys(), Meter(), [x])
        seen = compare(keys(), Meter(), features, asked, [coin] * len(asked))
        assert seen == [(x <= cut) != coin for cut in numbers]


def test_numbers_of_64_bits_are_compared_to_their_last_bit() -> None:
    for x in (-(1 << 63), -1, 0, (1 << 62) + 1, (1 << 63) - 1):
        features = encrypt_row(keys(64), Meter(), [x])
        cuts = [cut for cut in (x - 1, x, x + 1) if -(1 << 63) <= cut < 1 << 63]
        asked = [Split(0, cut, 0, 0) for cut in cuts]
        assert compare(keys(64), Meter(), features, asked, [False] * len(cuts)) == [x <= cut for cut in cuts]


@both
def test_the_answer_is_that_of_the_plain_trees(protocol: TreeProtocol) -> None:
    rng = np.random.default_rng(5)
    for seed in range(6):
        trees = forest(seed)
        row = [int(x) for x in rng.integers(-128, 128, 3)]
        root = trees[0]
        assert isinstance(root, Split)
        row[root.feature] = root.cut  # equal goes left
        assert evaluate(protocol, trees, row, keys()).answer == answer(trees, row)


@both
def test_values_of_all_64_bits_and_single_leaves_come_through(protocol: TreeProtocol) -> None:
    lopsided = Split(0, 5, VALUES - 1, Split(1, 0, 7, 1 << 63))
    for row in ([5, 0], [6, 0], [6, 1]):
        assert evaluate(protocol, [lopsided], row, keys()).answer == walk(lopsided, row)


@both
def test_another_cut_gives_another_answer(protocol: TreeProtocol) -> None:
    right = Split(0, 10, 1, 2)
    wrong = replace(right, cut=9)
    assert evaluate(protocol, [right], [10], keys()).answer == 1
    assert evaluate(protocol, [wrong], [10], keys()).answer == 2


@both
def test_of_a_forest_the_client_learns_the_sum_only(protocol: TreeProtocol) -> None:
    seen: list[int] = []

    def watched(*arguments: object) -> int:
        seen.append(protocol(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    trees: list[Tree] = [Split(0, 0, 1, 2), Split(0, 0, 3, 4)]
    assert evaluate(watched, trees, [1], keys()).answer == 6
    assert 2 not in seen
    assert 4 not in seen


@both
def test_costs_are_counted_by_role_and_both_ways(protocol: TreeProtocol) -> None:
    trees = forest(0, (2, 2))
    cost = evaluate(protocol, trees, [1, 2, 3], keys()).cost
    terms = 2 * 3 * (BITS + 1)
    assert cost.extrapolated_from is None
    assert cost.seconds.keys() == cost.counts.keys() == {SERVER, CLIENT}
    assert min(cost.seconds.values()) > 0
    server, client = cost.counts[SERVER], cost.counts[CLIENT]
    assert (server["comparisons"], server["DGK encryptions"]) == (6, terms)
    assert (client["DGK encryptions"], client["DGK zero tests"]) == (3 * BITS, terms)
    assert "comparisons" not in client
    assert "DGK zero tests" not in server
    dgk_bytes = (terms + 3 * BITS) * 32
    leaves = 2 * (3 + 2 * 4) * 64 if protocol is bost else 2 * (2 * 256 + 4 * 8)
    assert cost.bytes == dgk_bytes + leaves


def test_wu_pays_for_a_complete_tree_and_bost_for_the_splits_there_are() -> None:
    chain = Split(0, 0, 1, Split(0, 1, 2, Split(0, 2, 3, 4)))
    counts = [evaluate(p, [chain], [2], keys()).cost.counts[SERVER]["comparisons"] for p in (bost, wu)]
    assert counts == [3, 7]


def test_a_part_is_extrapolated_to_all_trees_and_has_no_answer() -> None:
    trees = forest(0, (2, 2, 2, 2))
    part, whole = (evaluate(wu, trees, [1, 2, 3], keys(), measured) for measured in (1, None))
    assert part.answer is None
    assert part.cost.extrapolated_from == 0.25
    assert whole.answer == answer(trees, [1, 2, 3])
    assert (part.cost.counts, part.cost.bytes) == (whole.cost.counts, whole.cost.bytes)
    with pytest.raises(UsageError, match="4 trees"):
        evaluate(wu, trees, [1, 2, 3], keys(), 5)


def test_a_number_that_does_not_fit_is_refused() -> None:
    assert binary(-128, 8) == [0] * 8
    assert binary(127, 8) == [1] * 8
    for number in (-129, 128):
        with pytest.raises(RangeError, match="8 bits"):
            binary(number, 8)


def test_padding_changes_the_shape_and_no_answer() -> None:
    tree = Split(0, 3, 9, Split(1, 2, 8, 7))
    full = padded(tree, 4)
    assert (depth(full), len(list(splits(full)))) == (4, 15)
    assert all(walk(full, [x, y]) == walk(tree, [x, y]) for x in range(6) for y in range(6))


@both
def test_a_forest_of_scikit_learn_votes_as_its_trees_do(protocol: TreeProtocol) -> None:
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    trees = [from_sklearn(tree, 1) for tree in model.estimators_]
    for row in X[::50]:
        votes = sum(1 << 16 * int(tree.predict([row])[0]) for tree in model.estimators_)
        whole = [round(10 * x) for x in row]
        assert evaluate(protocol, trees, whole, keys()).answer == votes


def test_the_receiver_of_a_transfer_gets_its_message_and_no_other() -> None:
    messages = [11, 22, 33, VALUES - 1]
    for number, message in enumerate(messages):
        sender = Sender.start()
        receiver = Receiver.start(number, sender.offer)
        sealed = sender.seal(receiver.choice(), messages)
        assert receiver.open(sealed) == message
        for other in {0, 1, 2, 3} - {number}:
            assert replace(receiver, number=other).open(sealed) != messages[other]


def test_the_group_of_the_transfer_is_that_of_a_safe_prime() -> None:
    assert MODULUS.bit_length() == 2048
    assert hex(MODULUS).startswith("0xffffffffffffffffc90fdaa22168c234")
    assert gmpy2.is_prime(MODULUS)
    assert gmpy2.is_prime((MODULUS - 1) // 2)


def test_trees_of_different_sizes_are_extrapolated_by_their_leaves() -> None:
    small, large = Split(0, 0, 1, 2), forest(0, (3,))[0]
    part, whole = (evaluate(bost, [large, small], [1, 2, 3], keys(), measured) for measured in (1, None))
    assert part.cost.extrapolated_from == 0.8
    assert part.cost.counts[SERVER]["comparisons"] == round(7 / 0.8)
    assert whole.cost.counts[SERVER]["comparisons"] == 8
