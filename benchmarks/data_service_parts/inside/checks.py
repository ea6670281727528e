"""What batches should be: a wrong, lost, doubled or late one is counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import payload
import variables


class Check(Protocol):
    """size: bytes of a batch."""

    size: int

    def looks_right(self, batch: Any, step: int) -> bool:
        """Quickly, inside a timed window."""

    def is_right(self, batch: Any, step: int) -> bool:
        """Thoroughly."""


class Payloads:
    """Flat batches of bytes, the payload's files by turns."""

    def __init__(self) -> None:
        batches = payload.read(Path(os.environ[variables.PAYLOAD]))
        self._expected = [payload.Expected.of(batch) for batch in batches]
        self.size = self._expected[0].size

    def looks_right(self, batch: np.ndarray, step: int) -> bool:
        return self._expected[step % payload.COUNT].looks_like(batch)

    def is_right(self, batch: np.ndarray, step: int) -> bool:
        return self._expected[step % payload.COUNT].equals(batch)


class Indices:
    """Pairs of (samples, their indices), where step k has the k-th so many of a dataset."""

    def __init__(self, samples: int, sample_bytes: int) -> None:
        self._samples = samples
        self.size = samples * sample_bytes

    def looks_right(self, batch: Any, step: int) -> bool:
        data, indices = batch
        first = step * self._samples
        return len(data) == self._samples and (int(indices[0]), int(indices[-1])) == (
            first,
            first + self._samples - 1,
        )

    def is_right(self, batch: Any, step: int) -> bool:
        data, indices = (np.asarray(part) for part in batch)
        expected = np.arange(step * self._samples, (step + 1) * self._samples)
        return bool((indices == expected).all() and (data == (expected % 251)[:, None]).all())
