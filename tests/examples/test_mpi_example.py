"""The example of MPI, as a job of two hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from completed_run import completed_run
from needs import needs_mpirun

FOLDER = Path(__file__).parents[2] / "examples" / "mpi"


@pytest.mark.long
def test_its_script_trains_as_one_rank(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, str(FOLDER / "train.py"), "--steps", "200"],
        env={
            **os.environ,
            "PYTHONPATH": str(FOLDER.parents[1]),
            "SM_MODEL_DIR": str(tmp_path),
            "SM_CURRENT_HOST": "algo-1",
        },
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    assert "step=200 rank=0 host=algo-1" in done.stdout
    assert "ranks=1 test_error=0.0" in done.stdout
    assert (tmp_path / "model.pt").exists()


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize("script", ["train.py", "train_mpi4py.py"])
def test_four_ranks_on_two_hosts_train_one_model(tmp_path: Path, script: str) -> None:
    pytest.importorskip("torch")
    summary, log = completed_run(FOLDER / "job.yaml", tmp_path, "--set", f"entry_point={script}")
    assert "ranks=4 test_error=" in log
    assert summary["metrics"]["test_error"] < 0.05
