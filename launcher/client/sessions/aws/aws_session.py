"""AwsSession: the platform interface, implemented by SageMaker, S3, CloudWatch, IAM and STS."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.home import records_folder
from launcher.client.request import image_of, redacted
from launcher.client.sessions.aws import (
    caller_identity,
    cloudwatch_logs,
    cloudwatch_metrics,
    s3_storage,
    sagemaker_jobs,
)
from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.sagemaker_platform import SAGEMAKER
from launcher.client.sessions.base import (
    JobFilters,
    LogEvent,
    LogStream,
    MetricPoint,
    Platform,
    Progress,
)
from launcher.client.sessions.default_values import DefaultValue, read_defaults
from launcher.client.sessions.s3_uris import bucket_and_key, is_s3
from launcher.errors import LogNotFound, Problem, SpecError
from launcher.shared import printable

if TYPE_CHECKING:
    import boto3
    from typing_extensions import Unpack

    from launcher.client.spec import JobSpec
    from launcher.shared import (
        TrainingJobCreated,
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
    )


def _value(defaults: Mapping[str, DefaultValue], name: str) -> str | None:
    return str(defaults[name].value) if name in defaults else None


def _print_to_stderr(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


class AwsSession:
    """Runs training jobs on SageMaker. Safe to use from several threads.

    Sends nothing to AWS before the first call, and honours AWS_ENDPOINT_URL*.

    region: default: that of `boto_session`, or of boto3's configuration.
    boto_session: a boto3.Session, for other credentials than the default ones.
    default_bucket: for code and output of jobs that name no location; default
        sagemaker-REGION-ACCOUNT. It is created when the first job needs it.
    default_bucket_prefix: prefix below which such jobs store both, in the default bucket.
    notify: called with the reason when a call takes long; default: print on stderr.

    Every method raises CloudError: Refused, Unreachable or CredentialsExpired.
    """

    def __init__(
        self,
        region: str | None = None,
        *,
        boto_session: boto3.Session | None = None,
        default_bucket: str | None = None,
        default_bucket_prefix: str | None = None,
        notify: Callable[[str], None] = _print_to_stderr,
    ) -> None:
        self._clients = Clients(region, boto_session)
        defaults = read_defaults()
        self._bucket_name = default_bucket or _value(defaults, "default_bucket")
        prefix = default_bucket_prefix or _value(defaults, "default_bucket_prefix")
        self.default_bucket_prefix = prefix
        self._notify = notify
        self._account: str | None = None
        self._bucket: s3_storage.DefaultBucket | None = None
        self._bundle_cache = BundleCache(self._clients)
        self._lock = threading.RLock()

    # identity ----------------------------------------------------------------------------------

    @property
    def platform(self) -> Platform:
        """SageMaker."""
        return SAGEMAKER

    @property
    def region(self) -> str:
        """The AWS region of the jobs."""
        return self._clients.region

    @property
    def account(self) -> str:
        """The AWS account's 12 digits, requested once."""
        with self._lock:
            if self._account is None:
                self._account = caller_identity.account_of(
                    caller_identity.caller_arn(self._clients, self._notify)
                )
            return self._account

    def role_arn(self, role: str | None) -> str:
        """Return the ARN of a role; without one, that of the notebook or of the caller."""
        return caller_identity.role_arn(self._clients, role, notify=self._notify)

    def default_location(self) -> str:
        """Return the s3:// URI of the default bucket, with its prefix if there is one."""
        prefix = (self.default_bucket_prefix or "").strip("/")
        return f"s3://{self._default_bucket.name}/{prefix}".rstrip("/")

    def default_image(self, spec: JobSpec) -> str | None:
        """Return AWS's own image for the job's framework_version; None for a job without one."""
        return image_of(spec, self.region)

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: TrainingJobRequest, uploads: Collection[str]) -> None:
        """Raise SpecError for uploads that are not in S3."""
        problems = [
            Problem(
                what=f"{uri} is not in S3, so SageMaker cannot read it",
                where="code_location",
                fix="set it to s3://BUCKET/PREFIX",
            )
            for uri in uploads
            if not is_s3(uri)
        ]
        if problems:
            raise SpecError(problems)

    def create_training_job(self, **request: Unpack[TrainingJobRequest]) -> TrainingJobCreated:
        """Create a job exactly once, with retries; return {"TrainingJobArn": ...}."""
        self._ensure_bucket_of(request["OutputDataConfig"]["S3OutputPath"])
        creation = sagemaker_jobs.Creation(self._clients, request, self._notify)
        return {"TrainingJobArn": creation.run()}

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document, with the job's token redacted."""
        return redacted(sagemaker_jobs.describe(self._clients, TrainingJobName))

    def place_notes(self, description: TrainingJobDescription) -> list[str]:
        """Return the region where a described job runs."""
        return [f"on SageMaker in {self.region}"]

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        """Ask a job to stop; do nothing if it is ending or has ended."""
        sagemaker_jobs.stop(self._clients, TrainingJobName)

    def update_training_job(self, **request: object) -> None:
        """Change a running job; the arguments are those of UpdateTrainingJob."""
        sagemaker_jobs.update(self._clients, **request)

    def record_file(self, job_name: str) -> Path:
        """Return the file of the record of a job that was sent from this machine."""
        return records_folder() / "aws" / self.region / f"{job_name}.json"

    def session_as_of(self, job_name: str) -> AwsSession:
        """Return this session: jobs on AWS have no options beside their request."""
        return self

    @property
    def poll_seconds(self) -> float:
        """Seconds between two status checks; fewer when the endpoint is on this machine."""
        return 0.5 if self._clients.are_local else 5.0

    def list_training_jobs(
        self, *, limit: int | None = None, **filters: Unpack[JobFilters]
    ) -> TrainingJobList:
        """Return {"TrainingJobSummaries": [...]}, newest first, at most `limit`."""
        return sagemaker_jobs.summaries(self._clients, filters, limit)

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
        """Store one object in S3; with `shared`, copy it from there inside S3 if possible."""
        self._ensure_bucket_of(uri)
        if shared is None:
            s3_storage.upload(self._clients, content, uri, kms_key, progress)
        else:
            self._bundle_cache.store(content, uri, shared, kms_key, progress)

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        """Copy one object from S3 into a file."""
        s3_storage.download(self._clients, uri, path, progress)

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the job's streams in CloudWatch, hosts in numeric order."""
        streams = cloudwatch_logs.streams(self._clients, job_name)
        if not streams:
            self.describe_training_job(TrainingJobName=job_name)  # JobNotFound for an unknown name
        return streams

    @property
    def log_delay_seconds(self) -> float:
        """Longest delay of a line in seconds; shorter when the endpoint is on this machine."""
        return 2.0 if self._clients.are_local else cloudwatch_logs.DELAY_SECONDS

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return events after a position, at most `limit`, and where they end."""
        found = cloudwatch_logs.read(self._clients, stream, position, limit)
        if found is None:
            self.describe_training_job(TrainingJobName=job_name)  # JobNotFound for an unknown name
            raise LogNotFound(
                f"CloudWatch has no log stream {stream} (any more)", code=cloudwatch_logs.NOT_FOUND
            )
        return found

    # metrics -----------------------------------------------------------------------------------

    def metric_averages(
        self, job_name: str, metric: str, start: datetime, end: datetime, period: int
    ) -> list[MetricPoint]:
        """Return a metric's average of each period from CloudWatch, by time."""
        return cloudwatch_metrics.averages(self._clients, job_name, metric, start, end, period)

    def host_averages(
        self,
        job_name: str,
        hosts: Collection[str],
        metrics: Collection[str],
        start: datetime,
        end: datetime,
        period: int,
    ) -> dict[tuple[str, str], list[MetricPoint]]:
        """Return each (host, metric)'s average of each period from CloudWatch, by time."""
        series = [(host, metric) for host in hosts for metric in metrics]
        return cloudwatch_metrics.host_averages(self._clients, job_name, series, start, end, period)

    # the default bucket ------------------------------------------------------------------------

    @property
    def _default_bucket(self) -> s3_storage.DefaultBucket:
        with self._lock:
            if self._bucket is None:
                given = self._bucket_name
                name = given or f"sagemaker-{self.region}-{self.account}"
                owner = None if given else self.account
                self._bucket = s3_storage.DefaultBucket(self._clients, name, owner)
            return self._bucket

    def _ensure_bucket_of(self, uri: str) -> None:
        """Create the default bucket if the URI is in it."""
        bucket = bucket_and_key(uri)[0]
        # The name's prefix rules out most other buckets without asking AWS for the account.
        beginning = self._bucket_name or f"sagemaker-{self.region}-"
        if bucket.startswith(beginning) and bucket == self._default_bucket.name:
            self._default_bucket.ensure()


class BundleCache:
    """Stores objects together with a cached copy of each, at a URI that names its content."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: set[str] = set()
        self._first = threading.Lock()

    def store(
        self,
        content: bytes | Path,
        uri: str,
        shared: str,
        kms_key: str | None,
        progress: Progress | None,
    ) -> None:
        """Store content at `uri`; `shared` is the URI of the cached copy.

        When many jobs are sent at once, the first uploads the content while the others wait.
        """
        with contextlib.ExitStack() as waiting:
            waiting.enter_context(self._first)
            if shared in self._known:
                waiting.close()  # a copy is quick: they need not wait for each other
            # The checksum is S3's own, of the copy: an object that was tampered with is not used.
            checksum = s3_storage.copy(self._clients, shared, uri, kms_key)
            if checksum != s3_storage.sha256_of(content):
                s3_storage.upload(self._clients, content, uri, kms_key, progress)
                # If S3 refuses the next line, the next job uploads its bundle again.
                s3_storage.copy(self._clients, uri, shared, kms_key)
            self._known.add(shared)
