"""Retry a platform that does not answer for a while: one notice, and a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from launcher.client.jobs.durations import readable
from launcher.client.jobs.log_source import LogSource
from launcher.client.sessions.base import LogEvent, LogStream
from launcher.errors import CapacityError, CloudError

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

Answer = TypeVar("Answer")

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


def way_back(job: str) -> str:
    """Return the hint for a user who stops following a job before it ends."""
    return f"The job is not affected; `launcher logs -f {job}` comes back to it"


@contextmanager
def telling_way_back(job: str) -> Iterator[None]:
    """Add to a CloudError how to return to the job, in the block after the job was created."""
    try:
        yield
    except CloudError as error:
        if not isinstance(error, CapacityError) and way_back(job) not in str(error):
            error.add(f"  job {job} was created. {way_back(job)}")
        raise


class RetryingSession:
    """The part of a session that following reads, with retries until there is an answer.

    is_transient: returns whether the same call may succeed later; other errors are raised at once;
    tell: called when answers stop, and when they resume; pause: sleeps, and may raise when time is
    up; give_up_seconds: without any answer for this long, the last error is raised, with how to
    return to the job.
    """

    def __init__(
        self,
        session: LogSource,
        job: str,
        *,
        tell: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
        give_up_seconds: float,
        is_transient: Callable[[CloudError], bool],
    ) -> None:
        self._is_transient = is_transient
        self._session = session
        self._job = job
        self._tell = tell
        self._pause = pause
        self._give_up_seconds = give_up_seconds

    @property
    def log_delay_seconds(self) -> float:
        """Seconds until a printed line is readable, at most."""
        return self._session.log_delay_seconds

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document."""
        return self._ask(
            lambda: self._session.describe_training_job(TrainingJobName=TrainingJobName)
        )

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the log streams of the job's hosts."""
        return self._ask(lambda: self._session.log_streams(job_name))

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return events of a stream from a position on, and the position after them."""
        return self._ask(lambda: self._session.read_log(job_name, stream, position, limit))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Retry until there is an answer; raise permanent errors at once."""
        since: float | None = None
        seconds = _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = question()
            except CloudError as error:
                if not self._is_transient(error):
                    raise
                if since is None:
                    since = time.monotonic()
                    self._tell_silence(error)
                if time.monotonic() - since >= self._give_up_seconds:
                    raise self._last(error, since) from error
            else:
                if since is not None:
                    self._tell(f"there are answers again, after {_age(since)}")
                return answer
            self._pause(min(seconds, _LONGEST_PAUSE_SECONDS))
            seconds *= 2

    def _tell_silence(self, error: CloudError) -> None:
        patience = readable(self._give_up_seconds)
        self._tell(
            f"no answer: {error.headline.rstrip('.')}. Asking again for {patience}. "
            f"{way_back(self._job)}"
        )

    def _last(self, error: CloudError, since: float) -> CloudError:
        last_word = error.headline.rstrip(".")
        return type(error)(
            f"no answer for {_age(since)}; the last word: {last_word}. {way_back(self._job)}",
            code=error.code,
            request_id=error.request_id,
        )


def _age(since: float) -> str:
    return readable(time.monotonic() - since)
