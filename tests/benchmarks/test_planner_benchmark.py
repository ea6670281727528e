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

from planner_parts.predicted_workloads import MeasuredParts, predict  # noqa: E402 - no package


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
    sample_wait=0.0,
    batch_bytes=1e6,
    efficiency=1.0,
    step_seconds=0.05,
    step_cpu=0.05,
)


@pytest.mark.parametrize(
    ("workers", "cores", "seconds"),
    [
        (0, 2, 0.08 + 0.05),  # one after the other
        (1, 2, 0.08 + 0.00014),  # the worker
        (2, 2, (0.08 + 0.05 + 2 * 0.00014) / 2),  # both cores
        (3, 8, 0.05),  # the training
    ],
)
def test_a_step_is_predicted_from_its_parts(workers: int, cores: int, seconds: float) -> None:
    assert predict(PARTS, 8, workers, cores) == pytest.approx(seconds)


def test_workers_wait_for_storage_beside_each_other_and_cores_that_are_busy_are_slower() -> None:
    waiting = replace(PARTS, sample_wait=0.03, efficiency=0.5)

    assert predict(waiting, 8, 0, 2) == pytest.approx(0.08 + 0.24 + 0.05)
    assert predict(waiting, 8, 2, 4) == pytest.approx((0.32 + 0.00014) / 2)
    assert predict(waiting, 8, 8, 2) == pytest.approx((0.08 + 0.05 + 2 * 0.00014) / 2 / 0.5)


def test_predictions_that_are_not_committed_are_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    file = tmp_path / "predictions.json"
    file.write_text("{}")
    done = run(BENCHMARKS / "plan_predictions.py", "run", "--file", file)

    assert done.returncode == 2
    assert "is not committed: predictions come before the runs" in done.stderr


@pytest.mark.slow
def test_a_workload_is_predicted_and_run(tmp_path: Path) -> None:
    file = tmp_path / "predictions.json"
    few = ("--workloads", "tokens", "--file", file)
    predicted = run(BENCHMARKS / "plan_predictions.py", "predict", *few)
    assert predicted.returncode == 0, predicted.stderr
    done = run(
        *(BENCHMARKS / "plan_predictions.py", "run", *few),
        *("--uncommitted", "--rounds", "1", "--seconds", "1"),
    )

    assert done.returncode in (0, 1), done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if "predicted" in line] == [
        *"0123"
    ]
