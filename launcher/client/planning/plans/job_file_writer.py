"""Write the job file of a recommended cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.catalogue import InstanceType
from launcher.client.home import check_new, writing
from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.step_model import data_workers, local_workers
from launcher.client.planning.workloads.workload import Workload
from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    JobSpec,
    ModelParallel,
    memory_shortages,
)
from launcher.errors import PlatformError
from launcher.shared import Role, write_complete

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation


def write_job_file(recommendation: Recommendation, path: Path) -> None:
    """Write a new job file with the recommended groups.

    Raises PlatformError if there is no recommendation, the file exists, or it cannot be written.
    """
    if recommendation.best is None:
        raise PlatformError(f"{path} is not written: {recommendation.reason}")
    check_new(path)
    job, workload = job_of_candidate(recommendation.best), recommendation.workload
    for each in memory_shortages(job, max(workload.bytes_per_worker, workload.bytes_per_batch)):
        raise PlatformError(f"{path} is not written: {each.what}")
    place = (
        f"# Planned for {recommendation.best.region}. A job goes to the region of your AWS "
        "configuration, such as AWS_DEFAULT_REGION.\n"
    )
    with writing(path):
        write_complete(path, place + job.to_yaml())


def job_of_candidate(candidate: Candidate) -> JobSpec:
    """Return the job of a cluster: its groups, the ranks, and the workers on idle vCPUs."""
    workload, train, data = candidate.workload, candidate.shape.train, candidate.shape.data
    job = JobSpec(
        entry_point=workload.entry_point,
        source_dir=".",
        distribution=_distribution(candidate),
    )
    service = DataService(
        datasets=workload.datasets,
        local_workers=local_workers(workload, train) if candidate.step.offloaded < 1 else 0,
        prefetch_bytes=candidate.step.prefetch.host_bytes,
    )
    if data is None:
        return job.replace(
            instance_type=train.instance.name,
            instance_count=train.count,
            data_service=service if service.local_workers and train.workers is None else None,
        )
    return job.replace(
        instance_groups=(
            InstanceGroup("data_group", data.instance.name, data.count, role=Role.DATA),
            InstanceGroup("train_group", train.instance.name, train.count, role=Role.TRAIN),
        ),
        data_service=replace(service, workers_per_host=_workers_per_host(workload, data.instance)),
    )


def _workers_per_host(workload: Workload, instance: InstanceType) -> int | None:
    """Return the workers of a data host; None for one on each CPU."""
    workers = data_workers(workload, instance)
    return workers if workers != instance.vcpu else None


def _distribution(candidate: Candidate) -> DataParallel | ModelParallel | None:
    if candidate.strategy and candidate.workload.model:
        return candidate.strategy.distribution(candidate.workload.model)
    return DataParallel() if candidate.shape.ranks > 1 else None
