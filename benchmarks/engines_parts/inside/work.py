"""The samples of all engines: JPEG files that are decoded and augmented, texts, and sleep.

What Python's engines run is here; `peers/tf_work.py` has the same steps as TensorFlow's operations.
"""

from __future__ import annotations

import io
import os
import random
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

#: Of `write`: the folder. Samples of a batch, the kind of work, and seconds that a sample sleeps.
FOLDER, BATCH, KIND, SLEEP = "BENCH_FOLDER", "BENCH_BATCH", "BENCH_KIND", "BENCH_SLEEP"

#: More samples than any window reads.
LENGTH = 1_000_000
FILES = 64
#: Pixels of a side in a file, and of what is cropped from it.
STORED, CROPPED = 320, 224
#: Token numbers, and the tokens of a sample: the texts are shorter, and padded by 0.
VOCABULARY, TOKENS = 32_000, 1024
SHORTEST = 800
#: Pixel values around which file `index` lies.
BRIGHTNESS = 40


def write(folder: Path) -> Path:
    """Fill a folder with images and texts, whose number says how bright and how long they are."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(0)
    words = [
        "".join(map(chr, draws.integers(97, 123, size))) for size in draws.integers(2, 10, 4000)
    ]
    for number in range(FILES):
        coarse = draws.integers(0, 60, (STORED // 8, STORED // 8, 3)) + BRIGHTNESS + 2 * number - 30
        smooth = Image.fromarray(coarse.astype(np.uint8)).resize((STORED, STORED))
        smooth.save(folder / f"{number}.jpg", quality=90)
        text = " ".join(words[index] for index in draws.integers(0, len(words), length(number)))
        (folder / f"{number}.txt").write_text(text)
    return folder


def length(index: int) -> int:
    """The words of text `index`."""
    return SHORTEST + index % FILES


@cache
def read(name: str) -> bytes:
    """A file of the folder; it is in memory after the first time, for all engines alike."""
    return (Path(os.environ[FOLDER]) / name).read_bytes()


def image(index: int) -> np.ndarray:
    """Decode, crop at random, flip at random: uint8."""
    with Image.open(io.BytesIO(read(f"{index % FILES}.jpg"))) as stored:
        left, top = (random.randint(0, STORED - CROPPED) for _ in range(2))
        pixels = stored.convert("RGB").crop((left, top, left + CROPPED, top + CROPPED))
    if random.random() < 0.5:
        pixels = pixels.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(pixels)


def tokens(index: int) -> np.ndarray:
    """Split at blanks and hash each word to its number, 1 and up; pad with 0."""
    words = read(f"{index % FILES}.txt").split()
    padded = np.zeros(TOKENS, np.int32)
    padded[: len(words)] = [1 + zlib.crc32(word) % (VOCABULARY - 1) for word in words]
    return padded


def asleep(index: int) -> np.ndarray:
    """Nothing: the sleep is one for a whole batch, since to wake up costs processor time."""
    return np.full(3072, index % 251, np.uint8)


WORK = {"images": image, "tokens": tokens, "sleeping": asleep}
SHAPES = {
    "images": ((CROPPED, CROPPED, 3), np.uint8),
    "tokens": ((TOKENS,), np.int32),
    "sleeping": ((3072,), np.uint8),
}
