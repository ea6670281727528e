"""Keras's fit on several ranks: a job that is killed resumes with each rank's next batch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hosts import Hosts
from made_hosts import MakeHosts
from programs import map_style

from launcher.shared import Launch

pytestmark = [pytest.mark.library("jax"), pytest.mark.slow]

PIPELINE = map_style(
    "(np.random.RandomState(index).rand(4).astype(np.float32), np.float32(index))", length=46
)
#: 12 steps an epoch of two ranks. It waits for ever where it is to be killed, with what it has.
FIT = """
import os, time
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np
import launcher.data.keras as lk
from launcher.data import DataLoader

keras.distribution.initialize()
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")

class WaitToBeKilled(keras.callbacks.Callback):
    left = int(os.environ.get("STOP_AFTER", 0))
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            print("waits to be killed", flush=True)
            time.sleep(1000)

data = lk.LoaderDataset(
    DataLoader("pipeline:train_set", 2, shuffle=True, seed=3, tensors=False))
checkpoint = lk.LoaderCheckpoint(data, os.environ["FOLDER"], every=1)
model.fit(data, epochs=3, initial_epoch=checkpoint.epoch, verbose=0,
          callbacks=[checkpoint, WaitToBeKilled()])
weights = [float(each) for array in model.get_weights() for each in array.ravel()]
print("steps", checkpoint.steps, "weights", *(f"{each:.5f}" for each in weights), flush=True)
"""


def job(make_hosts: MakeHosts, folder: Path, **variables: str) -> Hosts:
    variables = {"FOLDER": str(folder), **variables}
    files = {"pipeline.py": PIPELINE, "train.py": FIT}
    hosts = make_hosts(
        files, data=1, train=2, launch=Launch.JAX, start_timeout=500.0, environment=variables
    )
    hosts.start()
    return hosts


def result(hosts: Hosts) -> list[float]:
    """The weights that both ranks have, after all steps."""
    assert set(hosts.wait().values()) == {0}, hosts.output()
    ends = re.findall(r"^steps (\d+) weights (.*)$", hosts.output(), re.MULTILINE)
    assert [steps for steps, _ in ends] == ["36", "36"], hosts.output()
    (weights,) = {weights for _, weights in ends}
    return [float(each) for each in weights.split()]


@pytest.fixture(scope="module")
def undisturbed() -> list[float]:
    """The weights of a job that is not killed; the first test puts them here."""
    return []


@pytest.mark.parametrize("steps", [5, 12, 20], ids=["in an epoch", "at its end", "in the second"])
def test_it_becomes_the_same_model(
    make_hosts: MakeHosts, undisturbed: list[float], tmp_path: Path, steps: int
) -> None:
    undisturbed[:] = undisturbed or result(job(make_hosts, tmp_path / "whole"))
    killed = job(make_hosts, tmp_path / "killed", STOP_AFTER=str(steps))
    killed.await_output("waits to be killed", *killed.members["train_group"])
    killed.kill()
    (saved,) = (tmp_path / "killed").iterdir()
    assert saved.name == f"step-{steps}"
    resumed = result(job(make_hosts, tmp_path / "killed"))
    assert resumed == pytest.approx(undisturbed, abs=1e-4)
