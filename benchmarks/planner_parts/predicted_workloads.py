"""The six workloads that are predicted, and the prediction for this machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields

from launcher.client.planning import SECONDS_PER_GB


@dataclass(frozen=True, kw_only=True)
class PredictedWorkload:
    """name: of its dataset in inside/work_samples.py. train: a step's own work, as BENCH_TRAIN."""

    name: str
    batch_size: int
    batch_bytes: int
    train: str


#: Batches that are prepared ahead of the rank: few, so that the time of a step is a steady one.
BATCHES_AHEAD = 12
#: Light to heavy, skewed, large bytes, small samples; one sleeps, and one trains a real network.
WORKLOADS = (
    PredictedWorkload(name="tokens", batch_size=256, batch_bytes=307_200, train="burn:6000"),
    PredictedWorkload(name="speech", batch_size=16, batch_bytes=8_224_000, train="burn:3000"),
    PredictedWorkload(name="records", batch_size=16, batch_bytes=256, train="burn:4000"),
    PredictedWorkload(name="volumes", batch_size=8, batch_bytes=16_777_216, train="burn:5000"),
    PredictedWorkload(name="stored", batch_size=16, batch_bytes=80_000, train="burn:9000"),
    PredictedWorkload(name="pictures", batch_size=64, batch_bytes=1_049_088, train="model"),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredParts:
    """What is measured of a workload before it is predicted.

    sample_cpu, sample_wait: seconds to prepare a sample, with a CPU and waiting for storage.
    batch_bytes: of a prepared batch. efficiency: share of a core's speed that is left when all are
    busy. step_seconds, step_cpu: of a step, from its batch until the script asks for the next one.
    """

    sample_cpu: float
    sample_wait: float
    batch_bytes: float
    efficiency: float
    step_seconds: float
    step_cpu: float


def median_parts(found: Sequence[MeasuredParts]) -> MeasuredParts:
    """Return the medians of several measurements of a workload."""
    names = [each.name for each in fields(MeasuredParts)]
    return MeasuredParts(
        **{name: statistics.median(getattr(each, name) for each in found) for name in names}
    )


def predict(parts: MeasuredParts, batch_size: int, workers: int, cores: int) -> float:
    """Return the seconds of a step on one machine whose cores all processes share.

    Without workers, the script prepares each batch itself. With them, a step takes as long as the
    slowest of the training, the workers, and all CPU seconds on all cores.
    """
    preparing, waiting = batch_size * parts.sample_cpu, batch_size * parts.sample_wait
    if not workers:
        return preparing + waiting + parts.step_seconds
    moved = parts.batch_bytes / 1e9 * SECONDS_PER_GB
    cpu = preparing + 2 * moved + parts.step_cpu
    of_workers = (preparing + waiting + moved) / workers
    return max(parts.step_seconds, of_workers, cpu / cores / parts.efficiency)
