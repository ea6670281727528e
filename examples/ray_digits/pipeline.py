"""The datasets, prepared by Ray Data on the data hosts: a join, a shuffle, and noise.

Scans and labels are two tables here, as they often are. Ray Data joins and shuffles them over the
hosts, which a dataset that is read by index cannot.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import ray
from sklearn.datasets import load_digits

HELD_BACK = 5  # every fifth digit is for evaluation
NOISE = 0.05


def train_set() -> ray.data.Dataset:
    """Images with labels: joined once, in another order and with other noise in each epoch."""
    joined = labelled(np.flatnonzero(np.arange(1797) % HELD_BACK)).materialize()
    return joined.random_shuffle().map_batches(decode, fn_kwargs={"noise": NOISE})


def test_set() -> ray.data.Dataset:
    return labelled(np.flatnonzero(np.arange(1797) % HELD_BACK == 0)).map_batches(decode)


def labelled(ids: np.ndarray) -> ray.data.Dataset:
    """The scans with these ids, with their labels."""
    digits = load_digits()
    scans = ray.data.from_arrow(
        pa.table(
            {"id": ids, "scan": [digits.data[each].astype(np.uint8).tobytes() for each in ids]}
        )
    )
    labels = ray.data.from_arrow(pa.table({"id": np.arange(1797), "label": digits.target}))
    return scans.join(labels, join_type="inner", num_partitions=2, on=("id",))


def decode(batch: dict[str, np.ndarray], noise: float = 0.0) -> dict[str, np.ndarray]:
    """Images of 1 x 8 x 8 between 0 and 1, and their labels."""
    images = np.stack([np.frombuffer(scan, np.uint8) for scan in batch["scan"]])
    images = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
    images += np.random.normal(scale=noise, size=images.shape).astype(np.float32)
    return {"id": batch["id"], "image": images, "label": batch["label"]}
