"""The digits of examples/digits, all of them, as tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import TensorDataset

SIZE = 28  # pixels of a side after resizing


def read(folder: Path) -> TensorDataset:
    """Images of 1 x SIZE x SIZE pixels from 0 to 1, and their labels."""
    files = sorted(folder.glob("*/*.png"))
    labels = [int(file.parent.name) for file in files]
    return TensorDataset(torch.stack([_pixels(file) for file in files]), torch.tensor(labels))


def _pixels(file: Path) -> torch.Tensor:
    with Image.open(file) as scan:
        image = scan.convert("L").resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(image, dtype=np.float32)[np.newaxis] / 255)
