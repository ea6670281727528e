"""Real jobs on this machine beside their simulation: workers that sleep, and all else is real.

A worker that sleeps is a vCPU, so that there may be more of them than this machine has. The
simulation gets the same seconds for each batch, and knows nothing else of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import payload, variables
from data_service_parts.job import Job
from planner_parts.simulated_service import (
    SimulatedDataHost,
    SimulatedJob,
    SimulatedTrainHost,
    simulate,
)
from table.figures import Figure, at_most

_SAMPLES = 16
_SAMPLE_BYTES = 10_000
_PREFETCH = 1 << 28
_AGREES = 1.05


@dataclass(frozen=True)
class _Case:
    """batch_seconds: of a worker, on average. train_seconds: of a step that has its batch."""

    name: str
    workers: int
    batch_seconds: float
    train_seconds: float
    variation: float = 0.0
    local_workers: int = 0

    @property
    def all_workers(self) -> int:
        return self.workers + self.local_workers


_CASES = (
    _Case("8 workers, input-bound", 8, 0.4, 0.01),
    _Case("8 workers, skewed, input-bound", 8, 0.4, 0.01, variation=1.0),
    _Case("48 workers, skewed, input-bound", 48, 1.2, 0.005, variation=2.0),
    _Case("16 workers, balanced", 16, 0.48, 0.0285, variation=1.0),
    _Case("8 workers and 8 local ones, skewed", 8, 0.48, 0.005, variation=1.0, local_workers=8),
)


def measure(bench: Bench) -> Iterator[Figure]:
    for case in _CASES[: 1 if bench.is_quick else None]:
        simulated = _simulated(case, int(bench.pick(12, 2)))
        found = _measured(bench, case, int(bench.pick(12, 2)))
        ratios = [max(each / simulated, simulated / each) for each in found]
        what = f"{case.name}: {1000 * simulated:.1f} ms a step"
        yield Figure(row="real jobs", what=what, values=ratios, target=at_most(_AGREES))


def _simulated(case: _Case, turns: int) -> float:
    factors = payload.long_tail(case.variation)

    def batch_seconds(step: int) -> float:
        first = step * _SAMPLES
        own = sum(factors[(first + each) % len(factors)] for each in range(_SAMPLES))
        return float(own * case.batch_seconds / _SAMPLES)

    job = SimulatedJob(
        data_hosts=(SimulatedDataHost(workers=case.workers),),
        train_hosts=(SimulatedTrainHost(ranks=1, local_workers=case.local_workers),),
        batch_size=_SAMPLES,
        sample_seconds=case.batch_seconds / _SAMPLES,
        batch_bytes=_SAMPLES * _SAMPLE_BYTES,
        train_seconds=case.train_seconds,
        prefetch_bytes=_PREFETCH,
        batch_seconds=batch_seconds,
        are_cpus_counted=False,
    )
    steps = turns * case.all_workers
    return simulate(job, warm=2 * case.all_workers, steps=steps, seed=0).step_seconds


def _measured(bench: Bench, case: _Case, turns: int) -> list[float]:
    """Seconds a step, round by round."""
    job = Job(
        bench.folder / f"real-{case.name.replace(' ', '-').replace(',', '')}",
        "read_samples.py",
        "pipeline:skewed",
        workers_per_host=case.workers,
        prefetch_bytes=_PREFETCH,
        local_workers=case.local_workers,
    )
    settings = {
        variables.BATCH: str(_SAMPLES),
        variables.SAMPLE_BYTES: str(_SAMPLE_BYTES),
        variables.DATASET: "pipeline:skewed",
        variables.SLEEP: str(case.batch_seconds / _SAMPLES),
        variables.VARIATION: str(case.variation),
    }
    order = Order(
        seconds=0.0,
        least=turns * case.all_workers,
        warm_seconds=0.0,
        warm_batches=2 * case.all_workers,
        sleep=case.train_seconds,
        verify=0,
    )
    try:
        bench.harness.start(job, settings)
        job.await_workers(case.all_workers, patience=300)
        windows = [bench.harness.measure(job, order) for _ in range(bench.rounds)]
    finally:
        bench.harness.stop(job)
    return [window.seconds / window.batches for window in windows]
