"""Random bytes for batches, in files that all sides read, so that all carry the same."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Different batches that take turns: one that comes twice, late or not at all is seen.
COUNT = 3


def write(folder: Path, size: int) -> Path:
    """Fill a folder with batches of so many bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(COUNT):
        (folder / f"{index}.bin").write_bytes(np.random.default_rng(index).bytes(size))
    return folder


def read(folder: Path) -> list[np.ndarray]:
    """The batches of a folder, each a flat array of bytes."""
    return [np.fromfile(folder / f"{index}.bin", np.uint8) for index in range(COUNT)]


def long_tail(variation: float) -> np.ndarray:
    """Factors of a mean of 1, log-normal with such a deviation: some are far larger."""
    variance = np.log1p(variation**2)
    drawn = np.random.default_rng(0).lognormal(-variance / 2, np.sqrt(variance), 4096)
    return np.asarray(drawn / drawn.mean())


@dataclass(frozen=True)
class Expected:
    """What a batch should be: by its ends, at once, and by its checksum, which takes longer."""

    size: int
    ends: bytes
    checksum: int

    @classmethod
    def of(cls, batch: np.ndarray) -> Expected:
        return cls(batch.nbytes, _ends(batch), zlib.crc32(batch))

    def looks_like(self, batch: np.ndarray) -> bool:
        return batch.nbytes == self.size and _ends(batch) == self.ends

    def equals(self, batch: np.ndarray) -> bool:
        return batch.nbytes == self.size and zlib.crc32(batch) == self.checksum


def _ends(batch: np.ndarray) -> bytes:
    return batch[:8].tobytes() + batch[-8:].tobytes()
