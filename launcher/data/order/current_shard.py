"""The shard that an iterable dataset is to read, for its own code to query while it iterates."""

from __future__ import annotations

import functools
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class CurrentShard:
    """The shard that is being read. asked: whether the dataset's code has queried it."""

    index: int
    count: int
    asked: bool = False


#: torch's own seeds are of this range, and datasets give them to what takes no larger ones.
_INT64 = (1 << 63) - 1
_current: ContextVar[CurrentShard | None] = ContextVar("current shard", default=None)


def shard() -> tuple[int, int]:
    """Return (index, count): the shard whose samples the calling dataset must yield.

    For the `__iter__` of an iterable dataset, like torch's get_worker_info(), which returns the
    same numbers here. Returns (0, 1) where nothing is read in shards. Call it in the thread that
    iterates.

    >>> shard()
    (0, 1)
    """
    current = _current.get()
    if current is None:
        return 0, 1
    current.asked = True
    return current.index, current.count


class as_current:  # noqa: N801 - a context manager, quicker than one by a generator
    """Make `shard` and torch's get_worker_info() return this shard."""

    __slots__ = ("_before", "_info", "_this", "_token", "_worker")

    def __init__(self, this: CurrentShard, *, seed: int, dataset: object) -> None:
        self._this = this
        # torch has no public API to set it; its own workers assign this attribute.
        self._worker: Any = sys.modules.get("torch.utils.data._utils.worker")
        self._info = self._worker and _worker_info(self._worker)(
            id=this.index, num_workers=this.count, seed=seed & _INT64, dataset=dataset
        )

    def __enter__(self) -> None:
        self._token = _current.set(self._this)
        if self._worker:
            self._before = self._worker._worker_info
            self._worker._worker_info = self._info

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        if self._worker:
            self._worker._worker_info = self._before


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
