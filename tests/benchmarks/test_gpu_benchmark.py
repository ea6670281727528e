"""What is claimed on GPUs is measured where there are some, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, str(BENCHMARK), *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.long
def test_without_a_gpu_it_says_so_and_is_no_failure() -> None:
    done = run()
    assert done.stdout.startswith("not measured: "), done.stderr
    assert done.returncode == 0


def test_an_unknown_row_is_refused() -> None:
    done = run("--rows", "tensor_parallel")
    assert done.returncode == 2
    assert "no row is called tensor_parallel" in done.stderr
