"""Keras 3 trains on each batch of the loader once, on each backend, and resumes at any batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

FIT = """
import sys
from pathlib import Path

import keras, numpy as np
import launcher.data.keras as lk
from launcher.data import DataLoader

LENGTH, FOLDER = 21, sys.argv[1]

class Samples:
    def __len__(self):
        return LENGTH
    def __getitem__(self, index):
        return np.random.RandomState(index).rand(4).astype(np.float32), np.float32(index)

def loader():
    return DataLoader(Samples(), batch_size=4, shuffle=True, seed=3, tensors=False)

def model(built=False):
    keras.utils.set_random_seed(1)
    made = keras.Sequential([keras.layers.Dense(n) for n in (3, 1)])
    made.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=False)
    if built:
        made.build((None, 4))
    return made

class Stop(keras.callbacks.Callback):
    def __init__(self, at):
        super().__init__()
        self.left = at
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

def fit(folder, built=False, stop=0, every=1):
    data, made = lk.LoaderDataset(loader()), model(built)
    checkpoint = lk.LoaderCheckpoint(data, folder, every=every)
    callbacks = [checkpoint, Stop(stop)] if stop else [checkpoint]
    try:
        made.fit(data, epochs=3, initial_epoch=checkpoint.epoch, verbose=0, callbacks=callbacks)
    except KeyboardInterrupt:
        pass
    return made.get_weights(), checkpoint.steps

def same(some, others):
    return all(np.allclose(a, b, atol=1e-6) for a, b in zip(some, others, strict=True))

whole, steps = fit(f"{FOLDER}/whole")
assert steps == 18, steps
by_hand, reader = model(), loader()
for epoch in range(3):
    for x, y in reader:
        by_hand.train_on_batch(x, y)
assert same(whole, by_hand.get_weights()), "fit trained on other batches than a loop"
for stop in (1, 8):
    fit(f"{FOLDER}/{stop}", stop=stop)
    assert [each.name for each in Path(FOLDER, str(stop)).iterdir()] == [f"step-{stop}"]
    resumed, steps = fit(f"{FOLDER}/{stop}", built=True)
    assert steps == 18, (stop, steps)
    assert same(whole, resumed), f"another model after a stop at {stop}"
alone = model(built=True)
alone.fit(lk.LoaderDataset(loader()), epochs=3, verbose=0)
assert same(whole, alone.get_weights()), "fit without a checkpoint"
Path(FOLDER, "8", "step-18.bak").mkdir()
Path(FOLDER, "8", "step-18.bak", "loader.json").write_text("{}")
data = lk.LoaderDataset(loader())
other = lk.LoaderCheckpoint(data, f"{FOLDER}/8")
try:
    model(built=True).fit(data, epochs=9, verbose=0, callbacks=[other])
except Exception as error:
    assert "initial_epoch=checkpoint.epoch" in str(error), error
else:
    raise AssertionError("it began at another epoch than the checkpoint")
print("the same on", keras.backend.backend())
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_each_batch_is_trained_on_once_and_a_resumed_model_is_the_same(
    backend: str, tmp_path: Path
) -> None:
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-W", "error::UserWarning:keras", script, tmp_path / "checkpoints"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"the same on {backend}" in done.stdout
