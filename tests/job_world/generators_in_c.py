"""Datasets whose samples draw from generators of libraries in C, which nobody seeds."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np


def of_cv2() -> Any:
    import cv2

    return cv2.randu(np.zeros(3, np.float32), 0, 1)


@functools.cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models

    merges = [("abcdefgh"[:end], "abcdefgh"[end]) for end in range(1, 8)]
    words = [*"abcdefgh", *(first + second for first, second in merges)]
    vocabulary = {word: number for number, word in enumerate(words)}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, dropout=0.5))


def of_tokenizers() -> Any:
    return np.bincount(_tokenizer().encode("abcdefgh" * 8).ids, minlength=15)


@functools.cache
def _compiled() -> Callable[[], Any]:
    import numba

    draw: Callable[[], Any] = numba.njit(lambda: np.random.random(3))
    return draw


def of_numba() -> Any:
    return _compiled()()


def of_pillow() -> Any:
    from PIL import Image

    return np.array(Image.effect_noise((4, 4), 30.0))


def of_polars() -> Any:
    import polars

    return polars.Series(range(1000)).sample(5).to_numpy().copy()


def of_duckdb() -> Any:
    import duckdb

    return np.array(duckdb.sql("select random()").fetchall())


def of_sqlite() -> Any:
    with sqlite3.connect(":memory:") as database:
        return np.array(database.execute("select random()").fetchall())


class Drawing:
    def __init__(self, library: str) -> None:
        self.draw = globals()[f"of_{library}"]

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return index, self.draw()
