"""Samplers and batches of the user's, for tests of orders; referred to as "samplings:NAME"."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence


def twice_the_odd(length: int, epoch: int, seed: int) -> list[int]:
    """A weighted order that is longer or shorter in each epoch."""
    ids = [i for i in range(length) for _ in range(1 + i % 2)]
    random.Random(1000 * seed + epoch).shuffle(ids)
    return ids[: len(ids) - epoch % 3] if len(ids) > 3 else ids


def by_global_chance(length: int, epoch: int, seed: int) -> Iterator[int]:
    """Draws from the global generator, as torch's own samplers do."""
    return (random.randrange(length) for _ in range(length))


def growing_batches(length: int, epoch: int, seed: int) -> Iterator[Sequence[int]]:
    """Batches of 1, 2, 3, ... samples."""
    ids = list(range(length))
    random.Random(1000 * seed + epoch).shuffle(ids)
    size = 1
    while ids:
        yield ids[:size]
        ids, size = ids[size:], size % 4 + 1


def impure(length: int, epoch: int, seed: int) -> list[int]:
    return [secrets.randbelow(length) for _ in range(length)]


def outside(length: int, epoch: int, seed: int) -> list[int]:
    return [0, length]


def fractions(length: int, epoch: int, seed: int) -> list[float]:
    return [0.5]


def hollow(length: int, epoch: int, seed: int) -> list[list[int]]:
    return [[0], []]


def failing(length: int, epoch: int, seed: int) -> list[int]:
    raise KeyError("no weights")


def without_arguments() -> list[int]:
    return [0]


def nothing(length: int, epoch: int, seed: int) -> list[int]:
    return []
