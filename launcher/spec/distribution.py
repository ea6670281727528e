"""How training is spread over processes, and what the data hosts serve to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from launcher import catalogue
from launcher.contract import DEFAULT_HANG_TIMEOUT, ParallelPart
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


@dataclass(frozen=True, kw_only=True)
class ModelParallel:
    """Torchrun over the hosts of the train group only; `partitions` ranks share a model.

    Whatever ranks there are beyond that train replicas of the model.

    partitions: ranks that the model is cut for. virtual_stages: stages of each of them.
    microbatches: parts of a batch, which go through the stages one by one.
    schedule: "interleaved" goes back as soon as it can; "simple" runs all microbatches forward,
        then all back; "zero_bubble" fills pauses with the gradients of weights.
    placement: which ranks are neighbours: the stages of a replica ("cluster"), or the replicas of
        a stage ("spread").
    starts: the module at which each stage but the first begins. stages: or the stage that a module
        is pinned to, by its name, and default_stage for all others.
    processes_per_host, hang_timeout, accumulation, precision, recomputed: as for DataParallel.
    """

    partitions: int = 2
    microbatches: int = 4
    schedule: str = "interleaved"
    virtual_stages: int = 1
    placement: str = "cluster"
    starts: tuple[str, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    default_stage: int = 0
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    accumulation: int = 1
    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", names(self.starts))
        object.__setattr__(self, "stages", plain(self.stages))
        object.__setattr__(self, "recomputed", names(self.recomputed))

    @property
    def parallel(self) -> ParallelPart:
        """What of it the ranks are told."""
        return _part(self)

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


def _part(distribution: Torchrun) -> ParallelPart:
    """The fields that both have, under the same names."""
    told = {part.name for part in dataclasses.fields(ParallelPart)}
    return ParallelPart(
        **{name: value for name, value in vars(distribution).items() if name in told}
    )


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
