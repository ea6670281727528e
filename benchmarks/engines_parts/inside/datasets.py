"""The dataset of Launcher's engine and of torch's DataLoader."""

from __future__ import annotations

import os
import time

import numpy as np
import work


class Samples:
    def __init__(self, kind: str) -> None:
        self._make = work.WORK[kind]
        self._seconds = float(os.environ.get(work.SLEEP, 0))

    def __len__(self) -> int:
        return work.LENGTH

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self._make(index), index

    def __getitems__(self, indices: list[int]) -> list[tuple[np.ndarray, int]]:
        if self._seconds:
            time.sleep(len(indices) * self._seconds)
        return [self[index] for index in indices]


def samples() -> Samples:
    return Samples(os.environ[work.KIND])
