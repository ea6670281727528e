"""The interface through which following reads a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from launcher.client.sessions.base import LogEvent, LogStream

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription


class LogSource(Protocol):
    """The part of a session (`launcher.client.sessions.base`) that following needs."""

    @property
    def log_delay_seconds(self) -> float:
        """Seconds until a printed line is readable, at most."""
        ...

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803
        """Return the DescribeTrainingJob document."""
        ...

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the log streams of the job's hosts."""
        ...

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return events of a stream from a position on, and the position after them."""
        ...
