"""Datasets that draw their numbers from each source of entropy that Python offers."""

from __future__ import annotations

import copy
import os
import pickle
import random
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState, default_rng
from recipes import FORCED

from launcher.data import shard

#: A module's own generators, made when it is imported.
NUMPY, PYTHON = default_rng(), random.Random()
HOLDER = SimpleNamespace(numpy=RandomState())


class Drawing:
    """Eight samples, each of one number."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> np.float64:
        return np.float64(self.draw())

    def draw(self) -> float:
        raise NotImplementedError


class EachSource(Drawing):
    """Samples of one number from each source that has another one each time."""

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override] # several numbers
        return np.array([draw() for name, draw in FORCED.items() if name != "hash"])


class Numpy(Drawing):
    def draw(self) -> float:
        return float(default_rng().random())


class OfModule(Drawing):
    def draw(self) -> float:
        return float(NUMPY.random()) + PYTHON.random()


class OfClass(Drawing):
    numpy, python = default_rng(), random.Random(2)

    def draw(self) -> float:
        return float(self.numpy.random()) + self.python.random() + HOLDER.numpy.normal()


class Kept(Drawing):
    """Makes its generators in the constructor."""

    seed: int | None = None

    def __init__(self) -> None:
        self.numpy, self.python = default_rng(self.seed), random.Random(self.seed)
        self.legacy, self.torch = RandomState(self.seed), torch.Generator()
        if self.seed is None:
            self.torch.seed()
        else:
            self.torch.manual_seed(self.seed)

    def draw(self) -> float:
        drawn = self.python.gauss(0, 1) + self.legacy.normal()
        return float(self.numpy.random() + drawn) + torch.rand((), generator=self.torch).item()


class KeptSeeded(Kept):
    seed = 4


class KeptUnseeded(Drawing):
    """Keeps generators of torch that nothing seeds, or that are given a state."""

    def __init__(self) -> None:
        self.plain, self.given = torch.Generator(), torch.Generator()
        self.given.set_state(torch.Generator().manual_seed(3).get_state())

    def draw(self) -> float:
        drawn = torch.rand((), generator=self.plain).item()
        return drawn + torch.rand((), generator=self.given).item()


class KeptCopies(Drawing):
    """Keeps copies of generators, which constructors alone have not made."""

    def __init__(self) -> None:
        self.numpy, self.python = copy.deepcopy(default_rng(3)), random.Random()
        self.python.setstate(random.Random(3).getstate())
        self.pickled = pickle.loads(pickle.dumps(RandomState(3)))

    def draw(self) -> float:
        return float(self.numpy.random()) + self.python.random() + self.pickled.normal()


class KeptLater(Kept):
    """Makes them at its first sample."""

    def __init__(self) -> None:
        self.is_made = False

    def draw(self) -> float:
        if not self.is_made:
            self.is_made = bool(default_rng().random())
            Kept.__init__(self)
        return super().draw() + float(default_rng().random())


class KeptSeededLater(KeptLater):
    seed = 4


class Reseeding(KeptSeeded):
    """Seeds two of its generators in every second sample."""

    loaded = 0

    def __getitem__(self, index: int) -> np.float64:
        Reseeding.loaded += 1
        if index % 2 == 0:
            self.python.seed(index)
            self.torch.manual_seed(index)
        return super().__getitem__(index)


class Spawning(Kept):
    def draw(self) -> float:
        return float(self.numpy.spawn(2)[1].random())


class Threads(Drawing):
    def draw(self) -> float:
        drawn: dict[int, float] = {}

        def note(number: int) -> None:
            drawn[number] = float(default_rng().random()) + random.Random().random()

        threads = [threading.Thread(target=note, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(drawn[number] * 10**number for number in range(3))  # in whichever order they end


def run_in_thread(target: Callable[[int], object]) -> None:
    thread = threading.Thread(target=target, args=(0,))
    thread.start()
    thread.join()


class Tasks(Drawing):
    """One pool of threads for all samples."""

    pool: ThreadPoolExecutor | None = None

    def draw(self) -> float:
        self.pool = self.pool or ThreadPoolExecutor(2)
        drawn = self.pool.map(lambda _: default_rng().random(), range(5))
        return float(sum(value * 10**number for number, value in enumerate(drawn)))


class TasksOnce(Drawing):
    """Fills a cache by tasks and a thread at its first sample; the others have it."""

    cache: tuple[int, ...] = ()

    def draw(self) -> float:
        with ThreadPoolExecutor(2) as pool:
            if not self.cache:
                self.cache = tuple(pool.map(int, range(3)))
                run_in_thread(self.cache.count)
            drawn = list(pool.map(lambda _: default_rng().random(), range(2)))
        run_in_thread(lambda _: drawn.append(random.Random().random()))
        return float(sum(drawn))


class Forking(Drawing):
    def draw(self) -> float:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writing, repr(float(default_rng().random())).encode())
            os._exit(0)
        os.waitpid(child, 0)
        drawn = float(os.read(reading, 99))
        os.close(reading)
        os.close(writing)
        return drawn + float(default_rng().random())


class Importing(Drawing):
    """Imports a module that draws, seeds and starts a thread, once in a process."""

    def draw(self) -> float:
        import draws_when_imported

        return draws_when_imported.number()


class Keys(Drawing):
    seed_system_entropy = True

    def draw(self) -> float:
        drawn = int.from_bytes(os.urandom(3), "big") + int.from_bytes(os.getrandom(3), "big")
        return secrets.randbelow(99) + uuid.uuid4().int / 2**128 + drawn


class OrderOfSet(Drawing):
    def draw(self) -> float:
        return random.random() + next(len(word) for word in {"a", "bb", "ccc", "dddd"})


ALL: list[Any] = [
    *(
        EachSource,
        Numpy,
        OfModule,
        OfClass,
        Kept,
        KeptSeeded,
        KeptLater,
        KeptSeededLater,
        Reseeding,
        Spawning,
    ),
    *(KeptUnseeded, KeptCopies),
    *(Threads, Tasks, TasksOnce, Forking, Importing, Keys, OrderOfSet),
]


class StreamOfNumbers:
    """Imports what draws its numbers in the constructor, or where it is read."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.first = self._number("constructor")

    def __iter__(self) -> Iterator[float]:
        for _ in range(4):
            yield self.first + self._number("first sample")

    def _number(self, place: str) -> float:
        if self.where == place:
            import draws_when_imported

            return draws_when_imported.number()
        return random.Random().random() + float(np.random.random())


def keys_of_a_function() -> object:
    return Numpy()


def steady_lines() -> Iterator[float]:
    """An iterable dataset that draws, and repeats itself."""
    index, _ = shard()
    generator = default_rng()
    for number in range(8):
        yield 100.0 * index + number + float(generator.random()) + random.Random().random()
