"""Record of one pass over an epoch: its steps, and how long the script waited for them."""

from __future__ import annotations

import atexit
import functools
import math
import os
import time
from typing import Any
from weakref import WeakSet

from launcher.data.loader_state import LoaderProgress
from launcher.data.metrics.counters import StreamCounters
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.samples import Skipped
from launcher.data.order.shard_interleaving import ShardBatch, ShardProgress
from launcher.data.order.shards import ShardPlan
from launcher.runtime.event_log import emit
from launcher.shared.wait_metric import wait_share

#: Seconds between updates of the counters from the batches returned. Measured: updating after each
#: batch takes several times as long, because a training step evicts everything from the caches.
_FLUSH_EVERY = 0.1
#: Seconds between two events of rank 0 about a pass that goes on.
REPORT_EVERY = 10.0

#: Recorders of passes that have not ended.
_open: WeakSet[EpochRecorder] = WeakSet()
os.register_at_fork(after_in_child=_open.clear)  # they are the parent's


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
        self._reports = time.perf_counter() + REPORT_EVERY if _is_first_rank() else math.inf
        _finish_at_exit()
        _open.add(self)

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
            if now >= self._reports:
                self._reports = now + REPORT_EVERY
                self._report()

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

    def _report(self) -> None:
        """Log how far the pass is, for the live view of the job."""
        plan = self.plan
        emit(
            "data_progress",
            stream=plan.spec.name,
            epoch=plan.epoch,
            step=self._clock.steps,
            steps=plan.steps if isinstance(plan, BatchPlan) else None,
            wait_seconds=round(self._clock.inside, 4),
            total_seconds=round(self._clock.total, 4),
            wait_share=wait_share(self._clock.inside, self._clock.total),
        )

    def finish(self) -> None:
        """Finish the pass, complete or abandoned, and log its event, once."""
        if self not in _open:
            return
        _open.discard(self)
        plan, progress, skipped = self.plan, self.progress, self._skipped
        if self.waits_since is not None:
            self._clock.waited(self.waits_since, time.perf_counter())
        self._counters.end(self._clock)
        fields: dict[str, Any] = {}
        if plan.spec.batch_sampler is None:  # it makes batches of any size
            fields["batch_size"] = plan.spec.batch_size or 1
        if skipped.count:
            fields["skipped"] = skipped.count
            fields["first_skipped"] = skipped.indices
            fields["first_traceback"] = skipped.remote_traceback
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


@functools.cache
def _finish_at_exit() -> None:
    """Log also passes whose iterator the script still holds when it ends."""
    atexit.register(_finish_all)


def _finish_all() -> None:
    for recorder in [each for each in _open if each.has_begun]:
        recorder.finish()


def _is_first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"
