"""What a rank does in a step, and what is measured of it."""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import dataclass

#: Lines that a rank prints in a step, and the seconds that it computes besides.
LINES, COMPUTING_SECONDS = 1000, 0.007
_BLOCK = bytes(16384)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A rank's median step in seconds, all lines that it printed, and how many a second."""

    step: float
    lines: int
    lines_a_second: float


def compute(blocks: int) -> None:
    """Hash so many blocks: the processor's work alone, the same in each step."""
    for _ in range(blocks):
        hashlib.sha256(_BLOCK)


def blocks_of_a_step() -> int:
    """Return how many blocks this machine hashes in `COMPUTING_SECONDS`."""
    seconds = []
    for _ in range(20):
        started = time.perf_counter()
        compute(100)
        seconds.append(time.perf_counter() - started)
    return max(1, round(100 * COMPUTING_SECONDS / statistics.median(seconds)))
