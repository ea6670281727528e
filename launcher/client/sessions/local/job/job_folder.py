"""The folder of one local job: its whole state, readable by any process.

jobs/<name>/request.json     the CreateTrainingJob request, as received
            settings.json    how this machine runs it (Settings)
            record.json      how the job was made (JobRecord); jobs of other clients have none
            status.json      the DescribeTrainingJob document, replaced at each change
            reserve          space for the last status.json, freed when the disk is full
            lock             held (flock) by the platform process for as long as it lives
            stop             exists when the job was asked to stop
            interrupt        exists when an interruption was requested (spot instances)
            fetched/         the channels downloaded from S3, until the job ends
            unsent/          results and checkpoints that are not in S3 yet
            scratch          link to the hosts' short temporary folder
            platform.log     the output of the platform process
            metrics.jsonl    each value of the job's metrics
            requirements.log the output of pip
            logs/            two files per host: what its programs print, algo-1-<start>.log, and
                             its events, algo-1-<start>.events
            hosts/algo-1/    one tree per host: ml/ is its /opt/ml
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.job.job_description import ACCOUNT, REGION, is_terminal, job_arn
from launcher.client.sessions.local.storage.atomic_files import read_json, write_json
from launcher.errors import PlatformError
from launcher.shared import HostFailure

if TYPE_CHECKING:
    from launcher.client.sessions.local.job.job_description import StoredDescription
    from launcher.client.spec import Retry
    from launcher.shared import TrainingJobRequest

__all__ = ["ContainerSettings", "JobFolder", "Settings", "EVENTS_SUFFIX", "LOG_SUFFIX"]

#: Suffix of the files in logs/; the rest of a file's name is its stream's name.
LOG_SUFFIX = ".log"
EVENTS_SUFFIX = ".events"
#: Several times the size of a description.
_RESERVE_BYTES = 64 * 1024
#: Errors raised by reading a damaged document.
_UNREADABLE = (OSError, ValueError, TypeError, KeyError)
#: The fields without which a description is damaged.
_REQUIRED_FIELDS = (
    "TrainingJobName",
    "TrainingJobStatus",
    "SecondaryStatus",
    "SecondaryStatusTransitions",
    "CreationTime",
    "ResourceConfig",
)


@dataclass(frozen=True, kw_only=True)
class ContainerSettings:
    """The engine and the image of a job whose hosts are containers.

    engine: the path of the engine's program.
    image: the image that they run, which may be another than the request's.
    memory: the limit of each host's memory, as the engine writes it ("4g"); None without one.
    """

    engine: str
    image: str
    memory: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a job that belong to this machine and are not in the request.

    boot: ID of the machine's boot during which the job started.
    stop_grace_seconds: between SIGTERM and SIGKILL; SageMaker's is 120.
    host_failure: reaction to a failed host; SageMaker is assumed to fail the job (unverified).
    region, account: the values that the job's hosts see.
    install: install the packages of requirements.txt.
    python: the interpreter of its hosts; None for the client's.
    container: for hosts that are containers.
    has_credentials: hosts get short-lived AWS credentials of the user.
    retry: the job's policy of restarts. attempts: the names of the job's attempts so far; empty for
        the first.
    """

    isolation: Isolation
    boot: str
    stop_grace_seconds: float = 120.0
    host_failure: HostFailure = HostFailure.FAIL
    region: str = REGION
    account: str = ACCOUNT
    install: bool = True
    python: str | None = None
    container: ContainerSettings | None = None
    has_credentials: bool = False
    retry: Retry | None = None
    attempts: tuple[str, ...] = ()

    def arn(self, name: str) -> str:
        """Return the ARN of a job, used here and in its hosts."""
        return job_arn(name, region=self.region, account=self.account)


def _read_retry(raw: dict[str, Any] | None) -> Retry | None:
    if raw is None:
        return None
    from launcher.client.spec import Retry  # few jobs have one

    return Retry(**raw)


