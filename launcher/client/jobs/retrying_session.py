"""Retry reads of a platform that does not respond for a while: one notice, and a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from launcher.client.jobs.durations import readable
from launcher.client.jobs.merged_log import LogSource
from launcher.client.sessions.base import LogEvent, LogStream
from launcher.client.sessions.retry import RetryPolicy, retry_call
from launcher.errors import CapacityError, CloudError

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

Result = TypeVar("Result")

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


def resume_hint(job: str) -> str:
    """Return the hint for a user who stops following a job before it ends."""
    return f"The job continues; follow it again with `launcher logs -f {job}`"


@contextmanager
def with_resume_hint(job: str) -> Iterator[None]:
    """Add the resume hint to a CloudError in the block, which runs after the job was created."""
    try:
        yield
    except CloudError as error:
        if not isinstance(error, CapacityError) and resume_hint(job) not in str(error):
            error.add(f"  job {job} was created. {resume_hint(job)}")
        raise


class RetryingSession:
    """The part of a session that a follower reads, with retries.

    is_transient: returns True if the same call may succeed later; other errors are raised at once.
    notify: called when the platform stops responding, and when it responds again.
    sleep: waits between two attempts, and may raise at a deadline.
    give_up_seconds: without a response for this long, the last error is raised with a resume hint.
    """

    def __init__(
        self,
        session: LogSource,
        job: str,
        *,
        notify: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        give_up_seconds: float,
        is_transient: Callable[[CloudError], bool],
    ) -> None:
        self._is_transient = is_transient
        self._session = session
        self._job = job
        self._notify = notify
        self._sleep = sleep
        self._policy = RetryPolicy(
            seconds=give_up_seconds, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS
        )

    @property
    def log_delay_seconds(self) -> float:
        """Seconds until a printed line is readable, at most."""
        return self._session.log_delay_seconds

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document."""
        return self._retry(
            lambda: self._session.describe_training_job(TrainingJobName=TrainingJobName)
        )

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the log streams of the job's hosts."""
        return self._retry(lambda: self._session.log_streams(job_name))

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return events of a stream from a position on, and the position after them."""
        return self._retry(lambda: self._session.read_log(job_name, stream, position, limit))

    def _retry(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call, retried while its error is transient."""
        since: float | None = None

        def on_retry(error: CloudError, _wait: float) -> None:
            nonlocal since
            if since is None:
                since = time.monotonic()
                self._notify_unresponsive(error)

        try:
            result = retry_call(
                call,
                self._policy,
                self._is_transient,
                on_retry,
                errors=CloudError,
                sleep=self._sleep,
            )
        except CloudError as error:
            if self._is_transient(error):
                raise self._gave_up(error, since) from error
            raise
        if since is not None:
            self._notify(f"the platform responds again, after {_elapsed(since)}")
        return result

    def _notify_unresponsive(self, error: CloudError) -> None:
        limit = readable(self._policy.seconds)
        self._notify(
            f"no response: {error.headline.rstrip('.')}. Retrying for {limit}. "
            f"{resume_hint(self._job)}"
        )

    def _gave_up(self, error: CloudError, since: float | None) -> CloudError:
        elapsed = "" if since is None else f" for {_elapsed(since)}"
        return type(error)(
            f"no response{elapsed}; the last error: {error.headline.rstrip('.')}. "
            f"{resume_hint(self._job)}",
            code=error.code,
            request_id=error.request_id,
        )


def _elapsed(since: float) -> str:
    return readable(time.monotonic() - since)
