"""Launcher's batches as a tf.data.Dataset of one worker; read anew, it is the next epoch."""

from __future__ import annotations

import tensorflow as tf

from launcher.data import DataLoader

BATCH = (
    tf.TensorSpec((None, 8, 8, 1), tf.float32),
    tf.TensorSpec((None,), tf.int32),
)


def dataset_of(loader: DataLoader) -> tf.data.Dataset:
    """A dataset of this worker's share, which has a length: `fit` needs one."""
    made = tf.data.Dataset.from_generator(lambda: map(tuple, loader), output_signature=BATCH)
    return made.apply(tf.data.experimental.assert_cardinality(len(loader))).prefetch(2)


def share_of(
    strategy: tf.distribute.Strategy, loader: DataLoader, epochs: int = 1
) -> tf.distribute.DistributedDataset:
    """The dataset for a strategy, which must not shard it once more.

    epochs: how many there are in one pass; Keras 2's `fit` makes one pass in all.
    """
    return strategy.distribute_datasets_from_function(
        lambda _context: dataset_of(loader).repeat(epochs)
    )
