"""A session for users' own tests: jobs run nothing, exist in memory, and end as the test decides.

session = MemorySession(lambda request: MemoryRun(lines=["loss=0.25"], metrics={"loss": 0.25}))
job = PyTorch("train.py", ..., sagemaker_session=session).fit()
assert session.requests[job.name]["HyperParameters"] == {"epochs": "3"}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from launcher.client.request import redacted
from launcher.client.sessions.base import (
    TERMINAL_STATUSES,
    JobFilters,
    LogEvent,
    LogStream,
    Platform,
    Progress,
    violations_without_aws,
)
from launcher.client.sessions.job_list import newest_jobs, summarize_job
from launcher.errors import JobNotFound, PlatformError, Problem, RequestRefused

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from launcher.client.spec import JobSpec
    from launcher.shared import (
        TrainingJobCreated,
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
        TrainingJobSummary,
    )

MEMORY = Platform(
    name="memory",
    bills=False,
    uri_scheme="memory",
    reads_files=True,
    judge=partial(violations_without_aws, scheme="memory"),
    is_transient=lambda _error: False,
)


@dataclass(frozen=True, kw_only=True)
class MemoryRun:
    """The course of one job on a MemorySession.

    lines: printed by every host. failure: its FailureReason; None for a job that completes.
    metrics: the final values of its metrics. model: the bytes of its model.tar.gz; None without.
    is_endless: runs until it is stopped.
    """

    lines: Collection[str] = ()
    failure: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    model: bytes | None = None
    is_endless: bool = False


def _completes(_request: TrainingJobRequest) -> MemoryRun:
    return MemoryRun()


class MemorySession:
    """Accepts training jobs, checks their requests, and runs nothing.

    A job is in training when it is first described, and has ended from then on.

    play: returns the course of a job from its request; by default it completes and prints nothing.
    platform: another description of the session, such as one that bills.
    requests: the request of each job by its name; objects: the content of each URI.
    """

    def __init__(
        self,
        play: Callable[[TrainingJobRequest], MemoryRun] = _completes,
        *,
        platform: Platform = MEMORY,
        region: str = "memory",
        account: str = "000000000000",
    ) -> None:
        self.platform = platform
        self.region = region
        self.account = account
        self.requests: dict[str, TrainingJobRequest] = {}
        self.objects: dict[str, bytes] = {}
        self._play = play
        self._jobs: dict[str, _MemoryJob] = {}

    # identity ----------------------------------------------------------------------------------

    def role_arn(self, role: str | None) -> str:
        """Return an ARN for a role; a given ARN is returned unchanged."""
        if role is not None and role.startswith("arn:"):
            return role
        return f"arn:aws:iam::{self.account}:role/{role or 'memory'}"

    def default_location(self) -> str:
        """Return the URI below which code and results are kept."""
        return f"{self.platform.uri_scheme}://storage"

    def default_image(self, spec: JobSpec) -> str | None:
        """Return the name of the platform: no image is run."""
        return self.platform.name

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: TrainingJobRequest, uploads: Collection[str]) -> None:
        """Raise RequestRefused for a request that breaks a limit or names a used name."""
        found = self.platform.judge(request)
        problems: list[Problem] = [each for each in found if not each.is_warning]
        if request.get("TrainingJobName") in self._jobs:
            what = f"the name {request['TrainingJobName']!r} was used for a job before"
            problems.append(Problem(what=what, where="TrainingJobName", fix="give another name"))
        if problems:
            raise RequestRefused(problems)

    def create_training_job(self, **request: Unpack[TrainingJobRequest]) -> TrainingJobCreated:
        """Accept a job; return {"TrainingJobArn": ...}."""
        self.check_training_job(request, ())
        name = request["TrainingJobName"]
        arn = f"arn:aws:sagemaker:{self.region}:{self.account}:training-job/{name}"
        self._jobs[name] = _MemoryJob(request, arn, self._play(request))
        self.requests[name] = request
        return {"TrainingJobArn": arn}

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document as of now, and advance the job."""
        job = self._find(TrainingJobName)
        document = job.document()
        job.go_on()
        if job.model_uri and job.run.model is not None:
            self.objects[job.model_uri] = job.run.model
        return document

    def place_notes(self, description: TrainingJobDescription) -> list[str]:
        """Return the name of the platform, and that it runs nothing."""
        return [f"on {self.platform.name}", "nothing is run"]

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        """Ask a job to stop; do nothing if it has ended."""
        self._find(TrainingJobName).stop()

    @property
    def poll_seconds(self) -> float:
        """Seconds between two status checks: few, since each check advances a job."""
        return 0.01

    def list_training_jobs(
        self, *, limit: int | None = None, **filters: Unpack[JobFilters]
    ) -> TrainingJobList:
        """Return {"TrainingJobSummaries": [...]}, newest first, at most `limit`."""
        newest_first = (job.summary() for job in reversed(self._jobs.values()))
        return newest_jobs(newest_first, limit=limit, **filters)

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
        """Keep one object; the other arguments have no effect."""
        if not uri.startswith(f"{self.platform.uri_scheme}://"):
            raise PlatformError(f"{uri!r} is not a {self.platform.uri_scheme}:// URI")
        self.objects[uri] = content if isinstance(content, bytes) else content.read_bytes()

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        """Write one object into a file; raise PlatformError when there is no such object."""
        if uri not in self.objects:
            raise PlatformError(f"there is no object {uri}")
        content = self.objects[uri]
        path.write_bytes(content)
        if progress:
            progress(len(content), len(content))

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return one stream for each host, in numeric order."""
        hosts = range(1, self._find(job_name).hosts + 1)
        return [LogStream(name=f"algo-{host}", host=f"algo-{host}") for host in hosts]

    @property
    def log_delay_seconds(self) -> float:
        """Always 0."""
        return 0.0

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return the lines after a position, at most `limit`, and the position after them."""
        job, start = self._find(job_name), int(position or 0)
        lines = list(job.run.lines)[start : start + limit]
        return [LogEvent(job.created.timestamp(), line) for line in lines], str(start + len(lines))

    def _find(self, name: str) -> _MemoryJob:
        if name not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise JobNotFound(f"there is no job {name!r} in memory; the jobs are: {known}")
        return self._jobs[name]


