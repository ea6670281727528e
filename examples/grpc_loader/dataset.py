"""What the servers prepare: the handwritten digits that come with scikit-learn."""

from __future__ import annotations

import functools

import numpy as np
from PIL import Image

SIZE = 28  # pixels of a side after resizing
HELD_BACK = 5  # every fifth image is for evaluation


@functools.cache
def _scans() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    from sklearn.datasets import load_digits  # takes seconds: only for those who prepare

    digits = load_digits()
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)  # 17 levels of grey, 0..16
    held_back = np.arange(len(grey)) % HELD_BACK == 0
    return {
        "train": (grey[~held_back], digits.target[~held_back]),
        "test": (grey[held_back], digits.target[held_back]),
    }


def length(split: str) -> int:
    """How many samples a split has; raises KeyError for an unknown one."""
    return len(_scans()[split][1])


def prepare(split: str, ids: np.ndarray, seed: int, epoch: int) -> dict[str, np.ndarray]:
    """The samples of one batch: a pure function, so it does not matter which server runs it."""
    scans, labels = _scans()[split]
    images = [_image(scans[i], split, (seed, epoch, int(i))) for i in ids]
    return {"ids": ids, "images": np.stack(images), "labels": labels[ids].astype(np.int64)}


def _image(scan: np.ndarray, split: str, seed: tuple[int, int, int]) -> np.ndarray:
    """float32 of 1 x SIZE x SIZE between 0 and 1; rotated, shifted and with noise for training."""
    image = Image.fromarray(scan).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    if split != "train":
        return np.asarray(image, dtype=np.float32)[np.newaxis] / 255
    random = np.random.default_rng(seed)
    shift = random.integers(-2, 3, size=2).tolist()
    image = image.rotate(random.uniform(-12, 12), Image.Resampling.BILINEAR, translate=shift)
    noise = random.normal(scale=0.05, size=(1, SIZE, SIZE))
    return np.clip(np.asarray(image, dtype=np.float32) / 255 + noise, 0, 1).astype(np.float32)
