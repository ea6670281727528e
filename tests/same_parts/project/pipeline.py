"""Samples with random augmentation, of numpy and torch; one of them kills its worker once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import torch


class Samples:
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if index == 40 and os.environ.get("DIES_ONCE"):
            self._die_once(Path(os.environ["DIES_ONCE"]))
        fixed = np.random.default_rng(index).normal(size=256)
        drawn = np.random.normal(size=256) + torch.rand(256).numpy()
        return (fixed + 0.1 * drawn).astype("float32"), index

    @staticmethod
    def _die_once(mark: Path) -> None:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def train_set() -> Samples:
    return Samples()
