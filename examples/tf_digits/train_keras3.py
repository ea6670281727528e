"""Train Keras 3 on the digits under MultiWorkerMirroredStrategy, by a loop of one's own.

Keras 3's `fit` fails under this strategy; its models, losses and metrics work.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import keras
import tensorflow as tf
from batches import BATCHES


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


def main(args: argparse.Namespace) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other use of TensorFlow
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model()
        optimizer = keras.optimizers.Adam(args.lr)
        optimizer.build(model.trainable_variables)
    per_sample = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    batches = BATCHES[args.engine](args.batch_size)
    replicas = strategy.num_replicas_in_sync

    def gradient_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(per_sample(labels, model(images, training=True))) / replicas
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    def right_answers(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        answers = tf.argmax(model(images, training=False), axis=1, output_type=tf.int32)
        return tf.stack([tf.reduce_sum(tf.cast(answers == labels, tf.int32)), tf.size(labels)])

    @tf.function
    def train_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        losses = strategy.run(gradient_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def test_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        counts = strategy.run(right_answers, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, counts, axis=None)

    for epoch in range(args.epochs):
        share = batches.train_share(strategy)
        loss = sum(float(train_step(batch)) for batch in share) / batches.steps
        print(f"epoch={epoch} rank={os.environ['RANK']} train_loss={loss:.6f}", flush=True)
    right, seen = sum(test_step(batch).numpy() for batch in batches.test_share(strategy))
    if os.environ["RANK"] == "0":
        print(f"test_accuracy={right / seen:.4f}", flush=True)
        model.save(Path(os.environ["SM_MODEL_DIR"]) / "model.keras")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--engine", choices=BATCHES, default="launcher")
    main(parser.parse_args())