class _MemoryJob:
    """One job: its request, its course and its state."""

    def __init__(self, request: TrainingJobRequest, arn: str, run: MemoryRun) -> None:
        self.run = run
        self.created = _now()
        self.status = "InProgress"
        self._states = [("Training", self.created)]
        self._arn = arn
        self._request = request
        resources = request["ResourceConfig"]
        groups = resources.get("InstanceGroups")
        self.hosts = (
            sum(group["InstanceCount"] for group in groups)
            if groups
            else resources.get("InstanceCount", 0)
        )

    @property
    def model_uri(self) -> str | None:
        """The URI of the model of a completed job; None without a model."""
        if self.status != "Completed" or self.run.model is None:
            return None
        base = str(self._request["OutputDataConfig"]["S3OutputPath"]).rstrip("/")
        return f"{base}/{self._request['TrainingJobName']}/output/model.tar.gz"

    def go_on(self) -> None:
        """Enter the next state; nothing changes after the end."""
        if self.status == "Stopping":
            self._enter("Stopped", "Stopped")
        elif self.status == "InProgress" and not self.run.is_endless:
            ending = "Completed" if self.run.failure is None else "Failed"
            self._enter(ending, ending)

    def stop(self) -> None:
        """Enter Stopping, unless the job has ended."""
        if self.status == "InProgress":
            self._enter("Stopping", "Stopping")

    def summary(self) -> TrainingJobSummary:
        """Return the entry in ListTrainingJobs."""
        return summarize_job(self.document())

    def document(self) -> TrainingJobDescription:
        """Return the DescribeTrainingJob document, the token redacted."""
        state, since = self._states[-1]
        document: dict[str, Any] = {**redacted(self._request)} | {
            "TrainingJobArn": self._arn,
            "TrainingJobStatus": self.status,
            "SecondaryStatus": state,
            "SecondaryStatusTransitions": self._transitions(),
            "CreationTime": self.created,
            "LastModifiedTime": since,
            "TrainingStartTime": self.created,
        }
        if self.status in TERMINAL_STATUSES:
            document |= self._ending(since)
        return cast("TrainingJobDescription", document)

    def _ending(self, ended: datetime) -> dict[str, Any]:
        seconds = max(1, round((ended - self.created).total_seconds()))
        metrics = [
            {"MetricName": name, "Value": value, "Timestamp": ended}
            for name, value in self.run.metrics.items()
        ]
        fields: dict[str, Any] = {
            "TrainingEndTime": ended,
            "TrainingTimeInSeconds": seconds,
            "BillableTimeInSeconds": seconds,
            "FinalMetricDataList": metrics,
        }
        if self.status == "Failed":
            fields["FailureReason"] = self.run.failure
        if self.model_uri:
            fields["ModelArtifacts"] = {"S3ModelArtifacts": self.model_uri}
        return fields

    def _transitions(self) -> list[dict[str, Any]]:
        ends = [start for _, start in self._states[1:]]
        found: list[dict[str, Any]] = [
            {"Status": state, "StartTime": start, "StatusMessage": state}
            for state, start in self._states
        ]
        for transition, end in zip(found, ends, strict=False):
            transition["EndTime"] = end
        return found

    def _enter(self, status: str, state: str) -> None:
        self.status = status
        self._states.append((state, _now()))


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), tz=timezone.utc)
