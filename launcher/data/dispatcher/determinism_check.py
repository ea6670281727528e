"""Determinism check: a share of the batches is prepared again by another worker. Pure.

The first content of each is kept until the second one arrives; `BatchContent` compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from launcher.data.control.message_fields import host_of
from launcher.data.order.verification import BatchContent

#: Batches that may wait for their second preparation; no more are taken until some have it.
_MAX_PENDING = 256

Batch = tuple[str, int]


class DeterminismCheck:
    """The batches that were prepared once and wait for their second preparation."""

    def __init__(self) -> None:
        self._first: dict[Batch, tuple[str, BatchContent]] = {}
        self._asked: Counter[str] = Counter()

    def choose_second_worker(
        self, batch: Batch, worker: str, content: BatchContent, workers: Collection[str]
    ) -> str | None:
        """Record a first preparation; return the worker to prepare it again, None for none.

        That is another one, on another host if there is one. A job's only worker prepares its
        batches again itself.
        """
        others = [name for name in workers if name != worker] or list(workers)
        if batch in self._first or not others or len(self._first) >= _MAX_PENDING:
            return None
        host = host_of(worker)
        chosen = min(others, key=lambda name: (host_of(name) == host, self._asked[name]))
        self._first[batch] = worker, content
        self._asked[chosen] += 1
        return chosen

    def pop_first(self, batch: Batch) -> tuple[str, BatchContent] | None:
        """Return who prepared a batch first, and what it was; None if that is not known."""
        return self._first.pop(batch, None)

    def close(self, run: str) -> None:
        """Forget the batches of an epoch read."""
        for batch in [batch for batch in self._first if batch[0] == run]:
            del self._first[batch]
