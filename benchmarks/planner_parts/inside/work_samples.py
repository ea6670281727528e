"""The datasets of four workloads, which a job's variables choose; each is a function's own work."""

import json
import os
import time
import zlib

import numpy as np

LENGTH = 200_000


def _burn(units):
    """Arithmetic that holds the interpreter, in units of some microseconds."""
    total = 0
    for number in range(int(units * 100)):
        total += number * number
    return total


class Tokens:
    """Short texts, whose words are numbered."""

    def __init__(self):
        self._words = [f"word{number}" for number in range(5000)]
        self._ids = {word: number for number, word in enumerate(self._words)}
        rng = np.random.default_rng(11)
        self._texts = [" ".join(rng.choice(self._words, 300)) for _ in range(64)]

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        words = self._texts[index % len(self._texts)].split()
        return np.array([self._ids.get(word.lower(), 0) for word in words], np.int32)


class Records:
    """JSON of very different length."""

    def __init__(self):
        rng = np.random.default_rng(17)
        sizes = np.clip(rng.lognormal(6.8, 1.0, 512), 5, 30_000).astype(int)
        self._texts = [
            json.dumps(
                [{"id": int(n), "at": float(n) / 7, "name": f"item {n}"} for n in range(size)]
            )
            for size in sizes
        ]

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        rows = json.loads(self._texts[index % len(self._texts)])
        return np.array([len(rows), sum(row["at"] for row in rows)], np.float64)


class Volumes:
    """Arrays of 2 MB, which are normalised."""

    def __init__(self):
        self._raw = np.random.default_rng(23).integers(0, 4096, (4, 64, 64, 128), np.int16)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        volume = self._raw[index % len(self._raw)].astype(np.float32)
        return (volume - volume.mean()) / volume.std()


class Stored:
    """Compressed files of a storage that answers after 4 ms."""

    def __init__(self):
        rng = np.random.default_rng(29)
        self._packed = zlib.compress((rng.integers(0, 9, 40_000) ** 2).astype(np.uint8).tobytes())

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        time.sleep(0.004)
        return np.frombuffer(zlib.decompress(self._packed), np.uint8)[index % 8 :: 8].copy()


KINDS = {kind.__name__.lower(): kind for kind in (Tokens, Records, Volumes, Stored)}


def train_set():
    return KINDS[os.environ["BENCH_WORKLOAD"]]()
