"""The datasets that the data hosts serve: scikit-learn's digits, with noise in each epoch anew.

Neither TensorFlow nor JAX is needed here, nor torch: numpy does the work.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 5  # every fifth digit is for evaluation


class Digits:
    """Images of 8 x 8 x 1 pixels between 0 and 1, and their digits."""

    def __init__(self, indices: np.ndarray, noise: float) -> None:
        digits = load_digits()
        self.images = digits.images[indices, ..., np.newaxis].astype(np.float32) / 16
        self.labels = digits.target[indices].astype(np.int32)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int32]:
        image = self.images[index]
        noise = np.random.normal(scale=self.noise, size=image.shape).astype(np.float32)
        return image + noise, self.labels[index]


def train_set() -> Digits:
    return Digits(np.flatnonzero(np.arange(1797) % HELD_BACK), noise=0.05)


def test_set() -> Digits:
    return Digits(np.flatnonzero(np.arange(1797) % HELD_BACK == 0), noise=0)
