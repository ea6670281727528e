"""Sleep between two polls, up to a deadline."""

from __future__ import annotations

import time

from launcher.client.jobs.durations import readable
from launcher.errors import StillRunning


class Deadline:
    """A sleep that raises StillRunning `timeout` seconds after creation (None: never)."""

    def __init__(self, job: str, timeout: float | None) -> None:
        self._job = job
        self._timeout = timeout
        self._started = time.monotonic()

    def __call__(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the deadline; raise StillRunning once it has passed."""
        if self._timeout is None:
            time.sleep(seconds)
            return
        left = self._started + self._timeout - time.monotonic()
        if left <= 0:
            raise StillRunning(
                f"job {self._job} had not ended after {readable(self._timeout)}; it goes on: wait "
                f"again, or `launcher logs -f {self._job}`"
            )
        time.sleep(min(seconds, left))
