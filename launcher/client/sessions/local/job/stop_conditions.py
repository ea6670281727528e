"""Conditions that stop a job: its time limits, and requests to stop or interrupt it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from launcher.client.sessions.local.job.job_description import JobState
from launcher.client.sessions.local.job.job_folder import JobFolder

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: MaxRuntimeInSeconds when the request gives none (CreateTrainingJob, StoppingCondition).
_DEFAULT_MAX_SECONDS = 86_400


class StopConditions:
    """Checks the limits of StoppingCondition and the requests that users leave in the job's folder.

    MaxRuntimeInSeconds limits the training time of all attempts, MaxWaitTimeInSeconds the total.
    """

    def __init__(self, request: TrainingJobRequest, folder: JobFolder) -> None:
        condition = request["StoppingCondition"]
        self._folder = folder
        self._max_seconds: float = condition.get("MaxRuntimeInSeconds", _DEFAULT_MAX_SECONDS)
        wait = condition.get("MaxWaitTimeInSeconds")
        self._wait_deadline = None if wait is None else time.monotonic() + wait
        self._deadline: float | None = None

    def training_starts(self) -> None:
        """Start counting training time: the hosts of an attempt have started."""
        self._deadline = time.monotonic() + self._max_seconds

    def training_ends(self) -> None:
        """Stop counting training time; the rest is left for the next attempt."""
        if self._deadline is not None:
            self._max_seconds = self._deadline - time.monotonic()

    def requested_end(self) -> JobState | None:
        """Return the state that a request or deadline requires; None while the job may continue."""
        now = time.monotonic()
        if self._folder.stop.exists() or not self._folder.path.exists():
            return JobState.STOPPED  # without its folder, the job could no longer be stopped
        # Where both limits are equal, the wait ends first: it began before the training.
        if self._wait_deadline is not None and now > self._wait_deadline:
            return JobState.MAX_WAIT_TIME_EXCEEDED
        if self._deadline is not None and now > self._deadline:
            return JobState.MAX_RUNTIME_EXCEEDED
        return JobState.INTERRUPTED if self._folder.interrupt.exists() else None
