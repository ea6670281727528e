"""The interface of a platform that runs training jobs, in the shapes of the SageMaker API.

Every implementation of `Session` keeps these clauses:

1. `create_training_job` takes the exact CreateTrainingJob request and returns as soon as the job
   is accepted; the job then runs to its end whether or not the caller stays.
2. A name that was ever used is refused, and so is a request that the platform cannot run. Both
   raise PlatformError (this machine) or CloudError (AWS), and nothing has been started. Whatever
   can be checked without starting anything is already checked by `check_training_job`, before the
   code is uploaded.
3. `describe_training_job` answers from any process, at any time after the creation, and echoes the
   request's fields; once the status is terminal it never changes again.
4. `stop_training_job` returns at once and may be repeated; stopping a job that has ended changes
   nothing. The job passes through Stopping to Stopped.
5. Every method that takes a job's name raises JobNotFound for an unknown name.
6. A log is append-only, and its times never decrease. `read_log` without a position returns the
   log from its start; with a returned position it returns what came after. When the status is
   terminal, the logs are complete, or will be within `log_delay_seconds`.
7. `platform` says everything that the rest of Launcher asks about where a job runs; nothing outside
   this package tests for a session's class, its region or the scheme of its URIs.

`launcher.client.sessions.conformance` checks them on any session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from launcher.client.request import RequestJudge, Violation
    from launcher.client.spec import JobSpec, Retry
    from launcher.errors import CloudError, FieldPath
    from launcher.shared import (
        TrainingJobCreated,
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
    )

#: Final values of TrainingJobStatus.
TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})
#: The folder of all jobs' checkpoints in a default location, where each job has one of its name.
CHECKPOINTS_FOLDER = "checkpoints"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """All that the rest of Launcher needs to know about the kind of a session.

    name: one word, as in the registry of sessions.
    bills: whether its jobs cost money, so that a plan is shown and a cost limit applies.
    uri_scheme: of the URIs that it stores code and results at, such as "s3".
    reads_files: whether its jobs can read file:// URIs of the submitting machine.
    judge: returns the violations of a request against the platform's limits, without any call.
    is_transient: returns whether the same call may succeed later, after an error.
    runs_here: whether hosts run on this machine.
    runs_image: whether hosts run the job's image; if not, they run in a Python of this machine,
        whose packages they have. python: the path of that one; None for the running one.
    uses_aws: whether it calls AWS with the user's configuration: jobs get the defaults from files,
        and a dry run calls nothing unless it is asked to.
    installs: whether the packages of requirements.txt are installed before a script starts.
    """

    name: str
    bills: bool
    uri_scheme: str
    reads_files: bool
    judge: RequestJudge = field(repr=False)
    is_transient: Callable[[CloudError], bool] = field(repr=False)
    runs_here: bool = False
    runs_image: bool = True
    python: str | None = None
    uses_aws: bool = False
    installs: bool = True


def violations_without_aws(request: TrainingJobRequest, *, scheme: str) -> tuple[Violation, ...]:
    """Return the errors of a request against SageMaker's limits that hold off AWS too.

    There a location may be a URI of the platform's own `scheme`, and any instance type is allowed.
    """
    from launcher.client.request import UnknownType, find_violations  # not for shell completion

    return tuple(
        found
        for found in find_violations(request)
        if not (
            found.is_warning
            or isinstance(found, UnknownType)  # nothing is rented
            or _has_scheme(request, found.path, scheme)
        )
    )


def _has_scheme(request: TrainingJobRequest, path: FieldPath, scheme: str) -> bool:
    value: Any = request
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):  # a field that is absent
        return False
    return isinstance(value, str) and value.startswith(f"{scheme}://")


@dataclass(frozen=True)
class LogStream:
    """One log of one host; a host that was restarted has several.

    name: the stream's name, as `read_log` takes it.
    host: the host's name, such as "algo-3".
    """

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line of a log: its time (seconds since the epoch) and its text."""

    time: float
    text: str


#: Called with the bytes copied so far and the total (None: unknown).
Progress = Callable[[int, "int | None"], None]


class JobFilters(TypedDict, total=False):
    """The filters of ListTrainingJobs; None is none."""

    NameContains: str | None
    StatusEquals: str | None
    CreationTimeAfter: datetime | None
    CreationTimeBefore: datetime | None


