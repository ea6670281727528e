"""LocalSession: the ports of a platform, answered by this machine."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.contract import HostFailure
from launcher.errors import PlatformError
from launcher.sessions.base import LogEvent, LogStream, Progress
from launcher.sessions.local import description, logs, storage
from launcher.sessions.local.checks import check_isolation, check_request
from launcher.sessions.local.death import current_boot, settled_status
from launcher.sessions.local.description import State
from launcher.sessions.local.folder import JobFolder, Settings
from launcher.sessions.local.isolation import Isolation, choose_isolation, why_not_sandboxed
from launcher.sessions.local.start import start_platform
from launcher.sessions.local.store import Store, default_root

if TYPE_CHECKING:
    from launcher.spec import JobSpec


class LocalSession:
    """Runs training jobs on this machine: one process tree per instance, no cloud account.

    root: where jobs and their results are kept; default $LAUNCHER_HOME, or ~/.launcher.
    isolation: "process", "sandbox" or "network"; default: sandbox where it works.
    stop_grace_seconds: what hosts have between SIGTERM and SIGKILL; SageMaker gives 120.
    host_failure: "fail" (a host whose first process fails or dies fails the job, as SageMaker is
        assumed to do) or "tolerate" (the others go on while its group has a host left; for tests).
    region, account: what jobs are told of where they are, and what their ARNs say.
    platform_environment: variables for the process that runs a job, beside our own: where S3 is,
        and whose keys open it (AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, ...). Hosts do not get them,
        and they are written nowhere.

    Raises PlatformError for what this machine cannot do, or an unknown word.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        isolation: str | None = None,
        *,
        stop_grace_seconds: float = 120.0,
        host_failure: str = "fail",
        region: str = description.REGION,
        account: str = description.ACCOUNT,
        platform_environment: Mapping[str, str] | None = None,
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise PlatformError(f"local jobs need Linux, and this is {sys.platform}")
        self.root = Path(root or default_root()).expanduser().resolve()
        self._isolation = isolation
        self._stop_grace_seconds = stop_grace_seconds
        self._host_failure = _host_failure(host_failure)
        self._platform_environment = dict(platform_environment or {})
        self._store = Store(self.root)
        self.region = region
        self.account = account

    # identity ----------------------------------------------------------------------------------

    def role_arn(self, role: str | None) -> str:
        """A role is not needed here; one that is given is echoed."""
        if role is not None and role.startswith("arn:"):
            return role
        return f"arn:aws:iam::{self.account}:role/{role or 'local'}"

    def default_location(self) -> str:
        return storage.uri_of(self.root / "storage")

    def default_image(self, spec: JobSpec) -> str | None:
        """A local job runs in the Python that created it, whatever the image is called."""
        return "local"

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: Mapping[str, Any], uploads: Collection[str]) -> None:
        check_request(request, uploads, self._platform_environment)
        if self._isolation is not None:  # what is chosen here always works
            check_isolation(request, choose_isolation(self._isolation))

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        check_request(request, environment=self._platform_environment)
        isolation = choose_isolation(self._isolation)
        check_isolation(request, isolation)
        settings = Settings(
            isolation=isolation,
            boot=current_boot(),
            stop_grace_seconds=self._stop_grace_seconds,
            host_failure=self._host_failure,
            region=self.region,
            account=self.account,
        )
        status = description.opened(
            request,
            arn=settings.arn(request["TrainingJobName"]),
            isolation=settings.isolation.value,
            now=time.time(),
        )
        if self._isolation is None and settings.isolation is Isolation.PROCESS:
            status["LocalNotes"] = [why_not_sandboxed()]
        folder, lock = self._store.create(request, settings, status)
        try:
            start_platform(folder, lock, self._platform_environment)
        finally:
            os.close(lock)
        return {"TrainingJobArn": status["TrainingJobArn"]}

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 (AWS)
        return description.presented(_status(self._store.find(TrainingJobName)))

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        folder = self._store.find(TrainingJobName)
        if not description.is_terminal(settled_status(folder)):
            folder.stop.touch()

    def interrupt_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (as above)
        """Take a job's spot instances back, as AWS may at any time; the job starts again.

        Raises PlatformError for a job that uses none, that ends, or that has ended.
        """
        folder = self._store.find(TrainingJobName)
        status = _status(folder)
        if not folder.request().get("EnableManagedSpotTraining"):
            raise PlatformError(
                f"job {folder.name} has no spot instances that could be taken back: write "
                "use_spot_instances: true and max_wait into its description"
            )
        if description.is_terminal(status):
            raise PlatformError(
                f"job {folder.name} has ended already: {status['TrainingJobStatus']}"
            )
        if status["SecondaryStatus"] in (State.STOPPING, State.UPLOADING):
            raise PlatformError(f"job {folder.name} is ending: {status['SecondaryStatus']}")
        folder.interrupt.touch()

    @property
    def poll_seconds(self) -> float:
        return 0.5

    def list_training_jobs(
        self,
        *,
        NameContains: str | None = None,  # noqa: N803 (AWS)
        StatusEquals: str | None = None,  # noqa: N803 (AWS)
        CreationTimeAfter: datetime | None = None,  # noqa: N803 (AWS)
        CreationTimeBefore: datetime | None = None,  # noqa: N803 (AWS)
        limit: int | None = None,
    ) -> dict[str, Any]:
        statuses = []
        for folder in self._store.all():
            if (NameContains or "") in folder.name:
                with contextlib.suppress(PlatformError):  # one damaged job does not hide the others
                    statuses.append(_status(folder))
        statuses.sort(key=lambda status: status["CreationTime"], reverse=True)
        summaries = [
            description.summarised(status)
            for status in statuses
            if StatusEquals in (None, status["TrainingJobStatus"])
            and _is_within(status["CreationTime"], CreationTimeAfter, CreationTimeBefore)
        ]
        return {"TrainingJobSummaries": summaries[:limit]}

    # storage -----------------------------------------------------------------------------------

    def upload(
        self,
        content: bytes,
        uri: str,
        *,
        shared: str | None = None,
        kms_key: str | None = None,
    ) -> None:
        storage.upload(content, uri)

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        storage.download(uri, path, progress)

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        return logs.log_streams(self._store.find(job_name))

    @property
    def log_delay_seconds(self) -> float:
        return 0.0

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        return logs.read_log(self._store.find(job_name), stream, position, limit)


def _is_within(moment: float, after: datetime | None, before: datetime | None) -> bool:
    return (after is None or moment > after.timestamp()) and (
        before is None or moment < before.timestamp()
    )


def _host_failure(word: str) -> HostFailure:
    try:
        return HostFailure(word)
    except ValueError:
        known = " or ".join(repr(each.value) for each in HostFailure)
        raise PlatformError(f"host_failure {word!r} is not known: use {known}") from None


def _status(folder: JobFolder) -> dict[str, Any]:
    """The description as it is to be seen now."""
    status = settled_status(folder)
    asked_to_stop = status["TrainingJobStatus"] == "InProgress" and folder.stop.exists()
    return description.stopping(status) if asked_to_stop else status
