"""Train tf_keras (Keras 2) on the digits under MultiWorkerMirroredStrategy, by `fit`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import tensorflow as tf
import tf_keras as keras
from batches import BATCHES


def make_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main(args: argparse.Namespace) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other use of TensorFlow
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.Adam(args.lr),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    batches = BATCHES[args.engine](args.batch_size)
    history = model.fit(
        batches.train_share(strategy, args.epochs),  # `fit` makes one pass in all
        epochs=args.epochs,
        steps_per_epoch=batches.steps,
        verbose=0,
    )
    for epoch, loss in enumerate(history.history["loss"]):
        print(f"epoch={epoch} rank={os.environ['RANK']} train_loss={loss:.6f}", flush=True)
    test_share = batches.test_share(strategy)
    _, accuracy = model.evaluate(test_share, steps=batches.test_steps, verbose=0)
    folder = "model" if os.environ["RANK"] == "0" else "not-used"
    model.save(Path(os.environ["SM_MODEL_DIR"]) / f"{folder}.keras")
    if os.environ["RANK"] == "0":
        print(f"test_accuracy={accuracy:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--engine", choices=BATCHES, default="launcher")
    main(parser.parse_args())
