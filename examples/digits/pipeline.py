"""The datasets that the data hosts serve: ordinary map-style Datasets of image files.

Nothing here knows of Launcher, and torch is not needed: Pillow and numpy do the work. The random
draws use the global generators of `numpy.random` and `random`, which the data service seeds anew
for every sample: a sample looks the same whichever host prepares it, and different in each epoch.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 28  # pixels of a side after resizing


class Digits:
    """Image files in one folder per label, as (float32 array of 1 x SIZE x SIZE, label)."""

    def __init__(self, files: Sequence[Path], augment: bool) -> None:
        self.files = files
        self.augment = augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        file = self.files[index]
        with Image.open(file) as scan:
            image = scan.convert("L").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        if self.augment:
            image = rotate_and_shift(image)
        pixels = np.asarray(image, dtype=np.float32)[np.newaxis] / 255
        if self.augment:
            pixels = add_noise(pixels)
        return pixels, int(file.parent.name)


def rotate_and_shift(image: Image.Image, degrees: float = 12, pixels: int = 2) -> Image.Image:
    angle = random.uniform(-degrees, degrees)
    shift = (random.randint(-pixels, pixels), random.randint(-pixels, pixels))
    return image.rotate(angle, resample=Image.Resampling.BILINEAR, translate=shift)


def add_noise(pixels: np.ndarray, deviation: float = 0.05) -> np.ndarray:
    noise = np.random.normal(scale=deviation, size=pixels.shape).astype(np.float32)
    return np.clip(pixels + noise, 0, 1)


def train_set() -> Digits:
    return Digits(files_of("train"), augment=True)


def test_set() -> Digits:
    return Digits(files_of("test"), augment=False)


def files_of(split: str) -> list[Path]:
    """The image files of a split, in the same order on every host."""
    channel = Path(os.environ["SM_CHANNEL_DIGITS"])
    return sorted((channel / split).glob("*/*.png"))
