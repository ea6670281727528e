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
6. A log is append-only. `read_log` from position 0 gives all of it; from a returned position it
   gives what came after. When the status is terminal, the logs are complete.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from launcher.spec import JobSpec

#: TrainingJobStatus values after which nothing changes any more.
TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})


@dataclass(frozen=True)
class LogStream:
    """One log of one host; a host that was restarted has several.

    name: what `read_log` takes; host: "algo-3".
    """

    name: str
    host: str


class Session(Protocol):
    """A platform that runs training jobs: SageMaker, or this machine."""

    # identity ----------------------------------------------------------------------------------

    @property
    def region(self) -> str:
        """The AWS region of the jobs ("local" where there is none)."""

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

    def list_training_jobs(
        self,
        *,
        NameContains: str | None = None,  # noqa: N803 (AWS)
        StatusEquals: str | None = None,  # noqa: N803 (AWS)
    ) -> dict[str, Any]:
        """{"TrainingJobSummaries": [...]}, the newest first."""

    # storage -----------------------------------------------------------------------------------

    def upload(self, content: bytes, uri: str) -> None:
        """Store one object at a URI of this platform's scheme (s3:// or file://)."""

    def download(self, uri: str, path: Path) -> None:
        """Copy one object into a file whose folder exists."""

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """The streams that exist now, hosts in numeric order, older streams of a host first."""

    def read_log(self, job_name: str, stream: str, position: int) -> tuple[list[str], int]:
        """Complete lines after `position` (0: the start), and the position after them.

        A platform may give them in pieces; no lines means that there are no more for now.
        """
