"""The job file of a recommended cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.planning.candidates import Candidate
from launcher.client.planning.step_model import local_workers
from launcher.client.spec import DataParallel, DataService, InstanceGroup, JobSpec, ModelParallel
from launcher.errors import PlatformError
from launcher.shared import Role
from launcher.shared.complete_files import write_complete

if TYPE_CHECKING:
    from launcher.client.planning.recommendation import Recommendation


def write_planned_job(recommendation: Recommendation, path: Path) -> None:
    """Write a new job file with the recommended groups.

    Raises PlatformError if there is no recommendation, the file exists, or it cannot be written.
    """
    if recommendation.best is None:
        raise PlatformError(f"{path} is not written: {recommendation.reason}")
    if path.exists():
        raise PlatformError(f"{path} is already there; name another file, or remove it first")
    try:
        write_complete(path, planned_job(recommendation.best).to_yaml())
    except OSError as error:
        raise PlatformError(f"{path} cannot be written: {error.strerror}") from error


def _distribution(each: Candidate) -> DataParallel | ModelParallel | None:
    if each.strategy and each.workload.model:
        return each.strategy.distribution(each.workload.model)
    return DataParallel() if each.shape.ranks > 1 else None


def planned_job(each: Candidate) -> JobSpec:
    """Return the job of a cluster: its groups, the ranks, and the workers on idle vCPUs."""
    workload, train, data = each.workload, each.shape.train, each.shape.data
    job = JobSpec(
        entry_point=workload.entry_point,
        source_dir=".",
        distribution=_distribution(each),
    )
    service = DataService(
        datasets=workload.datasets,
        local_workers=local_workers(workload, train) if each.step.offloaded < 1 else 0,
        prefetch_bytes=each.step.prefetch.host_bytes,
    )
    if data is None:
        return job.replace(
            instance_type=train.instance.name,
            instance_count=train.count,
            data_service=service if service.local_workers else None,
        )
    return job.replace(
        instance_groups=(
            InstanceGroup("data_group", data.instance.name, data.count, role=Role.DATA),
            InstanceGroup("train_group", train.instance.name, train.count, role=Role.TRAIN),
        ),
        data_service=service,
    )
