"""The digits of TensorFlow and JAX: whole heterogeneous jobs, two data and two train hosts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
from completed_run import completed_run
from needs import skip_without_isolation

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Keras 3 and Keras 2; CI has no environment for the second.
SCRIPTS = [pytest.param("train_keras3.py", marks=pytest.mark.library("smoke")), "train_tf_keras.py"]
TF_ENGINE = ("--set", "data_service.engine=tf", "--set", "hyperparameters.engine=tf")
#: Runs a script, and prints which host has prepared each batch: each has a /opt/ml of its own.
WITNESS = r"""
import os
import runpy

import tensorflow as tf

import launcher.data.tf

plain = launcher.data.tf.distribute

def witnessed(dataset):
    return plain(dataset.map(with_host)).map(printed)

def with_host(*batch):
    config = tf.io.read_file("/opt/ml/input/config/resourceconfig.json")
    host = tf.strings.regex_replace(config, r'(?s).*"current_host": "(.+?)".*', r"\1")
    return batch, host

def printed(batch, host):
    tf.print("prepared by", host)
    return batch

launcher.data.tf.distribute = witnessed
runpy.run_path(os.environ["RUN"], run_name="__main__")
"""


def check(outcome: dict[str, Any], log: str) -> None:
    assert outcome["metrics"]["test_accuracy"] >= 0.95, log
    served = log.split("batches_served by_host=", 1)[1]
    by_host = json.loads(served.split(" ")[0])
    assert set(by_host) == {"algo-1", "algo-2"}
    assert all(by_host.values())


@pytest.mark.slow
@pytest.mark.library("tensorflow")
@pytest.mark.parametrize("script", SCRIPTS)
def test_keras_learns_the_digits_on_two_mirrored_workers(script: str, tmp_path: Path) -> None:
    job = EXAMPLES / "tf_digits" / "job.yaml"
    check(*completed_run(job, tmp_path, "--set", f"entry_point={script}"))


@pytest.mark.slow
@pytest.mark.library("tensorflow")
@pytest.mark.parametrize("script", SCRIPTS)
def test_keras_learns_the_digits_from_tf_datas_service(script: str, tmp_path: Path) -> None:
    skip_without_isolation("sandbox")  # else hosts share /opt/ml, which tells them apart
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLES / "tf_digits", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "witness.py").write_text(WITNESS)
    job = folder / "job.yaml"
    changes = ("--set", "entry_point=witness.py", "--set", f"environment.RUN={script}")
    outcome, log = completed_run(job, tmp_path, *TF_ENGINE, *changes)
    assert outcome["metrics"]["test_accuracy"] >= 0.95, log
    assert set(re.findall(r'prepared by "(algo-\d)"', log)) == {"algo-1", "algo-2"}, log


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
@pytest.mark.parametrize(
    "script", [pytest.param("train.py", marks=pytest.mark.library("smoke")), "train_keras.py"]
)
def test_jax_learns_the_digits_without_torch(
    script: str, tmp_path: Path, python_without_torch: str
) -> None:
    job = EXAMPLES / "jax_digits" / "job.yaml"
    changes = ("--set", f"entry_point={script}", "--python", python_without_torch)
    check(*completed_run(job, tmp_path, *changes))
