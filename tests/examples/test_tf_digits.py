"""The digits of TensorFlow and JAX: whole heterogeneous jobs, two data and two train hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(job: Path, script: str, home: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Run an example; return the outcome, and the log."""
    launcher = [sys.executable, "-m", "launcher", "run", str(job), "--local", "-v", "-o", "json"]
    done = subprocess.run(
        [*launcher, "--set", f"entry_point={script}", *options],
        env={**os.environ, "LAUNCHER_HOME": str(home), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def check(outcome: dict[str, Any], log: str) -> None:
    assert outcome["metrics"]["test_accuracy"] >= 0.95, log
    served = log.split("batches_served by_host=", 1)[1]
    by_host = json.loads(served.split(" ")[0])
    assert set(by_host) == {"algo-1", "algo-2"}
    assert all(by_host.values())


@pytest.mark.slow
@pytest.mark.library("tensorflow")
@pytest.mark.parametrize("script", ["train_keras3.py", "train_tf_keras.py"])
def test_keras_learns_the_digits_on_two_mirrored_workers(script: str, tmp_path: Path) -> None:
    check(*run(EXAMPLES / "tf_digits" / "job.yaml", script, tmp_path))


@pytest.mark.slow
@pytest.mark.library("tensorflow")
def test_keras_learns_the_digits_from_tf_datas_service(tmp_path: Path) -> None:
    options = ("--set", "data_service.engine=tf", "--set", "hyperparameters.engine=tf")
    job = EXAMPLES / "tf_digits" / "job.yaml"
    outcome, log = run(job, "train_keras3.py", tmp_path, *options)
    assert outcome["metrics"]["test_accuracy"] >= 0.95, log
    started = [line.split(" ")[0] for line in log.splitlines() if "tf_server_started" in line]
    assert {"data_group/algo-1", "data_group/algo-2"} <= set(started)


@pytest.fixture
def python_without_torch(tmp_path: Path) -> str:
    """An interpreter that has JAX and Keras, and nothing of the environment around them."""
    home = tmp_path / "python"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/*/site-packages")
    (site / "jax.pth").write_text(sysconfig.get_paths()["purelib"])  # its own .pth are not read
    python = str(home / "bin" / "python")
    has_torch = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    assert has_torch.returncode != 0
    return python


@pytest.mark.slow
@pytest.mark.library("jax")
@pytest.mark.parametrize("script", ["train.py", "train_keras.py"])
def test_jax_learns_the_digits_without_torch(
    script: str, tmp_path: Path, python_without_torch: str
) -> None:
    job = EXAMPLES / "jax_digits" / "job.yaml"
    check(*run(job, script, tmp_path, "--python", python_without_torch))
