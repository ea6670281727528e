"""A training workload in numbers: what one step asks of CPUs, accelerators and the network."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.client.catalogue import InstanceType, cpu_speeds
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.parallel_strategy import ModelFigures, Strategy
from launcher.client.spec import BYTES_PER_WORKER

#: benchmarks/RESULTS.md, "The loader without a data group": 58 us on 2026-11-25, 22.7 and 131 on
#: other machines and days.
CPU_SECONDS_PER_BATCH = Measure(mean=5.8e-5, low=2.3e-5, high=1.31e-4)
#: Assumed: AWS publishes none. A job is billed from its downloads on (API reference,
#: DescribeTrainingJob, TrainingStartTime), an image has gigabytes, and our own start takes 3 s.
START_SECONDS = Measure(mean=180.0, low=60.0, high=420.0)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The demands of a training, measured or given.

    batch_size: samples per rank and step; a rank is a trainer process, one per accelerator core.
    cpu_seconds_per_sample: seconds of one vCPU to prepare a sample, of a CPU with speed 1.
    bytes_per_batch: bytes of one prepared batch of one rank.
    wait_seconds_per_sample: seconds for which a worker that prepares a sample waits for storage.
    bytes_per_worker: memory of a worker process, which limits their number.
    gpu_seconds_per_step: seconds of a step without waiting for data, by accelerator, such as
        "NVIDIA A100".
    communication_seconds_per_step: measured seconds that more than one train host adds to each
        step; None computes them from the model's gradients.
    cpu_seconds_per_batch: of the loader, beside its samples; in the data service SERVED_BATCHES
        times as much on each side.
    start_seconds: billed seconds of a job in which it does not train: the image, downloads,
        imports, results.
    samples_per_epoch, epochs: None if unknown, so that costs are per step only.
    cpu_speed: speed of CPU families ("c5") relative to the CPU of `cpu_seconds_per_sample`: 1.2
        prepares 1.2 times as many samples per vCPU. Others follow by public benchmarks.
    parallel_efficiency: share of a vCPU's speed that is left when all vCPUs of a host are busy.
    cpus_per_rank: vCPUs that each rank keeps busy itself.
    workers_per_rank: processes with which the script prepares the batches of a rank where there is
        no data group, as torch's DataLoader does; 0 for the rank itself, None for the data service.
    model: its memory, for the parallel strategy; None if unknown.
    entry_point, datasets: of the job that the plan writes.

    >>> workload = Workload(
    ...     batch_size=64,
    ...     cpu_seconds_per_sample=Measure.exact(0.01),
    ...     bytes_per_batch=9.6e6,
    ...     gpu_seconds_per_step={"NVIDIA A10G": Measure(mean=0.05, low=0.049, high=0.052)},
    ... )
    """

    batch_size: int
    cpu_seconds_per_sample: Measure
    bytes_per_batch: float
    gpu_seconds_per_step: Mapping[str, Measure]
    wait_seconds_per_sample: Measure = field(default_factory=lambda: Measure.exact(0.0))
    bytes_per_worker: float = BYTES_PER_WORKER
    communication_seconds_per_step: Measure | None = None
    cpu_seconds_per_batch: Measure = CPU_SECONDS_PER_BATCH
    start_seconds: Measure = START_SECONDS
    samples_per_epoch: int | None = None
    epochs: int | None = None
    cpu_speed: Mapping[str, float] = field(default_factory=dict)
    parallel_efficiency: float = 1.0
    cpus_per_rank: float = 1.0
    workers_per_rank: int | None = None
    model: ModelFigures | None = None
    entry_point: str = "train.py"
    datasets: tuple[str, ...] = ()

    @functools.cached_property
    def cpu_reference(self) -> float | None:
        """The speed of a c5 by the families that are given; None if none of them is compared."""
        known = cpu_speeds()
        given = [each / known[name].mean for name, each in self.cpu_speed.items() if name in known]
        return statistics.mean(given) if given else None

    @functools.cached_property
    def strategies(self) -> dict[tuple[InstanceType, int], Strategy]:
        """The parallel strategies that are known so far, by type and number of train hosts."""
        return {}

    @classmethod
    def from_yaml(cls, path: str | Path) -> Workload:
        """Read a workload's file; raises SpecError with every problem and its line."""
        from launcher.client.planning.workloads.workload_file import (
            read_workload_file,  # loads yaml
        )

        return cls(**read_workload_file(cls, Path(path)))
