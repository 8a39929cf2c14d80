"""The whole evaluation in miniature, on made data: every table and figure comes out of it."""

import gzip
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.paper import bench
from benchmarks.paper.bench import EXPERIMENTS
from benchmarks.paper.cells import Done
from benchmarks.paper.datasets import MissingDataError, load
from benchmarks.paper.experiment import loss, scores
from benchmarks.paper.leaving import HARD, SOFT
from benchmarks.paper.leaving_shown import noise, summary, verdict, verdicts
from benchmarks.paper.page import PAGE
from benchmarks.paper.page import main as write_page
from benchmarks.paper.plots import Series, plot, ticks
from benchmarks.paper.printed import CLASSIFICATION, REGRESSION
from benchmarks.paper.report import MARK, WARNING, documentation, html_page, read
from benchmarks.paper.settings import QUICK, TINY
from benchmarks.paper.show import Figure, Table, markdown_part, number, ratio, spread
from revfrf.errors import UsageError
from tests.benchmarks.made_sets import write

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
    # and what it has not
    "accuracy-verdicts",
    "mse-verdicts",
    "comparison-printed",
    "rebuilding-printed",
    "theory-nodes",
    "doubts",
}


class Page(HTMLParser):
    """Names and addresses in a page, and what stands in its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loads: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "path", "rect", "circle", "br"):
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.names.append(value or "")
            if name in ("src", "href", "data", "action", "srcset"):
                self.loads.append((tag, value or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, in miniature."""
    out = tmp_path_factory.mktemp("out")
    assert bench.run(bench.Options(TINY, data, out), Console(file=io.StringIO())) == 0
    return out


