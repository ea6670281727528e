"""The DescribeTrainingJob document of a local job, and its changes from state to state.

In the file, times are seconds since the epoch; `to_description` converts them to aware datetimes.
The states and their order are SageMaker's (API reference, DescribeTrainingJob, SecondaryStatus).
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TypedDict, cast

from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.job_list import summarize_job
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.job.job_hosts import groups_of
from launcher.shared import (
    FAILURE_REASON_LIMIT,
    REDACTED,
    TOKEN_VARIABLE,
    ModelFields,
    TrainingJobDescription,
    TrainingJobRequest,
    TrainingJobSummary,
)

ACCOUNT = "000000000000"
#: The region of jobs on this machine, for sessions that name none.
REGION = "local"


class JobState(str, enum.Enum):
    """The states of a job (SecondaryStatus); those in `ENDINGS` are final."""

    STARTING = "Starting"
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    INTERRUPTED = "Interrupted"
    STOPPING = "Stopping"
    UPLOADING = "Uploading"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    MAX_WAIT_TIME_EXCEEDED = "MaxWaitTimeExceeded"


class RecordedTransition(TypedDict, total=False):
    """SecondaryStatusTransition, its times in seconds since the epoch."""

    Status: str
    StartTime: float
    EndTime: float
    StatusMessage: str


class RecordedMetric(TypedDict):
    """MetricData, its time in seconds since the epoch."""

    MetricName: str
    Value: float
    Timestamp: float


class ImageRun(TypedDict):
    """The image that the hosts of a job in containers run, and its content's digest."""

    Name: str
    Digest: str


class JobChanges(TypedDict, total=False):
    """The fields of a description that a job sets while it runs."""

    TrainingStartTime: float
    FinalMetricDataList: list[RecordedMetric]
    ModelArtifacts: ModelFields
    LocalNotes: list[str]
    LocalExitCode: int
    LocalLosses: list[str]
    LocalImage: ImageRun
    LocalNextAttempt: str


class StoredDescription(TrainingJobRequest, JobChanges, total=False):
    """The description as it is stored, its times in seconds since the epoch."""

    TrainingJobArn: str
    TrainingJobStatus: str
    SecondaryStatus: str
    SecondaryStatusTransitions: list[RecordedTransition]
    FailureReason: str
    CreationTime: float
    LastModifiedTime: float
    TrainingEndTime: float
    TrainingTimeInSeconds: int
    BillableTimeInSeconds: int
    LocalIsolation: str


#: SageMaker's words, where public answers of DescribeTrainingJob have them.
_MESSAGES = {
    JobState.STARTING: "Starting the training job",
    JobState.DOWNLOADING: "Downloading input data",
    JobState.TRAINING: "Training image download completed. Training in progress.",
    JobState.INTERRUPTED: "Training job interrupted: its spot instances were reclaimed",
    JobState.STOPPING: "Stopping the training job",
    JobState.UPLOADING: "Uploading generated training model",
    JobState.COMPLETED: "Training job completed",
    JobState.FAILED: "Training job failed",
    JobState.STOPPED: "Training job stopped",
    JobState.MAX_RUNTIME_EXCEEDED: "Training job runtime exceeded MaxRuntimeInSeconds provided",
    JobState.MAX_WAIT_TIME_EXCEEDED: "Training job exceeded MaxWaitTimeInSeconds provided",
}
#: The states that end a job, and the TrainingJobStatus that goes with each.
ENDINGS = {
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Failed",
    JobState.STOPPED: "Stopped",
    JobState.MAX_RUNTIME_EXCEEDED: "Stopped",
    JobState.MAX_WAIT_TIME_EXCEEDED: "Stopped",
}


def job_arn(name: str, *, region: str, account: str) -> str:
    """Return the ARN of a job."""
    return f"arn:aws:sagemaker:{region}:{account}:training-job/{name}"


