"""One pass of a loader over an epoch: what was read, and how long the script waited for it."""

from __future__ import annotations

import time
from typing import Any

from launcher.data.laps import Portion, ShardProgress
from launcher.data.plan import Plan
from launcher.data.samples import Skipped
from launcher.data.shards import ShardPlan
from launcher.data.state import Progress
from launcher.runtime.events import emit


class Reading:
    """The account of a pass, and its line in the log."""

    def __init__(self, plan: Plan | ShardPlan) -> None:
        self.plan = plan
        self.progress: Any = ShardProgress(plan) if isinstance(plan, ShardPlan) else Progress(plan)
        self.clock = Clock()
        self._steps = 0
        self._skipped = Skipped()

    def note(self, step: int | Portion, skipped: dict[str, Any] | None) -> None:
        """A batch is handed out. step: as the source gave it."""
        self.progress.note(step)
        self._steps += 1
        if skipped is not None:
            self._skipped.add(Skipped(**skipped))

    def report(self) -> None:
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
            steps=self._steps,
            samples=progress.samples - skipped.count,
            pads=progress.pads,
            drops=progress.drops,
            wait_seconds=round(self.clock.inside, 4),
            total_seconds=round(self.clock.total, 4),
            **fields,
        )


class Clock:
    """Seconds inside its `with` blocks, and since it was made."""

    def __init__(self) -> None:
        self._made = self._entered = time.perf_counter()
        self.inside = 0.0

    def __enter__(self) -> None:
        self._entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.inside += time.perf_counter() - self._entered

    @property
    def total(self) -> float:
        return time.perf_counter() - self._made
