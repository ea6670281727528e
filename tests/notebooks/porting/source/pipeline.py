"""What the data hosts serve: the numbers of a channel that only they get."""

import os
from pathlib import Path

import numpy as np


class Numbers:
    def __init__(self) -> None:
        text = Path(os.environ["SM_CHANNEL_NUMBERS"], "numbers.txt").read_text()
        self.values = [float(word) for word in text.split()]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> np.ndarray:
        return np.float32(self.values[index])


def numbers() -> Numbers:
    return Numbers()
