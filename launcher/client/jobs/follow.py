"""Watch a job until it ends: its state changes, its lines, and a notice when nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.durations import readable
from launcher.client.jobs.log_line import LogLine
from launcher.client.jobs.log_source import LogSource
from launcher.client.jobs.merged_log import MergedLog
from launcher.client.sessions.base import TERMINAL_STATUSES

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

#: After this long without a line or a state change, send a notice that the job still runs.
IDLE_SECONDS = 60.0
#: After the end, late lines are awaited until none arrived for the session's delay, but at most:
_LONGEST_DRAIN_SECONDS = 120.0
#: The largest expected difference between the clocks of the platform and this machine.
_CLOCK_SKEW_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """A job's entry into a state.

    word: SecondaryStatus, as the platform names it; seconds: since the creation of the job.
    """

    word: str
    seconds: float

    def __str__(self) -> str:
        return f"[{self.word}] after {readable(self.seconds)}"


class JobFollower:
    """The events of a job since its creation.

    log: its lines, if wanted; notices: called when the job is idle; pause: sleeps.
    """

    def __init__(
        self,
        job: str,
        source: LogSource,
        *,
        log: MergedLog | None,
        notices: Callable[[str], None],
        poll_seconds: float,
        idle_seconds: float = IDLE_SECONDS,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._job = job
        self._source = source
        self._log = log
        self._notices = notices
        self._poll_seconds = poll_seconds
        self._idle_seconds = idle_seconds
        self._pause = pause
        self._shown: set[tuple[str, datetime]] = set()
        self._last_word = time.monotonic()
        self._last: TrainingJobDescription = {}

    def events(self) -> Iterator[LogLine | StateChange]:
        """Yield states and lines as they come; the final state comes after all lines."""
        was_running = False
        while True:
            now = self._describe()  # before the lines: after the end they are complete
            self._last = now
            changes = self._new_changes(now)
            if now["TrainingJobStatus"] in TERMINAL_STATUSES:
                yield from changes[:-1]
                yield from self._last_lines(now, was_running=was_running)
                yield from changes[-1:]
                return
            was_running = True
            yield from self._heard(changes)
            if self._log:
                yield from self._heard(self._log.settled())
            self._tell_if_idle(now)
            self._pause(self._poll_seconds)

    def end(self) -> TrainingJobDescription:
        """Follow the job without a listener; return the description of its end."""
        for _ in self.events():
            pass
        return self._last

    def _describe(self) -> TrainingJobDescription:
        return self._source.describe_training_job(TrainingJobName=self._job)

    def _new_changes(self, now: TrainingJobDescription) -> list[StateChange]:
        changes = []
        for each in now.get("SecondaryStatusTransitions", []):
            if (each["Status"], each["StartTime"]) not in self._shown:
                self._shown.add((each["Status"], each["StartTime"]))
                seconds = (each["StartTime"] - now["CreationTime"]).total_seconds()
                changes.append(StateChange(word=each["Status"], seconds=seconds))
        return changes

    def _last_lines(self, now: TrainingJobDescription, *, was_running: bool) -> Iterator[LogLine]:
        """Yield the lines that were printed before the end but become readable only later."""
        if self._log is None:
            return
        delay = self._source.log_delay_seconds
        started = quiet_since = time.monotonic()
        if not was_running and _age(now) > delay + _CLOCK_SKEW_SECONDS:
            quiet_since -= delay
        while time.monotonic() - quiet_since < delay and not _is_over(started):
            for line in self._log.settled():
                quiet_since = time.monotonic()
                yield line
            self._pause(min(self._poll_seconds, delay))
        yield from self._log.rest()

    def _heard(self, events: Any) -> Iterator[Any]:
        """Yield the same events, and reset the idle timer for each."""
        for event in events:
            yield event
            self._last_word = time.monotonic()

    def _tell_if_idle(self, now: TrainingJobDescription) -> None:
        if time.monotonic() - self._last_word < self._idle_seconds:
            return
        self._last_word = time.monotonic()
        self._notices(f"still {now['SecondaryStatus']} after {readable(_age_of_state(now))}")


def _is_over(started: float) -> bool:
    return time.monotonic() - started > _LONGEST_DRAIN_SECONDS


def _age(now: TrainingJobDescription) -> float:
    """Return the seconds since a finished job ended."""
    return _since(now.get("TrainingEndTime") or now.get("LastModifiedTime") or now["CreationTime"])


def _age_of_state(now: TrainingJobDescription) -> float:
    changes = now.get("SecondaryStatusTransitions")
    return _since(changes[-1]["StartTime"] if changes else now["CreationTime"])


def _since(moment: datetime) -> float:
    return (datetime.now(timezone.utc) - moment).total_seconds()
