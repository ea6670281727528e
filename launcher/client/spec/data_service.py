"""The data service of a job, as its author describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.client.spec.spec_names import names
from launcher.shared import DEFAULT_ENGINE


@dataclass(frozen=True, kw_only=True)
class DataService:
    """The datasets that the data group's hosts serve to the training script, and their settings.

    datasets: "module:function" for each dataset, and data hosts import nothing else; by default
        they serve what the script asks for, from the code that is sent with the job.
    workers_per_host: worker processes per data host; None means one per CPU.
    prefetch_bytes: maximum bytes of finished batches that a train host buffers for its ranks.
    start_timeout: seconds that hosts wait for each other at the start of the job (groups start
        minutes apart, and download their channels first). After that, the job fails.
    local_workers: worker processes on each train host, on CPUs that the script leaves idle.
    checksums: whether batches carry checksums, which the train hosts verify.
    metrics_port: port of the Prometheus endpoint on the first train host; None disables it.
    engine: what prepares the batches: Launcher's own service; "tf", tf.data's service, which
        `launcher.data.tf.distribute` reads; or the data engine of a package that the job's hosts
        have, by its name in the entry point group "launcher.data_engines".
    """

    datasets: Sequence[str] = ()
    workers_per_host: int | None = None
    prefetch_bytes: int = 256 * 1024 * 1024
    start_timeout: int = 60 * 60
    local_workers: int = 0
    checksums: bool = False
    metrics_port: int | None = None
    engine: str = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", names(self.datasets))
