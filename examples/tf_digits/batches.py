"""Batches of one worker as a tf.data.Dataset, by Launcher's data service or by tf.data's own.

Read anew, a dataset is the next epoch. Launcher's service runs any Python code on the data hosts,
`pipeline.py` here; tf.data's runs graphs of TensorFlow operations.
"""

from __future__ import annotations

import os

import pipeline
import tensorflow as tf

import launcher.data.tf
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


class LauncherBatches:
    """Batches of the datasets of `pipeline.py`."""

    def __init__(self, batch_size: int) -> None:
        self.train = DataLoader("pipeline:train_set", batch_size, shuffle=True, tensors=False)
        self.test = DataLoader("pipeline:test_set", batch_size, tensors=False)
        self.steps = len(self.train)

    def train_share(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """This worker's batches of the next epoch."""
        return share_of(strategy, self.train)

    def test_share(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """This worker's batches of the test set."""
        return share_of(strategy, self.test)


class TfDataBatches:
    """The same batches as a graph of TensorFlow, for a job with `data_service: {engine: tf}`.

    Workers of a strategy step together. So each takes the same number of batches of a dataset
    without end, which has enough of them also when workers of the service die.
    """

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.digits, self.test = pipeline.train_set(), pipeline.test_set()
        self.steps = len(self.digits) // (batch_size * self.world)

    def train_share(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """This worker's batches of the next epoch, prepared by the data hosts."""

        def noisy(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return image + tf.random.normal((8, 8, 1), stddev=self.digits.noise), label

        share = self._share(self.digits).shuffle(len(self.digits)).repeat().map(noisy)
        batches = launcher.data.tf.distribute(share.batch(self.batch_size)).take(self.steps)
        return strategy.distribute_datasets_from_function(lambda _context: batches)

    def test_share(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """This worker's batches of the test set, which need no preparation."""
        batches = self._share(self.test).batch(self.batch_size)
        return strategy.distribute_datasets_from_function(lambda _context: batches)

    def _share(self, digits: pipeline.Digits) -> tf.data.Dataset:
        whole = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels))
        return whole.shard(self.world, self.rank)
