"""The benchmark of the loader runs, its job with one data host too; its figures are void here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "loader.py"
WAYS = ("sample", "worker", "2 workers", "served")


@pytest.mark.slow
def test_every_way_is_compared_with_torch_in_each_workload(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report, workloads = tmp_path / "report.json", ["one int", "padded x 32", "ragged x 32"]
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--rounds", "2", "--json", report, "--only", *workloads],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())["workloads"]
    assert list(rows) == workloads
    for name, row in rows.items():
        assert f"| {name} |" in done.stdout
        for way in WAYS:
            median, low, high = row[way]
            assert low <= median <= high
            assert median > 0
