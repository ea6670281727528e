"""How the training script is spread over processes, and what the data hosts serve to it."""

from __future__ import annotations

from dataclasses import dataclass

from launcher import catalogue
from launcher.contract import DEFAULT_HANG_TIMEOUT
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
        if self.processes_per_host is not None:
            return self.processes_per_host
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
    """

    datasets: tuple[str, ...] = ()
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    start_timeout: int = 60 * 60

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", names(self.datasets))
