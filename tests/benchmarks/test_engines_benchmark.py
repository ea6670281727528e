"""The benchmark of the engines runs: its figures are void here, but they are all there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "engines.py"
ENGINES = {"Launcher", "tf.data service", "Ray Data", "torch"}


def run(folder: Path, row: str, *options: str) -> dict[str, Any]:
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--quick", "--rows", row, "--json", report, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed, on a busy machine
    assert report.exists(), done.stderr
    return dict(json.loads(report.read_text()))


def measured(report: dict[str, Any]) -> list[str]:
    did_not_end = [f["note"] for f in report["figures"] if "did not end" in f["what"]]
    assert not did_not_end, did_not_end[0]
    return [figure["what"] for figure in report["figures"] if figure["values"]]


@pytest.mark.long
@pytest.mark.parametrize("row", ["images", "tokens", "scaling", "linear"])
def test_a_quick_run_measures_ours(tmp_path: Path, row: str) -> None:
    pytest.importorskip("PIL", reason="the samples need the extra 'examples'")
    report = run(tmp_path, row, "--no-peers")
    assert {"commit", "date", "machine"} <= set(report)
    assert measured(report)


@pytest.mark.slow
@pytest.mark.library("engines")
@pytest.mark.parametrize("row", ["images", "tokens", "scaling"])
def test_a_quick_run_measures_all_engines(tmp_path: Path, row: str) -> None:
    whats = measured(run(tmp_path, row, "--peers-python", sys.executable))
    sides = {what.partition(",")[0] for what in whats if "workers" in what}
    assert sides == ENGINES
