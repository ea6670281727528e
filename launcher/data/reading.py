"""One pass of a loader over an epoch: what was read, and how long the script waited for it."""

from __future__ import annotations

from typing import Any

from launcher.data.meters import StreamMeter
from launcher.data.plan import Plan
from launcher.data.samples import Skipped
from launcher.data.state import Progress
from launcher.runtime.events import emit


class Reading:
    """The account of a pass, and its line in the log."""

    def __init__(self, plan: Plan, meter: StreamMeter) -> None:
        self.plan = plan
        self.progress = Progress(plan)
        self.clock = meter.begin()
        self._meter = meter
        self._steps = self._samples = 0
        self._skipped = Skipped()

    def note(self, step: int, skipped: dict[str, Any] | None) -> None:
        """A batch is handed out."""
        self.progress.note(step)
        self._steps += 1
        self._samples += self.plan.count(self.plan.positions(step))
        if skipped is not None:
            self._skipped.add(Skipped(**skipped))

    def report(self) -> None:
        self._meter.end(self.clock)
        plan, skipped = self.plan, self._skipped
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
            steps=self._steps,
            samples=self._samples - skipped.count,
            pads=plan.count(plan.padded),
            drops=plan.count(plan.dropped),
            **self.clock.fields(),
            **fields,
        )
