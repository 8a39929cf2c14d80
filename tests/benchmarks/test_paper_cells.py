"""A run can be ended at any moment, and goes on where it was."""

import io
import json
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from benchmarks.paper import bench
from benchmarks.paper.cells import Cell, Done, Plain, Store
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.report import read
from benchmarks.paper.settings import TINY, Settings
from benchmarks.paper.show import Part, Table
from revfrf.errors import UsageError

ROOT = Path(__file__).parents[2]


class Work:
    """Two experiments of three cells; says which were run, and can be told to stop before one."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.stop_at: tuple[str, int] | None = None

    def cell(self, experiment: str, number: int) -> Cell:
        def run() -> Plain:
            if (experiment, number) == self.stop_at:
                raise KeyboardInterrupt
            self.done.append((experiment, number))
            return {"square": number**2}

        return Cell(experiment, {"number": number}, run)

    def experiment(self, name: str) -> Experiment:
        def cells(settings: Settings, data: Path | None) -> list[Cell]:
            assert (settings, data) == (TINY, None)
            return [self.cell(name, number) for number in range(3)]

        def parts(results: Sequence[Done]) -> list[Part]:
            rows = [(str(done.key["number"]), str(done.result["square"])) for done in results]
            return [Table(f"{name}-squares", "Squares", ("number", "square"), rows)]

        return Experiment(name, f"Chapter {name}", "Squares.", (), cells, parts)

    def experiments(self) -> dict[str, Experiment]:
        return {name: self.experiment(name) for name in ("first", "second")}

    def run(self, out: Path, only: tuple[str, ...] = (), fresh: bool = False) -> tuple[int, str]:
        """The exit code, and what was said."""
        console = Console(file=io.StringIO(), width=500)
        code = bench.run(bench.Options(TINY, None, out, only, fresh), console, self.experiments())
        assert isinstance(console.file, io.StringIO)
        return code, console.file.getvalue()


EMPTY = '{"key": {"number": 2}, "result": {}, "seconds": 1, "date": "2026-01-01", "commit": ""}'
ALL = [("first", 0), ("first", 1), ("first", 2), ("second", 0), ("second", 1), ("second", 2)]


def files(out: Path) -> list[Path]:
    return sorted((out / "cells").rglob("*.json"))


def is_cell(file: Path, experiment: str, number: int) -> bool:
    return file.parent.name == experiment and json.loads(file.read_text())["key"] == {"number": number}


def test_a_second_run_does_nothing_again(tmp_path: Path) -> None:
    work = Work()
    assert work.run(tmp_path)[0] == 0
    assert work.done == ALL
    _, said = work.run(tmp_path)
    assert work.done == ALL
    assert "6 of 6 cells are there already" in said


def test_an_interrupted_run_says_how_to_go_on_and_goes_on_where_it_was(tmp_path: Path) -> None:
    work = Work()
    work.stop_at = ("second", 1)
    code, said = work.run(tmp_path)
    assert code == 130
    assert "4 of 6 cells are done and kept" in said
    assert "the same command" in said
    assert not (tmp_path / "report.html").exists()
    work.stop_at = None
    assert work.run(tmp_path)[0] == 0
    assert work.done == ALL
    assert "Chapter second" in (tmp_path / "report.html").read_text()


def test_only_what_was_asked_for_is_run_and_the_report_says_what_is_missing(tmp_path: Path) -> None:
    work = Work()
    work.run(tmp_path, only=("second",))
    assert work.done == ALL[3:]
    assert "Not part of this run: Chapter first" in (tmp_path / "report.html").read_text()
    work.run(tmp_path, only=("first",))
    page = (tmp_path / "report.html").read_text()
    assert "Not part" not in page
    assert page.index("Chapter first") < page.index("Chapter second")


def test_fresh_does_all_again_of_what_was_asked_for(tmp_path: Path) -> None:
    work = Work()
    work.run(tmp_path)
    work.run(tmp_path, only=("first",), fresh=True)
    assert work.done == ALL + ALL[:3]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"key": {"number": 7}, "result": {}, "seconds": 1}', "null", EMPTY]
)
def test_a_damaged_cell_is_named_and_done_again(tmp_path: Path, content: str) -> None:
    work = Work()
    work.run(tmp_path)
    [damaged] = [file for file in files(tmp_path) if is_cell(file, "first", 2)]
    damaged.write_text(content)
    code, said = work.run(tmp_path)
    assert code == 0
    assert str(damaged) in said
    assert len(work.done) == 7
    assert len(json.loads((tmp_path / "first.json").read_text())["cells"]) == 3


def test_another_parameter_or_world_is_another_cell(tmp_path: Path) -> None:
    first, second = Store(tmp_path, {"cores": 2}, print), Store(tmp_path, {"cores": 4}, print)
    cell, other = (Cell("e", {"trees": trees}, lambda: {"nodes": 3}) for trees in (1, 2))
    names = {store.file(one) for store in (first, second) for one in (cell, other)}
    assert len(names) == 4
    first.run(cell)
    assert first.find(cell) is not None
    assert second.find(cell) is None
    assert first.find(other) is None


def test_code_that_changes_while_it_is_measured_makes_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, states = Work(), iter(("one", "other"))
    with monkeypatch.context() as patch:
        patch.setattr(bench, "code", lambda: next(states))
        with pytest.raises(UsageError, match="has changed while it was measured"):
            work.run(tmp_path)
    assert not (tmp_path / "report.html").exists()
    assert work.run(tmp_path)[0] == 0
    assert work.done == [*ALL, *ALL]


@pytest.mark.parametrize("library", bench.LIBRARIES)
def test_another_version_of_any_library_is_another_world(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench.world()
    monkeypatch.setattr(bench, "version", lambda name: "9.9.9" if name == library else version(name))
    assert bench.world() != before


@pytest.mark.parametrize("package", ["revfrf", "rivals", "paper"])
def test_other_code_is_another_world(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bench.world()
    copy = ModuleType(package)
    copy.__path__ = [str(tmp_path / package)]
    shutil.copytree(getattr(bench, package).__path__[0], tmp_path / package)
    monkeypatch.setattr(bench, package, copy)
    assert bench.world() == before
    shown = {file for pattern in bench.PRESENTING for file in (tmp_path / package).glob(pattern)}
    assert bool(shown) == (package == "paper")
    for file in shown:
        file.write_text("# shown otherwise")
    assert bench.world() == before
    measuring = set((tmp_path / package).rglob("*.py")) - shown
    with measuring.pop().open("a") as module:
        module.write("# changed")
    assert bench.world() != before


def test_a_report_is_of_one_run_and_names_what_it_leaves_out(tmp_path: Path) -> None:
    work = Work()
    work.run(tmp_path)
    file = tmp_path / "first.json"
    content = json.loads(file.read_text())
    content["run"]["versions"]["scikit-learn"] = "9.9.9"
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="second come from another run"):
        read(tmp_path, work.experiments())
    work.run(tmp_path, only=("second",))
    page = (tmp_path / "report.html").read_text()
    assert "Not part of this run: Chapter first" in page
    assert "9.9.9" not in page


def test_two_runs_do_not_measure_in_one_directory_at_the_same_time(tmp_path: Path) -> None:
    with bench.alone(tmp_path), pytest.raises(UsageError, match="another run is at work there"):
        Work().run(tmp_path)
    assert Work().run(tmp_path)[0] == 0


def test_a_result_that_is_no_number_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path, {}, print)
    cell = Cell("e", {}, lambda: {"error": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        store.run(cell)
    assert store.find(cell) is None
