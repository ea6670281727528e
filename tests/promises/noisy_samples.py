"""The user's datasets in failure schedules: samples of noise that tell who worked on them.

Each sample costs time, twenty times as much while a file of the worker's number says so. The
worker's own log says what it was doing when something happened to it: "<" a sample has begun,
">" it is ready (or has raised), "s" it was a slow one.
"""

import enum
import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data import register_codec, shard

FOLDER = Path(os.environ.get("CHAOS_FOLDER", "."))
LENGTH, BYTES, SECONDS = (float(word) for word in os.environ.get("CHAOS_DATA", "1 1 0").split())
#: Samples at both ends that never raise: more than there are in an incomplete last step and its
#: pads, so that no batch is without any sample.
_SOUND_ENDS = 18


NoiseOfSample = npt.NDArray[np.uint8]


def noise(size: int) -> NoiseOfSample:
    """Noise of a global generator."""
    return np.random.randint(0, 256, size, dtype=np.uint8)


def unseeded_noise(size: int) -> NoiseOfSample:
    """Noise of generators without a seed, in this thread and in one that it starts."""
    found = [np.random.default_rng().bytes(size // 2)]
    rest = size - size // 2
    thread = threading.Thread(target=lambda: found.append(random.Random().randbytes(rest)))
    thread.start()
    thread.join()
    return np.frombuffer(b"".join(found), np.uint8)


class Noise:
    log: int | None = None
    noise = staticmethod(noise)

    def __len__(self) -> int:
        return int(LENGTH)

    def sample(self, index: int) -> dict[str, object]:
        noise = self.noise(int(BYTES))
        if SECONDS:
            self.work()
        return {"id": index, "noise": noise}

    def work(self) -> None:
        me = str(os.getpid())
        if self.log is None:
            Noise.log = os.open(FOLDER / "work" / me, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(self.log, b"<")
        slow = (FOLDER / "slow" / me).exists()
        time.sleep(SECONDS * (20 if slow else 1))
        os.write(self.log, b"s>" if slow else b">")


class ByIndex(Noise):
    def __getitem__(self, index: int) -> dict[str, object]:
        return self.sample(index)


class PartlyBroken(ByIndex):
    def __getitem__(self, index: int) -> dict[str, object]:
        sample = super().__getitem__(index)
        if raises(index, len(self)):
            raise ValueError(f"sample {index} is broken")
        return sample


class InShards(Noise):
    """Can resume: a worker that is lost is followed by one that goes on from its state."""

    position = 0

    def __iter__(self) -> Iterator[dict[str, object]]:
        index, count = shard()
        for number in range(index, len(self), count)[self.position :]:
            self.position += 1
            yield self.sample(number)

    def state_dict(self) -> dict[str, object]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class UnseededByIndex(ByIndex):
    noise = staticmethod(unseeded_noise)


class UnseededInShards(InShards):
    noise = staticmethod(unseeded_noise)


class Quality(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Place:
    """A class of the user's with a codec."""

    def __init__(self, row: int, column: int) -> None:
        self.row, self.column = row, column

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.row, self.column))


register_codec(Place, encode=vars, decode=lambda fields: Place(**fields))


@dataclass
class Measurements:
    """A batch in types of the user's. Each field follows from the ids, but for the noise."""

    ids: list[int]
    noise: NoiseOfSample
    taken: list[datetime]
    quality: tuple[Quality, ...]
    places: dict[int, Place]

    def is_whole(self) -> bool:
        same = measure([{"id": index, "noise": self.noise[:0]} for index in self.ids])
        return all(
            vars(same)[name] == value for name, value in vars(self).items() if name != "noise"
        )


def measure(samples: list[dict[str, Any]]) -> Measurements:
    """A collate_fn."""
    ids = [int(sample["id"]) for sample in samples]
    return Measurements(
        ids=ids,
        noise=np.concatenate([sample["noise"] for sample in samples]),
        taken=[datetime(2026, 1, 1, index % 24, index % 60) for index in ids],
        quality=tuple(Quality.LOW if index % 3 else Quality.HIGH for index in ids),
        places={index: Place(index // 10, index % 10) for index in ids},
    )


def raises(index: int, length: int) -> bool:
    """Never two in a row: of a batch in the order of the ids, something is left."""
    return index % 3 == 1 and _SOUND_ENDS <= index < length - _SOUND_ENDS


def draw_ids(length: int, epoch: int, seed: int) -> list[int]:
    """A sampler: some samples come more than once, and some do not."""
    return random.Random(f"{seed} {epoch}").choices(range(length), k=length)


def draw_batches(length: int, epoch: int, seed: int) -> list[list[int]]:
    """A batch_sampler: batches of all sizes up to 6."""
    ids, sizes = draw_ids(length, epoch, seed), random.Random(seed + epoch)
    batches = []
    while ids:
        size = sizes.randint(1, 6)
        batches.append(ids[:size])
        ids = ids[size:]
    return batches
