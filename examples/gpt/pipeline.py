"""The datasets: windows of characters, and the same one character later. numpy is enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np

TEXT = (Path(__file__).parent / "sonnets.txt").read_text()
CHARACTERS = sorted(set(TEXT))
LENGTH = 48  # characters of a window
LEARNED, _, JUDGED = TEXT.rpartition("\n\n")  # the last sonnet is held back


class Windows:
    """Windows of a text that begin every few characters, as (characters, those that follow)."""

    def __init__(self, text: str, every: int) -> None:
        self.ids = np.array([CHARACTERS.index(character) for character in text])
        self.every = every

    def __len__(self) -> int:
        return (len(self.ids) - LENGTH - 1) // self.every + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        start = index * self.every
        window = self.ids[start : start + LENGTH + 1]
        return window[:-1], window[1:]


def train_set() -> Windows:
    return Windows(LEARNED, every=9)


def validation_set() -> Windows:
    return Windows(JUDGED, every=LENGTH)
