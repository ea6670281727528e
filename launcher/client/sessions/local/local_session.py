"""LocalSession: the platform interface, implemented by this machine.

Its methods import what starts a job: most verbs only read jobs.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.home import home_folder
from launcher.client.sessions.base import (
    JobFilters,
    LogEvent,
    LogStream,
    Platform,
    Progress,
    violations_without_aws,
)
from launcher.client.sessions.default_values import local_default
from launcher.client.sessions.job_list import newest_jobs
from launcher.client.sessions.local.host import host_logs
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.job import job_description
from launcher.client.sessions.local.job.job_description import JobState
from launcher.client.sessions.local.job.job_folder import ContainerSettings, JobFolder, Settings
from launcher.client.sessions.local.job.job_root import JobRoot
from launcher.client.sessions.local.job.orphan_cleanup import current_boot, reconciled_status
from launcher.client.sessions.local.storage import file_uris
from launcher.client.sessions.local.storage.file_access import translate_write_errors
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.errors import PlatformError, Unreachable
from launcher.shared import HostFailure

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from launcher.client.sessions.local.host.host_exec import WaitingRank
    from launcher.client.spec import JobSpec, Retry
    from launcher.shared import (
        TrainingJobCreated,
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
        TrainingJobSummary,
    )


LOCAL_PLATFORM = Platform(
    name="local",
    bills=False,
    uri_scheme="file",
    reads_files=True,
    judge=partial(violations_without_aws, scheme="file"),
    is_transient=lambda error: isinstance(error, Unreachable),
    runs_here=True,
    runs_image=False,
)


class LocalSession:
    """Runs training jobs on this machine: one process tree per instance, no cloud account.

    root: the folder for jobs and their results; default $LAUNCHER_HOME, or ~/.launcher.
    isolation: "process", "sandbox", "network" or "container"; default: that of config.yaml, or
        sandbox where it works.
    stop_grace_seconds: time for hosts between SIGTERM and SIGKILL; SageMaker gives 120.
    host_failure: "fail" (the job fails when a host's first process fails or dies, as SageMaker is
        assumed to do) or "tolerate" (continue while the host's group has other hosts; for tests).
    region, account: the values that jobs see, and that their ARNs contain.
    install: install the packages of a job's requirements.txt, once, in a folder below the root.
    python: the interpreter in which hosts run, as a path, a name on PATH or the folder of a virtual
        environment; default: the running one.
    engine: with isolation "container", the engine: "docker", "podman" or a path; default:
        $LAUNCHER_ENGINE, that of config.yaml, or the one that is there.
    image: with it, run this image instead of the request's; "cpu": AWS's CPU image of its version.
    host_memory: with it, the limit of each host's memory, as the engine writes it: "4g".
    credentials: give the hosts short-lived AWS credentials of the user; by default they get none.
    platform_environment: more variables for the process that runs a job: the S3 endpoint and its
        keys (AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, ...). Hosts do not get them, and they are
        never written to a file.

    Raises PlatformError for a job that this machine cannot run, and for an invalid option.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        isolation: str | None = None,
        *,
        stop_grace_seconds: float = 120.0,
        host_failure: str = "fail",
        region: str = job_description.REGION,
        account: str = job_description.ACCOUNT,
        install: bool = True,
        python: str | None = None,
        engine: str | None = None,
        image: str | None = None,
        host_memory: str | None = None,
        credentials: bool = False,
        platform_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = Path(root or home_folder()).expanduser().resolve()
        self._isolation = isolation or local_default("isolation")
        self._stop_grace_seconds = stop_grace_seconds
        self._host_failure = _host_failure(host_failure)
        self._platform_environment = dict(platform_environment or {})
        self._jobs = JobRoot(self.root)
        self.region = region
        self.account = account
        self.install = install
        self._python = None if python is None else _executable(python)
        self._engine = engine
        self._image = image
        self._host_memory = host_memory
        self._credentials = credentials
        self._retry: Retry | None = None
        self._check_options()

    def _check_options(self) -> None:
        """Raise PlatformError for options of another isolation than the session's."""
        only = {
            "engine": self._engine,
            "image": self._image,
            "host_memory": self._host_memory,
        }
        given = [name for name, value in only.items() if value]
        if given and not self._has_containers:
            raise PlatformError(f"{given[0]} goes with isolation 'container'")
        if self._has_containers and self._python:
            raise PlatformError("python goes with hosts on this machine, not in containers")
        if self._credentials and self._isolation == Isolation.NETWORK.value:
            raise PlatformError(
                "credentials do nothing with isolation 'network', whose hosts reach no address but "
                "each other: use another isolation"
            )
        if self._credentials and self._has_containers:
            from launcher.client.sessions.local.job.host_credentials import check_reach

            check_reach(self._platform_environment)

    @property
    def _has_containers(self) -> bool:
        return self._isolation == Isolation.CONTAINER.value

    # identity ----------------------------------------------------------------------------------

    @property
    def platform(self) -> Platform:
        """This machine."""
        return dataclasses.replace(
            LOCAL_PLATFORM,
            installs=self.install,
            python=self._python,
            runs_image=self._has_containers,
        )

    def role_arn(self, role: str | None) -> str:
        """Return an ARN for a role; local jobs need none, so a given ARN is returned unchanged."""
        if role is not None and role.startswith("arn:"):
            return role
        return f"arn:aws:iam::{self.account}:role/{role or 'local'}"

    def default_location(self) -> str:
        """Return the file:// URI of the root's storage folder."""
        return file_uris.uri_of(self.root / "storage")

    def default_image(self, spec: JobSpec) -> str | None:
        """Return "local" for jobs in the Python that creates them, whatever image is named.

        With isolation "container": the session's image, or AWS's for the job's framework_version.
        """
        if not self._has_containers:
            return "local"
        from launcher.client.sessions.local.container.container_image import (
            CPU_IMAGE,
            image_of_framework,
        )

        chosen = None if self._image == CPU_IMAGE else self._image
        return chosen or image_of_framework(spec)

    # jobs --------------------------------------------------------------------------------------

    def check_training_job(self, request: TrainingJobRequest, uploads: Collection[str]) -> None:
        """Raise PlatformError with everything in a request that this machine does not support."""
        from launcher.client.sessions.local.isolation import choose_isolation
        from launcher.client.sessions.local.job.request_checks import check_isolation, check_request

        check_request(request, uploads, self._platform_environment, runs_image=self._has_containers)
        if self._isolation is not None:  # the default choice always works
            check_isolation(request, choose_isolation(self._isolation, self._engine))

    def create_training_job(self, **request: Unpack[TrainingJobRequest]) -> TrainingJobCreated:
        """Start a job in a new platform process; return {"TrainingJobArn": ...}."""
        from launcher.client.sessions.local.isolation import choose_isolation, why_not_sandboxed
        from launcher.client.sessions.local.job.request_checks import check_isolation, check_request
        from launcher.client.sessions.local.job.restarts import start_platform

        check_request(
            request, environment=self._platform_environment, runs_image=self._has_containers
        )
        isolation = choose_isolation(self._isolation, self._engine)
        check_isolation(request, isolation)
        settings = Settings(
            isolation=isolation,
            boot=current_boot(),
            stop_grace_seconds=self._stop_grace_seconds,
            host_failure=self._host_failure,
            region=self.region,
            account=self.account,
            install=self.install,
            python=self._python,
            container=self._container_settings(request) if self._has_containers else None,
            has_credentials=self._credentials,
            retry=self._retry,
        )
        status = job_description.new_description(
            request,
            arn=settings.arn(request["TrainingJobName"]),
            isolation=settings.isolation.value,
            now=time.time(),
        )
        if settings.container is not None:
            from launcher.client.sessions.local.container.container_image import choice_notes

            status["LocalNotes"] = list(choice_notes(request, settings.container))
        if self._isolation is None and settings.isolation is Isolation.PROCESS:
            status["LocalNotes"].append(why_not_sandboxed())
        variables = dict(self._platform_environment)
        if self._credentials:
            from launcher.client.sessions.local.job import host_credentials

            given = host_credentials.read_credentials(request, variables, self.region)
            status["LocalNotes"].append(given.note)
            variables[host_credentials.HOST_CREDENTIALS] = json.dumps(given.variables)
        folder, lock = self._jobs.create(request, settings, status)
        try:
            start_platform(folder, lock, variables)
        finally:
            os.close(lock)
        return {"TrainingJobArn": status["TrainingJobArn"]}

    def _container_settings(self, request: TrainingJobRequest) -> ContainerSettings:
        from launcher.client.sessions.local.container.container_engine import find_engine
        from launcher.client.sessions.local.container.container_image import chosen_image

        return ContainerSettings(
            engine=find_engine(self._engine).program,
            image=chosen_image(request, self._image),
            memory=self._host_memory,
        )

    def describe_training_job(self, *, TrainingJobName: str) -> TrainingJobDescription:  # noqa: N803 (AWS)
        """Return the DescribeTrainingJob document; raise JobNotFound for an unknown name."""
        return job_description.to_description(_status(self._jobs.find(TrainingJobName)))

    def place_notes(self, description: TrainingJobDescription) -> list[str]:
        """Return the isolation of a described job, then its differences from AWS."""
        isolation = description["LocalIsolation"]
        return [f"on this machine (isolation: {isolation})", *description["LocalNotes"]]

    def with_retry(self, retry: Retry) -> LocalSession:
        """Return a session whose jobs are restarted by a policy."""
        restarting = copy.copy(self)
        restarting._retry = retry
        return restarting

    def next_attempt(self, job_name: str) -> str | None:
        """Return the name of the attempt that follows a job, or will; None if none does."""
        from launcher.client.sessions.local.job.restarts import next_attempt

        return next_attempt(self._jobs.find(job_name))

    def stop_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (AWS)
        """Ask a job to stop, and the attempt after it; do nothing if it has ended for good."""
        folder = self._jobs.find(TrainingJobName)
        status = reconciled_status(folder)
        if not job_description.is_terminal(status) or "LocalNextAttempt" in status:
            with translate_write_errors(folder.path):
                folder.stop.touch()
        if due := self.next_attempt(TrainingJobName):  # which its keeper may have just created
            self.stop_training_job(TrainingJobName=due)

    def interrupt_training_job(self, *, TrainingJobName: str) -> None:  # noqa: N803 (as above)
        """Reclaim a job's spot instances, as AWS may at any time; the job then restarts.

        Raises PlatformError for a job without spot instances, and for one that is ending or has
        ended.
        """
        folder = self._jobs.find(TrainingJobName)
        status = _status(folder)
        if not folder.request().get("EnableManagedSpotTraining"):
            raise PlatformError(
                f"job {folder.name} has no spot instances to reclaim: set "
                "use_spot_instances: true and max_wait in its description"
            )
        if job_description.is_terminal(status):
            raise PlatformError(
                f"job {folder.name} has already ended: {status['TrainingJobStatus']}"
            )
        if status["SecondaryStatus"] in (JobState.STOPPING, JobState.UPLOADING):
            raise PlatformError(f"job {folder.name} is ending: {status['SecondaryStatus']}")
        with translate_write_errors(folder.path):
            folder.interrupt.touch()

    def run_in_host(self, job_name: str, host: str, command: Sequence[str]) -> int:
        """Run a command in a running host, on this process's terminal; return its exit code.

        It has the host's environment, folder and isolation, and ends with the host. Raises
        PlatformError for a host that does not run.
        """
        from launcher.client.sessions.local.host.host_exec import run_in_host

        return run_in_host(self._jobs.find(job_name), host, command)

    def waiting_rank(self, job_name: str) -> WaitingRank | None:
        """Return the rank of a job of `launcher run --debug` that waits for a terminal, if any."""
        from launcher.client.sessions.local.host.host_exec import waiting_rank

        return waiting_rank(self._jobs.find(job_name))

    def copy_from_host(self, job_name: str, host: str, path: str, target: Path) -> Path:
        """Copy a file or folder below a host's /opt/ml to a target; return the copy's path.

        Raises PlatformError for a path that the host does not have, and for a target that cannot
        be written.
        """
        from launcher.client.sessions.local.host.host_copy import copy_from_host

        return copy_from_host(self._jobs.find(job_name), host, path, target)

    def remove_training_job(self, *, TrainingJobName: str) -> int:  # noqa: N803 (as above)
        """Remove a job that has ended, with its code and results; return their size.

        Raises PlatformError for a job that has not ended.
        """
        from launcher.client.sessions.local.job.job_removal import remove_job

        return remove_job(self._jobs.find(TrainingJobName), self.root)

    def stored_bytes(self, job_name: str) -> int:
        """Return the size of a job's files; one that jobs share counts by its share."""
        from launcher.client.sessions.local.job.job_removal import stored_bytes

        return stored_bytes(self._jobs.find(job_name), self.root)

    def record_file(self, job_name: str) -> Path:
        """Return the file of a job's record; raise JobNotFound for an unknown name."""
        return self._jobs.find(job_name).record

    def session_as_of(self, job_name: str) -> LocalSession:
        """Return the session with the options that a job was sent with.

        Raises JobNotFound for an unknown name.
        """
        settings = self._jobs.find(job_name).settings()
        return LocalSession(
            self.root,
            settings.isolation.value,
            stop_grace_seconds=settings.stop_grace_seconds,
            host_failure=settings.host_failure.value,
            region=settings.region,
            account=settings.account,
            install=settings.install,
            python=settings.python,
            **_container_options(settings.container),
            credentials=settings.has_credentials,
            platform_environment=self._platform_environment,
        )

    @property
    def poll_seconds(self) -> float:
        """Seconds between two status checks."""
        return 0.5

    def list_training_jobs(
        self, *, limit: int | None = None, **filters: Unpack[JobFilters]
    ) -> TrainingJobList:
        """Return {"TrainingJobSummaries": [...]}, newest first, at most `limit`."""
        named = self._summaries(filters.get("NameContains") or "")
        return newest_jobs(named, limit=limit, **filters)

    def _summaries(self, name_part: str) -> Iterator[TrainingJobSummary]:
        """Yield the jobs whose names contain a text; files of others are not read."""
        for folder in self._jobs.all():
            if name_part in folder.name:
                with contextlib.suppress(PlatformError):  # one damaged job must not hide the others
                    yield job_description.to_summary(_status(folder))

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
        """Store one object at a file:// URI; `kms_key` and `progress` have no effect.

        shared: its last part names the content; jobs with the same content share one file.
        """
        if shared is None:
            file_uris.upload(content, uri)
        else:
            from launcher.client.sessions.local.storage.shared_bundles import SharedBundles

            SharedBundles.below(self.root).store(content, uri, path_of(shared).name)

    def download(self, uri: str, path: Path, progress: Progress | None = None) -> None:
        """Copy one object into a file; raise PlatformError when there is no such object."""
        file_uris.download(uri, path, progress)

    # logs --------------------------------------------------------------------------------------

    def log_streams(self, job_name: str) -> list[LogStream]:
        """Return the job's streams, by host in numeric order and then by age."""
        return host_logs.log_streams(self._jobs.find(job_name))

    @property
    def log_delay_seconds(self) -> float:
        """Always 0: lines are visible as soon as they are written."""
        return 0.0

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        """Return complete lines after a position, at most `limit`, and the position after them."""
        return host_logs.read_log(self._jobs.find(job_name), stream, position, limit)


def _container_options(settings: ContainerSettings | None) -> dict[str, Any]:
    """Return the options of a session that runs containers in the same way."""
    if settings is None:
        return {}
    return {
        "engine": settings.engine,
        "image": settings.image,
        "host_memory": settings.memory,
    }


def _host_failure(value: str) -> HostFailure:
    try:
        return HostFailure(value)
    except ValueError:
        known = " or ".join(repr(each.value) for each in HostFailure)
        raise PlatformError(f"unknown host_failure {value!r}: use {known}") from None


def _status(folder: JobFolder) -> job_description.StoredDescription:
    """Return the description as a reader should see it now."""
    status = reconciled_status(folder)
    if status["TrainingJobStatus"] != "InProgress":
        return status
    try:
        since = folder.stop.stat().st_mtime
    except FileNotFoundError:  # no stop was requested
        return status
    return job_description.as_stopping(status, since=since)


def _executable(python: str) -> str:
    from launcher.client.sessions.local.host.host_python import host_python

    return host_python(python).executable
