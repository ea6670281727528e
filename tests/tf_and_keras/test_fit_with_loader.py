"""Keras 3 trains on each batch of the loader once, on each backend, and resumes at any batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.library("tensorflow"),
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:another loader of:UserWarning"
    ),  # they read a stream again, to compare
]

SETUP = """
import sys
from pathlib import Path

import keras, numpy as np
import launcher.data.keras as lk
from launcher.data import DataLoader, LoaderOptions

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
    def __init__(self, at, kills):
        super().__init__()
        self.left, self.kills = at, kills
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0 and self.kills:
            raise KeyboardInterrupt
        self.model.stop_training = self.model.stop_training or self.left == 0

def fit(folder, built=False, stop=0, every=1, kills=True, make=loader):
    data, made = lk.LoaderDataset(make()), model(built)
    checkpoint = lk.LoaderCheckpoint(data, folder, every=every)
    callbacks = [checkpoint, Stop(stop, kills)] if stop else [checkpoint]
    try:
        made.fit(data, epochs=3, initial_epoch=checkpoint.epoch, verbose=0, callbacks=callbacks)
    except KeyboardInterrupt:
        pass
    return made.get_weights(), checkpoint.steps

def same(some, others):
    return all(np.allclose(a, b, atol=1e-6) for a, b in zip(some, others, strict=True))
"""

FIT = """
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
"""

STOP = """
whole, _ = fit(f"{FOLDER}/whole")
for every in (None, 2):
    folder = f"{FOLDER}/{every}"
    fit(folder, stop=8, every=every, kills=False)
    resumed, steps = fit(folder, built=True, every=every)
    assert steps == 18, (every, steps)
    assert same(whole, resumed), f"another model with every={every}"
"""

STREAM = """
class Stream:
    def __init__(self, promised):
        self.promised = promised
    def __len__(self):
        return self.promised
    def __iter__(self):
        yield from map(Samples().__getitem__, range(LENGTH))

for name, promised, steps in (("exact", LENGTH, None), ("long", 29, None), ("given", LENGTH, 5)):
    def make():
        options = LoaderOptions(steps=steps)
        return DataLoader(Stream(promised), batch_size=4, tensors=False, options=options)
    whole, count = fit(f"{FOLDER}/{name}", make=make)
    assert count == 3 * (steps or 6), (name, count)
    for stop, every in ((7, None), (8, 1), (6, 3)) if name != "long" else ():
        folder = f"{FOLDER}/{name}-{stop}"
        fit(folder, stop=stop, every=every, make=make)
        resumed, again = fit(folder, built=True, every=every, make=make)
        assert again == count, (name, stop, again)
        assert same(whole, resumed), f"another model of {name} after a stop at {stop}"
"""


PADDED = """
class Words:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return np.ones((index + 1, 1), np.float32)

def pad(samples):
    longest = max(map(len, samples))
    padded = [np.pad(each, ((0, longest - len(each)), (0, 0))) for each in samples]
    return np.stack(padded), np.ones((len(samples), 1), np.float32)

made = keras.Sequential([keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
made.compile(loss="mse", jit_compile=False)
data = lk.LoaderDataset(DataLoader(Words(), batch_size=2, collate_fn=pad, tensors=False))
made.fit(data, epochs=2, verbose=0)
"""

ONE_BATCH = """
def whole():
    return DataLoader(Samples(), batch_size=64, shuffle=True, seed=3, tensors=False, name="whole")
reader = whole()
read = [y.tolist() for epoch in range(2) for x, y in reader]
data = lk.LoaderDataset(whole())
assert [y.numpy().tolist() for _ in range(2) for x, y in data.get_tf_dataset()] == read
"""

BACKENDS = ["tensorflow", "jax", "torch"]


def run(script: str, backend: str, folder: Path, *options: str) -> None:
    program = folder / "fit.py"
    program.write_text(SETUP + script)
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, *options, program, folder / "checkpoints"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "backend", [pytest.param(BACKENDS[0], marks=pytest.mark.library("smoke")), *BACKENDS[1:]]
)
def test_each_batch_is_trained_on_once_and_a_resumed_model_is_the_same(
    backend: str, tmp_path: Path
) -> None:
    run(FIT, backend, tmp_path, "-W", "error::UserWarning:keras")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_epoch_that_another_callback_ends_goes_on_after_a_restart(
    backend: str, tmp_path: Path
) -> None:
    run(STOP, backend, tmp_path, "-W", "error::UserWarning:keras")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_iterable_dataset_resumes_at_any_batch_and_loses_no_epoch(
    backend: str, tmp_path: Path
) -> None:
    run(STREAM, backend, tmp_path)


def test_tensorflow_takes_batches_that_are_padded_to_their_longest_sample(tmp_path: Path) -> None:
    run(PADDED, "tensorflow", tmp_path)


def test_an_epoch_of_one_batch_that_tensorflow_looks_at_is_not_lost(tmp_path: Path) -> None:
    run(ONE_BATCH, "tensorflow", tmp_path)
