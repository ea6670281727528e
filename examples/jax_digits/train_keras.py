"""Train Keras 3 on JAX by `fit`, data parallel over the train group's hosts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"  # before keras is imported

import keras
import numpy as np

from launcher.data import DataLoader


def make_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def endless(loader: DataLoader) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches of one epoch after the other; `fit` counts the steps of each."""
    while True:
        yield from map(tuple, loader)


def main(args: argparse.Namespace) -> None:
    keras.distribution.initialize()  # Launcher has set what it reads
    rank = int(os.environ["RANK"])
    # Each host reads its own share of the batches: Keras must not cut them once more.
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    keras.utils.set_random_seed(0)
    train = DataLoader(
        "pipeline:train_set", args.batch_size, shuffle=True, drop_last=True, tensors=False
    )
    test = DataLoader("pipeline:test_set", args.batch_size, drop_last=True, tensors=False)
    model = make_model()
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(endless(train), epochs=args.epochs, steps_per_epoch=len(train), verbose=0)
    for epoch, loss in enumerate(history.history["loss"]):
        print(f"epoch={epoch} rank={rank} train_loss={loss:.6f}", flush=True)
    _, accuracy = model.evaluate(endless(test), steps=len(test), verbose=0)
    weights = model.get_weights()  # on every host: reading them is a step of all
    if rank == 0:
        print(f"test_accuracy={accuracy:.4f}", flush=True)
        np.savez(Path(os.environ["SM_MODEL_DIR"]) / "weights.npz", *weights)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16, help="samples per host and step")
    parser.add_argument("--lr", type=float, default=0.004)
    main(parser.parse_args())
