"""The datasets of all fixtures: samples are numbers, so that one sees which were read."""

from __future__ import annotations

from collections.abc import Iterator

COUNT = 23


class Numbers:
    """Map-style."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> int:
        return index


class Stream:
    """Iterable, in parts."""

    def __iter__(self) -> Iterator[int]:
        from launcher.data import shard

        part, parts = shard()
        return iter(range(part, COUNT, parts))


class Points:
    """Map-style, to be learned from."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        import torch

        return torch.full((3,), index / 8), torch.full((2,), 1 - index / 8)


def numbers() -> Numbers:
    return Numbers()


def stream() -> Stream:
    return Stream()


def points() -> Points:
    return Points()
