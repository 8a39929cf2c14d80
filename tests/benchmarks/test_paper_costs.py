"""Costs: numbers made by hand come out in the right row and column, and what is measured is checked."""

import secrets
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.paper import (
    as_printed,
    efficiency,
    efficiency_shown,
    rebuilding,
    rebuilding_shown,
    rival_costs,
    theory,
    theory_shown,
)
from benchmarks.paper.asking import fitted, request_rows, requests
from benchmarks.paper.books import OWNERS, by_role
from benchmarks.paper.cells import Done
from benchmarks.paper.common import TOY_BITS
from benchmarks.paper.efficiency import BUILDERS
from benchmarks.paper.efficiency_shown import UD
from benchmarks.paper.experiment import dataset
from benchmarks.paper.printed import BOST, OURS, VAIDYA, WU
from benchmarks.paper.rival_costs import SEEN
from benchmarks.paper.settings import FULL, QUICK
from benchmarks.paper.show import Table
from benchmarks.rivals.comparisons import evaluate
from benchmarks.rivals.encrypted_database import ClearDatabase, EncryptedDatabase
from benchmarks.rivals.irrevocable import rebuild_all
from revfrf.crypto.dtpkc.arithmetic import FixedBase
from revfrf.names import CC, CS

SIZE: dict[str, Any] = {"rows": 200, "trees": 2, "depth": 2}


def done(result: dict[str, Any], **key: Any) -> Done:
    return Done(key, result, 1.0, "2020-01-01")


def building(bits: int, trees: int, splits: int, seconds: float, size: float) -> Done:
    result = {
        "splits": splits,
        "seconds": {CS: seconds / 4, CC: seconds / 4, UD: seconds / 2},
        "bytes": {CS: size / 2, CC: 0, UD: size / 2},
    }
    return done(result, kind="construction", bits=bits, trees=trees, seed=0, rows=5000)


# -- efficiency -------------------------------------------------------------------------------------


def test_seconds_and_bytes_are_booked_to_who_spends_and_who_sends_them() -> None:
    work = {
        "CS": {"FLE-Expan": {"seconds": 1.0}, "HoLT": {"seconds": 50.0}},
        "CC": {"FOS-Find": {"seconds": 2.0}},
        "age": {"FLE-Expan": {"seconds": 4.0}, "FOS-Find": {"seconds": 8.0}},
        "sex": {"FOS-Find": {"seconds": 16.0}},
    }
    assert by_role(work, "seconds", ("FLE-Expan", "FOS-Find"), BUILDERS) == {CS: 1.0, CC: 2.0, OWNERS: 28.0}
    links = {"CS -> age": {"FLE-Expan": {"bytes": 3}}, "age -> CS": {"FLE-Expan": {"bytes": 5}}}
    assert by_role(links, "bytes", ("FLE-Expan",), BUILDERS) == {CS: 3.0, CC: 0.0, OWNERS: 5.0}


def test_a_point_is_the_mean_of_the_forests_of_as_many_trees_however_many_splits_they_have() -> None:
    found = [
        building(1024, 1, 50, 1.0, 1e6),
        building(1024, 1, 150, 3.0, 1e6),
        building(1024, 2, 120, 5.0, 1e6),
    ]
    points = efficiency_shown.points(found, 1024, "construction", "seconds", 1)
    assert points == [(100, 2.0, pytest.approx(2**0.5)), (120, 5.0, None)]


def test_a_full_run_extrapolates_nothing_but_hidden_leaves(data: Path) -> None:
    found = [one.key for one in efficiency.cells(FULL, data) if one.key["kind"] == "rival"]
    wholes = {BOST: "trees", WU: "trees", VAIDYA: "rows", SEEN: "rows"}
    parts = [key for key in found if key["measured"] < key[wholes[key["rival"]]]]
    assert {(key["rival"], "trial" in key) for key in parts} == {(VAIDYA, False)}
    trials = [(key["rival"], key["bits"]) for key in found]
    assert trials.count((BOST, 1024)) == trials.count((WU, 1024)) == 3
    assert trials.count((BOST, 2048)) == trials.count((WU, 2048)) == 1
    quick = [one.key for one in efficiency.cells(QUICK, data) if one.key["kind"] == "rival"]
    assert all(key["measured"] < key[wholes[key["rival"]]] for key in quick)


