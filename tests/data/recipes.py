"""Datasets that are made by a recipe: where they draw, and from which source."""

from __future__ import annotations

import _thread
import os
import random
import secrets
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.random import (
    MT19937,
    PCG64,
    PCG64DXSM,
    SFC64,
    Generator,
    Philox,
    RandomState,
    SeedSequence,
    default_rng,
)

BIT_GENERATORS = (MT19937, PCG64, PCG64DXSM, Philox, SFC64)


def in_raw_thread(draw: Callable[[], float]) -> float:
    drawn: list[float] = []
    ended = threading.Event()
    _thread.start_new_thread(lambda: (drawn.append(draw()), ended.set()), ())
    ended.wait()
    return drawn[0]


def read_device(size: int) -> bytes:
    with open("/dev/urandom", "rb", buffering=0) as device:  # noqa: PTH123 - as datasets do
        return device.read(size)


def number_of(data: bytes) -> float:
    return float(int.from_bytes(data, "big") % 10**12)


def of_system(source: random.SystemRandom) -> float:
    return source.random() + source.getrandbits(20) + source.choice(source.randbytes(5))


#: Sources of numbers that are forced to ours, and those that are not, but found.
FORCED: dict[str, Callable[[], float]] = {
    "default_rng": lambda: float(default_rng().random()),
    "SeedSequence": lambda: float(default_rng(SeedSequence().spawn(3)[2]).random()),
    "RandomState": lambda: float(RandomState().normal()),
    "np.random": lambda: float(np.random.random()),
    "np.random.seed": lambda: (np.random.seed(), float(np.random.random()))[1],
    "Random": lambda: random.Random().random(),
    "random": random.random,
    "random.seed": lambda: (random.seed(), random.random())[1],
    "SystemRandom": lambda: of_system(random.SystemRandom()),
    "torch": lambda: torch.rand(()).item(),
    "torch.seed": lambda: (torch.seed(), torch.rand(()).item())[1],
    "Generator.seed": lambda: float(torch.Generator().seed() % 10**12),  # sums keep all digits
    "hash": lambda: float(hash("text") % 1000),
    **{
        kind.__name__: lambda kind=kind: float(Generator(kind()).random())
        for kind in BIT_GENERATORS
    },
}
FOUND: dict[str, Callable[[], float]] = {
    "urandom": lambda: number_of(os.urandom(8)),
    "getrandom": lambda: number_of(os.getrandom(8)),
    "/dev/urandom": lambda: number_of(read_device(8)),
    "tempfile": lambda: number_of(next(tempfile._get_candidate_names()).encode()),  # type: ignore[attr-defined]
    "_thread": lambda: in_raw_thread(FORCED["default_rng"]),
    "secrets": lambda: float(secrets.randbits(40)),
    "uuid4": lambda: float(uuid.uuid4().int % 10**12),
    "uuid1": lambda: float(uuid.uuid1().time % 10**12),
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


def in_task(draw: Callable[[], float]) -> float:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(draw).result()


class Sampling:
    """Draws from sources in its constructor, for its samples, in their threads and later on.

    made, drawn, threaded, tasks, collated: the sources there. kept: generators that it keeps.
    """

    def __init__(
        self,
        made: list[str],
        drawn: list[str],
        threaded: list[str],
        tasks: list[str],
        kept: list[str],
        collated: list[str],
    ) -> None:
        self.base = sum(SOURCES[name]() for name in made)
        self.drawn, self.threaded, self.tasks = drawn, threaded, tasks
        self.kept = [(KEPT | KEPT_AND_FOUND)[name]() for name in kept]
        COLLATED[:] = collated

    def sample(self, index: int) -> np.ndarray:
        numbers = [self.base, *(SOURCES[name]() for name in self.drawn)]
        numbers += [in_thread(SOURCES[name]) for name in self.threaded]
        numbers += [in_task(SOURCES[name]) for name in self.tasks]
        numbers += [float(generator.random()) for generator in self.kept]
        return np.array([float(index), *numbers])


class Recipe(Sampling):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> np.ndarray:
        return self.sample(index)


class RecipeStream(Sampling):
    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.sample, range(6))


class OfTorch:
    """A generator of torch's, with the method of the others."""

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def random(self) -> float:
        return torch.rand((), generator=self.generator).item()


class OfTorchSeeded(OfTorch):
    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)


class OfSequence:
    """Draws from what it spawns."""

    def __init__(self) -> None:
        self.sequence = SeedSequence(3)

    def random(self) -> float:
        return float(default_rng(self.sequence.spawn(1)[0]).random())


#: Generators that a dataset keeps, and one whose state follows from the samples before.
KEPT: dict[str, Callable[[], Any]] = {
    "default_rng": default_rng,
    "seeded": lambda: default_rng(3),
    "Random": random.Random,
    "RandomState": RandomState,
    "torch.Generator": OfTorch,
    "torch.Generator, seeded": OfTorchSeeded,
    **{f"{kind.__name__}, seeded": lambda kind=kind: Generator(kind(3)) for kind in BIT_GENERATORS},
}
KEPT_AND_FOUND: dict[str, Callable[[], Any]] = {"spawning": OfSequence}

#: The sources from which the collate_fn draws, those of the latest recipe.
COLLATED: list[str] = []


def collate_with_noise(samples: list[np.ndarray]) -> np.ndarray:
    noise = [SOURCES[name]() for name in COLLATED]
    return np.stack(samples) + float(default_rng().random()) + random.random() + sum(noise)
