"""A module that draws numbers, seeds generators and starts a thread when it is imported."""

from __future__ import annotations

import random
import threading

import numpy as np
import torch


class Monitor(threading.Thread):
    """Ends at once; started once in a process, as the monitor of progress bars is."""


OWN = random.Random().random() + np.random.default_rng().random() + np.random.random()
np.random.seed(0)
random.seed(0)
torch.manual_seed(0)
Monitor(daemon=True).start()


def number() -> float:
    """A number of each kind, those of another thread too."""
    drawn: list[float] = []

    def draw() -> None:
        drawn.append(random.Random().random() + float(np.random.default_rng().random()))

    draw()
    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    return sum(drawn) + random.random() + float(np.random.random()) + torch.rand(()).item()
