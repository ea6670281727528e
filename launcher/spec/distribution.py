"""How training is spread over processes, and what the data hosts serve to it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from launcher import catalogue
from launcher.contract import DEFAULT_HANG_TIMEOUT, PARTITION_FILE, ParallelPart
from launcher.partitions import Partition
from launcher.spec.forms import plain
from launcher.spec.names import names


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """Torchrun over the hosts of the train group only; each rank trains the whole model.

    processes_per_host: None means one per accelerator of the train group's type, at least one.
    hang_timeout: seconds that a rank may wait in one collective, or for one batch; then every
        rank's stack is written to the logs and the job fails. 0 means for ever.
    accumulation: batches that a rank reads for one optimizer step.
    compression: of the gradients that ranks exchange: "fp16", "bf16", "int8" or "power_sgd".
    sharded: whether ranks share parameters, gradients and the optimizer's state (FSDP2).
    precision: "bf16" or "fp16", for automatic mixed precision.
    recomputed: modules whose activations are not kept, but computed again in the backward pass.
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
        """What of it the ranks are told."""
        return _part(self)

    def processes_on(self, instance_type: str) -> int:
        """Processes on one host of that type; one where the catalogue does not know the type."""
        return _processes(self.processes_per_host, instance_type)


#: What the file of a partition says of a job that does not say it itself.
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
    """Torchrun over the hosts of the train group only; `partitions` ranks share a model.

    Whatever ranks there are beyond that train replicas of the model.

    partitions: ranks that the model is cut for; None means 2. virtual_stages: stages of each of
        them; None means 1.
    microbatches: parts of a batch, which go through the stages one by one; None means 4.
    schedule: "interleaved" (None, too) goes back as soon as it can; "simple" runs all microbatches
        forward, then all back; "zero_bubble" fills pauses with the gradients of weights.
    placement: which ranks are neighbours: the stages of a replica ("cluster"), or the replicas of
        a stage ("spread").
    starts: the module at which each stage but the first begins. stages: or the stage that a module
        is pinned to, by its name, and default_stage for all others.
    partition_file: or a file that `launcher partition` made, which travels with the job. It says
        the starts, and of OF_PARTITIONS what the job does not say.
    auto_partition: or whether rank 0 measures the model when the job begins, and finds the starts:
        the best for `optimize`, "speed" (None, too) or "memory", in memory_cap bytes of a rank.
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
        """What of it the ranks are told; of a file, by what name they find it."""
        name = "" if self.partition_file is None else PARTITION_FILE
        part = _part(self, partitions=2, microbatches=4)
        return dataclasses.replace(part, partition_file=name)

    def completed(self, partition: Partition) -> ModelParallel:
        """With the starts of a partition, and what it says of what is not said here."""
        unsaid = {
            name: getattr(partition, name)
            for name in OF_PARTITIONS
            if getattr(self, name) in (None, ())
        }
        return dataclasses.replace(self, starts=partition.starts, **unsaid)

    def processes_on(self, instance_type: str) -> int:
        """Processes on one host of that type; one where the catalogue does not know the type."""
        return _processes(self.processes_per_host, instance_type)


@dataclass(frozen=True, kw_only=True)
class Mpi:
    """The training script under Open MPI's mpirun, over the hosts of the train group only.

    The image must have Open MPI; neither ssh nor keys are needed.

    processes_per_host: as for DataParallel. custom_options: words for mpirun, which replace
        Launcher's own where they say the same: ("--mca", "btl_tcp_links", "4").
    """

    processes_per_host: int | None = None
    custom_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "custom_options", names(self.custom_options))

    def processes_on(self, instance_type: str) -> int:
        """Processes on one host of that type; one where the catalogue does not know the type."""
        return _processes(self.processes_per_host, instance_type)


#: What AWS's own libraries are called in SDK v2's `distribution`.
TOOLKIT_STRATEGIES = (
    "smdistributed",
    "parameter_server",
    "multi_worker_mirrored_strategy",
    "pytorchxla",
)


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """One of AWS's own libraries, started by the toolkit in AWS's image, as SDK v2 has it.

    Nothing of Launcher runs in such a job: no data service, no commands, no reasons of hosts.

    strategies: SDK v2's `distribution`, without its instance_groups: the train group has the role.
    """

    strategies: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", plain(self.strategies))


#: What torchrun starts.
Torchrun: TypeAlias = DataParallel | ModelParallel
Distribution: TypeAlias = Torchrun | Mpi | Toolkit
#: What they are called in YAML; a Toolkit is called what SDK v2 calls its strategies.
WORDS: Mapping[type[Any], str] = {
    DataParallel: "data_parallel",
    ModelParallel: "model_parallel",
    Mpi: "mpi",
}


def _part(distribution: Torchrun, **unsaid: Any) -> ParallelPart:
    """The fields that both have, under the same names. unsaid: what takes the place of a None."""
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
    """What the data group's hosts serve to the training script's loaders.

    datasets: "module:function" for each dataset; nothing else is ever imported by the data hosts.
    workers_per_host: worker processes per data host; None means one per CPU.
    prefetch_bytes: bytes of finished batches a train host holds ahead of its ranks, at most.
    start_timeout: seconds that hosts wait for each other at the start of the job (groups start
        minutes apart, and download their channels first); then the job fails.
    local_workers: worker processes on each train host, on CPUs that the script leaves idle.
    checksums: whether batches carry checksums, which the train hosts verify.
    metrics_port: the first train host serves its numbers there, for Prometheus; None for nowhere.
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
