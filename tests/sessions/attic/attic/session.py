"""A session of its own, in about 160 lines, which knows Launcher only through its seam."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from launcher.client.sessions import (
    TERMINAL_STATUSES,
    LogEvent,
    LogStream,
    Platform,
    Progress,
    newest_jobs,
    violations_without_aws,
)
from launcher.client.spec import JobSpec
from launcher.errors import JobNotFound, PlatformError

ATTIC = Platform(
    name="attic",
    bills=False,
    uri_scheme="attic",
    reads_files=False,
    judge=partial(violations_without_aws, scheme="attic"),
    is_transient=lambda _error: False,
)
#: What a job prints, and the reason why it fails (None: it completes; "": it waits for its end).
Course = tuple[Collection[str], "str | None"]
#: The shelf of this process: the attic has no disk.
_SHELF: dict[str, Any] = {}


class AtticSession:
    """Jobs in the attic; all sessions with the same shelf see the same jobs and objects."""

    platform = ATTIC
    region = "attic"
    account = "000000000000"
    poll_seconds = 0.01
    log_delay_seconds = 0.0

    def __init__(
        self,
        course: Callable[[Mapping[str, Any]], Course] = lambda _request: ((), None),
        shelf: dict[str, Any] | None = None,
    ) -> None:
        self._course = course
        self._shelf = _SHELF if shelf is None else shelf
        self._jobs: dict[str, dict[str, Any]] = self._shelf.setdefault("jobs", {})
        self._logs: dict[str, list[LogEvent]] = self._shelf.setdefault("logs", {})

    def role_arn(self, role: str | None) -> str:
        return f"arn:aws:iam::{self.account}:role/{role or 'attic'}"

    def default_location(self) -> str:
        return "attic://shelf"

    def default_image(self, spec: JobSpec) -> str:
        return "attic"

    def check_training_job(self, request: Mapping[str, Any], uploads: Collection[str]) -> None:
        found = [f"{each.what}: {each.fix}" for each in self.platform.judge(request)]
        if request.get("TrainingJobName") in self._jobs:
            found.append(f"the name {request['TrainingJobName']} was used: give another")
        if found:
            raise PlatformError("\n".join(found))

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        self.check_training_job(request, ())
        name, now = request["TrainingJobName"], self._now()
        arn = f"arn:aws:sagemaker:attic:{self.account}:training-job/{name}"
        lines, failure = self._course(request)
        self._logs[name] = [LogEvent(now.timestamp(), line) for line in lines]
        self._jobs[name] = {
            **request,
            "Environment": {
                key: "<redacted>" if "TOKEN" in key else value
                for key, value in request.get("Environment", {}).items()
            },
            "TrainingJobArn": arn,
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Training",
            "SecondaryStatusTransitions": [
                {"Status": "Training", "StartTime": now, "StatusMessage": "in the attic"}
            ],
            "CreationTime": now,
            "TrainingStartTime": now,
            "failure": failure,
        }
        return {"TrainingJobArn": arn}

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 (AWS)
        job = self._find(TrainingJobName)
        seen = {key: value for key, value in job.items() if key != "failure"}
        if job["TrainingJobStatus"] == "Stopping":
            self._end(job, "Stopped")
        elif job["TrainingJobStatus"] == "InProgress" and job["failure"] != "":
            if job["failure"]:
                job["FailureReason"] = job["failure"]
            self._end(job, "Failed" if job["failure"] else "Completed")
        return seen

    def place_notes(self, description: Mapping[str, Any]) -> list[str]:
        return ["on nobody's machine, in the attic"]

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        job = self._find(TrainingJobName)
        if job["TrainingJobStatus"] not in TERMINAL_STATUSES:
            job.update(TrainingJobStatus="Stopping", SecondaryStatus="Stopping")

    def list_training_jobs(self, **filters: Any) -> dict[str, Any]:
        return newest_jobs(reversed(self._jobs.values()), **filters)

    def upload(
        self,
        content: bytes | Path,
        uri: str,
        *,
        shared: str | None = None,
        kms_key: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._shelf[uri] = content if isinstance(content, bytes) else content.read_bytes()

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        if uri not in self._shelf:
            raise PlatformError(f"nothing in the attic is called {uri}")
        path.write_bytes(self._shelf[uri])
        if progress:
            progress(len(self._shelf[uri]), len(self._shelf[uri]))

    def log_streams(self, job_name: str) -> list[LogStream]:
        self._find(job_name)
        return [LogStream(name="algo-1", host="algo-1")]

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        self._find(job_name)
        start = int(position or 0)
        events = self._logs[job_name][start : start + limit]
        return events, str(start + len(events))

    def _find(self, name: str) -> dict[str, Any]:
        if name not in self._jobs:
            raise JobNotFound(f"no job {name} was ever in the attic")
        return self._jobs[name]

    def _end(self, job: dict[str, Any], status: str) -> None:
        job |= {"TrainingJobStatus": status, "SecondaryStatus": status}
        job["TrainingEndTime"] = self._now()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), tz=timezone.utc)