def new_description(
    request: TrainingJobRequest, *, arn: str, isolation: str, now: float
) -> StoredDescription:
    """Return the document of a newly accepted job: the request's fields, the token redacted."""
    document = cast("StoredDescription", copy.deepcopy(request))
    if TOKEN_VARIABLE in document.get("Environment", {}):
        document["Environment"][TOKEN_VARIABLE] = REDACTED
    if "InstancePreferences" in document.get("ResourceConfig", {}):
        ((_, instance_type, count),) = groups_of(request)
        document["ResourceConfig"] |= {
            "SelectedInstanceType": instance_type,
            "SelectedInstanceCount": count,
        }
    document |= {
        "TrainingJobArn": arn,
        "TrainingJobStatus": "InProgress",
        "CreationTime": now,
        "SecondaryStatusTransitions": [],
        "LocalIsolation": isolation,
        "LocalNotes": [],
    }
    return with_state(document, JobState.STARTING, now=now)


def with_state(document: StoredDescription, state: JobState, *, now: float) -> StoredDescription:
    """Return the document after the job enters a state."""
    transitions = copy.deepcopy(document["SecondaryStatusTransitions"])
    if transitions:  # the state that ends gets its final message
        transitions[-1]["StatusMessage"] = _MESSAGES[JobState(transitions[-1]["Status"])]
        transitions[-1]["EndTime"] = now
    transitions.append({"Status": state.value, "StartTime": now, "StatusMessage": _MESSAGES[state]})
    status = state.value if state is JobState.STOPPING else document["TrainingJobStatus"]
    return {
        **document,
        "TrainingJobStatus": status,
        "SecondaryStatus": state.value,
        "SecondaryStatusTransitions": transitions,
        "LastModifiedTime": now,
    }


def with_message(document: StoredDescription, message: str, *, now: float) -> StoredDescription:
    """Return the document with a new progress message for its present state."""
    transitions = copy.deepcopy(document["SecondaryStatusTransitions"])
    transitions[-1]["StatusMessage"] = message
    return {**document, "SecondaryStatusTransitions": transitions, "LastModifiedTime": now}


def finished(
    document: StoredDescription, ending: JobState, *, now: float, reason: str | None = None
) -> StoredDescription:
    """Return the document of a job that has ended; `reason` is a failed job's FailureReason."""
    final = with_state(document, ending, now=now)
    final["TrainingJobStatus"] = ENDINGS[ending]
    final["SecondaryStatusTransitions"][-1]["EndTime"] = now
    if reason is not None:
        final["FailureReason"] = reason[:FAILURE_REASON_LIMIT]
    if start := final.get("TrainingStartTime"):
        seconds = max(0, math.ceil(now - start))  # the clock may have been set back
        final |= {
            "TrainingEndTime": now,
            "TrainingTimeInSeconds": seconds,
            "BillableTimeInSeconds": seconds,
        }
    return final


def as_stopping(document: StoredDescription, *, since: float) -> StoredDescription:
    """Return the document to show from a stop request until the platform itself enters Stopping."""
    changed = document.get("LastModifiedTime", since)
    return with_state(document, JobState.STOPPING, now=max(since, changed))


def place_note(document: Mapping[str, object]) -> str:
    """Return a sentence without a full stop about what the hosts of a job are."""
    if document["LocalIsolation"] == Isolation.CONTAINER.value:
        return "Its hosts are containers of this machine"
    return (
        "Its hosts are processes of this machine, in this machine's Python: the image is not pulled"
    )


def is_terminal(document: StoredDescription) -> bool:
    """Return True if the job has ended, so its status is final."""
    return document["TrainingJobStatus"] in TERMINAL_STATUSES


def to_description(document: StoredDescription) -> TrainingJobDescription:
    """Return the document as boto3 would: times are datetimes."""
    return cast("TrainingJobDescription", _with_datetimes(document))


def to_summary(document: StoredDescription) -> TrainingJobSummary:
    """Return the document's entry in ListTrainingJobs."""
    return cast("TrainingJobSummary", _with_datetimes(summarize_job(document)))


def _with_datetimes(document: Mapping[str, object]) -> dict[str, object]:
    return {key: _to_datetimes(key, value) for key, value in document.items()}


def _to_datetimes(key: str, value: object) -> object:
    if key in ("SecondaryStatusTransitions", "FinalMetricDataList") and isinstance(value, list):
        return [_with_datetimes(entry) for entry in value]
    if (key.endswith("Time") or key == "Timestamp") and isinstance(value, (int, float)):
        return datetime.fromtimestamp(value, tz=timezone.utc)
    return value
