"""Ask for a job's state, with retries: a platform may be silent for a while, or deny the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from launcher.client.sessions import TERMINAL_STATUSES, RetryPolicy, retry_call
from launcher.client.show import readable
from launcher.errors import CapacityError, CloudError, JobNotFound

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 10.0
#: For how long a job that is known to exist may be denied.
DENIAL_POLICY = RetryPolicy(seconds=120, first=1.0, longest=10.0)
#: The largest expected difference between the clocks of the platform and this machine.
CLOCK_SKEW = timedelta(minutes=5)


class Describer(Protocol):
    """The part of a session that describes a job (`launcher.client.sessions.base`)."""

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803
        """Return the DescribeTrainingJob document."""
        ...


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


class _Contradiction(CloudError):
    """A platform denies a job that it has accepted or described, or describes an older one."""


class KnownJob:
    """Asks for the state of a job that may be known to exist: then a denial is no answer.

    created: when the platform accepted the job; None if it is not known to exist. A platform with
    many servers may have an older answer for a while, which is waited out for two minutes.
    """

    def __init__(self, session: Describer, job: str, created: datetime | None) -> None:
        self._session = session
        self._job = job
        self._earliest = created and created - CLOCK_SKEW
        self._is_known = created is not None
        self._final: TrainingJobDescription | None = None

    def describe(self, sleep: Callable[[float], None] = time.sleep) -> TrainingJobDescription:
        """Return the job's description; of a job that has ended, the same for ever.

        Raises JobNotFound for a job that is not known, CloudError for one that stays denied.
        """
        if self._final is None:
            now = retry_call(
                self._ask,
                DENIAL_POLICY,
                lambda _error: True,
                lambda _error, _wait: None,
                errors=_Contradiction,
                sleep=sleep,
            )
            self._is_known = True
            if now["TrainingJobStatus"] not in TERMINAL_STATUSES:
                return now
            self._final = now
        return self._final.copy()

    def _ask(self) -> TrainingJobDescription:
        try:
            now = self._session.describe_training_job(TrainingJobName=self._job)
        except JobNotFound as error:
            if not self._is_known:
                raise
            raise self._contradiction(f"now the answer is: {error}") from error
        if self._earliest and now["CreationTime"] < self._earliest:
            raise self._contradiction("the answer is about an older job of this name")
        return now

    def _contradiction(self, what: str) -> _Contradiction:
        return _Contradiction(f"job {self._job} was accepted, but {what}")


class RetryingSession:
    """A known job's state, with retries.

    is_transient: returns True if the same call may succeed later; other errors are raised at once.
    notify: called when the platform stops responding, and when it responds again.
    sleep: waits between two attempts, and may raise at a deadline.
    give_up_seconds: without a response for this long, the last error is raised with a resume hint.
    """

    def __init__(
        self,
        known: KnownJob,
        job: str,
        *,
        notify: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        give_up_seconds: float,
        is_transient: Callable[[CloudError], bool],
    ) -> None:
        self._is_transient = is_transient
        self._known = known
        self._job = job
        self._notify = notify
        self._sleep = sleep
        self._policy = RetryPolicy(
            seconds=give_up_seconds, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS
        )

    def describe(self) -> TrainingJobDescription:
        """Return the job's description, asked for again while the error is transient."""
        since: float | None = None

        def on_retry(error: CloudError, _wait: float) -> None:
            nonlocal since
            if since is None:
                since = time.monotonic()
                self._notify_unresponsive(error)

        try:
            result = retry_call(
                lambda: self._known.describe(self._sleep),
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
