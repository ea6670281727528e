"""The user's datasets in failure schedules: samples of noise that tell who worked on them.

Each sample costs time, twenty times as much while a file of the worker's number says so. The
worker's own log says what it was doing when something happened to it: "<" a sample has begun,
">" it is ready (or has raised), "s" it was a slow one.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from launcher.data import shard

FOLDER = Path(os.environ.get("CHAOS_FOLDER", "."))
LENGTH, BYTES, SECONDS = (float(word) for word in os.environ.get("CHAOS_DATA", "1 1 0").split())
#: Samples at both ends that never raise: more than there are in an incomplete last step and its
#: pads, so that no batch is without any sample.
_SOUND_ENDS = 18


class Noise:
    log: int | None = None

    def __len__(self) -> int:
        return int(LENGTH)

    def sample(self, index: int) -> dict[str, object]:
        noise = np.random.randint(0, 256, int(BYTES), dtype=np.uint8)
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
    def __iter__(self) -> Iterator[dict[str, object]]:
        index, count = shard()
        return map(self.sample, range(index, len(self), count))


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
