"""Which shard an iterable dataset is to read: what its own code may ask while it is iterated."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class ShardInHand:
    """The shard that is being read. asked: whether the dataset's code has looked at it."""

    index: int
    count: int
    asked: bool = False


_current: ContextVar[ShardInHand | None] = ContextVar("shard in hand", default=None)


def shard() -> tuple[int, int]:
    """(index, count): which of how many shards the calling dataset is to give the samples of.

    For the `__iter__` of an iterable dataset, as torch's get_worker_info() is, which answers alike.
    It is (0, 1) where nobody reads in shards. Ask in the thread that iterates.

    >>> shard()
    (0, 1)
    """
    in_hand = _current.get()
    if in_hand is None:
        return 0, 1
    in_hand.asked = True
    return in_hand.index, in_hand.count


@contextlib.contextmanager
def in_hand(this: ShardInHand, *, seed: int, dataset: Any) -> Iterator[None]:
    """Let `shard` and torch's get_worker_info() tell of a shard."""
    token = _current.set(this)
    # torch has no public way to say it; its own workers set this very name.
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    before = worker._worker_info if worker else None
    if worker:
        worker._worker_info = _worker_info(worker)(
            id=this.index, num_workers=this.count, seed=seed, dataset=dataset
        )
    try:
        yield
    finally:
        _current.reset(token)
        if worker:
            worker._worker_info = before


@functools.cache
def _worker_info(worker: Any) -> Any:
    """torch's WorkerInfo, which notes that it was looked at."""

    class ShardInfo(worker.WorkerInfo):  # type: ignore[misc]  # torch is typed as Any here
        def __getattribute__(self, name: str) -> Any:
            this = _current.get()
            if name in ("id", "num_workers") and this is not None:
                this.asked = True
            return super().__getattribute__(name)

    return ShardInfo
