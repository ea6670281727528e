"""What batches of any engine should be, in whatever order they come."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import work


class Samples:
    """Pairs of (samples, their indices): the right number and shape, and none that came before."""

    def __init__(self) -> None:
        self._kind = os.environ[work.KIND]
        self._count = int(os.environ[work.BATCH])
        self._shape, self._dtype = work.SHAPES[self._kind]
        self._seen: set[int] = set()
        self.size = self._count * int(np.prod(self._shape)) * np.dtype(self._dtype).itemsize

    def looks_right(self, batch: Any, step: int) -> bool:
        data, indices = batch
        before = len(self._seen)
        self._seen.update(map(int, indices))
        return (
            tuple(data.shape) == (self._count, *self._shape)
            and len(self._seen) == before + self._count
        )

    def is_right(self, batch: Any, step: int) -> bool:
        data, indices = (np.asarray(part) for part in batch)
        if not self.looks_right((data, indices), step) or data.dtype != self._dtype:
            return False
        return all(map(self._fits, data, map(int, indices)))

    def _fits(self, sample: np.ndarray, index: int) -> bool:
        if self._kind == "images":
            return abs(sample.mean() - work.BRIGHTNESS - 2 * (index % work.FILES)) < 10
        if self._kind == "tokens":
            return int((sample > 0).sum()) == work.length(index)
        return bool((sample == index % 251).all())
