"""The ports of a platform that runs training jobs; the shapes are those of the SageMaker API.

Whoever implements `Session` keeps these clauses:

1. `create_training_job` takes the exact CreateTrainingJob request and returns as soon as the job
   is accepted; the job then runs to its end whether or not the caller stays.
2. A name that was ever used is refused, and so is a request the platform cannot run; both raise
   PlatformError (this machine) or CloudError (AWS), and nothing has been started. What can be known
   without starting anything is said by `check_training_job` already, before the code is uploaded.
3. `describe_training_job` answers from any process, at any time after the creation, and echoes the
   request's fields; once the status is terminal it never changes again.
4. `stop_training_job` returns at once and may be repeated; stopping a job that has ended changes
   nothing. The job passes through Stopping to Stopped.
5. Every method that takes a job's name raises JobNotFound for one that is not known.
6. A log is append-only, and its times never go back. `read_log` from no position gives all of it;
   from a returned position it gives what came after. When the status is terminal, the logs are
   complete, or will be within the seconds that `log_delay_seconds` says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from launcher.spec import JobSpec

#: TrainingJobStatus values after which nothing changes any more.
TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})

#: The `region` of a platform that is not AWS.
LOCAL_REGION = "local"


@dataclass(frozen=True)
class LogStream:
    """One log of one host; a host that was restarted has several.

    name: what `read_log` takes; host: "algo-3".
    """

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line of a log: when it was printed (seconds since the epoch), and its text."""

    time: float
    text: str


#: Told of bytes copied so far, and of all that there are (None: not known).
Progress = Callable[[int, "int | None"], None]


class Session(Protocol):
    """A platform that runs training jobs: SageMaker, or this machine."""

    # identity ----------------------------------------------------------------------------------

    @property
    def region(self) -> str:
        """The AWS region of the jobs (LOCAL_REGION where there is none)."""

    @property
    def account(self) -> str:
        """The 12 digits of the AWS account."""

    def role_arn(self, role: str | None) -> str:
        """The ARN of an IAM role given by name, by ARN, or not at all (the platform's default)."""

    def default_location(self) -> str:
        """The URI prefix for code and output when the spec names none, without a final slash."""

    def default_image(self, spec: JobSpec) -> str | None:
        """The training image for a spec that names none; None when the platform has no default."""

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: Mapping[str, Any], uploads: Collection[str]) -> None:
        """Refuse a request as `create_training_job` would, once the `uploads` (URIs) are there."""

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        """Start a job; {"TrainingJobArn": ...}."""

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 (AWS)
        """The DescribeTrainingJob document; a job's token is redacted in its Environment."""

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        """Ask a job to stop."""

    @property
    def poll_seconds(self) -> float:
        """How often one who waits for a job should ask how it stands."""

    def list_training_jobs(
        self,
        *,
        NameContains: str | None = None,  # noqa: N803 (AWS)
        StatusEquals: str | None = None,  # noqa: N803 (AWS)
        CreationTimeAfter: datetime | None = None,  # noqa: N803 (AWS)
        CreationTimeBefore: datetime | None = None,  # noqa: N803 (AWS)
        limit: int | None = None,
    ) -> dict[str, Any]:
        """{"TrainingJobSummaries": [...]}, the newest first, `limit` at most."""

    # storage -----------------------------------------------------------------------------------

    def upload(
        self,
        content: bytes,
        uri: str,
        *,
        shared: str | None = None,
        kms_key: str | None = None,
    ) -> None:
        """Store one object at a URI of this platform's scheme (s3:// or file://).

        shared: a URI of the same content for all jobs; a platform to which bytes travel far copies
            from there, or keeps the object there for the next job.
        kms_key: of AWS, to encrypt the object with; default: the bucket's own.
        """

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        """Copy one object into a file whose folder exists; no half file is left by an error."""

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """The streams that exist now, hosts in numeric order, older streams of a host first."""

    @property
    def log_delay_seconds(self) -> float:
        """How long after it was printed a line may first be seen; 0 where there is no delay."""

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Complete lines after `position` (None: the start), `limit` at most, and where they end.

        No lines means that there are no more for now.
        """
