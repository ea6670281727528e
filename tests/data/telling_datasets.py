"""Datasets that are told the epoch, and one that never gives the same again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from launcher.data import shard

BUILT: list[int] = []


class Told:
    """Four samples that hold the epoch."""

    epoch = -1
    calls = 0

    def __len__(self) -> int:
        return 4

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.calls += 1

    def __getitem__(self, index: int) -> int:
        return 10 * self.epoch + index


class ToldInOrder:
    """The same, iterable."""

    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        index, count = shard()
        return iter([10 * self.epoch + number for number in range(4)][index::count])


class Around:
    """A wrapper as torch's Subset is one."""

    def __init__(self, inner: Any, name: str = "dataset") -> None:
        setattr(self, name, inner)
        self.read = lambda index: (inner[0] if isinstance(inner, list) else inner)[index]

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return int(self.read(index))


def wrapped() -> object:
    return Around(Around(Told()))


def wrapped_in_list() -> object:
    return Around([Told()], "datasets")


SHARED = Told()


def shared() -> object:
    return SHARED


def around_shared() -> object:
    return Around(SHARED)


class PassesOn:
    """A wrapper that has everything which the dataset within it has."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __len__(self) -> int:
        return len(self._wrapped)

    def __getitem__(self, index: int) -> Any:
        return self._wrapped[index]


def passed_on() -> object:
    return PassesOn(Told())


class OfEpoch(Told):
    """Made for one epoch."""

    def __init__(self, epoch: int, scale: int = 10) -> None:
        BUILT.append(epoch)
        self.epoch, self.scale = epoch, scale

    set_epoch = None  # type: ignore[assignment] # has none

    def __getitem__(self, index: int) -> int:
        return self.scale * self.epoch + index


def lines_of_epoch(epoch: int) -> Iterator[int]:
    index, count = shard()
    yield from [10 * epoch + number for number in range(4)][index::count]


class Refusing(Told):
    def set_epoch(self, epoch: int) -> None:
        raise KeyError(f"no epoch {epoch}")


class EpochsSampler:
    """A sampler that is told the epoch, as torch's DistributedSampler is."""

    def __init__(self, length: int, epoch: int, seed: int) -> None:
        self.length, self.first = length, 0

    def set_epoch(self, epoch: int) -> None:
        self.first = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([(self.first + step) % self.length for step in range(self.length)])


def drifting() -> Iterator[bytes]:
    """Never twice the same."""
    index, _ = shard()
    for number in range(8):
        yield f"{index} {number}".encode() + os.urandom(8)
