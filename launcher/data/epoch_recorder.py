"""Record of one pass over an epoch: its steps, and how long the script waited for them."""

from __future__ import annotations

import time
from typing import Any

from launcher.data.loader_state import LoaderProgress
from launcher.data.metrics.counters import StreamCounters
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.samples import Skipped
from launcher.data.order.shard_passes import ShardBatch, ShardProgress
from launcher.data.order.shards import ShardPlan
from launcher.runtime.event_log import emit

#: Seconds between updates of the counters from the batches returned. Measured: updating after each
#: batch takes several times as long, because a training step evicts everything from the caches.
_FLUSH_EVERY = 0.1


class EpochRecorder:
    """Counts the steps and the waits of one pass, and logs them at its end."""

    def __init__(self, plan: BatchPlan | ShardPlan, counters: StreamCounters) -> None:
        #: True once the script has asked for a batch.
        self.has_begun = False
        self.restart(plan)
        self._clock = counters.begin()
        self._counters = counters
        self._skipped = Skipped()
        #: Start of the script's current wait, by time.perf_counter; None while it computes.
        self.waits_since: float | None = None
        self._unflushed: list[tuple[int | ShardBatch, float, float]] = []  # not counted yet
        self._next_flush = 0.0

    def restart(self, plan: BatchPlan | ShardPlan) -> None:
        """Account for another plan instead; no batch has been returned yet."""
        self.plan = plan
        self._progress: Any = (
            ShardProgress(plan) if isinstance(plan, ShardPlan) else LoaderProgress(plan)
        )

    def record(self, step: int | ShardBatch, skipped: dict[str, Any] | None) -> None:
        """Record a batch that is returned to the script. step: as yielded by the source."""
        now = time.perf_counter()
        self._unflushed.append((step, now if self.waits_since is None else self.waits_since, now))
        self.waits_since = None
        if skipped is not None:
            self._skipped.add(Skipped(**skipped))
        if now >= self._next_flush:
            self._next_flush = now + _FLUSH_EVERY
            self._flush()

    @property
    def progress(self) -> Any:
        """Progress of the pass, up to date."""
        self._flush()
        return self._progress

    def _flush(self) -> None:
        given, self._unflushed = self._unflushed, []
        for step, since, until in given:
            self._progress.record(step)
            self._clock.count(since, until)

    def finish(self) -> None:
        """Finish the pass, complete or abandoned, and log its event."""
        plan, progress, skipped = self.plan, self.progress, self._skipped
        if self.waits_since is not None:
            self._clock.waited(self.waits_since, time.perf_counter())
        self._counters.end(self._clock)
        fields: dict[str, Any] = {}
        if skipped.count:
            fields = {
                "skipped": skipped.count,
                "first_skipped": skipped.indices,
                "first_traceback": skipped.remote_traceback,
            }
        emit(
            "data_epoch",
            stream=plan.spec.name,
            epoch=plan.epoch,
            steps=self._clock.steps,
            samples=progress.samples - skipped.count,
            pads=progress.pads,
            drops=progress.drops,
            **self._clock.fields(),
            **fields,
        )
