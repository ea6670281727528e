"""The six workloads that are predicted, and the prediction for this machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields

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
    PredictedWorkload(name="tokens", batch_size=256, train="burn:6000"),
    PredictedWorkload(name="speech", batch_size=16, train="burn:3000"),
    PredictedWorkload(name="records", batch_size=16, train="burn:4000"),
    PredictedWorkload(name="volumes", batch_size=8, train="burn:5000"),
    PredictedWorkload(name="stored", batch_size=16, train="burn:9000"),
    PredictedWorkload(name="pictures", batch_size=64, train="perceptron"),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredParts:
    """What is measured of a workload before it is predicted.

    sample_cpu, sample_wait: seconds to prepare a sample, with a CPU and waiting for storage.
    batch_bytes: of a prepared batch. efficiency: share of a core's speed that is left when all are
    busy. step_seconds, step_cpu: of a step whose batch is there already.
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
    """Return the seconds of a step on one machine whose cores all processes share fairly.

    Without workers, the script prepares each batch itself. With them, the longer of the training
    and of the preparing is slowed down while the other one computes too: it then has one of `cores`
    equal shares among the processes that compute. More workers than cores take turns.
    """
    preparing = batch_size * parts.sample_cpu
    waiting = batch_size * parts.sample_wait
    if not workers:
        return preparing + waiting + parts.step_seconds
    preparing += 2 * parts.batch_bytes / 1e9 * SECONDS_PER_GB  # sent, and received
    busy = min(workers, cores)
    together = min(1.0, cores / (busy + 1)) * parts.efficiency
    alone = parts.efficiency if busy == cores else 1.0
    training, trained = parts.step_seconds, parts.step_cpu
    if training >= preparing / busy + waiting / workers:
        slowed = preparing / busy / together * (1 - together)
        return training + slowed * trained / training
    prepared_meanwhile = min(preparing, busy * trained)
    left = (preparing - prepared_meanwhile) / busy / alone
    return waiting / workers + trained / together + left
