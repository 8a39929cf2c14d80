"""The whole evaluation in miniature, on made data: every table and figure comes out of it."""

import gzip
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.paper import bench
from benchmarks.paper.bench import EXPERIMENTS
from benchmarks.paper.cells import Done
from benchmarks.paper.datasets import MissingDataError, load
from benchmarks.paper.experiment import loss, scores
from benchmarks.paper.leaving import HARD, SOFT
from benchmarks.paper.leaving_shown import summary, verdict, verdicts
from benchmarks.paper.page import PAGE
from benchmarks.paper.page import main as write_page
from benchmarks.paper.printed import CLASSIFICATION, PLAIN, REGRESSION
from benchmarks.paper.report import documentation, read
from benchmarks.paper.settings import QUICK, TINY
from revfrf.errors import UsageError

WANTED = {
    # the paper's tables
    *(f"{name}-scores" for name in (*CLASSIFICATION.sets, *REGRESSION.sets)),
    "comparison",
    "theory",
    "efficiency-construction",
    "efficiency-prediction",
    "rebuilding",
    "datasets",
    # its figures
    *(f"{name}-growth" for name in ("adult", "bank", "superconduct", "appliances")),
    "construction-seconds",
    "construction-bytes",
    "prediction-seconds",
    "prediction-bytes",
    # and what the paper does not have
    "accuracy-verdicts",
    "mse-verdicts",
    "comparison-printed",
    "rebuilding-printed",
    "theory-nodes",
    "doubts",
}


