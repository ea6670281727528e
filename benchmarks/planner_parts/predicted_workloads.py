"""The six workloads that are predicted, and the prediction for this machine."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.client.planning.step_model import SECONDS_PER_GB


@dataclass(frozen=True, kw_only=True)
class PredictedWorkload:
    """name: of its dataset in inside/work_samples.py. train: a step's own work, as BENCH_TRAIN."""

    name: str
    batch_size: int
    train: str


#: Light to heavy, skewed, large bytes, small samples; one sleeps, and one trains a real network.
WORKLOADS = (
    PredictedWorkload(name="light", batch_size=512, train="burn:30000"),
    PredictedWorkload(name="heavy", batch_size=8, train="burn:4000"),
    PredictedWorkload(name="skewed", batch_size=16, train="burn:6000"),
    PredictedWorkload(name="large", batch_size=16, train="burn:8000"),
    PredictedWorkload(name="remote", batch_size=8, train="sleep:0.03"),
    PredictedWorkload(name="images", batch_size=64, train="model"),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredParts:
    """What is measured of a workload before it is predicted.

    sample_cpu, sample_wall: seconds to prepare a sample. batch_bytes: of a prepared batch.
    step_seconds, step_cpu: of a step whose batch is there already.
    """

    sample_cpu: float
    sample_wall: float
    batch_bytes: float
    step_seconds: float
    step_cpu: float


def predict(parts: MeasuredParts, batch_size: int, workers: int, cores: int) -> float:
    """Return the seconds of a step on one machine whose cores all processes share.

    Without workers, the script prepares each batch itself. With them, a step takes as long as the
    slowest of the training, the workers, and all CPU seconds on all cores.
    """
    prepared = batch_size * parts.sample_wall
    if not workers:
        return prepared + parts.step_seconds
    moved = parts.batch_bytes / 1e9 * SECONDS_PER_GB
    cpu = batch_size * parts.sample_cpu + 2 * moved + parts.step_cpu
    return max(parts.step_seconds, (prepared + moved) / workers, cpu / cores)
