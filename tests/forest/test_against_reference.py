"""The forest that the protocol grows is, node for node, the one that docs/forest.md describes."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from revfrf.crypto.encoding import bound, missing
from revfrf.embedded.federation import Federation
from revfrf.errors import UsageError
from revfrf.forest.randomness import candidate_limit
from revfrf.testing.federations import Case, Codes, random_case, train, with_rules
from tests.federations import Plain, grow_plainly, grown_splits, in_numbers, leaf_paths
from tests.reference import forest as reference

BOUND = bound(64)
MISSING = missing(64)


def assert_same_forest(case: Case) -> tuple[Federation, Plain]:
    """Grow it twice and compare all there is to compare."""
    federation, plain = train(case), grow_plainly(case)
    store = federation.coordinator.store
    assert grown_splits(federation) == plain.forest.splits
    assert store.leaves == plain.forest.leaves
    assert {node for p in federation.participants.values() for node in p.store.own_splits} == set(
        store.splits
    )
    paths = np.zeros((case.rules.n_trees, case.n_rows), dtype=np.uint64)
    for (tree, path), rows in plain.forest.rows.items():
        paths[tree, rows] = path
    assert np.array_equal(leaf_paths(federation), paths)
    assert federation.coordinator.digest() == plain.digest
    return federation, plain


def assert_same_votes(case: Case, federation: Federation, plain: Plain, table: Codes) -> None:
    """Every row of a table falls into the reference's leaves, and gets the reference's votes."""
    n_rows = len(next(iter(table.values()))[0])
    leaves = []
    for row in range(n_rows):
        values = {f"{p}/x{i}": int(column[row]) for p, t in table.items() for i, column in enumerate(t)}
        leaves.append(reference.predict(plain.forest, values))
    n_voted = [reference.n_voted(of_row) for of_row in leaves]
    soft = federation.votes(table, n_rows, "soft")
    if case.n_classes:
        hard = federation.votes(table, n_rows, "hard")
        assert in_numbers(hard) == ([reference.hard_votes(of_row) for of_row in leaves], n_voted)
        assert hard.classes().tolist() == [reference.answer_class(votes) for votes in hard.totals.tolist()]
        assert in_numbers(soft) == ([reference.soft_votes(of_row) for of_row in leaves], n_voted)
        shares = [reference.probabilities(votes) for votes in soft.totals.tolist()]
        assert soft.probabilities().tolist() == shares
    else:
        votes = [reference.number_votes(of_row, plain.scale) for of_row in leaves]
        assert in_numbers(soft) == ([[total] for total in votes], n_voted)
        answers = [reference.answer_number(*pair, plain.scale) for pair in zip(votes, n_voted, strict=True)]
        assert soft.numbers(plain.scale.centre, plain.scale.vote_places).tolist() == answers


def column_of(rng: random.Random, kind: str, n: int) -> list[int]:
    match kind:
        case "constant":
            return [rng.randrange(-3, 3)] * n
        case "missing":
            return [MISSING] * n
        case "ties":
            return [rng.randrange(3) for _ in range(n)]
        case "holes":
            return [rng.choice([MISSING, rng.randrange(-9, 9)]) for _ in range(n)]
        case "extreme":
            return [rng.choice([1 - BOUND, BOUND - 1, 0, rng.randrange(1 - BOUND, BOUND)]) for _ in range(n)]
    return [rng.randrange(-1000, 1000) for _ in range(n)]


KINDS = ("plain", "plain", "ties", "holes", "extreme", "constant", "missing")


def weights_of(rng: random.Random, kind: str, n: int) -> list[float] | None:
    match kind:
        case "zeros":
            return (
                [0.0 if i else 1.0 for i in range(n)] if n < 3 else [1.0, *rng.choices([0.0, 1.0], k=n - 1)]
            )
        case "fractional":
            return [rng.choice([0.0, 1e-9, rng.random(), 3.7]) for _ in range(n - 1)] + [0.25]
        case "whole":
            return [float(rng.randrange(1, 50)) for _ in range(n)]
        case "large":
            return [float(rng.randrange(1, 2**22)) for _ in range(n)]
    return None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any small federation: what varies is drawn, what fills its tables comes from one number."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 40))
    parties = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    codes = {
        name: np.array([column_of(rng, rng.choice(KINDS), n) for _ in range(size)], dtype=np.int64)
        for name, size in zip(("bank", "telco", "shop", "ärzte"), parties, strict=False)
    }
    n_classes = draw(st.sampled_from([0, 2, 3, 4]))
    scale = draw(st.sampled_from([1.0, 1e-6, 1e12]))
    y = [
        float(rng.randrange(n_classes)) if n_classes else rng.choice([rng.gauss(0, scale), 0.0])
        for _ in range(n)
    ]
    rules = with_rules(
        n_trees=draw(st.integers(1, 3)),
        max_depth=draw(st.sampled_from([1, 2, 5, 62])),
        candidate_limit=candidate_limit(draw(st.sampled_from([1e-9, 0.1, 0.5, 1.0]))),
        min_samples_split=draw(st.sampled_from([2, 2, 7])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 5])),
        bootstrap=draw(st.booleans()),
        method=draw(st.sampled_from(["quantile", "uniform"])),
        n_candidates=draw(st.sampled_from([1, 2, 3, 8, 32, 255])),
        n_sampled=draw(st.sampled_from([2, 5, 16, 128])),
    )
    weights = weights_of(rng, draw(st.sampled_from(["none", "zeros", "fractional", "whole", "large"])), n)
    return Case(codes, y, n_classes, rules, weights, draw(st.binary(max_size=4)))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_any_forest_is_the_reference_s_and_so_are_its_votes(case: Case) -> None:
    if not grow_plainly(case).votes:
        with pytest.raises(UsageError, match="no row counts in any tree"):
            train(case)
        return
    federation, plain = assert_same_forest(case)
    assert_same_votes(case, federation, plain, case.codes)


@pytest.mark.parametrize("bootstrap", [True, False], ids=["bootstrap", "all rows"])
@pytest.mark.parametrize("method", ["quantile", "uniform"])
@pytest.mark.parametrize("n_classes", [0, 2, 3, 4])
def test_forest_of_every_kind_is_the_reference_s(n_classes: int, method: str, bootstrap: bool) -> None:
    rng = random.Random(f"{n_classes} {method} {bootstrap}")
    case = random_case(1, rules=with_rules(method=method, bootstrap=bootstrap))
    y = [rng.gauss(v, 20) if not n_classes else float(abs(int(v)) % n_classes) for v in case.codes["bank"][0]]
    case = Case(case.codes, y, n_classes, case.rules, seed=b"kinds")
    federation, plain = assert_same_forest(case)
    assert len(plain.forest.splits) > 4
    assert_same_votes(case, federation, plain, random_case(2).codes)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_depth": 1},
        {"max_depth": 62, "min_samples_leaf": 1},
        {"min_samples_split": 20},
        {"min_samples_leaf": 7},
        {"min_samples_leaf": 30},
        {"n_sampled": 2},
        {"n_sampled": 3, "n_candidates": 255},
        {"n_candidates": 1},
        {"n_candidates": 255, "n_sampled": 2**20},
        {"candidate_limit": 0},
        {"candidate_limit": 2**64 - 1},
        {"candidate_limit": candidate_limit(0.05), "max_depth": 8},
        {"n_trees": 25, "max_depth": 2},
    ],
    ids=str,
)
def test_forest_by_any_rules_is_the_reference_s(changes: dict[str, Any]) -> None:
    case = random_case(4, rules=with_rules(**changes))
    federation, plain = assert_same_forest(case)
    assert_same_votes(case, federation, plain, case.codes)


def test_larger_forest_is_the_reference_s() -> None:
    rng = np.random.default_rng(6)
    codes: Codes = {f"party {i}": rng.integers(-(10**6), 10**6, (5, 400)) for i in range(6)}
    label: NDArray[np.bool_] = codes["party 2"][1] + codes["party 5"][4] + rng.normal(0, 3e5, 400) > 0
    rules = with_rules(n_trees=5, max_depth=7, min_samples_leaf=3, n_candidates=32, n_sampled=128)
    case = Case(codes, label.astype(float).tolist(), 2, rules, seed=b"large")
    federation, plain = assert_same_forest(case)
    assert len(plain.forest.splits) > 60
    assert_same_votes(case, federation, plain, codes)