def test_a_forest_like_the_measured_one_is_grown_before(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = []

    def counted(*size: Any) -> Any:
        grown.append(size)
        return fitted(*size)

    monkeypatch.setattr(efficiency, "fitted", counted)
    for seed in (1, 2):
        found = efficiency.construction(data, TOY_BITS, 3, seed, 200, 2)
        assert found["splits"] > 0
        assert min(found["bytes"].values()) >= 0
    assert [size[5:] for size in grown] == [(), (1,), (2,)]


def test_every_request_is_for_another_row_and_finds_all_tables_made(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, build = [], FixedBase._build
    measuring, before = requests, list[int]()

    def watched_build(base: FixedBase) -> Any:
        made.append(base)
        return build(base)

    def watched_requests(*arguments: Any) -> Any:
        before.append(len(made))
        return measuring(*arguments)

    monkeypatch.setattr(FixedBase, "_build", watched_build)
    monkeypatch.setattr(efficiency, "requests", watched_requests)
    found = efficiency.prediction(data, TOY_BITS, 5, 0, 4, 500, 6)
    assert len(found["requests"]) == 5
    assert {one["rows"] for one in (found["first"], *found["requests"])} == {1}
    assert len({one["comparisons"] for one in found["requests"]}) > 1
    assert 0 < len(made) == before[0]


# -- rivals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [BOST, WU])
def test_a_rival_that_answers_otherwise_than_the_plain_forest_is_found_out(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = rival_costs.evaluation(data, name, TOY_BITS, 1, 2, **SIZE)["prediction"]
    assert found["of"] is None
    assert found["operations"]["CS"]["comparisons"] > 0
    assert found["operations"]["UD"]["DGK zero tests"] > 0
    right = evaluate

    def wrong(*arguments: Any) -> Any:
        evaluation = right(*arguments)
        return replace(evaluation, answer=evaluation.answer and evaluation.answer + 1)

    monkeypatch.setattr(rival_costs, "evaluate", wrong)
    assert rival_costs.evaluation(data, name, TOY_BITS, 1, 1, **SIZE)["prediction"]["of"] < 1
    with pytest.raises(AssertionError, match=name):
        rival_costs.evaluation(data, name, TOY_BITS, 1, 2, **SIZE)


@pytest.mark.parametrize("name", [VAIDYA, SEEN])
def test_an_encrypted_database_that_opens_other_sums_is_found_out(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert rival_costs.building(data, name, TOY_BITS, 10, 10)["construction"]["of"] is None
    right = ClearDatabase.totals
    monkeypatch.setattr(ClearDatabase, "totals", lambda self, X: right(self, X) + 1)
    assert rival_costs.building(data, name, TOY_BITS, 2, 10)["construction"]["of"] == 0.2
    with pytest.raises(AssertionError, match=name):
        rival_costs.building(data, name, TOY_BITS, 10, 10)
    with pytest.raises(AssertionError, match=VAIDYA):
        rival_costs.asking(data, VAIDYA, TOY_BITS, 0, 2, **SIZE)


def test_an_encrypted_database_is_asked_for_another_row_in_every_trial(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, totals = [], EncryptedDatabase.totals

    def watched(database: EncryptedDatabase, X: Any) -> Any:
        asked.append(X.tolist())
        return totals(database, X)

    monkeypatch.setattr(EncryptedDatabase, "totals", watched)
    first, second = (rival_costs.asking(data, VAIDYA, TOY_BITS, trial, 20, **SIZE) for trial in (0, 1))
    rows = dataset("adult", data).splits(0)[0].coded.X_test.to_numpy().tolist()
    assert asked == [rows[:1], rows[1:2]]
    assert asked[0] != asked[1]
    assert first["prediction"]["operations"] == second["prediction"]["operations"]
    assert first["prediction"]["of"] is None


# -- theory -----------------------------------------------------------------------------------------


def test_what_is_counted_must_be_what_the_protocol_costs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"trees": 2, "depth": 3, "rows": 500, "asked": 2, "leavers": 1, "as_printed": 2}
    found = theory.run(data, TOY_BITS, **size)
    assert found["built by owners"] == 2 * found["splits"] > 0
    assert found["built by CS"] == 0
    assert found["asked of CS"] >= found["comparisons"] > 0
    assert 0 < found["asked of owners"] <= found["comparisons"]
    assert found["level 1"]["owners"] == 2 * found["level 1"]["splits"]
    assert found["level 2"]["owners"] == 2 * (found["level 2"]["splits"] + found["level 2"]["kept"]) > 0
    monkeypatch.setattr(theory, "powers", lambda *_: 0)
    with pytest.raises(AssertionError, match="powers of owners for the splits: 0"):
        theory.run(data, TOY_BITS, **size)


@pytest.mark.parametrize(("coin", "right", "wrong"), [(1, 20, 22), (0, 22, 20)])
def test_the_papers_comparison_takes_as_many_powers_as_its_coin_says(
    data: Path, monkeypatch: pytest.MonkeyPatch, coin: int, right: int, wrong: int
) -> None:
    made = dataset("adult", data)
    model, X = fitted(made, 2, 3, TOY_BITS, 500), request_rows(made, 1)
    fixed = SimpleNamespace(randbits=lambda _: coin, randbelow=secrets.randbelow)
    monkeypatch.setattr("revfrf.crypto.dtpkc.as_printed.secrets", fixed)
    monkeypatch.setattr(as_printed, "PRINTED_POWERS", (right,))
    first, second = (as_printed.measure_as_printed(model, X, 3).powers for _ in range(2))
    assert first >= second == right + 1  # the second time CC knows all keys
    monkeypatch.setattr(as_printed, "PRINTED_POWERS", (wrong,))
    with pytest.raises(AssertionError, match="powers"):
        as_printed.measure_as_printed(model, X, 1)


def counts() -> list[Done]:
    left = {"splits": 10, "kept": 40, "owners": 20, "servers": 5, "bytes": 1000}
    ours = {
        "columns": 16,
        "cuts": 32,
        "rows": 1000,
        "slots": 7,
        "draws": 20,
        "splits": 50,
        "offers": 250,
        "nodes a tree": 101,
        "built by CS": 0,
        "built by owners": 100,
        "built bytes": 5000,
        "comparisons": 20,
        "asked of CS": 100,
        "asked of CC": 40,
        "asked of owners": 10,
        "asked bytes": 4000,
        "as printed": 23.0,
        "nodes taken along": [50.0],
        "level 1": left,
        "level 2": left | {"owners": 100, "bytes": 2000},
    }
    server = {"comparisons": 7, "DGK encryptions": 6000, "oblivious transfers": 9}
    compared = {"TP": {"CS": server, "UD": {"DGK zero tests": 4000}}}
    vaidya = {
        "TC": {"UD": {"encryptions": 254000, "additions": 9}},
        "TP": {"UD": {"encryptions": 4, "decryptions": 6}},
    }
    return [
        done(ours, of=OURS, bits=1024, depth=10, trees=10, asked=3, as_printed=20),
        done({BOST: compared, WU: compared, VAIDYA: vaidya}, of="rivals", trees=10, depth=10, rows=1000),
    ]


def test_every_formula_stands_beside_its_count() -> None:
    table, _ = theory_shown.parts(counts())
    assert isinstance(table, Table)
    shown = {row[0]: tuple(row[2:5]) for row in table.rows}
    assert shown["construction: cuts that CS judges (at most)"] == ("128.0", "160.0", "× 1.250")
    assert shown["construction: powers of owners"] == ("3.000", "2.000", "× 0.667")
    assert shown["construction: bytes"] == ("16,512", "100.0", "× 0.0061")
    assert shown["prediction: powers of CS + CC"] == ("28.00", "7.000", "× 0.250")
    assert shown["prediction: powers of owners"] == ("3.000", "0.500", "× 0.167")
    assert shown["prediction: powers of all, as printed"] == ("31.00", "23.00", "× 0.742")
    assert shown["prediction: bytes"] == ("3,584", "200.0", "× 0.0558")
    assert shown["leaving, level 2: powers of CS + CC"] == ("256.0", "0.500", "× 0.0020")
    assert shown["leaving, level 1: powers of owners"] == ("3.000", "2.000", "× 0.667")
    assert shown["leaving, level 2: powers of owners"] == ("3.000", "10.00", "× 3.333")
    assert shown["leaving, level 2: bytes"] == ("17,024", "200.0", "× 0.0117")
    assert shown["Vaidya, construction: powers of UD"] == ("1.000", "2.000", "× 2.000")
    assert shown["Vaidya, prediction: powers of UD"] == ("1.000", "0.100", "× 0.100")
    assert shown["Bost, prediction: powers of CS"] == ("321.0", "60.00", "× 0.187")
    assert shown["Bost, prediction: powers of UD"] == ("194.0", "40.00", "× 0.206")
    assert shown["Bost, prediction: powers of all"] == ("515.0", "100.0", "× 0.194")
    assert shown["Wu, prediction: powers of all"] == ("384.0", "100.0", "× 0.260")


# -- rebuilding -------------------------------------------------------------------------------------


def test_a_forest_that_is_not_the_one_without_the_leavers_is_found_out(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = {"left": 1, "seed": 0, "trees": 1, "rows": 200, "depth": 2, "bits": TOY_BITS}
    assert rebuilding.run(data, level=1, **size)["full nodes"] > 1

    def somebody_stayed(model: Any, X: Any, y: Any, leavers: Any) -> Any:
        return rebuild_all(model, X, y, [name for name in model.parties_ if name not in leavers][:1])

    monkeypatch.setattr(rebuilding, "rebuild_all", somebody_stayed)
    with pytest.raises(AssertionError, match="not the forest without"):
        rebuilding.run(data, level=1, **size)


def test_every_row_of_a_full_run_has_three_draws_at_least(data: Path) -> None:
    draws = Counter(rebuilding_shown._place(done({}, **one.key)) for one in rebuilding.cells(FULL, data))
    assert min(draws.values()) == 3
    assert {(place[0], place[3]) for place in draws} == set(product(("small", "large"), (1, 2)))
