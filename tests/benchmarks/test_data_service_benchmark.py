"""The benchmark of the data service runs: its figures are void here, but they are all there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "data_service.py"
#: Each row does what the others do not: bytes that are verified, a driven dispatcher, memory.
FEW = ["transfer", "dispatcher", "memory"]
REST = ["main-loop", "preprocessing", "scaling", "faults", "cut-link", "start", "published"]


def test_every_row_is_run_here() -> None:
    sys.path.append(str(BENCHMARK.parent))
    from data_service import ROWS

    assert set(ROWS) == {*FEW, *REST}


def run(folder: Path, *rows: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    report = folder / "report.json"
    done = subprocess.run(
        [
            *(sys.executable, str(BENCHMARK), "--quick", *options),
            *("--rows", ",".join(rows), "--json", report),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed, on a busy machine
    assert report.exists(), done.stderr
    return dict(json.loads(report.read_text()))


def measured_rows(report: dict[str, Any]) -> set[str]:
    did_not_end = [f["note"] for f in report["figures"] if "did not end" in f["what"]]
    assert not did_not_end, did_not_end[0]
    return {figure["row"].replace(" ", "-") for figure in report["figures"] if figure["values"]}


@pytest.mark.long
def test_a_quick_run_measures_ours_and_raw_tcp_and_says_where(tmp_path: Path) -> None:
    report = run(tmp_path, *FEW)
    assert measured_rows(report) == set(FEW)
    assert {"commit", "date", "machine"} <= set(report)
    verdicts = {figure["what"]: figure["verdict"] for figure in report["figures"]}
    assert verdicts["4 MB: rate to raw TCP"] in ("pass", "FAIL")
    assert verdicts["4 MB: CPU to tf.data"] == "not measured"  # its environment is large


@pytest.mark.library("tensorflow")
def test_a_quick_run_measures_the_peers_too(tmp_path: Path) -> None:
    report = run(tmp_path, "transfer", options=("--peers-python", sys.executable))
    assert measured_rows(report) == {"transfer"}
    verdicts = {figure["what"]: figure["verdict"] for figure in report["figures"]}
    assert verdicts["4 MB: CPU to tf.data"] in ("pass", "FAIL")


@pytest.mark.slow
@pytest.mark.parametrize("row", REST)
def test_every_other_row_runs(tmp_path: Path, row: str) -> None:
    report = run(tmp_path, row)
    if row == "cut-link" and report["figures"][0]["note"]:
        pytest.skip(report["figures"][0]["note"])
    assert measured_rows(report) == {row}
