"""Follow a job until it ends: its state changes, its log lines, and a notice while it is idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from launcher.client.jobs.background_log import BackgroundLog
from launcher.client.jobs.merged_log import LogLine
from launcher.client.jobs.retrying_session import CLOCK_SKEW
from launcher.client.sessions import TERMINAL_STATUSES
from launcher.client.show import readable
from launcher.errors import CloudError, LauncherError, StillRunning

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

Event = TypeVar("Event")

#: Seconds without a line or a state change after which a notice reports that the job still runs.
IDLE_SECONDS = 60.0
#: Longest wait for logs after the job's end. Late lines have so long to appear; the wait for them
#: stops once none has arrived for the delay, and then what is left is read.
_LAST_SECONDS, _LATE_SECONDS = 30.0, 25.0


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """A job's entry into a state.

    word: SecondaryStatus, as the platform names it; seconds: since the creation of the job.
    """

    word: str
    seconds: float

    def __str__(self) -> str:
        return f"[{self.word}] after {readable(self.seconds)}"


@dataclass(frozen=True, kw_only=True)
class Poll:
    """The end of one poll of the platform, and the job's description at its start."""

    description: TrainingJobDescription


class Deadline:
    """A deadline for polling a job, `timeout` seconds after this object was made (None: none)."""

    def __init__(self, job: str, timeout: float | None) -> None:
        self._job = job
        self._timeout = timeout
        self._started = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the deadline, none less than 0; None without one."""
        if self._timeout is None:
            return None
        return max(0.0, self._started + self._timeout - time.monotonic())

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the deadline; raise StillRunning once it has passed."""
        if self.seconds_left == 0:
            after = f" after {readable(self._timeout)}" if self._timeout else ""
            raise StillRunning(
                f"job {self._job} is still running{after}, and continues: wait again, or follow it "
                f"with `launcher logs -f {self._job}`"
            )
        time.sleep(seconds if self.seconds_left is None else min(seconds, self.seconds_left))


class JobFollower:
    """The events of a job since its creation.

    describe: returns its description; log: its lines, if wanted; log_delay_seconds: until a line
    can be read, at most; notices: called when the job is idle, and when its log cannot be read;
    sleep: waits between two polls.
    """

    def __init__(
        self,
        job: str,
        describe: Callable[[], TrainingJobDescription],
        *,
        log: BackgroundLog | None,
        log_delay_seconds: float = 0.0,
        notices: Callable[[str], None],
        poll_seconds: float,
        idle_seconds: float = IDLE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._job = job
        self._describe = describe
        self._log = log
        self._log_delay_seconds = log_delay_seconds
        self._notices = notices
        self._poll_seconds = poll_seconds
        self._idle_seconds = idle_seconds
        self._sleep = sleep
        self._shown: set[tuple[str, datetime]] = set()
        self._last_event_time = time.monotonic()
        self._trouble: LauncherError | None = None
        self.latest: TrainingJobDescription = {}

    def events(self) -> Iterator[LogLine | StateChange | Poll]:
        """Yield states and lines in order, and each poll; the final state follows the last line."""
        try:
            yield from self._events()
        finally:
            if self._log:
                self._log.close()

    def _events(self) -> Iterator[LogLine | StateChange | Poll]:
        was_running = False
        while True:
            now = self._describe()  # before the lines, which are complete once the job has ended
            self.latest = now
            changes = self._new_changes(now)
            if now["TrainingJobStatus"] in TERMINAL_STATUSES:
                yield from changes[:-1]
                yield from self._last_lines(now, was_running=was_running)
                yield from changes[-1:]
                return
            was_running = True
            yield from self._reset_idle_timer(changes)
            if self._log:
                yield from self._reset_idle_timer(self._log.ready())
                self._notify_of_log(self._log.trouble)
            yield Poll(description=now)
            self._notify_if_idle(now)
            self._sleep(self._poll_seconds)

    @property
    def missing(self) -> LauncherError | None:
        """Why lines of the log are missing; None for a complete log, or for none."""
        return self._log.trouble if self._log else None

    def wait_for_end(self) -> TrainingJobDescription:
        """Follow the job and discard its events; return its final description."""
        for _ in self.events():
            pass
        return self.latest

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
        delay = self._log_delay_seconds
        started = quiet_since = time.monotonic()
        if not was_running and _seconds_since_end(now) > delay + CLOCK_SKEW.total_seconds():
            quiet_since -= delay  # ended long ago: no line can still be late
        while time.monotonic() - quiet_since < delay and not _is_too_late(started):
            for line in self._log.ready():
                quiet_since = time.monotonic()
                yield line
            self._sleep(min(self._poll_seconds, delay))
        left = (
            max(0.0, started + _LAST_SECONDS - time.monotonic()) if was_running else _LAST_SECONDS
        )
        yield from self._log.remaining(left, in_all=was_running)
        if self._log.trouble:
            self._notices(
                f"the log is not complete: {_headline(self._log.trouble)}. Read it later with "
                f"`launcher logs {self._job}`"
            )

    def _notify_of_log(self, trouble: LauncherError | None) -> None:
        """Report once that the log cannot be read, and once that it can be read again."""
        if trouble and not self._trouble:
            self._notices(
                f"the log cannot be read: {_headline(trouble)}. The job is followed without it"
            )
        elif self._trouble and not trouble:
            self._notices("the log can be read again")
        self._trouble = trouble

    def _reset_idle_timer(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the same events, and reset the idle timer for each."""
        for event in events:
            yield event
            self._last_event_time = time.monotonic()

    def _notify_if_idle(self, now: TrainingJobDescription) -> None:
        if time.monotonic() - self._last_event_time < self._idle_seconds:
            return
        self._last_event_time = time.monotonic()
        self._notices(f"still {now['SecondaryStatus']} after {readable(_seconds_in_state(now))}")


def _is_too_late(started: float) -> bool:
    return time.monotonic() - started > _LATE_SECONDS


def _headline(error: LauncherError) -> str:
    text = error.headline if isinstance(error, CloudError) else str(error)
    return text.rstrip(".")


def _seconds_since_end(now: TrainingJobDescription) -> float:
    """Return the seconds since a finished job ended."""
    return seconds_since(
        now.get("TrainingEndTime") or now.get("LastModifiedTime") or now["CreationTime"]
    )


def _seconds_in_state(now: TrainingJobDescription) -> float:
    changes = now.get("SecondaryStatusTransitions")
    return seconds_since(changes[-1]["StartTime"] if changes else now["CreationTime"])


def seconds_since(moment: datetime) -> float:
    """Return the seconds that have passed since a moment."""
    return (datetime.now(timezone.utc) - moment).total_seconds()
