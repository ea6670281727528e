"""Distributions (how training is spread over processes) and the data service."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from launcher.client import catalogue
from launcher.client.spec.coerce import plain
from launcher.client.spec.spec_names import names
from launcher.shared import DEFAULT_HANG_TIMEOUT, PARTITION_FILE, ParallelPart
from launcher.shared.partitions import Partition


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """Data-parallel training under torchrun: each rank of the train group holds the whole model.

    processes_per_host: None means one per accelerator of the train group's type, at least one.
    hang_timeout: seconds that a rank may wait in one collective or for one batch. After that,
        every rank's stack is logged and the job fails. 0 disables the limit.
    accumulation: batches that a rank reads per optimizer step.
    compression: gradient compression between ranks: "fp16", "bf16", "int8" or "power_sgd".
    sharded: whether parameters, gradients and optimizer state are sharded over ranks (FSDP2).
    precision: "bf16" or "fp16", for automatic mixed precision.
    recomputed: modules whose activations are recomputed in the backward pass instead of kept.
    """

    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT
    accumulation: int = 1
    compression: str | None = None
    sharded: bool = False
    precision: str | None = None
    recomputed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "recomputed", names(self.recomputed))

    @property
    def parallel(self) -> ParallelPart:
        """The settings that are sent to the ranks."""
        return _part(self)

    def processes_on(self, instance_type: str) -> int:
        """Return the processes per host of a type; 1 if the type is not in the catalogue."""
        return _processes(self.processes_per_host, instance_type)


#: Settings that the partition file provides where the job leaves them unset.
OF_PARTITIONS = (
    "partitions",
    "microbatches",
    "virtual_stages",
    "schedule",
    "precision",
    "recomputed",
)


@dataclass(frozen=True, kw_only=True)
class ModelParallel:
    """Pipeline parallelism under torchrun: `partitions` ranks of the train group share a model.

    The remaining ranks train further replicas of the model. The model is cut by one of starts,
    stages, partition_file and auto_partition, or by the script itself.

    partitions: ranks that one model is split over; None means 2.
    virtual_stages: stages per partition; None means 1.
    microbatches: parts of a batch that pass through the stages one by one; None means 4.
    schedule: "interleaved" (the default for None) starts each backward pass as early as possible;
        "simple" runs all forward passes, then all backward passes; "zero_bubble" fills idle time
        with weight gradients.
    placement: which ranks are adjacent: the stages of a replica ("cluster") or the replicas of a
        stage ("spread").
    starts: the module at which each stage after the first begins.
    stages: the stage that each named module is pinned to; default_stage takes all others.
    partition_file: a file written by `launcher partition`, sent with the job. It provides the
        starts, and those settings of OF_PARTITIONS that the job leaves unset.
    auto_partition: whether rank 0 profiles the model at job start and chooses the starts.
    optimize: the goal of auto_partition: "speed" (the default for None) or "memory".
    memory_cap: bytes that auto_partition may use per rank.
    processes_per_host, hang_timeout, accumulation, precision, recomputed: as for DataParallel.
    """

    partitions: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    virtual_stages: int | None = None
    placement: str = "cluster"
    starts: tuple[str, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    default_stage: int = 0
    partition_file: str | None = None
    auto_partition: bool = False
    optimize: str | None = None
    memory_cap: int | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    accumulation: int = 1
    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", names(self.starts))
        object.__setattr__(self, "stages", plain(self.stages))
        object.__setattr__(self, "recomputed", names(self.recomputed))
        if isinstance(self.partition_file, os.PathLike):
            object.__setattr__(self, "partition_file", os.fspath(self.partition_file))

    @property
    def parallel(self) -> ParallelPart:
        """The settings that are sent to the ranks; a partition file under its name in the job."""
        name = "" if self.partition_file is None else PARTITION_FILE
        part = _part(self, partitions=2, microbatches=4)
        return dataclasses.replace(part, partition_file=name)

    def completed(self, partition: Partition) -> ModelParallel:
        """Return a copy with the starts of a partition and its values for settings unset here."""
        unsaid = {
            name: getattr(partition, name)
            for name in OF_PARTITIONS
            if getattr(self, name) in (None, ())
        }
        return dataclasses.replace(self, starts=partition.starts, **unsaid)

    def processes_on(self, instance_type: str) -> int:
        """Return the processes per host of a type; 1 if the type is not in the catalogue."""
        return _processes(self.processes_per_host, instance_type)


@dataclass(frozen=True, kw_only=True)
class Mpi:
    """The training script under Open MPI's mpirun, on the hosts of the train group.

    The image must contain Open MPI; neither ssh nor keys are needed.

    processes_per_host: as for DataParallel.
    custom_options: arguments for mpirun, which override Launcher's own for the same option:
        ("--mca", "btl_tcp_links", "4").
    """

    processes_per_host: int | None = None
    custom_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "custom_options", names(self.custom_options))

    def processes_on(self, instance_type: str) -> int:
        """Return the processes per host of a type; 1 if the type is not in the catalogue."""
        return _processes(self.processes_per_host, instance_type)


#: Keys of AWS's own libraries in SDK v2's `distribution`.
TOOLKIT_STRATEGIES = (
    "smdistributed",
    "parameter_server",
    "multi_worker_mirrored_strategy",
    "pytorchxla",
)


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """One of AWS's own libraries, started by the toolkit in AWS's image as in SDK v2.

    Launcher itself does not run in such a job: no data service, no commands and no per-host
    failure reasons.

    strategies: SDK v2's `distribution` without its instance_groups; the role of the train group
        replaces those.
    """

    strategies: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", plain(self.strategies))


#: The distributions that torchrun starts.
Torchrun: TypeAlias = DataParallel | ModelParallel
Distribution: TypeAlias = Torchrun | Mpi | Toolkit
#: Their keys in YAML; a Toolkit uses SDK v2's names of its strategies.
WORDS: Mapping[type[Any], str] = {
    DataParallel: "data_parallel",
    ModelParallel: "model_parallel",
    Mpi: "mpi",
}


def _part(distribution: Torchrun, **unsaid: Any) -> ParallelPart:
    """Return the shared fields of the two classes; `unsaid` holds the defaults for None."""
    told = {part.name for part in dataclasses.fields(ParallelPart)}
    said = {
        name: value
        for name, value in vars(distribution).items()
        if name in told and value is not None
    }
    return ParallelPart(**{**unsaid, **said})


def _processes(given: int | None, instance_type: str) -> int:
    if given is not None:
        return given
    known = catalogue.find(instance_type)
    return known.processes if known else 1


@dataclass(frozen=True, kw_only=True)
class DataService:
    """The datasets that the data group's hosts serve to the training script, and their settings.

    datasets: "module:function" for each dataset; data hosts import nothing else of the user's.
    workers_per_host: worker processes per data host; None means one per CPU.
    prefetch_bytes: maximum bytes of finished batches that a train host buffers for its ranks.
    start_timeout: seconds that hosts wait for each other at the start of the job (groups start
        minutes apart, and download their channels first). After that, the job fails.
    local_workers: worker processes on each train host, on CPUs that the script leaves idle.
    checksums: whether batches carry checksums, which the train hosts verify.
    metrics_port: port of the Prometheus endpoint on the first train host; None disables it.
    """

    datasets: tuple[str, ...] = ()
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    start_timeout: int = 60 * 60
    local_workers: int = 0
    checksums: bool = False
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", names(self.datasets))
