"""How the training script is spread over processes, and what the data hosts serve to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher import catalogue
from launcher.contract import DEFAULT_HANG_TIMEOUT
from launcher.spec.forms import plain
from launcher.spec.names import names


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """The training script under torchrun, over the hosts of the train group only.

    processes_per_host: None means one per accelerator of the train group's type, at least one.
    hang_timeout: seconds that a rank may wait in one collective, or for one batch; then every
        rank's stack is written to the logs and the job fails. 0 means for ever.
    """

    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT

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