class PlatformSession(Protocol):
    """A platform that runs training jobs: SageMaker, this machine, or another."""

    # identity ----------------------------------------------------------------------------------

    @property
    def platform(self) -> Platform:
        """The kind of this session."""

    @property
    def region(self) -> str:
        """The AWS region of the jobs, or the region that jobs see on another platform."""

    @property
    def account(self) -> str:
        """The AWS account's 12 digits."""

    def role_arn(self, role: str | None) -> str:
        """Return the ARN of an IAM role given by name or ARN, or of the platform's default role."""

    def default_location(self) -> str:
        """Return the URI prefix for code and output of specs that name none; no final slash."""

    def default_image(self, spec: JobSpec) -> str | None:
        """Return the training image for a spec that names none; None without a default."""

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: TrainingJobRequest, uploads: Collection[str]) -> None:
        """Refuse a request as `create_training_job` would once the `uploads` (URIs) exist."""

    def create_training_job(self, **request: Unpack[TrainingJobRequest]) -> TrainingJobCreated:
        """Start a job; return {"TrainingJobArn": ...}."""

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document, the job's token redacted in its Environment."""

    def place_notes(self, description: TrainingJobDescription) -> list[str]:
        """Return where a described job runs ("on ..."), then what differs there from AWS."""

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        """Ask a job to stop."""

    @property
    def poll_seconds(self) -> float:
        """Seconds between two status checks by a caller that waits for a job."""

    def list_training_jobs(
        self, *, limit: int | None = None, **filters: Unpack[JobFilters]
    ) -> TrainingJobList:
        """Return {"TrainingJobSummaries": [...]}, newest first, at most `limit`."""

    # storage -----------------------------------------------------------------------------------

    def upload(
        self,
        content: bytes | Path,
        uri: str,
        *,
        shared: str | None = None,
        kms_key: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Store one object at a URI of this platform's scheme (s3:// or file://).

        content: its bytes, or the file that has them, which is too large to be read at once.
        shared: a URI for the same content, shared by all jobs. A platform with slow uploads copies
            from there, or keeps the object there for the next job.
        kms_key: the AWS KMS key that encrypts the object; default: the bucket's own.
        progress: called with the bytes stored so far, where that takes its time.
        """

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        """Copy one object into a file whose folder exists; an error leaves no partial file."""

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the existing streams, hosts in numeric order, older streams of a host first."""

    @property
    def log_delay_seconds(self) -> float:
        """Longest time between printing a line and its first being visible; 0 without a delay."""

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return complete lines after `position` (None: the start), at most `limit`, and their end.

        No lines means that there are no more for now. A thread of its own calls it while a job is
        followed. May raise LogNotFound for a stream that was listed, and has vanished.
        """


@dataclass(frozen=True, kw_only=True)
class MetricPoint:
    """The average of a metric in one period; time: its start, in seconds since the epoch."""

    time: float
    value: float


@runtime_checkable
class HasMetricAverages(Protocol):
    """A session whose platform keeps the metrics of its jobs over time, beside their logs."""

    def metric_averages(
        self, job_name: str, metric: str, start: datetime, end: datetime, period: int
    ) -> list[MetricPoint]:
        """Return a metric's average of each period that has values, by time.

        period: in seconds; the platform's next longer one where it has no values of that one.
        """


@runtime_checkable
class HasHostAverages(Protocol):
    """A session whose platform measures the use of each host of its jobs.

    The metrics are those of SageMaker in CloudWatch, in percent: CPUUtilization, of which 100 is
    one vCPU, and GPUUtilization, of which 100 is one GPU.
    """

    def host_averages(
        self,
        job_name: str,
        hosts: Collection[str],
        metrics: Collection[str],
        start: datetime,
        end: datetime,
        period: int,
    ) -> dict[tuple[str, str], list[MetricPoint]]:
        """Return each (host, metric)'s average of each period, by time; period as above."""


@runtime_checkable
class CanUpdateJobs(Protocol):
    """A session whose platform can change a running job."""

    def update_training_job(self, **request: object) -> None:
        """Change a running job; the arguments are those of UpdateTrainingJob."""


@runtime_checkable
class KeepsRecords(Protocol):
    """A session that keeps, on this machine, a record of each job that was sent from here."""

    def record_file(self, job_name: str) -> Path:
        """Return the file of a job's record, which may not exist."""

    def session_as_of(self, job_name: str) -> PlatformSession:
        """Return the session with the options that a job was sent with."""


@runtime_checkable
class RestartsJobs(Protocol):
    """A session whose platform restarts jobs by their policy, whoever follows them."""

    def with_retry(self, retry: Retry) -> PlatformSession:
        """Return the session whose jobs have a policy."""

    def next_attempt(self, job_name: str) -> str | None:
        """Return the name of the attempt that follows a job, or will; None if none does."""


@runtime_checkable
class KeepsJobFiles(Protocol):
    """A session whose jobs take space of this machine."""

    def stored_bytes(self, job_name: str) -> int:
        """Return the bytes that a job's files take."""


def is_session(given: object) -> TypeGuard[PlatformSession]:
    """Return whether an object is a session of ours, not one of another SDK."""
    return isinstance(getattr(given, "platform", None), Platform)
