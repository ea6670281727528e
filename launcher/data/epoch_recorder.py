"""Record of one pass over an epoch: its steps, and how long the script waited for them."""

from __future__ import annotations

import atexit
import functools
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from launcher.data.loader_state import LoaderProgress
from launcher.data.metrics import Collections, StreamCounters, WaitSamples, in_process
from launcher.data.order import BatchPlan, ShardBatch, ShardPlan, ShardProgress, Skipped
from launcher.errors import SampleError
from launcher.runtime import log_event
from launcher.shared import LATE, wait_share

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
        self._left_out = 0  # batches of which nothing was left
        #: Start of the script's current wait, by time.perf_counter; None while it computes.
        self.waits_since: float | None = None
        self._unflushed: list[tuple[int | ShardBatch, float, float]] = []  # not counted yet
        self._next_flush = 0.0
        self._reports = time.perf_counter() + REPORT_EVERY if _is_first_rank() else math.inf
        self._late_after = math.inf  # seconds of the script's own part
        self._returned = math.inf  # when the script got its latest batch
        _finish_at_exit()
        _this_script().begin(self)
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
        self.waits_since, self._returned = None, now
        if skipped is not None:
            self._skipped.add(Skipped(**skipped))
        if now >= self._next_flush:
            self._next_flush = now + _FLUSH_EVERY
            self._flush()
            self._late_after = LATE * self._clock.usual_own() or math.inf
            if now >= self._reports:
                self._reports = now + REPORT_EVERY
                self._report()

    def is_left_out(self, step: Any, skipped: Mapping[str, Any]) -> bool:
        """Return whether nothing is left of a batch, as each of its samples was skipped."""
        assert isinstance(self.plan, BatchPlan)  # those of shards are not skipped
        is_empty: bool = not skipped["repeated"] and skipped["count"] == self.plan.samples_in(step)
        self._left_out += is_empty
        return is_empty

    def check_not_all_skipped(self) -> None:
        """Raise SampleError at the end of an epoch of which nothing was left."""
        self._flush()
        if self._left_out and self._left_out == self._clock.steps:
            raise SampleError(
                f"all {self._skipped.count} samples of epoch {self.plan.epoch} of "
                f"{self.plan.spec.dataset} raised, so nothing is left of it",
                index=self._skipped.indices[0],
                remote_traceback=self._skipped.remote_traceback,
            )

    @property
    def progress(self) -> Any:
        """Progress of the pass, up to date."""
        self._flush()
        return self._progress

    @property
    def phase(self) -> str:
        """The script's phase: "data" while it waits, "late" in a part that takes long, or "own"."""
        if self.waits_since is not None:
            return "data"
        return "late" if time.perf_counter() > self._returned + self._late_after else "own"

    def _flush(self) -> None:
        given, self._unflushed = self._unflushed, []
        for step, since, until in given:
            self._progress.record(step)
            self._clock.count(since, until)

    def _report(self) -> None:
        """Log how far the pass is, for the live view of the job."""
        plan = self.plan
        log_event(
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
        fields: dict[str, Any] = {
            "stream": plan.spec.name,
            "epoch": plan.epoch,
            "steps": self._clock.steps,
            "samples": progress.samples - skipped.count + skipped.repeated,
            "pads": progress.pads,
            "drops": progress.drops,
        }
        if plan.spec.batch_sampler is None:  # it makes batches of any size
            fields["batch_size"] = plan.spec.batch_size or 1
        if skipped.count:
            fields["skipped"] = skipped.count
            if skipped.repeated:
                fields["repeated"] = skipped.repeated
            fields["first_skipped"] = skipped.indices
            fields["first_traceback"] = skipped.remote_traceback
        fields |= {**self._clock.fields(), **_this_script().end()}
        in_process.this_process().add_pass(fields)
        log_event("data_epoch", **fields)


class _ScriptTimes:
    """The script's thread, in its passes and between them."""

    def __init__(self) -> None:
        self._recorder: EpochRecorder | None = None
        self._ended = self._between = 0.0
        self._garbage = Collections()
        self._collected = 0.0
        self._samples = WaitSamples(self._phase)

    def begin(self, recorder: EpochRecorder) -> None:
        """Begin a pass, which comes so long after the end of the one before."""
        self._between = time.perf_counter() - self._ended if self._ended else 0.0
        self._recorder = recorder

    def end(self) -> dict[str, object]:
        """Return the fields of a pass that ends."""
        self._ended, self._recorder = time.perf_counter(), None
        collected, self._collected = self._garbage.seconds - self._collected, self._garbage.seconds
        return {
            "between_seconds": round(self._between, 3),
            "garbage_seconds": round(collected, 3),
            "doing": self._samples.take(),
        }

    def _phase(self) -> str | None:
        recorder = self._recorder
        if recorder is not None and recorder.has_begun:
            return recorder.phase
        return "between" if self._ended else None


@functools.cache
def _this_script() -> _ScriptTimes:
    """Return the times of the thread that reads; it is the first one that does."""
    return _ScriptTimes()


@dataclass
class _FirstEpoch:
    """Readings of a stream's epoch 0 by loaders of one kind that have read no other epoch.

    loader: the latest one; plan: what it read. begun: how many have begun it; finished: whether one
    has read it whole.
    """

    loader: object = None
    plan: BatchPlan | ShardPlan | None = None
    begun: int = 0
    finished: bool = False
    is_told: bool = False


class FirstEpochs:
    """Finds scripts that make a loader anew in each epoch, and so read the first one each time."""

    def __init__(self) -> None:
        self._streams: dict[str, _FirstEpoch] = {}

    def begin(self, plan: BatchPlan | ShardPlan, loader: object, *, is_set: bool) -> bool:
        """Record that a loader begins an epoch; return whether the script is to be warned, once.

        loader: an object of its own for each loader. is_set: the script has set the epoch, or a
        state of it. A look at some batches by a loader of its own does not count.
        """
        first = self._streams.setdefault(plan.spec.name, _FirstEpoch())
        if plan.epoch or is_set or (first.plan is not None and first.plan != plan):
            first = _FirstEpoch(loader=loader, is_told=first.is_told)
            self._streams[plan.spec.name] = first
        if plan.epoch or is_set:
            return False
        is_again = first.loader is not loader and (first.finished or first.begun > 1)
        first.loader, first.plan, first.begun = loader, plan, first.begun + 1
        first.is_told, was_told = first.is_told or is_again, first.is_told
        return is_again and not was_told

    def finish(self, stream: str, epoch: int) -> None:
        """Record that an epoch was read whole."""
        if epoch == 0 and stream in self._streams:
            self._streams[stream].finished = self._streams[stream].begun > 0


#: Those of this process.
first_epochs = FirstEpochs()


@functools.cache
def _finish_at_exit() -> None:
    """Log also passes whose iterator the script still holds when it ends."""
    atexit.register(_finish_all)


def _finish_all() -> None:
    for recorder in [each for each in _open if each.has_begun]:
        recorder.finish()


def _is_first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"