def test_the_report_has_every_table_and_figure_and_loads_nothing(out: Path) -> None:
    text = (out / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert WANTED | {f"chapter-{name}" for name in EXPERIMENTS} <= set(page.names)
    assert len(set(page.names)) == len(page.names)
    assert all(tag == "a" and address.removeprefix("#") in page.names for tag, address in page.loads)
    assert not re.search(r"url\(|@import|<script|<link|<img|<iframe", text)
    assert text.count("<svg") >= 8


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


def test_a_page_without_its_mark_is_refused(out: Path) -> None:
    with pytest.raises(UsageError, match="<!-- tables -->"):
        documentation(EXPERIMENTS, read(out, EXPERIMENTS), "# Benchmarks\n")


def test_results_of_other_code_are_not_shown_and_damaged_ones_are_named(
    out: Path, data: Path, tmp_path: Path
) -> None:
    wanted = bench.about(bench.Options(TINY, data, out))
    shutil.copy(out / "growth.json", tmp_path)
    assert set(read(tmp_path, EXPERIMENTS, wanted)) == {"growth"}
    old = json.loads((out / "growth.json").read_text())
    old["run"]["code"] = "another"
    (tmp_path / "growth.json").write_text(json.dumps(old))
    assert read(tmp_path, EXPERIMENTS, wanted) == {}
    assert "Not run" in html_page(EXPERIMENTS, {})
    (tmp_path / "growth.json").write_text("{")
    with pytest.raises(UsageError, match=r"growth\.json.*--only growth"):
        read(tmp_path, EXPERIMENTS)


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


def test_only_a_full_run_goes_without_a_warning(out: Path) -> None:
    runs = read(out, EXPERIMENTS)
    page = documentation(EXPERIMENTS, runs, f"{MARK}\n")
    assert WARNING in html_page(EXPERIMENTS, runs)
    assert WARNING in page
    for run in runs.values():
        run["run"]["settings"]["name"] = "full"
    assert WARNING not in html_page(EXPERIMENTS, runs)


def test_contents_of_the_page_lead_to_its_chapters(out: Path) -> None:
    page = documentation(EXPERIMENTS, read(out, EXPERIMENTS), f"{MARK}\n")
    titles = re.findall(r"^## (.*)$", page, re.MULTILINE)
    links = re.findall(r"^- \[(.*)\]\(#(.*)\)$", page, re.MULTILINE)
    assert len(links) == len(EXPERIMENTS) + 1
    assert {title for title, _ in links} <= set(titles)
    assert links[0][1] == "classification-with-participants-leaving"
    assert links[4][1] == "theoretical-costs-and-what-is-counted"  # GitHub drops the comma


def test_a_part_of_a_run_says_so_and_is_not_for_the_documentation(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(out / "growth.json", tmp_path)
    runs = read(tmp_path, EXPERIMENTS)
    assert "Not run like this: Classification" in documentation(EXPERIMENTS, runs, f"{MARK}\n")
    before = PAGE.read_text()
    for run in (out, tmp_path):  # small, and a part
        with pytest.raises(SystemExit):
            write_page([str(run)])
        assert "The documentation wants a full run" in capsys.readouterr().err
    assert PAGE.read_text() == before
    other = tmp_path / "page.md"
    other.write_text(f"Mine.\n{MARK}\n")
    write_page([str(tmp_path), str(other)])
    assert other.read_text().startswith(f"Mine.\n{MARK}\n## The run")


def test_the_summary_counts_rows_under_the_limit_and_names_the_others() -> None:
    def done(name: str, *losses: float) -> Done:
        scored = [
            {"plain": [{"ACC": 100.0}], SOFT: [{"ACC": 100.0 - loss}], HARD: [{"ACC": 98.0}]}
            for loss in losses
        ]
        return Done({"set": name}, {"scores": scored}, 0, "")

    results = [done("adult", 0.5, 1.5, 0.2), done("adult", 0.1, 1.0, 0.1), done("bank", 0.9)]
    found = summary({"classes": results})
    assert found == (
        "ours, 3 of 4 rows, not on Adult Income with 1 left; ours, majority, 0 of 4 rows, not on "
        "Adult Income with 0, Adult Income with 1, Adult Income with 2, Bank Market with 0 left"
    )


def test_other_data_is_measured_anew(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    (other / "bike.csv.gz").write_bytes((data / "bike.csv.gz").read_bytes() + b"\x1f")
    mine, theirs = (EXPERIMENTS["comparison"].cells(TINY, where) for where in (data, other))
    changed = [a.key["set"] for a, b in zip(mine, theirs, strict=True) if a.key != b.key]
    assert changed == ["bike"]


def test_verdicts_are_of_the_mean_and_say_when_seeds_disagree() -> None:
    assert verdict([0.2, 0.3, 0.25]) == "yes"
    assert verdict([0.0, 1.9, 0.5]) == "yes, perhaps"
    assert verdict([2.0, 2.1, 2.2]) == "NO"
    assert verdict([0.1, 2.9, 1.0]) == "NO, perhaps"
    assert verdict([0.7, 0.8]) == "yes, perhaps"  # of two seeds little can be said
    assert verdict([0.1]) == "yes, perhaps"


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


def test_a_ratio_is_ours_over_theirs() -> None:
    assert ratio(3.0, 2.0) == "× 1.500"
    assert ratio(1.0, 0.0) == ""
    assert ratio(0.0, 2.0) == "× 0"
    assert ratio(0.0021, 239.5) == "× 1/110,000"


def test_verdicts_are_by_vote_against_the_mean_plain_forest_and_name_the_largest_loss_of_any_measure() -> (
    None
):
    def done(name: str, seed: int) -> Done:
        mean = {"ACC": 80.0, "RR": 80.0, "F1": 50.0}
        plain = [mean | {"ACC": 79.2}, mean | {"ACC": 80.8}]
        after = {"plain": plain, "ours": [mean | {"F1": 49.0}], "ours, majority": [mean | {"ACC": 76.0}]}
        result = {"scores": [{"plain": plain, "ours": [mean], "ours, majority": [mean]}, after]}
        return Done({"set": name, "seed": seed, "plain": 2, "rows": None}, result, 1.0, "2026-01-01")

    sets = {name: [done(name, seed) for seed in range(3)] for name in ("wine_white", "bank")}
    table = verdicts(("ACC", "RR", "F1"), "classes", sets)
    assert [row[2:] for row in table.rows][:2] == [
        ("0.00 ± 0.00", "yes", "0.00 ± 0.00", "yes", "1.41"),
        ("0.00 ± 0.00", "yes", "5.00 ± 0.00", "NO", "1.41"),
    ]
    assert "2.0 % (F1, Wine Quality, 1 left)" in table.note
    assert "over 3 seeds; a seed has one forest of ours, and of plain the mean of 2 forests" in table.note
    assert "the same rows of Wine Quality:" in table.note  # of Bank a quarter is drawn


def test_a_single_plain_forest_says_nothing_of_chance() -> None:
    one = Done({}, {"scores": [{"plain": [{"MSE": 2.0}]}]}, 1.0, "2026-01-01")
    assert noise([one], 0, "MSE") == ""


def test_numbers_show_about_four_digits_and_means_their_spread() -> None:
    assert [number(x) for x in (0, 12345.6, 123.45, 12.345, 1.2345, 0.01234, 0.00012, -2.5)] == [
        "0",
        "12,346",
        "123.5",
        "12.35",
        "1.234",
        "0.0123",
        "0.00012",
        "-2.500",
    ]
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"
    assert spread([2.0], 1) == "2.0"
    assert spread([85.84, 85.96]) == "85.90 ± 0.08"


def test_axes_hold_all_points_and_a_single_point_is_drawn_too() -> None:
    for low, high in ((0, 1), (83.1, 85.6), (-3, 12), (5, 5), (0, 0), (1e-4, 2e-4)):
        marks = ticks(low, high)
        assert marks[0] <= low <= high <= marks[-1]
        assert 3 <= len(marks) <= 9
    assert "<circle" in plot("t", "x", "y", [Series("a", [(1, 2, 0)])])


def test_text_in_pages_is_escaped() -> None:
    assert "<b>" not in plot("<b>", "<b>", "<b>", [Series("<b>", [(1, 2, 0), (2, 3, 0.5)])])
    table = Table("t", "T", ("a|b",), [("c|d",)])
    assert "a\\|b" in markdown_part(table)


def test_points_of_a_figure_are_shown_with_their_spread() -> None:
    figure = Figure("f", "F", "x", "y", [Series("a", [(1, 2, None)]), Series("b", [(2, 3, 0.25)])])
    assert "| 1 | 2.000 |  |\n| 2 |  | 3.000 ± 0.250 |" in markdown_part(figure)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_quick_run_on_made_data_gives_every_table_and_figure(data: Path, tmp_path: Path) -> None:
    assert bench.run(bench.Options(QUICK, data, tmp_path), Console(file=io.StringIO())) == 0
    assert set(Page((tmp_path / "report.html").read_text()).names) >= WANTED
