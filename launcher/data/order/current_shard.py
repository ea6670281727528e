"""The shard that an iterable dataset is to read, for its own code to query while it iterates."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class CurrentShard:
    """The shard that is being read. asked: whether the dataset's code has queried it."""

    index: int
    count: int
    asked: bool = False


_current: ContextVar[CurrentShard | None] = ContextVar("shard in hand", default=None)


def shard() -> tuple[int, int]:
    """Return (index, count): the shard whose samples the calling dataset must yield.

    For the `__iter__` of an iterable dataset, like torch's get_worker_info(), which returns the
    same numbers here. Returns (0, 1) where nothing is read in shards. Call it in the thread that
    iterates.

    >>> shard()
    (0, 1)
    """
    as_current = _current.get()
    if as_current is None:
        return 0, 1
    as_current.asked = True
    return as_current.index, as_current.count


@contextlib.contextmanager
def as_current(this: CurrentShard, *, seed: int, dataset: object) -> Iterator[None]:
    """Make `shard` and torch's get_worker_info() return this shard."""
    token = _current.set(this)
    # torch has no public API to set it; its own workers assign this attribute.
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
    """Return a subclass of torch's WorkerInfo that records when it is read."""

    class ShardInfo(worker.WorkerInfo):  # type: ignore[misc]  # torch is typed as Any here
        def __getattribute__(self, name: str) -> Any:
            this = _current.get()
            if name in ("id", "num_workers") and this is not None:
                this.asked = True
            return super().__getattribute__(name)

    return ShardInfo
