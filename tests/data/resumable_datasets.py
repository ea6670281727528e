"""Iterable datasets with a state, exact or not; each counts the samples that it was asked for."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from launcher.data import shard

LENGTH = 800
asked: list[int] = []


def ask_for(number: int) -> None:
    """Count a sample; in a job with one byte, and kill -9 the process at some."""
    asked.append(number)
    if "ASKED" not in os.environ:
        return
    with Path(os.environ["ASKED"]).open("ab", buffering=0) as file:
        file.write(b".")
        count = file.tell()  # of all processes, and of none twice
    time.sleep(0.002)
    if str(count) in os.environ.get("KILL_AT", "").split():
        os.kill(os.getpid(), signal.SIGKILL)


class Lines:
    """Exact: draws an order at its start and noise for each sample, from the global generators."""

    position = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        index, count = shard()
        for number in self.order(range(index, LENGTH, count)):
            ask_for(number)
            self.position += 1
            yield {"id": number, "noise": np.random.rand(2), "coin": self.coin()}

    def order(self, numbers: range) -> list[int]:
        return list(numbers)[self.position :]

    def coin(self) -> float:
        return random.random()

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "seen": np.arange(3), "of": {1: ("a", None)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["of"] == {1: ("a", None)}
        self.position = state["position"]


class Shuffled(Lines):
    """Exact: an order by a generator of its own in the frame of the iterator."""

    def order(self, numbers: range) -> list[int]:
        mixed = list(numbers)
        random.Random(3).shuffle(mixed)
        return mixed[self.position :]


class Held(Lines):
    """Exact, since Launcher keeps the generators that a dataset holds."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def coin(self) -> float:
        return float(self.rng.random())


class Late(Lines):
    """Not exact: the state is one sample behind."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "position": self.position - 1}


class Refilled(Lines):
    """Not exact: the samples in its buffer are lost, as in Hugging Face's shuffle."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        generator, buffer = random.Random(4), list[dict[str, Any]]()
        for sample in super().__iter__():
            if len(buffer) < 20:
                buffer.append(sample)
                continue
            place = generator.randrange(20)
            yield buffer[place]
            buffer[place] = sample
        yield from buffer


class Rare(Lines):
    """Not exact: it draws from a generator in a frame, and the first samples do not show it."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        generator = random.Random(4)
        for sample in super().__iter__():
            drawn = generator.random()
            yield {**sample, "coin": drawn if sample["id"] > 600 else 0.0}


class Diverging(Lines):
    """Not exact: after a state is loaded, some later samples differ, by no generator."""

    is_loaded = False

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.is_loaded = True

    def coin(self) -> float:
        return 2.0 if self.is_loaded and self.position % 100 == 99 else super().coin()


class Raising(Lines):
    """Not exact: it needs arguments, as those of litdata and mosaicml-streaming do."""

    def state_dict(self, samples: int, workers: int) -> dict[str, Any]:  # type: ignore[override]
        return {}


class Large(Lines):
    """Not kept: its state is too large."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "pad": np.zeros(1 << 18, np.uint8)}


class Drawing(Lines):
    """Exact, though its state_dict draws from the generators of the samples."""

    def state_dict(self) -> dict[str, Any]:
        np.random.rand()
        np.random.default_rng()
        return {**super().state_dict(), "drawn": random.random()}


# Of libraries -----------------------------------------------------------------------------------


def rows(parts: list[int]) -> Iterator[dict[str, int]]:
    for part in parts:
        for number in range(part * 100, part * 100 + 100):
            yield {"id": number}


def hugging_face(buffer: int | None = None) -> Any:
    import datasets

    stream = datasets.IterableDataset.from_generator(rows, gen_kwargs={"parts": list(range(8))})
    if buffer is not None:
        return stream.shuffle(seed=3, buffer_size=buffer)
    return stream.map(lambda row: {**row, "noise": np.random.rand()})


def hugging_face_shuffled() -> Any:
    return hugging_face(50)


class Numbers:
    def __iter__(self) -> Iterator[int]:
        index, count = shard()
        return iter(range(index, LENGTH, count))


def nodes() -> Any:
    from torchdata import nodes

    node = nodes.IterableWrapper(Numbers())
    node = nodes.ParallelMapper(node, lambda number: {"id": number}, 2, method="thread")
    return nodes.Loader(nodes.Prefetcher(node, prefetch_factor=4))


EXACT = {kind.__name__: kind for kind in (Lines, Shuffled, Held, Drawing)}
