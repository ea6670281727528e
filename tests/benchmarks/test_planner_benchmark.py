"""The benchmarks of the planner run: figures are void here; predictions follow from their parts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from planner_parts.predicted_workloads import (  # noqa: E402 - no package
    WORKLOADS,
    MeasuredParts,
    predictions,
)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, timeout=540
    )


def figures(folder: Path, row: str) -> list[dict[str, Any]]:
    report = folder / "report.json"
    done = run(BENCHMARKS / "planner.py", "--quick", "--rows", row, "--json", report)
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed, on a busy machine
    return list(json.loads(report.read_text())["figures"])


@pytest.mark.long
def test_a_real_job_is_beside_its_simulation(tmp_path: Path) -> None:
    (found,) = figures(tmp_path, "real-jobs")

    assert found["what"].startswith("8 workers, input-bound: 50")
    assert found["median"] >= 1


@pytest.mark.long
def test_more_than_ten_thousand_clusters_are_timed(tmp_path: Path) -> None:
    found = {each["what"]: each["median"] for each in figures(tmp_path, "clusters")}

    assert found["even samples: compared"] > 10_000
    assert found["skewed samples: seconds for 10,000"] > 0


PARTS = MeasuredParts(
    sample_cpu=0.01,
    deviation=0.0,
    sample_wait=0.0,
    batch_bytes=1e6,
    efficiency=1.0,
    step_seconds=0.05,
    step_cpu=0.05,
)


@pytest.mark.parametrize(
    ("place", "changes", "seconds"),
    [
        ("shared 0", {}, 0.08 + 0.05),  # one after the other
        ("shared 1", {}, 0.08),  # the worker
        ("shared 3", {}, (0.08 + 0.05) / 2),  # both cores
        ("shared 3", {"step_seconds": 0.2}, 0.2),  # the training, which waits elsewhere
        ("shared 3", {"efficiency": 0.5}, (0.08 + 0.05) / 2 / 0.5),
        ("shared 2", {"sample_wait": 0.03}, 0.32 / 2),  # storage
        ("apart 0", {}, 0.08 + 0.05),
        ("apart 3", {}, 0.08),
        ("apart 3", {"sample_wait": 0.03}, 0.32 / 3),
    ],
)
def test_the_planner_predicts_a_step_from_its_parts(
    place: str, changes: dict[str, float], seconds: float
) -> None:
    each = replace(WORKLOADS[0], batch_size=8)
    found = dict(predictions(each, replace(PARTS, **changes), cores=2, most=3))

    assert found[place] == pytest.approx(seconds, rel=0.02)


def test_predictions_that_are_not_committed_are_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    file = tmp_path / "predictions.json"
    file.write_text("{}")
    done = run(BENCHMARKS / "plan_predictions.py", "run", "--file", file)

    assert done.returncode == 2
    assert "is not committed: predictions come before the runs" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["tokens", "linked"])
def test_rows_are_predicted_and_run(tmp_path: Path, rows: str) -> None:
    few = ("--rows", rows, "--file", tmp_path / "predictions.json")
    done = run(BENCHMARKS / "plan_predictions.py", *few, "--rounds", "1", "--seconds", "1")

    assert done.returncode in (0, 1), done.stderr
    measured = [line for line in done.stdout.splitlines() if " measured " in line]
    assert len(measured) == 8
    assert json.loads((tmp_path / "predictions.json").read_text())["step_seconds"]
