"""The answers of one probe: what its hosts wrote, and the outcome of the job."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.jobs import Job, host_groups
from launcher.errors import LauncherError

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

_ARCHIVES = ("model.tar.gz", "output.tar.gz")


def collect(job: Job) -> dict[str, object]:
    """Read the results of a finished probe from its artifacts, on any platform.

    Raises LauncherError when no host wrote answers.
    """
    description = job.description()
    contents = {name: _contents(job, description, name) for name in _ARCHIVES}
    hosts = {
        answer["host"]: answer
        for name, text in contents["output.tar.gz"].items()
        if name.startswith("probe-")
        for answer in [json.loads(text)]
    }
    if not hosts:
        failure = job.failure()
        raise LauncherError(
            f"the probe {job.name} wrote no answers; its job is {description['TrainingJobStatus']} "
            f"({failure.headline if failure else 'no reason was given'}): see "
            f"`launcher logs {job.name}`"
        )
    return {
        "job": {
            "status": description["TrainingJobStatus"],
            "states": [each["Status"] for each in description["SecondaryStatusTransitions"]],
            "requested_groups": [group.name for group in host_groups(description)],
            "archives": {name: _listed(files) for name, files in contents.items()},
        },
        "hosts": dict(sorted(hosts.items())),
    }


def _contents(job: Job, description: TrainingJobDescription, name: str) -> dict[str, str]:
    """Return the files of an artifact by name; empty if the artifact does not exist."""
    base = description["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, name)
        try:
            job.session.download(f"{base}/{job.name}/output/{name}", archive)
        except LauncherError:
            return {}
        with tarfile.open(archive) as tar:
            return {
                member.name: file.read().decode()
                for member in tar.getmembers()
                if (file := tar.extractfile(member))
            }


def _listed(files: dict[str, str]) -> dict[str, Any]:
    return {"files": sorted(files), "same_name_is_of": files.get("same-name.txt")}
