import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_micro_benchmark_prints_a_table_and_writes_its_results(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.micro", "--bits", "256", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--json", str(results)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "256 bits" in done.stdout
    rows = json.loads(results.read_text())
    assert len(rows) > 20
    seconds = {row["operation"]: row["seconds"] for row in rows}
    for row in rows:
        assert set(row) == {"operation", "bits", "seconds", "baseline", "ratio"}
        assert row["bits"] == 256
        assert row["seconds"] > 0
        if row["baseline"] is None:
            assert row["ratio"] is None
        else:
            assert abs(row["ratio"] - seconds[row["baseline"]] / row["seconds"]) < 1e-9


def test_micro_benchmark_says_what_is_wrong_with_its_options(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.micro", "--rounds", "1", "--bits", "256"]
    missing = str(tmp_path / "no" / "results.json")
    done = subprocess.run(
        [*command, "--json", missing], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "--json" in done.stderr
    assert "Traceback" not in done.stderr


def test_micro_benchmark_refuses_keys_that_cannot_work_in_one_line() -> None:
    for bits in ("100", "128"):
        command = [sys.executable, "-m", "benchmarks.micro", "--rounds", "1", "--bits", bits]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2
        assert "--bits" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