@pytest.fixture(scope="module")
def out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, in miniature."""
    out = tmp_path_factory.mktemp("out")
    assert bench.run(bench.Options(TINY, data, out), Console(file=io.StringIO())) == 0
    return out


def shown(out: Path) -> list[str]:
    """The names of all tables and figures of a report."""
    return re.findall(r'<(?:h3|figure) id="([^"]*)"', (out / "report.html").read_text())


def test_the_report_has_every_table_and_figure_once(out: Path) -> None:
    found = shown(out)
    assert set(found) >= WANTED
    assert len(set(found)) == len(found)


def test_every_experiment_has_its_numbers_and_how_they_came_about(out: Path) -> None:
    for name in EXPERIMENTS:
        run = json.loads((out / f"{name}.json").read_text())
        assert run["run"]["settings"]["name"] == "tiny"
        assert {"cores", "memory", "processor"} == set(run["run"]["machine"])
        assert {"python", *bench.LIBRARIES} == set(run["run"]["versions"])
        assert run["cells"]
        assert all(cell["seconds"] > 0 and cell["result"] for cell in run["cells"])


def test_ours_and_the_plain_forest_are_measured_after_each_leaving(out: Path) -> None:
    runs = read(out, EXPERIMENTS)
    for name, measures in (("classification", {"ACC", "RR", "F1"}), ("regression", {"MSE", "MAE", "R2"})):
        for cell in runs[name]["cells"]:
            result = cell["result"]
            assert len(result["left"]) == 1
            assert len(result["scores"]) == 2
            for found in result["scores"]:
                assert {"plain", "ours"} <= set(found)
                assert all(set(values) == measures for one in found.values() for values in one)
                assert {who: len(one) for who, one in found.items()} == dict.fromkeys(found, 1) | {"plain": 2}


def test_a_run_does_nothing_twice_and_the_page_of_the_documentation_comes_from_its_json(
    data: Path, out: Path
) -> None:
    before = {file: file.stat().st_mtime_ns for file in (out / "cells").rglob("*.json")}
    assert bench.run(bench.Options(TINY, data, out), Console(file=io.StringIO())) == 0
    assert before == {file: file.stat().st_mtime_ns for file in (out / "cells").rglob("*.json")}
    runs = read(out, EXPERIMENTS)
    page = documentation(EXPERIMENTS, runs, "# Benchmarks\n\nProse.\n\n<!-- tables -->\nOutdated.\n")
    assert page.startswith("# Benchmarks\n\nProse.\n")
    assert "Outdated" not in page
    assert page.count("| Adult Income | 0 |") == 1
    assert documentation(EXPERIMENTS, runs, page) == page


def test_results_of_other_code_are_not_used_and_damaged_ones_are_named(
    out: Path, data: Path, tmp_path: Path
) -> None:
    wanted = bench.about(bench.Options(TINY, data, out))
    file = Path(shutil.copy(out / "growth.json", tmp_path))
    assert set(read(tmp_path, EXPERIMENTS, wanted)) == {"growth"}
    file.write_text(file.read_text().replace(wanted["code"], "another"))
    assert read(tmp_path, EXPERIMENTS, wanted) == {}
    file.write_text("{")
    with pytest.raises(UsageError, match=r"growth\.json.*--only growth"):
        read(tmp_path, EXPERIMENTS)


def test_only_a_full_run_of_everything_is_for_the_documentation(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(out / "growth.json", tmp_path)
    before = PAGE.read_text()
    for run in (out, tmp_path):  # small, and a part
        with pytest.raises(SystemExit):
            write_page([str(run)])
        assert "The documentation wants a full run" in capsys.readouterr().err
    assert PAGE.read_text() == before


def test_missing_sets_are_named_before_anything_runs(tmp_path: Path) -> None:
    missing = r"has no adult\.csv\.gz; likewise .*bike.*; say by --data .* UCI 'Adult', .*10\.24432/C5XW20"
    with pytest.raises(MissingDataError, match=missing):
        bench.run(bench.Options(TINY, tmp_path, tmp_path / "out"), Console(file=io.StringIO()))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_damaged_or_lacks_a_column_is_named(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "bike.csv.gz"
    file.write_bytes((data / "bike.csv.gz").read_bytes()[:-50])
    with pytest.raises(MissingDataError, match=r"bike\.csv\.gz cannot be read"):
        load("bike", tmp_path)
    file.write_bytes(b"cnt,hr\n1,2\n")
    with pytest.raises(MissingDataError, match=r"bike\.csv\.gz cannot be read"):
        load("bike", tmp_path)
    for header, missing in (("hr,temp", "cnt"), ("cnt,hr", "instant")):
        file.write_bytes(gzip.compress(f"{header}\n1,2\n".encode()))
        with pytest.raises(MissingDataError, match=rf"bike\.csv\.gz lacks a column: .*{missing}"):
            load("bike", tmp_path)


def test_other_data_is_measured_anew(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    (other / "bike.csv.gz").write_bytes((data / "bike.csv.gz").read_bytes() + b"\x1f")
    mine, theirs = (EXPERIMENTS["comparison"].cells(TINY, where) for where in (data, other))
    changed = [a.key["set"] for a, b in zip(mine, theirs, strict=True) if a.key != b.key]
    assert changed == ["bike"]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.2, 0.3, 0.25], "yes"),
        ([0.0, 1.9, 0.5], "yes (not significant)"),
        ([2.0, 2.1, 2.2], "no"),
        ([0.1, 2.9, 1.0], "no (not significant)"),
        ([0.7, 0.8], "yes (not significant)"),  # two seeds prove little
        ([0.1], "yes (not significant)"),
    ],
)
def test_the_verdict_is_that_of_the_mean_and_of_students_t(losses: list[float], expected: str) -> None:
    assert verdict(losses) == expected


def scored(name: str, seed: int) -> Done:
    """A set whose loss after one leaver is 5 % of accuracy by majority, and 2 % of F1 by mean probability."""
    mean = {"ACC": 80.0, "RR": 80.0, "F1": 50.0}
    plain = [mean | {"ACC": 79.2}, mean | {"ACC": 80.8}]
    after = {PLAIN: plain, SOFT: [mean | {"F1": 49.0}], HARD: [mean | {"ACC": 76.0}]}
    result = {"scores": [{PLAIN: plain, SOFT: [mean], HARD: [mean]}, after]}
    return Done({"set": name, "seed": seed, "plain": 2, "rows": None}, result, 1.0, "2026-01-01")


def test_losses_are_against_the_mean_plain_forest_for_each_vote() -> None:
    found = [scored("bank", seed) for seed in range(3)]
    table = verdicts(("ACC", "RR", "F1"), "classes", {"bank": found})
    assert [row[2:] for row in table.rows] == [
        ("0.00 ± 0.00", "yes", "0.00 ± 0.00", "yes", "1.41"),
        ("0.00 ± 0.00", "yes", "5.00 ± 0.00", "no", "1.41"),
    ]
    assert f"{SOFT}, 2.0 % (F1, Bank Market, one leaver)" in table.note
    assert summary({"classes": found}) == (
        f"{SOFT}: 2 of 2 rows; {HARD}: 1 of 2 rows, all but Bank Market (1)"
    )


def test_loss_is_worse_in_percent_of_the_plain_score_whichever_way_is_better() -> None:
    assert loss("ACC", 80.0, 79.2) == pytest.approx(1.0)
    assert loss("R2", 0.5, 0.55) == pytest.approx(-10.0)
    assert loss("MSE", 200.0, 202.0) == pytest.approx(1.0)
    assert loss("MAE", 4.0, 3.0) == pytest.approx(-25.0)
    assert loss("MSE", 0.0, 0.0) == 0.0


def test_scores_are_those_of_the_definitions() -> None:
    right = scores("classes", ["a", "a", "a", "b"], ["a", "a", "b", "b"])
    assert right == pytest.approx({"ACC": 75.0, "RR": 75.0, "F1": 100 * (3 * 0.8 + 2 / 3) / 4})
    errors = scores("numbers", [1.0, 2.0, 6.0], [1.0, 5.0, 5.0])
    assert errors == pytest.approx({"MSE": 10 / 3, "MAE": 4 / 3, "R2": 1 - 10 / 14})


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_quick_run_on_made_data_gives_every_table_and_figure(data: Path, tmp_path: Path) -> None:
    assert bench.run(bench.Options(QUICK, data, tmp_path), Console(file=io.StringIO())) == 0
    assert set(shown(tmp_path)) >= WANTED
