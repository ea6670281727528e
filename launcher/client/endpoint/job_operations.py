"""The training jobs of the endpoint: a local session's jobs, described as AWS would.

Its registry has the region and tags of each, which the local platform does not store.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.endpoint.responses import ApiError, validation_error
from launcher.client.sessions import (
    TERMINAL_STATUSES,
    JobFolder,
    JobRoot,
    LocalSession,
    discard_folder,
    job_arn,
    place_note,
    read_json,
    write_json,
)
from launcher.errors import JobNotFound, PlatformError
from launcher.shared import FAILURE_REASON_LIMIT, LAUNCH_SCRIPT

if TYPE_CHECKING:
    from launcher.shared import TrainingJobSummary


#: How long to wait for the processes of an ended job; they need a fraction of a second.
_EXIT_SECONDS = 30.0


class Jobs:
    """Creates, describes, stops and deletes jobs, with a region, account and ARN for each.

    account: 12 digits; open_session: for the jobs of a region.
    """

    def __init__(
        self, root: Path, account: str, open_session: Callable[[str], LocalSession]
    ) -> None:
        self._account = account
        self._open_session = open_session
        self._store = JobRoot(root)
        self.registry = JobRegistry(root / "endpoint")
        self._lock = threading.Lock()
        self._reserved_names: set[str] = set()

    def arn(self, name: str, region: str) -> str:
        """Return the ARN of a job."""
        return job_arn(name, region=region, account=self._account)

    def check_name(self, name: str, region: str) -> None:
        """Raise ApiError when a name is already used; here names are unique over all regions."""
        if name in self._reserved_names or self._is_taken(name):
            raise ApiError(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, and a "
                f"training job with this name already exists ({self.arn(name, region)})",
            )

    def create(self, request: Mapping[str, Any], region: str) -> str:
        """Start a job and return its ARN; raise ApiError for a used name or an impossible job."""
        name = request["TrainingJobName"]
        with self._reserve_name(name, region):
            tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", ())}
            self.registry.write(name, JobEntry(region=region, tags=tags))
            try:
                self._open_session(region).create_training_job(**request)
            except PlatformError as error:
                self.registry.remove(name)
                raise validation_error(str(error)) from error
        return self.arn(name, region)

    def describe(self, name: str, region: str) -> dict[str, object]:
        """Return a job's document; raise ApiError if this region has no job of that name."""
        entry = self.registry.read(name)
        try:
            document = self._open_session(region).describe_training_job(TrainingJobName=name)
        except JobNotFound:
            entry = None
        except PlatformError as error:
            raise ApiError("InternalFailure", str(error), 500) from error
        if entry is None or entry.region != region:
            raise not_found()
        return self._described(document, entry)

    def summaries(self, region: str) -> Iterator[TrainingJobSummary]:
        """Yield the list entries of a region's jobs, newest first."""
        names = set(self.registry.names(region))
        for summary in self._open_session(region).list_training_jobs()["TrainingJobSummaries"]:
            if summary["TrainingJobName"] in names:
                yield summary

    def all(self, region: str) -> Iterator[dict[str, Any]]:
        """Yield the documents of a region's jobs, newest first."""
        for summary in self.summaries(region):
            with contextlib.suppress(ApiError):  # deleted meanwhile
                yield self.describe(summary["TrainingJobName"], region)

    def stop(self, name: str, region: str) -> None:
        """Stop a running job; raise ApiError for any other."""
        status = self.describe(name, region)["TrainingJobStatus"]
        if status != "InProgress":
            raise validation_error(
                f"The request was rejected because the training job is in status {status}"
            )
        self._open_session(region).stop_training_job(TrainingJobName=name)

    def delete(self, name: str, region: str) -> None:
        """Delete a job that has ended, and free its name."""
        status = self.describe(name, region)["TrainingJobStatus"]
        if status not in TERMINAL_STATUSES:
            raise validation_error(
                f"The request was rejected because the training job is in status {status}"
            )
        folder = self._store.find(name)
        lock = _lock_of(folder)
        try:
            _remove(folder.path)
            self.registry.remove(name)
        finally:
            os.close(lock)

    @contextmanager
    def _reserve_name(self, name: str, region: str) -> Iterator[None]:
        """Reserve the name for the block; of several simultaneous requests, one succeeds."""
        with self._lock:
            self.check_name(name, region)
            self._reserved_names.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._reserved_names.remove(name)

    def _is_taken(self, name: str) -> bool:
        try:
            self._store.find(name)
        except JobNotFound:
            return False
        return True

    @staticmethod
    def _described(document: Mapping[str, object], entry: JobEntry) -> dict[str, object]:
        tags = [{"Key": key, "Value": value} for key, value in entry.tags.items()]
        return {
            **with_aws_defaults(document),
            "Tags": tags,
            "SecondaryStatusTransitions": _with_notes(document),
        }


def not_found() -> ApiError:
    """Return the refusal for a job that does not exist."""
    return validation_error("Requested resource not found.")


