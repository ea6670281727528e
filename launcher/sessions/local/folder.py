"""The folder of one local job: all that is known about it, for any process that asks.

jobs/<name>/request.json     the CreateTrainingJob request, as it came
            settings.json    how this machine runs it (Settings)
            status.json      the DescribeTrainingJob document, replaced at each change
            reserve          room for the last status.json, given up when the disk is full
            lock             held (flock) by the platform process for as long as it lives
            stop             exists when someone asked the job to stop
            interrupt        exists when someone asked for an interruption (spot instances)
            fetched/         the channels that came from S3, until the job ends
            unsent/          results and checkpoints that S3 has not taken yet
            scratch          link to the hosts' short temporary folder
            platform.log     what the platform process has to say
            logs/            one file per host: algo-1-<start>.log
            hosts/algo-1/    one tree per host: ml/ is its /opt/ml
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.contract import HostFailure
from launcher.errors import PlatformError
from launcher.sessions.local.description import ACCOUNT, REGION, is_terminal, job_arn
from launcher.sessions.local.files import read_json, write_json
from launcher.sessions.local.isolation import Isolation

#: Of the files in logs/, whose names are otherwise those of their streams.
LOG_SUFFIX = ".log"
#: Several times what a description has.
_RESERVE_BYTES = 64 * 1024
#: What a document raises that somebody has damaged.
_UNREADABLE = (OSError, ValueError, TypeError, KeyError)
#: The fields without which a description is damaged.
_ALWAYS_THERE = (
    "TrainingJobName",
    "TrainingJobStatus",
    "SecondaryStatus",
    "SecondaryStatusTransitions",
    "CreationTime",
    "ResourceConfig",
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the request does not say, because it is about this machine.

    stop_grace_seconds: between SIGTERM and SIGKILL; SageMaker's is 120.
    boot: what tells this run of the machine from the next.
    host_failure: what a failed host means; SageMaker is assumed to fail the job (unverified).
    region, account: where the job's hosts are told that they are.
    """

    isolation: Isolation
    boot: str
    stop_grace_seconds: float = 120.0
    host_failure: HostFailure = HostFailure.FAIL
    region: str = REGION
    account: str = ACCOUNT

    def arn(self, name: str) -> str:
        """What the job of a name is called, here and in its hosts."""
        return job_arn(name, region=self.region, account=self.account)


@dataclass(frozen=True)
class JobFolder:
    """The names of the files, and the few ways they are read and written."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def created(self) -> float:
        """When the job was made: its request is written once."""
        return self._request.stat().st_mtime if self._request.exists() else 0.0

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, stream: str) -> Path:
        """The file of one log, which may not be there."""
        return self.logs / f"{stream}{LOG_SUFFIX}"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def fetched(self) -> Path:
        return self.path / "fetched"

    @property
    def unsent(self) -> Path:
        return self.path / "unsent"

    @property
    def platform_log(self) -> Path:
        return self.path / "platform.log"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def stop(self) -> Path:
        return self.path / "stop"

    @property
    def interrupt(self) -> Path:
        return self.path / "interrupt"

    @property
    def scratch(self) -> Path:
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
        self, request: Mapping[str, Any], settings: Settings, status: Mapping[str, Any]
    ) -> None:
        """Fill a new folder."""
        for folder in (self.logs, self.hosts):
            folder.mkdir()
        self.lock.touch()
        self._reserve.write_bytes(b"\n" * _RESERVE_BYTES)
        write_json(self._request, request)
        write_json(self._settings, asdict(settings))
        write_json(self._status, status)

    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = read_json(self._request)
        return request

    def settings(self) -> Settings:
        """How this machine runs the job; PlatformError when that cannot be read."""
        try:
            raw = read_json(self._settings)
            return Settings(
                isolation=Isolation(raw["isolation"]),
                boot=raw["boot"],
                stop_grace_seconds=raw["stop_grace_seconds"],
                host_failure=HostFailure(raw.get("host_failure", HostFailure.FAIL)),
                region=raw.get("region", REGION),
                account=raw.get("account", ACCOUNT),
            )
        except _UNREADABLE as error:
            raise PlatformError(
                f"the settings of job {self.name!r} cannot be read: {self._settings}: {error!r}"
            ) from error

    def status(self) -> dict[str, Any]:
        """The description; PlatformError when that cannot be read."""
        try:
            status: dict[str, Any] = read_json(self._status)
            for field in _ALWAYS_THERE:
                status[field]
        except _UNREADABLE as error:
            raise PlatformError(
                f"the description of job {self.name!r} cannot be read: {self._status}: {error!r}"
            ) from error
        return status

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace the description; on a disk that its own job has filled, with the last room."""
        try:
            write_json(self._status, status)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._reserve.unlink(missing_ok=True)
            write_json(self._status, status)
        if is_terminal(status):
            self._reserve.unlink(missing_ok=True)

    def take_lock(self) -> int | None:
        """A descriptor that holds the job's lock, or None while another process holds it.

        The lock belongs to the open file: a child that inherits the descriptor keeps it, and it
        falls when the last copy is closed, however its process ended. Raises PlatformError when it
        is not there, or another user's.
        """
        try:
            descriptor = os.open(self.lock, os.O_RDWR)
        except OSError as error:
            raise PlatformError(
                f"nobody can say whether job {self.name!r} runs: {self.lock}: {error.strerror}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
