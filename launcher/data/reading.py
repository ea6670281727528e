"""One pass of a loader over an epoch: what was read, and how long the script waited for it."""

from __future__ import annotations

import time
from typing import Any

from launcher.data.plan import Plan
from launcher.data.samples import Skipped
from launcher.data.state import Progress
from launcher.runtime.events import emit


class Reading:
    """The account of a pass, and its line in the log."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.progress = Progress(plan)
        self.clock = Clock()
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