@dataclass(frozen=True)
class JobFolder:
    """Paths of a job's files, and the methods that read and write them."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.path.name

    @property
    def created(self) -> float:
        """Creation time of the job in seconds since the epoch: its request is written only once.

        0 for a job whose request is gone, or not ours to read.
        """
        try:
            return self._request.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def logs(self) -> Path:
        """The folder of the hosts' logs."""
        return self.path / "logs"

    def log(self, stream: str) -> Path:
        """Return the path of one log, which may not exist."""
        return self.logs / f"{stream}{LOG_SUFFIX}"

    def events(self, stream: str) -> Path:
        """Return the path of one log's events; older jobs have theirs in the log itself."""
        return self.logs / f"{stream}{EVENTS_SUFFIX}"

    @property
    def hosts(self) -> Path:
        """The folder of the hosts' trees."""
        return self.path / "hosts"

    @property
    def requirements_log(self) -> Path:
        """The output of pip, if it ran for this job."""
        return self.path / "requirements.log"

    @property
    def overlays(self) -> Path:
        """The folder of installed requirements, shared by all jobs."""
        return self.path.parent.parent / "overlays"

    @property
    def fetched(self) -> Path:
        """The folder of the channels downloaded from S3."""
        return self.path / "fetched"

    @property
    def unsent(self) -> Path:
        """The folder of results and checkpoints that are not in S3 yet."""
        return self.path / "unsent"

    @property
    def platform_log(self) -> Path:
        """The log of the platform process."""
        return self.path / "platform.log"

    @property
    def metrics(self) -> Path:
        """The file of the values of the job's metrics."""
        return self.path / "metrics.jsonl"

    @property
    def record(self) -> Path:
        """The file that says how the job was made."""
        return self.path / "record.json"

    @property
    def lock(self) -> Path:
        """The file that the platform process locks while it lives."""
        return self.path / "lock"

    @property
    def stop(self) -> Path:
        """The file that requests a stop by existing."""
        return self.path / "stop"

    @property
    def interrupt(self) -> Path:
        """The file that requests a spot interruption by existing."""
        return self.path / "interrupt"

    @property
    def scratch(self) -> Path:
        """The link to the hosts' short temporary folder."""
        return self.path / "scratch"

    @property
    def _request(self) -> Path:
        return self.path / "request.json"

    @property
    def _settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def _reserve(self) -> Path:
        return self.path / "reserve"

    @property
    def _status(self) -> Path:
        return self.path / "status.json"

    def write(
        self, request: TrainingJobRequest, settings: Settings, status: StoredDescription
    ) -> None:
        """Fill a new folder."""
        for folder in (self.logs, self.hosts):
            folder.mkdir()
        self.lock.touch()
        self._reserve.write_bytes(b"\n" * _RESERVE_BYTES)
        write_json(self._request, request)
        write_json(self._settings, asdict(settings))
        write_json(self._status, status)

    def request(self) -> TrainingJobRequest:
        """Return the CreateTrainingJob request."""
        request: TrainingJobRequest = read_json(self._request)
        return request

    def settings(self) -> Settings:
        """Return the settings of the job; raise PlatformError when they cannot be read."""
        try:
            raw = read_json(self._settings)
            container = raw.get("container")
            return Settings(
                isolation=Isolation(raw["isolation"]),
                boot=raw["boot"],
                stop_grace_seconds=raw["stop_grace_seconds"],
                host_failure=HostFailure(raw.get("host_failure", HostFailure.FAIL)),
                region=raw.get("region", REGION),
                account=raw.get("account", ACCOUNT),
                install=raw.get("install", True),
                python=raw.get("python"),
                container=container and ContainerSettings(**container),
                has_credentials=raw.get("has_credentials", False),
                retry=_read_retry(raw.get("retry")),
                attempts=tuple(raw.get("attempts", ())),
            )
        except _UNREADABLE as error:
            raise PlatformError(
                f"cannot read the settings of job {self.name!r} in {self._settings}: {error!r}"
            ) from error

    def status(self) -> StoredDescription:
        """Return the description; raise PlatformError when it cannot be read."""
        try:
            read = read_json(self._status)
            for field in _REQUIRED_FIELDS:
                read[field]
        except _UNREADABLE as error:
            raise PlatformError(
                f"cannot read the description of job {self.name!r} in {self._status}: {error!r}"
            ) from error
        status: StoredDescription = read
        return status

    def write_status(self, status: StoredDescription) -> None:
        """Replace the description.

        On a full disk it stays as it is until the last one, for which space is reserved: what is
        freed before is soon taken by programs of the job.
        """
        try:
            write_json(self._status, status)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not is_terminal(status):
                return
            self._reserve.unlink(missing_ok=True)
            write_json(self._status, status)
        if is_terminal(status):
            self._reserve.unlink(missing_ok=True)

    def _open_lock(self) -> int:
        try:
            return os.open(self.lock, os.O_RDWR)  # as NFS needs it to lock
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return os.open(self.lock, os.O_RDONLY)

    def take_lock(self) -> int | None:
        """Return a descriptor that holds the job's lock, or None while another process holds it.

        The lock belongs to the open file: a child that inherits the descriptor keeps it, and the
        kernel releases it when the last copy is closed, however its process ended. Raises
        PlatformError when the lock file does not exist or belongs to another user.
        """
        try:
            descriptor = self._open_lock()
        except OSError as error:
            raise PlatformError(
                f"cannot determine whether job {self.name!r} is running: cannot open {self.lock}: "
                f"{error.strerror}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
