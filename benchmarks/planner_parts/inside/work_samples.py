"""The datasets of six workloads, which a job's variables choose; each is a function's own work."""

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


class Speech:
    """Spectrograms of a second of sound."""

    def __init__(self):
        self._sound = np.random.default_rng(5).standard_normal(32_000).astype(np.float32)
        self._window = np.hanning(512).astype(np.float32)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        start = index % 16_000
        sound = self._sound[start : start + 16_000]
        frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::32] * self._window
        return np.log1p(np.abs(np.fft.rfft(frames, axis=1))).astype(np.float32)


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


class Pictures:
    """Images of 64 x 64 pixels, which are shifted, scaled and made noisy."""

    def __init__(self):
        self._images = np.random.default_rng(31).random((256, 64, 64), np.float32)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        image = np.roll(self._images[index % 256], rng.integers(-3, 4, 2), (0, 1))
        image = image * rng.uniform(0.8, 1.2) + rng.normal(0, 0.1, image.shape)
        return image.astype(np.float32).ravel(), index % 10


KINDS = {
    kind.__name__.lower(): kind for kind in (Tokens, Speech, Records, Volumes, Stored, Pictures)
}


def train_set():
    return KINDS[os.environ["BENCH_WORKLOAD"]]()
