"""The datasets that the data hosts serve: scikit-learn's digits, with noise in each epoch anew.

Samples are dictionaries, as Hugging Face's models take them; the other two scripts read them too.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 5  # every fifth digit is for evaluation


class Digits:
    """Images of 1 x 8 x 8 pixels between 0 and 1, and their digits."""

    def __init__(self, indices: np.ndarray, noise: float) -> None:
        digits = load_digits()
        self.pixels = digits.images[indices, np.newaxis].astype(np.float32) / 16
        self.labels = digits.target[indices]
        self.noise = noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, np.ndarray | int]:
        pixels = self.pixels[index]
        noise = np.random.normal(scale=self.noise, size=pixels.shape).astype(np.float32)
        return {"pixel_values": pixels + noise, "labels": int(self.labels[index])}


def train_set() -> Digits:
    return Digits(np.flatnonzero(np.arange(1797) % HELD_BACK), noise=0.1)


def test_set() -> Digits:
    return Digits(np.flatnonzero(np.arange(1797) % HELD_BACK == 0), noise=0)
