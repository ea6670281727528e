"""A job that has ended, written as the platform of local jobs leaves one."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from launcher.client.sessions import Isolation, JobFolder, Settings, job_arn

if TYPE_CHECKING:
    from launcher.client.sessions import StoredDescription
    from launcher.shared import TrainingJobRequest

#: As `line_times.py` writes them: seconds since the epoch, and the size of the file.
_TIME = struct.Struct("<dQ")


@dataclass(frozen=True, slots=True)
class WrittenLine:
    """A line of a host's events, and when it was written."""

    time: float
    text: str


@dataclass(frozen=True, kw_only=True)
class WrittenJob:
    """A job's groups, as (name, type, count), and the seconds since the epoch of its training."""

    name: str
    groups: Sequence[tuple[str, str, int]]
    begin: float
    end: float

    def write(self, home: Path, lines: Mapping[str, Iterable[WrittenLine]]) -> JobFolder:
        """Write the job below LAUNCHER_HOME; lines: of each host, in their order."""
        folder = JobFolder(home / "jobs" / self.name)
        folder.path.mkdir(parents=True)
        request = self._request(home)
        settings = Settings(isolation=Isolation.PROCESS, boot="written")
        folder.write(cast("TrainingJobRequest", request), settings, self._status(request))
        for host, written in lines.items():
            stream = f"{host}-{int(self.begin)}"
            folder.log(stream).touch()
            self._write_lines(folder.events(stream), written)
        return folder

    @staticmethod
    def _write_lines(path: Path, lines: Iterable[WrittenLine]) -> None:
        size = 0
        with path.open("wb") as file, path.with_suffix(".events-times").open("wb") as times:
            for line in lines:
                size += file.write(f"{line.text}\n".encode())
                times.write(_TIME.pack(line.time, size))

    def _request(self, home: Path) -> dict[str, Any]:
        groups = [
            {"InstanceGroupName": name, "InstanceType": kind, "InstanceCount": count}
            for name, kind, count in self.groups
        ]
        return {
            "TrainingJobName": self.name,
            "AlgorithmSpecification": {"TrainingImage": "local", "TrainingInputMode": "File"},
            "RoleArn": "arn:aws:iam::000000000000:role/local",
            "InputDataConfig": [],
            "OutputDataConfig": {"S3OutputPath": f"file://{home}/storage"},
            "ResourceConfig": {"InstanceGroups": groups, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 5 * 86400},
        }

    def _status(self, request: Mapping[str, Any]) -> StoredDescription:
        begin, end = self.begin, self.end
        states = [
            ("Starting", begin - 300, begin - 120),
            ("Downloading", begin - 120, begin),
            ("Training", begin, end),
            ("Uploading", end, end + 60),
            ("Completed", end + 60, end + 60),
        ]
        status = {
            **request,
            "TrainingJobArn": job_arn(self.name, region="local", account="000000000000"),
            "TrainingJobStatus": "Completed",
            "SecondaryStatus": "Completed",
            "CreationTime": begin - 300,
            "TrainingStartTime": begin - 120,
            "TrainingEndTime": end + 60,
            "LastModifiedTime": end + 60,
            "TrainingTimeInSeconds": round(end - begin),
            "BillableTimeInSeconds": round(end - begin) + 180,
            "LocalIsolation": "process",
            "LocalNotes": [],
            "FinalMetricDataList": [],
            "SecondaryStatusTransitions": [
                {"Status": word, "StartTime": first, "EndTime": last}
                for word, first, last in states
            ],
        }
        return cast("StoredDescription", status)
