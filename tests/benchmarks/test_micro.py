"""`python -m benchmarks micro`, with toy keys."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from benchmarks.__main__ import app


def micro(*options: str) -> Result:
    return CliRunner().invoke(app, ["micro", "--rounds", "1", *options])


def test_micro_benchmark_prints_a_table_and_writes_its_results(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = micro("--bits", "256", "--json", str(results))
    assert done.exit_code == 0, done.stderr
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


def test_micro_benchmark_refuses_keys_that_cannot_work_in_one_line() -> None:
    for bits in ("100", "128"):
        done = micro("--bits", bits)
        assert done.exit_code == 2
        assert f"--bits {bits}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
