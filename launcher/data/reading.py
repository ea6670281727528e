"""One pass of a loader over an epoch: what was read, and how long the script waited for it."""

from __future__ import annotations

from typing import Any

from launcher.data.figures.meters import StreamMeter
from launcher.data.order.laps import Portion, ShardProgress
from launcher.data.order.plan import Plan
from launcher.data.order.samples import Skipped
from launcher.data.order.shards import ShardPlan
from launcher.data.state import Progress
from launcher.runtime.events import emit


class Reading:
    """The account of a pass, and its line in the log."""

    def __init__(self, plan: Plan | ShardPlan, meter: StreamMeter) -> None:
        self.plan = plan
        self.progress: Any = ShardProgress(plan) if isinstance(plan, ShardPlan) else Progress(plan)
        self.clock = meter.begin()
        self._meter = meter
        self._skipped = Skipped()

    def note(self, step: int | Portion, skipped: dict[str, Any] | None) -> None:
        """A batch is handed out. step: as the source gave it."""
        self.progress.note(step)
        self.clock.count()
        if skipped is not None:
            self._skipped.add(Skipped(**skipped))

    def report(self) -> None:
        self._meter.end(self.clock)
        plan, progress, skipped = self.plan, self.progress, self._skipped
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
            steps=self.clock.steps,
            samples=progress.samples - skipped.count,
            pads=progress.pads,
            drops=progress.drops,
            **self.clock.fields(),
            **fields,
        )
