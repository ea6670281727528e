"""Datasets that are made by a recipe: where they draw, and from which source."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable

import numpy as np
import torch
from numpy.random import RandomState, SeedSequence, default_rng

#: Sources of numbers that are forced to ours, and those that are not, but found.
FORCED: dict[str, Callable[[], float]] = {
    "default_rng": lambda: float(default_rng().random()),
    "SeedSequence": lambda: float(SeedSequence().generate_state(1)[0]),
    "RandomState": lambda: float(RandomState().normal()),
    "np.random": lambda: float(np.random.random()),
    "np.random.seed": lambda: (np.random.seed(), float(np.random.random()))[1],
    "Random": lambda: random.Random().random(),
    "random": random.random,
    "random.seed": lambda: (random.seed(), random.random())[1],
    "SystemRandom": lambda: random.SystemRandom().random(),
    "torch": lambda: torch.rand(()).item(),
    "torch.seed": lambda: (torch.seed(), torch.rand(()).item())[1],
    "Generator.seed": lambda: float(torch.Generator().seed() % 10**12),  # sums keep all digits
    "hash": lambda: float(hash("text") % 1000),
}
FOUND: dict[str, Callable[[], float]] = {
    "urandom": lambda: float(int.from_bytes(os.urandom(6), "big")),
    "secrets": lambda: float(secrets.randbits(40)),
    "uuid4": lambda: float(uuid.uuid4().int % 10**12),
    "time": lambda: float(time.perf_counter_ns() % 10**12),
    "process": lambda: float(os.getpid()),
    "address": lambda: float(id(object()) % 10**12) + time.perf_counter_ns() % 10**9,
}
SOURCES = FORCED | FOUND


def in_thread(draw: Callable[[], float]) -> float:
    drawn: list[float] = []
    thread = threading.Thread(target=lambda: drawn.append(draw()))
    thread.start()
    thread.join()
    return drawn[0]


class Recipe:
    """Draws from sources in its constructor, for its samples, in their threads and later on.

    made, drawn, threaded, collated: the sources there. kept: generators that it keeps.
    """

    def __init__(
        self, made: list[str], drawn: list[str], threaded: list[str], kept: list[str]
    ) -> None:
        self.base = sum(SOURCES[name]() for name in made)
        self.drawn, self.threaded = drawn, threaded
        self.kept = [_KEPT[name]() for name in kept]

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> np.ndarray:
        numbers = [self.base, *(SOURCES[name]() for name in self.drawn)]
        numbers += [in_thread(SOURCES[name]) for name in self.threaded]
        numbers += [float(generator.random()) for generator in self.kept]
        return np.array([float(index), *numbers])


_KEPT: dict[str, Callable[[], object]] = {
    "default_rng": default_rng,
    "seeded": lambda: default_rng(3),
    "Random": random.Random,
    "RandomState": RandomState,
}
KEPT = list(_KEPT)


def collate_with_noise(samples: list[np.ndarray]) -> np.ndarray:
    return np.stack(samples) + float(default_rng().random()) + random.random()
