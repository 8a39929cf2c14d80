"""The whole evaluation in miniature, on made data: every table and figure comes out of it."""

import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.paper import bench
from benchmarks.paper.bench import EXPERIMENTS
from benchmarks.paper.datasets import MissingDataError
from benchmarks.paper.leaving import verdict
from benchmarks.paper.plots import Series, plot, ticks
from benchmarks.paper.printed import CLASSIFICATION, REGRESSION
from benchmarks.paper.report import documentation, html_page, read
from benchmarks.paper.settings import QUICK, TINY
from benchmarks.paper.show import Figure, Table, markdown_part, number, spread
from revfrf.errors import UsageError
from tests.benchmarks.made_sets import write

WANTED = {
    # the paper's tables
    *(f"{name}-scores" for name in (*CLASSIFICATION.sets, *REGRESSION.sets)),
    "comparison",
    "theory",
    "efficiency",
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


def test_the_list_of_tables_and_figures_is_what_the_experiments_say_they_draw() -> None:
    drawn = [name for experiment in EXPERIMENTS.values() for name in experiment.draws]
    assert sorted(drawn) == sorted(WANTED - {"datasets", "doubts"})


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
            for scores in result["scores"]:
                assert {"plain", "ours"} <= set(scores)
                assert all(set(values) == measures for values in scores.values())


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


def test_results_of_another_format_are_not_shown_and_damaged_ones_are_named(
    out: Path, tmp_path: Path
) -> None:
    old = json.loads((out / "growth.json").read_text())
    old["run"]["format"] = 0
    (tmp_path / "growth.json").write_text(json.dumps(old))
    assert read(tmp_path, EXPERIMENTS, bench.world()) == {}
    assert "Not run" in html_page(EXPERIMENTS, {})
    (tmp_path / "growth.json").write_text("{")
    with pytest.raises(UsageError, match=r"growth\.json.*--only growth"):
        read(tmp_path, EXPERIMENTS)


def test_missing_sets_are_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"adult\.csv\.gz: UCI 'Adult', .*10\.24432/C5XW20"):
        bench.run(bench.Options(TINY, tmp_path, tmp_path / "out"), Console(file=io.StringIO()))
    assert not (tmp_path / "out").exists()


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
    assert verdict([0.1, 2.9, 1.0]) == "no, perhaps"
    assert verdict([0.1]) == "yes, perhaps"


def test_numbers_show_about_four_digits_and_means_their_spread() -> None:
    assert [number(x) for x in (0, 12345.6, 123.45, 12.345, 1.2345, 0.01234, -2.5)] == [
        "0",
        "12,346",
        "123.5",
        "12.35",
        "1.234",
        "0.0123",
        "-2.500",
    ]
    assert spread([1.0, 3.0], 1) == "2.0 ± 1.4"
    assert spread([2.0], 1) == "2.0"


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
    figure = Figure("f", "F", "x", "y", [Series("a", [(1, 2, 0)]), Series("b", [(2, 3, 0)])])
    assert "| 1 | 2.000 |  |" in markdown_part(figure)


def test_an_experiment_that_draws_something_else_than_it_says_is_an_error(out: Path) -> None:
    growth = {"growth": replace(EXPERIMENTS["growth"], draws=("adult-growth",))}
    with pytest.raises(AssertionError, match="bank-growth"):
        html_page(growth, read(out, growth))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_quick_run_on_made_data_gives_every_table_and_figure(data: Path, tmp_path: Path) -> None:
    assert bench.run(bench.Options(QUICK, data, tmp_path), Console(file=io.StringIO())) == 0
    assert set(Page((tmp_path / "report.html").read_text()).names) >= WANTED
