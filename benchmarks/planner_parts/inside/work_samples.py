"""The datasets of six workloads, which a job's variables choose; each is a function's own work."""

import os
import time
import zlib

import numpy as np

LENGTH = 200_000
_FACTORS = np.random.default_rng(7).lognormal(-0.5 * np.log(2), np.sqrt(np.log(2)), 1024)


def _burn(units):
    """Arithmetic that holds the interpreter, in units of some microseconds."""
    total = 0
    for number in range(int(units * 100)):
        total += number * number
    return total


class Samples:
    """size: bytes of a sample. make: what is done for each."""

    def __init__(self, size, make):
        self._size, self._make = size, make

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        self._make(index)
        return np.full(self._size, index % 251, np.uint8)


class Images(Samples):
    """Compressed images of 64 x 64 pixels, which are decoded and flipped."""

    def __init__(self):
        super().__init__(0, None)
        rng = np.random.default_rng(3)
        pixels = rng.integers(0, 255, (16, 64, 64, 3), np.uint8) // 8
        self._packed = [zlib.compress(each.tobytes(), 9) for each in pixels]

    def __getitem__(self, index):
        raw = zlib.decompress(self._packed[index % len(self._packed)])
        image = np.frombuffer(raw, np.uint8).reshape(64, 64, 3)
        for _ in range(8):
            image = np.ascontiguousarray(image[:, ::-1])
        return image.astype(np.float32).transpose(2, 0, 1) / 255, index % 10


def light():
    return Samples(3_000, lambda _: _burn(20))


def heavy():
    return Samples(3_000, lambda _: _burn(1200))


def skewed():
    return Samples(3_000, lambda index: _burn(400 * _FACTORS[index % len(_FACTORS)]))


def large():
    return Samples(1_500_000, lambda _: _burn(30))


def remote():
    """Samples of a storage that answers after 8 ms."""
    return Samples(3_000, lambda _: (time.sleep(0.008), _burn(20)))


def images():
    return Images()


def train_set():
    return globals()[os.environ["BENCH_WORKLOAD"]]()