def _with_notes(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the transitions; the first lists what differs from AWS, where any client shows it."""
    first, *others = document["SecondaryStatusTransitions"]
    notes = [place_note(document), *document["LocalNotes"]]
    return [first | {"StatusMessage": ". ".join([first["StatusMessage"], *notes])}, *others]


def _lock_of(folder: JobFolder) -> int:
    """Lock an ended job once its watchdog has exited, which could mistake another job for it."""
    deadline = time.monotonic() + _EXIT_SECONDS
    while (lock := folder.take_lock()) is None:
        if time.monotonic() > deadline:
            raise validation_error(
                f"The processes of training job {folder.name} have not ended yet"
            )
        time.sleep(0.02)
    return lock


def _remove(folder: Path) -> None:
    """Free the name at once, then delete the folder, whatever modes its job has set."""
    trash = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".gone-"))
    folder.rename(trash / folder.name)
    discard_folder(trash)


Document = Mapping[str, Any]

_JOB = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
    "ProfilingStatus": "Disabled",
}
_STOPPING_CONDITION = {"MaxRuntimeInSeconds": 24 * 3600}
_CHANNEL = {"CompressionType": "None", "RecordWrapperType": "None"}
_S3_SOURCE = {"S3DataDistributionType": "FullyReplicated"}
#: How the local platform says that a host ended which has written no reason.
_UNEXPLAINED = re.compile(r"host algo-\d+( \([^)]*\))?: .*")
#: SDK v2's `attach` reads KmsKeyId without asking whether it is there.
_OUTPUT = {"KmsKeyId": "", "CompressionType": "GZIP"}


def with_aws_defaults(document: Document) -> dict[str, object]:
    """Return a job's document with AWS's values for absent fields."""
    described: dict[str, object] = {**_JOB, "ModelArtifacts": _model(document), **document}
    described["AlgorithmSpecification"] = _algorithm(document["AlgorithmSpecification"])
    described["OutputDataConfig"] = {**_OUTPUT, **document["OutputDataConfig"]}
    described["StoppingCondition"] = {**_STOPPING_CONDITION, **document["StoppingCondition"]}
    if "FailureReason" in document:
        described["FailureReason"] = _reason(document)
    if "InputDataConfig" in document:
        described["InputDataConfig"] = [_channel(each) for each in document["InputDataConfig"]]
    return described


def _model(document: Document) -> dict[str, str]:
    """Return where the model will be; the model of the API requires it, whatever the status."""
    output = document["OutputDataConfig"]
    name = "model/" if output.get("CompressionType") == "NONE" else "model.tar.gz"
    folder = f"{output['S3OutputPath'].rstrip('/')}/{document['TrainingJobName']}/output"
    return {"S3ModelArtifacts": f"{folder}/{name}"}


def _reason(document: Document) -> str:
    """Return the reason of a failure, of a container that is not Launcher's in AWS's form."""
    reason, code = str(document["FailureReason"]), document.get("LocalExitCode")
    entrypoint = document["AlgorithmSpecification"].get("ContainerEntrypoint", [""])
    if code is None or entrypoint[-1].rpartition("/")[2] == LAUNCH_SCRIPT:
        return reason
    said, end = "" if _UNEXPLAINED.fullmatch(reason) else reason, f", exit code: {code}"
    return f"AlgorithmError: {said}"[: FAILURE_REASON_LIMIT - len(end)] + end


def _algorithm(algorithm: Mapping[str, object]) -> dict[str, object]:
    """Add the time series of metrics, which SageMaker generates for a job that defines metrics."""
    has_metrics = bool(algorithm.get("MetricDefinitions"))
    return {"EnableSageMakerMetricsTimeSeries": has_metrics, **algorithm}


def _channel(channel: Document) -> dict[str, object]:
    source = channel["DataSource"]
    if "S3DataSource" in source:
        source = {**source, "S3DataSource": {**_S3_SOURCE, **source["S3DataSource"]}}
    return {**_CHANNEL, **channel, "DataSource": source}


#: A job's name (CreateTrainingJob, TrainingJobName); a log stream may have any name.
_NAME = re.compile(r"[a-zA-Z0-9-]{1,63}")


@dataclass(frozen=True, kw_only=True)
class JobEntry:
    """Region and tags of a job.

    region: where the job was created, from its request's signature; tags: by key.
    """

    region: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRegistry:
    """The entries of all jobs, one file each.

    Files: <root>/endpoint/<job>.json, written before the job is created; without a job they mean
    nothing.
    """

    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def write(self, name: str, entry: JobEntry) -> None:
        """Store a job's entry."""
        with self._lock:
            self._write(name, entry)

    def change_tags(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> JobEntry | None:
        """Change a job's tags and return its new entry; changes of several threads add up.

        Returns None, and changes nothing, if there is no such job.
        """
        with self._lock:
            if (entry := self.read(name)) is not None:
                entry = JobEntry(region=entry.region, tags=change(entry.tags))
                self._write(name, entry)
            return entry

    def _write(self, name: str, entry: JobEntry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file(name), asdict(entry))

    def read(self, name: str) -> JobEntry | None:
        """Return a job's entry; None for a job that was not created through the endpoint."""
        try:
            return JobEntry(**read_json(self._file(name))) if _NAME.fullmatch(name) else None
        except FileNotFoundError:
            return None

    def names(self, region: str) -> list[str]:
        """Return the names of a region's jobs."""
        if not self.folder.is_dir():
            return []
        names = [file.stem for file in self.folder.glob("*.json")]
        return [name for name in names if (entry := self.read(name)) and entry.region == region]

    def remove(self, name: str) -> None:
        """Delete a job's entry, if there is one."""
        with self._lock:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"
