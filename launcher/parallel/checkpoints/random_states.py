"""The random states of a rank, as plain values."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from launcher.parallel.randomness import seed_from


def random_states(device: torch.device) -> dict[str, object]:
    """Return the states of Python, numpy and torch in this process, and of its GPU."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore(states: Mapping[str, Any], device: torch.device) -> None:
    """Restore the states that `random_states` returned."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)


def reseed(*, step: int, rank: int) -> None:
    """Seed a rank that has no saved random states."""
    seed_from("step", step, "rank", rank)
