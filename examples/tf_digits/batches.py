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


def share_of(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset
) -> tf.distribute.DistributedDataset:
    """The dataset for a strategy, which must not shard it: it is this worker's share already."""
    return strategy.distribute_datasets_from_function(lambda _context: dataset)


class LauncherBatches:
    """Batches of the datasets of `pipeline.py`."""

    def __init__(self, batch_size: int) -> None:
        train = DataLoader("pipeline:train_set", batch_size, shuffle=True)
        test = DataLoader("pipeline:test_set", batch_size)
        self.train = launcher.data.tf.from_service(train)
        self.test = launcher.data.tf.from_service(test)
        self.steps, self.test_steps = len(self.train), len(self.test)

    def train_share(
        self, strategy: tf.distribute.Strategy, epochs: int = 1
    ) -> tf.distribute.DistributedDataset:
        """This worker's batches of the next epochs, all in one pass."""
        return share_of(strategy, self.train.repeat(epochs))

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
        self.digits = pipeline.train_set()
        self.test = self._share(pipeline.test_set()).batch(batch_size)
        self.steps = len(self.digits) // (batch_size * self.world)
        self.test_steps = len(self.test)

    def train_share(
        self, strategy: tf.distribute.Strategy, epochs: int = 1
    ) -> tf.distribute.DistributedDataset:
        """This worker's batches of the next epochs in one pass, prepared by the data hosts."""

        def noisy(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return image + tf.random.normal((8, 8, 1), stddev=self.digits.noise), label

        share = self._share(self.digits).shuffle(len(self.digits)).repeat().map(noisy)
        batches = launcher.data.tf.distribute(share.batch(self.batch_size))
        return share_of(strategy, batches.take(self.steps * epochs))

    def test_share(self, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
        """This worker's batches of the test set, which need no preparation."""
        return share_of(strategy, self.test)

    def _share(self, digits: pipeline.Digits) -> tf.data.Dataset:
        whole = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels))
        return whole.shard(self.world, self.rank)


#: By the job's `data_service.engine`.
BATCHES = {"launcher": LauncherBatches, "tf": TfDataBatches}
