"""`python -m benchmarks`: options, errors, and one experiment from the command to the page."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.paper import bench, page
from benchmarks.paper.report import MARK
from benchmarks.paper.settings import QUICK, TINY
from tests.benchmarks.made_sets import write


def test_a_missing_library_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.paper.bench")
    monkeypatch.delitem(sys.modules, "benchmarks.paper.datasets")
    monkeypatch.setitem(sys.modules, "pandas", None)
    done = CliRunner().invoke(app, ["paper"])
    assert done.exit_code == 2
    assert "pandas is missing: pip install 'revfrf[bench]'" in done.stderr


def test_the_help_names_every_experiment() -> None:
    done = CliRunner().invoke(app, ["paper", "--help"])
    assert ", ".join(bench.EXPERIMENTS) in " ".join(done.stdout.split())


def test_missing_data_is_wrong_usage(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["paper", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "adult.csv.gz" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_experiment_is_wrong_usage(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["paper", "--out", str(tmp_path), "--only", "speed"])
    assert done.exit_code == 2
    assert "classification, regression" in done.stderr


def test_options_reach_the_run_and_its_exit_code_is_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bench.Options] = []

    def run(options: bench.Options, *_: object) -> int:
        seen.append(options)
        return bench.INTERRUPTED

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.chdir(tmp_path)
    wanted = ["--quick", "--data", "d", "--only", "growth", "--only", "theory", "--fresh"]
    done = CliRunner().invoke(app, ["paper", *wanted])
    assert done.exit_code == 130
    [options] = seen
    assert options.settings is QUICK
    assert (options.data, options.out) == (Path("d"), Path("bench-paper-quick"))
    assert (list(options.only), options.fresh) == (["growth", "theory"], True)


def test_one_experiment_from_the_command_to_the_page_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.SETTINGS, "quick", TINY)
    (tmp_path / "data").mkdir()
    data, out = write(tmp_path / "data"), tmp_path / "out"
    options = ["--quick", "--data", str(data), "--out", str(out), "--only", "growth"]
    done = CliRunner().invoke(app, ["paper", *options])
    assert done.exit_code == 0, done.stderr
    written = tmp_path / "page.md"
    written.write_text(f"# Ours\n\n{MARK}\n")
    page.main([str(out), str(written)])
    assert "### Adult Income: ACC, %" in written.read_text()
    for wrong in ([str(tmp_path), str(written)], [str(out), str(tmp_path / "none.md")]):
        with pytest.raises(SystemExit, match="2"):
            page.main(wrong)
        assert str(wrong[0 if wrong[1] == str(written) else 1]) in capsys.readouterr().err
