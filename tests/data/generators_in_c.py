"""Datasets whose samples draw from generators of libraries in C, which nobody seeds."""

from __future__ import annotations

import functools
import importlib
import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np

#: A test forgets the modules that it imports, and some of these can be loaded only once.
library = functools.cache(importlib.import_module)


def of_cv2() -> Any:
    return library("cv2").randu(np.zeros(3, np.float32), 0, 1)


@functools.cache
def _tokenizer() -> Any:
    merges = [("abcdefgh"[:end], "abcdefgh"[end]) for end in range(1, 8)]
    words = [*"abcdefgh", *(first + second for first, second in merges)]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = library("tokenizers.models").BPE(vocab=vocabulary, merges=merges, dropout=0.5)
    return library("tokenizers").Tokenizer(model)


def of_tokenizers() -> Any:
    return np.bincount(_tokenizer().encode("abcdefgh" * 8).ids, minlength=15)


@functools.cache
def _compiled() -> Callable[[], Any]:
    draw: Callable[[], Any] = library("numba").njit(lambda: np.random.random(3))
    return draw


def of_numba() -> Any:
    return _compiled()()


def of_pillow() -> Any:
    return np.array(library("PIL.Image").effect_noise((4, 4), 30.0))


def of_polars() -> Any:
    return library("polars").Series(range(1000)).sample(5).to_numpy().copy()


def of_duckdb() -> Any:
    return np.array(library("duckdb").sql("select random()").fetchall())


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
